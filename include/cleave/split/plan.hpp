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

namespace cleave {

/// One piece of a cut graph, by node and value positions of the snapshot it was planned on.
template <std::unsigned_integral Index>
struct basic_stage {
  std::vector<Index> nodes;    ///< in program order; replicated ones are in each stage that needs them
  std::vector<Index> inputs;   ///< values that the caller or other stages pass
  std::vector<Index> state;    ///< parameters, buffers and constants that it holds
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

/// How a graph is cut, as plain data: comparable, printable, independent of what it is written out into.
/// Stage i is part i of the partition.
template <std::unsigned_integral Index>
struct basic_plan {
  std::vector<basic_stage<Index>> stages;
  std::vector<stage_id> order;  ///< the stages, each after those it receives from
  /// Who feeds whom: by receiving stage in `order`, then by its inputs.
  std::vector<basic_transfer<Index>> transfers;
  /// A state's last value, from its writer to each other stage that holds it.
  std::vector<basic_transfer<Index>> updates;

  bool operator==(basic_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

using stage_plan = basic_stage<std::uint32_t>;

}  // namespace cleave::detail

namespace cleave {

using transfer = basic_transfer<std::uint32_t>;
using plan = basic_plan<std::uint32_t>;

/// In which order stages are emitted. Each policy puts a stage after those it receives from; they differ in
/// which of the stages that are ready comes next.
enum class order : std::uint8_t {
  program,   ///< the one whose first node comes first in the graph
  fifo,      ///< the one that has been ready longest
  upstream,  ///< the one that became ready last, as torch.fx's split_module has it: independent parts come
             ///< out reversed
  priority,  ///< the one with the least priority number; of equal ones, as `program`
};

}  // namespace cleave

namespace cleave::detail {

/// The parts in an order that each policy allows; shorter than there are parts if they need each other in a
/// cycle. `priority` is the number of each part; parts beyond it have the largest. O(parts log parts +
/// needs). Kahn, CACM 5(11), 1962.
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
  std::vector<std::size_t> ready;                              // a heap of turns, the smallest on top
  std::vector<std::uint32_t> part_at(count + std::size_t{1});  // of a turn
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

namespace cleave {

/// In which order a stage lists the values it is given, and its state.
enum class input_order : std::uint8_t {
  first_use,   ///< as its nodes first read them
  definition,  ///< the caller's in the caller's order, then as the nodes of the graph make them
};

/// In which order a stage lists the values it gives.
enum class output_order : std::uint8_t {
  production,  ///< as its nodes make them
  first_use,   ///< as they are first read outside the stage; those that only the caller reads come last
};

/// What happens where a stage that runs before any node sets a state comes after one that sets it, or where
/// the last stage that sets one leaves another than the graph does: another order, and where there is none
/// an error; and one setting more at the end. Or nothing, as torch.fx has it.
enum class late_settings : std::uint8_t { refused, accepted };

struct plan_options {
  order stages = order::program;
  output_order outputs = output_order::production;
  input_order inputs = input_order::first_use;
  std::vector<std::uint32_t> priority = {};  ///< of a part, for `order::priority`: the least comes first
  late_settings settings = late_settings::refused;  ///< in a graph with scopes
};
}  // namespace cleave
