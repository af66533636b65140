// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/partition/exact/device_states.hpp"
#include "cleave/partition/exact/ideal_search.hpp"
#include "cleave/partition/exact/ideal_task.hpp"
#include "cleave/partition/exact/step_limit.hpp"

namespace cleave::detail {

/// Branches over the part of one unit after the other, for graphs that are too wide for their ideals to be
/// listed: memory does not grow with the search. Devices are those of `class_of`, part by part.
class part_branching {
 public:
  part_branching(ideal_task const& t, device_states const& states, std::vector<std::uint32_t> class_of,
                 std::int64_t below)
      : t_(t),
        states_(states),
        class_of_(std::move(class_of)),
        parts_(class_of_.size()),
        below_(below),
        part_(t.units()),
        load_(parts_),
        memory_(parts_),
        count_(parts_),
        met_(t.transfer.size() * parts_),
        held_(t.shared.size() * parts_),
        in_parts_(t.transfer.size()) {
    put_in_order();
    left_ = std::accumulate(states.fastest.begin(), states.fastest.end(), std::int64_t{});
    if (!t.may_be_empty) empty_ = parts_;
  }

  /// The best parts with loads below the bound that were found; all were looked at unless `steps.out()`.
  std::optional<part_chain> run(step_limit& steps) {
    std::optional<part_chain> best;
    std::vector<choice> path(t_.units() + 1);
    path[0] = choices(0);
    for (std::size_t depth = 0;;) {
      auto& at = path[depth];
      if (depth == t_.units()) {
        below_ = (std::ranges::max)(load_);
        best = part_chain{part_, class_of_, below_};
      } else if (at.next < at.parts.size()) {
        auto const u = order_[depth];
        if (!steps.spend(1 + parts_ + t_.touched[u].size())) return best;
        put(u, at.parts[at.next++]);
        if (may_be_better()) {
          path[depth + 1] = choices(depth + 1);
          ++depth;
        } else {
          take_back(u);
        }
        continue;
      }
      if (depth == 0) return best;
      take_back(order_[--depth]);
    }
  }

 private:
  struct choice {
    std::vector<std::uint32_t> parts;
    std::size_t next = 0;
  };

  /// Of the units that are ready the one that takes the most time comes first.
  void put_in_order() {
    std::vector<std::uint32_t> missing(t_.units());
    std::vector<std::uint32_t> ready;
    for (std::uint32_t u = 0; u < t_.units(); ++u) {
      missing[u] = static_cast<std::uint32_t>(t_.needs[u].size());
      if (missing[u] == 0) ready.push_back(u);
    }
    while (!ready.empty()) {
      auto const key = [&](std::uint32_t u) { return std::pair(-states_.fastest[u], u); };
      auto const next = std::ranges::min_element(ready, {}, key);
      auto const u = *next;
      ready.erase(next);
      order_.push_back(u);
      for (auto const user : t_.needed_by[u])
        if (--missing[user] == 0) ready.push_back(user);
    }
  }

  void put(std::uint32_t u, std::uint32_t p) {
    part_[u] = p;
    empty_ -= count_[p]++ == 0 && !t_.may_be_empty;
    load_[p] += t_.weight[t_.classes[class_of_[p]].row][u];
    left_ -= states_.fastest[u];
    memory_[p] += t_.own[u];
    for (auto const h : t_.holds[u])
      if (held_[h * parts_ + p]++ == 0) memory_[p] += t_.shared[h];
    for (auto const v : t_.touched[u])
      if (met_[v * parts_ + p]++ == 0 && ++in_parts_[v] >= 2) pay(v, p, t_.transfer[v]);
  }
  void take_back(std::uint32_t u) {
    auto const p = part_[u];
    for (auto const v : t_.touched[u])
      if (--met_[v * parts_ + p] == 0 && in_parts_[v]-- >= 2) pay(v, p, -t_.transfer[v]);
    for (auto const h : t_.holds[u])
      if (--held_[h * parts_ + p] == 0) memory_[p] -= t_.shared[h];
    memory_[p] -= t_.own[u];
    left_ += states_.fastest[u];
    load_[p] -= t_.weight[t_.classes[class_of_[p]].row][u];
    empty_ += --count_[p] == 0 && !t_.may_be_empty;
  }
  /// Part `p` came to a value or left it; where one other part has it, that part pays from now on, or no
  /// more.
  void pay(std::uint32_t v, std::uint32_t p, std::int64_t cost) {
    auto const add = [&](std::size_t part) {
      if (t_.classes[class_of_[part]].pays) load_[part] += cost;
    };
    add(p);
    if (in_parts_[v] != (cost >= 0 ? 2u : 1u)) return;
    for (std::size_t q = 0; q < parts_; ++q)
      if (q != p && met_[v * parts_ + q] != 0) add(q);
  }

  bool may_be_better() const {
    double room = 0;
    for (std::size_t p = 0; p < parts_; ++p) {
      auto const& device = t_.classes[class_of_[p]];
      if (load_[p] >= below_ || memory_[p] > device.memory) return false;
      room += static_cast<double>(below_ - 1 - load_[p]) / states_.slowdown[class_of_[p]];
    }
    return static_cast<double>(left_) <= room * (1 + 0x1p-40) + 1;
  }

  /// The parts that a unit may go to, those that have least to do first.
  choice choices(std::size_t depth) const {
    choice made;
    if (depth == t_.units()) return made;
    auto const u = order_[depth];
    std::uint32_t first = t_.earliest.empty() ? 0 : t_.earliest[u];
    auto const last = t_.latest.empty() ? static_cast<std::uint32_t>(parts_) - 1 : t_.latest[u];
    for (auto const need : t_.needs[u]) first = (std::max)(first, part_[need]);
    bool const must_open = t_.units() - depth <= empty_;  // each unit left is needed by an empty part
    for (auto p = first; p <= last; ++p)
      if (!must_open || count_[p] == 0) made.parts.push_back(p);
    std::ranges::sort(made.parts, {}, [&](std::uint32_t p) { return std::pair(load_[p], p); });
    return made;
  }

  ideal_task const& t_;
  device_states const& states_;
  std::vector<std::uint32_t> class_of_;  // of a part
  std::size_t parts_;
  std::int64_t below_, left_ = 0;    // time of the units that have no part yet
  std::vector<std::uint32_t> part_;  // of a unit
  std::vector<std::int64_t> load_;   // of a part, so far
  std::vector<std::size_t> memory_, count_;
  std::size_t empty_ = 0;                // parts that still need a unit
  std::vector<std::uint32_t> met_;       // of a value and a part: units that touch it there
  std::vector<std::uint32_t> held_;      // of what units share and a part: those that hold it there
  std::vector<std::uint32_t> in_parts_;  // of a value: parts that have met it
  std::vector<std::uint32_t> order_;
};

}  // namespace cleave::detail
