// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/named/sink_to_users.hpp"
#include "cleave/pipe/module_program.hpp"
#include "cleave/pipe/pipe_plan.hpp"

namespace cleave::detail {

/// Of each value whether a gradient arrives at it when what depends on it is differentiated: of one that no
/// node makes if `starts(v)`, of a result of node n if `passes(n)` and it reads a value of which that holds.
/// Both are asked by position, in order. O(V + E).
template <std::unsigned_integral Index, class Starts, class Passes>
std::vector<char> gradient_need(basic_snapshot_arrays<Index> const& s, Starts starts, Passes passes) {
  std::vector<char> need(s.values());
  for (std::size_t v = 0; v < s.values(); ++v)
    if (s.producer[v] == none<Index>) need[v] = starts(v);
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    bool any = false;
    for (Index const v : s.operands[n]) any |= need[v] != 0;
    if (any && passes(n))
      for (Index const v : s.results[n]) need[v] = 1;
  }
  return need;
}

}  // namespace cleave::detail

/// Which values of a module_graph a gradient arrives at.
namespace cleave {

/// Which of the caller's inputs need a gradient.
enum class input_need : std::uint8_t { none, marked };

struct module_gradient_options {
  /// `marked`: those whose metadata `requires_grad` is true. Parameters need one unless theirs is false.
  input_need inputs = input_need::marked;
  std::string mode = "gradient mode";  ///< the kind of scope that turns gradients on and off
  std::vector<std::string> regions = {
      "wrap_with_set_grad_enabled"};  ///< operations with a body that their first argument turns gradients
                                      ///< on or off for
};

}  // namespace cleave

namespace cleave::detail {

/// Reads what metadata and gradient modes say; `gradient_need_of` is its one use.
class module_gradient_reader {
 public:
  module_gradient_reader(module_program const& p, module_gradient_options const& options)
      : p_(p), options_(options) {
    bool on = true;
    for (std::size_t n = 0; n < p.s.nodes(); ++n) {
      if (p.scopes.is_mark(n) && p.scopes.kinds[p.scopes.list[p.scopes.at[n]].kind].name == options.mode)
        on = truth(node(n), on);
      modes_.push_back(on);
    }
  }

  std::vector<char> read() const {
    return gradient_need(
        static_cast<basic_snapshot_arrays<std::uint32_t> const&>(p_.s),
        [&](std::size_t v) { return starts(v); }, [&](std::size_t n) { return passes(n); });
  }

 private:
  module_node const& node(std::size_t n) const {
    return p_.whole()[p_.s.node[static_cast<std::uint32_t>(n)]];
  }

  /// The truth value that is the first argument of `n`.
  static bool truth(module_node const& n, bool otherwise) {
    auto const* b = n.args.empty() ? nullptr : std::get_if<bool>(&n.args[0].front());
    return b ? *b : otherwise;
  }

  static bool says(std::vector<keyword_argument> const& metadata, bool otherwise) {
    for (auto const& [key, value] : metadata)
      if (key == "requires_grad" && !value.empty())
        if (auto const* b = std::get_if<bool>(&value.front())) return *b;
    return otherwise;
  }

  bool starts(std::size_t v) const {
    module_graph const& g = p_.whole();
    auto const& n = g[p_.s.value[v]];
    if (n.kind == node_kind::placeholder)
      return options_.inputs == input_need::marked && says(n.metadata, false);
    auto const* a = g.find_attribute(n.target);
    return a && a->what == module_attribute::kind::parameter && says(a->metadata, true);
  }

  /// Whether what `n` makes can carry a gradient: numbers that are whole or true or false cannot.
  bool passes(std::size_t at) const {
    auto const& n = node(at);
    if (!modes_[at]) return false;
    for (auto const& region : options_.regions)
      if (n.target == region && !truth(n, true)) return false;
    for (auto const& [key, value] : n.metadata)
      if (key == "dtype" && !value.empty())
        if (auto const* type = std::get_if<std::string>(&value.front()))
          return !(type->starts_with("i") || type->starts_with("u") || type->starts_with("b1") ||
                   *type == "bool");
    return n.target != "detach" && n.target != "detach_" && says(n.metadata, true);
  }

  module_program const& p_;
  module_gradient_options const& options_;
  std::vector<char> modes_;  // of a node: gradients are on
};

}  // namespace cleave::detail

namespace cleave {

/// Of each value of `p` whether a gradient arrives at it: it depends on a parameter, or on an input that is
/// marked, through nodes under a gradient mode that is on and outside regions that turn it off. O(V + E).
inline std::vector<char> gradient_need_of(module_program const& p,
                                          module_gradient_options const& options = {}) {
  return detail::module_gradient_reader(p, options).read();
}

/// An input of a stage: one that needs a gradient is detached from what made it, once for each stage, and its
/// gradient is sent back; any other is passed as it is.
struct boundary_value {
  std::uint32_t value;
  bool needs_gradient;

  bool operator==(boundary_value const&) const = default;
};

/// The inputs of each stage of `p`, in their order. O(their number).
inline std::vector<std::vector<boundary_value>> boundary_values(pipe_plan const& p,
                                                                std::vector<char> const& need) {
  std::vector<std::vector<boundary_value>> stages;
  for (auto const& stage : p.plan.stages) {
    stages.emplace_back();
    for (auto const v : stage.inputs) stages.back().push_back({v, need[v] != 0});
  }
  return stages;
}

/// The last step before a program is planned: what needs no gradient and is made of the caller's inputs, of
/// constants and of state alone goes where it is read, so that nothing is sent for it; what is run for its
/// effect on the results of one node goes where that node is. As a rule fewer values are sent then; what is
/// made of several values that others read too, which might mean more, stays. What writes in place stays, and
/// so do modes.
struct sink_non_differentiable {
  module_gradient_options options = {};

  cut_partition operator()(module_program const& p, cut_partition parts) const {
    auto const need = gradient_need_of(p, options);
    basic_snapshot_arrays<std::uint32_t> const& s = p.s;
    std::vector<char> free(s.nodes());  // of a node: it can be run elsewhere
    std::vector<char> returned(s.values());
    for (auto const v : s.outputs) returned[v] = 1;
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      auto const& target = p.whole()[p.s.node[static_cast<std::uint32_t>(n)]].target;
      bool const writes = target.ends_with('_') && !target.ends_with("__");
      if (p.scopes.is_mark(n) || writes) continue;
      auto maker = none<std::uint32_t>;  // of what it reads: the node that stays where it is
      bool several = false, read = false, carries = false;
      auto brought = none<std::uint32_t>;  // a value that may have to be sent once this is elsewhere
      bool shared = false, many = false;
      for (auto const v : s.operands[n]) {
        auto const m = s.producer[v];
        if (m == none<std::uint32_t>) continue;
        many |= brought != none<std::uint32_t> && brought != v;
        brought = v;
        shared |= s.users[v].size() > 1 || returned[v] != 0;
        if (free[m]) continue;
        several |= maker != none<std::uint32_t> && maker != m;
        maker = m;
      }
      for (auto const v : s.results[n]) {
        read |= !s.users[v].empty();
        carries |= need[v] != 0;
      }
      free[n] = !(many && shared) && (read ? !carries && maker == none<std::uint32_t> : !several);
    }
    return sink_to_users(s, std::move(parts), [&](std::size_t n) { return free[n] != 0; });
  }
};

}  // namespace cleave
