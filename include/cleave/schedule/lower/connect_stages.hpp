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

namespace cleave {

/// What one stage passes to another for each microbatch, as one message: a value with several readers in one
/// stage is in it once.
struct stage_message {
  stage_edge edge;
  std::vector<std::size_t> values;  ///< edges of the transport, one for each value, by output
  std::uint64_t bytes = 0;          ///< of all values, 2^64 - 1 at most; unknown ones count for nothing

  bool operator==(stage_message const&) const = default;
};

/// The messages of a transport, ascending by edge; what comes from the caller or goes there is none. A value
/// that several stages read is in a message to each. O(edges log edges). \throws dataflow_error
inline std::vector<stage_message> stage_messages(dataflow const& t) {
  if (auto f = detail::find_dataflow_fault(t)) throw detail::dataflow_error(std::move(*f));
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

namespace cleave::detail {

/// A schedule for other stages than its transport has. The witness: how many stages the transport has.
using stage_count_error = tagged_error<struct stage_count_tag, std::uint32_t>;

}  // namespace cleave::detail

namespace cleave {

/// The schedule with the edges that its stages have in truth, instead of a chain: stages may feed any later
/// ones. Lowered, a stage sends what it makes to each reader on another rank; each sends a gradient back, and
/// the pass that adds them up comes after all of them. Whether the lists are in an order that allows it,
/// `schedule_faults` tells; those of a chain are, wherever stages feed higher ones alone and each the next.
/// O(stages + edges log edges). \throws dataflow_error, stage_count_error
inline schedule connect_stages(schedule s, dataflow const& t) {
  if (t.stages != s.place.stages())
    throw detail::stage_count_error("schedule: it has " + std::to_string(s.place.stages()) +
                                        " stages and its transport " + std::to_string(t.stages) +
                                        "; make it for as many",
                                    t.stages);
  s.place.edges.clear();
  for (auto const& m : stage_messages(t)) s.place.edges.push_back(m.edge);
  return s;
}

}  // namespace cleave
