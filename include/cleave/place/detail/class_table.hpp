// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/place/detail/device_classes.hpp"

namespace cleave::inline v0_2::detail {

/// Places of a row, as bits.
class place_set {
 public:
  place_set() = default;
  explicit place_set(std::size_t places) : words_((places + 63) / 64) {}

  bool is_default() const { return words_.empty(); }
  bool contains(std::size_t i) const { return (words_[i / 64] >> (i % 64) & 1) != 0; }
  bool empty() const {
    return std::ranges::all_of(words_, [](std::uint64_t w) { return w == 0; });
  }
  void insert(std::size_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  /// Inserts the places from `begin` to before `end`.
  void insert(std::size_t begin, std::size_t end) {
    for (; begin < end && begin % 64 != 0; ++begin) insert(begin);
    for (; begin + 64 <= end; begin += 64) words_[begin / 64] = ~std::uint64_t{0};
    for (; begin < end; ++begin) insert(begin);
  }
  /// Inserts the places that are in both others.
  void insert_common(place_set const& a, place_set const& b) {
    for (std::size_t w = 0; w < words_.size(); ++w) words_[w] |= a.words_[w] & b.words_[w];
  }
  /// Calls `f(first, last)` for each run of neighbouring places that are here and not in `others`, ascending.
  template <class F>
  void each_run_without(place_set const& others, F f) const {
    constexpr auto none = ~std::size_t{0};
    auto first = none;  // of the run that is open
    for (std::size_t w = 0; w < words_.size(); ++w) {
      auto const word = words_[w] & ~others.words_[w];
      for (int bit = 0; bit < 64;) {
        auto const rest = word >> bit;
        auto const same = first == none ? std::countr_zero(rest) : std::countr_one(rest);
        if (bit + same >= 64) break;  // an open run goes on in the next word
        bit += same;
        auto const at = w * 64 + static_cast<std::size_t>(bit);
        if (first != none) f(first, at - 1);
        first = first == none ? at : none;
      }
    }
    if (first != none) f(first, words_.size() * 64 - 1);
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// A limit on the period: a load must be at most `period`, or less if `below` is set.
struct period_limit {
  double period = std::numeric_limits<double>::infinity();
  bool below = false;

  bool allows(double load) const { return below ? load < period : load <= period; }
};

/// Returns for each place the earliest place from which one device can run all units up to it within a limit,
/// with `behind` stages behind it; the place itself if it can run none. O(places).
inline std::vector<std::uint32_t> earliest_begins(class_costs const& c, stage_memory const& memory,
                                                  period_limit limit, std::uint64_t behind) {
  std::vector<std::uint32_t> begin(c.passes.size());
  std::uint32_t from = 0;
  for (std::uint32_t to = 0; to < begin.size(); ++to) {
    while (from < to && (!limit.allows(c.passes[to] - c.passes[from]) ||
                         (c.memory != unlimited_memory && memory.needed(from, to, behind) > c.memory)))
      ++from;
    begin[to] = from;
  }
  return begin;
}

/// The stages that a limit allows a device of one class.
struct allowed_stages {
  std::vector<std::uint32_t> earliest = {};  ///< of each end, as from `earliest_begins`
  place_set no_ends = {};                    ///< the places where no stage can end

  explicit allowed_stages(std::vector<std::uint32_t> begins)
      : earliest(std::move(begins)), no_ends(earliest.size()) {
    for (std::size_t i = 0; i < earliest.size(); ++i)
      if (earliest[i] == i) no_ends.insert(i);
  }

  /// Inserts into `reached` the places up to `last` from which a stage can begin that ends at one of `ends`.
  /// Stages that end at neighbouring places begin in one run of places.
  void insert_begins(place_set& reached, place_set const& ends, std::size_t last) const {
    ends.each_run_without(no_ends, [&](std::size_t first_end, std::size_t last_end) {
      if (earliest[first_end] <= last) reached.insert(earliest[first_end], (std::min)(last_end, last + 1));
    });
  }
};

/// Calls `f(begin, end)` for each place where a stage can begin, from the last to the first, with the end of
/// least `key(end)` that it can have. A minimum over a sliding window. O(places).
template <class Key, class F>
void each_best_end(std::vector<std::uint32_t> const& earliest, Key key, F f) {
  std::deque<std::size_t> window;  // ends, the nearest last; their keys rise from the first to the last
  for (auto begin = earliest.size() - 1; begin-- > 0;) {
    while (!window.empty() && key(window.back()) >= key(begin + 1)) window.pop_back();
    window.push_back(begin + 1);
    while (!window.empty() && earliest[window.front()] > begin) window.pop_front();
    if (!window.empty()) f(begin, window.front());
  }
}

/// All ways to run a row on devices of several classes: dynamic programming, from the last stage to the
/// first, over the number of devices of each class that have been used, the class of the first of their
/// stages, and the place where it begins. Exact where each stage sends to the next one only. In the manner of
/// Tarnawski et al., Piper, NeurIPS 2021.
class class_table {
 public:
  class_table(device_classes const& classes, crossing_costs crossing, stage_memory memory,
              std::uint32_t most_stages)
      : classes_(classes), crossing_(crossing), memory_(memory), most_(most_stages), rates_(classes) {
    std::uint64_t states = 1;
    for (auto const& c : classes_.of) {
      stride_.push_back(states);
      states *= c.count + std::uint64_t{1};
    }
    states_ = states;
    used_.assign(states, 0);
    rate_left_.assign(states, 0);
    for (std::uint64_t s = 0; s < states; ++s)
      for (std::size_t c = 0; c < classes_.size(); ++c) {
        used_[s] += digit(s, c);
        rate_left_[s] += rates_.of[c] * (classes_.of[c].count - digit(s, c));
      }
    for (auto const& c : classes_.of) {
      bool const matters = c.memory != unlimited_memory;
      depths_.push_back(matters ? memory_.kept(most_) : 1);
    }
  }

  /// Returns about how many steps `find` takes for such classes, or a very large number.
  static double effort(device_classes const& classes, std::size_t places) {
    double states = 1;
    for (auto const& c : classes.of) states *= c.count + 1.0;
    auto const k = static_cast<double>(classes.size()), n = static_cast<double>(places);
    return states * k * (n / 4 + k * n / 64);
  }

  /// Returns a cut whose period is within the limit, with as few stages as possible; nothing if there is
  /// none.
  std::optional<classed_cut> find(period_limit limit) {
    prepare(limit);
    auto const n = places() - 1, k = classes_.size();
    reached_.assign(states_ * k, {});
    place_set at_end(places());
    at_end.insert(n);
    std::optional<std::pair<std::uint64_t, std::size_t>> best;
    for (std::uint64_t s = 0; s < states_; ++s) {
      for (std::size_t f = 0; f < k && s > 0; ++f)
        if (holds(s, f, 0) && (!best || used_[s] < used_[best->first])) best = {s, f};
      if (used_[s] >= most_ || (s > 0 && !is_reached(s))) continue;
      for (std::size_t c = 0; c < k; ++c) {
        if (digit(s, c) >= classes_.of[c].count) continue;
        place_set ends = s == 0 ? at_end : place_set(places());
        for (std::size_t f = 0; f < k && s > 0; ++f)
          if (auto const& after = reached_[s * k + f]; is_set(after)) ends.insert_common(after, open(c, f));
        if (ends.empty()) continue;
        auto& to = reached_[(s + stride_[c]) * k + c];
        if (!is_set(to)) to = place_set(places());
        auto const last =
            limit.period < unlimited ? rates_.reach(rate_left_[s + stride_[c]], limit.period) : n;
        allowed(c, used_[s]).insert_begins(to, ends, last);
        if (to.empty()) to = {};
      }
    }
    if (!best) return std::nullopt;
    return trace(best->first, best->second);
  }

  /// Returns the cut with which one microbatch passes in the least time, or nothing if memory allows none.
  std::optional<classed_cut> find_fastest() {
    prepare({});
    auto const k = classes_.size(), n = places();
    time_.assign(states_ * k, {});
    for (std::uint64_t s = 0; s < states_; ++s) {
      if (used_[s] >= most_) continue;
      for (std::size_t c = 0; c < k; ++c) {
        if (digit(s, c) >= classes_.of[c].count) continue;
        auto const after = time_behind(s, c);
        if (after.empty()) continue;
        auto& to = time_[(s + stride_[c]) * k + c];
        if (to.empty()) to.assign(n, never);
        fill_fastest(to, after, c, used_[s]);
      }
    }
    auto best = never;
    std::pair<std::uint64_t, std::size_t> at{0, 0};
    for (std::uint64_t s = 1; s < states_; ++s)
      for (std::size_t c = 0; c < k; ++c)
        if (auto const& t = time_[s * k + c]; !t.empty() && t[0] < best) best = t[0], at = {s, c};
    if (best == never) return std::nullopt;
    return trace_fastest(at.first, at.second);
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity(), unlimited = never;

  std::size_t places() const { return classes_.of[0].passes.size(); }
  std::uint32_t digit(std::uint64_t s, std::size_t c) const {
    return static_cast<std::uint32_t>(s / stride_[c] % (classes_.of[c].count + std::uint64_t{1}));
  }
  static bool is_set(place_set const& s) { return !s.is_default(); }
  place_set const& open(std::size_t from, std::size_t to) const { return open_[from * classes_.size() + to]; }
  bool is_reached(std::uint64_t s) const {
    for (std::size_t f = 0; f < classes_.size(); ++f)
      if (is_set(reached_[s * classes_.size() + f])) return true;
    return false;
  }
  bool holds(std::uint64_t s, std::size_t f, std::size_t place) const {
    auto const& set = reached_[s * classes_.size() + f];
    return is_set(set) && set.contains(place);
  }
  allowed_stages const& allowed(std::size_t c, std::uint64_t behind) const {
    return allowed_[c][static_cast<std::size_t>((std::min)(behind, depths_[c] - 1))];
  }

  /// Tabulates what a limit allows each class and each link.
  void prepare(period_limit limit) {
    auto const k = classes_.size();
    allowed_.assign(k, {});
    for (std::size_t c = 0; c < k; ++c)
      for (std::uint64_t behind = 0; behind < depths_[c]; ++behind)
        allowed_[c].emplace_back(earliest_begins(classes_.of[c], memory_, limit, behind));
    open_.assign(k * k, place_set(places()));
    for (std::size_t from = 0; from < k; ++from)
      for (std::size_t to = 0; to < k; ++to)
        for (std::size_t i = 1; i + 1 < places(); ++i)
          if (limit.allows(crossing_.occupied(classes_.link(from, to), classes_.link(to, from), i)))
            open_[from * k + to].insert(i);
  }

  /// Follows a found place back to the end of the row.
  classed_cut trace(std::uint64_t s, std::size_t c) const {
    classed_cut found;
    std::size_t place = 0;
    found.cut.push_back(0);
    for (;;) {
      found.classes.push_back(static_cast<std::uint32_t>(c));
      s -= stride_[c];
      if (s == 0) break;
      auto const& begins = allowed(c, used_[s]).earliest;
      auto const end_in = [&](std::size_t f) {
        for (auto end = place + 1; end + 1 < places(); ++end) {
          if (begins[end] > place) break;
          if (holds(s, f, end) && open(c, f).contains(end)) return end;
        }
        return std::size_t{0};
      };
      std::size_t end = 0, next = 0;
      for (; next < classes_.size() && end == 0; ++next) end = end_in(next);
      expects(end != 0, "a stage behind each stage that was reached");
      place = end;
      c = next - 1;
      found.cut.push_back(static_cast<std::uint32_t>(place));
    }
    found.cut.push_back(static_cast<std::uint32_t>(places() - 1));
    return found;
  }

  /// Returns the time from sending at each place until the end, if a stage of class `c` sends there. Empty if
  /// no place is reached.
  std::vector<double> time_behind(std::uint64_t s, std::size_t c) const {
    auto const k = classes_.size();
    std::vector<double> least;
    if (s == 0) {
      least.assign(places(), never);
      least.back() = 0;
      return least;
    }
    for (std::size_t f = 0; f < k; ++f) {
      auto const& after = time_[s * k + f];
      if (after.empty()) continue;
      if (least.empty()) least.assign(places(), never);
      for (std::size_t i = 1; i + 1 < places(); ++i)
        least[i] = (std::min)(least[i], crossing_.sent(classes_.link(c, f), i) + after[i]);
    }
    return least;
  }

  /// Lowers the times at all places from which a stage of class `c` can begin.
  void fill_fastest(std::vector<double>& to, std::vector<double> const& after, std::size_t c,
                    std::uint64_t behind) const {
    auto const& forward = classes_.of[c].forward;
    auto const key = [&](std::size_t i) { return after[i] + forward[i]; };
    each_best_end(allowed(c, behind).earliest, key, [&](std::size_t begin, std::size_t end) {
      to[begin] = (std::min)(to[begin], key(end) - forward[begin]);
    });
  }

  classed_cut trace_fastest(std::uint64_t s, std::size_t c) const {
    classed_cut found;
    std::size_t place = 0;
    found.cut.push_back(0);
    for (;;) {
      found.classes.push_back(static_cast<std::uint32_t>(c));
      s -= stride_[c];
      auto const& forward = classes_.of[c].forward;
      auto const& begins = allowed(c, used_[s]).earliest;
      if (s == 0) break;
      auto best = never;
      std::size_t end = 0, next = 0;
      for (std::size_t f = 0; f < classes_.size(); ++f) {
        auto const& after = time_[s * classes_.size() + f];
        if (after.empty()) continue;
        for (auto e = place + 1; e + 1 < places() && begins[e] <= place; ++e) {
          auto const t = crossing_.sent(classes_.link(c, f), e) + after[e] + forward[e];
          if (t < best) best = t, end = e, next = f;
        }
      }
      expects(end != 0, "a stage behind each stage that was reached");
      place = end;
      c = next;
      found.cut.push_back(static_cast<std::uint32_t>(place));
    }
    found.cut.push_back(static_cast<std::uint32_t>(places() - 1));
    return found;
  }

  device_classes const& classes_;
  crossing_costs crossing_;
  stage_memory memory_;
  std::uint32_t most_;
  device_rates rates_;
  std::vector<std::uint64_t> stride_;
  std::uint64_t states_ = 1;
  std::vector<std::uint32_t> used_;    // by state: devices in use
  std::vector<double> rate_left_;      // by state: the rates of all other devices together
  std::vector<std::uint64_t> depths_;  // per class: counts of stages behind that differ in memory
  std::vector<std::vector<allowed_stages>> allowed_;
  std::vector<place_set> open_, reached_;
  std::vector<std::vector<double>> time_;
};

}  // namespace cleave::detail
