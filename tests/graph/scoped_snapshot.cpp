// SPDX-License-Identifier: MIT
#include "cleave/graph/scopes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using enum scope_action;
using mark = scope_mark<std::uint32_t>;
using numbers = std::vector<std::uint32_t>;

namespace {

/// Node 0 enters a scope with the input, node 1 reads the token, node 2 leaves the scope, and node 3 reads
/// the token after it.
snapshot_arrays bracket() {
  testing::snapshot_builder b;
  auto const x = b.input(1);
  auto const token = b.nodes(1, {x}, {1}).front();
  b.nodes(1, {token, x}, {1});
  b.nodes(1, {token}, {1});
  b.nodes(1, {token}, {1});
  return b.build();
}

snapshot_arrays told(snapshot_arrays s, scope_policy policy, std::vector<std::optional<mark>> const& marks) {
  auto const scopes = scopes_of(s, {{"a", policy}, {"b", policy}}, [&](std::size_t n) { return marks[n]; });
  return add_scopes(std::move(s), scopes);
}

numbers operands(snapshot_arrays const& s, std::size_t n) {
  return {s.operands[n].begin(), s.operands[n].end()};
}

}  // namespace

TEST_CASE(
    "add_scopes: a node inside a replicated scope loses the entry's token as operand, one outside keeps it") {
  auto const before = bracket();
  auto const s = told(before, scope_policy::replicate, {mark{enter}, {}, mark{leave}, {}});
  CHECK(operands(s, 1) == numbers{before.inputs[0]});
  CHECK(operands(s, 2).empty());
  CHECK(operands(s, 3) == operands(before, 3));
  CHECK(s.users[s.operands[3].front()].size() == 1);
  CHECK(s.values() == before.values());
}

TEST_CASE("add_scopes: an extended scope keeps its operands and orders the nodes around its marks") {
  auto const before = bracket();
  auto const s = told(before, scope_policy::extend, {{}, mark{enter}, {}, mark{leave}});
  CHECK(operands(s, 1) == operands(before, 1));
  auto const after = [&](std::size_t n) { return numbers(s.after[n].begin(), s.after[n].end()); };
  CHECK(after(0).empty());
  CHECK(after(1) == numbers{0});
  CHECK(after(2) == numbers{1});
  CHECK(after(3) == numbers{1, 2});
}

TEST_CASE("add_scopes: groups forbidden scopes that overlap, and keeps other scopes in separate groups") {
  testing::snapshot_builder b;
  for (int i = 0; i < 10; ++i) b.nodes(1, {}, {1});
  auto const s =
      told(b.build(), scope_policy::forbid,
           {{}, mark{enter}, mark{enter, 1}, mark{leave}, mark{leave, 1}, {}, mark{set}, {}, mark{set}, {}});
  CHECK(s.group == numbers{0, 1, 1, 1, 1, 5, 6, 6, 8, 8});
}

TEST_CASE("add_scopes: rejects a replicated mark that reads the result of a node") {
  testing::snapshot_builder b;
  auto const x = b.nodes(1, {}, {1}).front();
  b.nodes(1, {x}, {1});
  b.nodes(1, {}, {1});
  auto const s = b.build();
  std::vector<std::optional<mark>> const marks = {{}, mark{enter}, mark{leave}};
  CHECK_THROWS_WITH_AS(
      told(s, scope_policy::replicate, marks),
      "scope 'a': node #1 reads a value that another node makes, so it cannot be copied into other stages; "
      "read only inputs and constants, or give the scope the policy forbid or extend",
      scope_operand_error);
  CHECK(told(s, scope_policy::extend, marks).nodes() == 3);
  CHECK(told(s, scope_policy::forbid, marks).group == numbers{0, 1, 1});
}
