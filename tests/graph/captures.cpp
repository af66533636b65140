// SPDX-License-Identifier: MIT
#include "cleave/graph/detail/captures.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "support/rng.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

enum class body : std::size_t {};
using list = std::vector<int>;

/// A nested graph: nodes hold bodies, which hold nodes. Node 0 is the root. Values are numbered in order of
/// definition.
struct nest {
  struct op {
    list reads, makes;
    std::vector<body> bodies;
  };
  struct block {
    list nodes, arguments, yields;
  };
  std::vector<op> ops;
  std::vector<block> blocks;

  static list nodes() { return {0}; }
  op const& at(int n) const { return ops[static_cast<std::size_t>(n)]; }
  block const& at(body b) const { return blocks[static_cast<std::size_t>(b)]; }
  list const& operands(int n) const { return at(n).reads; }
  list const& results(int n) const { return at(n).makes; }
  std::vector<body> const& regions(int n) const { return at(n).bodies; }
  list const& nodes(body b) const { return at(b).nodes; }
  list const& arguments(body b) const { return at(b).arguments; }
  list const& yields(body b) const { return at(b).yields; }
};
static_assert(nested_graph<nest>);

/// A random nest in which bodies read only values that are visible to them; `used` holds all values read.
class random_nest {
 public:
  nest g;
  std::set<int> used;
  static constexpr int outside = 5;  // values that are defined around node 0

  explicit random_nest(testing::rng& r) : r_(r) { add({0, 1, 2, 3, 4}, 3); }

 private:
  int add(list known, int depth) {
    auto const n = g.ops.size();
    g.ops.emplace_back();
    for (auto count = r_.below(3); n != 0 && count-- > 0;) g.ops[n].reads.push_back(read(known));
    for (auto count = depth > 0 ? r_.below(3) : 0; count-- > 0;) {
      auto const made = add_body(known, depth - 1);
      g.ops[n].bodies.push_back(made);
    }
    g.ops[n].makes.push_back(next_++);
    return static_cast<int>(n);
  }
  body add_body(list known, int depth) {
    auto const b = g.blocks.size();
    g.blocks.emplace_back();
    for (auto count = r_.below(2); count-- > 0;) known.push_back(g.blocks[b].arguments.emplace_back(next_++));
    for (auto count = r_.below(4); count-- > 0;) {
      auto const n = add(known, depth);
      g.blocks[b].nodes.push_back(n);
      known.push_back(g.at(n).makes[0]);
    }
    for (auto count = r_.below(3); count-- > 0;) g.blocks[b].yields.push_back(read(known));
    return body{b};
  }
  int read(list const& known) {
    auto const v = known[r_.below(known.size())];
    used.insert(v);
    return v;
  }

  testing::rng& r_;
  int next_ = outside;
};

}  // namespace

TEST_CASE("captures: returns each outside value that a body reads, once, from any depth") {
  testing::rng r(1);
  std::size_t captured = 0;
  for (int i = 0; i < 300; ++i) {
    random_nest const x(r);
    std::set<int> twin;
    for (auto const v : x.used)
      if (v < random_nest::outside) twin.insert(v);
    auto const found = captures(x.g, 0);
    REQUIRE(found.size() == twin.size());
    REQUIRE(std::set<int>(found.begin(), found.end()) == twin);
    captured += twin.size();
  }
  CHECK(captured > 300);
}

TEST_CASE("captures: lists values by first use, operands before yields, without the node's own operands") {
  nest const g{{{{9, 8}, {20}, {body{0}}}, {{3, 1, 3}, {21}, {}}, {{1, 21, 2}, {22}, {}}},
               {{{1, 2}, {10}, {4, 10, 22, 3}}}};
  CHECK(captures(g, 0) == list{3, 1, 2, 4});
  CHECK(captures(g, 1).empty());
}

TEST_CASE("captures: excludes values that the body defines later, and includes yields of an empty body") {
  nest const g{{{{}, {20}, {body{0}}}, {{22}, {21}, {}}, {{}, {22}, {}}}, {{{1, 2}, {}, {}}}};
  CHECK(captures(g, 0).empty());
  nest const empty{{{{}, {20}, {body{0}}}}, {{{}, {}, {7, 7}}}};
  CHECK(captures(empty, 0) == list{7});
}

TEST_CASE("captures: handles 100,000 nested bodies on a small stack") {
  nest g;
  std::size_t const depth = 100'000;
  for (std::size_t i = 0; i < depth; ++i) {
    auto const n = static_cast<int>(i);
    g.ops.push_back({{}, {100 + n}, {body{i}}});
    g.blocks.push_back({{n + 1}, {}, {}});
  }
  g.ops.push_back({{7}, {99}, {}});
  testing::on_small_stack([&] { CHECK(captures(g, 0) == list{7}); });
}
