// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the text of a token that is not a container, for a message. A node is shown by its name in `g`.
inline std::string token_text(module_graph const& g, token const& t) {
  if (auto const* b = std::get_if<bool>(&t)) return *b ? "true" : "false";
  if (auto const* i = std::get_if<std::int64_t>(&t)) return std::to_string(*i);
  if (auto const* d = std::get_if<double>(&t)) return std::to_string(*d);
  if (auto const* s = std::get_if<std::string>(&t)) return quoted(*s);
  if (auto const* o = std::get_if<opaque>(&t)) return printable(o->text);
  if (auto const* n = std::get_if<node_ref>(&t)) return printable(g[n->node].name);
  return "null";
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the text of the subtree of `a` at `at`, for a message. Nodes are shown by their names in `g`:
/// `(conv1, {'loss': 3})`. A long text is cut short. Does not recurse.
inline std::string argument_text(module_graph const& g, module_argument const& a, std::size_t at = 0) {
  struct level {
    container what;
    std::size_t met;  // elements met so far
  };
  constexpr std::size_t limit = 200;
  std::string text;
  std::vector<level> open;
  for (auto const end = detail::subtree_end(a, at); at < end && text.size() <= limit; ++at) {
    if (!open.empty() && open.back().met > 0)
      text += open.back().what.what == container::kind::dict && open.back().met % 2 == 1 ? ": " : ", ";
    if (!open.empty()) ++open.back().met;
    auto const* c = std::get_if<container>(&a[at]);
    if (c) text += c->what == container::kind::list ? "[" : c->what == container::kind::dict ? "{" : "(";
    if (c)
      open.push_back({*c, 0});
    else
      text += detail::token_text(g, a[at]);
    for (; !open.empty() && open.back().met == elements_of(open.back().what); open.pop_back()) {
      auto const what = open.back().what.what;
      text += what == container::kind::list ? "]" : what == container::kind::dict ? "}" : ")";
    }
  }
  return printable(text, limit);
}

}  // namespace cleave
