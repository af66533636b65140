// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/module_buckets.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/model.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using testing::layers;

std::vector<std::size_t> sizes(std::vector<module_bucket> const& buckets) {
  std::vector<std::size_t> bytes;
  for (auto const& b : buckets) bytes.push_back(b.bytes);
  return bytes;
}

}  // namespace

TEST_CASE("fill_buckets: a layer as large as the cap gets its own bucket, with the calls that follow it") {
  auto const m = layers(3, 100);
  auto const buckets = fill_buckets(m.g, m.parameters, {.caps = {.cap = 100}});
  CHECK(sizes(buckets) == std::vector<std::size_t>{100, 100, 100});
  CHECK(buckets[0].nodes == std::vector<module_graph::position>{2, 1});
  CHECK(buckets[2].counted == std::vector<counted_parameter>{{"layers.2_p0", 2, 100}});
}

TEST_CASE("fill_buckets: each call and attribute is in exactly one bucket under every counting rule") {
  testing::rng random(1);
  for (int round = 0; round < 150; ++round) {
    auto const g = testing::random_module_graph(random, random.below(25));
    model_parameters p;
    for (auto const& a : g.attributes()) {
      auto const number = static_cast<std::uint32_t>(p.list.size());
      p.list.push_back({.bytes = random.below(10)});
      if (a.what == module_attribute::kind::module)
        p.modules.push_back({a.path, a.path, {{"w", number}}});
      else
        p.attributes.push_back({a.path, number});
    }
    for (auto const rule : {parameter_counting::each_once, parameter_counting::torch_2_15}) {
      auto const buckets = fill_buckets(g, p, {{.cap = random.below(20)}, rule});
      std::vector<int> times(g.list().size());
      for (auto const& b : buckets) {
        for (auto const n : b.nodes) ++times[n];
        std::size_t bytes = 0;
        for (auto const& c : b.counted) bytes += c.bytes;
        CHECK(bytes == b.bytes);
      }
      for (module_graph::position n = 0; n < times.size(); ++n)
        CHECK(times[n] == (module_graph::is_call(g[n]) || g[n].kind == node_kind::get_attr ? 1 : 0));
    }
  }
}

TEST_CASE("fill_buckets: rejects an unknown parameter, a higher-order body and a first_cap above the cap") {
  auto m = layers(2, 10);
  m.parameters.modules[1].holds[0].parameter = 9;
  CHECK_THROWS_WITH_AS(fill_buckets(m.g, m.parameters), doctest::Contains("'layers.1.p0'"), parameter_error);
  testing::model h;
  h.module("body", {});
  auto const x = h.placeholder("x");
  auto const body = h.add(node_kind::get_attr, "body", "body", {});
  h.give({h.function("cond", {body, x})});
  CHECK_THROWS_WITH_AS(fill_buckets(h.g, h.parameters, {.counting = parameter_counting::torch_2_3}),
                       doctest::Contains("reads the module 'body'"), higher_order_error);
  CHECK_THROWS_AS(fill_buckets(m.g, {}, {.caps = {.cap = 1, .first_cap = 2}}), error);
}
