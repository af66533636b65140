// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2::detail {

/// Builds a plan step by step.
template <std::unsigned_integral Index>
class plan_maker {
 public:
  plan_maker(basic_snapshot_arrays<Index> const& s, partition const& p)
      : s_(s), part_(p.of), leaves_(s.values()) {
    plan_.stages.resize(p.parts);
  }

  basic_plan<Index> make(std::vector<stage_id> order, output_order outputs,
                         input_order inputs = input_order::first_use) {
    return make(std::move(order), outputs, inputs, [](auto&, auto const&) {});
  }

  /// Builds the plan. `copy_marks(stages, order)` may add nodes to the stages before their interfaces are
  /// computed.
  template <class F>
  basic_plan<Index> make(std::vector<stage_id> order, output_order outputs, input_order inputs,
                         F copy_marks) {
    plan_.order = std::move(order);
    for (Index const v : s_.outputs) leaves_[v] = 1;
    place_replicable();
    for (std::size_t n = 0; n < s_.nodes(); ++n)
      for (part_id const home : parts_of(n)) stage(home).nodes.push_back(static_cast<Index>(n));
    copy_marks(plan_.stages, plan_.order);
    std::vector<std::uint32_t> seen(s_.values(), index(no_part));
    auto followed = s_.companions.rows() > 0 ? seen : std::vector<std::uint32_t>();
    for (stage_id const to : plan_.order) receive(to, inputs, seen, followed);
    outputs == output_order::production ? give_by_production() : give_by_first_use();
    return std::move(plan_);
  }

 private:
  basic_stage<Index>& stage(part_id i) { return plan_.stages[index(i)]; }

  /// Returns the parts that hold `n`.
  std::span<part_id const> parts_of(std::size_t n) const {
    if (is_replicable(s_, n)) return copies_[n];
    return {&part_[n], 1};
  }

  /// Finds the parts of each replicable node, users before producers: the parts of its readers. If it has no
  /// reader, or the caller reads a result, it is also in its own part.
  void place_replicable() {
    if (std::find(s_.replicable.begin(), s_.replicable.end(), 1) == s_.replicable.end()) return;
    copies_.resize(s_.nodes());
    for (std::size_t n = 0; n < s_.nodes() && s_.companions.rows() > 0; ++n)
      for (Index const v : s_.operands[n]) {
        if (is_replicable(s_, n) || !comes_from_outside(v, part_[n])) continue;
        for (Index const c : s_.companions[v])
          if (Index const m = s_.producer[c]; m != none<Index> && is_replicable(s_, m))
            copies_[m].push_back(part_[n]);
      }
    for (std::size_t n = s_.nodes(); n-- > 0;) {
      if (!is_replicable(s_, n)) continue;
      auto& c = copies_[n];
      bool given = false;
      for (Index const v : s_.results[n]) {
        given |= leaves_[v] != 0;
        for (Index const user : s_.users[v]) c.insert(c.end(), parts_of(user).begin(), parts_of(user).end());
      }
      if (part_[n] == no_part && !c.empty()) part_[n] = *std::min_element(c.begin(), c.end());
      if (part_[n] == no_part) part_[n] = part_id{0};
      if (given || c.empty()) c.push_back(part_[n]);
      std::sort(c.begin(), c.end());
      c.erase(std::unique(c.begin(), c.end()), c.end());
    }
  }

  /// Lists the values that stage `to` reads and does not make, each followed by its companions. Fills the
  /// inputs and the state of the stage and the transfers to it.
  void receive(stage_id to, input_order order, std::vector<std::uint32_t>& seen,
               std::vector<std::uint32_t>& followed) {
    auto const sent = plan_.transfers.size();
    for (Index const n : plan_.stages[index(to)].nodes)
      for (Index const v : s_.operands[n]) {
        take(v, to, seen);
        if (followed.empty() || is_replicable(s_, n) || !comes_from_outside(v, part_id{index(to)}) ||
            std::exchange(followed[v], index(to)) == index(to))
          continue;
        for (Index const c : s_.companions[v]) take(c, to, seen);
      }
    if (order == input_order::first_use) return;
    auto& here = plan_.stages[index(to)];  // values are numbered in the order of their definition
    std::sort(here.inputs.begin(), here.inputs.end());
    std::sort(here.state.begin(), here.state.end());
    std::sort(plan_.transfers.begin() + static_cast<std::ptrdiff_t>(sent), plan_.transfers.end(),
              [](auto const& a, auto const& b) { return a.value < b.value; });
  }

  /// True if part `reader` does not make `v` itself and so must be given it.
  bool comes_from_outside(Index v, part_id reader) const {
    Index const m = s_.producer[v];
    return m == none<Index> || (!is_replicable(s_, m) && part_[m] != reader);
  }

  /// Adds `v` to the inputs or the state of stage `to` if it comes from outside and is new there.
  void take(Index v, stage_id to, std::vector<std::uint32_t>& seen) {
    if (!comes_from_outside(v, part_id{index(to)})) return;
    if (std::exchange(seen[v], index(to)) == index(to)) return;
    auto& here = plan_.stages[index(to)];
    auto const elsewhere = [&](Index m) { return index(part_[m]) != index(to); };
    Index const m = s_.producer[v];
    bool const held = is_held(s_.from[v]);
    (held ? here.state : here.inputs).push_back(v);
    if (m != none<Index>) send(plan_.transfers, v, to);
    if (Index const last = s_.latest[s_.slot[v]]; held && last != v && elsewhere(s_.producer[last]))
      send(plan_.updates, last, to);
  }

  void send(std::vector<basic_transfer<Index>>& list, Index v, stage_id to) {
    leaves_[v] = 1;
    list.push_back({v, stage_id{index(part_[s_.producer[v]])}, to});
  }

  void give(Index v) { stage(part_[s_.producer[v]]).outputs.push_back(v); }

  void give_by_production() {
    for (std::size_t n = 0; n < s_.nodes(); ++n)
      for (Index const v : s_.results[n])
        if (leaves_[v]) give(v);
  }

  void give_by_first_use() {
    auto const give_once = [&](Index v) {
      if (s_.producer[v] != none<Index> && std::exchange(leaves_[v], 0)) give(v);
    };
    for (std::size_t n = 0; n < s_.nodes(); ++n)
      for (Index const v : s_.operands[n]) {
        if (!comes_from_outside(v, part_[n])) continue;
        give_once(v);
        for (Index const c : s_.companions[v])
          if (comes_from_outside(c, part_[n])) give_once(c);
      }
    for (Index const v : s_.outputs) give_once(v);
    for (auto const& u : plan_.updates) give_once(u.value);
  }

  basic_snapshot_arrays<Index> const& s_;
  std::vector<part_id> part_;
  std::vector<char> leaves_;                  // by value: it is read outside the stage that makes it
  std::vector<std::vector<part_id>> copies_;  // by replicable node: the parts that hold it
  basic_plan<Index> plan_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Plans the cut of `s` into the parts of `p`: stage i is part i.
///
/// A stage lists its nodes in program order. By default it lists its inputs and its state by first use. A
/// replicable node is in each stage that needs its result. It is also in its own part if the caller reads a
/// result, or if no stage does. A value that other stages or the caller read is an output of its producer's
/// stage, once. Values that no node makes are never sent between stages. The caller hands each stage the
/// graph inputs that it reads, and each stage holds the state and constants that it reads. O(V + E + parts
/// log parts).
///
/// \throws partition_error, with the witness, if a node has no part, a group is cut, or parts depend on each
/// other in a cycle
template <std::unsigned_integral Index>
basic_plan<Index> make_plan(basic_snapshot_arrays<Index> const& s, partition const& p,
                            plan_options const& options = {}) {
  detail::check_assignment(s, p);
  auto order = detail::emission_order(detail::part_graph_of(s, p), options.stages, options.priority);
  if (order.size() < p.parts) check_partition(s, p);  // names the cycle
  return detail::plan_maker<Index>(s, p).make(std::move(order), options.outputs, options.inputs);
}

#ifdef CLEAVE_COMPILED  // instantiated in the library cleave::compiled
extern template basic_plan<std::uint32_t> make_plan(basic_snapshot_arrays<std::uint32_t> const&,
                                                    partition const&, plan_options const&);
extern template basic_plan<std::uint64_t> make_plan(basic_snapshot_arrays<std::uint64_t> const&,
                                                    partition const&, plan_options const&);
#endif

}  // namespace cleave
