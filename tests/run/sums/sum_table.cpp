// SPDX-License-Identifier: MIT
#include "cleave/run/sums/sum_in_order.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

alignas(256) std::byte memory[4096];

region some(std::size_t at, std::size_t count, element_type t = element_type::f32) {
  return {memory + at, count, t};
}

std::string fault_of(region_pair const& p) {
  std::vector<region_pair> const pairs = {{some(0, 1), some(64, 1)}, p};
  auto const f = find_sums_fault(pairs);
  REQUIRE(f);
  CHECK(f->pair == 1);
  try {
    make_sum_table(pairs);
    FAIL("nothing was thrown");
  } catch (sums_error const& e) {
    CHECK(std::string(e.what()) == "sums: " + describe(*f));
    CHECK(e.witness.what == f->what);
  }
  return describe(*f);
}

}  // namespace

TEST_CASE("make_sum_table: rejects integers and truth values by name") {
  CHECK(fault_of({some(0, 4, element_type::i32), some(64, 4)}) ==
        "pair 1 adds 4 elements of i32 to 4 of f32: i32 cannot be accumulated, only f32, f64, f16 and bf16 "
        "can");
  CHECK(fault_of({some(0, 4), some(64, 4, element_type::boolean)}) ==
        "pair 1 adds 4 elements of f32 to 4 of bool: bool cannot be accumulated, only f32, f64, f16 and bf16 "
        "can");
}

TEST_CASE("make_sum_table: needs equal counts, addresses, and memory that is the same or disjoint") {
  CHECK(fault_of({some(0, 4), some(64, 5)}) ==
        "pair 1 adds 4 elements of f32 to 5 of f32: both sides must have the same number of elements");
  CHECK(fault_of({some(0, 4), region{nullptr, 4, element_type::f64}}) ==
        "pair 1 adds 4 elements of f32 to 4 of f64: an address is missing");
  char const* const overlap = ": their memory overlaps; it must be disjoint, or identical with the same type";
  CHECK(fault_of({some(0, 4), some(4, 4)}) ==
        std::string("pair 1 adds 4 elements of f32 to 4 of f32") + overlap);
  CHECK(fault_of({some(0, 4), some(0, 4, element_type::f64)}) ==
        std::string("pair 1 adds 4 elements of f32 to 4 of f64") + overlap);
  std::vector<region_pair> const sound = {{some(0, 4), some(0, 4)}, {some(0, 4), some(16, 4)}, {{}, {}}};
  CHECK(find_sums_fault(sound)->pair == 2);  // an empty pair of bytes is still one of bytes
  CHECK_FALSE(find_sums_fault(std::span(sound).first(2)));
}

TEST_CASE(
    "make_sum_table: pairs of equal types without shared memory form one run; empty pairs are dropped") {
  std::vector<region_pair> const pairs = {{some(0, 10), some(1024, 10)},
                                          {some(0, 0), some(0, 0)},
                                          {some(0, 10), some(2048, 10)},
                                          {some(4, 3), some(3072, 3)},
                                          {some(16, 3), some(3584, 3)}};
  auto const t = make_sum_table(pairs);
  REQUIRE(t.runs.size() == 1);
  CHECK(t.runs[0].segments == 4);
  CHECK(t.runs[0].tiles == 4);
  CHECK(t.segments[1].first_tile == 1);
  CHECK(t.segments[1].aligned == 2);
  CHECK(t.segments[2].aligned == 0);
  CHECK(t.segments[3].aligned == 1);
}

TEST_CASE("make_sum_table: pairs in a run do not conflict, and pairs keep their order") {
  testing::rng random(5);
  constexpr element_type types[] = {element_type::f32, element_type::f64};
  for (int round = 0; round < 300; ++round) {
    std::vector<region_pair> pairs;
    for (std::size_t i = 0; i < 1 + random.below(12); ++i) {
      std::size_t const count = random.below(20);
      region_pair const p{some(8 * random.below(400), count, types[random.below(2)]),
                          some(8 * random.below(400), count, types[random.below(2)])};
      if (!find_sums_fault(std::vector{p})) pairs.push_back(p);
    }
    auto const table = make_sum_table(pairs);
    std::size_t next = 0;
    for (auto const& p : pairs) {
      if (p.from.count == 0) continue;
      REQUIRE(next < table.segments.size());
      CHECK(table.segments[next].from == p.from.data);
      CHECK(table.segments[next].to == p.to.data);
      CHECK(table.segments[next++].count == p.from.count);
    }
    CHECK(next == table.segments.size());
    std::size_t covered = 0;
    for (auto const& run : table.runs) {
      CHECK(run.first_segment == covered);
      covered += run.segments;
      std::uint32_t tiles = 0;
      for (std::size_t i = run.first_segment; i < covered; ++i) {
        auto const& a = table.segments[i];
        CHECK(a.first_tile == tiles);
        tiles += static_cast<std::uint32_t>(tiles_of(a.count));
        for (std::size_t k = run.first_segment; k < i; ++k) {
          auto const& b = table.segments[k];
          auto const meet = [&](void const* p, element_type t, std::uint64_t n, void const* q, element_type u,
                                std::uint64_t m) {
            auto const x = reinterpret_cast<std::uintptr_t>(p), y = reinterpret_cast<std::uintptr_t>(q);
            return x < y + m * size_of(u) && y < x + n * size_of(t);
          };
          CHECK_FALSE(meet(a.to, run.to, a.count, b.to, run.to, b.count));
          CHECK_FALSE(meet(a.from, run.from, a.count, b.to, run.to, b.count));
          CHECK_FALSE(meet(a.to, run.to, a.count, b.from, run.from, b.count));
        }
      }
      CHECK(run.tiles == tiles);
    }
    CHECK(covered == table.segments.size());
  }
}

#if SIZE_MAX > 0xffffffff  // what a machine of 32 bits cannot have
TEST_CASE("make_sum_table: a run ends before its tile count exceeds 32 bits") {
  std::uint64_t const huge = std::uint64_t{3} << 44;  // never accessed: only addresses and counts matter
  auto const at = [](std::uint64_t a) { return region{reinterpret_cast<void*>(a), huge, element_type::f16}; };
  std::vector<region_pair> const pairs = {{at(1), at(1)}, {at(1 + 4 * huge), at(1 + 4 * huge)}};
  auto const t = make_sum_table(pairs);
  CHECK(t.runs.size() == 2);
  CHECK(t.segments[1].first_tile == 0);
}
#endif
