// SPDX-License-Identifier: MIT
#include <algorithm>
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
#include "support/toy_autograd.hpp"

/// conformance [AREA] [DIR] [--mutate] [--list]: runs recorded cases, those of the project or of any folder
/// with the same layout.
namespace cleave::conformance {

using namespace detail;

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
  std::size_t nothing_to_alter = 0;  // among the skipped ones
};

void print(std::string const& line) { std::printf("%s\n", line.c_str()); }

/// The keys under which a case has its expected results.
constexpr char const* results[] = {"expect", "error", "better", "defect", "eval", "valid_alone", "derived"};

/// Runs `c` with `body` as its recording. Skips layouts, rules and operators that the runner does not
/// support.
outcome run(test_case const& c, json const& body) {
  auto const runner = find_runner(c.area);
  if (!runner) return {{}, "no runner for the area " + c.area};
  if (std::ranges::none_of(results, [&](auto const* key) { return c.has(key); }))
    return {{}, "nothing says what is right"};
  try {
    return runner(c, body);
  } catch (unjudged_error const& e) {
    return {{}, e.what()};
  } catch (layout_error const& e) {
    return {{}, e.what()};
  } catch (json::exception const& e) {
    return {{}, e.what()};
  } catch (testing::unknown_target_error const& e) {
    return {{}, e.what()};
  } catch (std::exception const& e) {
    return {{{"the run", "a result", std::string("an error: ") + e.what()}}, ""};
  }
}

void skip(std::string const& file, std::string const& name, std::string const& reason, tally& t) {
  ++t.skipped;
  print("skipped: " + file + (name.empty() ? "" : ", " + name) + ": " + reason);
}

void run_case(test_case const& c, tally& t) {
  auto const result = run(c, c.body);
  if (!result.skipped.empty()) {
    skip(c.file, c.name, result.skipped, t);
  } else if (result.differences.empty()) {
    ++t.passed;
  } else {
    ++t.failed;
    for (auto const& d : result.differences)
      print(c.file + ", " + c.name + ": " + d.what + ": expected " + d.expected + ", got " + d.got);
  }
}

/// The inverse check: a case with an altered recording must fail. It also counts as a failure if only the
/// altered case is skipped.
void run_mutated(test_case const& c, tally& t) {
  std::string at;
  auto const body = mutated(c, at);
  if (at.empty()) {
    ++t.skipped;
    ++t.nothing_to_alter;
    return;
  }
  auto const result = run(c, body);
  auto const unjudged = result.skipped.empty() ? "" : run(c, c.body).skipped;
  if (!unjudged.empty()) {
    skip(c.file, c.name, unjudged, t);
  } else if (result.skipped.empty() && result.differences.empty()) {
    ++t.failed;
    print(c.file + ", " + c.name + ": passes although " + at + " was altered to " +
          shortened(body[pointer(at)]));
  } else {
    ++t.passed;
  }
}

void run_area(arguments const& a, std::string const& area, tally& t) {
  auto const read = read_recordings(a.folder, area);
  for (auto const& c : read.cases)
    if (a.list)
      print(c.file + ", " + c.name);
    else
      a.mutate ? run_mutated(c, t) : run_case(c, t);
  for (auto const& c : read.unread) skip(c.file, c.name, c.reason, t);
}

int run_all(arguments const& a) {
  auto areas = areas_below(a.folder);
  if (!a.area.empty()) areas = {a.area};
  tally t;
  for (auto const& area : areas) run_area(a, area, t);
  if (a.list) return 0;
  if (t.nothing_to_alter > 0) print("skipped, nothing exact to alter: " + std::to_string(t.nothing_to_alter));
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
  // A single argument may be a folder (it has a slash, or areas below it) or an area.
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
