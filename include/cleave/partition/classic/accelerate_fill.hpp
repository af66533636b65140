// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::detail {

/// What a device may hold, as Accelerate's `generate_device_map` writes it down and reads it back: the mean
/// load with the largest layer added to the sum, in the largest binary unit (1024) rounded to two digits and
/// then up, one tenth more, read as a decimal unit (1000). \throws error where that has no answer there.
inline std::int64_t accelerate_room(std::int64_t total, std::int64_t largest, std::uint32_t k) {
  double size = static_cast<double>(total + largest) / k;
  std::int64_t unit = 1;
  for (; size >= 1024 && unit < 1'000'000'000; unit *= 1000) size /= 1024;
  if (unit == 1 || size >= 1024)
    throw error("Accelerate sizes devices in KB, MB and GB only, and " + std::to_string(total) +
                " bytes on " + std::to_string(k) + " devices are outside");
  auto whole = static_cast<std::int64_t>(size);
  // Rounded to hundredths the rest is nothing below 1/200; it is a multiple of 2^-52, for size >= 1.
  auto const rest = static_cast<std::int64_t>((size - static_cast<double>(whole)) * 0x1p52);
  if (rest * 200 > std::int64_t{1} << 52) ++whole;
  return static_cast<std::int64_t>(static_cast<double>(whole) * 1.1 * static_cast<double>(unit));
}

}  // namespace cleave::detail

namespace cleave {

/// Accelerate's `generate_device_map`, which `prepare_pippy` uses, for layers that are not to be split and
/// share no parameter: devices are filled in order, the first with room kept for the largest layer that is
/// still to come. A layer that no device took stays on the host and has `no_part`; so do all after it. Parts
/// may be empty. One device takes all. O(layers + k). \throws error for no parts, negative sizes, and where
/// Accelerate itself raises one because devices would be below 1 KB or from 1 TB up.
inline partition accelerate_fill(std::span<std::int64_t const> bytes, std::uint32_t k) {
  if (k == 0) throw error("layers onto 0 devices: ask for 1");
  constexpr auto limit = std::int64_t{1} << 52;
  std::int64_t total = 0;
  std::vector<std::int64_t> largest_from(bytes.size() + 1);
  std::vector<std::size_t> last_of(bytes.size() + 1, bytes.size());  // the last layer of that size
  for (auto i = bytes.size(); i-- > 0;) {
    bool const is_size = bytes[i] >= 0 && bytes[i] <= limit;
    if (is_size) total += bytes[i];
    if (!is_size || total > limit)
      throw error("layer #" + std::to_string(i) + " has " + std::to_string(bytes[i]) +
                  " bytes: sizes are not negative and all together below 2^52");
    largest_from[i] = (std::max)(largest_from[i + 1], bytes[i]);
    last_of[i] = i + 1 == bytes.size() || bytes[i] > largest_from[i + 1] ? i : last_of[i + 1];
  }
  partition p{std::vector<part_id>(bytes.size(), k == 1 ? part_id{0} : no_part), k};
  if (k == 1 || bytes.empty()) return p;
  auto const room = detail::accelerate_room(total, largest_from[0], k);
  std::uint32_t device = 0;
  std::int64_t used = 0;
  std::size_t watched = 0;  // the largest layer is looked for anew once the last of its size is reached
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= last_of[watched]) watched = i + 1;
    if (device == 0 && used + bytes[i] > room - largest_from[watched]) ++device, used = 0;
    for (; device > 0 && device < k && used + bytes[i] > room; used = 0) ++device;
    if (device == k) break;
    p.of[i] = part_id{device};
    used += bytes[i];
  }
  return p;
}

}  // namespace cleave
