// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/module_buckets.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/model.hpp"
using namespace cleave;
using testing::layers;

TEST_CASE("report_of: numbers buckets from the tail and omits those without counted bytes") {
  auto m = layers(2, 10);
  auto const buckets = fill_buckets(m.g, m.parameters, {.caps = {.cap = 10}});
  auto const r = report_of(buckets);
  CHECK(r.rows == std::vector<bucket_row>{{0, 10, {"layers.1_p0"}}, {1, 10, {"layers.0_p0"}}});
  CHECK(r.extended.empty());
  for (auto& p : m.parameters.list) p.ignored = true;
  CHECK(report_of(fill_buckets(m.g, m.parameters, {.caps = {.cap = 0}})).rows.empty());
}

TEST_CASE("report_of: lists a tail bucket that could not close, with the bytes it grew by") {
  testing::model m;
  m.module("a", {m.parameter({.bytes = 40})});
  m.module("dead", {m.parameter({.bytes = 40})});
  auto const a = m.call("a", {m.placeholder("x")});
  m.call("dead", {a});
  m.give({a});
  auto const buckets = fill_buckets(m.g, m.parameters, {.caps = {.cap = 40}});
  CHECK(buckets.size() == 1);
  CHECK(report_of(buckets).extended == std::vector<extended_bucket>{{0, 1, 40}});
}
