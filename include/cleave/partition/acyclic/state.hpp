// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/acyclic/level.hpp"

namespace cleave::inline v0_2::detail {

/// Counts, per value and part, the units of the part that touch the value, while units move. A value has
/// min(parts, units that touch it) slots, so memory is O(pins).
template <std::unsigned_integral Index>
class pin_counts {
 public:
  pin_counts() = default;
  pin_counts(csr<Index> const& touching, std::span<std::uint32_t const> of, std::uint32_t parts)
      : parts_(parts), first_{0}, spread_(touching.rows()) {
    first_.reserve(touching.rows() + 1);
    for (std::size_t v = 0; v < touching.rows(); ++v)
      first_.push_back(first_.back() + std::min<std::size_t>(parts, touching[v].size()));
    slots_.assign(first_.back(), {none<std::uint32_t>, 0});
    for (std::size_t v = 0; v < touching.rows(); ++v)
      for (Index const unit : touching[v]) add(v, of[unit]);
  }

  /// Returns the number of parts that touch value `v`.
  std::uint32_t spread(std::size_t v) const { return spread_[v]; }
  Index count(std::size_t v, std::uint32_t part) const {
    auto const at = find(v, part);
    return at == first_[v + 1] ? Index{} : slots_[at].count;
  }
  /// Calls `f(part)` for each part that touches `v`. The order of the calls must not matter.
  template <class F>
  void each_part(std::size_t v, F f) const {
    for (auto at = first_[v]; at < first_[v + 1]; ++at)
      if (slots_[at].count != 0) f(slots_[at].part);
  }
  void move(std::size_t v, std::uint32_t from, std::uint32_t to) {
    if (--slots_[find(v, from)].count == 0) --spread_[v];
    add(v, to);
  }

 private:
  struct slot {
    std::uint32_t part;
    Index count;
  };

  bool by_part(std::size_t v) const { return first_[v + 1] - first_[v] == parts_; }
  /// Returns the slot of a part that touches `v`, or the end.
  std::size_t find(std::size_t v, std::uint32_t part) const {
    if (by_part(v)) return first_[v] + part;
    auto at = first_[v];
    while (at < first_[v + 1] && (slots_[at].count == 0 || slots_[at].part != part)) ++at;
    return at;
  }
  void add(std::size_t v, std::uint32_t part) {
    auto at = find(v, part);
    if (at == first_[v + 1])  // a slot is free, because there is one per unit
      for (at = first_[v]; slots_[at].count != 0;) ++at;
    slots_[at].part = part;
    if (slots_[at].count++ == 0) ++spread_[v];
  }

  std::size_t parts_ = 0;
  std::vector<std::size_t> first_;  // of each value: its first slot
  std::vector<std::uint32_t> spread_;
  std::vector<slot> slots_;
};

/// An acyclic partition with the times, loads and memory of its parts, while single units move. No edge leads
/// to a part of lower number. A unit may move to any part that is not before a predecessor or behind a
/// successor, so part numbers stay a topological order.
template <std::unsigned_integral Index>
class acyclic_state {
 public:
  acyclic_state(acyclic_level<Index> const& level, acyclic_limits const& limits,
                std::vector<std::uint32_t> of)
      : level_(level), limits_(limits), of_(std::move(of)), pins_(level.touching, of_, limits.parts()) {
    auto const parts = limits.parts();
    time_.resize(parts);
    transfers_.resize(parts);
    count_.resize(parts);
    for (std::size_t u = 0; u < level.units(); ++u) {
      ++count_[of_[u]];
      time_[of_[u]] += weight(u, of_[u]);
    }
    for (std::size_t v = 0; v < level.values(); ++v)
      if (auto const spread = pins_.spread(v); spread > 1) {
        pins_.each_part(v, [&](std::uint32_t p) { transfers_[p] += price(v, p); });
        cut_ += level.price[0][v] * (spread - 1);
      }
    if (!limits.memory.empty()) count_memory();
  }

  acyclic_level<Index> const& level() const { return level_; }
  acyclic_limits const& limits() const { return limits_; }
  std::vector<std::uint32_t> const& of() const { return of_; }
  pin_counts<Index> const& pins() const { return pins_; }
  std::int64_t weight(std::size_t u, std::uint32_t p) const { return level_.weight[limits_.speed_of[p]][u]; }
  std::int64_t price(std::size_t v, std::uint32_t p) const { return level_.price[limits_.link_of[p]][v]; }
  std::int64_t time(std::uint32_t p) const { return time_[p]; }
  std::int64_t load(std::uint32_t p) const { return time_[p] + transfers_[p]; }
  std::size_t count(std::uint32_t p) const { return count_[p]; }    ///< number of units
  std::size_t memory(std::uint32_t p) const { return memory_[p]; }  ///< in bytes; only if there are limits
  /// Returns the sum over all values of price times (parts that touch the value - 1).
  std::int64_t cut() const { return cut_; }
  std::int64_t bottleneck() const {
    std::int64_t most = 0;
    for (std::uint32_t p = 0; p < limits_.parts(); ++p) most = (std::max)(most, load(p));
    return most;
  }

  /// Returns the first and the last part to which `u` may move, given its neighbours and fixed nodes.
  /// O(neighbours).
  std::pair<std::uint32_t, std::uint32_t> range(std::size_t u) const {
    std::uint32_t first = level_.window.earliest.empty() ? 0 : level_.window.earliest[u];
    std::uint32_t last = level_.window.latest.empty() ? limits_.parts() - 1 : level_.window.latest[u];
    auto const here = of_[u];
    for (Index const need : level_.predecessors[u]) {
      first = (std::max)(first, of_[need]);
      if (first == here) break;
    }
    for (Index const user : level_.successors[u]) {
      last = (std::min)(last, of_[user]);
      if (last == here) break;
    }
    return {(std::min)(first, here), (std::max)(last, here)};
  }
  bool may_leave(std::size_t u) const { return limits_.may_be_empty || count_[of_[u]] > 1; }
  /// Returns true if part `to` has time and memory for `u`. O(shared memory items of `u`).
  bool fits(std::size_t u, std::uint32_t to) const {
    if (time_[to] + weight(u, to) > limits_.most[to]) return false;
    if (limits_.memory.empty()) return true;
    auto bytes = memory_[to] + level_.memory.own[u];
    for (Index const s : level_.memory.predecessors[u])
      bytes += held_[place(s, to)] == 0 ? level_.memory.shared[s] : 0;
    return bytes <= limits_.memory[to];
  }
  /// Returns the loads of the part of `u` and of part `to` after a move. O(values of `u`).
  std::pair<std::int64_t, std::int64_t> loads_after(std::size_t u, std::uint32_t to) const {
    auto const from = of_[u];
    auto left = load(from) - weight(u, from), entered = load(to) + weight(u, to);
    for (Index const v : level_.touched[u]) {
      auto const change = change_of(v, from, to);
      left += change.from * price(v, from);
      entered += change.to * price(v, to);
    }
    return {left, entered};
  }

  void move(std::size_t u, std::uint32_t to) {
    auto const from = of_[u];
    time_[from] -= weight(u, from);
    time_[to] += weight(u, to);
    --count_[from];
    ++count_[to];
    for (Index const v : level_.touched[u]) {
      auto const change = change_of(v, from, to);
      transfers_[from] += change.from * price(v, from);
      transfers_[to] += change.to * price(v, to);
      cut_ -= level_.price[0][v] * pins_.spread(v);
      pins_.move(v, from, to);
      cut_ += level_.price[0][v] * pins_.spread(v);
    }
    if (!limits_.memory.empty()) move_memory(u, from, to);
    of_[u] = to;
  }

 private:
  struct payments {
    int from, to;  // -1: stops paying for a value, 1: begins to pay
  };
  payments change_of(std::size_t v, std::uint32_t from, std::uint32_t to) const {
    auto const spread = pins_.spread(v);
    bool const leaves = pins_.count(v, from) == 1, enters = pins_.count(v, to) == 0;
    auto const after = spread - (leaves ? 1 : 0) + (enters ? 1 : 0);
    int const paid = spread > 1, pays = after > 1;
    return {(leaves ? 0 : pays) - paid, pays - (enters ? 0 : paid)};
  }

  std::size_t place(std::size_t shared, std::uint32_t p) const { return shared * limits_.parts() + p; }
  void count_memory() {
    memory_.resize(limits_.parts());
    held_.resize(level_.memory.shared.size() * limits_.parts());
    for (std::size_t u = 0; u < level_.units(); ++u) hold(u, of_[u]);
  }
  void hold(std::size_t u, std::uint32_t p) {
    memory_[p] += level_.memory.own[u];
    for (Index const s : level_.memory.predecessors[u])
      if (held_[place(s, p)]++ == 0) memory_[p] += level_.memory.shared[s];
  }
  void move_memory(std::size_t u, std::uint32_t from, std::uint32_t to) {
    memory_[from] -= level_.memory.own[u];
    for (Index const s : level_.memory.predecessors[u])
      if (--held_[place(s, from)] == 0) memory_[from] -= level_.memory.shared[s];
    hold(u, to);
  }

  acyclic_level<Index> const& level_;
  acyclic_limits const& limits_;
  std::vector<std::uint32_t> of_;
  pin_counts<Index> pins_;
  std::vector<std::int64_t> time_, transfers_;  // of each part
  std::vector<std::size_t> count_, memory_;     // of each part
  std::vector<Index> held_;                     // of each shared memory item and part: number of units that
                                                // hold it
  std::int64_t cut_ = 0;
};

}  // namespace cleave::detail
