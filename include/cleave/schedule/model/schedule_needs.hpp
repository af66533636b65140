// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/edge_numbers.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::detail {

/// Whether anything is sent or received, so that what crosses ranks must be. O(actions).
inline bool has_messages(schedule const& s) {
  for (auto const& row : s.ranks)
    for (action const& a : row)
      if (is_message(a.kind)) return true;
  return false;
}

}  // namespace cleave::detail

namespace cleave {

/// Which way something goes along an edge.
enum class edge_flow : std::uint8_t { activations, gradients };

}  // namespace cleave

namespace cleave::detail {

/// What happens when a schedule runs, as numbers: a pass of a stage for a microbatch is done, or one end of a
/// message is. What each action needs, in these numbers.
class schedule_needs {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  /// Refers to the schedule. Precondition: the actions are not far fewer than there must be.
  /// \throws placement_error, schedule_count_error
  explicit schedule_needs(schedule const& s)
      : place_(s.place), edges_(s.place), microbatches_(s.microbatches), messages_(has_messages(s)) {
    if (!fits(s))
      throw schedule_count_error("schedule: " + std::to_string(s.place.stages()) + " stages, " +
                                     std::to_string(s.place.edges.size()) + " edges and " +
                                     std::to_string(s.microbatches) +
                                     " microbatches are too many for so few actions",
                                 s.microbatches);
    pairs_ = s.place.stages() * s.microbatches;
    first_end_ = 3 * pairs_ + pairs_ % 2;
    events_ = first_end_ + 4 * static_cast<std::uint32_t>(s.place.edges.size()) * s.microbatches;
  }

  /// Whether there are so many actions that what must happen fits in memory beside them. O(ranks).
  static bool fits(schedule const& s) {
    std::uint64_t actions = 0;
    for (auto const& row : s.ranks) actions += row.size();
    std::uint64_t const kinds = 3 * std::uint64_t{s.place.stages()} + 4 * s.place.edges.size();
    std::uint64_t const room = (std::min)(64 * actions + (std::uint64_t{1} << 20), std::uint64_t{none} - 2);
    return s.microbatches == 0 || kinds <= room / s.microbatches;
  }

  edge_numbers const& edges() const { return edges_; }
  bool messages() const { return messages_; }
  std::uint32_t events() const { return events_; }
  /// How many pairs of a stage and a microbatch there are.
  std::uint32_t pairs() const { return pairs_; }

  /// Whether stage and microbatch are there.
  bool in_range(action const& a) const {
    return index(a.stage) < place_.stages() && index(a.microbatch) < microbatches_;
  }
  std::uint32_t forward_done(std::uint32_t s, microbatch_id m) const { return s * microbatches_ + index(m); }
  /// Of B or I.
  std::uint32_t gradient_done(std::uint32_t s, microbatch_id m) const { return pairs_ + forward_done(s, m); }
  std::uint32_t half_done(std::uint32_t s, microbatch_id m) const { return 2 * pairs_ + forward_done(s, m); }

  /// The sending end of what moves along an edge; the receiving end is the next number.
  std::uint32_t send_done(std::uint32_t edge, edge_flow flow, microbatch_id m) const {
    return first_end_ + 2 * ((2 * edge + static_cast<std::uint32_t>(flow)) * microbatches_ + index(m));
  }
  /// The pass that makes what a send takes, or that uses what a receive brings.
  std::uint32_t pass_of(action const& message) const {
    return is_activation_message(message.kind) ? forward_done(index(message.stage), message.microbatch)
                                               : gradient_done(index(message.stage), message.microbatch);
  }
  /// Where a pass is done.
  rank_id rank_of(std::uint32_t pass) const { return place_.rank_of[pass % pairs_ / microbatches_]; }
  bool is_end_of_message(std::uint32_t event) const { return event >= first_end_; }
  static constexpr std::uint32_t receive_of(std::uint32_t send) { return send + 1; }
  /// The other end of a message; those that send have even numbers.
  static constexpr std::uint32_t other_end(std::uint32_t event) { return event ^ 1; }

  /// The edge along which a message goes, from the stage before to the stage after in either direction;
  /// `none` where there is none.
  std::uint32_t edge_of(action const& a) const {
    if (index(a.peer) >= place_.stages() || index(a.stage) >= place_.stages()) return none;
    bool const here_first = is_activation_message(a.kind) != is_receive(a.kind);
    auto const e =
        here_first ? edges_.find(index(a.stage), index(a.peer)) : edges_.find(index(a.peer), index(a.stage));
    return e.value_or(none);
  }
  bool crosses_ranks(std::uint32_t edge) const {
    auto const& e = place_.edges[edge];
    return place_.rank_of[index(e.from)] != place_.rank_of[index(e.to)];
  }
  /// The end of the message that a send, its wait, or a receive is about; `none` where stages of one rank, or
  /// no edge, are between its stages.
  std::uint32_t message_end(action const& a) const {
    if (!in_range(a)) return none;
    auto const e = edge_of(a);
    if (e == none || !crosses_ranks(e)) return none;
    auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
    auto const send = send_done(e, flow, a.microbatch);
    return is_receive(a.kind) ? receive_of(send) : send;
  }

  /// `f(event)` for what a pass cannot begin without, until one returns false. Of what comes from another
  /// rank: both ends of the message, or where nothing is sent at all, the pass that makes it.
  template <class F>
  bool each_need(action const& a, F f) const {
    using enum action_kind;
    std::uint32_t const s = index(a.stage);
    if (a.kind == weight_gradient) return f(half_done(s, a.microbatch));
    if (a.kind == action_kind::forward) {
      for (auto const e : edges_.to(s))
        if (!need_along(e, edge_flow::activations, index(place_.edges[e].from), a.microbatch, f))
          return false;
      return true;
    }
    if (!f(forward_done(s, a.microbatch))) return false;
    for (auto e = edges_.begin_from(s); e < edges_.end_from(s); ++e)
      if (!need_along(e, edge_flow::gradients, index(place_.edges[e].to), a.microbatch, f)) return false;
    return true;
  }

  /// `f(event)` for what a pass brings about.
  template <class F>
  void each_effect(action const& a, F f) const {
    using enum action_kind;
    std::uint32_t const s = index(a.stage);
    if (a.kind == action_kind::forward) f(forward_done(s, a.microbatch));
    if (a.kind == action_kind::backward || a.kind == input_gradient) f(gradient_done(s, a.microbatch));
    if (a.kind == input_gradient) f(half_done(s, a.microbatch));
  }

  /// The action that brings an event about, B for either of B and I.
  action action_of(std::uint32_t event) const {
    using enum action_kind;
    auto const m = microbatch_id{event % microbatches_};
    if (!is_end_of_message(event)) {
      auto const kind = event < pairs_       ? action_kind::forward
                        : event < 2 * pairs_ ? action_kind::backward
                                             : input_gradient;
      return {.kind = kind, .stage = stage_id{event % pairs_ / microbatches_}, .microbatch = m};
    }
    std::uint32_t const end = event - first_end_, both = end / 2;
    auto const& e = place_.edges[both / microbatches_ / 2];
    bool const gradient = both / microbatches_ % 2 == 1, receives = end % 2 == 1;
    auto const [here, there] = gradient != receives ? std::pair(e.to, e.from) : std::pair(e.from, e.to);
    auto const kind = receives ? (gradient ? receive_gradient : receive_activation)
                               : (gradient ? send_gradient : send_activation);
    return {.kind = kind, .stage = here, .microbatch = microbatch_id{both % microbatches_}, .peer = there};
  }

 private:
  template <class F>
  bool need_along(std::uint32_t edge, edge_flow flow, std::uint32_t maker, microbatch_id m, F& f) const {
    if (!messages_ || !crosses_ranks(edge))
      return f(flow == edge_flow::gradients ? gradient_done(maker, m) : forward_done(maker, m));
    auto const send = send_done(edge, flow, m);
    return f(receive_of(send)) && f(send);
  }

  placement const& place_;
  edge_numbers edges_;
  std::uint32_t microbatches_, pairs_ = 0, first_end_ = 0, events_ = 0;
  bool messages_;
};

}  // namespace cleave::detail
