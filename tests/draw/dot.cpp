// SPDX-License-Identifier: MIT
#include "cleave/draw/dot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cleave/graph/snapshot.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/archetype.hpp"
#include "support/graphviz.hpp"
#include "support/nasty_names.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

namespace {

/// A drawing as parsed by Graphviz.
struct drawing {
  std::map<std::string, std::string> cluster;  // of a node; "" outside all clusters
  std::map<std::string, std::string> label;    // of a node, still escaped
  std::multiset<std::pair<std::string, std::string>> edges;
  std::map<std::pair<std::string, std::string>, std::string> edge_label;
};

drawing read(std::string const& text) {
  drawing d;
  auto const j = nlohmann::json::parse(testing::graphviz(text, "dot_json"));
  std::map<int, std::string> name;
  if (!j.contains("objects")) return d;
  for (auto const& o : j["objects"]) {
    if (o["name"].get<std::string>().starts_with("cluster")) continue;
    name[o["_gvid"]] = o["name"];
    d.cluster[o["name"]] = "";
    d.label[o["name"]] = o.value("label", "");
  }
  for (auto const& o : j["objects"])
    if (o["name"].get<std::string>().starts_with("cluster") && o.contains("nodes"))
      for (int const n : o["nodes"]) d.cluster[name.at(n)] = o["name"];
  for (auto const& e : j.value("edges", nlohmann::json::array())) {
    auto const ends = std::pair(name.at(e["tail"]), name.at(e["head"]));
    d.edges.insert(ends);
    if (!e.value("label", "").empty()) d.edge_label[ends] = e["label"];
  }
  return d;
}

bool skipped() {
  if (testing::have_graphviz()) return false;
  MESSAGE("skipped: dot of Graphviz is not installed");
  return true;
}

std::string node_id(std::size_t s, std::size_t n) {
  return "s" + std::to_string(s) + "_n" + std::to_string(n);
}

/// The expected number of edges: the distinct values that each node reads from nodes and inputs, the nodes
/// that it must follow, and the outputs.
std::size_t reads(snapshot_arrays const& g, plan const& p) {
  std::size_t count = 0;
  for (auto const& s : p.stages)
    for (auto const n : s.nodes) {
      std::set<std::uint32_t> values;
      for (auto const v : g.operands[n])
        if (g.from[v] == source::node || g.from[v] == source::input) values.insert(v);
      count += values.size() + g.after[n].size();
    }
  return count + g.outputs.size();
}

}  // namespace

TEST_CASE("write_dot: Graphviz reads each node in the cluster of its stage and an edge for each read value") {
  if (skipped()) return;
  testing::rng random(3);
  for (int round = 0; round < 12; ++round) {
    auto const program = testing::random_program(random, 4 + random.below(20));
    auto const g = snapshot_of(toy::graph(program));
    auto const p =
        make_plan(g, testing::equal_slices(g.nodes(), 1 + static_cast<std::uint32_t>(random.below(4))));
    auto const d = read(write_dot(g, p));

    std::size_t placed = 0;
    for (std::size_t s = 0; s < p.stages.size(); ++s)
      for (auto const n : p.stages[s].nodes) {
        CHECK(d.cluster.at(node_id(s, n)) == "cluster_stage" + std::to_string(s));
        ++placed;
      }
    CHECK(d.cluster.size() == placed + g.inputs.size() + g.outputs.size());
    CHECK(d.edges.size() == reads(g, p));
    for (auto const& t : p.transfers)
      for (auto const n : g.users[t.value]) {
        auto const& reader = p.stages[index(t.to)].nodes;
        if (std::ranges::find(reader, n) == reader.end()) continue;
        auto const ends = std::pair(node_id(index(t.from), g.producer[t.value]), node_id(index(t.to), n));
        CHECK(d.edges.contains(ends));
        CHECK(d.edge_label.contains(ends));
      }
  }
}

TEST_CASE("write_dot: exactly the edges between stages are labelled with the bytes of their value") {
  if (skipped()) return;
  toy::program p{{"x"}, {}, {"out"}};
  p.add({"a", {"x"}, {"mid"}});
  p.add({"b", {"mid"}, {"crossing"}});
  p.add({"c", {"crossing"}, {"out"}});
  auto const g = snapshot_of(toy::graph(p));
  auto const d = read(write_dot(g, testing::equal_slices(3, 3)));
  CHECK(d.edge_label.at({"s0_n0", "s1_n1"}) == bytes_text(3));
  CHECK(d.edge_label.at({"s1_n1", "s2_n2"}) == bytes_text(8));
  CHECK(d.edge_label.size() == 2);
  CHECK(read(write_dot(g)).edge_label.empty());
}

TEST_CASE("write_dot: names with arbitrary bytes appear as escaped labels") {
  if (skipped()) return;
  toy::program p{{"x"}, {}, {}};
  for (auto const& name : testing::nasty_names()) p.add({name, {"x"}, {"v" + std::to_string(p.ops.size())}});
  auto const g = snapshot_of(toy::graph(p));
  auto const text = write_dot(g, testing::equal_slices(g.nodes(), 2), {.label_limit = 60});
  auto const d = read(text);
  CHECK(d.cluster.size() == g.nodes() + 1);
  CHECK(d.edges.size() == g.nodes());

  auto drawn = testing::graphviz(text, "svg");
  for (auto const& [entity, character] :
       std::vector<std::pair<std::string, std::string>>{{"&lt;", "<"},
                                                        {"&gt;", ">"},
                                                        {"&quot;", "\""},
                                                        {"&#39;", "'"},
                                                        {"&#45;", "-"},
                                                        {"&#160;", "\u00a0"},
                                                        {"&amp;", "&"}})
    for (auto at = drawn.find(entity); at != std::string::npos; at = drawn.find(entity, at + 1))
      drawn.replace(at, entity.size(), character);
  for (auto const& name : testing::nasty_names()) {
    CAPTURE(printable(name));
    if (name.find_first_not_of(' ') != std::string::npos)
      CHECK(drawn.find(">" + printable(name, 60) + "</text>") != std::string::npos);
  }
}

TEST_CASE("write_dot: a graph above the limit has one box per stage and one edge per pair of linked stages") {
  if (skipped()) return;
  testing::rng random(5);
  auto const program = testing::random_program(random, 400);
  auto const g = snapshot_of(toy::graph(program));
  auto const p = make_plan(g, testing::equal_slices(g.nodes(), 5));
  auto const d = read(write_dot(g, p));
  auto const q = quotient_of(g, p);
  CHECK(d.cluster.size() == 5);
  CHECK(d.edges.size() == q.links.size());
  for (std::size_t s = 0; s < 5; ++s) {
    auto const count = count_text(q.stages[s].nodes) + " nodes";
    CHECK(d.label.at("stage" + std::to_string(s)).find(count) != std::string::npos);
  }
  CHECK(read(write_dot(g, p, {.collapse_above = 400})).cluster.size() > 400);
  CHECK(read(write_dot(g, testing::equal_slices(g.nodes(), 5))).cluster.size() == 5);
}

TEST_CASE("write_dot: draws a partition with a cycle and a node without a part") {
  if (skipped()) return;
  toy::program p{{"x"}, {}, {"c"}};
  p.add({"a", {"x"}, {"a"}});
  p.add({"b", {"a"}, {"b"}});
  p.add({"c", {"b"}, {"c"}});
  p.add({"loose", {"a"}, {"d"}});
  auto const g = snapshot_of(toy::graph(p));
  partition const cyclic{{part_id{0}, part_id{1}, part_id{0}, no_part}, 2};
  auto const d = read(write_dot(g, cyclic));
  CHECK(d.cluster.at("s2_n3") == "");
  CHECK(d.edges.contains({"s0_n0", "s1_n1"}));
  CHECK(d.edges.contains({"s1_n1", "s0_n2"}));
  CHECK(d.edges.contains({"s0_n0", "s2_n3"}));
  CHECK(read(write_dot(g, cyclic, {.collapse_above = 0})).edges.size() == 3);
}

TEST_CASE("write_dot: an empty graph gives a drawing without nodes") {
  if (skipped()) return;
  CHECK(read(write_dot(snapshot_arrays{})).cluster.empty());
  CHECK(read(write_dot(snapshot_arrays{}, partition{})).cluster.empty());
  CHECK(read(write_dot(snapshot_arrays{}, plan{})).cluster.empty());
}

TEST_CASE("write_dot: draws a graph with only nodes and operands whole, partitioned and planned") {
  archetype::graph const g;
  auto const s = snapshot_of(g);
  partition const p{{part_id{0}, part_id{1}}, 2};
  CHECK(write_dot(s).find("label=\"#1\"") != std::string::npos);
  CHECK(write_dot(s, p).find("stage 1") != std::string::npos);
  CHECK(write_dot(s, make_plan(s, p)).find("s0_n0 -> s1_n1") != std::string::npos);
  CHECK(write_dot(s, p, {.collapse_above = 1}).find("stage0 -> stage1") != std::string::npos);
}
