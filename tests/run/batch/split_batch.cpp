// SPDX-License-Identifier: MIT
#include "cleave/run/batch/split_batch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/run/batch/merge_microbatches.hpp"
#include "support/batch_leaf.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::batch_leaf, testing::counting, testing::leaf_rules, testing::leaf_values, testing::tensor;

namespace {

testing::batch_leaf_access const access;
using batch = batch_values<batch_leaf>;
using batch_rule_list = batch_rules<batch_leaf>;

batch_leaf keep_first(batch_leaf a, batch_leaf const&) { return a; }

/// The description of the fault, or "nothing".
std::string fault(batch const& b, batch_rule_list const& r = {}, split_batch_options const& o = {}) {
  auto const f = find_batch_fault(access, b, r, o);
  if (!f) {
    CHECK_NOTHROW(split_batch(access, b, r, o));
    return "nothing";
  }
  CHECK_THROWS_WITH_AS(split_batch(access, b, r, o), ("split_batch: " + describe(*f)).c_str(),
                       microbatch_error);
  CHECK_THROWS_WITH_AS(mask_batch(access, b, r, o), ("mask_batch: " + describe(*f)).c_str(),
                       microbatch_error);
  return describe(*f);
}

batch of(leaf_values x) { return {.arguments = leaf_values::tuple({std::move(x)})}; }
batch_rule_list by(testing::leaf_rule r) {
  return {.arguments = leaf_rules::tuple({leaf_rules(std::move(r))})};
}

std::vector<leaf_values> trees(microbatch_list<batch_leaf> const& list, leaf_values batch::* which) {
  std::vector<leaf_values> all;
  for (auto const& m : list.values) all.push_back(m.*which);
  return all;
}

}  // namespace

// A number or nullptr is not a rule, which the compiler rejects.
static_assert(!std::constructible_from<testing::leaf_rule, int>);
static_assert(!std::constructible_from<testing::leaf_rule, std::nullptr_t>);

TEST_CASE("split_batch: merging by the returned rules restores the batch") {
  testing::rng r(5);
  std::size_t divided = 0, short_ones = 0;
  for (int round = 0; round < 400; ++round) {
    auto const a = testing::random_ruled_values(r, 3), b = testing::random_ruled_values(r, 3),
               t = testing::random_ruled_values(r, 2);
    batch const whole{leaf_values::tuple({a.value}), leaf_values::dict({{"b", b.value}}), t.value};
    batch_rule_list const rule{leaf_rules::tuple({a.rule}), leaf_rules::dict({{"b", b.rule}}), t.rule};
    auto const asked = static_cast<std::int64_t>(1 + r.below(5));
    for (bool const masked : {false, true}) {
      auto const made = masked ? mask_batch(access, whole, rule, {.microbatches = asked})
                               : split_batch(access, whole, rule, {.microbatches = asked});
      auto const back = [&](std::vector<leaf_values> const& parts, batch_rule_list::tree const& how) {
        return masked ? merge_masked(access, parts, how) : merge_microbatches(access, parts, how);
      };
      std::vector<leaf_values> targets;
      for (auto const& m : made.values) targets.push_back(*m.target);
      REQUIRE(back(trees(made, &batch::arguments), made.rules.arguments) == whole.arguments);
      REQUIRE(back(trees(made, &batch::keywords), made.rules.keywords) == whole.keywords);
      REQUIRE(back(targets, made.rules.target) == *whole.target);
      REQUIRE(made.limit.has_value() == (static_cast<std::int64_t>(made.values.size()) < asked));
      if (!made.rows.empty()) REQUIRE(made.rows.size() == made.values.size());
      divided += made.values.size() > 1;
      short_ones += made.limit.has_value();
    }
  }
  CHECK(divided > 100);
  CHECK(short_ones > 100);
}

TEST_CASE("split_batch: the shortest divided value limits the number of microbatches and is reported") {
  batch const b{leaf_values::tuple({counting({5}), counting({1})}),
                leaf_values::dict({{"y", counting({2, 3})}})};
  batch_rule_list const r{.arguments =
                              leaf_rules::tuple({leaf_rules(rule_along{}), leaf_rules(rule_replicate{})})};
  auto const made = split_batch(access, b, r, {.microbatches = 4});
  REQUIRE(made.values.size() == 2);
  CHECK(made.limit == microbatch_limit{"keywords['y']", 2});
  CHECK(made.rows.empty());  // 5 rows in one value, 2 in the other
  CHECK(made.values[0].arguments == leaf_values::tuple({counting({3}), counting({1})}));
  CHECK(made.values[1].arguments == leaf_values::tuple({counting({2}, 3), counting({1})}));
  CHECK(made.values[1].keywords == leaf_values::dict({{"y", counting({1, 3}, 3)}}));
  CHECK_FALSE(split_batch(access, b, r, {.microbatches = 2}).limit);
}

TEST_CASE("split_batch: few_rows::refuse rejects a value with too few rows") {
  using enum split_batch_options::few_rows;
  CHECK(
      fault(of(counting({2})), {}, {.microbatches = 4, .when_few_rows = refuse}) ==
      "arguments[0] has only 2 rows along axis 0, but 4 microbatches are needed; ask for fewer, or replicate "
      "the value");
  CHECK(fault(of(counting({4})), {}, {.microbatches = 4, .when_few_rows = refuse}) == "nothing");
}

TEST_CASE("split_batch: makes the requested number of microbatches if nothing is divided") {
  batch const b{.arguments = leaf_values::tuple({std::int64_t{3}, std::string("s"), std::monostate()})};
  auto const made = split_batch(access, b, {}, {.microbatches = 3});
  CHECK(made.values == std::vector<batch>{b, b, b});
  CHECK(made.rows.empty());
  CHECK(split_batch(access, batch(), {}, {.microbatches = 2}).values == std::vector<batch>(2));
}

TEST_CASE("split_batch: copies a tensor without axes to every microbatch by default") {
  batch const b{.arguments = leaf_values::tuple({counting({4}), counting({}, 9)})};
  auto const made = split_batch(access, b, {}, {.microbatches = 2});
  REQUIRE(made.values.size() == 2);
  for (auto const& m : made.values) CHECK(std::get<tensor>(m.arguments.leaves()[1]) == counting({}, 9));
  CHECK(made.rows == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("split_batch: applies keyword rules by name") {
  batch const b{.keywords = leaf_values::dict({{"y", counting({2, 4})}, {"z", counting({4, 2})}})};
  batch_rule_list const r{
      .keywords = leaf_rules::dict({{"z", leaf_rules(rule_along{0})}, {"y", leaf_rules(rule_along{1})}})};
  auto const made = split_batch(access, b, r, {.microbatches = 2});
  auto const& second = made.values[1].keywords;
  CHECK(second.shape()[1].key == "y");
  CHECK(second.leaves() ==
        std::vector<batch_leaf>{tensor{{2, 2}, {2, 3, 6, 7}}, tensor{{2, 2}, {4, 5, 6, 7}}});
}

TEST_CASE("split_batch: single_row::is_for_all gives a one-row value to every microbatch") {
  using enum rule_along::single_row;
  batch const b{.arguments = leaf_values::tuple({counting({4}), counting({1, 3})})};
  auto const rule = [](rule_along::single_row one) {
    return batch_rule_list{.arguments = leaf_rules::tuple(
                               {leaf_rules(rule_along{}), leaf_rules(rule_along{.axis = 0, .single = one})})};
  };
  CHECK(split_batch(access, b, rule(limits), {.microbatches = 4}).limit ==
        microbatch_limit{"arguments[1]", 1});
  auto const made = split_batch(access, b, rule(is_for_all), {.microbatches = 4});
  REQUIRE(made.values.size() == 4);
  for (auto const& m : made.values) CHECK(std::get<tensor>(m.arguments.leaves()[1]) == counting({1, 3}));
  CHECK(made.rows == std::vector<std::int64_t>{1, 1, 1, 1});
}

TEST_CASE("mask_batch: keeps the whole shape and zeros rows outside the microbatch") {
  auto const made =
      mask_batch(access, of(tensor{{2, 3}, {1, 2, 3, 4, 5, 6}}), by(rule_along{-1}), {.microbatches = 2});
  REQUIRE(made.values.size() == 2);
  CHECK(std::get<tensor>(made.values[0].arguments.leaves()[0]) == tensor{{2, 3}, {1, 2, 0, 4, 5, 0}});
  CHECK(std::get<tensor>(made.values[1].arguments.leaves()[0]) == tensor{{2, 3}, {0, 0, 3, 0, 0, 6}});
  CHECK(made.rows == std::vector<std::int64_t>{2, 1});
}

TEST_CASE("split_batch: divides the target by its own rules") {
  batch b = of(counting({4}));
  b.target = leaf_values::list({counting({2, 4}), std::int64_t{1}});
  batch_rule_list r;
  r.target = leaf_rules::list({leaf_rules(rule_along{1}), leaf_rules(rule_default{})});
  auto const made = split_batch(access, b, r, {.microbatches = 2});
  CHECK(made.values[1].target == leaf_values::list({tensor{{2, 2}, {2, 3, 6, 7}}, std::int64_t{1}}));
  CHECK(fault(of(counting({4})), r) ==
        "there are rules for target, which is missing; pass it, or remove its rules");
}

TEST_CASE("split_batch: each fault names its place and the remedy") {
  auto const x = of(counting({4, 2}));
  CHECK(fault(x, {}, {.microbatches = 0}) == "0 microbatches are asked for; ask for 1 to 4294967294");
  CHECK(fault(x, {}, {.microbatches = -1}) == "-1 microbatches are asked for; ask for 1 to 4294967294");
  CHECK(fault({.arguments = leaf_values(counting({4}))}) ==
        "arguments is neither a tuple nor a list; pass positional arguments as a tuple");
  CHECK(fault({.keywords = leaf_values::tuple({})}) ==
        "keywords is not a dict; pass keyword arguments as a dict");
  CHECK(fault(x, by(rule_along{2})) == "arguments[0] has no axis 2: its axes are -2 to 1");
  CHECK(fault(x, by(rule_along{-3})) == "arguments[0] has no axis -3: its axes are -2 to 1");
  CHECK(fault(of(counting({})), by(rule_along{})) ==
        "arguments[0] has no axis 0: it has no axes at all; replicate it");
  CHECK(fault(of(std::int64_t{7}), by(rule_along{})) ==
        "arguments[0] has no axes in microbatch 0, so it cannot be split or merged along axis 0; use "
        "rule_replicate or rule_reduce");
  CHECK(fault(of(counting({0, 2}))) ==
        "arguments[0] has no rows along axis 0; skip the empty batch, or replicate the value");
  CHECK(fault(x, by(rule_reduce<batch_leaf>{std::int64_t{0}, keep_first})) ==
        "the rule of arguments[0] supports merging only; to split it, use rule_along or rule_replicate");
  CHECK(fault(x, {.arguments = leaf_rules::tuple({})}) ==
        "arguments is a tuple of 1 in the values, but a tuple of 0 in the rules; rules must be nested like "
        "the values");
  batch const keywords{.keywords = leaf_values::dict({{"mask", counting({4})}})};
  CHECK(fault(keywords, {.keywords = leaf_rules::dict({{"msak", leaf_rules(rule_along{})}})}) ==
        "keywords['msak'] is in the rules, but not in the values; nearest: 'mask'; rules must be nested like "
        "the values");
}

TEST_CASE("find_batch_fault: reports a negative extent from the adapter") {
  struct liar : testing::batch_leaf_access {
    std::int64_t extent(batch_leaf const&, std::size_t) const { return -3; }
  };
  auto const f = find_batch_fault(liar(), of(counting({4})), {}, {});
  REQUIRE(f);
  CHECK(describe(*f) == "arguments[0] reports -3 rows along axis 0; an extent must not be negative");
}

TEST_CASE("split_batch: divides 100,000 levels of nesting on a small stack") {
  testing::on_small_stack([] {
    nested_builder<batch_leaf> b;
    b.open(nesting::tuple);
    for (int i = 0; i < 100'000; ++i) b.open(nesting::list);
    b.leaf(counting({4}));
    for (int i = 0; i <= 100'000; ++i) b.close();
    batch const whole{.arguments = std::move(b).take()};
    auto const made = split_batch(access, whole, {}, {.microbatches = 2});
    CHECK(made.values.size() == 2);
    CHECK(merge_microbatches(access, trees(made, &batch::arguments), made.rules.arguments) ==
          whole.arguments);
  });
}
