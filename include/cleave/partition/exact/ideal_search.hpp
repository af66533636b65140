// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/exact/bit_row.hpp"
#include "cleave/partition/exact/device_states.hpp"
#include "cleave/partition/exact/ideal_task.hpp"
#include "cleave/partition/exact/ideals.hpp"
#include "cleave/partition/exact/step_limit.hpp"

namespace cleave::detail {

/// Units in parts, each part after those it needs.
struct part_chain {
  std::vector<std::uint32_t> part_of;    ///< of a unit
  std::vector<std::uint32_t> class_of;   ///< of a part: its device
  std::int64_t load = unreachable_load;  ///< the largest
};

/// Which boundaries follow each other: of each ideal and each state of the devices the least largest load of
/// the parts so far.
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

  /// The best chain with loads below the bound, or none; `steps.out()` where they did not suffice.
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
    std::uint32_t ideal, step, before;  // the step into its state, and where that began
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

  /// Looks for the best last part of chains to ideal `j` in state `s`; false where the steps ran out.
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

  /// The load of the units in ideal `j` and not in `i` on a device of class `by`, or something not below
  /// `below`.
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
      for (auto const v : crossings_[i])  // those of both boundaries were counted twice
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
    for (auto part = chain.class_of.size(); part > 0; --part)  // the smallest ideal decides
      each_bit(list_.row(ideals[part]),
               [&](std::uint32_t u) { chain.part_of[u] = static_cast<std::uint32_t>(part - 1); });
    return chain;
  }

  ideal_task const& t_;
  device_states const& states_;
  ideal_list const& list_;
  std::int64_t below_;
  csr<std::size_t, std::uint32_t> crossings_;    // of an ideal: the values it shares with the rest
  std::vector<std::vector<std::int64_t>> time_;  // of a class and an ideal
  std::vector<std::vector<reached>> reached_;    // of a state, by ideal
  std::vector<char> is_crossing_;                // of a value: it leaves the ideal at hand
  bit_row difference_;
  std::size_t all_memory_ = 0;
};

}  // namespace cleave::detail
