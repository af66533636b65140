// SPDX-License-Identifier: MIT
#include "cleave/formats/stage_map_json.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "cleave/schedule/model/placement.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refusal(std::string const& text) {
  return testing::error_text([&] { read_stage_map_json(text); });
}

/// The text of a map with two ranks and the given stages.
std::string of_stages(std::string const& stages) {
  return "{\"format\":\"cleave stage map 1\",\"ranks\":2,\n\"stages\":[" + stages + "]}";
}

stage_map random_map(testing::rng& random) {
  auto const number = [&](std::size_t below) { return static_cast<std::uint32_t>(random.below(below)); };
  stage_map m{1 + number(4), {}};
  int names = 0;
  for (auto stages = random.below(6); stages > 0; --stages) {
    mapped_stage stage{.rank = rank_id{number(m.ranks)}};
    for (auto* list :
         {&stage.nodes, &stage.modules, &stage.state, &stage.inputs, &stage.outputs, &stage.constants})
      for (auto n = random.below(4); n > 0; --n) list->push_back("\"\u00e9\n" + std::to_string(names++));
    m.stages.push_back(std::move(stage));
  }
  return m;
}

}  // namespace

TEST_CASE("write_stage_map_json: writes the expected text of a small map") {
  stage_map const m{2,
                    {{rank_id{0}, {"embed", "h_0"}, {"embed", "h.0"}, {"position"}, {"tokens"}, {"h_0"}},
                     {.rank = rank_id{1}, .nodes = {"head"}}}};
  CHECK(write_stage_map_json(m) ==
        R"({"format":"cleave stage map 1","ranks":2,"stages":[{"stage":0,"rank":0,"nodes":["embed","h_0"],)"
        R"("modules":["embed","h.0"],"state":["position"],"inputs":["tokens"],"outputs":["h_0"]},)"
        R"({"stage":1,"rank":1,"nodes":["head"],"modules":[],"state":[],"inputs":[],"outputs":[]}]})");
  CHECK(read_stage_map_json(write_stage_map_json(m, cleave::json::writer::layout::indented)) == m);
}

TEST_CASE("read_stage_map_json: random maps read back equal") {
  testing::rng random(17);
  for (int round = 0; round < 300; ++round) {
    auto const m = random_map(random);
    CHECK(read_stage_map_json(write_stage_map_json(m)) == m);
  }
}

TEST_CASE("read_stage_map_json: stages can have any order and need only rank and nodes") {
  auto const m = read_stage_map_json(
      of_stages(R"({"stage":1,"rank":1,"nodes":["b"]},{"rank":0,"stage":0,"nodes":["a"],"outputs":["a"]})"));
  CHECK(m == stage_map{2,
                       {{.rank = rank_id{0}, .nodes = {"a"}, .outputs = {"a"}},
                        {.rank = rank_id{1}, .nodes = {"b"}}}});
}

TEST_CASE("read_stage_map_json: rejects a stage with no rank, two ranks or an unknown rank and names it") {
  CHECK(refusal(of_stages(R"({"stage":0,"rank":0,"nodes":["a"]},{"stage":1,"nodes":["b"]})")) ==
        "line 2, column 46, $.stages[1]: is missing the key 'rank'");
  CHECK(refusal(of_stages(R"({"stage":0,"rank":0,"nodes":[]},{"stage":2,"rank":1,"nodes":[]})")) ==
        "map of stages: entry #1 puts stage 2 on rank 1, but there are 2 stages; number them from 0 without "
        "a gap");
  CHECK(
      refusal(of_stages(R"({"stage":0,"rank":0,"nodes":["a"]},{"stage":0,"rank":1,"nodes":["a"]})")) ==
      "map of stages: entry #1 puts stage 0 on rank 1, but an earlier entry has that stage; name each once");
  CHECK(refusal(of_stages(R"({"stage":0,"rank":2,"nodes":["a"]})")) ==
        "map of stages: entry #0 puts stage 0 on rank 2, but there are 2 ranks; number them from 0");
}

TEST_CASE("read_stage_map_json: rejects a malformed map and names the place") {
  CHECK(refusal("[]") == "line 1, column 1, $: expected an object, got []");
  CHECK(refusal(R"({"format":"cleave plan 1"})") ==
        "line 1, column 11, $.format: expected the format \"cleave stage map 1\"");
  CHECK(refusal(of_stages(R"({"stage":0,"rank":0})")) ==
        "line 2, column 11, $.stages[0]: is missing the key 'nodes'");
  CHECK(refusal(of_stages(R"({"stage":0,"rank":[0,1],"nodes":[]})"))
            .find("$.stages[0].rank: expected an integer") != std::string::npos);
  CHECK(refusal(of_stages(R"({"stage":0,"rank":0,"nodes":[],"node":[]})")).find("unknown key 'node'") !=
        std::string::npos);
}

TEST_CASE("find_other_placement: reports where map and schedule differ, with both sides") {
  stage_map m{2, {{.rank = rank_id{0}}, {.rank = rank_id{1}}, {.rank = rank_id{1}}, {.rank = rank_id{0}}}};
  CHECK(find_other_placement(m, wave_placement(2)) == std::nullopt);
  CHECK(find_other_placement(m, loop_placement(2, 2)) ==
        "the map has stage 2 on rank 1, the schedule has on rank 0");
  CHECK(find_other_placement(m, loop_placement(2, 1)) == "the map has 4 stages, the schedule has 2 stages");
  m.ranks = 3;
  CHECK(find_other_placement(m, wave_placement(2)) == "the map has 3 ranks, the schedule has 2 ranks");
}
