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
#include "cleave/schedule/memory/detail/saved_intervals.hpp"
#include "cleave/schedule/memory/memory_plan.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave {

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

namespace cleave::detail {

/// Thrown for a message or local edge of unknown size; the witness is the edge.
using unknown_bytes_error = tagged_error<struct unknown_bytes_tag, stage_edge>;

/// Finds the values that each rank keeps and their lifetimes, for `plan_memory`.
class slot_analysis {
 public:
  slot_analysis(schedule const& s, schedule_bytes const& bytes, memory_plan_options const& options)
      : schedule_(s),
        bytes_(bytes),
        options_(options),
        requests_(s),
        cells_(requests_.events(), nowhere),
        left_(requests_.events(), nowhere),
        values_(s.ranks.size()) {
    for (auto const& row : s.ranks) {
      std::uint32_t cell = 0;
      each_cell(std::span(row), [&](action const& head, std::span<action const> parts) {
        each_action(parts.empty() ? std::span(&head, 1) : parts, [&](action const& a) { note(a, cell); });
        ++cell;
      });
    }
  }

  /// Returns the values of each rank in the order in which their lifetimes begin, still without slots and
  /// offsets.
  std::vector<std::vector<slot_value>> take() {
    for (std::uint32_t r = 0; r < values_.size(); ++r)
      for (auto const& s : saved_intervals(schedule_, r, bytes_))
        values_[r].push_back({.use = static_cast<slot_use>(s.what),
                              .stage = s.stage,
                              .microbatch = s.microbatch,
                              .alive = s.alive,
                              .bytes = s.bytes});
    for (std::uint32_t e = 0; e < schedule_.place.edges.size(); ++e)
      for (std::uint32_t m = 0; m < schedule_.microbatches; ++m) add_edge(e, microbatch_id{m});
    for (auto& values : values_)
      std::ranges::sort(values, {}, [](slot_value const& v) {
        return std::pair(std::pair(v.alive, v.use), std::pair(std::pair(v.stage, v.microbatch), v.peer));
      });
    return std::move(values_);
  }

 private:
  static constexpr std::uint32_t nowhere = 0xffffffff;

  std::uint32_t& forward_cell(stage_id s, microbatch_id m) {
    return cells_[requests_.forward_done(index(s), m)];
  }
  std::uint32_t& gradient_cell(stage_id s, microbatch_id m) {
    return cells_[requests_.gradient_done(index(s), m)];
  }

  void note(action const& a, std::uint32_t cell) {
    using enum action_kind;
    if (a.kind == action_kind::forward) forward_cell(a.stage, a.microbatch) = cell;
    if (a.kind == backward || a.kind == input_gradient) gradient_cell(a.stage, a.microbatch) = cell;
    if (!is_message(a.kind)) return;
    auto const end = requests_.message_end(a);
    if (end == schedule_dependencies::none) return;
    if (!is_wait_send(a.kind)) cells_[end] = cell;
    if (!is_receive(a.kind)) left_[end] = (std::max)(left_[end] == nowhere ? 0 : left_[end], cell);
  }

  /// Adds the values that move along an edge for one microbatch, at both ends.
  void add_edge(std::uint32_t edge, microbatch_id m) {
    auto const e = schedule_.place.edges[edge];
    auto const bytes = bytes_.of_edge(edge);
    auto const made = forward_cell(e.from, m), used = forward_cell(e.to, m);
    auto const gradient_made = gradient_cell(e.to, m), gradient_used = gradient_cell(e.from, m);
    auto const input_end =
        options_.inputs == input_use::by_forward || gradient_made == nowhere ? used : gradient_made;
    if (!requests_.crosses_ranks(edge)) {
      add(e, e.from, slot_use::local_activation, m, made, input_end, bytes.activation);
      add(e, e.to, slot_use::local_gradient, m, gradient_made, gradient_used, bytes.gradient);
      return;
    }
    auto const sent = requests_.send_done(edge, edge_flow::activations, m);
    add(e, e.from, slot_use::sent_activation, m, made, left_[sent], bytes.activation);
    add(e, e.to, slot_use::received_activation, m, cells_[requests_.receive_of(sent)], input_end,
        bytes.activation);
    auto const sent_back = requests_.send_done(edge, edge_flow::gradients, m);
    add(e, e.to, slot_use::sent_gradient, m, gradient_made, left_[sent_back], bytes.gradient);
    add(e, e.from, slot_use::received_gradient, m, cells_[requests_.receive_of(sent_back)], gradient_used,
        bytes.gradient);
  }

  void add(stage_edge e, stage_id here, slot_use use, microbatch_id m, std::uint32_t first,
           std::uint32_t last, std::uint64_t bytes) {
    if (first == nowhere || last == nowhere) return;  // the schedule has no messages, or no backward passes
    bool const is_gradient = use == slot_use::sent_gradient || use == slot_use::received_gradient ||
                             use == slot_use::local_gradient;
    if (bytes == 0)
      throw unknown_bytes_error("memory plan: the size in bytes is unknown for the " +
                                    std::string(is_gradient ? "gradient" : "activation") + " from stage " +
                                    std::to_string(index(e.from)) + " to stage " +
                                    std::to_string(index(e.to)) + "; set the bytes of each edge",
                                e);
    values_[index(schedule_.place.rank_of[index(here)])].push_back({.use = use,
                                                                    .stage = here,
                                                                    .microbatch = m,
                                                                    .peer = here == e.from ? e.to : e.from,
                                                                    .alive = {first, last},
                                                                    .bytes = bytes});
  }

  schedule const& schedule_;
  schedule_bytes const& bytes_;
  memory_plan_options const& options_;
  schedule_dependencies requests_;
  std::vector<std::uint32_t> cells_;  ///< the cell in which each event happens
  std::vector<std::uint32_t> left_;  ///< for each send event: the cell after which the sent value is released
  std::vector<std::vector<slot_value>> values_;
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

}  // namespace cleave::detail

namespace cleave {

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
  if (auto const f = detail::find_schedule_bytes_fault(bytes, s.place, count_actions(s)))
    throw detail::schedule_bytes_error(*f);
  expects(detail::one_or_each(options.memory_limit).covers(s.ranks.size()),
          "plan_memory: memory_limit needs one entry for each rank, one for all, or none");
  memory_plan made{options.alignment, {}};
  for (auto& values : detail::slot_analysis(s, bytes, options).take())
    made.ranks.push_back(detail::placed_values(std::move(values), options.alignment));
  if (auto const f = detail::find_slot_overflow(made, options.memory_limit)) throw detail::slot_error(*f);
  return made;
}

}  // namespace cleave
