// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/costed_module_graph.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_scopes.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/split/modules/module_call_graph.hpp"

namespace cleave::inline v0_2 {

/// Options that say where a program may be cut and which state its nodes run under.
struct module_program_options {
  std::string marker = "pipe_split";  ///< target of the calls that mark a cut
  std::string calls = "scope";        ///< metadata key that lists the calls around a node, outermost first
  /// Kinds of scopes (gradient mode, autocast) that stages must set up.
  std::vector<module_scope> scopes = detail::torch_scopes();
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for a cut inside the body of an operation: a marker, or a module named by a cut. The witness is the
/// node that holds the body.
class body_cut_error : public witness_error<module_graph::position> {
 public:
  body_cut_error(module_graph const& g, module_graph::position n, std::string const& what)
      : witness_error(what + " is in the body of node " + quoted(g[n].name) +
                          "; cuts must lie between nodes of the program itself: cut before or after that "
                          "node, or inline the body",
                      n) {}
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A module_graph prepared for cutting into a pipe. Calls are its nodes. Reads of the same attribute path are
/// one state value. The program refers to the graph, which must outlive it.
struct module_program {
  module_program_options options;
  module_call_graph graph;
  snapshot<module_call_graph> s;       ///< weights and bytes come from the metadata `cost` and `bytes`
  basic_scopes<std::uint32_t> scopes;  ///< the scopes of the nodes, and the nodes that open and close them

  /// Returns the original graph.
  module_graph const& whole() const { return graph.graph(); }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reads `g` into a program.
/// \throws missing_target_error, cost_error, and the errors of scopes_of and add_scopes
inline module_program program_of(module_graph const& g, module_program_options options = {}) {
  module_program p{std::move(options), module_call_graph(g, tensor_holding::held), {}, {}};
  auto const marks = module_marks(g, p.options.scopes);
  auto s = snapshot_of(p.graph);
  if (s.companions.item.empty()) s.companions = {};
  p.scopes = module_scopes_of(s, p.options.scopes, marks);
  p.s = add_scopes(std::move(s), p.scopes);
  for (auto const v : p.s.value) p.s.bytes.push_back(cost_of(g, v).bytes);
  for (auto const n : p.s.node.handles()) p.s.weight.push_back(cost_of(g, n).cost.value_or(0));
  return p;
}

/// Deleted for temporaries: the graph must outlive the program.
module_program program_of(module_graph&& g, module_program_options options = {}) = delete;

/// Returns the graphs nested in `g` at any depth, each with the node of `g` that contains it. O(attributes
/// and nodes).
inline std::vector<std::pair<module_graph::position, module_graph const*>> bodies_of(module_graph const& g) {
  std::vector<std::pair<module_graph::position, module_graph const*>> bodies;
  for (module_graph::position n = 0; n < g.list().size(); ++n) {
    if (g[n].kind != node_kind::get_attr && g[n].kind != node_kind::call_module) continue;
    auto const* a = g.find_attribute(g[n].target);
    if (a && !a->body.empty()) bodies.emplace_back(n, &a->body.front());
  }
  for (std::size_t i = 0; i < bodies.size(); ++i)  // the list grows while nested bodies are found
    for (auto const& a : bodies[i].second->attributes())
      if (!a.body.empty()) bodies.emplace_back(bodies[i].first, &a.body.front());
  return bodies;
}

/// Lists the module calls around each node, in the form that `cuts_at_modules` expects.
class module_calls {
 public:
  explicit module_calls(module_program const& p) : p_(p) {}

  /// Returns the calls listed in the metadata of node `n`. A call_module node also lists its own call;
  /// repeated calls are numbered `path@1`, `path@2`, … Must be called for the nodes in order.
  std::vector<std::string> operator()(std::size_t n) {
    auto const& node = p_.whole()[p_.s.node[static_cast<std::uint32_t>(n)]];
    std::vector<std::string> calls;
    for (auto const& [key, value] : node.metadata)
      if (key == p_.options.calls)
        for (auto const& t : value)
          if (auto const* path = std::get_if<std::string>(&t)) calls.push_back(*path);
    if (node.kind != node_kind::call_module) return calls;
    auto const at = called_.insert(node.target);
    if (at == times_.size()) times_.push_back(0);
    auto const before = times_[at]++;
    calls.push_back(before == 0 ? node.target : node.target + "@" + std::to_string(before));
    return calls;
  }

 private:
  module_program const& p_;
  numbering<std::string, std::uint32_t> called_;
  std::vector<std::size_t> times_;  // indexed like `called_`: the number of calls so far
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a cut at each call of the marker.
/// \throws marker_error; body_cut_error if the body of an operation contains a marker
inline cut_list cuts_at_markers(module_program const& p) {
  auto const marks = [&](module_node const& n) {
    return n.kind == node_kind::call_function && n.target == p.options.marker;
  };
  for (auto const& [holder, body] : detail::bodies_of(p.whole()))
    for (auto const& n : body->list())
      if (marks(n)) throw detail::body_cut_error(p.whole(), holder, "marker " + quoted(n.name));
  basic_snapshot_arrays<std::uint32_t> const& flat = p.s;
  return cuts_at_markers(
      flat, [&](std::size_t n) { return marks(p.whole()[p.s.node[static_cast<std::uint32_t>(n)]]); });
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the path under which the program knows the module at `path`. Modules with the same storage are one
/// module, so another path may be the known one.
inline std::string called_path(module_graph const& g, std::string const& path,
                               numbering<std::string, std::uint32_t> const& called) {
  auto const* a = g.find_attribute(path);
  if (called.find(path) != none<std::uint32_t> || !a || a->storage.empty()) return path;
  for (auto const& other : g.attributes())
    if (other.what == module_attribute::kind::module && other.storage == a->storage &&
        called.find(other.path) != none<std::uint32_t>)
      return other.path;
  return path;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a cut before or after each call of the named modules. A module is known if the graph registers it
/// or if the metadata of a node lists it.
/// \throws unknown_module_error if a module is not known; body_cut_error if it is inside the body of an
/// operation
inline cut_list cuts_at_modules(module_program const& p, std::vector<module_cut> cuts) {
  module_graph const& g = p.whole();
  std::vector<std::vector<std::string>> calls;
  numbering<std::string, std::uint32_t> known, called;
  detail::module_calls calls_of(p);
  for (std::size_t n = 0; n < p.s.nodes(); ++n) {
    calls.push_back(calls_of(n));
    for (auto const& call : calls.back()) called.insert(std::string(detail::module_of_call(call)));
  }
  for (auto const& path : called.handles()) known.insert(path);
  for (auto const& a : g.attributes())
    if (a.what == module_attribute::kind::module) known.insert(a.path);
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    auto const within = [&](std::string const& body) { return cuts[i].path.starts_with(body + "."); };
    for (module_graph::position n = 0; n < g.list().size() && known.find(cuts[i].path) == none<std::uint32_t>;
         ++n) {
      auto const* a = g[n].kind == node_kind::call_module ? g.find_attribute(g[n].target) : nullptr;
      if (a && !a->body.empty() && within(g[n].target))
        throw detail::body_cut_error(g, n, "cut #" + std::to_string(i) + ": module " + quoted(cuts[i].path));
    }
    cuts[i].path = detail::called_path(g, cuts[i].path, called);
  }
  basic_snapshot_arrays<std::uint32_t> const& flat = p.s;
  return cuts_at_modules(flat, cuts, [&](std::size_t n) -> auto const& { return calls[n]; }, known.handles());
}

}  // namespace cleave
