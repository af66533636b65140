// SPDX-License-Identifier: MIT
#include "cleave/backward/joint_graph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/backward/cut_joint_graph.hpp"

using namespace cleave;
using namespace cleave::detail;

namespace {

/// A graph of nodes with results; values are numbers.
struct listed_node {
  std::string label;
  std::vector<int> reads, makes;
};
struct listed_graph {
  std::vector<listed_node> list;
  std::vector<int> in, held, out;

  std::vector<int> nodes() const {
    std::vector<int> all;
    for (int i = 0; i < static_cast<int>(list.size()); ++i) all.push_back(i);
    return all;
  }
  std::vector<int> const& operands(int n) const { return list[static_cast<std::size_t>(n)].reads; }
  std::vector<int> const& results(int n) const { return list[static_cast<std::size_t>(n)].makes; }
  std::vector<int> const& inputs() const { return in; }
  std::vector<int> const& state() const { return held; }
  std::vector<int> const& outputs() const { return out; }
  std::size_t bytes(int v) const { return static_cast<std::size_t>(v); }
  double weight(int n) const { return 1 + n; }
  std::string name(int n) const { return list[static_cast<std::size_t>(n)].label; }
};

std::vector<std::string> labels(joint_arrays const& g, std::vector<std::uint32_t> const& nodes) {
  std::vector<std::string> all;
  for (auto const n : nodes) all.push_back(g.label(n));
  return all;
}

using words = std::vector<std::string>;

}  // namespace

TEST_CASE("joint_graph_with_backward: appends a node for operands and one for state, and adds up gradients") {
  // product(10, weight 20) = 30; gelu(30) = 40; sum(40, 10) = 50
  listed_graph const g{
      {{"product", {10, 20}, {30}}, {"gelu", {30}, {40}}, {"sum", {40, 10}, {50}}}, {10}, {20}, {50}};
  using enum backward_reads;
  auto const j = joint_graph_with_backward(g, {.reads = {operands, results, nothing}});
  REQUIRE_FALSE(find_joint_graph_fault(j));
  CHECK(labels(j, j.results) == words{"sum (#4)"});
  CHECK(labels(j, j.input_gradients) == words{"sum.backward (#6)", "product.backward (#8)"});
  CHECK(labels(j, j.weight_gradients) == words{"product.weights (#9)"});
  auto const reads = [&](std::size_t n) {
    return std::vector<std::uint32_t>(j.reads[n].begin(), j.reads[n].end());
  };
  CHECK(reads(6) == std::vector<std::uint32_t>{5});        // the gradient of the result
  CHECK(reads(7) == std::vector<std::uint32_t>{6, 3});     // gelu: its result
  CHECK(reads(8) == std::vector<std::uint32_t>{7, 0, 1});  // product: both factors
  CHECK(j.bytes[6] == 50);                                 // of both operands
  CHECK(j.cost[7] == 2);
  CHECK(j.source[1] == joint_source::parameter);
  auto const cut = cut_joint_graph(j, {.bytes_per_cost = 1000});
  CHECK(labels(j, cut.saved) == words{"#0", "gelu (#3)"});
  CHECK(cut.bytes == 50);
}

TEST_CASE("joint_graph_with_backward: an operation with several results leaves them one by one") {
  listed_graph const g{{{"split", {10}, {20, 30}}, {"mul", {20, 30}, {40}}}, {10}, {}, {40}};
  auto const j = joint_graph_with_backward(g, {.run_once = {1, 0}});
  REQUIRE_FALSE(find_joint_graph_fault(j));
  CHECK(j.label(2) == "split[0] (#2)");
  CHECK(j.unsavable[1] == 1);
  CHECK(j.run_once[1] == 1);
  auto const cut = cut_joint_graph(j);
  CHECK(labels(j, cut.saved) == words{"#0", "split[0] (#2)", "split[1] (#3)"});  // mul runs again
}

TEST_CASE("joint_graph_of: reads a training graph by its marks") {
  // Forward: y = w * x, loss = y * y. Backward from seed 5: dy = 2 y * seed, dx = dy * w, dw = dy * x.
  listed_graph const g{{{"y", {1, 2}, {30}},
                        {"loss", {30}, {40}},
                        {"dy", {30, 5}, {50}},
                        {"dx", {50, 2}, {60}},
                        {"dw", {50, 1}, {70}}},
                       {1, 2, 5},
                       {},
                       {40, 60, 70}};
  auto const j = joint_graph_of(g, {.gradients = {5},
                                    .parameters = {2},
                                    .input_gradients = {60},
                                    .weight_gradients = {70},
                                    .run_once = {1, 0, 0, 0, 0}});
  REQUIRE_FALSE(find_joint_graph_fault(j));
  CHECK(labels(j, j.results) == words{"loss (#4)"});
  auto const cut = cut_joint_graph(j, {.bytes_per_cost = 1000, .weights_in_flight = 1});
  CHECK(labels(j, cut.saved) == words{"#2", "y (#3)"});
  CHECK(labels(j, cut.kept) == words{"#2", "dy (#5)"});
  CHECK(labels(j, cut.backward) == words{"dy (#5)", "dx (#6)"});
  CHECK(labels(j, cut.weight) == words{"dw (#7)"});

  CHECK_THROWS_WITH_AS(joint_graph_of(g, {.gradients = {5}}),
                       "joint graph: node dx (#6) is a result of the forward pass, but depends on a gradient",
                       joint_graph_error);
}

TEST_CASE("joint_graph_with_backward: takes a graph that does not list its inputs and outputs") {
  struct bare {
    std::vector<int> nodes() const { return {1, 2}; }
    std::vector<int> operands(int n) const { return {n - 1}; }
  };
  auto const j = joint_graph_with_backward(bare{});
  CHECK(j.results.size() == 1);
  CHECK(j.input_gradients.size() == 1);
  CHECK(j.weight_gradients.empty());
}

TEST_CASE("joint_graph_of: a node may be where the backward pass starts") {
  listed_graph const g{{{"loss", {1}, {30}}, {"ones", {30}, {40}}, {"dx", {40, 1}, {50}}}, {1}, {}, {30, 50}};
  auto const j = joint_graph_of(g, {.gradients = {40}, .input_gradients = {50}});
  CHECK(j.source[2] == joint_source::gradient);
  CHECK(labels(j, cut_joint_graph(j).saved) == words{"#0"});
}

TEST_CASE("joint_graph_of: rejects a mark that is not in the graph, and lists of a wrong length") {
  listed_graph const g{{{"a", {1}, {30}}}, {1}, {}, {30}};
  CHECK_THROWS_WITH_AS(joint_graph_of(g, {.gradients = {7}}),
                       "joint graph: a marked value is not in the graph", error);
  CHECK_THROWS_WITH_AS(joint_graph_of(g, {.run_once = {0, 0}}),
                       "joint graph: `run_once` has 2 entries, but the graph has 1 nodes", error);
  CHECK_THROWS_WITH_AS(joint_graph_with_backward(g, {.reads = {{}, {}}}),
                       "joint graph: `reads` has 2 entries, but the graph has 1 nodes", error);
}

TEST_CASE("joint_graph_of: rejects nodes that are not in order") {
  listed_graph const g{{{"b", {30}, {40}}, {"a", {1}, {30}}}, {1}, {}, {40}};
  CHECK_THROWS_WITH_AS(joint_graph_of(g, {}),
                       "adapter: node a (#1) is listed after a user of its result; list the nodes in "
                       "topological_order(g), each after all nodes that it needs",
                       error);
}

TEST_CASE("check_joint_graph: names each fault") {
  joint_arrays g;
  g.reads.close();
  g.reads.add(0), g.reads.close();
  g.source = {joint_source::input, joint_source::operation};
  g.bytes = {1, 2};
  REQUIRE_FALSE(find_joint_graph_fault(g));
  auto const fault = [](joint_arrays const& bad) {
    auto const f = find_joint_graph_fault(bad);
    return f ? joint_graph_fault_text(bad, *f) : "";
  };
  auto bad = g;
  bad.bytes.pop_back();
  CHECK(fault(bad) ==
        "sources and bytes need one entry per node, of which there are 2; costs, names, `run_once` and "
        "`unsavable` need the same or none");
  bad = g;
  bad.reads.item = {1};
  CHECK(fault(bad) == "node #1 reads a node that does not precede it; list nodes after those that they read");
  bad = g;
  bad.source[1] = joint_source::input;
  CHECK(fault(bad) ==
        "node #1 is an input, a parameter or a gradient, but reads values; only operations may");
  bad = g;
  bad.results = {2};
  CHECK(fault(bad) == "node #2 is to be returned but does not exist; the number of nodes is 2");
  bad = g;
  bad.cost = {0, std::numeric_limits<double>::quiet_NaN()};
  CHECK(fault(bad) == "the cost of node #1 must be finite and not negative");
  bad = g;
  bad.source[0] = joint_source::gradient;
  bad.results = {1};
  CHECK(fault(bad) == "node #1 is a result of the forward pass, but depends on a gradient");
  bad = g;
  bad.bytes = {std::size_t{1} << 60, 1};
  CHECK(fault(bad) == "the bytes of all nodes together exceed 2^60");
}

TEST_CASE("cut_joint_graph: rejects options that it cannot use, and limits that cannot be kept") {
  listed_graph const g{{{"product", {10, 20}, {30}}}, {10}, {20}, {30}};
  auto const j = joint_graph_with_backward(g);
  CHECK_THROWS_WITH_AS(cut_joint_graph(j, {.bytes_per_cost = -1}),
                       "joint graph: bytes_per_cost must be finite and not negative",
                       joint_cut_options_error);
  CHECK_THROWS_WITH_AS(
      cut_joint_graph(j, {.in_flight = 0}),
      "joint graph: in_flight must be from 1 to 1048576, weights_in_flight from 0 to 1048576",
      joint_cut_options_error);
  CHECK_THROWS_WITH_AS(
      cut_joint_graph(j, {.most_bytes = 9}),
      "joint graph: the limit of 9 bytes is too low: 10 bytes are needed, even if every operation "
      "runs again that may; allow more bytes, fewer microbatches in flight, or more operations "
      "to run again",
      infeasible_error);
  CHECK(cut_joint_graph(j, {.most_bytes = 10}).again.size() == 1);
}

TEST_CASE("cut_joint_graph: a value that can neither be saved nor made again is an error") {
  listed_graph const g{{{"draw", {10}, {20, 30}}, {"mul", {20, 30}, {40}}}, {10}, {}, {40}};
  auto j = joint_graph_with_backward(g, {.run_once = {1, 0}});
  j.unsavable[2] = j.run_once[2] = 1;
  CHECK_THROWS_WITH_AS(cut_joint_graph(j),
                       "joint graph: the value of node draw[0] (#2) is needed after the pass that makes it, "
                       "but may neither be saved nor made again; let it run again, or save values made of it",
                       infeasible_error);
}
