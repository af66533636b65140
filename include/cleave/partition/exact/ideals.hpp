// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "cleave/partition/exact/bit_row.hpp"
#include "cleave/partition/exact/device_states.hpp"
#include "cleave/partition/exact/ideal_task.hpp"
#include "cleave/partition/exact/step_limit.hpp"

namespace cleave::detail {

/// Ideals that can lie between two parts, ascending by time.
struct ideal_list {
  std::size_t words = 0;
  std::vector<std::uint64_t> bits;                   ///< `words` for each
  std::vector<std::int64_t> time;                    ///< of all its units, on the fastest device
  std::vector<std::int64_t> crossing;                ///< what the values cost that it shares with the rest
  std::vector<std::vector<std::uint32_t>> in_state;  ///< of a state: the ideals that may be done there

  std::size_t size() const { return time.size(); }
  std::span<std::uint64_t const> row(std::size_t i) const { return {bits.data() + i * words, words}; }
};

/// Lists the ideals that parts with loads below a bound can have as boundaries, as far as sums tell: walks
/// through the units in order, takes each that is ready or leaves it, and turns back where what is left
/// behind for good says that no boundary follows.
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
    for (std::size_t u = 0; u < t.units(); ++u) missing_[u] = static_cast<std::uint32_t>(t.needs[u].size());
    all_ = std::accumulate(states.fastest.begin(), states.fastest.end(), std::int64_t{});
    list_.words = in_.words().size();
    list_.in_state.resize(states.size());
    if (!t.earliest.empty()) limit_by_pins();
  }

  /// False where there are more than `most` such ideals or the steps do not suffice. O(ideals (units +
  /// touches)) at worst, usually far less.
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
      auto& last = path_.back();  // now without it
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
    std::size_t lost;  // where those lost by it begin in `newly_lost_`
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
    for (auto const user : t_.needed_by[u]) --missing_[user];
  }
  void give_back(std::size_t u) {
    for (auto const user : t_.needed_by[u]) ++missing_[user];
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

  /// Leaves `u` and all that needs it outside for good.
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
      for (auto const user : t_.needed_by[newly_lost_[i]]) lose(user);
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

  /// Whether the units taken and lost so far leave a boundary.
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

  /// By time; equal ones as they were met.
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
  std::vector<std::uint32_t> missing_;           // of a unit: what it needs and is not in
  std::vector<std::uint32_t> inside_, outside_;  // of a value: units that are in, and lost
  std::int64_t time_ = 0, lost_time_ = 0, crossing_ = 0;
  std::int64_t certain_ = 0;  // the cost of values between what is in and what is lost
  std::vector<choice> path_;
  std::vector<std::uint32_t> newly_lost_;
  std::vector<bit_row> inside_of_, outside_of_;  // of a state, by pins
  ideal_list list_;
};

}  // namespace cleave::detail
