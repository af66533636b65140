// SPDX-License-Identifier: MIT
// `cleave split`: ranks with several stages, values that are relayed, and reasons why more stages gain
// nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using nlohmann::json;

namespace {

/// A chain of calls with these costs, as a graph in JSON. Each reads the one before, and the last reads the
/// first too, whose result has 64 bytes.
std::string chain(std::vector<double> const& costs) {
  std::string text = R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"})";
  for (std::size_t i = 0; i < costs.size(); ++i)
    text += R"(, {"name": "n)" + std::to_string(i) + R"(", "target": "op)" + std::to_string(i) +
            R"(", "operands": [")" + (i == 0 ? "x" : "n" + std::to_string(i - 1)) +
            (i + 1 == costs.size() && i > 1 ? R"(", "n0)" : "") + R"("], "cost": )" +
            std::to_string(costs[i]) + R"(, "bytes": )" + (i == 0 ? "64" : "1") + "}";
  return text + R"(, {"name": "y", "op": "output", "operands": ["n)" + std::to_string(costs.size() - 1) +
         R"("]}]})";
}

struct scene {
  scratch_folder folder;
  std::string graph = folder / "net.json", order = folder / "order.csv";

  scene(std::vector<double> const& costs, std::string const& schedule, std::string const& per_rank) {
    std::ofstream(graph) << chain(costs);
    REQUIRE(
        run_tool({"schedule", schedule, "-p", "2", "-v", per_rank, "-m", "4", "--csv", "-o", order}).exit ==
        0);
  }
  json split(std::vector<std::string> const& more) const {
    std::vector<std::string> line{"split", graph, "--json"};
    line.insert(line.end(), more.begin(), more.end());
    auto const r = run_tool(line);
    CAPTURE(r.to_stderr);
    REQUIRE(r.exit == 0);
    return json::parse(r.said);
  }
};

std::vector<double> layers_and_head() {
  std::vector<double> costs(27, 1.0);
  costs.push_back(15);
  return costs;
}

}  // namespace

TEST_CASE("cleave split --schedule: balances ranks where a rank has several stages") {
  scene const s(layers_and_head(), "Interleaved1F1B", "2");
  auto const said = s.split({"--schedule", s.order});
  CHECK(said.at("rank_loads") == json{21.0, 21.0});
  CHECK(said.at("bottleneck") == 21);
  CHECK(said.at("bound") == 21);
  CHECK(said.at("stages").size() == 4);
  auto const text = run_tool({"split", s.graph, "--schedule", s.order}).said;
  CHECK(
      text.find(
          "largest load of a rank (cost; transfers are free) 21; no cut into stages for 2 ranks can be below "
          "21: optimal") != std::string::npos);
  CHECK(text.find("loads of the ranks: 21, 21") != std::string::npos);
}

TEST_CASE("cleave split --schedule: a model's stages have the ranks of the schedule") {
  scene const s({1, 1, 1, 1}, "ZBVZeroBubble", "2");
  auto const model = model_file("googlenet").string();
  auto const r = run_tool({"split", model, "--schedule", s.order, "--json", "--report", s.folder / "r.html"});
  REQUIRE(r.exit == 0);
  auto const said = json::parse(r.said);
  std::vector<int> ranks;
  double sum = 0, cost = 0;
  for (auto const& stage : said.at("stages")) {
    ranks.push_back(stage.at("rank").get<int>());
    cost += stage.at("cost").get<double>();
  }
  CHECK(ranks == std::vector<int>{0, 1, 1, 0});
  for (auto const& load : said.at("rank_loads")) sum += load.get<double>();
  CHECK(sum >= cost);
  CHECK(sum < 1.05 * cost);
  CHECK(said.at("gap").get<double>() < 0.02);
  CHECK(text_of_file(s.folder / "r.html").find("Largest load of a rank") != std::string::npos);
}

TEST_CASE("cleave split --schedule: limits are per rank, and a rank's speed counts") {
  scene const s(layers_and_head(), "Interleaved1F1B", "2");
  auto const said = s.split({"--schedule", s.order, "--speed", "1,2"});
  CHECK(said.at("rank_loads") == json{14.0, 14.0});
  auto const refused = run_tool({"split", s.graph, "--schedule", s.order, "--speed", "1,1,1,1"});
  CHECK(refused.exit == 2);
  CHECK(refused.to_stderr.find("--speed takes 1 or 2 values, not 4") != std::string::npos);
}

TEST_CASE("cleave split --relay: stages between producer and reader pay for a value") {
  scene const s({8, 8, 8, 8}, "1F1B", "1");
  auto const direct = s.split({"-k", "4", "--flops-per-byte", "0.125"});
  auto const relayed = s.split({"-k", "4", "--flops-per-byte", "0.125", "--relay"});
  // n0's 64 bytes go from stage 0 to stages 1 and 3; its relay passes through stages 1 and 2.
  CHECK(direct.at("bottleneck").get<double>() == doctest::Approx(8 + 0.125 * (64 + 1)));
  CHECK(relayed.at("bottleneck").get<double>() == doctest::Approx(8 + 0.125 * (64 + 64 + 1 + 1)));
  CHECK(relayed.at("objective") == "cost and transfer, stage by stage");
  scene const v(layers_and_head(), "Interleaved1F1B", "2");
  auto const refused = run_tool({"split", v.graph, "--schedule", v.order, "--relay"});
  CHECK(refused.exit == 2);
  CHECK(refused.to_stderr.find("--relay is for schedules with one stage per rank") != std::string::npos);
}

TEST_CASE("cleave split: names the node that bounds the largest load, and the stages that are enough") {
  scene const s({1, 1, 80, 1, 1}, "1F1B", "1");
  auto const said = s.split({"-k", "5"});
  CHECK(said.at("enough_stages") == 3);
  CHECK(said.at("dominant").at("node") == "n2");
  CHECK(said.at("dominant").at("operation") == "op2");
  CHECK(said.at("dominant").at("share").get<double>() == doctest::Approx(80.0 / 84));
  auto const text = run_tool({"split", s.graph, "-k", "5"}).said;
  CHECK(text.find("more than 3 stages gain nothing: 3 have no larger load") != std::string::npos);
  CHECK(text.find("node 'n2' (op2) alone is 95.2\u00a0% of the cost of all nodes") != std::string::npos);

  CHECK(run_tool({"split", s.graph, "-k", "2", "--flops-per-byte", "1e6"})
            .said.find("more than 1 stage gains nothing: 1 has no larger load") != std::string::npos);

  scene const even({1, 1, 1, 1}, "1F1B", "1");
  auto const fine = even.split({"-k", "4"});
  CHECK(fine.at("enough_stages").is_null());
  CHECK(fine.at("dominant").is_null());
}

TEST_CASE("cleave split: the stages that are said to be enough are, and one less is not") {
  for (std::string const name : {"segformer", "googlenet", "moe", "lstm_gru"}) {
    if (!std::filesystem::exists(model_file(name))) continue;
    CAPTURE(name);
    auto const bottleneck = [&](std::size_t k) {
      auto const r = run_tool({"split", model_file(name).string(), "-k", std::to_string(k), "--json"});
      REQUIRE(r.exit == 0);
      return json::parse(r.said);
    };
    auto const whole = json::parse(run_tool({"inspect", model_file(name).string(), "--json"}).said);
    auto const many = bottleneck(std::min<std::size_t>(60, whole.at("live_nodes").get<std::size_t>()));
    if (many.at("enough_stages").is_null()) continue;
    auto const enough = many.at("enough_stages").get<std::size_t>();
    auto const most = many.at("bottleneck").get<double>();
    CHECK(bottleneck(enough).at("bottleneck").get<double>() <= most * (1 + 1e-6));
    if (enough > 1) CHECK(bottleneck(enough - 1).at("bottleneck").get<double>() > most);
  }
}

TEST_CASE("cleave split: calls that stages copy are not counted among those to place") {
  scene const s({1}, "Interleaved1F1B", "2");
  std::ofstream(s.graph) << R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"},
    {"name": "m", "target": "tril", "cost": 1, "replicable": true},
    {"name": "t", "target": "tril", "cost": 1, "replicable": true},
    {"name": "a", "target": "add", "operands": ["x", "m"], "cost": 5},
    {"name": "b", "target": "add", "operands": ["a", "t"], "cost": 5},
    {"name": "y", "op": "output", "operands": ["b"]}]})";
  for (auto const& options : {std::vector<std::string>{"-k", "4"}, {"--schedule", s.order}}) {
    std::vector<std::string> line{"split", s.graph};
    line.insert(line.end(), options.begin(), options.end());
    auto const r = run_tool(line);
    CAPTURE(r.to_stderr);
    CHECK(r.exit == 1);
    CHECK(r.to_stderr.find(" 4 stages, but the graph has 2 nodes to place") != std::string::npos);
  }
}
