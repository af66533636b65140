// SPDX-License-Identifier: MIT
#include "cleave/backward/backward_graph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "support/random_backward.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using enum backward_graph_fault::kind;
using node_list = std::vector<std::uint32_t>;

/// 0 -> 1 -> 2, and 0 -> 2.
backward_arrays triangle() {
  backward_arrays g;
  g.next.add({1}), g.next.add({2}), g.next.close();
  g.next.add({2}), g.next.close();
  g.next.close();
  g.outputs = {0};
  g.inputs = {2};
  g.cost = {1, 2, 3};
  g.bytes = {4, 5, 6};
  for (std::string_view const name : {"Mul", "T", "x"}) {
    for (char const c : name) g.name.add(c);
    g.name.close();
  }
  return g;
}

std::string message(backward_arrays const& g) {
  try {
    check_backward_graph(g);
  } catch (backward_graph_error const& e) {
    CHECK(e.witness == *find_backward_graph_fault(g));
    return e.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("find_backward_graph_fault: valid graphs and the empty graph have no fault") {
  CHECK_FALSE(find_backward_graph_fault(triangle()));
  CHECK_FALSE(find_backward_graph_fault(backward_arrays{}));
  rng r(1);
  for (int i = 0; i < 300; ++i) REQUIRE_FALSE(find_backward_graph_fault(random_backward(r, 20)));
}

TEST_CASE("find_backward_graph_fault: reports an edge to a node that does not exist") {
  auto g = triangle();
  g.next.item[2].to = 3;
  CHECK(find_backward_graph_fault(g) == backward_graph_fault{edge, 1});
  CHECK(
      message(g) ==
      "backward graph: node T (#1) sends a gradient to a node that does not exist; the number of nodes is 3");
}

TEST_CASE("find_backward_graph_fault: reports an output, input or parameter that is not a node") {
  for (auto list : {&backward_arrays::outputs, &backward_arrays::inputs, &backward_arrays::parameters}) {
    auto g = triangle();
    (g.*list).push_back(7);
    CHECK(find_backward_graph_fault(g) == backward_graph_fault{place, 7});
    CHECK(
        message(g) ==
        "backward graph: an output, input or parameter is node #7, which does not exist; there are 3 nodes");
  }
}

TEST_CASE("find_backward_graph_fault: reports lists of bytes, costs and names with the wrong length") {
  for (int i = 0; i < 3; ++i) {
    auto g = triangle();
    if (i == 0) g.bytes.pop_back();
    if (i == 1) g.cost.push_back(1);
    if (i == 2) g.name.close();
    CHECK(find_backward_graph_fault(g) == backward_graph_fault{rows});
    CHECK(message(g).find("bytes and names need one entry per node") != std::string::npos);
  }
}

TEST_CASE("find_backward_graph_fault: reports costs that are negative, infinite or NaN") {
  for (double const bad :
       {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    auto g = triangle();
    g.cost[2] = bad;
    CHECK(find_backward_graph_fault(g) == backward_graph_fault{backward_graph_fault::kind::cost, 1});
    CHECK(message(g) == "backward graph: the cost of an edge of node T (#1) must be finite and not negative");
  }
}

TEST_CASE("find_backward_graph_fault: reports bytes whose sum overflows") {
  auto g = triangle();
  g.bytes[1] = std::numeric_limits<std::size_t>::max() - 4;
  CHECK(find_backward_graph_fault(g) == backward_graph_fault{too_much});
  CHECK(message(g).find("the sum of the bytes of all nodes overflows") != std::string::npos);
}

TEST_CASE("find_backward_graph_fault: reports a cycle with its nodes in the order of the edges") {
  auto g = triangle();
  g.next = {};
  g.next.add({1}), g.next.close();
  g.next.add({2}), g.next.close();
  g.next.add({1}), g.next.close();
  g.cost.clear();
  auto const fault = find_backward_graph_fault(g);
  REQUIRE(fault);
  CHECK(fault->what == cycle);
  CHECK(fault->cycle.size() == 2);
  CHECK(message(g) == "backward graph: gradients form a cycle: node T (#1) -> x (#2) -> T (#1)");
}

TEST_CASE(
    "find_backward_graph_fault: finds a cycle of a million nodes on a small stack, in a short message") {
  on_small_stack([] {
    std::uint32_t const n = 1'000'000;
    backward_arrays g;
    for (std::uint32_t i = 0; i < n; ++i) g.next.add({(i + 1) % n}), g.next.close();
    auto const fault = find_backward_graph_fault(g);
    REQUIRE(fault);
    CHECK(fault->cycle.size() == n);
    CHECK(fault->cycle[1] == (fault->cycle[0] + 1) % n);
    CHECK(message(g).ends_with(" -> ..."));
  });
}

TEST_CASE("gradient_order: puts each node after those that send to it") {
  CHECK(gradient_order(triangle()) == node_list{0, 1, 2});
  rng r(2);
  for (int i = 0; i < 300; ++i) {
    auto const g = random_backward(r, 20);
    std::vector<std::size_t> at(g.nodes());
    auto const order = gradient_order(g);
    REQUIRE(order.size() == g.nodes());
    for (std::size_t j = 0; j < order.size(); ++j) at[order[j]] = j;
    for (std::size_t n = 0; n < g.nodes(); ++n)
      for (auto const& e : g.next[n])
        if (e.to != none<std::uint32_t>) REQUIRE(at[n] < at[e.to]);
  }
}

TEST_CASE(
    "gradient_senders: lists senders in the order of a walk from the outputs, and only reachable ones") {
  backward_arrays g;
  g.next.add({2}), g.next.close();                   // 0, unreachable from the outputs
  g.next.add({2}), g.next.add({2}), g.next.close();  // 1
  g.next.close();
  g.next.add({1}), g.next.add({2}), g.next.close();  // 3
  g.outputs = {3};
  auto const senders = gradient_senders(g);
  CHECK(node_list(senders[2].begin(), senders[2].end()) == node_list{3, 1});
  CHECK(node_list(senders[1].begin(), senders[1].end()) == node_list{3});
  CHECK(senders[0].empty());
  CHECK(backward_reachable(senders, {1}) == std::vector<char>{0, 1, 0, 1});
}
