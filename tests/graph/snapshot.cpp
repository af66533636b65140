// SPDX-License-Identifier: MIT
#include "cleave/graph/snapshot.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::error_text;

namespace {

/// An IR of numbers: node i makes value 100 + i.
struct numbers {
  std::vector<std::vector<int>> reads;
  auto nodes() const { return std::views::iota(0, static_cast<int>(reads.size())); }
  std::vector<int> const& operands(int n) const { return reads[static_cast<std::size_t>(n)]; }
  static std::vector<int> results(int n) { return {100 + n}; }
};

std::vector<std::uint32_t> list(std::span<std::uint32_t const> items) { return {items.begin(), items.end()}; }

}  // namespace

TEST_CASE("snapshot_of: keeps the order and repeats of operands, and lists each user once in order") {
  numbers const g{{{7}, {100, 7, 100}, {101, 100}}};
  auto const s = snapshot_of(g);
  CHECK(list(s.operands[1]) ==
        std::vector<std::uint32_t>{s.operands[1][0], s.operands[0][0], s.operands[1][0]});
  CHECK(list(s.users[s.operands[0][0]]) == std::vector<std::uint32_t>{0, 1});
  CHECK(list(s.users[s.results[0][0]]) == std::vector<std::uint32_t>{1, 2});
  CHECK(s.value[s.results[2][0]] == 102);
  CHECK(s.node.find(2) == 2);
}

TEST_CASE("snapshot_of: infers inputs and outputs if the graph does not list them") {
  auto const s = snapshot_of(numbers{{{7}, {100, 8}}});
  CHECK(s.inputs.size() == 2);
  CHECK(s.from[s.inputs[0]] == source::input);
  CHECK(s.outputs == std::vector<std::uint32_t>{s.results[1][0]});
}

TEST_CASE("snapshot_of: a value that no node makes and no list names is a constant") {
  toy::program p{{"x"}, {"w"}, {"a", "x", "pi"}};
  p.add({"f", {"x", "w", "pi"}, {"a"}});
  auto const s = snapshot_of(toy::graph(p));
  CHECK(s.from[s.operands[0][0]] == source::input);
  CHECK(s.from[s.operands[0][1]] == source::state);
  CHECK(s.from[s.operands[0][2]] == source::constant);
  CHECK(s.outputs.size() == 3);
  CHECK(s.outputs[1] == s.inputs[0]);
}

TEST_CASE("snapshot_of: a node stays replicable only if all its operands are available everywhere") {
  toy::program p{{"x"}, {"w"}, {"c"}};
  p.add({"one", {}, {"1"}, 5, true});
  p.add({"two", {"1", "w"}, {"2"}, 5, true});
  p.add({"shape", {"x"}, {"s"}, 5, true});
  p.add({"of shape", {"s"}, {"c"}, 5, true});
  auto const s = snapshot_of(toy::graph(p));
  CHECK(s.replicable == std::vector<char>{1, 1, 0, 0});
  CHECK(s.weight == std::vector<double>{0, 0, 5, 5});
}

TEST_CASE("snapshot_of: adds values that nested bodies capture to the operands of the outer node") {
  // Node 0 makes 100, node 1 makes 101; node 2 holds a body with node 10, which holds a body that reads 100
  // and yields 101.
  struct nest : numbers {
    using numbers::nodes;
    static std::vector<int> regions(int n) {
      return n == 2 ? std::vector{20} : n == 10 ? std::vector{21} : std::vector<int>();
    }
    static std::vector<int> nodes(int r) { return r == 20 ? std::vector{10} : std::vector{11}; }
    static std::vector<int> arguments(int r) { return {r}; }
    static std::vector<int> yields(int r) { return r == 20 ? std::vector{110} : std::vector{111, 101}; }
    std::vector<int> operands(int n) const {
      if (n == 10) return {20};
      if (n == 11) return {100, 21, 20};
      return numbers::operands(n);
    }
  };
  static_assert(nested_graph<nest>);
  nest const g{{{{7}, {7}, {7}}}};
  CHECK(captures(g, 2) == std::vector{100, 101});
  auto const s = snapshot_of(g);
  CHECK(list(s.operands[2]) ==
        std::vector<std::uint32_t>{s.operands[0][0], s.results[0][0], s.results[1][0]});
}

TEST_CASE("snapshot_of: groups the producer and readers of a value that is not portable") {
  struct tokens : numbers {
    static bool portable(int v) { return v != 101; }
  };
  auto const s = snapshot_of(tokens{{{{7}, {100}, {100}, {101}}}});
  CHECK(s.group == std::vector<std::uint32_t>{0, 1, 2, 1});
}

TEST_CASE("snapshot_of: names the node that breaks a promise, and find_adapter_fault finds the same fault") {
  struct listed_twice : numbers {
    static std::vector<int> nodes() { return {0, 0}; }
  };
  struct same_result : numbers {
    static std::vector<int> results(int) { return {100}; }
  };
  auto const both = [](auto const& g, adapter_violation what, std::size_t at) {
    CHECK(find_adapter_fault(g) == adapter_fault{what, at});
    try {
      snapshot_of(g);
      FAIL("no error");
    } catch (adapter_error const& e) {
      CHECK(e.witness == adapter_fault{what, at});
      CHECK(std::string(e.what()).find("#" + std::to_string(at)) != std::string::npos);
    }
  };
  both(listed_twice{{{{7}}}}, adapter_violation::node_twice, 1);
  both(same_result{{{{7}, {7}}}}, adapter_violation::two_producers, 1);
  both(numbers{{{101}, {7}}}, adapter_violation::after_its_user, 1);
  toy::program p{{"x", "y", "x"}, {}, {}};
  both(toy::graph(p), adapter_violation::input_twice, 2);
  p = {{"x"}, {"w", "x"}, {}};
  both(toy::graph(p), adapter_violation::input_and_state, 2);
  p = {{"x"}, {}, {}};
  p.add({"f", {}, {"x"}});
  both(toy::graph(p), adapter_violation::makes_argument, 0);
  p = {{"x"}, {}, {}};
  p.add({"f", {}, {"a"}, 1, false, {nullptr}});
  both(toy::graph(p), adapter_violation::follows_a_later, 0);
}

TEST_CASE("snapshot_of: rejects a size that is negative, too large or NaN") {
  struct priced : numbers {
    double size;
    double bytes(int v) const { return v == 100 ? size : 8; }
  };
  struct signed_sizes : numbers {
    static long bytes(int v) { return v == 7 ? -1 : 8; }
  };
  for (double const size : {-1.0, 2e19, std::numeric_limits<double>::quiet_NaN()}) {
    priced const g{{{{}, {100}}}, size};
    CHECK(find_adapter_fault(g) == adapter_fault{adapter_violation::not_a_size, 0});
    CHECK(error_text([&] { snapshot_of(g); }).find("node #0") != std::string::npos);
  }
  signed_sizes const g{{{{}, {100, 7}}}};
  CHECK(find_adapter_fault(g) == adapter_fault{adapter_violation::not_a_size, 1});
  CHECK(error_text([&] { snapshot_of(g); }).find("node #1") != std::string::npos);
  CHECK(snapshot_of(priced{{{{}, {100}}}, 3}).bytes == std::vector<std::size_t>{3, 8});
}

TEST_CASE("snapshot_of: reports a cycle of nodes that follow each other and names them") {
  toy::program p{{"x"}, {}, {}};
  auto const* f = p.add({"f", {"x"}, {"a"}});
  auto const* g = p.add({"g", {"a"}, {"b"}});
  p.ops.front()->follows.push_back(g);
  CHECK(f == p.ops.front().get());
  CHECK(error_text([&] { snapshot_of(toy::graph(p)); }) ==
        "the graph has a cycle: f (#0) -> g (#1) -> f (#0)");
}

TEST_CASE("snapshot_of: escapes node names in messages for a terminal") {
  toy::program p{{"x"}, {}, {}};
  p.add({"a\n\x1b[31m", {"x"}, {"x"}});
  CHECK(error_text([&] { snapshot_of(toy::graph(p)); }).find("node a\\x0a\\x1b[31m (#0)") !=
        std::string::npos);
}

TEST_CASE("snapshot_of: suggests topological_order for unsorted nodes, or names the cycle") {
  CHECK(error_text([] { snapshot_of(numbers{{{101}, {7}}}); }).find("topological_order") !=
        std::string::npos);
  CHECK(error_text([] { snapshot_of(numbers{{{102}, {100}, {101}}}); }) ==
        "the graph has a cycle: #0 -> #1 -> #2 -> #0");
}

TEST_CASE("snapshot_of: rejects a graph too large for the index type and suggests a wider one") {
  numbers chain;
  for (int i = 0; i < 300; ++i) chain.reads.push_back({i == 0 ? 7 : 99 + i});
  CHECK_THROWS_AS(snapshot_of<std::uint8_t>(chain), index_overflow);
  CHECK(error_text([&] { snapshot_of<std::uint8_t>(chain); }).find("indices of 8 bits: use a wider type") !=
        std::string::npos);
  CHECK(snapshot_of<std::uint16_t>(chain).nodes() == 300);
}

TEST_CASE("snapshot_of: an empty graph gives an empty snapshot") {
  auto const s = snapshot_of(numbers{});
  CHECK(s.nodes() == 0);
  CHECK(s.values() == 0);
}

namespace {

/// Node i reads, makes and overwrites registers. Each register has its own storage, except `view`.
struct registers {
  struct op {
    std::vector<int> reads, makes, writes;
  };
  std::vector<op> ops;
  std::vector<int> arguments, returned;
  int view = -1;  // a second handle of register 0

  auto nodes() const { return std::views::iota(std::size_t{}, ops.size()); }
  std::vector<int> const& operands(std::size_t n) const { return ops[n].reads; }
  std::vector<int> const& results(std::size_t n) const { return ops[n].makes; }
  std::vector<int> const& overwrites(std::size_t n) const { return ops[n].writes; }
  int storage(int v) const { return v == view ? 0 : v; }
  std::vector<int> const& inputs() const { return arguments; }
  std::vector<int> const& outputs() const { return returned; }
};

}  // namespace

TEST_CASE("snapshot_of: a node may return the handle that it overwrites") {
  for (int const view : {-1, 3}) {
    registers const g{{{{1}, {0}, {}}, {{0}, {3}, {}}, {{0}, {0}, {0}}, {{0}, {2}, {}}}, {1}, {2}, view};
    CHECK(!find_adapter_fault(g));
    auto const s = snapshot_of(g);
    CHECK(s.find_slot(0) == s.slot[s.operands[3].front()]);
    if (view < 0) CHECK(s.producer[s.operands[3].front()] == 2);
    if (view == 3) CHECK(s.group == std::vector<std::uint32_t>{0, 0, 0, 0});
  }
}

TEST_CASE("snapshot_of: rejects a value that is overwritten before it is made, as find_adapter_fault does") {
  registers const g{{{{1}, {}, {5}}, {{1}, {5}, {}}}, {1}, {5}};
  CHECK(find_adapter_fault(g) == adapter_fault{adapter_violation::after_its_user, 1});
  try {
    snapshot_of(g);
    FAIL("no error");
  } catch (adapter_error const& e) {
    CHECK(e.witness == adapter_fault{adapter_violation::after_its_user, 1});
  }
}
