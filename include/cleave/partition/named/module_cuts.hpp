// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/named/cut_points.hpp"

/// Cuts before and after the calls of modules, in a flat program whose nodes know the calls they were written
/// in.
namespace cleave {

enum class module_side : std::uint8_t { begin, end };

/// A cut at each call of a module.
struct module_cut {
  std::string path;
  module_side side = module_side::begin;
};

}  // namespace cleave

namespace cleave::detail {

/// `begin` or `end`.
/// \throws error that names any other text
inline module_side module_side_of(std::string_view text) {
  if (text != "begin" && text != "end")
    throw error("unknown side of a module " + quoted(text) + "; a cut is at its 'begin' or its 'end'");
  return text == "begin" ? module_side::begin : module_side::end;
}

}  // namespace cleave::detail

namespace cleave {

/// A cut at a module that the program does not have. The witness: its place in the list of cuts.
class unknown_module_error : public witness_error<std::size_t> {
 public:
  using witness_error::witness_error;
};

}  // namespace cleave

namespace cleave::detail {

/// The path of the module of a call: `a.b@2` is the third call of `a.b`.
inline std::string_view module_of_call(std::string_view call) {
  auto const at = call.rfind('@');
  if (at == call.npos || at + 1 == call.size()) return call;
  for (char const c : call.substr(at + 1))
    if (c < '0' || c > '9') return call;
  return call.substr(0, at);
}

/// Where each call begins and ends: the first and the last node that are inside.
class call_spans {
 public:
  struct span {
    std::string_view call;
    std::size_t first, last;
  };

  /// `calls_of(n)` is a range of text: the calls that node n is inside.
  template <class F>
  call_spans(std::size_t nodes, F calls_of) {
    for (std::size_t n = 0; n < nodes; ++n)
      for (auto const& call : calls_of(n)) {
        auto const at = names_.insert(std::string(call));
        if (at == spans_.size()) spans_.emplace_back(n, n);
        spans_[at].second = n;
      }
  }

  /// By first appearance.
  std::vector<span> list() const {
    std::vector<span> all;
    for (std::uint32_t i = 0; i < spans_.size(); ++i)
      all.push_back({names_[i], spans_[i].first, spans_[i].second});
    return all;
  }

 private:
  numbering<std::string, std::uint32_t> names_;
  std::vector<std::pair<std::size_t, std::size_t>> spans_;
};

/// The first entry of `cuts` whose path is not among `modules`.
inline std::optional<std::size_t> find_unknown_module(std::vector<module_cut> const& cuts,
                                                      std::vector<std::string> const& modules) {
  numbering<std::string, std::uint32_t> known;
  for (auto const& path : modules) known.insert(path);
  for (std::size_t i = 0; i < cuts.size(); ++i)
    if (known.find(cuts[i].path) == none<std::uint32_t>) return i;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// A cut before the first node of each call of a module, or after the last one. `calls_of(n)` is a range of
/// text: the calls that node n is inside, each a module's path and, from its second call on, `@1`, `@2`, ….
/// `modules` are the paths that there are, none: those of the calls. A module that no node is inside gives an
/// idle cut. O(V depth + cuts).
/// \throws unknown_module_error where there is no such module, with the nearest paths; nothing is cut then.
template <std::unsigned_integral Index, class F>
cut_list cuts_at_modules(basic_dense<Index> const& s, std::vector<module_cut> const& cuts, F calls_of,
                         std::vector<std::string> modules = {}) {
  detail::call_spans const calls(s.nodes(), calls_of);
  auto const spans = calls.list();
  if (modules.empty())
    for (auto const& c : spans) modules.emplace_back(detail::module_of_call(c.call));
  if (auto const i = detail::find_unknown_module(cuts, modules))
    throw unknown_module_error("cut #" + std::to_string(*i) + ": there is no module " +
                                   quoted(cuts[*i].path) + suggestion(nearest_names(cuts[*i].path, modules)),
                               *i);
  numbering<std::string_view, std::uint32_t> paths;
  std::vector<std::vector<std::size_t>> calls_of_path;  // in step with `paths`
  for (std::size_t c = 0; c < spans.size(); ++c) {
    auto const at = paths.insert(detail::module_of_call(spans[c].call));
    if (at == calls_of_path.size()) calls_of_path.emplace_back();
    calls_of_path[at].push_back(c);
  }
  cut_list list;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    bool const begins = cuts[i].side == module_side::begin;
    auto const what = begins ? cut_kind::module_begin : cut_kind::module_end;
    auto const at = paths.find(cuts[i].path);
    if (at == none<std::uint32_t>) {
      list.idle.push_back({what, i, idle_reason::never_called});
      continue;
    }
    for (auto const c : calls_of_path[at])
      list.points.push_back({what, begins ? spans[c].first : spans[c].last + 1, i});
  }
  return list;
}

/// The same for a graph whose nodes have paths, which tell no call of a module from another.
/// \throws unknown_module_error
template <hierarchical_graph Graph, std::unsigned_integral Index>
cut_list cuts_at_modules(Graph const& g, snapshot<Graph, Index> const& s,
                         std::vector<module_cut> const& cuts) {
  basic_dense<Index> const& flat = s;
  return cuts_at_modules(flat, cuts, [&](std::size_t n) {
    std::string_view const path = g.path(s.node[static_cast<Index>(n)]);
    std::vector<std::string> calls;
    for (auto end = path.find('.'); !path.empty(); end = path.find('.', end + 1)) {
      calls.emplace_back(path.substr(0, end));
      if (end == path.npos) break;
    }
    return calls;
  });
}

}  // namespace cleave
