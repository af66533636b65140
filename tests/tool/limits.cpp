// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

using words = std::vector<std::string>;

/// A numeric option: the numbers that it takes, as its refusals say them, and its edges.
struct limited_option {
  std::string name;
  std::string range;
  words taken, refused;
  std::string before{};  ///< stands before the number in the value, as in `batch=8`
};

words const no_numbers = {"",
                          "-1",
                          "nan",
                          "inf",
                          "-inf",
                          "0x10",
                          "+1",
                          " 1",
                          "1 ",
                          "1;2",
                          "one",
                          "1e308",
                          "99999999999999999999999",
                          "1e400"};
words const no_whole_numbers = {"0.5", "1.", "1e0"};

words operator+(words a, words const& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

limited_option whole(std::string const& name, std::string const& least, std::string const& most,
                     words const& beyond) {
  return {name, "a whole number from " + least + " to " + most, {least, most}, no_whole_numbers + beyond};
}

std::string const most64 = "18446744073709551615";

limited_option const seed = whole("--seed", "0", most64, {"18446744073709551616"});
limited_option const stages = whole("-k", "1", "65535", {"0", "65536"});
words const no_ratios = {"0", "1e-10", "1.1e9", "2,", ",2", "2,0"};
limited_option const speed = {
    "--speed", "a number from 1e-9 to 1e9, or one for each stage", {"1e-9", "1e9", "0.5,2"}, no_ratios};
limited_option const memory = {"--memory",
                               "a size from 0 to below 16EiB, as in 2GiB, or one for each stage",
                               {"0", "1B", most64, "1GiB,2GB", "1.5 kB"},
                               {"18446744073709551616", "16EiB", "99999999TiB", "1XiB", "0.5", "1,", "1e9"}};
limited_option const price = {
    "--flops-per-byte", "a number from 0 to 1e12", {"0", "1e12", "1e-3"}, {"1.1e12"}};
limited_option const rate = {"--bandwidth",
                             "as in 10GB/s, from 1B/s to below 16EiB/s",
                             {"1B/s", "10GB", "15EiB/s"},
                             {"0B/s", "0", "10", "16EiB/s", "/s", "1e9B/s"}};
limited_option const dimension = {"--dim",
                                  "size, from 0 to 9223372036854775807, as in batch=8",
                                  {"0", "9223372036854775807"},
                                  {"9223372036854775808", "0.5"},
                                  "batch="};
limited_option const shape = {"--shape",
                              "sizes from 0 to 9223372036854775807, as in",
                              {"0", "9223372036854775807", "0x10", "?x2"},
                              {"9223372036854775808", "0.5", "1x"},
                              "image="};
limited_option const bucket = {"--by",
                               "buckets=SIZE (from 0 to below 16EiB)",
                               {"0", "25MiB"},
                               {"99999999TiB", "16EiB", "0.5"},
                               "buckets="};
limited_option const first_node = {"--first-node", "0 or 1", {"0", "1"}, {"2", "0.5"}};
limited_option const threads = whole("--threads", "1", "1024", {"0", "1025"});
std::vector<limited_option> const counts = {whole("-p", "1", "1048576", {"0", "1048577"}),
                                            whole("-m", "1", "1048576", {"0", "1048577"})};
limited_option const hop = {
    "--hop", "a time from 0 to 1e100", {"0", "1e100", "5e-324", "99999999999999999999999"}, {"1.1e100"}};
limited_option const jitter = {"--jitter", "a share from 0 to 1", {"0", "1", "0.5"}, {"1.1"}};

limited_option const largest_file = {"--max-file",
                                     "a size from 1B to below 16EiB, as in 8GiB",
                                     {"1B", "8GiB", most64},
                                     {"0", "0B", "16EiB", "0.5"}};

/// A subcommand with operands that it refuses once all options are read, and its numeric options.
struct limited_command {
  words call;
  std::vector<limited_option> options;
};

std::vector<limited_command> commands() {
  return {
      {{"split"}, {largest_file, stages, memory, speed, price, rate, dimension, shape, bucket}},
      {{"inspect"}, {largest_file, dimension, shape}},
      {{"recompute"},
       {largest_file, whole("--in-flight", "1", "100000", {"0", "100001"}),
        whole("--weights-in-flight", "0", "100000", {"100001"}), dimension, shape}},
      {{"place"},
       {largest_file, whole("-m", "1", "100000", {"0", "100001"}),
        whole("--effort", "1000", "1000000000000", {"999", "1000000000001"}), seed, dimension, shape}},
      {{"demo", "a", "b"},
       {largest_file, stages, memory, speed, price, rate, whole("-m", "1", "10000", {"0", "10001"}),
        dimension, shape}},
      {{"demo", "train", "a"},
       {whole("-k", "1", "16", {"0", "17"}), whole("-n", "1", "1000", {"0", "1001"}),
        whole("-m", "1", "8", {"0", "9"}), whole("--lose", "0", "999999", {"1000000"})}},
      {{"schedule"},
       {largest_file, counts[0], whole("-v", "1", "1048576", {"0", "1048577"}), counts[1], hop, jitter,
        seed}},
      {{"simulate"},
       {largest_file, counts[0], whole("--stages", "1", "1048576", {"0", "1048577"}), counts[1], hop, jitter,
        seed}},
      {{"verify"},
       {largest_file,
        counts[0],
        whole("--stages", "1", "1048576", {"0", "1048577"}),
        counts[1],
        whole("--most-kept", "1", most64, {"0", "18446744073709551616"}),
        {"--transport",
         "buffers=K (K from 0 to 4294967295)",
         {"0", "4294967295"},
         {"4294967296", "0.5"},
         "buffers="}}},
      {{"partition"},
       {largest_file,
        whole("-k", "1", "4294967294", {"0", "4294967295"}),
        {"--eps",
         "a number from 0 to 1e9, as in 0.03, or one for each weight",
         {"0", "1e9", "0.03,0.1"},
         {"1.1e9", "1,", "0.1,-1", "3%"}},
        {"--flops-per-byte", "a number from 0 to 1e12", {"0", "1e12"}, {"1.1e12"}},
        {"--machine",
         "whole numbers from 1 to 65536 with colons",
         {"1", "4:65536"},
         {"0", "65537", "4:", "4:0", "0.5"}},
        {"--distances",
         "whole numbers from 0 to 1073741824 with colons",
         {"0", "1:1073741824"},
         {"1073741825", "1:", ":", "0.5"}},
        whole("--buffer", "0", "2147483647", {"2147483648"}),
        seed,
        threads,
        first_node}},
      {{"order"},
       {largest_file,
        whole("--restarts", "1", "1000", {"0", "1001"}),
        {"--eps", "a number from 0 to 1e9", {"0", "1e9"}, {"1.1e9"}},
        seed,
        first_node}},
      {{"bench"},
       {largest_file,
        {"-k",
         "whole numbers from 1 to 1073741824, with commas",
         {"1", "2,1073741824"},
         {"0", "1073741825", "2,0", "0.5"}},
        {"--eps", "a number from 0 to 10", {"0", "10"}, {"10.1"}},
        whole("--seeds", "1", "1000", {"0", "1001"}),
        {"--time-limit", "seconds from 0.001 to 1e6", {"0.001", "1e6"}, {"0", "0.0009", "1.1e6"}},
        threads}},
      {{"report"},
       {largest_file, {"--fail-if-worse", "a percentage from 0 to 1e9", {"0", "1e9", "0.5"}, {"1.1e9"}}}},
  };
}

}  // namespace

TEST_CASE("cleave: a number that an option does not take is refused with the numbers that it takes") {
  for (auto const& c : commands())
    for (auto const& o : c.options) {
      CAPTURE(o.name);
      auto const said = [&](std::string const& number) {
        auto const r = run_tool(c.call + words{o.name, o.before + number});
        CHECK(r.exit == 2);  // at least the operands are wrong
        return r.to_stderr;
      };
      for (auto const& number : o.refused + no_numbers) {
        if (std::ranges::count(o.taken, number) > 0) continue;
        auto const text = said(number);
        CAPTURE(text);
        CHECK(text.starts_with("cleave: " + o.name + " takes "));
        CHECK(text.find(o.range) != std::string::npos);
        CHECK(text.find(", not '" + o.before + number + "'\n") != std::string::npos);
      }
      for (auto const& number : o.taken) {
        auto const text = said(number);
        CAPTURE(text);
        CHECK(text.find(o.name + " takes ") == std::string::npos);
      }
    }
}

TEST_CASE("cleave: the limits of all numeric options are tested here") {
  std::set<std::string> const numeric = {
      "N",        "R",     "S",       "X",   "K,...",  "SHARE",      "TIME", "RATE", "SIZE", "SIZE[,SIZE...]",
      "X[,X...]", "SIZES", "LENGTHS", "0|1", "NAME=N", "VALUE=SHAPE"};
  for (auto const& c : commands()) {
    auto const is_training = c.call.size() > 1 && c.call[1] == "train";
    auto const help = run_tool({c.call[0], is_training ? "train" : "--help", "--help"}).said;
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream in(line);
      std::string first, second, value;
      in >> first >> second;
      if (!first.starts_with("-")) continue;
      auto const letter = first.ends_with(",") ? first.substr(0, first.size() - 1) : "";
      auto const name = letter.empty() ? first : second;
      if (letter.empty())
        value = second;
      else
        in >> value;
      if (!numeric.contains(value)) continue;
      CAPTURE(c.call[0]);
      CAPTURE(line);
      CHECK(
          std::ranges::any_of(c.options, [&](auto const& o) { return o.name == name || o.name == letter; }));
    }
  }
}

TEST_CASE("cleave: a generated graph says how many nodes it may have") {
  scratch_folder const at;
  for (std::string const family : {"rgg2d", "netlist", "layered"})
    for (std::string const number :
         {"0", "-1", "200000001", "201M", "1.5", "nan", "", "99999999999999999999"})
      for (std::string const& name : {family + ":" + number, family + ":10:" + number}) {
        auto const r = run_tool({"instances", at / "graphs", name});
        CAPTURE(r.to_stderr);
        CHECK(r.exit == 3);
        CHECK(r.to_stderr.find("both from 1 to 200M") != std::string::npos);
      }
}

TEST_CASE("cleave: more parts than nodes are refused with the number of nodes, in every subcommand") {
  scratch_folder const at;
  std::ofstream(at / "g.graph") << "7 6\n2\n1 3\n2 4\n3 5\n4 6\n5 7\n6\n";
  std::ofstream(at / "g.hgr") << "3 7\n1 2 3\n3 4 5\n5 6 7\n";
  std::ofstream(at / "g.dag") << "7 1\n1 0\n1 0\n1 0\n1 0\n1 0\n1 0\n1 0\n0 1 1\n";
  std::ofstream(at / "parts") << "0\n1\n2\n3\n4\n5\n6\n";
  std::ofstream(at / "g.json") << R"({"format": "cleave graph 1", "nodes": [{"name": "a", "cost": 1},
    {"name": "b", "operands": ["a"], "cost": 1}, {"name": "c", "operands": ["b"], "cost": 1}]})";
  std::vector<words> const calls = {{"partition", at / "g.graph"},
                                    {"partition", at / "g.graph", "--stream"},
                                    {"partition", at / "g.graph", "--goal", "edges", "--connected"},
                                    {"partition", at / "g.graph", "--verify", at / "parts"},
                                    {"partition", at / "g.hgr"},
                                    {"partition", at / "g.hgr", "--verify", at / "parts"},
                                    {"partition", at / "g.dag"},
                                    {"partition", at / "g.dag", "--verify", at / "parts"}};
  for (auto const& call : calls) {
    CAPTURE(call[1]);
    auto const most = run_tool(call + words{"-k", "7", "--eps", "9"});
    CHECK(most.exit == 0);
    for (std::string const k : {"8", "100000", "4294967294"}) {
      auto const r = run_tool(call + words{"-k", k, "--out", "-"});
      auto const verifies = call.size() > 2 && call[2] == "--verify";
      auto const again = verifies ? run_tool(call + words{"-k", k}) : r;
      CAPTURE(again.to_stderr);
      CHECK(again.exit == 1);
      CHECK(again.said.empty());
      CHECK(again.to_stderr.starts_with("cleave: -k asks for "));
      CHECK(again.to_stderr.find(" has 7 nodes; a part needs a node\n") != std::string::npos);
    }
  }
  auto const machine = run_tool({"partition", at / "g.graph", "--machine", "4:2", "--distances", "1:10"});
  CHECK(machine.exit == 0);  // 7 nodes at 8 places
  CHECK(machine.said.find("empty      1 part") != std::string::npos);

  REQUIRE(run_tool({"schedule", "1F1B", "-p", "4", "-m", "8", "--csv", "-o", at / "s.csv"}).exit == 0);
  CHECK(run_tool({"split", at / "g.json", "-k", "3"}).exit == 0);
  CHECK(run_tool({"split", at / "g.json"}).exit == 0);  // as many of 4 as there are nodes
  auto const cut = run_tool({"split", at / "g.json", "-k", "4"});
  CHECK(cut.exit == 1);
  CHECK(cut.to_stderr ==
        "cleave: -k asks for 4 stages, but the graph has 3 nodes to place; a stage needs a node\n");
  auto const scheduled = run_tool({"split", at / "g.json", "--schedule", at / "s.csv"});
  CHECK(scheduled.exit == 1);
  CHECK(scheduled.to_stderr ==
        "cleave: the schedule has 4 stages, but the graph has 3 nodes to place; a stage needs a node\n");

  for (std::string const file : {"g.graph", "g.hgr", "g.dag"}) {
    auto const r = run_tool({"bench", at / file, "-k", "7,8", "--algos", "standard,cleave-slices"});
    CAPTURE(r.to_stderr);
    CHECK(r.exit == 0);
    CHECK(std::ranges::count(r.said, '\n') == 2);  // heading and one row
    CHECK(r.to_stderr == "cleave: note: g: 8 parts skipped, since it has 7 nodes; a part needs a node\n");
    CHECK(run_tool({"bench", at / file, "-k", "8", "--algos", "standard,cleave-slices"}).exit == 1);
  }
}

TEST_CASE("cleave schedule: draws times of any size") {
  scratch_folder const at;
  auto const drawn = [&](std::string const& a, std::string const& b, words const& form) {
    std::ofstream(at / "c.csv") << "stage,F,B\n0," << a << ',' << b << "\n1," << a << ',' << b << '\n';
    auto const r = run_tool(words{"schedule", "1F1B", "-p", "2", "-m", "4", "--costs", at / "c.csv"} + form);
    CAPTURE(r.to_stderr);
    CHECK(r.exit == 0);
    return r.said;
  };
  for (auto const& [a, b] : std::vector<std::pair<std::string, std::string>>{{"1e-310", "1e-310"},
                                                                             {"5e-324", "5e-324"},
                                                                             {"0", "0"},
                                                                             {"1e100", "1e-300"},
                                                                             {"5e-324", "1e100"}}) {
    CAPTURE(a);
    for (words const& form : {words{}, {"--svg"}, {"--html"}, {"--trace"}, {"--json"}}) {
      auto const text = drawn(a, b, form);
      CHECK(text.size() > 100);
      CHECK(text.find("nan") == std::string::npos);
    }
  }
  auto const rows = [&](std::string const& each) {
    auto const text = drawn(each, each, {});
    return text.substr(text.find("rank 0"), text.find('\n', text.find("rank 1")) - text.find("rank 0"));
  };
  for (std::string const each : {"5e-324", "1e-310", "1e100"}) CHECK(rows(each) == rows("1"));
}
