// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/model/validity.hpp"

namespace cleave::inline v0_2 {

/// One piece of a cut graph. Nodes and values are positions in the snapshot that was planned.
template <std::unsigned_integral Index>
struct basic_stage {
  std::vector<Index> nodes;    ///< in program order; a replicable node is in each stage that needs it
  std::vector<Index> inputs;   ///< values received from the caller or from other stages
  std::vector<Index> state;    ///< parameters, buffers and constants that the stage holds itself
  std::vector<Index> outputs;  ///< values that other stages or the caller receive

  bool operator==(basic_stage const&) const = default;
};

/// A value that one stage sends to another.
template <std::unsigned_integral Index>
struct basic_transfer {
  Index value;
  stage_id from, to;

  bool operator==(basic_transfer const&) const = default;
};

/// A cut graph as plain data: its stages, their order and the values that they exchange. Stage i is part i of
/// the partition. A plan can be compared, stored and printed. It does not depend on the IR into which its
/// stages are written.
template <std::unsigned_integral Index>
struct basic_plan {
  std::vector<basic_stage<Index>> stages;
  std::vector<stage_id> order;  ///< topological: each stage comes after all that it receives from
  /// The values sent between stages. Sorted by receiver in `order`, then by position among the receiver's
  /// inputs.
  std::vector<basic_transfer<Index>> transfers;
  /// The last version of each state value that a node writes, sent from its writer to every other stage that
  /// holds the state.
  std::vector<basic_transfer<Index>> updates;

  bool operator==(basic_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

using stage_plan = basic_stage<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

using transfer = basic_transfer<std::uint32_t>;
using plan = basic_plan<std::uint32_t>;

/// The order in which stages are emitted. Every policy is topological: a stage comes after all stages that it
/// receives from. The policies differ in which of the ready stages comes next.
enum class order : std::uint8_t {
  program,   ///< the ready stage whose first node comes first in the graph
  fifo,      ///< the stage that has been ready longest
  upstream,  ///< the stage that became ready last, as in torch.fx's split_module; independent parts come out
             ///< reversed
  priority,  ///< the ready stage with the smallest priority number; ties are broken as in `program`
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the parts in the order that `policy` gives, by Kahn's algorithm (CACM 5(11), 1962). The result has
/// fewer entries than there are parts if these depend on each other in a cycle. `priority` has one number for
/// each part; parts beyond its end get the largest number. O(parts log parts + dependencies between parts).
inline std::vector<stage_id> emission_order(part_graph const& parts, order policy,
                                            std::span<std::uint32_t const> priority = {}) {
  auto const count = static_cast<std::uint32_t>(parts.first_node.size());
  std::vector<std::uint32_t> missing(count), by_appearance;
  for (auto const to : parts.dependents.item) ++missing[to];
  for (std::uint32_t i = 0; i < count; ++i) by_appearance.push_back(i);
  auto const appears = [&](std::uint32_t a, std::uint32_t b) {
    auto const first = parts.first_node[a], second = parts.first_node[b];
    return first != second ? first < second : a < b;
  };
  std::sort(by_appearance.begin(), by_appearance.end(), appears);

  auto by_rank = by_appearance;
  auto const number = [&](std::uint32_t part) {
    return part < priority.size() ? priority[part] : none<std::uint32_t>;
  };
  if (policy == order::priority)
    std::sort(by_rank.begin(), by_rank.end(), [&](std::uint32_t a, std::uint32_t b) {
      return number(a) != number(b) ? number(a) < number(b) : appears(a, b);
    });
  std::vector<std::size_t> rank(count);
  for (std::size_t i = 0; i < count; ++i) rank[by_rank[i]] = i;
  std::vector<std::size_t> ready;                              // min-heap of turns
  std::vector<std::uint32_t> part_at(count + std::size_t{1});  // by turn: the part that has it
  std::size_t arrivals = 0;
  auto const arrive = [&](std::uint32_t part) {
    ++arrivals;
    auto const turn = policy == order::upstream ? count - arrivals
                      : policy == order::fifo   ? arrivals
                                                : rank[part];
    part_at[turn] = part;
    ready.push_back(turn);
    std::push_heap(ready.begin(), ready.end(), std::ranges::greater());
  };
  for (auto const part : by_appearance)
    if (missing[part] == 0) arrive(part);

  std::vector<stage_id> sorted;
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::ranges::greater());
    auto const part = part_at[ready.back()];
    ready.pop_back();
    sorted.push_back(stage_id{part});
    for (auto const to : parts.dependents[part])
      if (--missing[to] == 0) arrive(to);
  }
  return sorted;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The order in which a stage lists its inputs and its state.
enum class input_order : std::uint8_t {
  first_use,   ///< in the order in which its nodes first read them
  definition,  ///< the graph's inputs in the caller's order, then values in the order in which nodes make
               ///< them
};

/// The order in which a stage lists its outputs.
enum class output_order : std::uint8_t {
  production,  ///< in the order in which its nodes make them
  first_use,   ///< in the order in which other stages first read them; values that only the caller reads come
               ///< last
};

/// The treatment of stages that would run under another global state (such as gradient mode) than in the
/// graph. There are two cases. (1) A stage with nodes from before the first setting of a state comes after a
/// stage that sets it. (2) The last stage that sets a state leaves another value than the graph does.
/// - `refused`: in case 1 another order is chosen; if no order works, an error is thrown. In case 2 one more
///   setting is appended.
/// - `accepted`: nothing is done, as in torch.fx.
enum class late_settings : std::uint8_t { refused, accepted };

/// Options of `make_plan`.
struct plan_options {
  order stages = order::program;
  output_order outputs = output_order::production;
  input_order inputs = input_order::first_use;
  std::vector<std::uint32_t> priority = {};  ///< by part, for `order::priority`: the smallest comes first
  late_settings settings = late_settings::refused;  ///< only for graphs with scopes
};
}  // namespace cleave
