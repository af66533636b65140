// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// The values that one stage passes to another for each microbatch, as one message. A value with several
/// readers in the same stage is included once.
struct stage_message {
  stage_edge edge;
  std::vector<std::size_t> values;  ///< indices into the edges of the dataflow, one per value, by output
  std::uint64_t bytes = 0;          ///< of all values, at most 2^64 - 1; unknown sizes count as 0

  bool operator==(stage_message const&) const = default;
};

/// Returns the messages between the stages of a dataflow, ascending by edge. Edges from or to the caller are
/// not messages. A value that several stages read is in one message to each. O(edges log edges).
/// \throws dataflow_error
inline std::vector<stage_message> stage_messages(dataflow const& t) {
  if (auto const f = detail::find_dataflow_fault(t)) throw detail::dataflow_error(*f);
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < t.edges.size(); ++i)
    if (t.edges[i].from != the_caller && t.edges[i].to != the_caller) order.push_back(i);
  std::ranges::sort(order, {}, [&](std::size_t i) {
    auto const& e = t.edges[i];
    return std::tuple(e.from, e.to, e.output, i);
  });
  std::vector<stage_message> messages;
  for (auto const i : order) {
    auto const& e = t.edges[i];
    stage_edge const edge{e.from, e.to};
    if (messages.empty() || messages.back().edge != edge) messages.push_back({edge, {}, 0});
    auto& [_, values, bytes] = messages.back();
    if (!values.empty() && t.edges[values.back()].output == e.output) continue;
    values.push_back(i);
    bytes += (std::min)(e.bytes, (std::numeric_limits<std::uint64_t>::max)() - bytes);
  }
  return messages;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if the number of stages of a schedule differs from that of its dataflow. The witness is the number
/// of stages of the dataflow.
using stage_count_error = tagged_error<struct stage_count_tag, std::uint32_t>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the schedule with the edges of the dataflow instead of those of a chain, so that a stage may feed
/// any later stages.
///
/// In the lowered schedule, a stage sends each output to every reader on another rank. Each reader sends a
/// gradient back. The pass that adds the gradients runs after all of them. `schedule_faults` reports whether
/// the order of the lists permits this. Orders made for a chain do if every stage feeds the next stage and no
/// stage feeds a lower one. O(stages + edges log edges).
/// \throws dataflow_error, stage_count_error
inline schedule connect_stages(schedule s, dataflow const& t) {
  if (t.stages != s.place.stages())
    throw detail::stage_count_error("schedule: it has " + std::to_string(s.place.stages()) +
                                        " stages, but the dataflow has " + std::to_string(t.stages) +
                                        "; make the schedule for this number of stages",
                                    t.stages);
  s.place.edges.clear();
  for (auto const& m : stage_messages(t)) s.place.edges.push_back(m.edge);
  return s;
}

}  // namespace cleave
