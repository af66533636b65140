// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cleave/analysis/loss_search.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave {

/// The subtree of `a` at `at` as one would write it, nodes by their names in `g`, cut short for a message.
inline std::string argument_text(module_graph const& g, module_argument const& a, std::size_t at) {
  struct level {
    container what;
    std::size_t next;
  };
  std::string text;
  std::vector<level> open;
  auto const end = subtree_end(a, at);
  for (; at < end && text.size() < 300; ++at) {
    if (auto const* c = std::get_if<container>(&a[at])) {
      text += c->what == container::kind::list ? "[" : c->what == container::kind::dict ? "{" : "(";
      open.push_back({*c, 0});
    } else {
      auto const* s = std::get_if<std::string>(&a[at]);
      auto const* n = std::get_if<node_ref>(&a[at]);
      auto const* b = std::get_if<bool>(&a[at]);
      auto const* i = std::get_if<std::int64_t>(&a[at]);
      auto const* d = std::get_if<double>(&a[at]);
      text += s                                               ? "'" + printable(*s) + "'"
              : n                                             ? printable(g[n->node].name)
              : b                                             ? std::string(*b ? "true" : "false")
              : i                                             ? std::to_string(*i)
              : std::holds_alternative<std::monostate>(a[at]) ? "null"
                                                              : "…";
      if (!open.empty()) ++open.back().next;
    }
    for (; !open.empty() && open.back().next == elements_of(open.back().what);) {
      auto const what = open.back().what.what;
      text += what == container::kind::list ? "]" : what == container::kind::dict ? "}" : ")";
      open.pop_back();
      if (!open.empty()) ++open.back().next;
    }
    if (!open.empty() && open.back().next > 0)
      text += open.back().what.what == container::kind::dict && open.back().next % 2 == 1 ? ": " : ", ";
  }
  return printable(text, 200);
}

/// One sentence, in the names of the graph.
inline std::string loss_fault_text(module_graph const& g, module_argument const& spec, loss_fault const& f) {
  if (f.what == loss_fault::kind::no_output)
    return "loss: the program gives nothing; it needs an output node with an argument";
  auto const& output = g[*g.output()].args.front();
  auto const given = "output " + argument_text(g, output, f.output);
  auto const marks =
      "the specification " + argument_text(g, spec.empty() ? module_argument{token()} : spec, f.spec);
  switch (f.what) {
    case loss_fault::kind::no_output:
      break;
    case loss_fault::kind::not_found:
      return "loss: " + marks + " marks no value of " + given + "; write true for the loss";
    case loss_fault::kind::found_twice:
      return "loss: " + argument_text(g, output, f.output) + " and " + argument_text(g, output, f.other) +
             " are both marked as the loss; mark one, or ask for the first";
    case loss_fault::kind::not_a_value:
      return "loss: " + given + " is marked as the loss, and is not one value that the program computes";
    case loss_fault::kind::different_kind:
      return "loss: " + marks + " is of another kind than " + given + ", for which it stands";
    case loss_fault::kind::different_count:
      return "loss: " + marks + " differs in its number of elements from " + given;
    case loss_fault::kind::different_keys:
      return "loss: " + marks + " differs in its keys from " + given + ", or a key is there twice";
    case loss_fault::kind::unknown_mark:
      return "loss: " + marks + " is neither true, false nor a list, tuple or dict of these";
  }
  return {};
}

/// A program's loss cannot be told. The witness says why.
class loss_error : public witness_error<loss_fault> {
 public:
  loss_error(module_graph const& g, module_argument const& spec, loss_fault const& f)
      : witness_error(loss_fault_text(g, spec, f), f) {}
};

/// Looks for the loss of `g` as `search_for_loss` does in its output. Total.
inline loss_search search_for_loss(module_graph const& g, module_argument const& spec,
                                   loss_options const& options = {}) {
  auto const output = g.output();
  bool const given = output && !g[*output].args.empty();
  return search_for_loss(given ? g[*output].args.front() : module_argument(), spec, options);
}

/// The loss of `g`, or nothing where none is asked for.
/// \throws loss_error
inline std::optional<module_graph::position> loss_of(module_graph const& g, module_argument const& spec,
                                                     loss_options const& options = {}) {
  auto const search = search_for_loss(g, spec, options);
  if (search.fault) throw loss_error(g, spec, *search.fault);
  return search.node;
}

}  // namespace cleave
