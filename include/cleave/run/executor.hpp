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
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/concepts.hpp"
#include "cleave/run/gradients/gradient_reducer.hpp"
#include "cleave/run/program/call_stage.hpp"
#include "cleave/run/program/pass_memory.hpp"
#include "cleave/run/program/program_needs.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/step_values.hpp"

namespace cleave {

struct executor_options {
  /// How many passes are issued beyond the last that has ended, where work runs beside the program that
  /// issues it; at least 1.
  std::size_t run_ahead = 64;
  /// Who it is on the board: with replicas, another than in its program.
  rank_id reporter = no_rank;
};

/// When a rank did something, in nanoseconds since its step began.
struct instruction_time {
  std::int64_t begin = 0, end = 0;

  bool operator==(instruction_time const&) const = default;
};

/// Carries out the program of one rank, step after step, on any device: issues passes to one stream and
/// messages to another, each behind what it needs and nothing else. All memory and all events are made once.
/// What it refers to must outlive it.
///
/// A step that fails publishes why, aborts the communicator and throws; then nothing is known of what was
/// issued, and the executor is of no more use.
template <device D, communicator<D> C, board B, stage<D> S>
class executor {
 public:
  /// `reducer` sums gradients across replicas and ties; null: there are none.
  /// \throws program_need_error where the stages cannot do what the program asks for
  executor(D& d, C& c, B& b, S& s, rank_program p, executor_options const& options = {},
           gradient_reducer<D, C>* reducer = nullptr)
      : device_(d),
        communicator_(c),
        board_(b),
        stages_(s),
        program_(std::move(p)),
        options_(options),
        reporter_(options.reporter == no_rank ? program_.rank : options.reporter),
        reducer_(reducer),
        trains_(has_backward(program_)),
        memory_(d, program_),
        origin_(d.make_event()),
        ended_(d.make_event()),
        computing_(d.make_stream(0)),
        moving_(d.make_stream(-1)) {
    expects(options.run_ahead > 0, "executor: room for one pass");
    demand_abilities<S, D>(program_);
    for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
      begins_.push_back(d.make_event());
      ends_.push_back(d.make_event());
    }
    heads_ = heads_of(program_);
  }

  rank_program const& program() const { return program_; }

  /// One step. On the calling thread; returns when all of it has ended on this rank.
  /// \throws stage_error, run_error, step_value_error
  void run_step(step_values const& values) {
    demand_step_values(program_, values);
    memory_.take_inputs(values);
    weights_ = values.weights;
    reducing_ = values.gradients == gradient_end::reduced && trains_ ? reducer_ : nullptr;
    try {
      device_.record(origin_, computing_);
      passes_.clear();
      issue_all();
      wait_for_all();
      at_.store(program_done, std::memory_order_relaxed);
    } catch (run_error const& e) {
      fail(e.info);
    } catch (...) {
      failure f = current_failure(call_at());
      f.reporter = reporter_;
      fail(std::move(f));
    }
  }

  /// What the caller gets of microbatch `m`, result `number`, if this rank makes it: until the next step.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number) const {
    return memory_.result(m, number);
  }

  /// The instruction that is being issued, where work runs as it is issued the one that is carried out;
  /// `program_done` between steps. From any thread.
  std::uint32_t at() const { return at_.load(std::memory_order_relaxed); }

  /// When each instruction of the last step began and ended. Of a message: from when it could go until it
  /// had.
  std::vector<instruction_time> times() {
    std::vector<instruction_time> all(program_.instructions.size());
    auto const since = [&](typename D::event const& e) {
      return std::int64_t{std::chrono::nanoseconds(device_.elapsed(origin_, e)).count()};
    };
    for (std::size_t i = 0; i < all.size(); ++i)
      if (is_timed(program_.instructions[i].call.kind))
        all[i] = {since(begins_[group_of(i)]), since(ends_[group_of(i)])};
    return all;
  }

 private:
  using stream = typename D::stream;

  static bool is_timed(call_kind k) {
    return k == call_kind::send || k == call_kind::receive || is_pass(k) || k == call_kind::other;
  }

  void issue_all() {
    auto const& all = program_.instructions;
    for (std::uint32_t i = 0; i < all.size(); i += 1u + all[i].call.parts) {
      at_.store(i, std::memory_order_relaxed);
      check();
      issue(i);
    }
  }

  void issue(std::uint32_t i) {
    auto const& call = program_.instructions[i].call;
    if (is_pass(call.kind)) return issue_pass(i);
    switch (call.kind) {
      case call_kind::send:
      case call_kind::receive:
        return issue_messages(i, i, i + 1);
      case call_kind::exchange:
        return issue_messages(i, i + 1, i + 1 + call.parts);
      case call_kind::wait_send:  // a later message may be received where this one was
        device_.wait(moving_, ends_[group_of(call.begun)]);
        [[fallthrough]];
      case call_kind::wait_receive:
        return device_.wait(computing_, ends_[group_of(call.begun)]);
      case call_kind::unshard:
      case call_kind::reshard:
        return call_stages(i, {}, {});
      case call_kind::reduce:
      case call_kind::start_reduce:
        if (reducing_) reducing_->begin_replicas(call.of.stage, computing_);
        return;
      case call_kind::wait_reduce:
        if (reducing_) reducing_->end_replicas(call.of.stage, computing_);
        return;
      case call_kind::other:
        return issue_other(i);
      default:
        return;  // what a stage does by itself, or what the order of the streams does
    }
  }

  void issue_pass(std::uint32_t i) {
    auto const& instruction = program_.instructions[i];
    auto const& call = instruction.call;
    bool const forward = call.kind == call_kind::forward;
    limit_run_ahead(i);
    if (!forward) memory_.add_gradients(computing_, instruction.pass);
    device_.record(begins_[i], computing_);
    if (forward && memory_.read_shapes(computing_, instruction.pass)) wait_on_host(computing_);
    call_stages(i, memory_.in(instruction.pass), memory_.out(instruction.pass));
    device_.record(ends_[i], computing_);
  }

  void issue_messages(std::uint32_t head, std::uint32_t first, std::uint32_t last) {
    for (auto i = first; i < last; ++i) {
      auto const after = program_.instructions[i].after;
      if (after != rank_instruction::none) device_.wait(moving_, ends_[after]);
    }
    device_.record(begins_[head], moving_);
    communicator_.begin_group();
    for (auto i = first; i < last; ++i) {
      auto const& m = program_.instructions[i];
      message const what{m.peer, m.number, {m.call.of.stage, m.call.of.microbatch}};
      if (m.call.kind == call_kind::send)
        communicator_.send(memory_.block(m), what, moving_);
      else
        communicator_.receive(memory_.block(m), what, moving_);
    }
    communicator_.end_group(ends_[head], moving_);
  }

  void issue_other(std::uint32_t i) {
    auto const& instruction = program_.instructions[i];
    auto const& a = instruction.call.of;
    device_.record(begins_[i], computing_);
    if (!is_about_tie(a.kind)) {
      call_stages(i, memory_.in(program_.passes[instruction.pass].forward), {});
    } else if (reducing_) {
      if (a.kind == action_kind::reduce_tie)
        reducing_->begin_tie(a.stage, a.peer, computing_);
      else
        reducing_->end_tie(a.stage, a.peer, computing_);
    }
    device_.record(ends_[i], computing_);
  }

  /// What a stage throws is a failure of it, and of nothing else. A stream whose work throws later is told
  /// what the work is about.
  void call_stages(std::uint32_t i, std::span<tensor_view const> in, std::span<tensor_view> out) {
    auto const& instruction = program_.instructions[i];
    auto const& call = instruction.call;
    if constexpr (requires { computing_.about(stage_call{}); }) computing_.about(call_at());
    try {
      call_stage<D>(stages_, computing_, call, pass_of(instruction), in, out);
      if (call.kind == call_kind::forward)
        memory_.write_results(computing_, instruction.pass, call.of.microbatch);
    } catch (run_error const&) {
      throw;
    } catch (...) {
      auto failed = current_failure(call_at());
      failed.reporter = failed.culprit = reporter_;
      failed.operation = name_of(call.kind);
      throw run_error(std::move(failed));
    }
  }

  stage_pass pass_of(rank_instruction const& i) const {
    auto const& a = i.call.of;
    if (i.pass == rank_instruction::none) return {.stage = a.stage, .microbatch = a.microbatch};
    return {.stage = a.stage,
            .microbatch = a.microbatch,
            .weight = weights_.empty() ? 1 : weights_[index(a.microbatch)],
            .from_loss = i.call.from_loss,
            .last = i.call.last,
            .trains = trains_,
            .stash = memory_.stash(i.pass),
            .weight_stash = memory_.weight_stash(i.pass)};
  }

  void limit_run_ahead(std::uint32_t i) {
    passes_.push_back(i);
    if (passes_.size() > options_.run_ahead)
      wait_on_host(ends_[passes_[passes_.size() - 1 - options_.run_ahead]]);
  }

  void wait_for_all() {
    for (std::uint32_t i = 0; i < program_.instructions.size();
         i += 1u + program_.instructions[i].call.parts) {
      auto const kind = program_.instructions[i].call.kind;
      if (kind != call_kind::send && kind != call_kind::receive && kind != call_kind::exchange) continue;
      at_.store(i, std::memory_order_relaxed);
      device_.wait(computing_, ends_[i]);
    }
    at_.store(program_reducing, std::memory_order_relaxed);
    if (reducing_) reducing_->end_all(computing_);
    wait_on_host(computing_);
  }

  void wait_on_host(stream& s) {
    device_.record(ended_, s);
    wait_on_host(ended_);
  }
  void wait_on_host(typename D::event const& e) {
    for (int turn = 0; !device_.query(e); ++turn) {
      check();
      if (turn < 1000)
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  /// Messages of an exchange begin and end together.
  std::uint32_t group_of(std::size_t i) const { return heads_[i]; }

  stage_call call_at() const {
    auto const i = at();
    if (i >= program_.instructions.size()) return {stage_id{0}, microbatch_id{0}};
    auto const& a = program_.instructions[i].call.of;
    return {a.stage, a.microbatch};
  }

  void check() {
    if (auto f = communicator_.poll()) throw run_error(std::move(*f));
    if (auto f = board_.poll()) throw run_error(std::move(*f));
  }

  [[noreturn]] void fail(failure f) {
    board_.publish(f);
    communicator_.abort(f);
    auto const first = board_.poll();
    raise(first ? *first : f);
  }

  D& device_;
  C& communicator_;
  B& board_;
  S& stages_;
  rank_program program_;
  executor_options options_;
  rank_id reporter_;
  gradient_reducer<D, C>*reducer_, *reducing_ = nullptr;  // the second in steps that sum gradients
  bool trains_;
  pass_memory<D> memory_;
  typename D::event origin_, ended_;
  std::vector<typename D::event> begins_, ends_;  // of instructions
  std::vector<std::uint32_t> heads_;              // likewise: the exchange that it is part of, or itself
  std::vector<std::uint32_t> passes_;             // issued in this step
  std::span<double const> weights_;
  std::atomic<std::uint32_t> at_ = program_done;
  stream computing_, moving_;  // last: what they still do uses all else
};

}  // namespace cleave
