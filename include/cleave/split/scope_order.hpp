// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/scoped_snapshot.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/partition/model/part_graph.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/split/part_order.hpp"
#include "cleave/split/plan_options.hpp"

namespace cleave::detail {

/// Two nodes under one scope that must not be cut, in different parts.
struct cut_scope {
  std::size_t scope;
  std::size_t first, second;
};

/// The first forbidden scope whose nodes have different parts. O(V), and scopes that overlap once each.
template <std::unsigned_integral Index>
std::optional<cut_scope> find_cut_scope(basic_dense<Index> const& s, partition const& p,
                                        basic_scopes<Index> const& scopes) {
  std::size_t done = 0;  // nodes below are looked at together with the one before each
  for (std::size_t i = 0; i < scopes.list.size(); ++i) {
    auto const& x = scopes.list[i];
    if (scopes.policy(x) != scope_policy::forbid) continue;
    done = std::max<std::size_t>(done, x.first + std::size_t{1});
    for (; done < (std::min)(p.of.size(), s.nodes()) && is_under(x, done); ++done)
      if (!is_replicable(s, done) && p.of[done] != p.of[x.first]) return cut_scope{i, x.first, done};
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// A scope that must not be cut is cut. The witness: two nodes of it.
class scope_cut_error : public witness_error<std::pair<std::size_t, std::size_t>> {
 public:
  template <std::unsigned_integral Index>
  scope_cut_error(basic_dense<Index> const& s, partition const& p, basic_scopes<Index> const& scopes,
                  detail::cut_scope const& cut)
      : witness_error("scope " + quoted(scopes.kinds[scopes.list[cut.scope].kind].name) +
                          " must not be cut: node " + s.label(cut.first) + " is in part " +
                          std::to_string(index(p.of[cut.first])) + ", node " + s.label(cut.second) +
                          " in part " + std::to_string(index(p.of[cut.second])) + "; give both one part",
                      {cut.first, cut.second}) {}
};

}  // namespace cleave

namespace cleave::detail {

/// A state that is set nobody can take back: `early` runs before it is first set, `late` after, and the part
/// of `late` comes first.
struct late_start {
  std::uint32_t kind;
  std::size_t early, late;
};

/// Parts need each other in an order in which a node would run under a state that is set after it. The
/// witness: that node, and one that needs the state set.
class scope_order_error : public witness_error<std::pair<std::size_t, std::size_t>> {
 public:
  template <std::unsigned_integral Index>
  scope_order_error(basic_dense<Index> const& s, partition const& p, basic_scopes<Index> const& scopes,
                    late_start const& x)
      : witness_error("scope " + quoted(scopes.kinds[x.kind].name) + ": node " + s.label(x.early) +
                          " in part " + std::to_string(index(p.of[x.early])) +
                          " runs before the state is first set, but part " +
                          std::to_string(index(p.of[x.late])) + ", where node " + s.label(x.late) +
                          " needs it set, cannot run after it; cut elsewhere",
                      {x.early, x.late}) {}
};

/// In which order parts keep the states that are set; `scoped_order` is its one use. Who runs before the
/// first setting has a node before it, who sets has one from it on.
template <std::unsigned_integral Index>
class state_order {
 public:
  state_order(basic_dense<Index> const& s, partition const& p, basic_scopes<Index> const& scopes)
      : first_(p.parts, s.nodes()), last_(p.parts, s.nodes()), setting_(scopes.kinds.size(), s.nodes()) {
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      if (is_replicable(s, n)) continue;
      last_[index(p.of[n])] = n;
      if (auto& first = first_[index(p.of[n])]; first == s.nodes() && !scopes.is_mark(n)) first = n;
    }
    for (auto& last : last_)
      if (last == s.nodes()) last = 0;  // an empty part; where node 0 sets, nobody starts before
    for (auto const& x : scopes.list)
      if (x.is_set && scopes.is_copied(x) && setting_[x.kind] == s.nodes()) setting_[x.kind] = x.first;
  }

  std::optional<late_start> find_late_start(std::vector<stage_id> const& order) const {
    for (std::uint32_t k = 0; k < setting_.size(); ++k) {
      std::optional<std::uint32_t> set;  // the first part that sets
      for (stage_id const i : order) {
        if (set && starts_before(k, index(i))) return late_start{k, first_[index(i)], last_[*set]};
        if (!set && sets(k, index(i))) set = index(i);
      }
    }
    return std::nullopt;
  }

  /// `parts` and for each kind two empty parts more: those that do not set, before those that set; and one
  /// that does both, before those that only set.
  part_graph gated(part_graph const& parts) const {
    auto const count = static_cast<std::uint32_t>(first_.size());
    part_graph more;
    more.first_node = parts.first_node;
    more.first_node.resize(count + 2 * setting_.size(), 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      for (auto const to : parts.dependents[i]) more.dependents.add(to);
      for (std::uint32_t k = 0; k < setting_.size(); ++k)
        if (starts_before(k, i)) more.dependents.add(count + 2 * k + (sets(k, i) ? 1 : 0));
      more.dependents.close();
    }
    for (std::uint32_t k = 0; k < setting_.size(); ++k)
      for (bool const both : {false, true}) {
        for (std::uint32_t i = 0; i < count; ++i)
          if (sets(k, i) && !(both && starts_before(k, i))) more.dependents.add(i);
        more.dependents.close();
      }
    return more;
  }

 private:
  bool starts_before(std::uint32_t k, std::uint32_t part) const { return first_[part] < setting_[k]; }
  bool sets(std::uint32_t k, std::uint32_t part) const { return last_[part] >= setting_[k]; }

  std::vector<std::size_t> first_, last_;  // of a part: its first node that is no mark, its last node
  std::vector<std::size_t> setting_;       // of a kind: the first node that sets it
};

/// The order that the policy gives, or, unless late settings are accepted, where a node would then run under
/// a state that is set after it, another that the policy allows. `s` and `p` have passed `check_partition`,
/// `parts` is their part_graph.
/// O(V + E + parts log parts).
/// \throws scope_order_error
template <std::unsigned_integral Index>
std::vector<stage_id> scoped_order(basic_dense<Index> const& s, partition const& p, part_graph const& parts,
                                   basic_scopes<Index> const& scopes, plan_options const& options) {
  auto order = emission_order(parts, options.stages, options.priority);
  if (options.settings == late_settings::accepted) return order;
  state_order<Index> const states(s, p, scopes);
  auto const late = states.find_late_start(order);
  if (!late) return order;
  order = emission_order(states.gated(parts), options.stages, options.priority);
  std::erase_if(order, [&](stage_id i) { return index(i) >= p.parts; });
  if (order.size() < p.parts) throw scope_order_error(s, p, scopes, *late);
  if (auto const still = states.find_late_start(order)) throw scope_order_error(s, p, scopes, *still);
  return order;
}

}  // namespace cleave::detail
