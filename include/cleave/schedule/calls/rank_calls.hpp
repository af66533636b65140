// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/lower/message_graph.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/lower/send_waits.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave {

/// What a rank calls, on one of its stages or where messages go.
enum class call_kind : std::uint8_t {
  forward,
  backward,         ///< gradients of inputs and weights
  backward_input,   ///< of inputs
  backward_weight,  ///< of weights
  loss,             ///< of what the last stage has made
  release,          ///< what the stage has sent of a microbatch may be let go
  local_transfer,   ///< gives an output or a gradient to a stage of the same rank
  send,
  receive,
  wait_send,
  wait_receive,
  exchange,      ///< its parts, sends and receives, begin together
  unshard,       ///< begins to gather the weights of a stage
  wait_unshard,  ///< until they are there
  reshard,       ///< lets them go
  reduce,        ///< gradients of a stage with whole weights, across replicas
  start_reduce,  ///< begins to reduce those of sharded weights, and lets the gathered weights go
  wait_reduce,
  custom,  ///< what the user does instead of an action; its parts are those of the compound
  part,    ///< of a compound that the user does
  other,   ///< does the action as it is: OFFLOAD, RELOAD, RECOMPUTE
};

/// One call of a rank. An exchange, and a compound that the user does, is followed by its parts.
struct rank_call {
  static constexpr std::uint32_t none = 0xffffffff;

  call_kind kind = call_kind::other;
  bool from_loss = false;   ///< of a backward pass: its gradients come from the loss
  bool last = false;        ///< of a backward pass: the last that the stage has, in all its microbatches
  std::uint16_t parts = 0;  ///< how many calls after it are its parts
  action of = {};           ///< which stage and microbatch, and of a message or what is handed over its peer
  std::uint32_t divisor = 1;   ///< of `reduce` and `wait_reduce`: what gradients are divided by
  std::uint32_t begun = none;  ///< of a wait: the number of the call that began what it waits for
  std::uint32_t cell = 0;      ///< of the list: which it was made for

  bool operator==(rank_call const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Whether it is a pass of a stage.
constexpr bool is_pass(call_kind k) {
  return k == call_kind::forward || k == call_kind::backward || k == call_kind::backward_input ||
         k == call_kind::backward_weight;
}

/// Whether it waits for what another call began.
constexpr bool is_wait(call_kind k) {
  return k == call_kind::wait_send || k == call_kind::wait_receive || k == call_kind::wait_unshard ||
         k == call_kind::wait_reduce;
}

inline constexpr std::array<std::string_view, 21> call_names = {
    "forward", "backward",    "backward_input", "backward_weight", "loss",   "release", "local",
    "send",    "recv",        "wait send",      "wait recv",       "batch",  "unshard", "wait unshard",
    "reshard", "reduce_grad", "start_reduce",   "wait_reduce",     "custom", "",        ""};

}  // namespace cleave::detail

namespace cleave {

/// As a trace of PyTorch's runtime is written; empty where the action says all.
constexpr std::string_view name_of(call_kind k) { return detail::call_names[static_cast<std::size_t>(k)]; }

}  // namespace cleave

namespace cleave::detail {

/// `F0 stage 1->2` of what is sent, `F0 stage 2<-1` of what is received.
inline std::string message_text(action const& a) {
  auto const kind = is_activation_message(a.kind) ? "F" : "B";
  return kind + std::to_string(index(a.microbatch)) + " stage " + std::to_string(index(a.stage)) +
         (is_receive(a.kind) ? "<-" : "->") + std::to_string(index(a.peer));
}

/// What stands after the name of a call that has no parts.
inline std::string call_object_text(rank_call const& call) {
  using enum call_kind;
  auto stage = std::to_string(index(call.of.stage));
  auto const microbatch = std::to_string(index(call.of.microbatch));
  switch (call.kind) {
    case loss:
      return stage + "." + microbatch;
    case local_transfer:
      return (is_activation_message(call.of.kind) ? "F" : "B") + microbatch + " " + stage + "=>" +
             std::to_string(index(call.of.peer));
    case send:
    case receive:
    case wait_send:
    case wait_receive:
      return message_text(call.of);
    case unshard:
    case wait_unshard:
    case reshard:
    case start_reduce:
      return stage;
    case reduce:
    case wait_reduce:
      return stage + " /" + std::to_string(call.divisor);
    case custom:
    case part:
    case other:
      return action_text(call.of);
    default:
      return stage + " " + microbatch + (call.from_loss ? " loss" : "") + (call.last ? " last" : "");
  }
}

/// One call and its parts as text: `forward 1 0`, `backward 1 3 loss last`, `wait recv F0 stage 1<-0`,
/// `reduce_grad 1 /4`, `batch[send F1 stage 0->1; recv B0 stage 0<-1]`, `custom (0F3;3B1)OVERLAP_F_B`.
inline std::string call_text(rank_call const& call, std::span<rank_call const> parts = {}) {
  std::string text(name_of(call.kind));
  if (call.kind == call_kind::exchange) {
    for (auto const& p : parts) text += (&p == parts.data() ? "[" : "; ") + call_text(p);
    return text + "]";
  }
  if (!text.empty()) text += " ";
  if (parts.empty()) return text + call_object_text(call);
  std::vector<action> cell;
  for (auto const& p : parts) cell.push_back(p.of);
  return text + cell_text(call.of, cell);
}

}  // namespace cleave::detail

namespace cleave {

/// A line for each call; parts stand in the line of their head. O(calls).
inline std::vector<std::string> call_lines(std::span<rank_call const> calls) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < calls.size(); i += std::size_t{1} + calls[i].parts)
    lines.push_back(detail::call_text(calls[i], calls.subspan(i + 1, calls[i].parts)));
  return lines;
}

}  // namespace cleave

namespace cleave::detail {

/// The calls for messages of one rank: which begin together, and which are waited for. What began as one
/// exchange is waited for as one, once a wait for a send of it comes. Precondition throughout: stages are in
/// range.
class message_calls {
 public:
  /// Appends to `calls`. Refers to both.
  message_calls(stage_placement const& place, call_options const& options, std::vector<rank_call>& calls)
      : place_(place), issue_(options.exchanges), ends_(options.ends), calls_(calls) {}

  /// Begins sends and receives, up to the first receive that has begun before: that, or null. Expected
  /// O(messages), and for those of an exchange by pair of ranks a sort.
  action const* begin(std::span<action const> messages) {
    bool const mixed = std::ranges::any_of(messages, [](action const& a) { return is_send(a.kind); }) &&
                       std::ranges::any_of(messages, [](action const& a) { return is_receive(a.kind); });
    bool const together = mixed && issue_ == exchange_issue::together;
    if (together)
      calls_.push_back({.kind = call_kind::exchange,
                        .parts = static_cast<std::uint16_t>(messages.size()),
                        .of = {.kind = action_kind::exchange}});
    auto const first = next_call();
    for (auto const i : order_of(messages)) {
      if (is_receive(messages[i].kind) && receives_.find(messages[i])) return &messages[i];
      begin_one(messages[i]);
    }
    if (messages.size() > 1 && ends_ == exchange_end::together) exchanges_.push_back({first, next_call()});
    return nullptr;
  }

  /// Waits for what has been received, unless that has been done; whether it has been received.
  bool wait_for_receive(action const& receive) {
    auto const* const entry = receives_.find(receive);
    if (entry) end(static_cast<std::uint32_t>(entry->position));
    return entry != nullptr;
  }

  /// Precondition: `wait` follows its send and is the only one.
  void wait_for_send(action const& wait) {
    auto* const send = sends_.find(wait);
    send->open = false;
    auto const call = static_cast<std::uint32_t>(send->position);
    auto const after = std::ranges::upper_bound(exchanges_, call, {}, &exchange_calls::first);
    bool const exchanged = after != exchanges_.begin() && call < (after - 1)->end;
    auto const [first, last] = exchanged ? *(after - 1) : exchange_calls{call, call + 1};
    for (auto c = first; c < last; ++c) end(c);
  }

  /// How many sends of what a stage has made of a microbatch have had their wait.
  std::size_t sends_ended(stage_id s, microbatch_id i) {
    std::size_t ended = 0;
    sends_.each(s, i, true, [&](message_table::entry const& send) {
      if (!send.open) ++ended;
    });
    return ended;
  }

 private:
  struct exchange_calls {
    std::uint32_t first, end;
  };

  std::uint32_t next_call() const { return static_cast<std::uint32_t>(calls_.size()); }

  /// In which order messages begin.
  std::vector<std::size_t> order_of(std::span<action const> messages) const {
    std::vector<std::size_t> order(messages.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    if (issue_ == exchange_issue::by_rank_pair)
      std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(rank_pair(messages[i]), i); });
    return order;
  }
  std::pair<rank_id, rank_id> rank_pair(action const& a) const {
    auto const here = place_.rank_of[index(a.stage)], there = place_.rank_of[index(a.peer)];
    return is_send(a.kind) ? std::pair(here, there) : std::pair(there, here);
  }

  void begin_one(action const& a) {
    (is_send(a.kind) ? sends_ : receives_).add(a, calls_.size());
    calls_.push_back({.kind = is_send(a.kind) ? call_kind::send : call_kind::receive, .of = a});
    ended_.resize(calls_.size());
  }

  void end(std::uint32_t begun) {
    if (std::exchange(ended_[begun], char{1}) != 0) return;
    auto const what = calls_[begun];
    calls_.push_back({.kind = what.kind == call_kind::send ? call_kind::wait_send : call_kind::wait_receive,
                      .of = what.of,
                      .begun = begun});
  }

  stage_placement const& place_;
  exchange_issue issue_;
  exchange_end ends_;
  std::vector<rank_call>& calls_;
  message_table sends_, receives_;
  std::vector<exchange_calls> exchanges_;
  std::vector<char> ended_;  // by the number of the call that began
};

/// The calls of one rank for weights and gradients: what is gathered and let go, reduced and waited for.
/// Each function gives what is wrong, or nothing.
class weight_calls {
 public:
  using maybe_fault = std::optional<call_fault::kind>;

  /// Appends to `calls`. Refers to it and to the options.
  weight_calls(std::span<action const> row, std::uint32_t microbatches, call_options const& options,
               std::vector<rank_call>& calls)
      : stages_(row),
        state_(stages_.count()),
        options_(options),
        divisor_(options.scale == gradient_scale::by_microbatches ? microbatches : 1),
        calls_(calls) {}

  /// Waits until the weights of a stage are there.
  maybe_fault use(stage_id s) {
    if (are_whole()) return std::nullopt;
    auto& state = state_of(s);
    if (!state.gathered) return call_fault::kind::not_unsharded;
    auto const begun = std::exchange(state.gathering, rank_call::none);
    if (begun != rank_call::none)
      calls_.push_back({.kind = call_kind::wait_unshard, .of = calls_[begun].of, .begun = begun});
    return std::nullopt;
  }

  maybe_fault unshard(action const& a) {
    if (are_whole()) return std::nullopt;
    auto& state = state_of(a.stage);
    if (std::exchange(state.gathered, true)) return call_fault::kind::unsharded_twice;
    state.gathering = next_call();
    state.reduced = false;
    calls_.push_back({.kind = call_kind::unshard, .of = a});
    return std::nullopt;
  }

  /// After the reduction, which lets the weights go, there is nothing to do.
  maybe_fault reshard(action const& a) {
    if (are_whole() || state_of(a.stage).reduced) return std::nullopt;
    if (auto const fault = use(a.stage)) return fault;
    state_of(a.stage).gathered = false;
    calls_.push_back({.kind = call_kind::reshard, .of = a});
    return std::nullopt;
  }

  maybe_fault reduce(action const& a) {
    auto& state = state_of(a.stage);
    state.reduced = true;
    state.reducing = next_call();
    if (options_.gradients == gradient_end::kept) return std::nullopt;
    if (are_whole()) {
      calls_.push_back({.kind = call_kind::reduce, .of = a, .divisor = divisor_});
    } else {
      calls_.push_back({.kind = call_kind::start_reduce, .of = a});
      state.gathered = false;
    }
    return std::nullopt;
  }

  maybe_fault wait_reduce(action const& a) {
    auto const begun = std::exchange(state_of(a.stage).reducing, rank_call::none);
    if (begun == rank_call::none) return call_fault::kind::reduced_too_soon;
    if (!are_whole() && options_.gradients == gradient_end::reduced)
      calls_.push_back({.kind = call_kind::wait_reduce, .of = a, .divisor = divisor_, .begun = begun});
    return std::nullopt;
  }

  /// The user does an action instead: call number `call`.
  void leave_to_user(action const& a, std::uint32_t call) {
    if (a.kind == action_kind::unshard) state_of(a.stage).gathered = true;
    if (a.kind == action_kind::reshard) state_of(a.stage).gathered = false;
    if (a.kind == action_kind::reduce_gradient) {
      state_of(a.stage).reduced = true;
      state_of(a.stage).reducing = call;
    }
  }

 private:
  struct stage_state {
    bool gathered = false, reduced = false;
    std::uint32_t gathering = rank_call::none;  // the call that has begun it, until it is waited for
    std::uint32_t reducing = rank_call::none;
  };

  bool are_whole() const { return options_.weights == weight_storage::whole; }
  stage_state& state_of(stage_id s) { return state_[stages_.number(s)]; }
  std::uint32_t next_call() const { return static_cast<std::uint32_t>(calls_.size()); }

  rank_stages stages_;
  std::vector<stage_state> state_;
  call_options const& options_;
  std::uint32_t divisor_;
  std::vector<rank_call>& calls_;
};

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
    if (fault || options_.needs == custom_inputs::users || !is_compute(a.kind)) return;
    bool const later = a.kind == action_kind::weight_gradient, forward = a.kind == action_kind::forward;
    auto const makers = forward ? neighbours_.before(index(a.stage)) : neighbours_.after(index(a.stage));
    get_ready(a, later ? std::span<std::uint32_t const>() : makers);
  }

  void add_custom(call_kind kind, action const& a) {
    bool const is_told = options_.needs == custom_inputs::called && is_compute(a.kind);
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
    local_transfer(a, after, action_kind::send_activation);
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
    if (!later) local_transfer(a, neighbours_.before(index(a.stage)), action_kind::send_gradient);
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

  void local_transfer(action const& a, std::span<std::uint32_t const> to, action_kind kind) {
    for (auto const peer : to)
      if (place_.rank_of[peer] == rank_)
        calls_.push_back(
            {.kind = call_kind::local_transfer, .of = {kind, 0, a.stage, a.microbatch, stage_id{peer}}});
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
  stage_placement const& place_;
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

/// What became of a list: its calls up to the first fault.
struct called_list {
  std::optional<call_fault> fault;
  std::vector<rank_call> calls;
};

/// Calls the list of a rank as far as it goes. \throws invalid_action_error, stage_placement_error,
/// send_wait_error
inline called_list call_list(schedule const& s, rank_id r, call_options const& options) {
  expects(index(r) < s.ranks.size(), "a rank of the schedule");
  if (auto fault = find_call_option_fault(options)) return {fault, {}};
  require_valid_actions(s);
  if (auto const fault = find_stage_placement_fault(s.place)) throw stage_placement_error(*fault);
  if (auto const fault = find_send_wait_fault(s.ranks[index(r)], index(r))) throw send_wait_error(*fault);
  stage_neighbours const neighbours(s.place);
  rank_caller caller(s, neighbours, r, options);
  caller.run();
  return {caller.fault, caller.take()};
}

}  // namespace cleave::detail

namespace cleave {

/// Why the list of a rank cannot be called, or nothing. O(actions of all ranks). Precondition: there is such
/// a rank. \throws invalid_action_error, stage_placement_error, send_wait_error
inline std::optional<call_fault> find_call_fault(schedule const& s, rank_id r,
                                                 call_options const& options = {}) {
  return detail::call_list(s, r, options).fault;
}

/// Everything that a rank does, in order: each call on one of its stages, each message, each wait. A pass
/// first waits for its weights, if they are being gathered, and for what it has to receive; what it makes for
/// a stage on the same rank is handed over at once. Of a compound one part follows the other. These are the
/// calls of PyTorch's runtime, as plain data: whoever runs a schedule goes through them.
///
/// O(actions of all ranks). Precondition: there is such a rank.
/// \throws invalid_action_error, stage_placement_error, send_wait_error, call_error
inline std::vector<rank_call> rank_calls(schedule const& s, rank_id r, call_options const& options = {}) {
  auto called = detail::call_list(s, r, options);
  if (called.fault) throw detail::call_error(*called.fault);
  return std::move(called.calls);
}

}  // namespace cleave
