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

namespace cleave {

enum class loss_reduction : std::uint8_t { mean, sum };

/// What the losses of microbatches are, and what the loss of the batch is to be. Rows may be anything that a
/// loss counts: samples, or tokens that are not masked.
struct loss_policy {
  loss_reduction microbatch = loss_reduction::mean;  ///< what the loss function does over a microbatch's rows
  loss_reduction batch = loss_reduction::mean;       ///< over all rows
  /// Each loss is multiplied before its backward pass, which leaves alone what gradients held before. Or
  /// gradients are multiplied once, at the end: this takes microbatches of one size, and also scales what
  /// the gradients held before.
  enum class place : std::uint8_t { losses, gradients } scale = place::losses;
};

/// By how much what is multiplied.
struct loss_weights {
  std::vector<double> losses;  ///< of each microbatch
  double gradients = 1;

  bool operator==(loss_weights const&) const = default;
};

/// Why no weights make the losses of microbatches that of the batch, or why given ones do not.
struct loss_weight_fault {
  static constexpr char subject[] = "loss weights: ";
  enum class kind : std::uint8_t {
    no_rows_known,    ///< there are no microbatches, or nobody knows their rows
    bad_rows,         ///< `microbatch` has `rows` rows: below 0, or more in sum than can be counted
    mean_of_no_rows,  ///< `microbatch` has no rows, or no microbatch has
    uneven,           ///< scaled at the end, but `microbatch` has `rows` rows and the first has `others`
    other_count,      ///< there are `others` weights for `rows` microbatches
    wrong_weight,     ///< the loss of `microbatch` counts `weight` times where `right` is right
  };
  kind what;
  std::size_t microbatch = 0;
  std::int64_t rows = 0, others = 0;
  double weight = 0, right = 0;

  bool operator==(loss_weight_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(loss_weight_fault const& f) {
  using enum loss_weight_fault::kind;
  std::string const which = "microbatch " + std::to_string(f.microbatch), rows = std::to_string(f.rows);
  switch (f.what) {
    case no_rows_known:
      return "the rows of the microbatches are not known; divide values with as many rows, or count them";
    case bad_rows:
      return which + " has " + rows + " rows; rows are counted from 0, and their sum below 2^63";
    case mean_of_no_rows:
      return which +
             " has no rows, so there is no mean; let the loss be a sum over its rows, and leave a batch "
             "without any rows out";
    case uneven:
      return which + " has " + rows + " rows where microbatch 0 has " + std::to_string(f.others) +
             ", so one factor for all gradients is wrong; scale the losses";
    case other_count:
      return std::to_string(f.others) + " weights are given for " + rows + " microbatches; give one for each";
    case wrong_weight:
      return "the loss of " + which + " counts " + std::to_string(f.weight) + " times, but must count " +
             std::to_string(f.right) + " times to give that of the batch; weight it by its rows";
  }
  return {};
}

}  // namespace cleave

namespace cleave::detail {

/// No weights make the loss of the batch, or those that are given do not. The witness: why.
using loss_weight_error = fault_error<loss_weight_fault>;

/// Why `loss_weights_for` finds no weights, or nothing. O(microbatches).
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

namespace cleave {

/// The weights by which losses, and with them gradients, of microbatches of `rows` rows add up to those of
/// the batch: a mean counts by its share of the rows; a sum counts once, or by one row's share where the
/// batch is to have the mean.
/// \throws loss_weight_error where `find_loss_policy_fault` finds something.
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

/// The first microbatch whose loss `weights`, chosen by somebody, do not count as the policy says, or
/// nothing: a sum that is divided by the number of microbatches, a mean that is not, a mean of uneven
/// microbatches that is. Weights may differ from the right ones by rounding, 1 in 10^12. O(microbatches).
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

/// The loss of the batch. \throws loss_weight_error where there is not a weight for each loss.
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
