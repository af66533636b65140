// SPDX-License-Identifier: MIT
#include "cleave/run/batch/loss_weights.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cleave/run/batch/split_batch.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using row_counts = std::vector<std::int64_t>;
using place = loss_policy::place;
constexpr auto mean = loss_reduction::mean, sum = loss_reduction::sum;

/// The loss of rows first … last - 1 of a model y = w x with targets t, and its derivative with respect to w.
struct loss_and_gradient {
  double loss = 0, gradient = 0;
};
struct sample {
  double x, t;
};

loss_and_gradient squared_error(std::vector<sample> const& rows, std::size_t first, std::size_t last,
                                double w, loss_reduction how) {
  loss_and_gradient all;
  for (std::size_t i = first; i < last; ++i) {
    double const d = w * rows[i].x - rows[i].t;
    all.loss += d * d;
    all.gradient += 2 * d * rows[i].x;
  }
  double const by = how == mean ? static_cast<double>(last - first) : 1.0;
  return {all.loss / by, all.gradient / by};
}

std::vector<sample> random_samples(testing::rng& r, std::size_t n) {
  std::vector<sample> rows;
  for (std::size_t i = 0; i < n; ++i) rows.push_back({r.unit() * 2 - 1, r.unit() * 2 - 1});
  return rows;
}

/// Loss and gradient as a pipeline computes them, microbatch by microbatch.
loss_and_gradient in_microbatches(std::vector<sample> const& rows, row_counts const& sizes, double w,
                                  loss_reduction how, loss_weights const& weights) {
  std::vector<double> losses;
  double gradient = 0;
  for (std::size_t i = 0, at = 0; i < sizes.size(); at += static_cast<std::size_t>(sizes[i++])) {
    auto const part = squared_error(rows, at, at + static_cast<std::size_t>(sizes[i]), w, how);
    losses.push_back(part.loss);
    gradient += weights.losses[i] * part.gradient;
  }
  return {batch_loss(losses, weights), gradient * weights.gradients};
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-12 * (1 + std::abs(b)); }

std::string fault(loss_policy p, row_counts const& rows) {
  auto const f = find_loss_policy_fault(p, rows);
  REQUIRE(f);
  CHECK_THROWS_WITH_AS(loss_weights_for(p, rows), ("loss weights: " + describe(*f)).c_str(),
                       loss_weight_error);
  return describe(*f);
}

/// The choice that PyTorch offers: all gradients divided by the number of microbatches, or not.
loss_weights divided(std::size_t microbatches, bool divide) {
  return {std::vector<double>(microbatches, 1.0), divide ? 1.0 / static_cast<double>(microbatches) : 1.0};
}

}  // namespace

TEST_CASE("loss_weights_for: weighted losses and gradients of microbatches add up to those of the batch") {
  testing::rng r(3);
  for (int round = 0; round < 500; ++round) {
    row_counts sizes;
    std::size_t n = 0;
    for (std::size_t i = 0, k = 1 + r.below(6); i < k; ++i) {
      sizes.push_back(static_cast<std::int64_t>(1 + r.below(9)));
      n += static_cast<std::size_t>(sizes.back());
    }
    auto const rows = random_samples(r, n);
    double const w = r.unit();
    for (auto const each : {mean, sum})
      for (auto const whole : {mean, sum}) {
        auto const weights = loss_weights_for({each, whole}, sizes);
        auto const got = in_microbatches(rows, sizes, w, each, weights);
        auto const expected = squared_error(rows, 0, n, w, whole);
        REQUIRE(near(got.loss, expected.loss));
        REQUIRE(near(got.gradient, expected.gradient));
        REQUIRE_FALSE(find_loss_weight_fault({each, whole}, sizes, weights));
      }
  }
}

TEST_CASE("loss_weights_for: one gradient factor suffices for equal microbatches, and for sums of any size") {
  testing::rng r(4);
  for (std::int64_t size = 1; size < 5; ++size)
    for (std::size_t k = 1; k < 6; ++k) {
      row_counts const sizes(k, size);
      auto const n = k * static_cast<std::size_t>(size);
      auto const rows = random_samples(r, n);
      auto const weights = loss_weights_for({mean, mean, place::gradients}, sizes);
      auto const got = in_microbatches(rows, sizes, 0.5, mean, weights);
      CHECK(near(got.gradient, squared_error(rows, 0, n, 0.5, mean).gradient));
      CHECK(weights.losses == std::vector<double>(k, 1.0));
      CHECK(near(weights.gradients, 1.0 / static_cast<double>(k)));
    }
  CHECK(loss_weights_for({sum, mean, place::gradients}, row_counts{3, 1}) == loss_weights{{1, 1}, 0.25});
  CHECK(loss_weights_for({sum, sum, place::gradients}, row_counts{3, 1}) == loss_weights{{1, 1}, 1});
}

TEST_CASE("find_loss_weight_fault: accepts uniform weights exactly when loss and gradient are right") {
  testing::rng r(6);
  for (std::int64_t n = 2; n < 12; ++n)
    for (std::int64_t k = 1; k <= n; ++k)
      for (auto const how : {mean, sum})
        for (bool const divide : {false, true}) {
          auto const sizes = microbatch_sizes(n, k);
          auto const rows = random_samples(r, static_cast<std::size_t>(n));
          auto const weights = divided(sizes.size(), divide);
          auto const got = in_microbatches(rows, sizes, 0.25, how, weights);
          auto const whole = squared_error(rows, 0, rows.size(), 0.25, how);
          bool const right = near(got.gradient, whole.gradient) && near(got.loss, whole.loss);
          CHECK(right == !find_loss_weight_fault({how, how}, sizes, weights).has_value());
        }
}

TEST_CASE("find_loss_weight_fault: names the first microbatch with a wrong weight, and the right weight") {
  auto const said = [](loss_reduction how, row_counts const& rows, bool divide) {
    auto const f = find_loss_weight_fault({how, how}, rows, divided(rows.size(), divide));
    return f ? describe(*f) : "nothing";
  };
  CHECK(said(sum, {2, 2}, false) == "nothing");
  CHECK(said(mean, {2, 2}, true) == "nothing");
  CHECK(said(sum, {2, 2}, true) ==
        "the loss of microbatch 0 has weight 0.500000, but needs weight 1.000000 to give the loss of the "
        "batch; "
        "weight it by its rows");
  CHECK(said(mean, {2, 2}, false) ==
        "the loss of microbatch 0 has weight 1.000000, but needs weight 0.500000 to give the loss of the "
        "batch; "
        "weight it by its rows");
  CHECK(said(mean, {3, 3, 2}, true) ==
        "the loss of microbatch 0 has weight 0.333333, but needs weight 0.375000 to give the loss of the "
        "batch; "
        "weight it by its rows");
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(find_loss_weight_fault({}, row_counts{1, 1}, {{nan, 0.5}})->microbatch == 0);
  CHECK(find_loss_weight_fault({}, row_counts{1, 1}, {{0.5}})->what == loss_weight_fault::kind::other_count);
}

TEST_CASE("find_loss_policy_fault: names the microbatch and the remedy") {
  CHECK(fault({}, {}) ==
        "the number of rows of the microbatches is not known; split values that all have the same number of "
        "rows, or pass the rows");
  CHECK(
      fault({}, {2, -1}) ==
      "microbatch 1 has -1 rows; the number of rows must not be negative, and their sum must be below 2^63");
  CHECK(fault({sum, sum}, {std::numeric_limits<std::int64_t>::max(), 1}) ==
        "microbatch 1 has 1 rows; the number of rows must not be negative, and their sum must be below 2^63");
  CHECK(fault({}, {2, 0}) ==
        "microbatch 1 has no rows, so its mean is undefined; use a sum over the rows, and skip batches "
        "without rows");
  CHECK(fault({sum, mean}, {0, 0}) ==
        "microbatch 0 has no rows, so its mean is undefined; use a sum over the rows, and skip batches "
        "without rows");
  CHECK(fault({mean, mean, place::gradients}, {3, 3, 2}) ==
        "microbatch 2 has 2 rows, but microbatch 0 has 3, so a single factor for all gradients is wrong; "
        "scale the losses instead");
  CHECK(loss_weights_for({sum, mean}, row_counts{0, 4}) == loss_weights{{0.25, 0.25}, 1});
}

TEST_CASE("batch_loss: rejects losses and weights of different counts") {
  CHECK_THROWS_WITH_AS(batch_loss(std::vector{1.0}, {{0.5, 0.5}}),
                       "loss weights: 2 weights are given for 1 microbatches; give one per microbatch",
                       loss_weight_error);
}
