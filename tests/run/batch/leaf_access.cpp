// SPDX-License-Identifier: MIT
#include "cleave/run/batch/split_batch.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cleave/run/batch/merge_microbatches.hpp"
#include "cleave/run/batch/take_microbatches.hpp"
#include "support/batch_leaf.hpp"

using namespace cleave;

namespace {

/// A leaf that can only be copied, not even compared, and accesses with exactly one ability each.
struct bare_leaf {
  explicit bare_leaf(int n) : rows(n) {}
  int rows;
};

struct only_slices {
  std::optional<std::size_t> axes(bare_leaf const&) const { return 1; }
  std::int64_t extent(bare_leaf const& x, std::size_t) const { return x.rows; }
  bare_leaf slice(bare_leaf const&, std::size_t, std::int64_t first, std::int64_t last) const {
    return bare_leaf(static_cast<int>(last - first));
  }
};
struct and_masks : only_slices {
  bare_leaf masked(bare_leaf const& x, std::size_t, std::int64_t, std::int64_t) const { return x; }
};
struct and_merges : only_slices {
  bare_leaf concatenated(std::span<bare_leaf const* const> list, std::size_t) const {
    int rows = 0;
    for (auto const* x : list) rows += x->rows;
    return bare_leaf(rows);
  }
  bare_leaf stacked(std::span<bare_leaf const* const> list) const {
    return bare_leaf(static_cast<int>(list.size()));
  }
  bool equal(bare_leaf const& x, bare_leaf const& y) const { return x.rows == y.rows; }
};

static_assert(sliceable_leaves<only_slices, bare_leaf>);
static_assert(!maskable_leaves<only_slices, bare_leaf> && !mergeable_leaves<only_slices, bare_leaf>);
static_assert(maskable_leaves<and_masks, bare_leaf> && !mergeable_leaves<and_masks, bare_leaf>);
static_assert(mergeable_leaves<and_merges, bare_leaf>);
static_assert(!sliceable_leaves<only_slices, int>);
static_assert(maskable_leaves<testing::batch_leaf_access, testing::batch_leaf> &&
              mergeable_leaves<testing::batch_leaf_access, testing::batch_leaf>);

}  // namespace

TEST_CASE("sliceable_leaves: splitting, masking and merging need only the operations of their concepts") {
  using bare = nested<bare_leaf>;
  batch_values<bare_leaf> const values{.arguments = bare::tuple({bare_leaf(5)})};
  auto const split = split_batch(only_slices(), values, {}, {.microbatches = 2});
  CHECK(split.rows == std::vector<std::int64_t>{3, 2});
  CHECK(mask_batch(and_masks(), values, {}, {.microbatches = 2}).values.size() == 2);
  CHECK(take_microbatches(only_slices(), split.values, 2).rows == split.rows);

  std::vector<bare> parts;
  for (auto const& m : split.values) parts.push_back(m.arguments);
  CHECK(merge_microbatches(and_merges(), parts).leaves()[0].rows == 5);
  parts[1] = parts[0];
  CHECK(merge_masked(and_merges(), parts).leaves()[0].rows == 3);
}
