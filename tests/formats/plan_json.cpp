// SPDX-License-Identifier: MIT
#include "cleave/formats/plan_json.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "cleave/split/make_plan.hpp"
#include "support/error_text.hpp"
#include "support/random_plan.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refusal(std::string const& text) {
  return testing::error_text<cleave::json::error>([&] { read_plan_json(text); });
}

}  // namespace

TEST_CASE("write_plan_json: writes the expected text of a small plan") {
  plan const p{{{{0, 1}, {0}, {1}, {3}}, {{2}, {3}, {}, {4}}},
               {stage_id{0}, stage_id{1}},
               {{3, stage_id{0}, stage_id{1}}},
               {}};
  CHECK(write_plan_json(p) ==
        R"({"format":"cleave plan 1","stages":[{"nodes":[0,1],"inputs":[0],"state":[1],"outputs":[3]},)"
        R"({"nodes":[2],"inputs":[3],"state":[],"outputs":[4]}],"order":[0,1],)"
        R"("transfers":[{"value":3,"from":0,"to":1}],"updates":[]})");
  CHECK(read_plan_json(write_plan_json(p, cleave::json::writer::layout::indented)) == p);
}

TEST_CASE("read_plan_json: random plans read back equal, with either index type") {
  testing::rng random(61);
  for (int round = 0; round < 300; ++round) {
    auto const g = testing::random_rich_graph(random, 1 + random.below(25));
    auto const p = make_plan(g, testing::random_legal_partition(random, g, 3));
    CHECK(read_plan_json(write_plan_json(p)) == p);
    CHECK(read_plan_json<std::uint64_t>(write_plan_json(p)).order == p.order);
  }
  CHECK(read_plan_json(write_plan_json(plan())) == plan());
}

TEST_CASE("read_plan_json: rejects an invalid plan and names the place") {
  auto const with = [](std::string const& stages, std::string const& order, std::string const& transfers) {
    return "{\"format\":\"cleave plan 1\",\n\"stages\":" + stages + ",\n\"order\":" + order +
           ",\n\"transfers\":" + transfers + ",\"updates\":[]}";
  };
  std::string const stage = R"({"nodes":[0],"inputs":[],"state":[],"outputs":[]})";
  CHECK(refusal(with("[" + stage + "]", "[0]", "[]")) == "accepted");
  CHECK(refusal("{\"format\":\"cleave plan 2\"}") ==
        "line 1, column 11, $.format: expected the format \"cleave plan 1\"");
  CHECK(refusal("[]") == "line 1, column 1, $: expected an object, got []");
  CHECK(refusal("{\"format\":\"cleave plan 1\"}") == "line 1, column 1, $: is missing the key 'stages'");
  CHECK(refusal(with("[" + stage + "]", "[1]", "[]")) ==
        "line 3, column 10, $.order[0]: the plan has 1 stages, numbered from 0");
  CHECK(refusal(with("[" + stage + "]", "[0]", R"([{"value":-1,"from":0,"to":0}])")) ==
        "line 4, column 23, $.transfers[0].value: expected an integer of 32 bits, not negative, got -1");
  CHECK(refusal(with("[{\"nodes\":[4294967295]}]", "[]", "[]")) ==
        "line 2, column 21, $.stages[0].nodes[0]: the largest number of the type is reserved and refers to "
        "nothing");
  CHECK(refusal(with("[{\"node\":[]}]", "[]", "[]")) ==
        "line 2, column 19, $.stages[0].node: unknown key 'node'");
}
