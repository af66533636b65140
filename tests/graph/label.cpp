// SPDX-License-Identifier: MIT
#include "cleave/graph/label.hpp"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "support/snapshot_builder.hpp"

using namespace cleave;

namespace {

/// A graph of one node, whose name has type `Name`.
template <class Name>
struct called {
  Name text;
  static std::vector<int> nodes() { return {4}; }
  static std::vector<int> operands(int) { return {}; }
  Name name(int) const { return text; }
};
struct nameless {
  static std::vector<int> nodes() { return {4}; }
  static std::vector<int> operands(int) { return {}; }
};
static_assert(named_graph<called<std::string>> && named_graph<called<char const*>> && !named_graph<nameless>);

}  // namespace

TEST_CASE("label: shows the name and the position, or the position alone if there is no name") {
  CHECK(label("conv1", 4) == "conv1 (#4)");
  CHECK(label("", 0) == "#0");
  CHECK(label("#1", 2) == "#1 (#2)");
}

TEST_CASE("label: is short, printable and on one line for any name") {
  CHECK(label("a\nb\x1b[31m\xff", 7) == "a\\x0ab\\x1b[31m\\xff (#7)");
  auto const text = label(std::string(1'000'000, 'x') + "end", 123'456'789);
  CHECK(text.size() < 110);
  CHECK(text.ends_with("end (#123456789)"));
}

TEST_CASE("label: takes the name that the graph returns by value, by reference or as a C string") {
  std::string const longer(40, 'y');  // longer than the small-string buffer
  CHECK(label(called<std::string>{longer}, 4, 9) == longer + " (#9)");
  CHECK(label(called<std::string const&>{longer}, 4, 9) == longer + " (#9)");
  CHECK(label(called<char const*>{"relu"}, 4, 9) == "relu (#9)");
  CHECK(label(called<std::string_view>{""}, 4, 9) == "#9");
  CHECK(label(nameless(), 4, 9) == "#9");
}

TEST_CASE("label: a snapshot labels its nodes the same way, also without names") {
  testing::snapshot_builder b;
  b.node(1);
  b.name("conv1");
  b.node(1);
  auto g = b.build();
  CHECK(g.label(0) == "conv1 (#0)");
  CHECK(g.label(1) == "#1");
  g.name = {};
  CHECK(g.label(0) == "#0");
}
