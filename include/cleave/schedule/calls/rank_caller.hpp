// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/calls/message_calls.hpp"
#include "cleave/schedule/calls/rank_call.hpp"
#include "cleave/schedule/calls/weight_calls.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_neighbours.hpp"

namespace cleave::detail {

/// Makes calls of the list of one rank; `rank_calls` is its one use.
class rank_caller {
 public:
  /// Refers to all of them. Precondition: no action of the list is stray.
  rank_caller(schedule const& s, stage_neighbours const& neighbours, rank_id r, call_options const& options)
      : row_(s.ranks[index(r)]),
        place_(s.place),
        neighbours_(neighbours),
        options_(options),
        rank_(r),
        microbatches_(s.microbatches),
        stages_(row_),
        state_(stages_.count()),
        messages_(s.place, options, calls_),
        weights_(row_, s.microbatches, options, calls_) {}

  /// Stops at the first fault.
  void run() {
    calls_.reserve(2 * row_.size());
    std::uint32_t cell = 0;
    each_cell(row_, [&](action const& head, std::span<action const> parts) {
      auto next = calls_.size();
      if (!fault) call_cell(head, parts);
      for (; next < calls_.size(); ++next) calls_[next].cell = cell;
      ++cell;
    });
  }

  std::optional<call_fault> fault;
  std::vector<rank_call> take() { return std::move(calls_); }

 private:
  struct stage_state {
    std::uint32_t backward_done = 0;      // B and W
    std::vector<microbatch_id> not_sent;  // whose outputs go to no other rank and are not let go yet
  };

  void call_cell(action const& head, std::span<action const> parts) {
    if (head.kind == action_kind::idle) return;
    if (std::ranges::count(options_.custom, head.kind) > 0) return call_custom(head, parts);
    if (head.kind == action_kind::exchange) return begin_messages(parts);
    for (action const& a : parts.empty() ? std::span(&head, 1) : parts)
      if (!fault) call_action(a);
  }

  void call_custom(action const& head, std::span<action const> parts) {
    for (action const& a : parts.empty() ? std::span(&head, 1) : parts) get_ready_for_user(a);
    if (fault) return;
    if (parts.empty()) weights_.leave_to_user(head, static_cast<std::uint32_t>(calls_.size()));
    add_custom(call_kind::custom, head);
    for (action const& a : parts) add_custom(call_kind::part, a);
  }

  void get_ready_for_user(action const& a) {
    if (!fault && !is_replaceable(a.kind)) report(call_fault::kind::not_replaceable, a);
    if (fault || options_.needs == custom_needs::users || !is_compute(a.kind)) return;
    bool const later = a.kind == action_kind::weight_gradient, forward = a.kind == action_kind::forward;
    auto const makers = forward ? neighbours_.before(index(a.stage)) : neighbours_.after(index(a.stage));
    get_ready(a, later ? std::span<std::uint32_t const>() : makers);
  }

  void add_custom(call_kind kind, action const& a) {
    bool const is_told = options_.needs == custom_needs::called && is_compute(a.kind);
    calls_.push_back(is_told ? pass_call(kind, a) : rank_call{.kind = kind, .of = a});
    calls_.back().parts = a.parts;
  }

  /// With what a pass is told of the step.
  rank_call pass_call(call_kind kind, action const& a) {
    bool const whole = a.kind == action_kind::backward, later = a.kind == action_kind::weight_gradient;
    bool const begins = whole || a.kind == action_kind::input_gradient;
    return {.kind = kind,
            .from_loss =
                begins && neighbours_.after(index(a.stage)).empty() && options_.loss == loss_source::rank,
            .last = (whole || later) && ++state_of(a).backward_done == microbatches_,
            .of = a};
  }

  void call_action(action const& a) {
    using enum action_kind;
    switch (a.kind) {
      case action_kind::forward:
        return call_forward(a);
      case action_kind::backward:
      case input_gradient:
      case weight_gradient:
        return call_backward(a);
      case send_activation:
      case send_gradient:
      case receive_activation:
      case receive_gradient:
        return begin_messages(std::span(&a, 1));
      case wait_send_activation:
      case wait_send_gradient:
        return wait_for_send(a);
      case action_kind::unshard:
        return report(weights_.unshard(a), a);
      case action_kind::reshard:
        return report(weights_.reshard(a), a);
      case reduce_gradient:
        return report(weights_.reduce(a), a);
      case wait_reduce_gradient:
        return report(weights_.wait_reduce(a), a);
      default:
        calls_.push_back({.kind = call_kind::other, .of = a});
    }
  }

  void call_forward(action const& a) {
    auto const after = neighbours_.after(index(a.stage));
    get_ready(a, neighbours_.before(index(a.stage)));
    if (fault) return;
    calls_.push_back({.kind = call_kind::forward, .of = a});
    if (after.empty() && options_.loss == loss_source::rank)
      calls_.push_back({.kind = call_kind::loss, .of = a});
    hand_over(a, after, action_kind::send_activation);
    if (options_.releases == release_rule::all && readers_elsewhere(a.stage) == 0)
      state_of(a).not_sent.push_back(a.microbatch);
  }

  /// B, I or W. After B and W a stage may be done.
  void call_backward(action const& a) {
    auto const after = neighbours_.after(index(a.stage));
    bool const whole = a.kind == action_kind::backward, later = a.kind == action_kind::weight_gradient;
    for (auto const i : std::exchange(state_of(a).not_sent, {})) release(a.stage, i);
    get_ready(a, later ? std::span<std::uint32_t const>() : after);
    if (fault) return;
    calls_.push_back(pass_call(whole   ? call_kind::backward
                               : later ? call_kind::backward_weight
                                       : call_kind::backward_input,
                               a));
    if (!later) hand_over(a, neighbours_.before(index(a.stage)), action_kind::send_gradient);
  }

  /// Waits for weights, and for what other ranks have made for a pass.
  void get_ready(action const& a, std::span<std::uint32_t const> makers) {
    report(weights_.use(a.stage), a);
    auto const kind =
        a.kind == action_kind::forward ? action_kind::receive_activation : action_kind::receive_gradient;
    for (auto const maker : makers) {
      action const receive{kind, 0, a.stage, a.microbatch, stage_id{maker}};
      if (!fault && place_.rank_of[maker] != rank_ && !messages_.wait_for_receive(receive))
        report(call_fault::kind::not_received, a, receive);
    }
  }

  void hand_over(action const& a, std::span<std::uint32_t const> to, action_kind kind) {
    for (auto const peer : to)
      if (place_.rank_of[peer] == rank_)
        calls_.push_back(
            {.kind = call_kind::hand_over, .of = {kind, 0, a.stage, a.microbatch, stage_id{peer}}});
  }

  void begin_messages(std::span<action const> messages) {
    if (auto const* twice = messages_.begin(messages)) report(call_fault::kind::received_twice, *twice);
  }

  void wait_for_send(action const& a) {
    messages_.wait_for_send(a);
    if (a.kind == action_kind::wait_send_activation &&
        messages_.sends_ended(a.stage, a.microbatch) == readers_elsewhere(a.stage))
      release(a.stage, a.microbatch);
  }

  void release(stage_id s, microbatch_id i) {
    calls_.push_back({.kind = call_kind::release, .of = {.stage = s, .microbatch = i}});
  }

  std::size_t readers_elsewhere(stage_id s) const {
    auto const elsewhere = [&](std::uint32_t to) { return place_.rank_of[to] != rank_; };
    return static_cast<std::size_t>(std::ranges::count_if(neighbours_.after(index(s)), elsewhere));
  }

  stage_state& state_of(action const& a) { return state_[stages_.number(a.stage)]; }

  void report(std::optional<call_fault::kind> what, action const& at, action const& needs = {}) {
    if (what) fault = call_fault{*what, rank_, static_cast<std::size_t>(&at - row_.data()), at, needs};
  }

  std::span<action const> row_;
  placement const& place_;
  stage_neighbours const& neighbours_;
  call_options const& options_;
  rank_id rank_;
  std::uint32_t microbatches_;
  rank_stages stages_;
  std::vector<stage_state> state_;
  std::vector<rank_call> calls_;
  message_calls messages_;
  weight_calls weights_;
};

}  // namespace cleave::detail
