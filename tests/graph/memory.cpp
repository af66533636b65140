// SPDX-License-Identifier: MIT
#include "cleave/graph/memory.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <ranges>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using list = std::vector<int>;

/// Operations on handles, each of which lies in some storage.
struct tape {
  struct op {
    list reads, makes, writes;
  };
  std::vector<op> ops;
  list storages, arguments, held, returned;

  auto nodes() const { return std::views::iota(std::size_t{}, ops.size()); }
  list const& operands(std::size_t n) const { return ops[n].reads; }
  list const& results(std::size_t n) const { return ops[n].makes; }
  list const& overwrites(std::size_t n) const { return ops[n].writes; }
  int storage(int v) const { return storages[static_cast<std::size_t>(v)]; }
  list const& inputs() const { return arguments; }
  list const& outputs() const { return returned; }
  list const& state() const { return held; }
};
static_assert(aliasing_graph<tape> && stateful_graph<tape>);

tape random_tape(testing::rng& r) {
  tape g;
  auto const handle = [&](int storage) {
    g.storages.push_back(storage);
    return static_cast<int>(g.storages.size()) - 1;
  };
  auto const any = [&] { return static_cast<int>(r.below(g.storages.size())); };
  for (int i = 0; i < 6; ++i) handle(static_cast<int>(r.below(5)));  // arguments or constants
  g.arguments = {0, 1};
  g.held = {2};
  for (auto n = r.below(8); n-- > 0;) {
    auto& o = g.ops.emplace_back();
    for (auto count = r.below(3); count-- > 0;) o.reads.push_back(any());
    for (auto count = r.one_in(2) ? r.below(3) : 0; count-- > 0;) o.writes.push_back(any());
    for (auto count = r.below(3); count-- > 0;)
      o.makes.push_back(handle(r.one_in(3) ? g.storage(any()) : 100 + any()));
  }
  return g;
}

/// Computes the cell of one storage by a walk over the whole tape.
memory_cell<int> definition(tape const& g, int storage) {
  memory_cell<int> cell;
  list made;
  auto const meet = [&](int v) {
    if (g.storage(v) != storage) return;
    cell.known = true;
    if (std::ranges::count(made, v) == 0 && std::ranges::count(cell.outside, v) == 0)
      cell.outside.push_back(v);
  };
  std::ranges::for_each(g.arguments, meet);
  std::ranges::for_each(g.held, meet);
  for (auto const& o : g.ops) {
    std::ranges::for_each(o.reads, meet);
    std::ranges::for_each(o.writes, meet);
    bool const writes = std::ranges::any_of(o.writes, [&](int v) { return g.storage(v) == storage; });
    cell.written |= writes;
    for (auto const v : o.makes) {
      if (g.storage(v) != storage) continue;
      cell.viewed |= cell.known && !writes;
      cell.known = true;
      made.push_back(v);
    }
  }
  cell.viewed |= cell.outside.size() > 1;
  return cell;
}

memory_cell<int> cell_of(tape const& g, int v) {
  memory<tape> m(g);
  return m.cell(m.number(v));
}

}  // namespace

TEST_CASE("memory: classifies each storage as a walk over the whole graph does") {
  testing::rng r(1);
  int versioned = 0, shared = 0;
  for (int i = 0; i < 500; ++i) {
    auto const g = random_tape(r);
    memory<tape> m(g);
    for (int v = 0; v < static_cast<int>(g.storages.size()); ++v) {
      auto const& cell = m.cell(m.number(v));
      auto const twin = definition(g, g.storage(v));
      REQUIRE(cell.written == twin.written);
      REQUIRE(cell.viewed == twin.viewed);
      REQUIRE(cell.known == twin.known);
      REQUIRE(cell.outside == twin.outside);
      REQUIRE(m.number(v) < m.cells());
      for (int u = 0; u < v; ++u) REQUIRE((m.number(u) == m.number(v)) == (g.storage(u) == g.storage(v)));
      versioned += cell.versioned();
      shared += cell.shared();
      REQUIRE(!(cell.versioned() && cell.shared()));
    }
  }
  CHECK(versioned > 100);
  CHECK(shared > 100);
}

TEST_CASE("memory: writes through successive handles make versions, a write through a view makes it shared") {
  // handles 0 and 1 lie in storage 0; node 0 makes handle 0, node 1 writes it
  tape g{{{{}, {0}, {}}, {{}, {}, {0}}}, {0, 0}, {}, {}, {}};
  CHECK(cell_of(g, 0).versioned());
  g.ops[1].makes = {1};  // under a new handle
  CHECK(cell_of(g, 0).versioned());
  g.ops[1] = {{0}, {1}, {}};  // a view that no node writes
  CHECK(cell_of(g, 0).viewed);
  CHECK(!cell_of(g, 0).shared());
  g.ops.push_back({{}, {}, {1}});  // written through the view
  CHECK(cell_of(g, 0).shared());
}

TEST_CASE("memory: two handles from outside make it shared, an input that is read twice does not") {
  tape const twice{{{{0, 0}, {}, {0}}}, {0, 0}, {0}, {}, {}};
  CHECK(cell_of(twice, 0).versioned());
  CHECK(cell_of(twice, 0).outside == list{0});
  tape const two{{{{1}, {}, {0}}}, {0, 0}, {0}, {1}, {}};
  CHECK(cell_of(two, 0).shared());
  CHECK(cell_of(two, 0).outside == list{0, 1});
}
