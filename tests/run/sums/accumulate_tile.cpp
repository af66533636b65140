// SPDX-License-Identifier: MIT
#include "cleave/run/sums/accumulate_tile.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Lanes as on a GPU: many in a row, with packs of eight elements.
struct many_lanes : plain_lanes {
  static constexpr std::uint32_t lanes = 256;
  template <class, class>
  static constexpr std::size_t pack_elements = 8;
  template <class, class, class>
  static constexpr std::size_t packs_at_once = 2;
  static constexpr std::uint32_t pack_alignment = 1;
  static constexpr std::uint32_t singles_at_once = 4;
};

/// Bytes with room before and behind, in which writes out of bounds are detected.
struct guarded {
  std::vector<std::byte> bytes;
  std::size_t first;

  template <class T>
  static guarded random(std::size_t count, std::size_t offset, testing::rng& numbers) {
    guarded g{std::vector<std::byte>(count * sizeof(T) + 128), 64 + offset};
    for (auto& b : g.bytes) b = static_cast<std::byte>(numbers.below(256));
    for (std::size_t i = 0; i < count; ++i)  // of every magnitude, and NaN
      if (!numbers.one_in(8))
        g.put(i, narrowed<T>(std::ldexp(numbers.unit() - 0.5, static_cast<int>(numbers.below(20)))));
    return g;
  }
  template <class T>
  void put(std::size_t i, T x) {
    std::memcpy(bytes.data() + first + i * sizeof x, &x, sizeof x);
  }
  template <class T>
  T at(std::size_t i) const {
    T x;
    std::memcpy(&x, bytes.data() + first + i * sizeof x, sizeof x);
    return x;
  }
};

template <class T>
bool same(T a, T b) {
  if (widened(a) != widened(a)) return widened(b) != widened(b);  // any NaN equals any other
  return std::memcmp(&a, &b, sizeof a) == 0;
}

/// The plain loop.
template <class From, class To, class Operation>
To expected(From x, To y, double factor) {
  using sum = common_sum_t<From, To>;
  auto const f = static_cast<sum>(factor);
  sum const product = f * widened(x);
  if constexpr (Operation::reads_target) return narrowed<To>(widened(y) + product);
  return narrowed<To>(product);
}

template <class Memory, class From, class To, class Operation>
void run_shuffled(sum_segment const& s, double factor, testing::rng& numbers) {
  std::vector<std::uint32_t> work(tiles_of(s.count) * Memory::lanes);
  std::iota(work.begin(), work.end(), 0u);
  numbers.shuffle(work);
  for (auto const w : work)
    accumulate_lane<From, To, Operation, Memory>(
        s, s.first_tile + w / Memory::lanes, static_cast<common_sum_t<From, To>>(factor), w % Memory::lanes);
}

template <class From, class To, class Operation>
void check_pair(std::size_t count, std::size_t from_offset, std::size_t to_offset, testing::rng& numbers) {
  double const factor = numbers.one_in(2) ? 0.25 : 1;  // exact products: a build may contract expressions
  guarded const from = guarded::random<From>(count, from_offset, numbers);
  guarded const to = guarded::random<To>(count, to_offset, numbers);
  for (bool many : {false, true}) {
    guarded made = to;
    bool const aligned = (from_offset | to_offset) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(from.bytes.data()) % 16 == 0 &&
                         reinterpret_cast<std::uintptr_t>(made.bytes.data()) % 16 == 0;
    sum_segment const s{from.bytes.data() + from.first, made.bytes.data() + made.first, count,
                        static_cast<std::uint32_t>(numbers.below(100)), aligned ? 1u : 0u};
    if (many)
      run_shuffled<many_lanes, From, To, Operation>(s, factor, numbers);
    else
      run_shuffled<plain_lanes, From, To, Operation>(s, factor, numbers);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i)
      wrong += !same(made.at<To>(i), expected<From, To, Operation>(from.at<From>(i), to.at<To>(i), factor));
    CHECK(wrong == 0);
    auto const begin = static_cast<std::ptrdiff_t>(made.first);
    auto const end = begin + static_cast<std::ptrdiff_t>(count * sizeof(To));
    CHECK(std::equal(made.bytes.begin(), made.bytes.begin() + begin, to.bytes.begin()));
    CHECK(std::equal(made.bytes.begin() + end, made.bytes.end(), to.bytes.begin() + end));
  }
}

template <class From, class To>
void check_types(std::uint64_t seed) {
  testing::rng numbers(seed);
  for (std::size_t const count : {1u, 7u, 8u, 9u, 2049u, 8191u, 8192u, 8193u, 16390u})
    check_pair<From, To, adding>(count, 0, 0, numbers);
  for (int i = 0; i < 6; ++i) {
    std::size_t const count = numbers.below(9000), a = numbers.below(17), b = numbers.below(17);
    check_pair<From, To, adding>(count, a, b, numbers);
    check_pair<From, To, overwriting>(count, b, a, numbers);
  }
}

template <class From>
void check_from(std::uint64_t seed) {
  check_types<From, float>(seed);
  check_types<From, double>(seed + 1);
  check_types<From, float16_bits>(seed + 2);
  check_types<From, bfloat16_bits>(seed + 3);
}

}  // namespace

TEST_CASE("accumulate_lane: matches a plain loop for all types, sizes, addresses and lane orders") {
  check_from<float>(10);
  check_from<double>(20);
  check_from<float16_bits>(30);
  check_from<bfloat16_bits>(40);
}

TEST_CASE("accumulate_lane: scales memory in place") {
  std::vector<float> x(10'000);
  std::iota(x.begin(), x.end(), -5'000.f);
  auto const before = x;
  sum_segment const s{x.data(), x.data(), x.size(), 0, 0};
  for (std::uint32_t t = 0; t < tiles_of(x.size()); ++t)
    accumulate_lane<float, float, overwriting>(s, t, 0.5f);
  CHECK(std::ranges::equal(x, before, {}, [](float v) { return 2 * v; }));
}

TEST_CASE("accumulate_block: blocks and lanes share a run's tiles, whatever their number and order") {
  testing::rng numbers(9);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<float>> from(1 + numbers.below(9)), to;
    for (auto& x : from) {
      x.resize(1 + numbers.below(numbers.one_in(3) ? 60'000 : 9'000));
      for (auto& v : x) v = static_cast<float>(numbers.unit());
    }
    to = from;
    std::vector<sum_segment> segments;
    std::uint32_t tiles = 0;
    for (std::size_t i = 0; i < from.size(); ++i) {
      segments.push_back({from[i].data(), to[i].data(), from[i].size(), tiles, 0});
      tiles += static_cast<std::uint32_t>(tiles_of(from[i].size()));
    }
    auto const blocks = static_cast<std::uint32_t>(1 + numbers.below(tiles + 3));
    std::vector<std::uint32_t> work(blocks * many_lanes::lanes);
    std::iota(work.begin(), work.end(), 0u);
    numbers.shuffle(work);
    bool bad = false;
    std::size_t const at = numbers.below(from.size());
    bool const spoilt = numbers.one_in(2);
    if (spoilt) from[at][numbers.below(from[at].size())] = INFINITY;
    for (auto const w : work)
      bad |= accumulate_block<float, float, nonfinite_checked<adding>, many_lanes>(
          segments.data(), static_cast<std::uint32_t>(segments.size()), tiles, 1, w / many_lanes::lanes,
          blocks, w % many_lanes::lanes);
    CHECK(bad == spoilt);
    for (std::size_t i = 0; i < from.size(); ++i)
      CHECK(std::ranges::equal(to[i], from[i], [](float y, float x) { return y == 2 * x || x > 2; }));
  }
}

namespace {

/// Lanes that note their accesses to memory that does not exist.
struct recording_lanes : many_lanes {
  struct access {
    std::byte const* at;
    std::size_t bytes;
  };
  static inline std::vector<access> loads, stores;

  template <class T>
  static T load(std::byte const* at) {
    loads.push_back({at, sizeof(T)});
    return {};
  }
  template <class T>
  static void store(std::byte* at, T const&) {
    stores.push_back({at, sizeof(T)});
  }
};

/// Returns whether the accesses cover all bytes between two addresses exactly once.
bool cover(std::vector<recording_lanes::access> found, std::uintptr_t begin, std::uintptr_t end) {
  std::ranges::sort(found, {}, &recording_lanes::access::at);
  for (auto const& a : found) {
    if (reinterpret_cast<std::uintptr_t>(a.at) != begin) return false;
    begin += a.bytes;
  }
  return begin == end;
}

}  // namespace

#if SIZE_MAX > 0xffffffff  // what a machine of 32 bits cannot have
TEST_CASE("accumulate_lane: handles tensors of more than 2^31 and 2^32 elements") {
  constexpr std::uintptr_t from = std::uintptr_t{1} << 44, to = std::uintptr_t{1} << 45;
  for (std::uint64_t const count : {(std::uint64_t{1} << 31) + 5, (std::uint64_t{1} << 33) + 8191})
    for (std::uint64_t const tile :
         {std::uint64_t{0}, (std::uint64_t{1} << 31) / tile_elements, tiles_of(count) - 1}) {
      recording_lanes::loads.clear(), recording_lanes::stores.clear();
      sum_segment const s{reinterpret_cast<void const*>(from), reinterpret_cast<void*>(to), count, 7, 1};
      for (std::uint32_t lane = 0; lane < recording_lanes::lanes; ++lane)
        accumulate_lane<bfloat16_bits, float, overwriting, recording_lanes>(
            s, static_cast<std::uint32_t>(tile + 7), 1, lane);
      std::uint64_t const first = tile * tile_elements, last = std::min(first + tile_elements, count);
      CHECK(cover(recording_lanes::loads, from + 2 * first, from + 2 * last));
      CHECK(cover(recording_lanes::stores, to + 4 * first, to + 4 * last));
    }
}
#endif

TEST_CASE("accumulate_block: handles 100,000 segments of one or many elements") {
  testing::rng numbers(12);
  std::vector<float> from(400'000), to(from.size());
  std::iota(from.begin(), from.end(), 0.f);
  std::vector<sum_segment> segments;
  std::uint32_t tiles = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < 100'000; ++i) {
    std::uint64_t const count = i == 7 ? 100'000 : 1 + numbers.below(4);
    segments.push_back({from.data() + at, to.data() + at, count, tiles, 0});
    tiles += static_cast<std::uint32_t>(tiles_of(count));
    at += count;
  }
  REQUIRE(at <= from.size());
  constexpr std::uint32_t blocks = 5;
  for (std::uint32_t b = 0; b < blocks; ++b)
    accumulate_block<float, float, adding>(segments.data(), static_cast<std::uint32_t>(segments.size()),
                                           tiles, 2, b, blocks, 0);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < to.size(); ++i) wrong += to[i] != (i < at ? 2 * from[i] : 0);
  CHECK(wrong == 0);
}

TEST_CASE("segment_of: a tile belongs to the last segment that begins at or before it") {
  testing::rng numbers(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<sum_segment> segments;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i <= numbers.below(12); ++i) {
      std::uint64_t const count = 1 + numbers.below(5 * tile_elements);
      segments.push_back({nullptr, nullptr, count, static_cast<std::uint32_t>(owner.size()), 0});
      owner.insert(owner.end(), tiles_of(count), i);
    }
    for (std::uint32_t t = 0; t < owner.size(); ++t)
      CHECK(segment_of(segments.data(), segments.size(), t) == owner[t]);
  }
}
