// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/run/batch/nested.hpp"
#include "cleave/run/batch/split_batch.hpp"
#include "support/rng.hpp"
#include "support/row_major.hpp"
#include "support/toy_tensor.hpp"

namespace cleave::testing {

/// A leaf of the arguments of a step: null, a number, a text or a tensor.
using batch_leaf = std::variant<std::monostate, std::int64_t, std::string, tensor>;
using batch_leaf_access = row_major_access<batch_leaf, tensor>;
using leaf_rule = batch_rule<batch_leaf>;
using leaf_values = nested<batch_leaf>;
using leaf_rules = nested<leaf_rule>;

/// Returns a tensor with the elements `from`, `from` + 1, `from` + 2, …
inline tensor counting(toy_shape shape, double from = 0) {
  auto t = tensor::filled(std::move(shape), 0);
  for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = from + static_cast<double>(i);
  return t;
}

/// A value and split rules that fit it. It uses every container and has about `size` leaves. Tensors have 1
/// to 6 rows along the axis that is split. The rules list the names in another order.
struct ruled_values {
  leaf_values value;
  leaf_rules rule;
};

inline std::pair<batch_leaf, leaf_rule> random_ruled_leaf(rng& r) {
  switch (r.below(6)) {
    case 0:
      return {std::monostate(), rule_default()};
    case 1:
      return {std::int64_t{7}, rule_replicate()};
    case 2:
      return {std::string("text"), rule_default()};
    default:
      break;
  }
  toy_shape shape;
  for (std::size_t axes = r.below(4); axes > 0; --axes) shape.push_back(1 + r.below(6));
  auto const t = counting(shape, static_cast<double>(r.below(100)));
  auto const axes = static_cast<std::int64_t>(shape.size());
  if (axes == 0 || r.one_in(5)) return {t, rule_replicate()};
  if (r.one_in(4)) return {t, rule_default()};
  return {t, rule_along{static_cast<std::int64_t>(r.below(2 * shape.size())) - axes}};
}

inline ruled_values random_ruled_values(rng& r, std::size_t depth) {
  if (depth == 0 || r.one_in(3)) {
    auto const [x, rule] = random_ruled_leaf(r);
    return {leaf_values(x), leaf_rules(rule)};
  }
  auto const kind = r.below(3);
  std::vector<leaf_values> list;
  std::vector<leaf_rules> rule_list;
  std::vector<std::pair<std::string, leaf_values>> dict;
  std::vector<std::pair<std::string, leaf_rules>> rule_dict;
  for (std::size_t i = 0, n = r.below(4); i < n; ++i) {
    auto const one = random_ruled_values(r, depth - 1);
    list.push_back(one.value), rule_list.push_back(one.rule);
    dict.emplace_back("k" + std::to_string(i), one.value);
    rule_dict.emplace_back("k" + std::to_string(i), one.rule);
  }
  r.shuffle(rule_dict);
  if (kind == 0) return {leaf_values::list(list), leaf_rules::list(rule_list)};
  if (kind == 1) return {leaf_values::tuple(list), leaf_rules::tuple(rule_list)};
  return {leaf_values::dict(dict), leaf_rules::dict(rule_dict)};
}

}  // namespace cleave::testing
