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
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/scopes.hpp"

namespace cleave::inline v0_2 {

/// The operands that the marks of a scope may have. With `as_torch`, an exit has its entry as its only
/// operand, an entry has only constants, and a setting has one truth value.
enum class mark_operands : std::uint8_t { any, as_torch };

/// A kind of scope of a module_graph, defined by the targets of its marks. Marks `enter` and `leave` the
/// scope, or `set` a state. A target may have a path before it: `torch.amp._enter_autocast`. An exit ends the
/// scope of the entry that is its first operand, or else the innermost scope.
struct module_scope {
  scope_kind kind;
  std::string enter = {}, leave = {};
  std::string set = {};
  mark_operands operands = mark_operands::any;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the scopes in graphs of torch.fx: autocast and gradient mode.
inline std::vector<module_scope> torch_scopes() {
  std::vector<module_scope> scopes(2);
  scopes[0].kind.name = "autocast";
  scopes[0].enter = "_enter_autocast";
  scopes[0].leave = "_exit_autocast";
  scopes[1].kind.name = "gradient mode";
  scopes[1].set = "_set_grad_enabled";
  for (auto& scope : scopes) scope.operands = mark_operands::as_torch;
  return scopes;
}

/// Thrown if the operands of a call that enters, exits or sets a scope prevent copying it. The witness is the
/// node.
using mark_operand_error = tagged_error<struct mark_operand_tag, module_graph::position>;

/// A call that is a mark of a scope.
struct module_mark {
  module_graph::position node;
  scope_mark<module_graph::position> mark;
};

/// Finds the marks of a module_graph, for `module_marks`.
class module_mark_finder {
 public:
  using position = module_graph::position;

  module_mark_finder(module_graph const& g, std::vector<module_scope> const& scopes)
      : g_(g), scopes_(scopes) {}

  std::optional<scope_mark<position>> find(position n) const {
    module_node const& node = g_[n];
    for (std::uint32_t k = 0; k < scopes_.size(); ++k) {
      auto const& scope = scopes_[k];
      using enum scope_action;
      if (names(node.target, scope.enter)) return scope_mark<position>{enter, k};
      if (names(node.target, scope.set)) return scope_mark<position>{set, k};
      if (names(node.target, scope.leave)) return scope_mark<position>{leave, k, first_operand(node)};
    }
    return std::nullopt;
  }

  /// Returns the operands that mark `n` must have, as text, if it does not have them.
  std::optional<std::string> find_fault(position n, scope_mark<position> const& mark) const {
    if (scopes_[mark.kind].operands == mark_operands::any) return std::nullopt;
    auto const& args = g_[n].args;
    bool const one = args.size() == 1 && g_[n].kwargs.empty();
    if (mark.what == scope_action::leave && !(one && mark.entered))
      return "one: the entry of the scope that it leaves";
    if (mark.what == scope_action::set && !(one && std::holds_alternative<bool>(args[0].front())))
      return "one: true or false";
    if (mark.what == scope_action::enter && !g_.operands(n).empty()) return "constants only, no nodes";
    return std::nullopt;
  }

 private:
  /// Returns true if `target` is `name`, or a path that ends with it.
  static bool names(std::string_view target, std::string_view name) {
    if (name.empty() || !target.ends_with(name)) return false;
    return target.size() == name.size() || target[target.size() - name.size() - 1] == '.';
  }

  static std::optional<position> first_operand(module_node const& n) {
    auto const* of = n.args.empty() ? nullptr : std::get_if<node_ref>(&n.args[0].front());
    return of ? std::optional(of->node) : std::nullopt;
  }

  module_graph const& g_;
  std::vector<module_scope> const& scopes_;
};

/// Returns the calls of `g` that are marks of `scopes`, in program order. O(V * scopes).
/// \throws mark_operand_error if a mark has other operands than its scope allows
inline std::vector<module_mark> module_marks(module_graph const& g, std::vector<module_scope> const& scopes) {
  module_mark_finder const finder(g, scopes);
  std::vector<module_mark> marks;
  for (auto const n : g.nodes()) {
    auto const mark = finder.find(n);
    if (!mark) continue;
    if (auto const fault = finder.find_fault(n, *mark))
      throw mark_operand_error("node " + quoted(g[n].name) + ": " + quoted(g[n].target) + " has " +
                                   std::to_string(g[n].args.size()) + " operands; it must have " + *fault,
                               n);
    marks.push_back({n, *mark});
  }
  return marks;
}

/// Returns the scopes that `marks` make in `s`, a snapshot whose nodes are positions of the module_graph.
/// \throws unpaired_scope_error if a scope is never left, or a mark leaves a scope that is not open
template <class Snapshot>
auto module_scopes_of(Snapshot const& s, std::vector<module_scope> const& kinds,
                      std::vector<module_mark> const& marks) {
  std::vector<scope_kind> list;
  for (auto const& k : kinds) list.push_back(k.kind);
  return scopes_of(s, std::move(list),
                   [&, at = std::size_t{}](module_graph::position n) mutable
                       -> std::optional<scope_mark<module_graph::position>> {
                     if (at == marks.size() || marks[at].node != n) return std::nullopt;
                     return marks[at++].mark;
                   });
}

}  // namespace cleave::detail
