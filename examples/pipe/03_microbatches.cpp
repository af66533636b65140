// SPDX-License-Identifier: MIT
// Runs a training step in microbatches. Nested inputs are divided and results are merged. Loss and gradient
// equal those of the whole batch, although its rows do not divide evenly.
#include <cleave/run.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <optional>
#include <span>
#include <variant>
#include <vector>

using column = std::vector<double>;         // one number a row
using leaf = std::variant<column, double>;  // an input of a step: your tensors and other values

// [access]
struct columns {
  std::optional<std::size_t> axes(leaf const& x) const {
    return std::holds_alternative<column>(x) ? std::optional<std::size_t>(1) : std::nullopt;
  }
  std::int64_t extent(leaf const& x, std::size_t) const { return std::ssize(std::get<column>(x)); }
  leaf slice(leaf const& x, std::size_t, std::int64_t first, std::int64_t last) const {
    auto const& all = std::get<column>(x);
    return column(all.begin() + first, all.begin() + last);
  }
  leaf concatenated(std::span<leaf const* const> list, std::size_t) const {
    column all;
    for (auto const* x : list)
      for (double const e : std::get<column>(*x)) all.push_back(e);
    return all;
  }
  leaf stacked(std::span<leaf const* const> list) const {
    return *list[0];
  }  // columns always have their axis
  bool equal(leaf const& x, leaf const& y) const { return x == y; }
};
// [access]

using nested_leaves = cleave::nested<leaf>;
using step = cleave::batch_values<leaf>;

/// The results of a step: predictions w x + offset, their mean squared error, and its derivative with respect
/// to w.
struct made {
  nested_leaves predictions = column();
  double loss = 0, gradient = 0;
};

made run(step const& s, double w) {
  auto const& x = std::get<column>(s.arguments.leaves()[0]);
  auto const& offset = std::get<column>(s.keywords.leaves()[0]);
  auto const& wanted = std::get<column>(s.target->leaves()[0]);
  made m;
  column y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(w * x[i] + offset[i]);
    double const error = y[i] - wanted[i], rows = static_cast<double>(x.size());
    m.loss += error * error / rows;
    m.gradient += 2 * error * x[i] / rows;
  }
  m.predictions = y;
  return m;
}

int main() {
  step const whole{.arguments = nested_leaves::tuple({column{1, 2, 3, 4, 5, 6, 7}, 0.5}),
                   .keywords = nested_leaves::dict({{"offset", column{0, 1, 0, 1, 0, 1, 0}}}),
                   .target = column{3, 5, 9, 9, 14, 13, 20}};

  // [microbatches]
  auto const micro = split_batch(columns(), whole, {}, {.microbatches = 3});
  auto const weights = cleave::loss_weights_for({.microbatch = cleave::loss_reduction::mean}, micro.rows);

  std::vector<nested_leaves> predictions;
  std::vector<double> losses;
  double gradient = 0;
  for (std::size_t i = 0; i < micro.values.size(); ++i) {
    auto const one = run(micro.values[i], 2.0);
    predictions.push_back(one.predictions);
    losses.push_back(one.loss);
    gradient += weights.losses[i] * one.gradient;
  }
  auto const all = merge_microbatches(columns(), predictions);
  // [microbatches]

  auto const in_one = run(whole, 2.0);
  std::cout << "rows:";
  for (auto const n : micro.rows) std::cout << ' ' << n;
  std::cout << "\nloss " << batch_loss(losses, weights) << ", of the whole batch " << in_one.loss;
  std::cout << "\ngradient " << gradient << ", of the whole batch " << in_one.gradient;
  std::cout << "\npredictions " << (all == in_one.predictions ? "equal" : "differ") << '\n';

  // The usual way, dividing by the number of microbatches, is wrong here.
  cleave::loss_weights const usual{.losses = {1, 1, 1}, .gradients = 1.0 / 3};
  if (auto const fault = find_loss_weight_fault({}, micro.rows, usual)) std::cout << describe(*fault) << '\n';

  // Rules nest like the values. An unknown name is an error.
  using rules = cleave::nested<cleave::batch_rule<leaf>>;
  cleave::batch_rules<leaf> const wrong{.keywords = rules::dict({{"ofset", cleave::rule_replicate()}})};
  try {
    split_batch(columns(), whole, wrong, {.microbatches = 3});
  } catch (cleave::microbatch_error const& e) {
    std::cout << e.what() << '\n';
  }
}

// It prints:
//
//   rows: 3 2 2
//   loss 8.85714, of the whole batch 8.85714
//   gradient -20.5714, of the whole batch -20.5714
//   predictions equal
//   the loss of microbatch 0 has weight 0.333333, but needs weight 0.428571 to give the loss of the batch; weight it by its rows
//   split_batch: keywords['ofset'] is in the rules, but not in the values; nearest: 'offset'; rules must be nested like the values
