// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/run/batch/merge_microbatches.hpp"
#include "cleave/run/batch/split_batch.hpp"
#include "support/row_major.hpp"
#include "support/toy_operators.hpp"

namespace cleave::testing {

/// A batch split into microbatches, each with its input values.
struct toy_batches {
  std::vector<tape_values> values;
  std::vector<std::int64_t> rows;
};

using tensor_leaf = std::variant<tensor>;
using tensor_leaves = row_major_access<tensor_leaf, tensor>;

/// Splits all tensors of `batch` along their first axis.
/// \throws microbatch_error if one has fewer rows than there are microbatches.
inline toy_batches divided(std::vector<tensor> const& batch, std::int64_t microbatches) {
  batch_values<tensor_leaf> all;
  std::vector<nested<tensor_leaf>> arguments;
  for (auto const& t : batch) arguments.emplace_back(tensor_leaf(t));
  all.arguments = nested<tensor_leaf>::tuple(std::move(arguments));
  auto const made =
      split_batch(tensor_leaves(), all, {}, {microbatches, split_batch_options::few_rows::refuse});
  toy_batches list{{}, made.rows};
  for (auto const& m : made.values) {
    auto& values = list.values.emplace_back();
    for (auto const& leaf : m.arguments.leaves()) values.push_back(constant_of(std::get<tensor>(leaf)));
  }
  return list;
}

/// Concatenates the results of microbatches along their first axis.
inline tensor merged(std::vector<tensor> const& parts) {
  std::vector<nested<tensor_leaf>> results;
  for (auto const& t : parts) results.emplace_back(tensor_leaf(t));
  return std::get<tensor>(merge_microbatches(tensor_leaves(), results).leaves().front());
}

}  // namespace cleave::testing
