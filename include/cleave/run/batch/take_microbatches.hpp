// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/run/batch/nested.hpp"
#include "cleave/run/batch/split_batch.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the first difference in structure between `a` and `b`, or nothing.
template <class Leaf>
std::optional<nested_mismatch> find_batch_mismatch(batch_values<Leaf> const& a, batch_values<Leaf> const& b) {
  auto const mismatch = [](nested<Leaf> const& x, nested<Leaf> const& y,
                           char const* root) -> std::optional<nested_mismatch> {
    auto aligned = align_nested(x.shape(), y.shape(), root);
    if (auto* m = std::get_if<nested_mismatch>(&aligned)) return std::move(*m);
    return std::nullopt;
  };
  if (auto m = mismatch(a.arguments, b.arguments, "arguments")) return m;
  if (auto m = mismatch(a.keywords, b.keywords, "keywords")) return m;
  if (a.target && b.target) return mismatch(*a.target, *b.target, "target");
  using enum nested_mismatch::kind;
  if (a.target || b.target) return nested_mismatch{a.target ? missing_there : missing_here, "target"};
  return std::nullopt;
}

/// Returns the rules and rows of given microbatches as `split_batch` would, without the values. Returns a
/// fault if they cannot be run as `expected` microbatches.
template <class Leaf, class Access>
std::variant<microbatch_list<Leaf>, microbatch_fault> microbatches_as_given(
    Access const& a, std::vector<batch_values<Leaf>> const& microbatches, std::int64_t expected,
    batch_rules<Leaf> const& rules) {
  using enum microbatch_fault::kind;
  if (expected < 1 || expected > most_microbatches)
    return microbatch_fault{.what = bad_count, .count = expected};
  auto const count = static_cast<std::int64_t>(microbatches.size());
  if (count != expected) return microbatch_fault{.what = other_count, .rows = expected, .count = count};
  microbatch_list<Leaf> list;
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    auto mismatch = i > 0 ? find_batch_mismatch(microbatches[0], microbatches[i]) : std::nullopt;
    if (mismatch)
      return microbatch_fault{.what = microbatches_differ,
                              .where = mismatch->where,
                              .second = i,
                              .mismatch = std::move(mismatch)};
    batch_divider<Leaf, Access> d(a, microbatches[i], rules);
    if (auto fault = d.find_fault()) {
      fault->first = i;
      return *std::move(fault);
    }
    if (i == 0) list.rules = d.rules();
    if (auto const rows = d.common_rows()) list.rows.push_back(*rows);
  }
  if (list.rows.size() != microbatches.size()) list.rows.clear();
  return list;
}

/// Returns why given microbatches cannot be run as `expected` microbatches, or nothing. Checks their number,
/// that all are nested alike, and that `rules` apply to each.
template <class Leaf, sliceable_leaves<Leaf> Access>
std::optional<microbatch_fault> find_microbatch_fault(Access const& a,
                                                      std::vector<batch_values<Leaf>> const& microbatches,
                                                      std::int64_t expected,
                                                      batch_rules<Leaf> const& rules = {}) {
  auto list = microbatches_as_given(a, microbatches, expected, rules);
  if (auto* fault = std::get_if<microbatch_fault>(&list)) return std::move(*fault);
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Wraps microbatches made by the caller as if by `split_batch`. Their rows are those of the values that
/// `rules` would split.
/// \throws microbatch_error if `find_microbatch_fault` finds a fault
template <class Leaf, sliceable_leaves<Leaf> Access>
microbatch_list<Leaf> take_microbatches(Access const& a, std::vector<batch_values<Leaf>> microbatches,
                                        std::int64_t expected, batch_rules<Leaf> const& rules = {}) {
  auto list = detail::microbatches_as_given(a, microbatches, expected, rules);
  if (auto* fault = std::get_if<microbatch_fault>(&list))
    throw microbatch_error("take_microbatches", std::move(*fault));
  auto taken = std::get<0>(std::move(list));
  taken.values = std::move(microbatches);
  return taken;
}

}  // namespace cleave
