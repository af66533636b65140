// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/memory_plan.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

slot_value value(lifetime alive, std::uint64_t offset, std::optional<std::uint32_t> after = {}) {
  return {.stage = stage_id{3}, .alive = alive, .bytes = 64, .offset = offset, .after = after};
}

memory_plan plan_of(std::vector<slot_value> values, std::uint64_t bytes = 128) {
  return {64, {rank_slots{}, rank_slots{std::move(values), {}, bytes, 64}}};
}

}  // namespace

TEST_CASE("find_slot_fault: accepts values that are apart in space or in time") {
  CHECK(!find_slot_fault(plan_of({value({0, 2}, 0), value({1, 2}, 64), value({3, 4}, 0, 2)})));
  CHECK(!find_slot_fault({}));
}

TEST_CASE("find_slot_fault: finds each fault of a plan") {
  using enum slot_fault::kind;
  auto const fault = [](memory_plan const& p) {
    auto const f = find_slot_fault(p);
    REQUIRE(f.has_value());
    CHECK(f->rank == rank_id{1});
    return *f;
  };
  auto const over = fault(plan_of({value({0, 2}, 64)}, 127));
  CHECK(over.what == overflow);
  CHECK(over.bytes == 128);
  CHECK(over.allowed == 127);
  CHECK(fault(plan_of({value({0, 2}, 0), value({2, 3}, 0)})).what == overlap);
  CHECK(fault(plan_of({value({0, 2}, 32)})).what == unaligned);
  CHECK(fault(plan_of({value({2, 1}, 0)})).what == backward);
  auto const early = fault(plan_of({value({0, 2}, 0), value({3, 3}, 0, 1)}));
  CHECK(early.what == too_early);
  CHECK(early.bytes == 2);
  CHECK(fault(plan_of({value({0, 2}, 0), value({3, 3}, 0)})).what == too_early);
}

TEST_CASE("find_slot_overflow: a limit holds for its rank, or for all ranks") {
  auto const p = plan_of({value({0, 2}, 0), value({1, 2}, 64)});
  CHECK(!find_slot_overflow(p, {}));
  CHECK(!find_slot_overflow(p, std::vector<std::uint64_t>{0, 128}));
  auto const f = find_slot_overflow(p, std::vector<std::uint64_t>{100});
  REQUIRE(f.has_value());
  CHECK(f->value == p.ranks[1].values[1]);
  CHECK(find_slot_overflow(p, std::vector<std::uint64_t>{128, 63})->value == p.ranks[1].values[0]);
  CHECK(
      slot_error(*f).what() ==
      std::string(
          "slots: rank 1: the stash of stage 3, microbatch 0, kept from cell #1 on, ends at 128 B, beyond "
          "the 100 B of the rank; raise its limit, keep fewer microbatches in flight, offload or recompute"));
}
