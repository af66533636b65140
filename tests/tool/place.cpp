// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/markup.hpp"
#include "support/model_corpus.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

/// A folder with a chain of six layers of 1 s each, and devices of which two are fast.
class workplace {
 public:
  workplace() {
    std::ofstream(at("chain.json")) << R"({"format": "cleave graph 1", "meta": {"cost_unit": "s"}, "nodes": [
      {"name": "x", "op": "placeholder", "bytes": 8},
      {"name": "n0", "operands": ["x"], "cost": 1, "bytes": 100}, {"name": "n1", "operands": ["n0"], "cost": 1, "bytes": 100},
      {"name": "n2", "operands": ["n1"], "cost": 1, "bytes": 100}, {"name": "n3", "operands": ["n2"], "cost": 1, "bytes": 100},
      {"name": "n4", "operands": ["n3"], "cost": 1, "bytes": 100}, {"name": "n5", "operands": ["n4"], "cost": 1, "bytes": 100},
      {"name": "y", "op": "output", "operands": ["n5"]}]})";
    std::ofstream(at("devices.json")) << R"({"format": "cleave devices 1",
      "devices": [{"name": "slow", "speed": 0.1}, {"name": "fast", "count": 2}],
      "link": {"latency": 0.5, "bandwidth": 100}})";
    std::ofstream(at("peak.json")) << R"({"format": "cleave graph 1", "meta": {"cost_unit": "s"}, "nodes": [
      {"name": "x", "op": "placeholder", "bytes": 8},
      {"name": "n0", "operands": ["x"], "cost": 2, "bytes": 100}, {"name": "n1", "operands": ["n0"], "cost": 4, "bytes": 100},
      {"name": "y", "op": "output", "operands": ["n1"]}]})";
    std::ofstream(at("alike.json"))
        << R"({"format": "cleave devices 1", "devices": [{"name": "gpu", "count": 3}],
      "link": {"latency": 0.5, "bandwidth": 100}})";
  }
  std::string at(std::string const& name) const { return folder_ / name; }

 private:
  scratch_folder folder_;
};

}  // namespace

TEST_CASE("cleave place: says which device runs what, and what is left out") {
  workplace const w;
  auto const r = run_tool({"place", w.at("chain.json"), "--devices", w.at("devices.json")});
  CAPTURE(r.said);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  for (std::string const said :
       {"6 nodes, 2 stages", "3\u00a0s between microbatches; limited by the device fast0",
        "no slices on these devices have a better throughput", "fast0: n0 to n2", "fast1: n3 to n5",
        "not used   slow"})
    CHECK_MESSAGE(has(r.said, said), said);
}

TEST_CASE("cleave place --json: has the numbers of each goal") {
  workplace const w;
  auto const placed = [&](std::string const& goal) {
    auto const r =
        run_tool({"place", w.at("chain.json"), "--devices", w.at("devices.json"), "--goal", goal, "--json"});
    CHECK(r.exit == 0);
    return nlohmann::json::parse(r.said);
  };
  auto const throughput = placed("throughput");
  CHECK(throughput.at("period") == 3);
  CHECK(throughput.at("latency") == 7.5);
  CHECK(throughput.at("optimal") == true);
  CHECK(throughput.at("stages").at(0).at("sends") == 100);
  CHECK(throughput.at("stages").at(1).at("first") == "n3");
  CHECK(throughput.at("unused") == nlohmann::json{"slow"});
  auto const latency = placed("latency");
  CHECK(latency.at("latency") == 6);
  CHECK(latency.at("stages").size() == 1);
  CHECK(placed("step").at("step") <= throughput.at("step"));
}

TEST_CASE("cleave place --rehearse: runs a step on threads, which takes no less than predicted") {
  workplace const w;
  auto const r = run_tool({"place", w.at("chain.json"), "--devices", w.at("devices.json"), "-m", "3",
                           "--rehearse", "0.3", "--json"});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  auto const told = nlohmann::json::parse(r.said);
  CHECK(told.at("step") == 13.5);  // three microbatches of 3 s, a link of 1.5 s, and 3 s on the second device
  CHECK(told.at("rehearsed") >= 0.999 * 13.5);
  CHECK(told.at("rehearsed") < 1'000);
}

TEST_CASE("cleave place --copies: gives the stage that takes long two devices, and says what that saves") {
  workplace const w;
  auto const r = run_tool({"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies"});
  CAPTURE(r.said);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  for (std::string const said :
       {"2 nodes, 2 stages", "2\u00a0s between microbatches\n", "for 8 microbatches in ForwardOnly",
        "no slices and copies on these devices have a better throughput", "gpu0: n0; 2\u00a0s",
        "2 copies on gpu1, gpu2: n1; 4\u00a0s",
        "save 50 % of the 4\u00a0s between microbatches without them"})
    CHECK_MESSAGE(has(r.said, said), said);
  auto const trained = run_tool({"place", w.at("chain.json"), "--devices", w.at("alike.json"), "--copies",
                                 "-m", "3", "--train", "--goal", "step"});
  CHECK(has(trained.said, "for 3 microbatches in 1F1B"));
  CHECK(has(trained.said, " with 1 microbatch kept"));
  auto const alone =
      run_tool({"place", w.at("chain.json"), "--devices", w.at("alike.json"), "--copies", "-m", "1"});
  CHECK(has(alone.said, "save nothing of the 2\u00a0s"));
}

TEST_CASE("cleave place --copies --json: has the numbers of stages, and those of a rehearsed step") {
  workplace const w;
  auto const r = run_tool({"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies",
                           "--rehearse", "0.3", "--json"});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  auto const told = nlohmann::json::parse(r.said);
  CHECK(told.at("period") == 2);
  CHECK(told.at("optimal") == true);
  CHECK(told.at("without_copies") == 4);
  CHECK(told.at("saved") == 0.5);
  CHECK(told.at("unused").empty());
  CHECK(told.at("stages").at(1).at("copies") == 2);
  CHECK(told.at("stages").at(1).at("devices") == nlohmann::json{"gpu1", "gpu2"});
  CHECK(told.at("stages").at(1).at("kept") == 1);
  CHECK(told.at("step") ==
        21.5);  // eight passes of 2 s, a link of 1.5 s, and 4 s on a copy of the second stage
  CHECK(told.at("rehearsed") >= 0.999 * 21.5);
  CHECK(told.at("rehearsed") < 1'000);
}

TEST_CASE("cleave place --copies: all copies of a stage are on devices of one kind") {
  workplace const w;
  std::ofstream(w.at("mixed.json")) << R"({"format": "cleave devices 1",
    "devices": [{"name": "slow"}, {"name": "fast", "count": 2, "speed": 2}, {"name": "odd", "speed": 0.1}],
    "link": {"latency": 0.5, "bandwidth": 100}})";
  auto const r =
      run_tool({"place", w.at("peak.json"), "--devices", w.at("mixed.json"), "--copies", "--json"});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  auto const told = nlohmann::json::parse(r.said);
  CHECK(told.at("period") == 1.5);  // 6 s of work on two devices of speed 2
  CHECK(told.at("optimal") == true);
  CHECK(told.at("stages").size() == 1);
  CHECK(told.at("stages").at(0).at("devices") == nlohmann::json{"fast0", "fast1"});
  CHECK(told.at("unused") == nlohmann::json{"slow", "odd"});
}

TEST_CASE("cleave place --copies --gains: says what placing with a change says") {
  workplace const w;
  auto const r = run_tool(
      {"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies", "--gains", "--json"});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  auto const told = nlohmann::json::parse(r.said);
  std::ofstream(w.at("more.json"))
      << R"({"format": "cleave devices 1", "devices": [{"name": "gpu", "count": 4}],
    "link": {"latency": 0.5, "bandwidth": 100}})";
  auto const more = nlohmann::json::parse(
      run_tool({"place", w.at("peak.json"), "--devices", w.at("more.json"), "--copies", "--json"}).said);
  CHECK(more.at("period") == 1.5);
  REQUIRE(told.at("gains").size() == 2);
  CHECK(told.at("gains").at(0) ==
        nlohmann::json{{"what", "one more device like 'gpu0'"}, {"value", 1.5}, {"saved", 0.25}});
  CHECK(told.at("gains").at(1).at("what") == "10 % more speed of each of the 3 devices like 'gpu0'");
  auto const text =
      run_tool({"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies", "--gains"});
  CHECK(has(text.said, "25 %: one more device like 'gpu0'"));
  auto const nothing =
      run_tool({"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies", "-m", "1"});
  CHECK_FALSE(has(nothing.said, "would save"));
}

TEST_CASE("cleave place --copies --report: draws stages with copies and a step") {
  workplace const w;
  auto const r = run_tool({"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies",
                           "--report", w.at("page.html")});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  CHECK(has(r.said, "page.html"));
  auto const page = text_of_file(w.at("page.html"));
  read_markup(page);
  for (std::string const said :
       {"3 of 3 devices run a stage.", "2 copies: gpu1, gpu2", "n0", "A step of 8 microbatches",
        "The step takes 21.5", "one more device like &#39;gpu0&#39;"})
    CHECK_MESSAGE(has(page, said), said);
  CHECK(run_tool({"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies", "--report",
                  w.at("page.html")})
            .exit == 0);  // it may replace its own page
}

TEST_CASE("cleave place --report: times are in the unit that the page names") {
  workplace const w;
  std::ofstream(w.at("ms.json")) << R"({"format": "cleave graph 1", "meta": {"cost_unit": "ms"}, "nodes": [
    {"name": "n0", "cost": 2}, {"name": "n1", "operands": ["n0"], "cost": 4}]})";
  std::ofstream(w.at("one.json")) << R"({"format": "cleave devices 1", "devices": [{"name": "gpu"}]})";
  for (bool const copies : {false, true}) {
    std::vector<std::string> words{"place", w.at("ms.json"), "--devices",      w.at("one.json"), "-m",
                                   "1",     "--report",      w.at("page.html")};
    if (copies) words.push_back("--copies");
    auto const r = run_tool(words);
    CHECK(r.exit == 0);
    CHECK(has(r.said, "6.00\u00a0ms between microbatches"));
    auto const page = text_of_file(w.at("page.html"));
    CHECK(has(page, "6.00\u00a0ms each"));
    CHECK(has(page, "The step takes 6.00\u00a0ms"));
  }
}

TEST_CASE("cleave place --copies: refusals name what does not go with it") {
  workplace const w;
  auto const refusal = [&](std::string const& devices, int code) {
    std::ofstream(w.at("some.json")) << R"({"format": "cleave devices 1", )" << devices << "}";
    auto const r = run_tool({"place", w.at("peak.json"), "--devices", w.at("some.json"), "--copies"});
    CHECK(r.exit == code);
    return r.to_stderr;
  };
  CHECK(has(refusal(R"("devices": [{"name": "g", "count": 3}], "groups": [
                       {"name": "host", "devices": ["g0", "g1"], "uplink": {"bandwidth": 5}}])",
                    2),
            "--copies knows no uplinks that devices share, such as that of host; leave out --copies"));
  std::string unlike = R"("devices": [{"name": "a"})";
  for (int speed = 2; speed < 30; ++speed) unlike += ", {\"speed\": " + std::to_string(speed) + "}";
  CHECK(has(refusal(unlike + "]", 3), "devices of 29 kinds have too many forms of stages with copies"));
  for (auto const& [option, value, said] :
       {std::array<std::string, 3>{"--goal", "latency", "do not make one pass faster"},
        {"--schedule", "GPipe", "leave out --schedule"}}) {
    auto const r =
        run_tool({"place", w.at("peak.json"), "--devices", w.at("alike.json"), "--copies", option, value});
    CHECK(r.exit == 2);
    CHECK_MESSAGE(has(r.to_stderr, said), r.to_stderr);
  }
}

TEST_CASE(
    "cleave place: what a run leaves for the next is memory of the device that keeps it, and is not sent") {
  workplace const w;
  auto const placed =
      [&](std::string const& mark, std::string const& memory) {
        std::ofstream(w.at("caches.json"))
            << R"({"format": "cleave graph 1", "nodes": [
      {"name": "x", "op": "placeholder", "bytes": 4},
      {"name": "past_0", "op": "placeholder", "bytes": 1000)" +
                   std::string(mark.empty() ? "" : ", \"carried\": \"present_0\"") + R"(},
      {"name": "past_1", "op": "placeholder", "bytes": 1000)" +
                   std::string(mark.empty() ? "" : ", \"carried\": \"present_1\"") + R"(},
      {"name": "present_0", "operands": ["past_0", "x"], "cost": 1, "bytes": 1000},
      {"name": "y", "operands": ["x", "present_0"], "cost": 3, "bytes": 4},
      {"name": "present_1", "operands": ["past_1", "y"], "cost": 1, "bytes": 1000},
      {"name": "z", "operands": ["y", "present_1"], "cost": 3, "bytes": 4},
      {"name": "out", "op": "output", "operands": ["z", "present_0", "present_1"]}]})";
        std::ofstream(w.at("two.json"))
            << R"({"format": "cleave devices 1", "devices": [{"name": "d", "count": 2, "memory": )" + memory +
                   "}]}";
        auto const r = run_tool({"place", w.at("caches.json"), "--devices", w.at("two.json"), "--json"});
        CAPTURE(r.to_stderr);
        return std::pair(r.exit, r.exit == 0 ? nlohmann::json::parse(r.said) : nlohmann::json());
      };
  auto const [code, told] = placed("carried", "1000");
  REQUIRE(code == 0);
  REQUIRE(told.at("stages").size() == 2);
  for (auto const& stage : told.at("stages")) CHECK(stage.at("memory") == 1000);
  CHECK(told.at("stages").at(0).at("last") == "y");
  CHECK(told.at("stages").at(0).at("sends") == 4);
  CHECK(placed("carried", "999").first == 1);
  auto const [other, without] = placed("", "1000");
  REQUIRE(other == 0);
  CHECK(without.at("stages").at(0).at("memory") == 0);
  CHECK(without.at("stages").at(0).at("sends") == 1004);  // the input of the second stage passes the first
}

TEST_CASE("cleave place: reads the output of nvidia-smi, from standard input too, and writes a page") {
  workplace const w;
  std::ofstream(w.at("topology")) << "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n";
  auto const r =
      run_tool({"place", model_file("names"), "--devices", w.at("topology"), "--report", w.at("page.html")});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  CHECK(has(r.said, "GPU0"));
  auto const page = text_of_file(w.at("page.html"));
  CHECK(has(page, "Devices and links"));
  CHECK(has(page, "limits the throughput."));
  CHECK(run_tool({"place", model_file("names"), "--devices", w.at("topology"), "--report", w.at("page.html")})
            .exit == 0);
}

TEST_CASE("cleave place: speeds that look like FLOP/s get a note") {
  workplace const w;
  auto const to_stderr = [&](std::string const& speed) {
    std::ofstream(w.at("one.json")) << R"({"format": "cleave devices 1", "devices": [{"speed": )" + speed +
                                           "}]}";
    auto const r = run_tool({"place", model_file("names"), "--devices", w.at("one.json")});
    CHECK(r.exit == 0);
    return r.to_stderr;
  };
  CHECK(has(to_stderr("8e12"), "note: speeds are factors of a device of 50 GFLOP/s"));
  CHECK(to_stderr("160").empty());
}

TEST_CASE("cleave place: refusals name the file, the place and the remedy") {
  workplace const w;
  auto const refusal = [&](std::string const& devices, int code) {
    std::ofstream(w.at("bad.json")) << devices;
    auto const r = run_tool({"place", w.at("chain.json"), "--devices", w.at("bad.json")});
    CHECK(r.exit == code);
    CHECK(r.said.empty());
    return r.to_stderr;
  };
  CHECK(has(refusal(R"({"format": "cleave devices 1", "devices": []})", 3), "bad.json: "));
  CHECK(has(refusal(R"({"format": "cleave devices 1", "devices": [{"speed": -1}]})", 3),
            "expected a number above 0"));
  CHECK(has(refusal("GPU0", 3), "the row of GPU0 is missing"));
  CHECK(run_tool({"place", w.at("chain.json"), "--devices", w.at("absent")}).exit == 3);
  std::ofstream(w.at("mine")) << "text\n";
  CHECK(run_tool({"place", w.at("chain.json"), "--devices", w.at("devices.json"), "--report", w.at("mine")})
            .exit != 0);
  CHECK(text_of_file(w.at("mine")) == "text\n");
}
