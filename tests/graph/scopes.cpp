// SPDX-License-Identifier: MIT
#include "cleave/graph/scopes.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using enum scope_action;
using mark = scope_mark<std::uint32_t>;
using marks = std::vector<std::optional<mark>>;

namespace {

snapshot_arrays nodes(std::size_t count) {
  testing::snapshot_builder b;
  for (std::size_t n = 0; n < count; ++n) b.nodes(1, {}, {1});
  return b.build();
}

std::vector<scope_kind> const kinds = {{"autocast"}, {"mode"}};

basic_scopes<std::uint32_t> read(marks const& m) {
  return scopes_of(nodes(m.size()), kinds, [&](std::size_t n) { return m[n]; });
}

std::optional<unpaired_scope> fault_of(marks const& m) {
  return find_unpaired_scope(nodes(m.size()), kinds, [&](std::size_t n) { return m[n]; });
}

}  // namespace

TEST_CASE("scopes_of: an exit ends the innermost scope of its kind, or the scope that it names") {
  auto const s = read({mark{enter}, mark{enter}, {}, mark{leave, 0, 0}, mark{leave}});
  REQUIRE(s.list.size() == 2);
  CHECK(s.list[0].last == 3);
  CHECK(s.list[1].last == 4);
  CHECK(s.at == std::vector<std::uint32_t>{0, 1, none<std::uint32_t>, 0, 1});
  CHECK(s.is_mark(3));
  CHECK_FALSE(s.is_mark(2));
}

TEST_CASE("scopes_of: a setting lasts until the next mark of its kind or the end of the graph") {
  auto const s = read({mark{set, 1}, {}, mark{enter}, mark{set, 1}, mark{leave}});
  REQUIRE(s.list.size() == 3);
  CHECK(s.list[0].last == 3);
  CHECK(s.list[2].last == none<std::uint32_t>);
}

TEST_CASE("scopes_of: a graph without marks has no scopes") {
  auto const s = read({{}, {}});
  CHECK(s.list.empty());
  CHECK_FALSE(s.is_mark(1));
}

TEST_CASE("find_unpaired_scope: finds unpaired entries and exits, and the error names the node") {
  using enum unpaired_scope::kind;
  CHECK_FALSE(fault_of({mark{enter}, mark{leave}}));
  CHECK(fault_of({{}, mark{enter}}) == unpaired_scope{never_left, 1});
  CHECK(fault_of({{}, mark{leave}}) == unpaired_scope{not_entered, 1});
  CHECK(fault_of({mark{enter}, mark{leave, 0, 0}, mark{leave, 0, 0}}) == unpaired_scope{left_twice, 2});
  CHECK(fault_of({mark{enter}, {}, mark{leave, 0, 1}}) == unpaired_scope{not_entered, 2});
  CHECK(fault_of({mark{enter}, mark{leave, 1}}) == unpaired_scope{not_entered, 1});
  CHECK(fault_of({mark{set, 1}, mark{leave, 1, 0}}) == unpaired_scope{not_entered, 1});
  CHECK(fault_of({mark{leave, 0, 1}, mark{enter}}) == unpaired_scope{not_entered, 0});
  CHECK_THROWS_WITH_AS(read({mark{enter}, {}}), "scope 'autocast': node #0 enters it and no node leaves it",
                       unpaired_scope_error);
  CHECK_THROWS_WITH_AS(read({mark{leave}}),
                       "scope 'autocast': node #0 leaves it, but no earlier node has entered it",
                       unpaired_scope_error);
  CHECK_THROWS_WITH_AS(read({mark{enter}, mark{leave, 0, 0}, mark{leave, 0, 0}}),
                       "scope 'autocast': node #2 leaves it a second time", unpaired_scope_error);
}

TEST_CASE("scopes_of: pairs random brackets as a stack does") {
  testing::rng random(1);
  for (int round = 0; round < 300; ++round) {
    marks m(random.below(20));
    std::vector<std::size_t> stack;
    std::vector<std::optional<std::size_t>> end(m.size());
    bool broken = false;
    for (std::size_t n = 0; n < m.size(); ++n) {
      auto const what = random.below(3);
      if (what == 0) stack.push_back(n), m[n] = mark{enter};
      if (what != 1) continue;
      m[n] = mark{leave};
      if (stack.empty()) broken = true;
      if (broken) continue;
      end[stack.back()] = n;
      stack.pop_back();
    }
    CHECK(fault_of(m).has_value() == (broken || !stack.empty()));
    if (fault_of(m)) continue;
    for (auto const& x : read(m).list) CHECK(end[x.first] == x.last);
  }
}
