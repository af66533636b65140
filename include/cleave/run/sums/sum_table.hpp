// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/sums/accumulate_tile.hpp"

namespace cleave::detail {

/// Why a list of additions cannot be carried out: pair number `pair`.
struct sums_fault {
  enum class kind : std::uint8_t {
    type,     ///< one side is no floating-point number
    count,    ///< there are not as many elements on both sides
    memory,   ///< elements without an address
    overlap,  ///< the two sides share part of their memory, not all of it element by element
  };
  std::size_t pair;
  kind what;
  region_pair regions;

  /// `pair 3 adds 4 elements of i32 to 4 of f32: …`.
  std::string sentence() const {
    auto const name = [](region const& r) { return std::string(name_of(r.type)); };
    std::string text = "pair " + std::to_string(pair) + " adds " + std::to_string(regions.from.count) +
                       " elements of " + name(regions.from) + " to " + std::to_string(regions.to.count) +
                       " of " + name(regions.to) + ": ";
    switch (what) {
      case kind::type:
        return text + name(is_floating(regions.from.type) ? regions.to : regions.from) +
               " cannot be accumulated, only f32, f64, f16 and bf16 can";
      case kind::count:
        return text + "there must be as many on both sides";
      case kind::memory:
        return text + "an address is missing";
      case kind::overlap:
        return text + "their memory overlaps; it must be the same, with one type, or apart";
    }
    return text;
  }
};

/// The first pair that cannot be added, or nothing. Linear.
inline std::optional<sums_fault> find_sums_fault(std::span<region_pair const> pairs) {
  auto const begin = [](region const& r) { return reinterpret_cast<std::uintptr_t>(r.data); };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    auto const& [from, to] = pairs[i];
    auto const fault = [&](sums_fault::kind what) { return sums_fault{i, what, pairs[i]}; };
    if (!is_floating(from.type) || !is_floating(to.type)) return fault(sums_fault::kind::type);
    if (from.count != to.count) return fault(sums_fault::kind::count);
    if (from.count == 0) continue;
    if (!from.data || !to.data) return fault(sums_fault::kind::memory);
    bool const same = from == to;
    bool const apart = begin(from) + from.bytes() <= begin(to) || begin(to) + to.bytes() <= begin(from);
    if (!same && !apart) return fault(sums_fault::kind::overlap);
  }
  return std::nullopt;
}

class sums_error : public witness_error<sums_fault> {
 public:
  explicit sums_error(sums_fault const& f) : witness_error("sums: " + f.sentence(), f) {}
};

/// Segments of the same two types that share no memory that is written: their tiles may run in any order.
struct sum_run {
  element_type from, to;
  std::size_t first_segment = 0, segments = 0;
  std::uint32_t tiles = 0;
};

/// A list of additions, made ready: the runs one after the other have the effect of the pairs one by one.
struct sum_table {
  std::vector<sum_segment> segments;
  std::vector<sum_run> runs;
};

/// Whether each pair shares memory with an earlier one, where one of both writes; some more may be marked.
/// O(n log n).
inline std::vector<bool> find_dependent_pairs(std::span<region_pair const> pairs) {
  struct touched {
    std::uintptr_t begin, end;
    std::size_t pair;
    bool written;
  };
  std::vector<touched> all;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    for (auto const* r : {&pairs[i].from, &pairs[i].to}) {
      auto const begin = reinterpret_cast<std::uintptr_t>(r->data);
      if (r->count > 0) all.push_back({begin, begin + r->bytes(), i, r == &pairs[i].to});
    }
  std::ranges::sort(all, {}, &touched::begin);

  std::vector<bool> dependent(pairs.size());
  for (std::size_t first = 0; first < all.size();) {  // what hangs together, at a time
    std::size_t end = first, least = all[first].pair;
    bool written = false;
    for (auto reach = all[first].end; end < all.size() && all[end].begin < reach; ++end) {
      reach = (std::max)(reach, all[end].end);
      least = (std::min)(least, all[end].pair);
      written = written || all[end].written;
    }
    for (; first < end; ++first)
      if (written && all[first].pair != least) dependent[all[first].pair] = true;
  }
  return dependent;
}

/// Puts a pair that is not empty at the end of a table, in a run of its own where it must come after those
/// before or differs from them.
inline void add_segment(sum_table& table, region_pair const& pair, bool comes_after) {
  auto const& [from, to] = pair;
  auto const tiles = tiles_of(from.count);
  auto const needs_new_run = [&](sum_run const& r) {
    return comes_after || r.from != from.type || r.to != to.type ||
           r.tiles + tiles > (std::numeric_limits<std::uint32_t>::max)();
  };
  if (table.runs.empty() || needs_new_run(table.runs.back()))
    table.runs.push_back({from.type, to.type, table.segments.size()});
  auto& run = table.runs.back();
  auto const aligned = [](void const* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; };
  table.segments.push_back({from.data, to.data, from.count, run.tiles,
                            aligned(from.data) && aligned(to.data) ? std::uint32_t{1} : std::uint32_t{0}});
  ++run.segments;
  run.tiles += static_cast<std::uint32_t>(tiles);
}

/// \throws sums_error
inline sum_table make_sum_table(std::span<region_pair const> pairs) {
  if (auto const f = find_sums_fault(pairs)) throw sums_error(*f);
  auto const dependent = find_dependent_pairs(pairs);
  sum_table table;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i].from.count > 0) add_segment(table, pairs[i], dependent[i]);
  return table;
}

}  // namespace cleave::detail
