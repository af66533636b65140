// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/markup.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using nlohmann::json;

namespace {

void check_refusal(std::vector<std::string> words, int code, std::string const& said) {
  words.insert(words.begin(), "schedule");
  auto const r = run_tool(words);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == code);
  CHECK(r.said.empty());
  CHECK(r.to_stderr.find(said) != std::string::npos);
  CHECK(r.seconds < 2);
  CHECK(r.peak_bytes < 256'000'000);
}

}  // namespace

TEST_CASE("cleave schedule: writes every schedule in every format") {
  scratch_folder const out;
  for (auto const name : cleave::schedule_names) {
    CAPTURE(name);
    std::vector<std::string> const words = {"schedule", std::string(name), "-p", "2", "-m", "4"};
    auto const with = [&](std::vector<std::string> more) {
      more.insert(more.begin(), words.begin(), words.end());
      auto r = run_tool(more);
      CAPTURE(r.to_stderr);
      REQUIRE(r.exit == 0);
      return r.said;
    };
    CHECK(with({}).find("bubble") != std::string::npos);
    auto const said = json::parse(with({"--json"}));
    CHECK(said.at("name") == name);
    CHECK(said.at("rows").size() == 2);
    CHECK(json::parse(with({"--trace"})).at("traceEvents").size() > 8);
    CHECK(read_markup(with({"--svg"})).size() > 8);
    CHECK(read_markup(with({"--svg", "--plain"})).size() > 8);
    CHECK(with({"--html"}).find("</html>") != std::string::npos);
    CHECK(json::parse(with({"--lower", "--json"})).at("makespan") == said.at("makespan"));
    auto const file = out / (std::string(name) + ".json");
    CHECK(with({"--json", "-o", file}).find(".json") != std::string::npos);
    CHECK(json::parse(text_of_file(file)) == said);
  }
}

TEST_CASE("cleave schedule: --csv writes the CSV of the library") {
  CHECK(run_tool({"schedule", "interleaved1f1b", "-p", "4", "-v", "2", "-m", "16", "--csv"}).said ==
        schedule_csv(cleave::interleaved_1f1b(4, 2, 16)));
  CHECK(run_tool({"schedule", "ScheduleZBVZeroBubble", "-p2", "-m4", "--csv"}).said ==
        schedule_csv(cleave::zbv(2, 4)));
  check_refusal({"DualPipe", "--csv"}, 2, "form a single chain; write JSON");
}

TEST_CASE("cleave schedule: --costs reads CSV and JSON files") {
  scratch_folder const out;
  auto const file = [&](std::string const& name, std::string const& text) {
    std::ofstream(out / name) << text;
    return out / name;
  };
  auto const lines = file("costs.csv", "stage,F,B,stash\n*,2,4,1MiB\n");
  auto const said =
      json::parse(run_tool({"schedule", "gpipe", "-p", "2", "-m", "2", "--json", "--costs", lines}).said);
  CHECK(said.at("makespan") == 18);
  CHECK(said.at("memory_unit") == "bytes");
  auto const unit = file("costs.json", R"({"unit": "ms", "stages": {"F": 2}})");
  CHECK(run_tool({"schedule", "gpipe", "-p", "2", "-m", "2", "--costs", unit}).said.find("18\u00a0ms") !=
        std::string::npos);
  check_refusal({"gpipe", "--costs", file("a.csv", "stage,F\n0,-1\n")}, 3,
                "a.csv: line 2, field 2: '-1' is not a time from 0 to 1e100");
  check_refusal({"gpipe", "--costs", file("b.csv", "stage,F,B\n0,1\n")}, 3,
                "b.csv: line 2: there are 2 fields");
  check_refusal({"gpipe", "--costs", file("c.json", R"({"stages": {"F": 1e400}})")}, 3, "c.json: line 1");
  check_refusal({"gpipe", "-p", "3", "--costs", file("d.csv", "stage,F\n0,1\n1,1\n")}, 3,
                "2 costs for 3 stages");
  check_refusal({"gpipe", "--costs", "no/such.csv"}, 3, "no/such.csv: cannot be opened");
}

TEST_CASE("cleave schedule: rejects wrong names, counts and options and says which are valid") {
  check_refusal({}, 2, "the name of a schedule is missing");
  check_refusal({"1F2B"}, 2, "no schedule is called '1F2B'; nearest: '1F1B'");
  check_refusal({"gpipe", "1f1b"}, 2, "one schedule at a time; found a second operand: '1f1b'");
  check_refusal({"gpipe", "-p", "0"}, 2, "-p takes a whole number from 1 to 1048576, not '0'");
  check_refusal({"gpipe", "-p", "-3"}, 2, "not '-3'");
  check_refusal({"gpipe", "-m", "many"}, 2, "not 'many'");
  check_refusal({"gpipe", "-m", "99999999999"}, 2, "not '99999999999'");
  check_refusal({"gpipe", "-p", "1048576", "-m", "1048576"}, 2, "are too many");
  check_refusal({"interleaved1f1b", "-p", "1024", "-v", "1024", "-m", "128"}, 2,
                "more than half of this machine");
  check_refusal({"gpipe", "-p", "64", "-m", "8192", "--svg"}, 2, "actions is too large");
  check_refusal({"gpipe", "-v", "2"}, 2, "each rank must have 1 stage, not 2");
  check_refusal({"dualpipev", "-p", "4", "-m", "7"}, 2, "there must be 8 microbatches or more, not 7");
  check_refusal({"gpipe", "--svg", "--json"}, 2, "one output form at a time");
  check_refusal({"gpipe", "--hop", "-1"}, 2, "--hop takes a time");
  check_refusal({"gpipe", "--hop", "nan"}, 2, "--hop takes a time");
  check_refusal({"gpipe", "-o", "no/such/folder/x", "--svg"}, 3, "No such file or directory");
  check_refusal({"all", "--svg"}, 2, "`all` prints a table");
}

TEST_CASE("cleave schedule: a single schedule and the table of all give the same time and unit") {
  auto const all = run_tool({"schedule", "all", "-p", "4", "-m", "8"}).said;
  CHECK(all.find("Times are in F: what F of a rank's stages takes for a microbatch") != std::string::npos);
  std::istringstream lines(all);
  std::size_t compared = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, stages, time;
    words >> name >> stages >> time;
    if (std::ranges::find(cleave::schedule_names, name) == std::ranges::end(cleave::schedule_names)) continue;
    CAPTURE(name);
    ++compared;
    auto const one = run_tool({"schedule", name, "-p", "4", "-m", "8"}).said;
    CHECK(one.find("the step takes " + time + "\u00a0F, bubble ") != std::string::npos);
    CHECK(one.find("1\u00a0F is what F of a rank's stages takes for a microbatch") != std::string::npos);
    auto const said = json::parse(run_tool({"schedule", name, "-p", "4", "-m", "8", "--json"}).said);
    CHECK(said.at("time_unit") == "F");
    CHECK(said.at("makespan").get<double>() == doctest::Approx(std::stod(time)));
  }
  CHECK(compared == std::ranges::size(cleave::schedule_names));
  CHECK(run_tool({"schedule", "ZBV", "-p", "4", "-m", "8"}).said.find("takes 25.5\u00a0F") !=
        std::string::npos);
}

TEST_CASE("cleave schedule: `all` compares every schedule, and --list lists them") {
  auto const all = run_tool({"schedule", "all", "-p", "4", "-m", "8"});
  auto const list = run_tool({"schedule", "--list"});
  CHECK(all.exit == 0);
  CHECK(list.exit == 0);
  for (auto const name : cleave::schedule_names) {
    CHECK(all.said.find(name) != std::string::npos);
    CHECK(list.said.find(name) != std::string::npos);
  }
  CHECK(run_tool({"schedule", "all", "-p", "4", "-m", "3"})
            .said.find("no: there must be 8 microbatches or more") != std::string::npos);
}
