// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/receive_slots.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "cleave/schedule/families/gpipe.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("fewest_receive_slots: rank r > 0 needs p - r activation slots in 1F1B and m in GPipe") {
  CHECK(fewest_receive_slots(one_f_one_b(4, 16)).activations == std::vector<std::uint32_t>{0, 3, 2, 1});
  CHECK(fewest_receive_slots(one_f_one_b(4, 16)).gradients == std::vector<std::uint32_t>{1, 1, 1, 0});
  CHECK(fewest_receive_slots(gpipe(3, 5)).activations == std::vector<std::uint32_t>{0, 5, 5});
  CHECK(fewest_receive_slots(gpipe(3, 5), input_use::by_forward).activations ==
        std::vector<std::uint32_t>{0, 1, 1});
}

TEST_CASE("find_slot_shortage: the fewest slots suffice, and one slot less does not") {
  testing::rng random(14);
  for (int i = 0; i < 60; ++i) {
    auto const s = testing::some_schedule(random);
    auto const fewest =
        fewest_receive_slots(s, random.one_in(2) ? input_use::by_forward : input_use::until_gradient);
    REQUIRE(!find_slot_shortage(s, fewest));
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
      for (bool const gradients : {false, true}) {
        auto less = fewest;
        auto& slots = (gradients ? less.gradients : less.activations)[r];
        if (slots == 0) continue;
        --slots;
        auto const shortage = find_slot_shortage(s, less);
        REQUIRE(shortage.has_value());
        REQUIRE(shortage->rank == rank_id{r});
        REQUIRE(shortage->given == slots);
        REQUIRE(shortage->needed == slots + 1);
      }
  }
}

TEST_CASE("fewest_receive_slots: a compound needs the slots of all its parts at once") {
  auto const s = testing::schedule_of_rows({"0F0,0F1,0B0,0B1", "1F0,(1B0;1F1)OVERLAP_F_B,1B1"});
  CHECK(fewest_receive_slots(s).activations[1] == 2);
}

TEST_CASE("find_slot_shortage: no limit is no shortage, and a shortage names the rank, pass and counts") {
  auto const s = one_f_one_b(3, 4);
  CHECK(!find_slot_shortage(s, {}));
  auto const shortage = find_slot_shortage(s, {.activations = {1}});
  REQUIRE(shortage.has_value());
  CHECK(std::string(slot_shortage_error(*shortage).what()) ==
        "receive slots: rank 1 needs 2 slots for activations at '1F1' but has 1; give it more slots, or keep "
        "fewer microbatches in flight");
}
