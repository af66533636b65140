// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/real.hpp"

namespace cleave::inline v0_2 {

/// The reduction of a loss over rows.
enum class loss_reduction : std::uint8_t { mean, sum };

/// The reduction of the microbatch losses, and the desired reduction of the batch loss. Rows can be any unit
/// that a loss counts: samples, or unmasked tokens.
struct loss_policy {
  /// Reduction of the loss function over the rows of a microbatch.
  loss_reduction microbatch = loss_reduction::mean;
  loss_reduction batch = loss_reduction::mean;  ///< desired reduction over all rows
  /// The place where factors are applied. `losses`: each loss is scaled before its backward pass, which does
  /// not change earlier gradients. `gradients`: gradients are scaled once at the end. That needs microbatches
  /// of equal size, and also scales earlier gradients.
  enum class place : std::uint8_t { losses, gradients } scale = place::losses;
};

/// The factors of losses and gradients.
struct loss_weights {
  std::vector<double> losses;  ///< by microbatch
  /// Factor of all gradients at the end.
  double gradients = 1;

  bool operator==(loss_weights const&) const = default;
};

/// The reason why no weights turn the microbatch losses into the batch loss, or why given weights do not.
struct loss_weight_fault {
  static constexpr char subject[] = "loss weights: ";
  enum class kind : std::uint8_t {
    no_rows_known,    ///< there are no microbatches, or their rows are unknown
    bad_rows,         ///< `microbatch` has `rows` rows: negative, or the sum overflows
    mean_of_no_rows,  ///< `microbatch`, or every microbatch, has no rows
    /// Gradients are scaled at the end, but `microbatch` has `rows` rows and the first has `others`.
    uneven,
    other_count,   ///< there are `others` weights for `rows` microbatches
    wrong_weight,  ///< the loss of `microbatch` has weight `weight` instead of `right`
  };
  kind what;
  std::size_t microbatch = 0;
  std::int64_t rows = 0, others = 0;
  double weight = 0, right = 0;

  bool operator==(loss_weight_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(loss_weight_fault const& f) {
  using enum loss_weight_fault::kind;
  std::string const which = "microbatch " + std::to_string(f.microbatch), rows = std::to_string(f.rows);
  switch (f.what) {
    case no_rows_known:
      return "the number of rows of the microbatches is not known; split values that all have the same "
             "number of rows, or pass the rows";
    case bad_rows:
      return which + " has " + rows +
             " rows; the number of rows must not be negative, and their sum must be below 2^63";
    case mean_of_no_rows:
      return which +
             " has no rows, so its mean is undefined; use a sum over the rows, and skip batches without rows";
    case uneven:
      return which + " has " + rows + " rows, but microbatch 0 has " + std::to_string(f.others) +
             ", so a single factor for all gradients is wrong; scale the losses instead";
    case other_count:
      return std::to_string(f.others) + " weights are given for " + rows +
             " microbatches; give one per microbatch";
    case wrong_weight:
      return "the loss of " + which + " has weight " + std::to_string(f.weight) + ", but needs weight " +
             std::to_string(f.right) + " to give the loss of the batch; weight it by its rows";
  }
  return {};
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if no weights give the batch loss, or given weights do not. Carries the reason.
using loss_weight_error = fault_error<loss_weight_fault>;

/// Returns the first reason why `loss_weights_for` fails, or nothing. O(microbatches).
inline std::optional<loss_weight_fault> find_loss_policy_fault(loss_policy const& policy,
                                                               std::span<std::int64_t const> rows) {
  using enum loss_weight_fault::kind;
  if (rows.empty()) return loss_weight_fault{no_rows_known};
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] > (std::numeric_limits<std::int64_t>::max)() - sum)
      return loss_weight_fault{bad_rows, i, rows[i]};
    if (rows[i] == 0 && policy.microbatch == loss_reduction::mean)
      return loss_weight_fault{mean_of_no_rows, i};
    sum += rows[i];
  }
  if (sum == 0 && policy.batch == loss_reduction::mean) return loss_weight_fault{mean_of_no_rows};
  if (policy.scale == loss_policy::place::gradients && policy.microbatch == loss_reduction::mean)
    for (std::size_t i = 1; i < rows.size(); ++i)
      if (rows[i] != rows[0]) return loss_weight_fault{uneven, i, rows[i], rows[0]};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the weights with which the losses of microbatches, and their gradients, add up to those of the
/// batch. A mean is weighted by its share of the rows. A sum has weight 1, or 1 / all rows if the batch loss
/// is a mean. `rows` are the rows of each microbatch.
/// \throws loss_weight_error if `find_loss_policy_fault` finds a fault
inline loss_weights loss_weights_for(loss_policy const& policy, std::span<std::int64_t const> rows) {
  if (auto const fault = detail::find_loss_policy_fault(policy, rows))
    throw detail::loss_weight_error(*fault);
  double sum = 1;
  if (policy.batch == loss_reduction::mean) {
    std::int64_t all = 0;
    for (auto const n : rows) all += n;
    sum = static_cast<double>(all);
  }
  loss_weights w;
  for (auto const n : rows)
    w.losses.push_back((policy.microbatch == loss_reduction::mean ? static_cast<double>(n) : 1.0) / sum);
  if (policy.scale == loss_policy::place::gradients) {
    w.gradients = w.losses[0];
    std::ranges::fill(w.losses, 1.0);
  }
  return w;
}

/// Checks weights that the user chose. Returns the first microbatch whose loss has the wrong weight, or
/// nothing. Finds sums that are divided by the number of microbatches, means that are not, and means of
/// uneven microbatches that are. The tolerance is 1e-12, relative. O(microbatches).
inline std::optional<loss_weight_fault> find_loss_weight_fault(loss_policy policy,
                                                               std::span<std::int64_t const> rows,
                                                               loss_weights const& weights) {
  using enum loss_weight_fault::kind;
  policy.scale = loss_policy::place::losses;
  if (auto const fault = detail::find_loss_policy_fault(policy, rows)) return fault;
  if (weights.losses.size() != rows.size())
    return loss_weight_fault{.what = other_count,
                             .rows = static_cast<std::int64_t>(rows.size()),
                             .others = static_cast<std::int64_t>(weights.losses.size())};
  auto const right = loss_weights_for(policy, rows).losses;
  for (std::size_t i = 0; i < right.size(); ++i) {
    double const weight = weights.losses[i] * weights.gradients;
    if (!(std::abs(weight - right[i]) <= 1e-12 * right[i]))
      return loss_weight_fault{.what = wrong_weight, .microbatch = i, .weight = weight, .right = right[i]};
  }
  return std::nullopt;
}

/// Returns the loss of the batch.
/// \throws loss_weight_error if the numbers of losses and weights differ
inline double batch_loss(std::span<double const> losses, loss_weights const& weights) {
  if (losses.size() != weights.losses.size())
    throw detail::loss_weight_error({.what = loss_weight_fault::kind::other_count,
                                     .rows = static_cast<std::int64_t>(losses.size()),
                                     .others = static_cast<std::int64_t>(weights.losses.size())});
  double sum = 0;
  for (std::size_t i = 0; i < losses.size(); ++i)
    sum += detail::rounded_product(losses[i], weights.losses[i]);
  return sum * weights.gradients;
}

}  // namespace cleave
