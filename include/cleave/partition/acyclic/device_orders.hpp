// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/partition/model/per_part.hpp"
#include "cleave/partition/slices/balance_options.hpp"

namespace cleave::detail {

/// The devices of `limits` in another order: part i becomes device `order[i]`.
inline balance_options in_device_order(balance_options limits, std::vector<std::uint32_t> const& order) {
  auto const turned = [&](auto& values) {
    if (values.same()) return;
    auto const of = values;
    std::vector<std::decay_t<decltype(of[0])>> list;
    for (auto const device : order) list.push_back(of[device]);
    values = std::move(list);
  };
  turned(limits.speed);
  turned(limits.link);
  turned(limits.memory);
  return limits;
}

/// Of each of `k` devices the first that is like it.
inline std::vector<std::uint32_t> device_kinds(balance_options const& l, std::uint32_t k) {
  auto const alike = [](auto const& values, std::size_t a, std::size_t b) {
    return values.same() || values[a] == values[b];
  };
  std::vector<std::uint32_t> kind(k);
  for (std::uint32_t d = 0; d < k; ++d)
    for (kind[d] = 0;
         !(alike(l.speed, kind[d], d) && alike(l.link, kind[d], d) && alike(l.memory, kind[d], d));)
      ++kind[d];
  return kind;
}

/// Orders of devices worth a try, that given first.
struct device_orders {
  std::vector<std::vector<std::uint32_t>> list;
  bool all = true;  ///< whether these are all that differ
};

/// All orders that differ where these are at most `most`, else those that exchange two devices: near ones
/// first, and as many as have four million devices in all. No two devices that are alike are exchanged.
inline device_orders device_orders_near(std::vector<std::uint32_t> const& given,
                                        std::vector<std::uint32_t> const& kind, std::size_t most) {
  device_orders found{{given}};
  auto& orders = found.list;
  auto kinds = kind;  // of a place
  std::ranges::sort(kinds);
  do {
    auto order = given;
    std::vector<char> used(kind.size());
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      std::uint32_t device = 0;
      while (used[device] != 0 || kind[device] != kinds[i]) ++device;
      used[device] = 1;
      order[i] = device;
    }
    bool same = true;
    for (std::size_t i = 0; i < kinds.size(); ++i) same &= kind[order[i]] == kind[given[i]];
    if (!same) orders.push_back(std::move(order));
  } while (given.size() <= 256 && orders.size() <= most && std::next_permutation(kinds.begin(), kinds.end()));
  if (given.size() <= 256 && orders.size() <= most) return found;
  found.all = false;
  orders.assign(1, given);
  for (std::size_t apart = 1; apart < given.size(); ++apart)
    for (std::size_t i = 0; i + apart < given.size(); ++i)
      if (kind[given[i]] != kind[given[i + apart]] && orders.size() * given.size() < 4'000'000) {
        orders.push_back(given);
        std::swap(orders.back()[i], orders.back()[i + apart]);
      }
  return found;
}

}  // namespace cleave::detail
