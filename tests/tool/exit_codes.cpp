// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using cleave::testing::run_tool;

namespace {

std::string const model = std::string(CLEAVE_TEST_DATA) + "/models/onnx/resnet18.onnx";

/// One or two lines, each begun by the tool's name, without controls.
bool well_said(std::string const& text) {
  auto const lines = std::ranges::count(text, '\n');
  bool const plain = std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 && c != '\n'; });
  return text.starts_with("cleave: ") && text.ends_with('\n') && lines <= 2 && plain;
}

void check_refusal(std::vector<std::string> const& words, int code, std::string const& said) {
  auto const r = run_tool(words);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == code);
  CHECK(r.said.empty());
  CHECK(r.to_stderr.find(said) != std::string::npos);
  CHECK(well_said(r.to_stderr));
}

}  // namespace

TEST_CASE("cleave: a wrong command line exits with 2 and a hint") {
  check_refusal({"spilt", model}, 2, "unknown subcommand spilt; did you mean split");
  check_refusal({"split"}, 2, "a model is missing");
  check_refusal({"split", model, model}, 2, "one model at a time");
  check_refusal({"split", model, "--memroy", "2GiB"}, 2, "unknown option --memroy; did you mean --memory");
  check_refusal({"split", model, "--k", "2"}, 2, "unknown option --k; did you mean -k");
  check_refusal({"split", model, "--frobnicate"}, 2, "unknown option --frobnicate\n");
  check_refusal({"split", model, "--memory"}, 2, "--memory needs a value: --memory SIZE[,SIZE...]");
  check_refusal({"split", model, "-k", "four"}, 2, "-k takes a whole number from 1 to 65535, not 'four'");
  check_refusal({"split", model, "-k0"}, 2, "not '0'");
  check_refusal({"split", model, "-k", "2", "--memory", "1,2,3"}, 2, "--memory takes 1 or 2 values, not 3");
  check_refusal({"split", model, "--json=1"}, 2, "--json takes no value");
  check_refusal({"split", model, "--dim", "batch"}, 2, "as in batch=8, not 'batch'");
  check_refusal({"inspect", model, "-\x1b[2J"}, 2, "unknown option");
}

TEST_CASE("cleave: an infeasible cut exits with 1 and states the limit") {
  check_refusal({"split", model, "--memory", "1KiB"}, 1, "the largest memory limit of a part is 1024 bytes");
}

TEST_CASE("cleave: an unusable file exits with 3 and is named") {
  check_refusal({"inspect", "no/such.onnx"}, 3, "no/such.onnx: cannot be opened");
  check_refusal({"inspect", CLEAVE_TEST_DATA}, 3, "this is a folder; name a file in it");
  check_refusal({"split", model, "--dim", "batch=2"}, 3, "'batch'");
  check_refusal({"split", model, "--out", model}, 3, "resnet18.onnx");
  check_refusal({"split", model, "--report", "no/such/folder/r.html"}, 3, "No such file or directory");
}

TEST_CASE("cleave: help and version exit with 0 and write nothing to stderr") {
  for (std::vector<std::string> const& words :
       {std::vector<std::string>{"--help"}, {"--version"}, {"split", "--help"}, {"demo", "-h"}}) {
    auto const r = run_tool(words);
    CHECK(r.exit == 0);
    CHECK(!r.said.empty());
    CHECK(r.to_stderr.empty());
  }
}

TEST_CASE("cleave: waits for a reader of stdout, also where stdout does not block") {
  std::vector<std::string> const call{"schedule", "1F1B", "-p", "64", "-m", "512", "--csv"};
  auto const whole = cleave::testing::run_tool(call);
  auto const r = cleave::testing::run_tool_on_busy_pipe(call);
  CHECK(r.exit == 0);
  CHECK(whole.said.size() > 200'000);
  CHECK(r.said == whole.said);
}

TEST_CASE("cleave: lost output exits with 1 and the reason, in every subcommand") {
  cleave::testing::scratch_folder const w;
  std::ofstream(w / "g.graph") << "4 3\n2\n1 3\n2 4\n3\n";
  std::ofstream(w / "devices.json") << R"({"format": "cleave devices 1", "devices": [{"name": "d"}]})";
  REQUIRE(run_tool({"schedule", "1F1B", "-p", "2", "-m", "4", "--csv", "-o", w / "s.csv"}).exit == 0);
  REQUIRE(run_tool({"bench", w / "g.graph", "--algos", "fast", "-k", "2", "-o", w / "r.csv"}).exit == 0);
  for (std::vector<std::string> const& words : {std::vector<std::string>{"--help"},
                                                {"--version"},
                                                {"split", "--help"},
                                                {"split", model, "-k", "2"},
                                                {"split", model, "-k", "2", "--json"},
                                                {"inspect", model},
                                                {"recompute", model},
                                                {"place", model, "--devices", w / "devices.json"},
                                                {"place", model, "--devices", w / "devices.json", "--copies"},
                                                {"schedule", "1F1B", "-p", "2", "-m", "4"},
                                                {"schedule", "1F1B", "-p", "2", "-m", "4", "--csv"},
                                                {"verify", w / "s.csv"},
                                                {"simulate", w / "s.csv"},
                                                {"partition", w / "g.graph", "-k", "2"},
                                                {"partition", w / "g.graph", "-k", "2", "--out", "-"},
                                                {"order", w / "g.graph", "--out", "-"},
                                                {"bench", w / "g.graph", "--algos", "fast", "-k", "2"},
                                                {"instances"},
                                                {"report", w / "r.csv"}})
    for (auto const how : {cleave::testing::lost_stdout::full, cleave::testing::lost_stdout::closed}) {
      CAPTURE(words.front());
      CAPTURE(words.back());
      auto const r = cleave::testing::run_tool_without_stdout(words, how);
      CAPTURE(r.to_stderr);
      CHECK(r.exit == 1);
      CHECK(r.to_stderr.find(how == cleave::testing::lost_stdout::full
                                 ? "No space left on device"
                                 : "Bad file descriptor") != std::string::npos);
    }
}

TEST_CASE("cleave: a folder is never taken for an empty file") {
  cleave::testing::scratch_folder const w;
  for (std::string const name : {"g.graph", "g.json", "s.csv", "h.hgr", "m.onnx"})
    std::filesystem::create_directory(w / name);
  check_refusal({"split", w / "g.json"}, 3, "this is a folder; name a file in it");
  check_refusal({"split", model, "--by", "file=" + (w / "s.csv")}, 3, "this is a folder; name a file in it");
  check_refusal({"split", w / "m.onnx"}, 3, "this is a folder; name a file in it");
  check_refusal({"verify", w / "s.csv"}, 3, "this is a folder; name a file in it");
  check_refusal({"partition", w / "g.graph", "-k", "2"}, 3, "this is a folder; name a file in it");
  check_refusal({"partition", w / "h.hgr", "-k", "2"}, 3, "this is a folder; name a file in it");
}
