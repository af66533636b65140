// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/executor/detail/instruction_events.hpp"
#include "cleave/run/executor/detail/overlapped_pairs.hpp"
#include "cleave/run/executor/detail/program_needs.hpp"
#include "cleave/run/executor/detail/stage_caller.hpp"
#include "cleave/run/gradients/gradient_reducer.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/wait_on_host.hpp"
#include "cleave/run/program/packed_program.hpp"
#include "cleave/run/program/pass_memory.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_recorder.hpp"
#include "cleave/run/program/step_values.hpp"

namespace cleave::inline v0_2::detail {

struct executor_options {
  /// Maximum number of passes that are issued but have not ended, on devices that run work asynchronously. At
  /// least 1.
  std::size_t run_ahead = 64;
  /// The rank on the rendezvous. With replicas it differs from the rank in the program.
  rank_id reporter = no_rank;
  /// Maximum time that a step waits for its issued work. Without a limit, the caller must enforce one.
  std::optional<std::chrono::milliseconds> limit = {};
  /// `replayed` replays steps if the device, the communicator and the program can be recorded and the stages
  /// allow it (`records()`). Otherwise steps are issued, and `find_replay_obstacle` explains why. All ranks
  /// must use the same mode and the same weights in each step. Stages are called in the first two steps only,
  /// and must issue the same work in each. Times of later steps are 0.
  step_mode steps = step_mode::issued;
};

/// Work that ends a step, after the sums of gradients. It is recorded with the step. `prepare` is called
/// before each step and issues work that is not recorded. Null: nothing.
template <device D>
struct step_end {
  void (*prepare)(void* of, typename D::stream&) = nullptr;
  void (*issue)(void* of, typename D::stream&) = nullptr;
  void* of = nullptr;
};

/// Executes the program of one rank, step after step, on any device. Issues passes to one stream and messages
/// to another, each after exactly the work it depends on. Allocates all memory and events once. The
/// constructor's arguments must outlive it.
///
/// If a step fails, the executor publishes the reason, aborts the communicator and throws. The state of
/// issued work is then unknown, and the executor cannot be used any more.
template <device D, communicator<D> C, rendezvous B, stage<D> S>
class executor {
 public:
  /// `reducer` sums gradients across replicas and ties; null if nothing is summed.
  /// \throws program_need_error if the stages lack a member function that the program needs
  executor(D& d, C& c, B& b, S& s, rank_program p, executor_options const& options = {},
           gradient_reducer<D, C>* reducer = nullptr)
      : device_(d),
        communicator_(c),
        rendezvous_(b),
        options_(options),
        stages_(s),
        reporter_(options.reporter == no_rank ? p.rank : options.reporter),
        reducer_(reducer),
        replays_(d, p, obstacle_of(p, s)),
        sum_themselves_(summed_by_stages(p)),
        pairs_(pairs_of(p)),
        program_(checked(std::move(p))),
        all_(program_.instructions()),
        memory_(d, program_, kept_passes()),
        arena_(registered<D>(c, memory_.arena())),
        calls_(s, program_, memory_, reporter_),
        events_(d, program_),
        passes_(immediate_device<D> ? 1 : options.run_ahead),
        ended_(d.make_event()),
        computing_(d.make_stream(0)),
        moving_(d.make_stream(-1)) {
    expects(options.run_ahead > 0, "executor: run_ahead is at least 1");
  }

  packed_program const& program() const { return program_; }

  /// Runs one step, with `last` at its end. Blocks until all of it has ended on this rank.
  /// \throws stage_error, run_error, step_value_error
  void run_step(step_values const& values, step_end<D> const& last = {}) {
    require_step_values(program_, values);
    last_ = last;
    sums_gradients_ = values.gradients == gradient_end::reduced;
    reducing_ = sums_gradients_ && calls_.trains() ? reducer_ : nullptr;
    until_ = deadline_after(options_.limit);
    try {
      auto const own = replays_.take_inputs(values, computing_);
      if (last_.prepare) last_.prepare(last_.of, computing_);
      memory_.take_inputs(own);
      calls_.begin_step(own, reducing_ ? gradient_report{&report, this} : gradient_report());
      auto const issue = [this] {
        recording_notice<D, S> const told(stages_, replays_.is_recording() ? &computing_ : nullptr);
        issue_step();
      };
      auto const ends = last_.issue ? step_ending::update : step_ending::plain;
      if (replays_.carry_out(own, ends, computing_, issue))
        at_.store(program_replaying, std::memory_order_relaxed);
      wait_for(computing_);
      at_.store(program_done, std::memory_order_relaxed);
    } catch (run_error const& e) {
      fail(e.info);
    } catch (...) {
      failure f = current_failure(call_at(at()));
      f.reporter = reporter_;
      fail(std::move(f));
    }
  }

  /// Returns result `number` of microbatch `m` for the caller, if this rank makes it. Valid until the next
  /// step.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number) const {
    return memory_.result(m, number);
  }

  /// Returns the instruction being issued or, on synchronous devices, executed. `program_done` between steps.
  /// From any thread.
  std::uint32_t at() const { return at_.load(std::memory_order_relaxed); }

  /// Returns when each instruction of the last step began and ended. A message begins when it could be sent
  /// and ends when it has been transferred. Recorded and replayed steps give 0.
  std::vector<instruction_time> times() { return events_.times(); }

  /// The recording of the step, or the reason why steps are issued.
  step_recorder<D>& replays() { return replays_; }
  step_recorder<D> const& replays() const { return replays_; }

 private:
  using stream = typename D::stream;

  std::optional<std::string> obstacle_of(rank_program const& p, S const& stages) const {
    if (options_.steps == step_mode::issued) return "the options do not request it (step_mode::replayed)";
    return find_replay_obstacle<D, C>(p, stages);
  }
  static rank_program checked(rank_program p) {
    require_abilities<S, D>(p);
    return p;
  }
  static std::vector<stage_id> summed_by_stages(rank_program const& p) {
    std::vector<stage_id> stages;
    for (auto const& i : p.instructions)
      if (is_custom(i.call.kind) && i.call.of.kind == action_kind::reduce_gradient)
        stages.push_back(i.call.of.stage);
    return stages;
  }
  static std::vector<overlapped_pair> pairs_of(rank_program const& p) {
    if constexpr (overlapped_stage<S, D>) return overlapped_pairs(p);
    return {};
  }
  /// Returns the number of last passes whose views are in use: all if a recording may read them later, and
  /// otherwise those that have not ended, and the parts of the largest compound.
  std::size_t kept_passes() const {
    if (!replays_.obstacle()) return pass_views::every_pass;
    std::size_t parts = 1;
    for (std::uint32_t i = 0; i < all_.size(); ++i) parts = std::max<std::size_t>(parts, all_[i].call.parts);
    return (immediate_device<D> ? 0 : options_.run_ahead) + 2 * parts + 2;
  }

  void issue_step() {
    events_.begin_step(computing_);
    issued_passes_ = 0;
    if (replays_.is_recording()) put_behind(moving_, computing_);
    issue_all();
    await_messages();
    at_.store(program_reducing, std::memory_order_relaxed);
    if (reducing_) reducing_->end_all(computing_);
    if (last_.issue) last_.issue(last_.of, computing_);
    if (replays_.is_recording()) put_behind(computing_, moving_);
  }

  void put_behind(stream& later, stream& earlier) {
    device_.record(ended_, earlier);
    device_.wait(later, ended_);
  }

  void issue_all() {
    [[maybe_unused]] auto pair = pairs_.begin();
    for (std::uint32_t i = 0; i < all_.size();) {
      at_.store(i, std::memory_order_relaxed);
      check();
      if constexpr (overlapped_stage<S, D>)
        if (pair != pairs_.end() && pair->first() == i) {
          issue_overlapped(*pair);
          i = 1 + pair++->last();
          continue;
        }
      i += 1u + issue(i);
    }
  }

  /// Issues the waits between two passes that run as one, prepares what both read, then calls the stages
  /// once.
  void issue_overlapped(overlapped_pair const& pair) {
    for (auto i = pair.first() + 1; i < pair.last(); ++i) {
      at_.store(i, std::memory_order_relaxed);
      issue(i);
    }
    at_.store(pair.first(), std::memory_order_relaxed);
    auto const forward = all_[pair.forward], backward = all_[pair.backward];
    limit_run_ahead(pair.first());
    memory_.add_gradients(computing_, backward.pass);
    events_.begin(pair.forward, computing_);
    events_.begin(pair.backward, computing_);
    if (memory_.read_shapes(computing_, forward.pass)) wait_for(computing_);
    calls_.call_overlapped(forward, backward, computing_);
    events_.end(pair.forward, computing_);
    events_.end(pair.backward, computing_);
    begin_sum_after(backward.call);
  }

  /// Issues an instruction and its parts. Returns the number of parts.
  std::uint32_t issue(std::uint32_t i) {
    auto const instruction = all_[i];
    issue(i, instruction);
    return instruction.call.parts;
  }
  void issue(std::uint32_t i, rank_instruction const& instruction) {
    auto const& call = instruction.call;
    switch (call.kind) {
      case call_kind::forward:
      case call_kind::backward:
      case call_kind::backward_input:
      case call_kind::backward_weight:
        return issue_pass(i, instruction);
      case call_kind::custom:
        return issue_custom(i, instruction);
      case call_kind::send:
      case call_kind::receive:
        return issue_messages(i, i, i + 1);
      case call_kind::exchange:
        return issue_messages(i, i + 1, i + 1 + call.parts);
      case call_kind::wait_send:  // a later message may reuse the slot of this one
        device_.wait(moving_, events_.end_of(call.begun));
        [[fallthrough]];
      case call_kind::wait_receive:
        return device_.wait(computing_, events_.end_of(call.begun));
      case call_kind::unshard:
      case call_kind::reshard:
        return calls_.call(instruction, computing_);
      case call_kind::reduce:
      case call_kind::start_reduce:
        if (reducing_) reducing_->begin_replicas(call.of.stage, computing_);
        return;
      case call_kind::wait_reduce:
        if (reducing_) reducing_->end_replicas(call.of.stage, computing_);
        return;
      case call_kind::other:
        return issue_other(i, instruction);
      case call_kind::loss:  // the stage computes the loss itself
      case call_kind::release:
      case call_kind::local_transfer:  // handled by the memory plan
      case call_kind::wait_unshard:    // handled by the order of the stream
      case call_kind::part:            // issued with its compound action
        return;
    }
  }

  void issue_pass(std::uint32_t i, rank_instruction const& instruction) {
    bool const forward = instruction.call.kind == call_kind::forward;
    limit_run_ahead(i);
    if (!forward) memory_.add_gradients(computing_, instruction.pass);
    events_.begin(i, computing_);
    if (forward && memory_.read_shapes(computing_, instruction.pass)) wait_for(computing_);
    calls_.call(instruction, computing_);
    events_.end(i, computing_);
    begin_sum_after(instruction.call);
  }

  /// Begins the sum of a stage over replicas if the call is its last backward pass.
  void begin_sum_after(rank_call const& call) {
    if (reducing_ && call.last && !sums_itself(call.of.stage))
      reducing_->begin_replicas(call.of.stage, computing_);
  }
  /// Takes a gradient that a stage reports in its last backward pass.
  static void report(void* self, stage_id s, std::uint32_t number) {
    auto& e = *static_cast<executor*>(self);
    if (!e.sums_itself(s)) e.reducing_->report(s, number, e.computing_);
  }
  bool sums_itself(stage_id s) const {
    return std::ranges::find(sum_themselves_, s) != sum_themselves_.end();
  }

  /// Prepares the inputs of all parts, calls the stages once, then hands on all results.
  void issue_custom(std::uint32_t i, rank_instruction const& instruction) {
    auto const& call = instruction.call;
    parts_.clear();
    if (call.parts == 0) parts_.push_back(instruction);
    for (std::uint32_t n = 1; n <= call.parts; ++n) parts_.push_back(all_[i + n]);
    std::span<rank_instruction const> const parts = parts_;
    bool const is_asked = sums_gradients_ || !is_sum(call.of.kind);  // depends on the values of the step
    limit_run_ahead(i);
    for (auto const& p : parts)
      if (is_backward_pass(p.call)) memory_.add_gradients(computing_, p.pass);
    events_.begin(i, computing_);
    bool has_shapes = false;
    for (auto const& p : parts)
      if (is_forward_pass(p.call)) has_shapes |= memory_.read_shapes(computing_, p.pass);
    if (has_shapes) wait_for(computing_);
    for (auto const& p : parts) leave_sum(p.call.of);
    if (is_asked) calls_.call_custom(call.of, parts, computing_);
    events_.end(i, computing_);
    for (auto const& p : parts) begin_sum_after(p.call);
  }

  static constexpr bool is_sum(action_kind k) {
    return k == action_kind::reduce_gradient || k == action_kind::wait_reduce_gradient ||
           is_tied_reduction(k);
  }

  /// Leaves a sum to stages that compute it themselves. A custom wait still ends a sum that was begun here.
  void leave_sum(action const& a) {
    if (!reducing_) return;
    if (a.kind == action_kind::reduce_gradient) reducing_->leave_replicas(a.stage);
    if (a.kind == action_kind::wait_reduce_gradient) reducing_->end_replicas(a.stage, computing_);
    if (a.kind == action_kind::reduce_tie) reducing_->leave_tie(a.stage, a.peer);
    if (a.kind == action_kind::wait_reduce_tie) reducing_->end_tie(a.stage, a.peer, computing_);
  }

  void issue_messages(std::uint32_t head, std::uint32_t first, std::uint32_t last) {
    for (auto i = first; i < last && !immediate_device<D>; ++i) {
      auto const after = all_[i].after;
      if (after != rank_instruction::none && events_.has(after)) device_.wait(moving_, events_.end_of(after));
    }
    events_.begin(head, moving_);
    communicator_.begin_group();
    for (auto i = first; i < last; ++i) {
      auto const m = all_[i];
      message const what{m.peer, m.number, {m.call.of.stage, m.call.of.microbatch}};
      if (m.call.kind == call_kind::send)
        communicator_.send(memory_.block(m), what, moving_);
      else
        communicator_.receive(memory_.block(m), what, moving_);
    }
    communicator_.end_group(events_.end_of(head), moving_);
  }

  void issue_other(std::uint32_t i, rank_instruction const& instruction) {
    auto const& a = instruction.call.of;
    events_.begin(i, computing_);
    if (!is_tied_reduction(a.kind)) {
      calls_.call(instruction, computing_);
    } else if (reducing_) {
      if (a.kind == action_kind::reduce_tie)
        reducing_->begin_tie(a.stage, a.peer, computing_);
      else
        reducing_->end_tie(a.stage, a.peer, computing_);
    }
    events_.end(i, computing_);
  }

  void limit_run_ahead(std::uint32_t i) {
    if (immediate_device<D> || replays_.is_recording()) return;
    auto& oldest = passes_[issued_passes_ % passes_.size()];
    if (issued_passes_++ >= passes_.size()) wait_for(events_.end_of(oldest));
    oldest = i;
  }

  void await_messages() {
    std::uint32_t parts = 0;
    for (std::uint32_t i = 0; i < all_.size(); i += 1 + parts) {
      auto const call = all_[i].call;
      parts = call.parts;
      if (call.kind != call_kind::send && call.kind != call_kind::receive && call.kind != call_kind::exchange)
        continue;
      at_.store(i, std::memory_order_relaxed);
      device_.wait(computing_, events_.end_of(i));
    }
  }

  void wait_for(stream& s) {
    device_.record(ended_, s);
    wait_for(ended_);
  }
  void wait_for(typename D::event const& e) {
    if (!wait_on_host(device_, e, until_, [&] { check(); })) throw run_error(overdue());
  }

  failure overdue() {
    failure f{.code = failure_code::timeout, .reporter = reporter_};
    f.operation = at() == program_replaying ? "a replayed step" : "sums of gradients";
    if (auto const open = events_.find_open()) {
      f.at = call_at(*open);
      f.operation = call_text(all_[*open].call);
    }
    f.detail = "the step did not finish within " + std::to_string(options_.limit->count()) + " ms";
    return f;
  }

  /// Returns the stage call of an instruction; for a compound, that of its first part.
  stage_call call_at(std::uint32_t i) const {
    if (i >= all_.size()) return {stage_id{0}, microbatch_id{0}};
    auto const call = all_[i].call;
    auto const a = call.parts > 0 ? all_[i + 1].call.of : call.of;
    return {a.stage, a.microbatch};
  }

  void check() {
    if (auto f = communicator_.poll()) throw run_error(std::move(*f));
    if (auto f = rendezvous_.poll()) throw run_error(std::move(*f));
  }

  [[noreturn]] void fail(failure f) {
    rendezvous_.publish(f);
    communicator_.abort(f);
    auto const first = rendezvous_.poll();
    raise(first ? *first : f);
  }

  D& device_;
  C& communicator_;
  B& rendezvous_;
  executor_options options_;
  S& stages_;
  rank_id reporter_;
  // `reducing_` is null in steps that do not sum gradients
  gradient_reducer<D, C>*reducer_, *reducing_ = nullptr;
  step_recorder<D> replays_;
  std::vector<stage_id> sum_themselves_;  // stages with a custom REDUCE_GRAD
  std::vector<overlapped_pair> pairs_;    // that the stages run as one, in order
  packed_program program_;
  packed_instructions const& all_;  // of the program
  pass_memory<D> memory_;
  [[no_unique_address]] registration_of<D, C> arena_;
  stage_caller<D, S> calls_;
  instruction_events<D> events_;
  std::vector<std::uint32_t> passes_;  // the last passes issued in the current step
  std::size_t issued_passes_ = 0;
  typename D::event ended_;
  bool sums_gradients_ = true;           // of the current step
  step_end<D> last_ = {};                // likewise
  std::vector<rank_instruction> parts_;  // of the current custom action
  std::chrono::steady_clock::time_point until_ = {};
  std::atomic<std::uint32_t> at_ = program_done;
  stream computing_, moving_;  // last members, destroyed first: their pending work uses the others
};

}  // namespace cleave::detail
