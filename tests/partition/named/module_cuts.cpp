// SPDX-License-Identifier: MIT
#include "cleave/partition/named/cut_points.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::cut_kind;
using cleave::module_cut;
using cleave::module_side;
using cleave::unknown_module_error;
using cleave::detail::module_of_call;

using calls = std::vector<std::vector<std::string>>;

cleave::snapshot_arrays chain(std::size_t nodes) {
  cleave::testing::snapshot_builder b;
  auto v = b.input();
  for (std::size_t n = 0; n < nodes; ++n) v = b.node(1, {v});
  return b.build();
}

cleave::cut_list cuts_in(calls const& inside, std::vector<module_cut> const& cuts,
                         std::vector<std::string> const& modules = {}) {
  return cuts_at_modules(
      chain(inside.size()), cuts, [&](std::size_t n) -> auto const& { return inside[n]; }, modules);
}

std::vector<std::size_t> places(cleave::cut_list const& list) {
  std::vector<std::size_t> at;
  for (auto const& c : list.points) at.push_back(c.before);
  return at;
}

calls const net{
    {"layers", "layers.0"}, {"layers", "layers.0"}, {"layers", "layers.1"}, {}, {"head"}, {"head@1"}};

struct placed_nodes {
  std::vector<std::string> paths;

  std::vector<int> nodes() const {
    std::vector<int> list;
    for (std::size_t n = 0; n < paths.size(); ++n) list.push_back(static_cast<int>(n));
    return list;
  }
  std::vector<int> operands(int) const { return {}; }
  std::string_view path(int n) const { return paths[static_cast<std::size_t>(n)]; }
};

}  // namespace

TEST_CASE("cuts_at_modules: cuts before the first or after the last node of each call") {
  CHECK(places(cuts_in(net, {{"layers.1"}})) == std::vector<std::size_t>{2});
  CHECK(places(cuts_in(net, {{"layers.0", module_side::end}})) == std::vector<std::size_t>{2});
  CHECK(places(cuts_in(net, {{"layers", module_side::end}})) == std::vector<std::size_t>{3});
  CHECK(places(cuts_in(net, {{"head"}})) == std::vector<std::size_t>{4, 5});
  CHECK(places(cuts_in(net, {{"head", module_side::end}})) == std::vector<std::size_t>{5, 6});
  auto const both = cuts_in(net, {{"head", module_side::end}, {"layers"}});
  CHECK(both.points.back() == cleave::cut_point{cut_kind::module_begin, 0, 1});
}

TEST_CASE("cuts_at_modules: reports a module without nodes as idle and does not cut there") {
  auto const list = cuts_in(net, {{"spare"}}, {"layers", "spare"});
  CHECK(list.points.empty());
  CHECK(list.idle ==
        std::vector<cleave::idle_cut>{{cut_kind::module_begin, 0, cleave::idle_reason::never_called}});
}

TEST_CASE("cuts_at_modules: rejects an unknown path and suggests near ones") {
  CHECK_THROWS_WITH_AS(cuts_in(net, {{"head"}, {"layers.2"}}),
                       "cut #1: there is no module 'layers.2'; nearest: 'layers.0', 'layers.1', 'layers'",
                       unknown_module_error);
  CHECK_THROWS_AS(cuts_in(net, {{""}}), unknown_module_error);
  CHECK_THROWS_AS(cuts_in({}, {{"a"}}), unknown_module_error);
  try {
    cuts_in(net, {{"head"}, {"x"}});
  } catch (unknown_module_error const& e) {
    CHECK(e.witness == 1);
  }
  CHECK(cleave::detail::find_unknown_module({{"a"}, {"b"}}, {"a"}) == 1);
  CHECK_FALSE(cleave::detail::find_unknown_module({{"a"}}, {"b", "a"}));
}

TEST_CASE("module_of_call: only digits after the last @ are a call number") {
  CHECK(module_of_call("a.b@12") == "a.b");
  CHECK(module_of_call("a@b") == "a@b");
  CHECK(module_of_call("a@") == "a@");
  CHECK(module_of_call("user@1@2") == "user@1");
  CHECK(module_of_call("") == "");
}

TEST_CASE("module_side_of: accepts only `begin` and `end`") {
  CHECK(cleave::detail::module_side_of("begin") == module_side::begin);
  CHECK(cleave::detail::module_side_of("end") == module_side::end);
  CHECK_THROWS_WITH_AS(cleave::detail::module_side_of("middle"),
                       "unknown side of a module 'middle'; use 'begin' or 'end'", cleave::error);
}

TEST_CASE("cuts_at_modules: a node with a path is inside all modules along it") {
  placed_nodes const g{{"", "stem", "body.0", "body.0.norm", "body.1", "head"}};
  auto const s = cleave::snapshot_of(g);
  CHECK(places(cuts_at_modules(g, s, {{"body.0", module_side::end}, {"body"}})) ==
        std::vector<std::size_t>{4, 2});
  CHECK_THROWS_AS(cuts_at_modules(g, s, {{"norm"}}), unknown_module_error);
}

TEST_CASE("cuts_at_modules: random calls are cut where a plain scan cuts them") {
  cleave::testing::rng r(3);
  for (int round = 0; round < 500; ++round) {
    calls inside(1 + r.below(10));
    for (auto& list : inside)
      for (auto depth = r.below(3); depth-- > 0;)
        list.push_back(std::string(1, static_cast<char>('a' + r.below(3))) + (r.one_in(2) ? "@1" : ""));
    for (auto const& path : std::vector<std::string>{"a", "b", "c"})
      for (auto const side : {module_side::begin, module_side::end}) {
        std::vector<std::size_t> expected;
        for (auto const& call : {path, path + "@1"}) {
          std::vector<std::size_t> in;
          for (std::size_t n = 0; n < inside.size(); ++n)
            if (std::ranges::find(inside[n], call) != inside[n].end()) in.push_back(n);
          if (!in.empty()) expected.push_back(side == module_side::begin ? in.front() : in.back() + 1);
        }
        auto got = places(cuts_in(inside, {{path, side}}, {"a", "b", "c"}));
        std::ranges::sort(got);
        std::ranges::sort(expected);
        CHECK(got == expected);
      }
  }
}
