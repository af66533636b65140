// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/memory/detail/saved_intervals.hpp"
#include "cleave/schedule/memory/memory_plan.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2 {

/// The time until which a stage needs its inputs from other stages.
enum class input_use : std::uint8_t {
  until_gradient,  ///< until B or I; I copies what W needs of them into the state saved for W
  by_forward,      ///< until F, which copies what the backward pass needs
};

/// Options of `plan_memory`.
struct memory_plan_options {
  std::uint64_t alignment = 256;  ///< of offsets, in bytes; a power of two
  input_use inputs = input_use::until_gradient;
  std::vector<std::uint64_t> memory_limit =
      {};  ///< bytes per rank: one for each, one for all, or empty for no limit
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for a message or local edge of unknown size; the witness is the edge.
using unknown_bytes_error = tagged_error<struct unknown_bytes_tag, stage_edge>;

/// Finds the values that one rank keeps and their lifetimes, for `plan_memory`. Its tables are as small as
/// the list of the rank. Precondition: the schedule has no fault.
class slot_analysis {
 public:
  /// Keeps references to all arguments. O(actions of the rank + edges).
  slot_analysis(schedule const& s, rank_id rank, schedule_bytes const& bytes,
                memory_plan_options const& options)
      : schedule_(s), rank_(rank), bytes_(bytes), options_(options), stages_(s.ranks[index(rank)]) {
    for (std::uint32_t e = 0; e < s.place.edges.size(); ++e)
      if (is_here(s.place.edges[e].from) || is_here(s.place.edges[e].to)) edges_.push_back(e);
    passes_.resize(stages_.count() * std::size_t{s.microbatches});
    messages_.resize(edges_.size() * std::size_t{s.microbatches});
    std::uint32_t cell = 0;
    each_cell(row(), [&](action const& head, std::span<action const> parts) {
      each_action(parts.empty() ? std::span(&head, 1) : parts, [&](action const& a) { note(a, cell); });
      ++cell;
    });
  }

  /// Returns the values in the order in which their lifetimes begin, still without slots and offsets.
  std::vector<slot_value> take() {
    auto const saved = saved_intervals(schedule_, index(rank_), bytes_);
    values_.reserve(saved.size() + 2 * passes_.size() + 2 * messages_.size());
    for (auto const& s : saved)
      values_.push_back({.use = static_cast<slot_use>(s.what),
                         .stage = s.stage,
                         .microbatch = s.microbatch,
                         .alive = s.alive,
                         .bytes = s.bytes});
    for (std::size_t e = 0; e < edges_.size(); ++e)
      for (std::uint32_t m = 0; m < schedule_.microbatches; ++m) add_edge(e, microbatch_id{m});
    std::ranges::sort(values_, {}, [](slot_value const& v) {
      return std::pair(std::pair(v.alive, v.use), std::pair(std::pair(v.stage, v.microbatch), v.peer));
    });
    return std::move(values_);
  }

  /// A message or local edge of unknown size: the index of the edge, and true for its gradient.
  using unknown_size = std::pair<std::uint32_t, bool>;
  /// Returns the first value of unknown size, or nothing. Precondition: the values have been taken.
  std::optional<unknown_size> unknown() const { return unknown_; }

 private:
  static constexpr std::uint32_t nowhere = 0xffffffff;
  /// The cells of F, and of B or I.
  struct pass_cells {
    std::uint32_t forward = nowhere, gradient = nowhere;
  };
  /// The cells in which this rank's ends of the two messages along an edge begin, and after which the sent
  /// value is released.
  struct message_cells {
    std::uint32_t begun[2] = {nowhere, nowhere}, left[2] = {nowhere, nowhere};  // by flow
  };

  std::span<action const> row() const { return schedule_.ranks[index(rank_)]; }
  bool is_here(stage_id s) const { return schedule_.place.rank_of[index(s)] == rank_; }
  /// Returns the cells of a pass; those of a stage without actions on this rank are `nowhere`.
  pass_cells cells_of(stage_id s, microbatch_id m) const {
    auto const number = stages_.find(s);
    return number ? passes_[*number * std::size_t{schedule_.microbatches} + index(m)] : pass_cells{};
  }
  message_cells& cells_of(std::size_t e, microbatch_id m) {
    return messages_[e * std::size_t{schedule_.microbatches} + index(m)];
  }

  void note(action const& a, std::uint32_t cell) {
    using enum action_kind;
    if (is_message(a.kind)) return note_message(a, cell);
    if (!is_compute(a.kind) || a.kind == weight_gradient) return;
    auto& pass = passes_[stages_.number(a.stage) * std::size_t{schedule_.microbatches} + index(a.microbatch)];
    (a.kind == action_kind::forward ? pass.forward : pass.gradient) = cell;
  }

  void note_message(action const& a, std::uint32_t cell) {
    bool const activation = is_activation_message(a.kind), from_here = activation != is_receive(a.kind);
    stage_edge const edge{from_here ? a.stage : a.peer, from_here ? a.peer : a.stage};
    auto const at =
        std::ranges::lower_bound(edges_, edge, {}, [&](std::uint32_t e) { return schedule_.place.edges[e]; });
    auto& cells = cells_of(static_cast<std::size_t>(at - edges_.begin()), a.microbatch);
    auto const flow = activation ? 0 : 1;
    if (!is_wait_send(a.kind)) cells.begun[flow] = cell;
    if (!is_receive(a.kind)) cells.left[flow] = (std::max)(cells.left[flow] + 1, cell + 1) - 1;
  }

  /// Adds the values of this rank that move along an edge for one microbatch.
  void add_edge(std::size_t at, microbatch_id m) {
    auto const number = edges_[at];
    auto const e = schedule_.place.edges[number];
    auto const bytes = bytes_.of_edge(number);
    auto const maker = cells_of(e.from, m), reader = cells_of(e.to, m);
    auto const& messages = cells_of(at, m);
    auto const input_end = options_.inputs == input_use::by_forward || reader.gradient == nowhere
                               ? reader.forward
                               : reader.gradient;
    if (is_here(e.from) && is_here(e.to)) {
      add(number, e.from, slot_use::local_activation, m, maker.forward, input_end, bytes.activation);
      add(number, e.to, slot_use::local_gradient, m, reader.gradient, maker.gradient, bytes.gradient);
    } else if (is_here(e.from)) {
      add(number, e.from, slot_use::sent_activation, m, maker.forward, messages.left[0], bytes.activation);
      add(number, e.from, slot_use::received_gradient, m, messages.begun[1], maker.gradient, bytes.gradient);
    } else {
      add(number, e.to, slot_use::received_activation, m, messages.begun[0], input_end, bytes.activation);
      add(number, e.to, slot_use::sent_gradient, m, reader.gradient, messages.left[1], bytes.gradient);
    }
  }

  void add(std::uint32_t number, stage_id here, slot_use use, microbatch_id m, std::uint32_t first,
           std::uint32_t last, std::uint64_t bytes) {
    auto const e = schedule_.place.edges[number];
    if (first == nowhere || last == nowhere) return;  // the schedule has no messages, or no backward passes
    bool const is_gradient = use == slot_use::sent_gradient || use == slot_use::received_gradient ||
                             use == slot_use::local_gradient;
    unknown_size const value{number, is_gradient};
    if (bytes == 0 && (!unknown_ || value < *unknown_)) unknown_ = value;
    values_.push_back({.use = use,
                       .stage = here,
                       .microbatch = m,
                       .peer = here == e.from ? e.to : e.from,
                       .alive = {first, last},
                       .bytes = bytes});
  }

  schedule const& schedule_;
  rank_id rank_;
  schedule_bytes const& bytes_;
  memory_plan_options const& options_;
  rank_stages stages_;
  std::vector<std::uint32_t> edges_;     ///< those with an end on this rank, ascending
  std::vector<pass_cells> passes_;       ///< by number of the stage and microbatch
  std::vector<message_cells> messages_;  ///< by position in `edges_` and microbatch
  std::vector<slot_value> values_;
  std::optional<unknown_size> unknown_;
};

/// Gives the values of a rank slots and offsets. Precondition: they are ordered by the beginning of their
/// lifetimes. O(values log values). \throws memory_request_error
inline rank_slots placed_values(std::vector<slot_value> values, std::uint64_t alignment) {
  rank_slots made{std::move(values)};
  std::vector<memory_request> requests;
  std::array<std::vector<lifetime>, slot_use_names.size()> alive;
  for (auto const& v : made.values) {
    requests.push_back({v.alive, v.bytes});
    alive[static_cast<std::size_t>(v.use)].push_back(v.alive);
  }
  auto const layout = place_in_memory(requests, alignment);
  made.bytes = layout.bytes;
  made.least_bytes = layout.least_bytes;
  auto const before = last_allocations(requests, layout.offsets);
  std::array<std::vector<std::uint32_t>, slot_use_names.size()> slots;
  for (std::size_t u = 0; u < slots.size(); ++u) {
    slots[u] = share_slots(alive[u]);
    made.counts[u] = count_slots(slots[u]);
    std::ranges::reverse(slots[u]);  // popped from the back below
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto& v = made.values[i];
    auto& of_use = slots[static_cast<std::size_t>(v.use)];
    v.offset = layout.offsets[i];
    v.after = before[i];
    v.slot = of_use.back();
    of_use.pop_back();
  }
  return made;
}

/// Checks what `plan_memory` needs besides a schedule without faults. \throws schedule_bytes_error
inline void require_memory_arguments(schedule const& s, schedule_bytes const& bytes,
                                     memory_plan_options const& options) {
  if (auto const f = find_schedule_bytes_fault(bytes, s.place, count_actions(s)))
    throw schedule_bytes_error(*f);
  expects(one_or_each(options.memory_limit).covers(s.ranks.size()),
          "plan_memory: memory_limit needs one entry for each rank, one for all, or none");
}

/// \throws unknown_bytes_error for an edge
[[noreturn]] inline void refuse_unknown_bytes(schedule const& s, slot_analysis::unknown_size of) {
  auto const& e = s.place.edges[of.first];
  throw unknown_bytes_error("memory plan: the size in bytes is unknown for the " +
                                std::string(of.second ? "gradient" : "activation") + " from stage " +
                                std::to_string(index(e.from)) + " to stage " + std::to_string(index(e.to)) +
                                "; set the bytes of each edge",
                            e);
}

/// Plans the memory of one rank, as `plan_memory` does. Precondition: the schedule has no fault, and the
/// arguments pass `require_memory_arguments`. O(actions of the rank log actions + edges).
/// \throws unknown_bytes_error, memory_request_error
inline rank_slots plan_rank_memory(schedule const& s, rank_id r, schedule_bytes const& bytes,
                                   memory_plan_options const& options) {
  slot_analysis found(s, r, bytes, options);
  auto values = found.take();
  if (auto const unknown = found.unknown()) refuse_unknown_bytes(s, *unknown);
  return placed_values(std::move(values), options.alignment);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Plans the memory of every rank: saved activations, received values, sent values, and values passed between
/// stages of the same rank. Sent values are kept until the send has completed. If the schedule has no
/// messages, values that cross ranks are left out; so are saved activations of 0 bytes.
///
/// A value is kept from the cell that produces it to the last cell that uses it. The first writer of a value
/// waits until cell `after` is done. An executor needs to know no more than this. O(actions log actions).
/// \throws schedule_error, schedule_bytes_error, memory_request_error
/// \throws unknown_bytes_error if an edge has no size
/// \throws slot_error if a rank needs more than its limit
inline memory_plan plan_memory(schedule const& s, schedule_bytes const& bytes,
                               memory_plan_options const& options = {}) {
  detail::require_schedule(s, {.passes = passes_of(s)});
  detail::require_memory_arguments(s, bytes, options);
  memory_plan made{options.alignment, {}};
  std::optional<detail::slot_analysis::unknown_size> unknown;  // of the lowest edge
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
    detail::slot_analysis found(s, rank_id{r}, bytes, options);
    auto values = found.take();
    if (auto const here = found.unknown(); here && (!unknown || *here < *unknown)) unknown = here;
    if (!unknown) made.ranks.push_back(detail::placed_values(std::move(values), options.alignment));
  }
  if (unknown) detail::refuse_unknown_bytes(s, *unknown);
  if (auto const f = detail::find_slot_overflow(made, options.memory_limit)) throw detail::slot_error(*f);
  return made;
}

}  // namespace cleave
