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

namespace cleave::inline v0_2::detail {

/// Returns, for each value, 1 if a gradient arrives at it in a backward pass. A value without a producer
/// needs a gradient if `starts(v)`. A result of node n needs one if `passes(n)` and an operand of n needs
/// one. Both functions are called by position, in order. O(V + E).
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

/// The values of a module_graph that need a gradient.
namespace cleave::inline v0_2 {

/// The caller's inputs that need a gradient: none, or those marked by their metadata.
enum class input_need : std::uint8_t { none, marked };

/// Options of `gradient_need_of`.
struct module_gradient_options {
  /// `marked`: inputs with the metadata `requires_grad` true. Parameters need a gradient unless their
  /// `requires_grad` is false.
  input_need inputs = input_need::marked;
  std::string mode = "gradient mode";  ///< kind of scope that switches gradients on and off
  /// Operations with a body whose first argument switches gradients on or off for the body.
  std::vector<std::string> regions = {"wrap_with_set_grad_enabled"};
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reads gradient modes and metadata. Helper of `gradient_need_of`.
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

  /// Returns the first argument of `n` if it is a boolean, else `otherwise`.
  static bool truth(module_node const& n, bool otherwise) {
    auto const* b = n.args.empty() ? nullptr : std::get_if<bool>(&n.args[0].front());
    return b ? *b : otherwise;
  }

  /// Returns the metadata `requires_grad`, or `otherwise` if it is absent.
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

  /// Returns true if the results of the node can carry a gradient. Integers and booleans cannot.
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
  std::vector<char> modes_;  // for each node: true if gradients are on
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns, for each value of `p`, 1 if a gradient arrives at it. Such a value depends on a parameter or on a
/// marked input. The nodes on the way must run with gradients on and outside regions that switch them off.
/// O(V + E).
inline std::vector<char> gradient_need_of(module_program const& p,
                                          module_gradient_options const& options = {}) {
  return detail::module_gradient_reader(p, options).read();
}

/// An input of a stage. If it needs a gradient, each stage detaches it from its producer once and sends its
/// gradient back. Otherwise it is passed unchanged.
struct boundary_value {
  std::uint32_t value;  ///< position in the snapshot of the program
  bool needs_gradient;

  bool operator==(boundary_value const&) const = default;
};

/// Returns the inputs of each stage of `p`, in their order. O(number of inputs).
inline std::vector<std::vector<boundary_value>> boundary_values(pipe_plan const& p,
                                                                std::vector<char> const& need) {
  std::vector<std::vector<boundary_value>> stages;
  for (auto const& stage : p.plan.stages) {
    stages.emplace_back();
    for (auto const v : stage.inputs) stages.back().push_back({v, need[v] != 0});
  }
  return stages;
}

/// A change for `make_module_pipe` that moves nodes without gradients to the stages that use them, so that
/// fewer values are sent.
///
/// A node moves if it needs no gradient and depends only on inputs of the caller, constants and state. A node
/// that runs for its effect on the results of a single node moves to the stage of that node. A node that
/// reads several values stays if any of them has other readers or is returned, because moving it could
/// increase the number of values sent. Nodes that write in place and mode switches stay.
struct sink_non_differentiable {
  module_gradient_options options = {};

  cut_partition operator()(module_program const& p, cut_partition parts) const {
    auto const need = gradient_need_of(p, options);
    basic_snapshot_arrays<std::uint32_t> const& s = p.s;
    std::vector<char> free(s.nodes());  // for each node: true if it may run in another stage
    std::vector<char> returned(s.values());
    for (auto const v : s.outputs) returned[v] = 1;
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      auto const& target = p.whole()[p.s.node[static_cast<std::uint32_t>(n)]].target;
      bool const writes = target.ends_with('_') && !target.ends_with("__");
      if (p.scopes.is_mark(n) || writes) continue;
      auto maker = none<std::uint32_t>;  // among the producers of its operands: the one that does not move
      bool several = false, read = false, carries = false;
      auto brought = none<std::uint32_t>;  // a value that may have to be sent if this node moves
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
