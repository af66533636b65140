// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/exact/detail/bit_row.hpp"
#include "cleave/partition/exact/detail/ideal_task.hpp"
#include "cleave/partition/exact/detail/step_limit.hpp"

namespace cleave::inline v0_2::detail {

/// The states of the device assignment: the number of devices used, or, if the order is free, the number used
/// of each class.
struct device_states {
  struct step {
    std::uint32_t from, by;  ///< the previous state, and the class of the device used next
  };
  struct side {
    double devices = 0;         ///< capacity, in devices on which each unit takes its shortest time
    double transfer_share = 1;  ///< lower bound on the time of a transfer there, relative to its cost
    std::uint32_t must = 0;     ///< number of devices that must have a unit
  };
  std::vector<std::vector<step>> into;  ///< of each state, in an order in which steps lead forward
  std::vector<side> used, left;         ///< of each state
  std::vector<std::int64_t> fastest;    ///< of each unit: its shortest time on any device
  std::vector<double> slowdown;         ///< of each class: lower bound on a unit's time there, relative to
                                        ///< its shortest time

  std::size_t size() const { return into.size(); }

  /// Returns true if the devices may be able to compute `time` and transfers of cost `crossing` within
  /// `bound` each. Never wrongly returns false.
  static bool may_do(side const& s, std::int64_t time, std::int64_t crossing, std::int64_t bound) {
    return static_cast<double>(time) + static_cast<double>(crossing) * s.transfer_share <=
           static_cast<double>(bound) * s.devices * (1 + 0x1p-40) + 1;
  }
};

/// Returns the number of states, or `limit` if there are at least as many.
inline std::size_t count_states(ideal_task const& t, std::size_t limit) {
  if (!t.class_of_part.empty()) return (std::min)(limit, t.class_of_part.size() + 1);
  std::size_t states = 1;
  for (auto const& c : t.classes) {
    if (states > limit / (c.count + std::size_t{1})) return limit;
    states *= c.count + std::size_t{1};
  }
  return (std::min)(states, limit);
}

inline device_states states_of(ideal_task const& t) {
  device_states s;
  s.fastest.assign(t.units(), (std::numeric_limits<std::int64_t>::max)());
  for (auto const& c : t.classes)
    for (std::size_t u = 0; u < t.units(); ++u) s.fastest[u] = (std::min)(s.fastest[u], t.weight[c.row][u]);
  for (auto const& c : t.classes) {
    double least = (std::numeric_limits<double>::max)();
    for (std::size_t u = 0; u < t.units(); ++u)
      if (s.fastest[u] > 0)
        least =
            (std::min)(least, static_cast<double>(t.weight[c.row][u]) / static_cast<double>(s.fastest[u]));
    s.slowdown.push_back(least == (std::numeric_limits<double>::max)() ? 1 : least);
  }
  auto const add = [&](device_states::side& side, std::uint32_t by, std::uint32_t count) {
    side.devices += count / s.slowdown[by];
    if (count > 0)
      side.transfer_share = (std::min)(side.transfer_share, t.classes[by].pays ? 1 / s.slowdown[by] : 0);
    if (t.classes[by].must_be_used) side.must += count;
  };
  if (!t.class_of_part.empty()) {
    auto const parts = t.class_of_part.size();
    for (std::uint32_t i = 0; i <= parts; ++i) {
      s.into.emplace_back();
      if (i > 0) s.into.back().push_back({i - 1, t.class_of_part[i - 1]});
      auto& used = s.used.emplace_back();
      auto& left = s.left.emplace_back();
      for (std::uint32_t j = 0; j < parts; ++j) add(j < i ? used : left, t.class_of_part[j], 1);
    }
    return s;
  }
  std::vector<std::uint32_t> digit(t.classes.size());
  for (std::uint32_t state = 0;; ++state) {
    auto& into = s.into.emplace_back();
    auto& used = s.used.emplace_back();
    auto& left = s.left.emplace_back();
    for (std::uint32_t c = 0, scale = 1; c < digit.size(); scale *= t.classes[c++].count + 1) {
      if (digit[c] > 0) into.push_back({state - scale, c});
      add(used, c, digit[c]);
      add(left, c, t.classes[c].count - digit[c]);
    }
    std::size_t c = 0;
    while (c < digit.size() && ++digit[c] > t.classes[c].count) digit[c++] = 0;
    if (c == digit.size()) return s;
  }
}

/// Ideals that can be boundaries between two parts, in ascending order of time.
struct ideal_list {
  std::size_t words = 0;
  std::vector<std::uint64_t> bits;                   ///< `words` words for each ideal
  std::vector<std::int64_t> time;                    ///< shortest time of all its units
  std::vector<std::int64_t> crossing;                ///< cost of the values that it shares with the other
                                                     ///< units
  std::vector<std::vector<std::uint32_t>> in_state;  ///< of each state: the ideals that are feasible there

  std::size_t size() const { return time.size(); }
  std::span<std::uint64_t const> row(std::size_t i) const { return {bits.data() + i * words, words}; }
};

/// Lists the ideals that can be boundaries between parts with loads below a bound, judged by sums of time and
/// transfers. It visits the units in topological order, and takes or excludes each ready unit. It backtracks
/// if the units taken and excluded rule out every boundary.
class ideal_walk {
 public:
  ideal_walk(ideal_task const& t, device_states const& states, std::int64_t below)
      : t_(t),
        states_(states),
        below_(below),
        in_(t.units()),
        lost_(t.units()),
        missing_(t.units()),
        inside_(t.transfer.size()),
        outside_(t.transfer.size()) {
    for (std::size_t u = 0; u < t.units(); ++u)
      missing_[u] = static_cast<std::uint32_t>(t.predecessors[u].size());
    all_ = std::accumulate(states.fastest.begin(), states.fastest.end(), std::int64_t{});
    list_.words = in_.words().size();
    list_.in_state.resize(states.size());
    if (!t.earliest.empty()) limit_by_pins();
  }

  /// Returns false if there are more than `most` such ideals, or the steps run out.
  /// O(ideals (units + touches)) in the worst case, and usually far less.
  bool run(std::size_t most, step_limit& steps) {
    keep();
    std::size_t at = next_ready(0);
    for (;;) {
      if (at < t_.units()) {
        take(at);
        if (may_follow()) keep();
        if (list_.size() > most || !steps.spend(4 + t_.touched[at].size())) return false;
        path_.push_back({at, taken_, 0});
        at = may_follow() ? next_ready(at + 1) : t_.units();
        continue;
      }
      while (!path_.empty() && path_.back().how == left_) undo();
      if (path_.empty()) break;
      auto& last = path_.back();  // now without this unit
      give_back(last.unit);
      last.how = left_;
      last.lost = newly_lost_.size();
      leave(last.unit);
      if (!steps.spend(1 + newly_lost_.size() - last.lost)) return false;
      at = may_follow() ? next_ready(last.unit + 1) : t_.units();
    }
    put_in_order();
    return true;
  }

  std::size_t met() const { return list_.size(); }
  ideal_list take_list() { return std::move(list_); }

 private:
  static constexpr char taken_ = 1, left_ = 2;
  struct choice {
    std::size_t unit;
    char how;
    std::size_t lost;  // position in `newly_lost_` of the first unit that this choice excludes
  };

  void limit_by_pins() {
    for (std::size_t s = 0; s < states_.size(); ++s) {
      auto& must = inside_of_.emplace_back(t_.units());
      auto& must_not = outside_of_.emplace_back(t_.units());
      for (std::size_t u = 0; u < t_.units(); ++u) {
        if (t_.latest[u] < s) must.put(u);
        if (t_.earliest[u] >= s) must_not.put(u);
      }
    }
  }

  std::size_t next_ready(std::size_t from) const {
    while (from < t_.units() && (missing_[from] != 0 || lost_.has(from))) ++from;
    return from;
  }

  void take(std::size_t u) {
    in_.put(u);
    time_ += states_.fastest[u];
    for (auto const v : t_.touched[u]) {
      auto const all = t_.touching[v].size();
      if (inside_[v]++ == 0) {
        crossing_ += t_.transfer[v];
        if (outside_[v] != 0) certain_ += t_.transfer[v];
      }
      if (inside_[v] == all) crossing_ -= t_.transfer[v];
    }
    for (auto const user : t_.successors[u]) --missing_[user];
  }
  void give_back(std::size_t u) {
    for (auto const user : t_.successors[u]) ++missing_[user];
    for (auto const v : t_.touched[u]) {
      if (inside_[v] == t_.touching[v].size()) crossing_ += t_.transfer[v];
      if (--inside_[v] == 0) {
        crossing_ -= t_.transfer[v];
        if (outside_[v] != 0) certain_ -= t_.transfer[v];
      }
    }
    time_ -= states_.fastest[u];
    in_.drop(u);
  }

  /// Excludes `u` and all its direct and indirect successors.
  void leave(std::size_t u) {
    auto const lose = [&](std::size_t x) {
      if (lost_.has(x)) return;
      lost_.put(x);
      newly_lost_.push_back(static_cast<std::uint32_t>(x));
      lost_time_ += states_.fastest[x];
      for (auto const v : t_.touched[x])
        if (outside_[v]++ == 0 && inside_[v] != 0) certain_ += t_.transfer[v];
    };
    auto i = newly_lost_.size();
    lose(u);
    for (; i < newly_lost_.size(); ++i)
      for (auto const user : t_.successors[newly_lost_[i]]) lose(user);
  }
  void undo() {
    for (auto const from = path_.back().lost; newly_lost_.size() > from; newly_lost_.pop_back()) {
      auto const x = newly_lost_.back();
      lost_.drop(x);
      lost_time_ -= states_.fastest[x];
      for (auto const v : t_.touched[x])
        if (--outside_[v] == 0 && inside_[v] != 0) certain_ -= t_.transfer[v];
    }
    path_.pop_back();
  }

  /// Returns true if a boundary may exist for the units taken and excluded so far.
  bool may_follow() const {
    for (std::size_t s = 0; s < states_.size(); ++s)
      if (device_states::may_do(states_.used[s], time_, certain_, below_ - 1) &&
          device_states::may_do(states_.left[s], lost_time_, certain_, below_ - 1))
        return true;
    return false;
  }

  void keep() {
    bool kept = false;
    for (std::size_t s = 0; s < states_.size(); ++s) {
      if (!device_states::may_do(states_.used[s], time_, crossing_, below_ - 1) ||
          !device_states::may_do(states_.left[s], all_ - time_, crossing_, below_ - 1) || !meets_pins(s))
        continue;
      list_.in_state[s].push_back(static_cast<std::uint32_t>(list_.size()));
      kept = true;
    }
    if (!kept) return;
    list_.bits.insert(list_.bits.end(), in_.words().begin(), in_.words().end());
    list_.time.push_back(time_);
    list_.crossing.push_back(crossing_);
  }
  bool meets_pins(std::size_t state) const {
    if (inside_of_.empty()) return true;
    auto const in = in_.words(), must = inside_of_[state].words(), must_not = outside_of_[state].words();
    for (std::size_t w = 0; w < in.size(); ++w)
      if ((must[w] & ~in[w]) != 0 || (must_not[w] & in[w]) != 0) return false;
    return true;
  }

  /// Sorts by time; ties keep their order.
  void put_in_order() {
    std::vector<std::uint32_t> by_time(list_.size()), place(list_.size());
    std::iota(by_time.begin(), by_time.end(), 0u);
    std::ranges::sort(by_time, {}, [&](std::uint32_t i) { return std::pair(list_.time[i], i); });
    ideal_list sorted;
    sorted.words = list_.words;
    sorted.bits.reserve(list_.bits.size());
    for (auto const i : by_time) {
      place[i] = static_cast<std::uint32_t>(sorted.size());
      auto const row = list_.row(i);
      sorted.bits.insert(sorted.bits.end(), row.begin(), row.end());
      sorted.time.push_back(list_.time[i]);
      sorted.crossing.push_back(list_.crossing[i]);
    }
    for (auto& state : list_.in_state) {
      for (auto& i : state) i = place[i];
      std::ranges::sort(state);
    }
    sorted.in_state = std::move(list_.in_state);
    list_ = std::move(sorted);
  }

  ideal_task const& t_;
  device_states const& states_;
  std::int64_t below_, all_ = 0;
  bit_row in_, lost_;
  std::vector<std::uint32_t> missing_;           // of each unit: predecessors that are not taken
  std::vector<std::uint32_t> inside_, outside_;  // of each value: units taken, and units excluded
  std::int64_t time_ = 0, lost_time_ = 0, crossing_ = 0;
  std::int64_t certain_ = 0;  // cost of the values touched by both a taken and an excluded unit
  std::vector<choice> path_;
  std::vector<std::uint32_t> newly_lost_;
  std::vector<bit_row> inside_of_, outside_of_;  // of each state: units that fixed nodes force inside or
                                                 // outside
  ideal_list list_;
};

/// An acyclic partition of the units; parts are in topological order.
struct part_chain {
  std::vector<std::uint32_t> part_of;    ///< of each unit
  std::vector<std::uint32_t> class_of;   ///< of each part: its device class
  std::int64_t load = unreachable_load;  ///< the largest load of a part
};

/// Dynamic program over boundaries: finds, for each ideal and device state, the smallest possible largest
/// load of the parts so far.
class ideal_search {
 public:
  ideal_search(ideal_task const& t, device_states const& states, ideal_list const& list, std::int64_t below)
      : t_(t),
        states_(states),
        list_(list),
        below_(below),
        reached_(states.size()),
        is_crossing_(t.transfer.size()),
        difference_(t.units()) {
    list_crossings();
    for (auto const& c : t.classes) time_.push_back(times_of(t.weight[c.row]));
    for (auto const bytes : t.own) all_memory_ += bytes;
    for (auto const bytes : t.shared) all_memory_ += bytes;
  }

  /// Returns the best chain with loads below the bound, if any. `steps.out()` is true if the steps ran out.
  std::optional<part_chain> run(step_limit& steps) {
    auto const whole = find_ideal(t_.units());
    auto const nothing = find_ideal(0);
    if (!whole || !nothing) return std::nullopt;
    reached_[0].push_back({*nothing, 0, 0, 0});
    std::optional<end> best;
    for (std::uint32_t s = 0; s < states_.size(); ++s) {
      for (auto const i : list_.in_state[s])
        if (s > 0 && !reach(s, i, steps)) return std::nullopt;
      if (reached_[s].empty() || reached_[s].back().ideal < *whole || !may_end(s)) continue;
      for (auto const& r : reached_[s])
        if (r.ideal == *whole && (!best || r.load < best->load))
          best = end{s, static_cast<std::uint32_t>(&r - reached_[s].data()), r.load};
    }
    if (!best) return std::nullopt;
    return chain_to(*best);
  }

 private:
  struct reached {
    std::uint32_t ideal, step, before;  // the step that led to its state, and the position where that step
                                        // began
    std::int64_t load;
  };
  struct end {
    std::uint32_t state, at;
    std::int64_t load;
  };

  bool may_end(std::size_t state) const {
    if (t_.may_be_empty && t_.class_of_part.empty()) return true;
    return states_.left[state].must == 0;
  }

  std::optional<std::uint32_t> find_ideal(std::size_t units) const {
    std::vector<std::uint64_t> wanted(list_.words);
    for (std::size_t u = 0; u < units; ++u) wanted[u / 64] |= std::uint64_t{1} << u % 64;
    for (std::size_t i = list_.size(); i-- > 0;)
      if (std::ranges::equal(list_.row(i), wanted)) return static_cast<std::uint32_t>(i);
    return std::nullopt;
  }

  void list_crossings() {
    std::vector<std::uint32_t> inside(t_.transfer.size()), met;
    for (std::size_t i = 0; i < list_.size(); ++i) {
      met.clear();
      each_bit(list_.row(i), [&](std::uint32_t u) {
        for (auto const v : t_.touched[u])
          if (inside[v]++ == 0) met.push_back(v);
      });
      for (auto const v : met)
        if (std::exchange(inside[v], 0) < t_.touching[v].size()) crossings_.item.push_back(v);
      crossings_.first.push_back(crossings_.item.size());
    }
  }
  std::vector<std::int64_t> times_of(std::vector<std::int64_t> const& weight) const {
    if (weight == states_.fastest) return list_.time;
    std::vector<std::int64_t> time(list_.size());
    for (std::size_t i = 0; i < list_.size(); ++i)
      each_bit(list_.row(i), [&](std::uint32_t u) { time[i] += weight[u]; });
    return time;
  }

  /// Finds the best last part of chains to ideal `j` in state `s`. Returns false if the steps ran out.
  bool reach(std::uint32_t s, std::uint32_t j, step_limit& steps) {
    reached best{j, 0, 0, below_};
    for (auto const v : crossings_[j]) is_crossing_[v] = 1;
    bool in_time = true;
    for (std::uint32_t step = 0; step < states_.into[s].size() && in_time; ++step) {
      auto const& [from, by] = states_.into[s][step];
      auto const& before = reached_[from];
      auto const time = [&](reached const& r) { return list_.time[r.ideal]; };
      auto const most = static_cast<double>(best.load) / states_.slowdown[by] * (1 + 0x1p-40) + 1;
      auto const first =
          std::ranges::lower_bound(before, list_.time[j] - static_cast<std::int64_t>(most), {}, time);
      auto const last = std::ranges::upper_bound(first, before.end(), list_.time[j], {}, time);
      auto const tried = static_cast<std::size_t>(last - first);
      for (auto r = last; r != first;) {  // the nearest first
        --r;
        if (r->load >= best.load) continue;
        auto const load = (std::max)(r->load, load_between(r->ideal, j, by, best.load));
        if (load < best.load) best = {j, step, static_cast<std::uint32_t>(r - before.begin()), load};
      }
      in_time = steps.spend(tried + 1);
    }
    for (auto const v : crossings_[j]) is_crossing_[v] = 0;
    if (best.load < below_) reached_[s].push_back(best);
    return in_time;
  }

  /// Returns the load of the units in ideal `j` but not in `i` on a device of class `by`, or any value not
  /// below `below`.
  std::int64_t load_between(std::uint32_t i, std::uint32_t j, std::uint32_t by, std::int64_t below) {
    auto const& c = t_.classes[by];
    if (i == j) return t_.may_be_empty && !t_.class_of_part.empty() ? 0 : unreachable_load;
    auto load = time_[by][j] - time_[by][i];
    auto const fewer = list_.crossing[i] - list_.crossing[j];
    if (load + (c.pays ? (std::max)(fewer, -fewer) : 0) >= below) return unreachable_load;
    auto const low = list_.row(i), high = list_.row(j);
    for (std::size_t w = 0; w < list_.words; ++w)
      if ((low[w] & ~high[w]) != 0) return unreachable_load;
    auto const has = [&](std::uint32_t u) { return ((high[u / 64] & ~low[u / 64]) >> u % 64 & 1) != 0; };
    if (c.pays) {
      load += list_.crossing[i] + list_.crossing[j];
      for (auto const v : crossings_[i])  // values that cross both boundaries were counted twice
        if (is_crossing_[v])
          load -= std::ranges::any_of(t_.touching[v], has) ? t_.transfer[v] : 2 * t_.transfer[v];
    }
    if (load >= below || c.memory >= all_memory_) return load;
    return memory_between(low, high, has) <= c.memory ? load : unreachable_load;
  }
  template <class Has>
  std::size_t memory_between(std::span<std::uint64_t const> low, std::span<std::uint64_t const> high,
                             Has has) {
    auto const words = difference_.words();
    for (std::size_t w = 0; w < words.size(); ++w) words[w] = high[w] & ~low[w];
    std::size_t bytes = 0;
    each_bit(words, [&](std::uint32_t u) { bytes += t_.own[u]; });
    for (std::size_t h = 0; h < t_.shared.size(); ++h)
      if (std::ranges::any_of(t_.holders[h], has)) bytes += t_.shared[h];
    return bytes;
  }

  part_chain chain_to(end const& last) const {
    part_chain chain{std::vector<std::uint32_t>(t_.units()), {}, last.load};
    std::vector<std::uint32_t> ideals;
    auto state = last.state;
    for (auto at = last.at;;) {
      auto const& r = reached_[state][at];
      ideals.push_back(r.ideal);
      if (state == 0) break;
      chain.class_of.push_back(states_.into[state][r.step].by);
      state = states_.into[state][r.step].from;
      at = r.before;
    }
    std::ranges::reverse(ideals);
    std::ranges::reverse(chain.class_of);
    for (auto part = chain.class_of.size(); part > 0; --part)  // the smallest ideal that contains a unit
                                                               // decides
      each_bit(list_.row(ideals[part]),
               [&](std::uint32_t u) { chain.part_of[u] = static_cast<std::uint32_t>(part - 1); });
    return chain;
  }

  ideal_task const& t_;
  device_states const& states_;
  ideal_list const& list_;
  std::int64_t below_;
  csr<std::size_t, std::uint32_t> crossings_;    // of each ideal: the values that it shares with the other
                                                 // units
  std::vector<std::vector<std::int64_t>> time_;  // of each class and ideal
  std::vector<std::vector<reached>> reached_;    // of each state, by ideal
  std::vector<char> is_crossing_;                // of each value: true if it leaves the current ideal
  bit_row difference_;
  std::size_t all_memory_ = 0;
};

}  // namespace cleave::detail
