// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/graph_json.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

namespace {

using cleave::testing::run_tool;
using cleave::testing::scratch_folder;
using cleave::testing::text_of_file;
using json = nlohmann::json;

std::string const model = CLEAVE_SOURCE_DIR "/examples/models/googlenet.onnx";

/// The nodes of each stage that `--by rule` gives.
std::vector<std::vector<std::size_t>> cut(std::string const& file, std::vector<std::string> more) {
  more.insert(more.begin(), {"split", file, "--json"});
  auto const r = run_tool(more);
  INFO(r.to_stderr);
  REQUIRE(r.exit == 0);
  std::vector<std::vector<std::size_t>> stages;
  auto const said = json::parse(r.said);
  for (auto const& s : said.at("stages")) {
    stages.emplace_back();
    for (auto const& n : s.at("nodes")) stages.back().push_back(n.get<std::size_t>());
  }
  return stages;
}

std::size_t nodes_in(std::vector<std::vector<std::size_t>> const& stages) {
  std::set<std::size_t> met;
  std::size_t sum = 0;
  for (auto const& s : stages) met.insert(s.begin(), s.end()), sum += s.size();
  CHECK(met.size() == sum);
  return sum;
}

std::string refusal(std::vector<std::string> const& words, int code) {
  auto const r = run_tool(words);
  CHECK(r.exit == code);
  CHECK(r.said.empty());
  return r.to_stderr;
}

void write(std::string const& file, std::string const& text) { std::ofstream(file) << text; }

char const net[] = R"({"format": "cleave graph 1", "nodes": [
  {"name": "x", "op": "placeholder"},
  {"name": "embed", "operands": ["x"], "cost": 3, "bytes": 8, "meta": {"tag": "a", "path": "net.embed"}},
  {"name": "block", "operands": ["embed", "x"], "cost": 12, "bytes": 8, "meta": {"tag": "b", "path": "net.block"}},
  {"name": "head", "operands": ["block"], "cost": 4, "bytes": 4, "meta": {"tag": "b", "path": "net.head"}},
  {"name": "out", "op": "output", "operands": ["head"]}]})";

}  // namespace

TEST_CASE("cleave split --by: each rule puts every node of a model in one stage") {
  auto const all = nodes_in(cut(model, {"-k", "1"}));
  CHECK(all == 152);
  auto const turns = cut(model, {"--by", "capability=Conv,Relu"});
  CHECK(nodes_in(turns) == all);
  CHECK(turns.size() > 2);
  auto const modules = cut(model, {"--by", "modules=conv1,inception4a"});
  CHECK(nodes_in(modules) == all);
  CHECK(modules.size() == 3);
  auto const small = cut(model, {"--by", "buckets=8KiB"}), large = cut(model, {"--by", "buckets=1GiB"});
  CHECK(nodes_in(small) == all);
  CHECK(small.size() > large.size());
  CHECK(large.size() == 1);
}

TEST_CASE("cleave split --by file: uses the stages of the file and treats cycles as --cycles says") {
  scratch_folder const scratch;
  auto const turns = cut(model, {"--by", "capability=Conv"});
  auto const said = json::parse(run_tool({"split", model, "--by", "capability=Conv", "--json"}).said);
  std::string text = "// a comment\n\n";
  for (std::size_t i = 0; i < turns.size(); ++i)
    for (auto const& name : said.at("stages")[i].at("names"))
      text += name.get<std::string>() + "\tpart" + std::to_string(i) + "\n";
  write(scratch / "same.txt", text);
  CHECK(cut(model, {"--by", std::string("file=") + (scratch / "same.txt")}) == turns);

  write(scratch / "net.json", net);
  write(scratch / "cycle.txt", "embed 0\nblock 1\nhead 0\n");
  auto const by = std::string("file=") + (scratch / "cycle.txt"), file = scratch / "net.json";
  CHECK(refusal({"split", file, "--by", by}, 3).find("embed (#0) in part 0 -> block (#1)") !=
        std::string::npos);
  for (auto const& [policy, stages] : {std::pair("cut", 3u), {"merge", 1u}, {"move", 2u}}) {
    auto const r = run_tool({"split", file, "--by", by, "--cycles", policy, "--json"});
    CHECK(json::parse(r.said).at("stages").size() == stages);
  }
}

TEST_CASE("cleave split: writes the pieces and the outer graph of a JSON graph, which can be read back") {
  scratch_folder const scratch;
  auto const file = scratch / "net.json", out = scratch / "out";
  write(file, net);
  auto const stages = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"split", file, "--json", "--out", out});
    auto const r = run_tool(more);
    INFO(r.to_stderr);
    REQUIRE(r.exit == 0);
    json const said = json::parse(r.said).at("stages");
    for (std::size_t i = 0; i < said.size(); ++i) {
      auto const piece = cleave::read_graph_json(text_of_file(said[i].at("file").get<std::string>()));
      CHECK(piece.nodes().size() == said[i].at("nodes").get<std::size_t>());
      CHECK(piece.inputs().size() == said[i].at("inputs").get<std::size_t>());
    }
    CHECK(cleave::read_graph_json(text_of_file(out + "/outer.json")).nodes().size() == said.size());
    CHECK(!std::filesystem::exists(out + "/stage_" + std::to_string(said.size()) + ".json"));
    return said;
  };
  CHECK(stages({"--by", "modules=net.embed,net.block"}).size() == 3);
  auto const tags = stages({"--by", "tags"});
  CHECK(tags.size() == 2);
  CHECK(tags[1].at("cost") == 16);
  CHECK(stages({"-k", "2"})[0].at("cost") == 15);
  CHECK(stages({"--by", "capability=block"}).size() == 3);
  CHECK(run_tool({"split", file}).said.find("only 3 stages instead of 4") != std::string::npos);
}

TEST_CASE("cleave split: keeps a JSON file that it did not write") {
  scratch_folder const scratch;
  auto const file = scratch / "net.json";
  write(file, net);
  for (std::string const name : {"outer.json", "stage_0.json", "stage_2.json"}) {
    scratch_folder const out;
    auto const mine =
        name == "stage_0.json" ? R"({"format": "cleave graph 1", "nodes": []})" : R"({"mine": 1})";
    write(out / name, mine);
    auto const said = refusal({"split", file, "--by", "tags", "--out", out / ""}, 3);
    CHECK(said.find(name + ": is not a graph that cleave wrote") != std::string::npos);
    CHECK(text_of_file(out / name) == mine);
  }
}

TEST_CASE("cleave split --by: rejects an invalid rule or file and suggests near names") {
  scratch_folder const scratch;
  auto const file = scratch / "net.json";
  write(file, net);
  CHECK(refusal({"split", model, "--by", "bucket=1MiB"}, 2).find("not 'bucket=1MiB'") != std::string::npos);
  CHECK(refusal({"split", model, "--by", "modules="}, 2).find("modules=PATH") != std::string::npos);
  CHECK(refusal({"split", model, "--by", "modules=conv11"}, 3).find("'conv1'") != std::string::npos);
  CHECK(refusal({"split", model, "--by", "capability=Convv"}, 3).find("'Conv'") != std::string::npos);
  CHECK(refusal({"split", model, "--by", "tags"}, 3).find("has no tag") != std::string::npos);
  CHECK(
      run_tool({"split", model, "-k", "4", "--by", "buckets=1MiB"}).to_stderr.find("-k has no effect here") !=
      std::string::npos);
  CHECK(refusal({"split", model, "--cycles", "x"}, 2).find("refuse, cut, merge or move") !=
        std::string::npos);
  write(scratch / "a.txt", "embed 0\nblock\n");
  auto const by = std::string("file=") + (scratch / "a.txt");
  CHECK(refusal({"split", file, "--by", by}, 3).find("a.txt, line 2") != std::string::npos);
  write(scratch / "a.txt", "// twice\nembed 0\n\nembed 1\n");
  CHECK(refusal({"split", file, "--by", by}, 3).find("a.txt, line 4: ") != std::string::npos);
  CHECK(
      refusal({"split", file, "--by", "file=/nowhere"}, 3).find("/nowhere: cannot be opened: No such file") !=
      std::string::npos);
  write(file, R"({"format": "cleave graph 1", "nodes": [{"nam": 1}]})");
  CHECK(refusal({"split", file}, 3).find("line 1, column 48, $.nodes[0].nam: unknown key 'nam'") !=
        std::string::npos);
}
