// SPDX-License-Identifier: MIT
#include "cleave/graph/snapshot.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

template <class Index>
std::vector<std::string> names(auto const& s, std::span<Index const> values) {
  std::vector<std::string> list;
  for (auto const v : values) list.push_back(s.value[v]);
  return list;
}

template <class Index>
void check_against(toy::program const& p) {
  auto const s = snapshot_of<Index>(toy::graph(p));
  std::map<std::string, std::size_t> producer;
  std::map<std::string, std::set<std::size_t>> users;
  for (std::size_t n = 0; n < p.ops.size(); ++n) {
    for (auto const& v : p.ops[n]->out) producer[v] = n;
    for (auto const& v : p.ops[n]->in) users[v].insert(n);
  }
  /// Whether a value is available in every stage: neither an input nor computed by a node that is not copied.
  std::map<std::string, bool> everywhere;
  auto const is_everywhere = [&](std::string const& v) {
    return producer.contains(v) ? everywhere[v] : std::ranges::count(p.inputs, v) == 0;
  };

  REQUIRE(s.nodes() == p.ops.size());
  for (std::size_t n = 0; n < p.ops.size(); ++n) {
    auto const& o = *p.ops[n];
    REQUIRE(s.node[static_cast<Index>(n)] == &o);
    REQUIRE(names(s, s.operands[n]) == o.in);
    REQUIRE(names(s, s.results[n]) == o.out);
    REQUIRE(s.label(n) == label(o.name, n));
    REQUIRE(s.group[n] == n);
    REQUIRE(s.after[n].size() == o.follows.size());
    for (std::size_t i = 0; i < o.follows.size(); ++i) REQUIRE(p.ops[s.after[n][i]].get() == o.follows[i]);
    bool const copied = o.cheap && o.follows.empty() && std::ranges::all_of(o.in, is_everywhere);
    for (auto const& v : o.out) everywhere[v] = copied;
    REQUIRE((s.replicable[n] != 0) == copied);
    REQUIRE(s.weight[n] == (copied ? 0 : o.cost));
  }
  REQUIRE(names<Index>(s, s.inputs) == p.inputs);
  REQUIRE(names<Index>(s, s.state) == p.weights);
  REQUIRE(names<Index>(s, s.outputs) == p.outputs);
  for (std::size_t v = 0; v < s.values(); ++v) {
    auto const& name = s.value[v];
    bool const made = producer.contains(name), passed = std::ranges::count(p.inputs, name) != 0;
    bool const held = std::ranges::count(p.weights, name) != 0;
    REQUIRE(s.producer[v] == (made ? static_cast<Index>(producer[name]) : none<Index>));
    REQUIRE(s.from[v] == (made     ? source::node
                          : passed ? source::input
                          : held   ? source::state
                                   : source::constant));
    REQUIRE(std::ranges::equal(s.users[v], users[name]));
    REQUIRE(s.bytes[v] == name.size());
    REQUIRE(s.latest[s.slot[v]] == v);
    REQUIRE(s.find_slot(name) == s.slot[v]);
  }
  REQUIRE(s.find_slot("nobody's") == none<Index>);
}

/// `count` nodes, each with `reads` operands and `makes` results.
struct wide {
  int count, reads, makes;
  auto nodes() const { return std::views::iota(0, count); }
  std::vector<int> operands(int) const { return std::vector(static_cast<std::size_t>(reads), -1); }
  auto results(int n) const { return std::views::iota(n * makes, (n + 1) * makes); }
};

}  // namespace

TEST_CASE("snapshot_of: the arrays describe the same program as its names do, for each index width") {
  testing::rng r(1);
  for (int i = 0; i < 300; ++i) {
    auto p = testing::random_program(r, r.below(15));
    for (auto const& o : p.ops)
      if (r.one_in(5)) o->in.push_back("constant " + std::to_string(r.below(3)));
    check_against<std::uint8_t>(p);
    check_against<std::uint32_t>(p);
    check_against<std::uint64_t>(p);
  }
}

TEST_CASE("snapshot_of: accepts as many nodes, values and operands as the index type can number") {
  auto const fits = [](wide const& g) {
    try {
      return snapshot_of<std::uint8_t>(g).nodes() == static_cast<std::size_t>(g.count);
    } catch (index_overflow const&) {
      return false;
    }
  };
  CHECK(fits({255, 0, 0}));
  CHECK(!fits({256, 0, 0}));
  CHECK(fits({2, 127, 0}));
  CHECK(!fits({3, 85, 0}));
  CHECK(fits({2, 0, 127}));
  CHECK(!fits({3, 0, 85}));
}
