// SPDX-License-Identifier: MIT
#include "cleave/run/batch/merge_microbatches.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/batch_leaf.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::batch_leaf, testing::counting, testing::leaf_rules, testing::leaf_values, testing::tensor;

namespace {

testing::batch_leaf_access const access;
using parts = std::vector<leaf_values>;
using tree = batch_rules<batch_leaf>::tree;

leaf_values merged(parts const& p, tree const& r = {}) { return merge_microbatches(access, p, r); }

/// The description of the fault, or "nothing".
std::string fault(parts const& p, tree const& r = {}) {
  auto const f = find_merge_fault(access, p, r);
  if (!f) {
    CHECK_NOTHROW(merged(p, r));
    return "nothing";
  }
  CHECK_THROWS_WITH_AS(merged(p, r), ("merge_microbatches: " + describe(*f)).c_str(), microbatch_error);
  return describe(*f);
}

batch_leaf minus(batch_leaf a, batch_leaf const& b) {
  return std::get<std::int64_t>(a) - std::get<std::int64_t>(b);
}
batch_leaf longest(batch_leaf a, batch_leaf const& b) {
  return std::get<std::string>(a).size() < std::get<std::string>(b).size() ? b : a;
}

}  // namespace

TEST_CASE("merge_microbatches: joins tensors along their first axis, whatever their row counts") {
  CHECK(merged({counting({2, 2}), counting({1, 2}, 4)}) == leaf_values(counting({3, 2})));
  CHECK(merged({counting({2})}) == leaf_values(counting({2})));
}

TEST_CASE("merge_microbatches: stacks tensors without axes") {
  CHECK(merged({counting({}, 5), counting({}, 6)}) == leaf_values(tensor{{2}, {5, 6}}));
}

TEST_CASE("merge_microbatches: keeps a value without axes if all agree, else names two microbatches") {
  auto const of = [](batch_leaf x) { return leaf_values::list({counting({1}), std::move(x)}); };
  CHECK(merged({of(std::monostate()), of(std::monostate())}).leaves()[1] == batch_leaf());
  CHECK(merged({of(std::int64_t{5}), of(std::int64_t{5})}).leaves()[1] == batch_leaf(std::int64_t{5}));
  CHECK(fault({of(std::int64_t{5}), of(std::int64_t{5}), of(std::int64_t{6})}) ==
        "results[1] is not the same in microbatches 0 and 2; use rule_reduce or rule_along");
  CHECK(fault({of(std::monostate()), of(counting({1}))}) ==
        "results[1] is not the same in microbatches 0 and 1; use rule_reduce or rule_along");
}

TEST_CASE("merge_microbatches: rule_replicate returns one of equal tensors and rejects different ones") {
  CHECK(merged({counting({3}), counting({3})}, leaf_rules(rule_replicate{})) == leaf_values(counting({3})));
  CHECK(fault({counting({3}), counting({3}, 1)}, leaf_rules(rule_replicate{})) != "nothing");
}

TEST_CASE("merge_microbatches: reducers fold from the left, starting with init") {
  leaf_rules const difference(rule_reduce<batch_leaf>{std::int64_t{100}, minus});
  CHECK(merged({std::int64_t{3}, std::int64_t{4}}, difference) == leaf_values(std::int64_t{93}));
  leaf_rules const text(rule_reduce<batch_leaf>{std::string(), longest});
  CHECK(merged({std::string("a"), std::string("bcd"), std::string("ef")}, text) ==
        leaf_values(std::string("bcd")));
}

TEST_CASE("merge_microbatches: merges dicts by key, in the key order of the first microbatch") {
  auto const a = leaf_values::dict({{"p", counting({1})}, {"q", counting({1}, 10)}});
  auto const b = leaf_values::dict({{"q", counting({1}, 11)}, {"p", counting({1}, 1)}});
  CHECK(merged({a, b}) == leaf_values::dict({{"p", counting({2})}, {"q", counting({2}, 10)}}));
}

TEST_CASE("merge_microbatches: each fault names its place and the microbatches") {
  CHECK(fault({}) == "results: there are no microbatches to merge; give one at least");
  CHECK(
      fault({leaf_values::tuple({counting({1})}), leaf_values::list({counting({1})})}) ==
      "results is a tuple of 1 in microbatch 0, but a list of 1 in microbatch 1; all microbatches must nest "
      "alike");
  CHECK(fault({counting({1})}, leaf_rules::tuple({})) ==
        "results is a single value in the values, but a tuple of 0 in the rules; rules must be nested like "
        "the values");
  CHECK(fault({counting({2, 2}), counting({2, 3})}) ==
        "results has 2 rows along axis 1 in microbatch 0, but 3 in microbatch 1; they may differ only along "
        "the merged axis");
  CHECK(fault({counting({2}), counting({2, 1})}) ==
        "results has different numbers of axes in microbatches 0 and 1; only results with the same number of "
        "axes can be "
        "merged");
  CHECK(fault({counting({}), counting({2})}) ==
        "results has different numbers of axes in microbatches 0 and 1; only results with the same number of "
        "axes can be "
        "merged");
  CHECK(fault({counting({2}), std::int64_t{1}}) ==
        "results has no axes in microbatch 1, so it cannot be split or merged along axis 0; use "
        "rule_replicate or rule_reduce");
  CHECK(fault({counting({2}), counting({2})}, leaf_rules(rule_along{1})) ==
        "results has no axis 1: its axes are -1 to 0");
}

TEST_CASE("merge_masked: takes each microbatch's own rows, and rejects different shapes") {
  CHECK(merge_masked(access, parts{tensor{{5}, {1, 2, 3, 9, 9}}, tensor{{5}, {9, 9, 9, 4, 5}}}) ==
        leaf_values(counting({5}, 1)));
  CHECK_THROWS_WITH_AS(merge_masked(access, parts{counting({4}), counting({3})}),
                       "merge_masked: results has 4 rows along axis 0 in microbatch 0, but 3 in microbatch "
                       "1; they may differ only along the merged axis",
                       microbatch_error);
  // More microbatches than rows: some have no rows.
  CHECK(merge_masked(access, parts{counting({1}), counting({1}, 5)}) == leaf_values(counting({1})));
}
