// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_buckets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "support/integer_interpretation.hpp"
#include "support/model.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using testing::layers;

std::vector<testing::integer_value> inputs_of(module_graph const& g) {
  std::vector<testing::integer_value> inputs;
  for (auto const n : g.inputs()) inputs.push_back(testing::integer_value::computed(testing::mix(n + 1)));
  return inputs;
}

}  // namespace

TEST_CASE("split_at_buckets: the split computes the same as the whole graph and keeps program order") {
  testing::rng random(1);
  for (int round = 0; round < 150; ++round) {
    auto const g = testing::random_module_graph(random, random.below(25));
    model_parameters p;
    for (auto const& a : g.attributes())
      if (a.what == module_attribute::kind::module) {
        p.modules.push_back({a.path, a.path, {{"w", static_cast<std::uint32_t>(p.list.size())}}});
        p.list.push_back({.bytes = random.below(10)});
      }
    auto const cut = split_at_buckets(g, p, {.caps = {.cap = random.below(20)}});
    CHECK(cut.split.has_value() == (cut.buckets.size() > 1));
    if (!cut.split) continue;
    testing::integer_interpretation meaning;
    CHECK(evaluate(cut.split->outer, inputs_of(g), meaning) == evaluate(g, inputs_of(g), meaning));
    std::vector<module_graph::position> ran;
    for (auto const i : cut.split->order)
      for (auto const n : cut.split->pieces[i].nodes) ran.push_back(n);
    CHECK(std::ranges::is_sorted(ran));
    for (auto const& piece : cut.split->pieces) {
      auto const& nodes = cut.buckets[std::stoul(piece.label)].nodes;
      for (auto const n : piece.nodes) CHECK(std::ranges::find(nodes, n) != nodes.end());
    }
  }
}

TEST_CASE("split_at_buckets: returns no split for a single bucket") {
  auto const m = layers(3, 10);
  auto const cut = split_at_buckets(m.g, m.parameters, {.caps = {.cap = 1000}});
  CHECK(cut.buckets.size() == 1);
  CHECK(!cut.split);
}

TEST_CASE("split_at_buckets: reverses independent parts only if torch's order is asked for") {
  testing::model m;
  auto const x = m.placeholder("x");
  std::vector<module_graph::position> towers;
  for (auto const* path : {"a", "b", "c"}) {
    m.module(path, {m.parameter({.bytes = 8})});
    towers.push_back(m.call(path, {x}));
  }
  m.give(towers);
  module_bucket_options const o{.caps = {.cap = 8}};
  CHECK(split_at_buckets(m.g, m.parameters, o).split->order == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(split_at_buckets(m.g, m.parameters, o, order::upstream).split->order ==
        std::vector<std::uint32_t>{2, 1, 0});
}

TEST_CASE("split_at_buckets: makes no piece for a bucket that has only attributes") {
  testing::model m;
  auto const w = m.attribute("w", m.parameter({.bytes = 8}));
  auto const x = m.placeholder("x");
  m.module("a", {m.parameter({.bytes = 8})});
  m.give({m.function("mm", {m.call("a", {x}), w})});
  auto const cut =
      split_at_buckets(m.g, m.parameters, {{.cap = 8}, parameter_counting::torch_2_15}, order::upstream);
  CHECK(cut.buckets.size() == 2);
  CHECK(cut.buckets[0].nodes == std::vector<module_graph::position>{w});
  REQUIRE(cut.split);
  CHECK(cut.split->pieces.size() == 1);
  CHECK(cut.split->pieces[0].path == "submod_1");
}

TEST_CASE("split_at_buckets: rejects a call that is in no bucket or in two") {
  auto const m = layers(2, 10);
  auto buckets = fill_buckets(m.g, m.parameters, {.caps = {.cap = 10}});
  CHECK(!find_misplaced_call(m.g, buckets));
  auto twice = buckets;
  twice[0].nodes.push_back(twice[1].nodes.front());
  CHECK_THROWS_AS(split_at_buckets(m.g, twice), bucket_assignment_error);
  auto missing = buckets;
  auto const lost = missing[1].nodes.back();
  missing[1].nodes.pop_back();
  CHECK_THROWS_WITH_AS(split_at_buckets(m.g, missing), doctest::Contains(m.g[lost].name.c_str()),
                       bucket_assignment_error);
  missing[1].nodes.push_back(1000);
  CHECK(find_misplaced_call(m.g, missing) == 1000);
  CHECK_THROWS_AS(split_at_buckets(m.g, missing), bucket_assignment_error);
}
