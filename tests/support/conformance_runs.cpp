// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "conformance_runner/read_case.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave;
using namespace cleave::conformance;
using tree = cleave::conformance::json;  // not the namespace of cleave

// Runs of the conformance runner on cases other than the recorded ones.
namespace {

std::filesystem::path const recordings = std::filesystem::path(CLEAVE_TEST_DATA) / "conformance";

bool is_built() {
  if (std::filesystem::exists(testing::built_program("conformance"))) return true;
  MESSAGE("skipped: the conformance runner is not built");
  return false;
}

/// A folder of recordings written by this test.
class written_cases {
 public:
  void add(std::string const& area, std::string const& file, tree const& top) {
    std::filesystem::create_directories(scratch_ / area);
    std::ofstream(scratch_ / (area + "/" + file)) << top.dump();
  }
  void add_cases(std::string const& area, std::string const& file, tree const& cases) {
    add(area, file, {{"format", 1}, {"cases", cases}});
  }

  testing::child_report run() const {
    return testing::run_built(testing::built_program("conformance"), {scratch_.path()});
  }

 private:
  testing::scratch_folder scratch_;
};

void says(testing::child_report const& report, std::string const& text) {
  CHECK_MESSAGE(report.said.find(text) != report.said.npos, "expected: ", text, "\nsaid: ", report.said);
}

/// Returns a case about the numbers of stages.
tree numbers_case(std::string const& name, tree const& numbers) {
  return {{"name", name},
          {"input", {{"calls", {"submod_pp_0", "submod_pp_1"}}}},
          {"expect", {{"num_stages", 2}, {"stage_idx", numbers}}}};
}

tree node(std::string const& op, std::string const& name, std::string const& target, tree const& args) {
  return {{"name", name}, {"op", op}, {"target", target}, {"args", args}};
}

tree read(std::string const& name) { return {{"node", name}}; }

/// Returns a model of two stages with operators that no recording has. It computes x·w, stacks its halves,
/// scales them along an axis and sums.
tree model_case(std::string const& join) {
  auto const call = [](std::string const& name, std::string const& target, tree const& args) {
    return node("call_function", name, target, args);
  };
  tree cat = call("c", join, tree::array({{{"list", {read("b"), read("a")}}}}));
  cat["kwargs"] = {{"dim", 1}};
  tree const middle = {{"tuple", tree::array({{{"slice", tree::array({nullptr, nullptr, nullptr})}},
                                              {{"slice", {1, 4, 2}}}})}};
  tree const nodes = {
      node("get_attr", "w", "w", tree::array()),
      node("placeholder", "x", "x", tree::array()),
      call("m", "matmul", {read("x"), read("w")}),
      call("s", "chunk", tree::array({read("m"), 2, 1})),
      call("a", "getitem", {read("s"), 0}),
      call("b", "getitem", {read("s"), -1}),
      call("cut", "pipe_split", tree::array()),
      cat,
      call("p", "softmax", {read("c"), 0}),
      call("i", "getitem", tree::array({read("p"), middle})),
      call("l", "sum", tree::array({read("i")})),
      node("output", "output", "output", tree::array({{{"tuple", tree::array({read("l")})}}}))};
  tree const state = {{"fqn", "w"},      {"kind", "parameter"}, {"storage", 0},
                      {"shape", {3, 4}}, {"dtype", "f64"},      {"bytes", 96}};
  return {{"name", "what the runner has never seen"},
          {"input",
           {{"graph", {{"nodes", nodes}}},
            {"state", tree::array({state})},
            {"values", {{"w", {1, -2, 0.5, 1, 3, 0, -1, 2, 0.25, 1, 1, -1}}}},
            {"args", tree::array({{{"shape", {2, 3}}, {"data", {1, 0.5, -1, 2, 1, 0}}}})},
            {"spec", true}}},
          {"defect", "as a bare mark it was not found"},
          {"better", {{"rule", "backward as with (True) as a one-element tuple"}}}};
}

/// Returns every `step`-th case of an area in one file, under names without meaning.
tree renamed_cases(std::string const& area, std::size_t step) {
  tree cases = tree::array();
  std::size_t i = 0;
  for (auto const& c : read_area(recordings, area)) {
    auto body = c.body;
    if (i++ % step != 0) continue;
    // Names by which cases refer to each other stay.
    if (area != "pipe" || !body["input"].contains("values")) body["name"] = "case " + std::to_string(i);
    body.erase("category");
    cases.push_back(body);
  }
  return cases;
}

}  // namespace

TEST_CASE("conformance runner: judges a case by its content, not by its name or file") {
  if (!is_built()) return;
  written_cases folder;
  std::size_t count = 0;
  for (auto const& [area, step] : {std::pair<std::string, std::size_t>{"pipe", 1},
                                   {"schedules", 11},
                                   {"split_module", 3},
                                   {"slapo", 5},
                                   {"ddp", 9},
                                   {"capability", 7}}) {
    auto const cases = renamed_cases(area, step);
    folder.add_cases(area, "0.json", cases);
    count += cases.size();
  }
  auto const report = folder.run();
  says(report, std::to_string(count) + " passed, 0 failed, 0 skipped\n");
  CHECK(report.exit == 0);
}

TEST_CASE("conformance runner: skips only the cases of unknown layout and gives the reason") {
  if (!is_built()) return;
  written_cases folder;
  auto remarked = numbers_case("with a remark", {0, 1});
  remarked["seed"] = 17;
  auto field = numbers_case("a field", {0, 1});
  field["input"]["surprise"] = {1};
  folder.add_cases("pipe", "some.json",
                   {numbers_case("right", {0, 1}),
                    field,
                    {{"name", "nobody's"}, {"input", {{"steps", 3}}}, {"expect", 1}},
                    {{"name", "half"}, {"input", {{"calls", {"submod_pp_0"}}}}},
                    "no case",
                    numbers_case("wrong", {1, 0}),
                    remarked});
  folder.add("pipe", "older.json", {{"format", 0}, {"cases", tree::array()}});
  folder.add("pipe", "list.json", tree::array({1}));
  folder.add_cases("unheard of", "x.json",
                   {numbers_case("known by its fields", {0, 1}), {{"name", "strange"}, {"colour", {"red"}}}});
  auto const report = folder.run();
  says(report, "skipped: pipe/some.json, a field: .input: unknown key 'surprise'");
  says(report, "skipped: pipe/some.json, nobody's: no runner for a case with the input steps");
  says(report, "skipped: pipe/some.json, \"no case\"");
  says(report, "skipped: pipe/older.json: format is not 1");
  says(report, "skipped: pipe/list.json: no list 'cases'");
  says(report, "skipped: unheard of/x.json, strange: no area is known as 'unheard of', or has such cases");
  says(report, "pipe/some.json, wrong: expect.stage_idx[0]: expected 1, got 0");
  says(report, "skipped: pipe/some.json, half: nothing says what is right");
  says(report, "3 passed, 1 failed, 7 skipped\n");
  CHECK(report.exit == 1);
}

TEST_CASE("conformance runner: runs a program of known operators and skips one of unknown operators") {
  if (!is_built()) return;
  written_cases folder;
  folder.add_cases("pipe", "a.json", {model_case("cat"), model_case("weave")});
  auto const report = folder.run();
  says(report, "the toy autograd has no operator 'weave'");
  says(report, "1 passed, 0 failed, 1 skipped\n");
  CHECK(report.exit == 0);
}
