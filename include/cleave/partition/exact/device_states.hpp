// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/partition/exact/ideal_task.hpp"

namespace cleave::detail {

/// Which devices the parts so far may have used, as far as that matters: a prefix of the parts where their
/// devices are numbered, else how many of each class.
struct device_states {
  struct step {
    std::uint32_t from, by;  ///< a state, and the class of the device used next
  };
  struct side {
    double devices = 0;         ///< how many of the fastest they amount to
    double transfer_share = 1;  ///< what a transfer costs at least there, in time of the fastest
    std::uint32_t must = 0;     ///< how many of them may not be without units
  };
  std::vector<std::vector<step>> into;  ///< of a state, which are in an order that steps follow
  std::vector<side> used, left;         ///< of a state
  std::vector<std::int64_t> fastest;    ///< of a unit: its time where it is least
  std::vector<double> slowdown;         ///< of a class: no unit's time there is less than so many times that

  std::size_t size() const { return into.size(); }

  /// Whether devices may do units that take `time` on the fastest, within `bound` each, when values of cost
  /// `crossing` enter or leave. Errs to yes.
  static bool may_do(side const& s, std::int64_t time, std::int64_t crossing, std::int64_t bound) {
    return static_cast<double>(time) + static_cast<double>(crossing) * s.transfer_share <=
           static_cast<double>(bound) * s.devices * (1 + 0x1p-40) + 1;
  }
};

/// How many states there would be; `limit` and more are not told apart.
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

}  // namespace cleave::detail
