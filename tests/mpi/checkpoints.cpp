// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include "cleave/checkpoint/checkpoint.hpp"
#include "launch_ranks.hpp"
#include "support/rng.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

TEST_CASE(
    "write_checkpoint: after a rank is killed, the last acknowledged checkpoint or a newer one is readable") {
  cleave::testing::rng random(2);
  int seen = 0;
  for (int i = 0; i < 4; ++i) {
    scratch_folder const folder(scratch_folder::in_memory());
    auto const r =
        launch_ranks(4, "save " + folder.path() + " " + std::to_string(20'000 + random.below(60'000)));
    CHECK_MESSAGE(r.exit != 0, r.said);
    std::uint64_t acknowledged = 0;
    std::regex const line("acknowledged ([0-9]+)\n");
    for (std::sregex_iterator m(r.said.begin(), r.said.end(), line), end; m != end; ++m)
      acknowledged = std::max<std::uint64_t>(acknowledged, std::stoull((*m)[1]));
    if (acknowledged == 0 && find_checkpoint_fault(folder.path())) continue;  // killed too early
    ++seen;
    auto const saved = read_checkpoint(folder.path(), {});
    CHECK(saved.step() >= acknowledged);
    for (std::string const rank : {"0", "1", "2", "3"}) {
      std::vector<double> weights(2000);
      named_tensor const weight{{"layer" + rank}, {weights.data(), element_type::f64, {2000}}};
      saved.load(std::span(&weight, 1));
      CHECK(std::ranges::count(weights, static_cast<double>(saved.step())) == 2000);
    }
  }
  CHECK(seen > 0);
}
