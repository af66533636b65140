// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"

namespace cleave {

/// What is wrong with a plan. Of `node`, `value` and `other` those that `what` speaks of are set.
struct plan_fault {
  enum class kind : std::uint8_t {
    unknown_stage,      ///< the order, a transfer or an update names a stage that the plan lacks
    unknown_node,       ///< a stage lists a node that the graph lacks
    unknown_value,      ///< a list names a value that the graph lacks
    order,              ///< the order of stages has `stage` not at all or twice
    missing_node,       ///< no stage has `node`
    repeated_node,      ///< `stage` and `other`, which may be the same, have `node`
    unneeded_copy,      ///< `stage` has a copy of `node` that nothing in it reads
    split_group,        ///< `node` is in `stage`, one that must share its stage is in `other`
    early_node,         ///< `node` stands before one that it must follow, or its stage before the other's
    absent_value,       ///< `node` reads `value`, or needs it as a companion, and `stage` has it not or later
    repeated_value,     ///< a list of `stage` has `value` twice
    misplaced_value,    ///< `value` is unsent state among the inputs, no state among the state, or made here
    unused_value,       ///< `stage` is given `value` for nothing
    foreign_output,     ///< `stage` gives `value`, which it does not make
    missing_output,     ///< nobody gives `value`, which the caller or another stage receives
    unneeded_output,    ///< `stage` gives `value`, which nobody receives
    missing_transfer,   ///< `value` goes from `stage` to `other`, and the transfers or updates lack it
    unneeded_transfer,  ///< the transfers or updates have that, and it is not so
    backward_transfer,  ///< `value` goes from `stage` to `other`, which runs before it
  };
  kind what;
  stage_id stage = no_stage, other = no_stage;
  std::size_t node = none<std::size_t>, value = none<std::size_t>;

  static constexpr auto no_stage = stage_id{none<std::uint32_t>};
  bool operator==(plan_fault const&) const = default;
};

/// A text for programs, which stays as it is from version to version.
constexpr std::string_view code_of(plan_fault::kind what) {
  constexpr std::string_view codes[] = {
      "stage-unknown",   "node-unknown",     "value-unknown",     "stage-order",      "node-missing",
      "node-repeated",   "copy-unneeded",    "group-split",       "node-early",       "value-absent",
      "value-repeated",  "value-misplaced",  "value-unused",      "output-foreign",   "output-missing",
      "output-unneeded", "transfer-missing", "transfer-unneeded", "transfer-backward"};
  return codes[static_cast<std::size_t>(what)];
}

}  // namespace cleave

namespace cleave::detail {

/// A plan that is none of its graph. The witness: the first fault.
class plan_error : public witness_error<plan_fault> {
 public:
  using witness_error::witness_error;
};

/// What messages call a value: its number, and the node that makes it: `value #7 of node conv1 (#4)`.
template <std::unsigned_integral Index>
std::string value_label(basic_dense<Index> const& s, std::size_t v) {
  auto number = "value #" + std::to_string(v);
  if (v >= s.values() || s.producer[v] == none<Index>) return number;
  return number + " of node " + s.label(s.producer[v]);
}

/// One sentence, in the names of the graph.
template <std::unsigned_integral Index>
std::string plan_fault_text(basic_dense<Index> const& s, plan_fault const& f) {
  using enum plan_fault::kind;
  auto const stage = [](stage_id i) { return "stage " + std::to_string(index(i)); };
  auto const node = [&] { return "node " + s.label(f.node); };
  auto const value = [&] { return value_label(s, f.value); };
  switch (f.what) {
    case unknown_stage:
      return "the plan has no " + stage(f.stage);
    case unknown_node:
      return stage(f.stage) + " lists node #" + std::to_string(f.node) + ", which the graph lacks";
    case unknown_value:
      return stage(f.stage) + " names " + value() + ", which the graph lacks";
    case order:
      return stage(f.stage) + " is not exactly once in the order of stages";
    case missing_node:
      return node() + " is in no stage";
    case repeated_node:
      return node() + " is in " + stage(f.stage) + " and again in " + stage(f.other);
    case unneeded_copy:
      return stage(f.stage) + " has a copy of " + node() + " that nothing in it reads";
    case split_group:
      return node() + " is in " + stage(f.stage) + ", one that must share its stage in " + stage(f.other);
    case early_node:
      return node() + " in " + stage(f.stage) + " runs before one that it must follow";
    case absent_value:
      return node() + " in " + stage(f.stage) + " needs " + value() + ", which the stage does not have there";
    case repeated_value:
      return value() + " is twice in a list of " + stage(f.stage);
    case misplaced_value:
      return value() + " is given to " + stage(f.stage) + " in the wrong list, or made there";
    case unused_value:
      return stage(f.stage) + " is given " + value() + ", which nothing in it reads";
    case foreign_output:
      return stage(f.stage) + " gives " + value() + ", which it does not make";
    case missing_output:
      return "no stage gives " + value() + ", which is received";
    case unneeded_output:
      return stage(f.stage) + " gives " + value() + ", which nobody receives";
    case missing_transfer:
      return "the plan lacks the transfer of " + value() + " from " + stage(f.stage) + " to " +
             stage(f.other);
    case unneeded_transfer:
      return "the plan has a transfer of " + value() + " from " + stage(f.stage) + " to " + stage(f.other) +
             ", which is none";
    case backward_transfer:
      return value() + " goes from " + stage(f.stage) + " to " + stage(f.other) + ", which runs before it";
  }
  return {};
}

}  // namespace cleave::detail
