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

namespace cleave::inline v0_2 {

/// The kind of a call that a rank makes on one of its stages or on its communicator.
enum class call_kind : std::uint8_t {
  forward,          ///< the forward pass of a stage
  backward,         ///< gradients of inputs and weights
  backward_input,   ///< gradients of inputs only
  backward_weight,  ///< gradients of weights only
  loss,             ///< the loss, of the output of a last stage
  release,          ///< the stage's output of a microbatch is no longer needed and may be released
  local_transfer,   ///< passes an output or a gradient to a stage of the same rank
  send,
  receive,
  wait_send,
  wait_receive,
  exchange,      ///< begins all its parts, sends and receives, together
  unshard,       ///< begins to gather the weights of a stage
  wait_unshard,  ///< waits until they are gathered
  reshard,       ///< releases them
  reduce,        ///< reduces the gradients of a stage with whole weights across replicas
  start_reduce,  ///< begins to reduce the gradients of sharded weights, and releases the gathered weights
  wait_reduce,
  custom,  ///< the user's code, instead of an action; its parts are those of the compound
  part,    ///< part of a custom compound
  other,   ///< performs the action as listed: OFFLOAD, RELOAD, RECOMPUTE
};

/// One call of a rank. An exchange or a custom compound is followed by its parts.
struct rank_call {
  static constexpr std::uint32_t none = 0xffffffff;

  call_kind kind = call_kind::other;
  bool from_loss = false;      ///< for a backward pass: its gradients come from the loss
  bool last = false;           ///< for a backward pass: the last of the stage over all microbatches
  std::uint16_t parts = 0;     ///< number of following calls that are its parts
  action of = {};              ///< stage and microbatch; for a message or local transfer also the peer
  std::uint32_t divisor = 1;   ///< divisor of the gradients, for `reduce` and `wait_reduce`
  std::uint32_t begun = none;  ///< for a wait: index of the call that began the operation
  std::uint32_t cell = 0;      ///< index of the cell of the list that it was made for

  bool operator==(rank_call const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true for a pass of a stage.
constexpr bool is_pass(call_kind k) {
  return k == call_kind::forward || k == call_kind::backward || k == call_kind::backward_input ||
         k == call_kind::backward_weight;
}

/// Returns true for a wait for an operation that another call began.
constexpr bool is_wait(call_kind k) {
  return k == call_kind::wait_send || k == call_kind::wait_receive || k == call_kind::wait_unshard ||
         k == call_kind::wait_reduce;
}

inline constexpr std::array<std::string_view, 21> call_names = {
    "forward", "backward",    "backward_input", "backward_weight", "loss",   "release", "local",
    "send",    "recv",        "wait send",      "wait recv",       "batch",  "unshard", "wait unshard",
    "reshard", "reduce_grad", "start_reduce",   "wait_reduce",     "custom", "",        ""};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the name of a call as in traces of PyTorch's runtime; empty if the action's own text suffices.
constexpr std::string_view name_of(call_kind k) { return detail::call_names[static_cast<std::size_t>(k)]; }

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns `F0 stage 1->2` for a sent message, `F0 stage 2<-1` for a received one.
inline std::string message_text(action const& a) {
  auto const kind = is_activation_message(a.kind) ? "F" : "B";
  return kind + std::to_string(index(a.microbatch)) + " stage " + std::to_string(index(a.stage)) +
         (is_receive(a.kind) ? "<-" : "->") + std::to_string(index(a.peer));
}

/// Returns the text after the name of a call without parts.
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

/// Returns a call and its parts as text: `forward 1 0`, `backward 1 3 loss last`, `wait recv F0 stage 1<-0`,
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

namespace cleave::inline v0_2 {

/// Returns one line of text per call; parts are on the line of their exchange or compound. O(calls).
inline std::vector<std::string> call_lines(std::span<rank_call const> calls) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < calls.size(); i += std::size_t{1} + calls[i].parts)
    lines.push_back(detail::call_text(calls[i], calls.subspan(i + 1, calls[i].parts)));
  return lines;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The message calls of one rank: the messages that begin together, and the waits. A wait for one send of an
/// exchange waits for the whole exchange, if `exchange_end::together`. Precondition of all members: stages
/// are in range.
class message_calls {
 public:
  /// Appends to `calls`. Keeps references to all arguments.
  message_calls(stage_placement const& place, call_options const& options, std::vector<rank_call>& calls)
      : place_(place), issue_(options.exchanges), ends_(options.ends), calls_(calls) {}

  /// Begins sends and receives. Stops at the first receive that has already begun and returns it; otherwise
  /// returns null. Expected O(messages), plus a sort for exchanges by pair of ranks.
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

  /// Waits for a receive unless the rank has already waited for it. Returns false if the receive was never
  /// begun.
  bool wait_for_receive(action const& receive) {
    auto const* const entry = receives_.find(receive);
    if (entry) end(static_cast<std::uint32_t>(entry->position));
    return entry != nullptr;
  }

  /// Waits for a send, or for its whole exchange. Precondition: `wait` follows its send and is the only one.
  void wait_for_send(action const& wait) {
    auto* const send = sends_.find(wait);
    send->open = false;
    auto const call = static_cast<std::uint32_t>(send->position);
    auto const after = std::ranges::upper_bound(exchanges_, call, {}, &exchange_calls::first);
    bool const exchanged = after != exchanges_.begin() && call < (after - 1)->end;
    auto const [first, last] = exchanged ? *(after - 1) : exchange_calls{call, call + 1};
    for (auto c = first; c < last; ++c) end(c);
  }

  /// Returns the number of completed sends of a stage's output for a microbatch.
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

  /// Returns the order in which messages begin.
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
  std::vector<char> ended_;  // indexed by the call that began the message
};

/// The calls of one rank for weights and gradients: gather, release, reduce, and the waits. Each function
/// returns a fault, or nothing.
class weight_calls {
 public:
  using maybe_fault = std::optional<call_fault::kind>;

  /// Appends to `calls`. Keeps references to `calls` and the options.
  weight_calls(std::span<action const> row, std::uint32_t microbatches, call_options const& options,
               std::vector<rank_call>& calls)
      : stages_(row),
        state_(stages_.count()),
        options_(options),
        divisor_(options.scale == gradient_scale::by_microbatches ? microbatches : 1),
        calls_(calls) {}

  /// Waits until the weights of a stage are gathered.
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

  /// Releases the weights. Does nothing after the reduction, which has released them.
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

  /// Notes that call number `call` lets the user's code perform an action.
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
    std::uint32_t gathering = rank_call::none;  // the call that began the gather, until it is waited for
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

/// Turns the list of one rank into calls, for `rank_calls`.
class rank_caller {
 public:
  /// Keeps references to all arguments. Precondition: the list has no stray action.
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

  /// Makes the calls; stops at the first fault.
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
    std::uint32_t backward_done = 0;  // number of B and W
    std::vector<microbatch_id>
        not_sent;  // microbatches whose outputs stay on the rank and are not yet released
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
    bool const has_inputs = options_.needs == custom_inputs::called && is_compute(a.kind);
    calls_.push_back(has_inputs ? pass_call(kind, a) : rank_call{.kind = kind, .of = a});
    calls_.back().parts = a.parts;
  }

  /// Returns the call of a pass, with `from_loss` and `last` set. `last` marks the last B or W of a stage.
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

  /// Makes the calls of B, I or W. Before the pass, releases the outputs that stayed on the rank.
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

  /// Waits for the weights of a pass, and for its inputs from other ranks.
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

/// The calls of a list up to its first fault.
struct called_list {
  std::optional<call_fault> fault;
  std::vector<rank_call> calls;
};

/// Returns the calls. \throws call_error if there is a fault
inline std::vector<rank_call> require_calls(called_list called) {
  if (called.fault) throw call_error(*called.fault);
  return std::move(called.calls);
}

/// Turns the list of a rank into calls, up to the first fault. O(actions of the rank), unlike `call_list`.
/// Precondition: all actions and the placement are valid. \throws send_wait_error
inline called_list call_valid_list(schedule const& s, stage_neighbours const& neighbours, rank_id r,
                                   call_options const& options) {
  if (auto fault = find_call_option_fault(options)) return {fault, {}};
  if (auto const fault = find_send_wait_fault(s.ranks[index(r)], index(r))) throw send_wait_error(*fault);
  rank_caller caller(s, neighbours, r, options);
  caller.run();
  return {caller.fault, caller.take()};
}

/// Turns the list of a rank into calls, up to the first fault. \throws invalid_action_error,
/// stage_placement_error, send_wait_error
inline called_list call_list(schedule const& s, rank_id r, call_options const& options) {
  expects(index(r) < s.ranks.size(), "the rank must be one of the schedule");
  if (auto fault = find_call_option_fault(options)) return {fault, {}};
  require_valid_actions(s);
  if (auto const fault = find_stage_placement_fault(s.place)) throw stage_placement_error(*fault);
  return call_valid_list(s, stage_neighbours(s.place), r, options);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the reason why the list of a rank cannot be turned into calls, or nothing. O(actions of all
/// ranks). Precondition: the schedule has rank `r`. \throws invalid_action_error, stage_placement_error,
/// send_wait_error
inline std::optional<call_fault> find_call_fault(schedule const& s, rank_id r,
                                                 call_options const& options = {}) {
  return detail::call_list(s, r, options).fault;
}

/// Returns everything that a rank does in a step, in order: calls on its stages, messages and waits. These
/// are the calls of PyTorch's runtime as plain data, for any executor of a schedule.
///
/// A pass first waits for its weights, if they are being gathered, and for its receives. Its output for a
/// stage on the same rank is passed on at once. The parts of a compound follow one another.
///
/// O(actions of all ranks). Precondition: the schedule has rank `r`.
/// \throws invalid_action_error, stage_placement_error, send_wait_error
/// \throws call_error if the list cannot be turned into calls
inline std::vector<rank_call> rank_calls(schedule const& s, rank_id r, call_options const& options = {}) {
  return detail::require_calls(detail::call_list(s, r, options));
}

}  // namespace cleave
