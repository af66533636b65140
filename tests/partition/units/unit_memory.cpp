// SPDX-License-Identifier: MIT
#include "cleave/partition/units/units.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using index_type = std::uint32_t;
using memory = cleave::detail::unit_memory<index_type>;

struct sample {
  cleave::snapshot_arrays g;
  cleave::unit_graph<index_type> u;
  std::vector<std::size_t> node_memory;
  memory m;

  explicit sample(cleave::testing::rng& r)
      : g(random_graph(r,
                       {.nodes = r.below(11), .most_operands = 5, .states = 3, .replicable = 5, .tied = 8})),
        u(cleave::detail::units_of(g)),
        node_memory(r.one_in(2) ? g.nodes() : 0) {
    for (auto& bytes : node_memory) bytes = r.below(9);
    m = cleave::detail::memory_of(g, u, node_memory);
  }

  /// The memory of a part with these units by `part_memory`.
  std::size_t held(auto const& units) const {
    cleave::partition p{std::vector(g.nodes(), cleave::no_part), 1};
    for (auto const unit : units)
      for (auto const n : u.members[unit]) p.of[n] = cleave::part_id{0};
    return cleave::part_memory(g, p, node_memory)[0];
  }
};

}  // namespace

TEST_CASE("memory_of: own and shared bytes of any set of units sum to part_memory") {
  cleave::testing::rng r(1);
  std::size_t shared = 0;
  for (int i = 0; i < 100; ++i) {
    sample const x(r);
    shared += x.m.shared.size();
    for (index_type s = 0; s < x.m.shared.size(); ++s)
      REQUIRE(std::ranges::count(x.m.predecessors.item, s) > 1);
    for (std::size_t set = 0; set < std::size_t{1} << x.u.size(); ++set) {
      std::vector<index_type> units;
      std::set<index_type> needed;
      std::size_t bytes = 0;
      for (index_type unit = 0; unit < x.u.size(); ++unit)
        if ((set >> unit & 1) != 0) {
          units.push_back(unit);
          bytes += x.m.own[unit];
          for (auto const s : x.m.predecessors[unit])
            if (needed.insert(s).second) bytes += x.m.shared[s];
        }
      REQUIRE(bytes == x.held(units));
      if (units.size() == 1) REQUIRE(bytes == x.m.alone(units[0]));
      if (units.size() == x.u.size()) REQUIRE(bytes == x.m.total());
    }
  }
  CHECK(shared > 30);
}

TEST_CASE("first_fitting: equals a search over all begins for any order and limit") {
  cleave::testing::rng r(2);
  int too_large = 0;
  for (int i = 0; i < 100; ++i) {
    sample const x(r);
    std::vector<index_type> order(x.u.size());
    std::iota(order.begin(), order.end(), 0u);
    r.shuffle(order);
    for (std::size_t limit = 0; limit <= x.m.total() + 1; limit += 1 + limit / 4) {
      std::vector<index_type> twin{0};
      for (std::size_t end = 1; end <= order.size(); ++end) {
        std::size_t begin = 0;
        while (begin < end && x.held(std::vector(order.begin() + static_cast<std::ptrdiff_t>(begin),
                                                 order.begin() + static_cast<std::ptrdiff_t>(end))) > limit)
          ++begin;
        too_large += begin == end;
        twin.push_back(static_cast<index_type>(begin));
      }
      REQUIRE(cleave::detail::first_fitting<index_type>(x.m, order, limit) == twin);
    }
  }
  CHECK(too_large > 100);
}

TEST_CASE("memory_of: an empty graph needs 0 bytes, and an overflow is an error that names the node") {
  cleave::testing::snapshot_builder b;
  CHECK(cleave::detail::memory_of(b.build(), cleave::detail::units_of(b.build())).total() == 0);
  auto const most = std::numeric_limits<std::size_t>::max();
  b.node(1, {b.state(most - 5)});
  b.node(1);
  b.replicable();
  auto const g = b.build();
  std::vector<std::size_t> bytes{5, most};  // a replicable node is in no part
  CHECK(cleave::detail::memory_of(g, cleave::detail::units_of(g), bytes).total() == most);
  bytes[0] = 6;
  CHECK_THROWS_WITH_AS(cleave::detail::memory_of(g, cleave::detail::units_of(g), bytes),
                       doctest::Contains("node #0"), cleave::detail::overflow_error);
}
