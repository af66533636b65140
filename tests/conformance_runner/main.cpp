// SPDX-License-Identifier: MIT
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "conformance_runner/mutate.hpp"
#include "conformance_runner/outcome.hpp"
#include "conformance_runner/read_case.hpp"

/// conformance [AREA] [DIR] [--mutate] [--list]: runs recorded cases, those of the project or of any folder
/// laid out alike.
namespace cleave::conformance {

outcome run_ddp(test_case const& c, json const& body);
outcome run_slapo(test_case const& c, json const& body);
outcome run_pipe(test_case const& c, json const& body);
outcome run_schedules(test_case const& c, json const& body);
outcome run_capability(test_case const& c, json const& body);
outcome run_split_by_tags(test_case const& c, json const& body);
outcome run_split_module(test_case const& c, json const& body);

area_runner find_runner(std::string const& area) {
  static std::map<std::string, area_runner> const runners = {
      {"ddp", run_ddp},
      {"pipe", run_pipe},
      {"slapo", run_slapo},
      {"schedules", run_schedules},
      {"capability", run_capability},
      {"split_by_tags", run_split_by_tags},
      {"split_module", run_split_module},
  };
  auto const found = runners.find(area);
  return found == runners.end() ? nullptr : found->second;
}

namespace {

struct arguments {
  std::string area;
  std::filesystem::path folder = std::filesystem::path(CLEAVE_TEST_DATA) / "conformance";
  bool mutate = false, list = false;
};

struct tally {
  std::size_t passed = 0, failed = 0, skipped = 0;
  std::map<std::string, std::size_t> reasons;  // why cases were skipped
};

void print(std::string const& line) { std::printf("%s\n", line.c_str()); }

outcome run(test_case const& c, json const& body) {
  auto const runner = find_runner(c.area);
  if (!runner) return {{}, "area " + c.area};
  try {
    return runner(c, body);
  } catch (std::exception const& e) {
    return {{{"the run", "a result", std::string("an error: ") + e.what()}}, ""};
  }
}

void run_case(test_case const& c, tally& t) {
  auto const result = run(c, c.body);
  if (!result.skipped.empty()) {
    ++t.skipped;
    ++t.reasons[result.skipped];
  } else if (result.differences.empty()) {
    ++t.passed;
  } else {
    ++t.failed;
    for (auto const& d : result.differences)
      print(c.file + ", " + c.name + ": " + d.what + ": expected " + d.expected + ", got " + d.got);
  }
}

/// The other way round: a case whose recording was altered must fail.
void run_mutated(test_case const& c, tally& t) {
  std::string at;
  auto const body = mutated(c, at);
  auto const result = run(c, body);
  if (!result.skipped.empty() || at.empty()) {
    ++t.skipped;
    ++t.reasons[at.empty() ? "nothing exact to alter" : result.skipped];
  } else if (result.differences.empty()) {
    ++t.failed;
    print(c.file + ", " + c.name + ": passes although " + at + " was altered to " +
          shortened(body[pointer(at)]));
  } else {
    ++t.passed;
  }
}

int run_all(arguments const& a) {
  auto areas = areas_below(a.folder);
  if (!a.area.empty()) areas = {a.area};
  tally t;
  for (auto const& area : areas)
    for (auto const& c : read_area(a.folder, area)) {
      if (a.list)
        print(c.file + ", " + c.name);
      else
        a.mutate ? run_mutated(c, t) : run_case(c, t);
    }
  if (a.list) return 0;
  for (auto const& [reason, count] : t.reasons)
    print("skipped, not built yet: " + reason + ": " + std::to_string(count));
  print(std::to_string(t.passed) + (a.mutate ? " altered cases fail as they must, " : " passed, ") +
        std::to_string(t.failed) + (a.mutate ? " pass, " : " failed, ") + std::to_string(t.skipped) +
        " skipped");
  return t.failed == 0 ? 0 : 1;
}

arguments read_arguments(std::vector<std::string> const& words) {
  arguments a;
  std::vector<std::string> places;
  for (auto const& word : words) {
    if (word == "--mutate")
      a.mutate = true;
    else if (word == "--list")
      a.list = true;
    else if (word.starts_with("-"))
      throw layout_error("unknown option " + word);
    else
      places.push_back(word);
  }
  if (places.size() > 2) throw layout_error("at most an area and a folder");
  // One word may be either: a folder with a slash or areas below it, or an area.
  for (auto const& place : places) {
    bool const area =
        a.area.empty() && place.find('/') == place.npos && schema(layouts).defines(place + "_case");
    if (area)
      a.area = place;
    else
      a.folder = place;
  }
  return a;
}

}  // namespace
}  // namespace cleave::conformance

int main(int count, char** words) {
  using namespace cleave::conformance;
  try {
    return run_all(read_arguments({words + 1, words + count}));
  } catch (std::exception const& e) {
    std::fprintf(stderr, "conformance: %s\n", e.what());
    return 2;
  }
}
