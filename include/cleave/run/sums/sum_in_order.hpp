// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/sums/accumulate_tile.hpp"
#include "cleave/run/sums/floating_bits.hpp"

namespace cleave::inline v0_2::detail {

/// Calls `f` with a zero of the C++ type that stores elements of `t`. A `boolean` is stored as a byte.
template <class F>
constexpr void dispatch_element_type(element_type t, F f) {
  switch (t) {
    case element_type::f32:
      return f(float{});
    case element_type::f64:
      return f(double{});
    case element_type::f16:
      return f(float16_bits{});
    case element_type::bf16:
      return f(bfloat16_bits{});
    case element_type::i64:
      return f(std::int64_t{});
    case element_type::i32:
      return f(std::int32_t{});
    case element_type::i16:
      return f(std::int16_t{});
    case element_type::i8:
      return f(std::int8_t{});
    case element_type::u8:
    case element_type::boolean:
      return f(std::uint8_t{});
  }
}

/// Calls `f` like `dispatch_element_type`, for floating-point types only. Precondition: `is_floating(t)`.
template <class F>
constexpr void dispatch_floating_type(element_type t, F f) {
  expects(is_floating(t), "dispatch_floating_type: a floating-point type");
  dispatch_element_type(t, [&](auto zero) {
    if constexpr (!std::is_integral_v<decltype(zero)>) f(zero);
  });
}

/// Explains why `regions` cannot be reduced together, numbering them from 0. Returns nothing if they can.
inline std::optional<std::string> find_reduction_fault(std::span<region const> regions, reduce_op op) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    auto const& r = regions[i];
    auto const words = [](region const& x) {
      return std::to_string(x.count) + " elements of " + std::string(name_of(x.type));
    };
    if (r.type != regions[0].type || r.count != regions[0].count)
      return "region " + std::to_string(i) + " has " + words(r) + ", region 0 has " + words(regions[0]);
    if (r.count > 0 && !r.data) return "region " + std::to_string(i) + " has no address";
    if (r.type == element_type::boolean && op == reduce_op::sum)
      return "region " + std::to_string(i) + " has bool elements, which cannot be summed; use i64 or u8";
  }
  return std::nullopt;
}

/// The reduction of elements of type `T`. Integer sums wrap; floating-point sums are rounded. The maximum is
/// the first of the largest elements, or NaN if there is one.
template <class T>
struct element_reduction {
  static constexpr auto widen(T x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return widened(x);
  }
  using wide = decltype(widen(T{}));

  static constexpr wide sum(wide a, wide b) {
    if constexpr (std::is_integral_v<T>) {
      using bits = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<bits>(std::uint64_t{static_cast<bits>(a)} + static_cast<bits>(b)));
    } else {
      return a + b;
    }
  }
  static constexpr wide larger(wide a, wide b) {
    if constexpr (std::is_integral_v<T>)
      return a < b ? b : a;
    else
      return a < b || (b != b && a == a) ? b : a;
  }
  static constexpr T narrow(wide x) {
    if constexpr (std::is_integral_v<T>)
      return x;
    else
      return narrowed<T>(x);
  }
};

/// Reduces the regions element-wise (sum or maximum), in list order, and writes the result to all of them.
/// Sums of 16-bit floats are computed in f32 and rounded once. The bits are the same on every machine.
/// Preconditions: `find_reduction_fault` finds nothing; regions do not overlap.
inline void sum_in_order(std::span<region const> regions, reduce_op op) {
  if (regions.empty() || regions[0].count == 0) return;
  dispatch_element_type(regions[0].type, [&](auto example) {
    using element = decltype(example);
    using reduction = element_reduction<element>;
    constexpr std::size_t block = 512;
    std::array<typename reduction::wide, block> made;
    std::array<element, block> one;
    for (std::size_t first = 0; first < regions[0].count; first += block) {
      std::size_t const n = (std::min)(block, regions[0].count - first), bytes = n * sizeof(element);
      auto const at = [first](region const& r) {
        return static_cast<std::byte*>(r.data) + first * sizeof(element);
      };
      for (std::size_t r = 0; r < regions.size(); ++r) {
        std::memcpy(one.data(), at(regions[r]), bytes);
        if (r == 0)
          for (std::size_t k = 0; k < n; ++k) made[k] = reduction::widen(one[k]);
        else if (op == reduce_op::sum)
          for (std::size_t k = 0; k < n; ++k) made[k] = reduction::sum(made[k], reduction::widen(one[k]));
        else
          for (std::size_t k = 0; k < n; ++k) made[k] = reduction::larger(made[k], reduction::widen(one[k]));
      }
      for (std::size_t k = 0; k < n; ++k) one[k] = reduction::narrow(made[k]);
      for (auto const& r : regions) std::memcpy(at(r), one.data(), bytes);
    }
  });
}

/// The reason why a list of additions is invalid. `pair` is the index of the offending pair.
struct sums_fault {
  static constexpr char subject[] = "sums: ";
  enum class kind : std::uint8_t {
    type,     ///< one side is not floating-point
    count,    ///< the two sides differ in number of elements
    memory,   ///< a non-empty region has no address
    overlap,  ///< the two sides overlap; only identical or disjoint memory is allowed
  };
  std::size_t pair;
  kind what;
  region_pair regions;
};

/// Formats a fault: `pair 3 adds 4 elements of i32 to 4 of f32: …`.
inline std::string describe(sums_fault const& f) {
  using enum sums_fault::kind;
  auto const& [from, to] = f.regions;
  auto const name = [](region const& r) { return std::string(name_of(r.type)); };
  std::string text = "pair " + std::to_string(f.pair) + " adds " + std::to_string(from.count) +
                     " elements of " + name(from) + " to " + std::to_string(to.count) + " of " + name(to) +
                     ": ";
  switch (f.what) {
    case type:
      return text + name(is_floating(from.type) ? to : from) +
             " cannot be accumulated, only f32, f64, f16 and bf16 can";
    case count:
      return text + "both sides must have the same number of elements";
    case memory:
      return text + "an address is missing";
    case overlap:
      return text + "their memory overlaps; it must be disjoint, or identical with the same type";
  }
  return text;
}

/// Returns the first invalid pair, or nothing. O(pairs).
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

using sums_error = fault_error<sums_fault>;

/// Segments of the same two types that share no written memory. Their tiles may run in any order.
struct sum_run {
  element_type from, to;
  std::size_t first_segment = 0, segments = 0;
  std::uint32_t tiles = 0;
};

/// A prepared list of additions. Executing the runs in order has the effect of adding the pairs one by one.
struct sum_table {
  std::vector<sum_segment> segments;
  std::vector<sum_run> runs;
};

/// Marks each pair that shares memory with an earlier pair, if one of the two writes it. May mark some
/// independent pairs too. O(n log n).
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
  for (std::size_t first = 0; first < all.size();) {  // one connected group of overlapping regions per turn
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

/// Appends a non-empty pair to a table. Starts a new run if the pair must come after earlier ones or differs
/// from them in type.
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
  auto const both = reinterpret_cast<std::uintptr_t>(from.data) | reinterpret_cast<std::uintptr_t>(to.data);
  std::uint32_t const aligned = both % 32 == 0 ? 2 : both % 16 == 0 ? 1 : 0;
  table.segments.push_back({from.data, to.data, from.count, run.tiles, aligned});
  ++run.segments;
  run.tiles += static_cast<std::uint32_t>(tiles);
}

/// Prepares `pairs` for `accumulate`. O(n log n).
/// \throws sums_error if a pair is invalid
inline sum_table make_sum_table(std::span<region_pair const> pairs) {
  if (auto const f = find_sums_fault(pairs)) throw sums_error(*f);
  auto const dependent = find_dependent_pairs(pairs);
  sum_table table;
  for (std::size_t i = 0; i < pairs.size(); ++i)
    if (pairs[i].from.count > 0) add_segment(table, pairs[i], dependent[i]);
  return table;
}

}  // namespace cleave::detail
