// SPDX-License-Identifier: MIT
#include "cleave/graph/unlisted_values.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/snapshot.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

namespace {

using unlisted = unlisted_value<std::string>;

/// Finds the unlisted values by checking each operand against all known values.
std::vector<unlisted> asked_one_by_one(toy::program const& p) {
  std::set<std::string> known(p.inputs.begin(), p.inputs.end());
  known.insert(p.weights.begin(), p.weights.end());
  for (auto const& o : p.ops) known.insert(o->out.begin(), o->out.end());
  std::vector<unlisted> found;
  for (std::size_t n = 0; n < p.ops.size(); ++n)
    for (std::size_t i = 0; i < p.ops[n]->in.size(); ++i)
      if (known.insert(p.ops[n]->in[i]).second) found.push_back({n, i, p.ops[n]->in[i]});
  return found;
}

}  // namespace

TEST_CASE("find_unlisted_values: returns each value without producer and list once, at its first use") {
  testing::rng r(5);
  std::size_t found = 0;
  for (int i = 0; i < 500; ++i) {
    auto p = testing::random_program(r, 1 + r.below(8));
    for (auto changes = r.below(4); changes-- > 0;) {
      auto& in = p.ops[r.below(p.ops.size())]->in;
      in.insert(in.begin() + static_cast<std::ptrdiff_t>(r.below(in.size() + 1)),
                "c" + std::to_string(r.below(3)));
    }
    auto const values = find_unlisted_values(toy::graph(p));
    REQUIRE(values == asked_one_by_one(p));
    found += values.size();
  }
  CHECK(found > 300);
}

TEST_CASE("find_unlisted_values: returns the inputs of a graph that does not list them") {
  struct chain {
    static std::vector<int> nodes() { return {1, 2}; }
    static std::vector<int> operands(int n) { return n == 1 ? std::vector{7, 8, 7} : std::vector{1}; }
  };
  CHECK(find_unlisted_values(chain{}) == std::vector<unlisted_value<int>>{{0, 0, 7}, {0, 1, 8}});
}

namespace {

/// Node 0 writes memory 9 in place, which nothing has written before and no list names.
struct writes_unlisted_memory {
  static std::vector<int> nodes() { return {0, 1}; }
  static std::vector<int> operands(int n) { return {n == 0 ? 5 : 9}; }
  static std::vector<int> results(int n) { return {n == 0 ? 9 : 7}; }
  static std::vector<int> overwrites(int n) { return std::vector<int>(n == 0 ? 1 : 0, 9); }
  static int storage(int v) { return v; }
  static std::vector<int> inputs() { return {5}; }
  static std::vector<int> outputs() { return {7}; }
};
struct lists_constants : writes_unlisted_memory {
  static std::vector<int> constants() { return {}; }
};

}  // namespace

TEST_CASE(
    "find_unlisted_values: memory that is written in place first is among them, and a fault with "
    "constants()") {
  CHECK(find_unlisted_values(writes_unlisted_memory{}) == std::vector<unlisted_value<int>>{{0, 1, 9}});
  CHECK_FALSE(find_adapter_fault(writes_unlisted_memory{}));
  CHECK_NOTHROW(snapshot_of(writes_unlisted_memory{}));
  CHECK(find_adapter_fault(lists_constants{}) == adapter_fault{adapter_violation::unlisted_operand, 0, 1});
  CHECK_THROWS_WITH_AS(
      snapshot_of(lists_constants{}),
      "adapter: operand #1 of node #0 is produced by no node, and none of inputs(), state() and "
      "constants() lists it",
      adapter_error);
}

TEST_CASE("find_unlisted_values: counts values that bodies read after the node's operands") {
  struct holder {
    static std::vector<int> nodes() { return {0}; }
    static std::vector<int> operands(int) { return {7}; }
    static std::vector<int> results(int) { return {100}; }
    static std::vector<int> inputs() { return {7}; }
    static std::vector<int> outputs() { return {100}; }
    static std::vector<int> regions(int) { return {5}; }
    static std::vector<int> nodes(int) { return {}; }
    static std::vector<int> arguments(int) { return {}; }
    static std::vector<int> yields(int) { return {7, 9}; }
  };
  static_assert(nested_graph<holder>);
  CHECK(find_unlisted_values(holder{}) == std::vector<unlisted_value<int>>{{0, 2, 9}});
}
