// SPDX-License-Identifier: MIT
#include "cleave/formats/cost_table.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "support/error_text.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refused(std::string const& text) {
  return testing::error_text<cleave::json::error>([&] { read_costs(text); });
}
void check_refusal(std::string const& text, std::string const& where, std::string const& why) {
  auto const said = refused(text);
  CAPTURE(text);
  CAPTURE(said);
  CHECK(said.find(where + ": ") != std::string::npos);
  CHECK(said.find(why) != std::string::npos);
}

}  // namespace

TEST_CASE("read_costs: reads JSON with all keys and with the required ones only") {
  auto const table = read_costs(R"( {"unit": "ms", "hop": 0.1, "link": {"latency": 0.05, "bandwidth": 2e7},
    "links": [{"from": 0, "to": 1, "latency": 0.2}],
    "edges": {"activation": "8MiB", "gradient": 9},
    "stages": [{"F": 1.5, "B": 3, "stash": "96MiB"}, {"F": 1, "I": 1.25, "W": 0.75, "UNSHARD": 2}]})");
  CHECK(table.unit == "ms");
  CHECK(table.base_latency == 0.1);
  CHECK(table.link == rank_link{0.05, 2e7});
  CHECK(table.links ==
        std::vector<pair_link>{{rank_id{0}, rank_id{1}, {0.2, std::numeric_limits<double>::infinity()}}});
  CHECK(table.bytes.edges == std::vector<edge_bytes>{{8u << 20, 9}});
  CHECK(table.bytes.stages == std::vector<pass_bytes>{{96u << 20, 0, 0}, {0, 0, 0}});
  REQUIRE(table.stages.size() == 2);
  CHECK(table.stages[0] == stage_cost{1.5, 3, 1.5, 1.5, 1.5});
  CHECK(table.stages[1].unshard == 2);

  auto const least = read_costs(R"({"stages": {"F": 2}})");
  CHECK(least == cost_table{.stages = {{2, 4, 2, 2, 2}}});
}

TEST_CASE("read_costs: both file formats give the same table") {
  CHECK(read_costs("stage,F,B,stash\n0,1.5,3,96MiB\n1,1,2,64MiB\n") ==
        read_costs(
            R"({"stages": [{"F": 1.5, "B": 3, "stash": "96MiB"}, {"F": 1, "B": 2, "stash": "64MiB"}]})"));
}

TEST_CASE("read_costs: rejects malformed files and names the place") {
  check_refusal("{", "line 1, column 2", "");
  check_refusal(R"({"hop": 1})", "line 1, column 1, $", "is missing the key 'stages'");
  check_refusal(R"({"stages": []})", "$.stages", "must not be empty");
  check_refusal(R"({"stages": 3})", "$.stages", "expected a list");
  check_refusal(R"({"stages": [{"F": 1}, {"B": 1}]})", "$.stages[1]", "is missing the key 'F'");
  check_refusal(R"({"stages": [{"F": -1}]})", "$.stages[0].F", "must be a time from 0");
  check_refusal(R"({"stages": [{"F": 1e300}]})", "$.stages[0].F", "must be a time from 0");
  check_refusal(R"({"stages": [{"F": "1"}]})", "$.stages[0].F", "expected a number");
  check_refusal(R"({"stages": [{"F": 1, "G": 1}]})", "$.stages[0].G", "unknown key 'G'");
  check_refusal(R"({"stages": {"F": 1, "stash": -1}})", "$.stages.stash", "not negative");
  check_refusal(R"({"stages": {"F": 1, "stash": "much"}})", "$.stages.stash",
                "'much' is not a size in bytes");
  check_refusal(R"({"hops": 1, "stages": {"F": 1}})", "$.hops", "unknown key 'hops'");
  check_refusal(R"({"hop": -1, "stages": {"F": 1}})", "$.hop", "must be a time");
  check_refusal(R"({"link": {"bandwidth": 0}, "stages": {"F": 1}})", "$.link.bandwidth", "above 0");
  check_refusal(R"({"links": [{"from": 0}], "stages": {"F": 1}})", "$.links[0]", "is missing the key 'to'");
  check_refusal(R"({"edges": {"activation": 1}, "stages": {"F": 1}})", "$.edges",
                "is missing the key 'gradient'");
}
