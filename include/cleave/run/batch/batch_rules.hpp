// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <variant>

#include "cleave/run/batch/nested.hpp"

namespace cleave {

/// A tensor is divided along its first axis; one without axes and what is no tensor goes to every microbatch.
/// To merge: tensors along their first axis, tensors without axes stacked, all else must be the same.
struct rule_default {
  bool operator==(rule_default const&) const = default;
};

/// Divided and merged along `axis`; -1 is the last.
struct rule_along {
  std::int64_t axis = 0;
  /// Of a value with one row along `axis`: it allows no more than one microbatch, or, as a mask that holds
  /// for all rows, it goes to every microbatch. Merging does not ask.
  enum class single_row : std::uint8_t { limits, is_for_all } single = single_row::limits;

  bool operator==(rule_along const&) const = default;
};

/// The same in every microbatch.
struct rule_replicate {
  bool operator==(rule_replicate const&) const = default;
};

/// Merged by `combine(… combine(combine(init, result 0), result 1) …)`; cannot say how to divide. `combine`
/// is a plain function, so that rules are data that is copied and compared.
template <class Leaf>
struct rule_reduce {
  Leaf init;
  Leaf (*combine)(Leaf, Leaf const&);

  bool operator==(rule_reduce const&) const = default;
};

/// What becomes of one leaf.
template <class Leaf>
using batch_rule = std::variant<rule_default, rule_along, rule_replicate, rule_reduce<Leaf>>;

/// What one step is given, or one microbatch of it.
template <class Leaf>
struct batch_values {
  nested<Leaf> arguments = nested<Leaf>::tuple({});  ///< by position: a tuple or list
  nested<Leaf> keywords = nested<Leaf>::dict({});    ///< by name: a dict
  std::optional<nested<Leaf>> target{};              ///< what the loss compares with

  bool operator==(batch_values const&) const = default;
};

/// Rules nested as the values are; names in dicts may be in any order. What has none goes by `rule_default`.
template <class Leaf>
struct batch_rules {
  using tree = std::optional<nested<batch_rule<Leaf>>>;
  tree arguments{}, keywords{}, target{};

  bool operator==(batch_rules const&) const = default;
};
}  // namespace cleave
