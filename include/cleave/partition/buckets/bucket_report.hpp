// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/partition/buckets/module_buckets.hpp"

namespace cleave {

/// One line of a report: a bucket that counts something.
struct bucket_row {
  std::uint32_t from_tail;  ///< its number, the graph's tail being 0: the order in which gradients are sent
  std::size_t bytes;
  std::vector<std::string> names;  ///< of what it counts, repeats included

  bool operator==(bucket_row const&) const = default;
};

/// A bucket that had to grow beyond its cap, because no value left it.
struct extended_bucket {
  std::uint32_t from_tail;
  std::size_t extra_nodes, extra_bytes;

  bool operator==(extended_bucket const&) const = default;
};

struct bucket_report {
  std::vector<bucket_row> rows;
  std::vector<extended_bucket> extended;
};

/// What people want to know of buckets, from the tail to the front of the graph. Empty where no bucket counts
/// anything: then nothing is sent.
inline bucket_report report_of(std::vector<module_bucket> const& buckets) {
  bucket_report r;
  for (std::uint32_t i = 0; i < buckets.size(); ++i) {
    auto const& b = buckets[buckets.size() - 1 - i];
    if (!b.counted.empty()) {
      r.rows.push_back({i, b.bytes, {}});
      for (auto const& c : b.counted) r.rows.back().names.push_back(c.name);
    }
    if (b.extra_nodes > 0) r.extended.push_back({i, b.extra_nodes, b.bytes - b.bytes_before_extra});
  }
  if (r.rows.empty()) r.extended.clear();
  return r;
}
}  // namespace cleave
