// SPDX-License-Identifier: MIT
#include "cleave/run/batch/take_microbatches.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/batch_leaf.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::batch_leaf, testing::counting, testing::leaf_rules, testing::leaf_values;

namespace {

testing::batch_leaf_access const access;
using batch = batch_values<batch_leaf>;

batch of(leaf_values x) { return {.arguments = leaf_values::tuple({std::move(x)})}; }

std::string fault(std::vector<batch> const& given, std::int64_t expected,
                  batch_rules<batch_leaf> const& r = {}) {
  auto const f = find_microbatch_fault(access, given, expected, r);
  REQUIRE(f);
  CHECK_THROWS_WITH_AS(take_microbatches(access, given, expected, r),
                       ("take_microbatches: " + describe(*f)).c_str(), microbatch_error);
  return describe(*f);
}

}  // namespace

TEST_CASE("take_microbatches: accepts the output of split_batch unchanged") {
  testing::rng r(8);
  for (int round = 0; round < 100; ++round) {
    auto const x = testing::random_ruled_values(r, 3);
    auto const split = split_batch(access, of(x.value), {.arguments = leaf_rules::tuple({x.rule})},
                                   {.microbatches = static_cast<std::int64_t>(1 + r.below(4))});
    auto const taken =
        take_microbatches(access, split.values, static_cast<std::int64_t>(split.values.size()), split.rules);
    REQUIRE(taken.values == split.values);
    REQUIRE(taken.rules == split.rules);
    // Values with equal row counts in every microbatch may have different row counts in the whole.
    if (!split.rows.empty()) REQUIRE(taken.rows == split.rows);
  }
}

TEST_CASE("take_microbatches: accepts any row counts and returns them") {
  auto const taken = take_microbatches(access, std::vector{of(counting({1})), of(counting({5}))}, 2);
  CHECK(taken.rows == std::vector<std::int64_t>{1, 5});
  CHECK_FALSE(taken.limit);
}

TEST_CASE("take_microbatches: each fault names the microbatch and the place") {
  auto const x = of(counting({2}));
  CHECK(fault({x, x}, 0) == "0 microbatches are asked for; ask for 1 to 4294967294");
  CHECK(fault({x}, 2) == "1 microbatches are given, but 2 are needed; give exactly that many");
  CHECK(fault({}, 1) == "0 microbatches are given, but 1 are needed; give exactly that many");
  CHECK(
      fault({x, {.arguments = leaf_values(std::int64_t{1})}}, 2) ==
      "arguments is a tuple of 1 in microbatch 0, but a single value in microbatch 1; all microbatches must "
      "nest alike");
  CHECK(fault({{.arguments = leaf_values(std::int64_t{1})}}, 1) ==
        "arguments is neither a tuple nor a list; pass positional arguments as a tuple");
  CHECK(fault({{.keywords = leaf_values::list({})}}, 1) ==
        "keywords is not a dict; pass keyword arguments as a dict");
  CHECK(fault({x, {.arguments = x.arguments, .keywords = leaf_values::dict({{"y", std::int64_t{1}}})}}, 2) ==
        "keywords['y'] is in microbatch 1, but not in microbatch 0; all microbatches must nest alike");
  CHECK(fault({x, {.arguments = x.arguments, .target = leaf_values(std::int64_t{1})}}, 2) ==
        "target is in microbatch 1, but not in microbatch 0; all microbatches must nest alike");
  CHECK(fault({x, of(std::int64_t{1})}, 2, {.arguments = leaf_rules::tuple({leaf_rules(rule_along{})})}) ==
        "arguments[0] has no axes in microbatch 1, so it cannot be split or merged along axis 0; use "
        "rule_replicate or rule_reduce");
  CHECK(fault({x, of(counting({0}))}, 2) ==
        "arguments[0] has no rows along axis 0; skip the empty batch, or replicate the value");
}
