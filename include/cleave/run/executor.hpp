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
#include "cleave/run/call_stage.hpp"
#include "cleave/run/concepts.hpp"
#include "cleave/run/gradient_reducer.hpp"
#include "cleave/run/pass_views.hpp"
#include "cleave/run/program_needs.hpp"
#include "cleave/run/rank_program.hpp"
#include "cleave/run/step_values.hpp"

namespace cleave {

struct executor_options {
  /// How many passes are issued beyond the last that has ended, where work runs beside the program that
  /// issues it; at least 1.
  std::size_t run_ahead = 64;
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
        reducer_(reducer),
        trains_(has_backward(program_)),
        arena_(d.allocate(program_.arena_bytes)),
        results_(d.allocate(program_.result_bytes)),
        views_(program_, arena_.data(), results_.data()),
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
    for (auto const& x : program_.passes)
      sums_.push_back(x.sums.empty() ? std::optional<typename D::sums>() : make_sums(x));
  }

  rank_program const& program() const { return program_; }

  /// One step. On the calling thread; returns when all of it has ended on this rank.
  /// \throws stage_error, run_error, step_value_error
  void run_step(step_values const& values) {
    demand_step_values(program_, values);
    views_.take_inputs(values.inputs, values.inputs_of_each);
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
      f.reporter = communicator_.rank();
      fail(std::move(f));
    }
  }

  /// What the caller gets of microbatch `m`, result `number`, if this rank makes it: until the next step.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number) const {
    for (auto const& r : program_.results)
      if (r.microbatch == m && r.number == number) return views_.result(r);
    return std::nullopt;
  }

  static constexpr std::uint32_t idle = 0xffffffff;
  /// The instruction that is being issued, where work runs as it is issued the one that is carried out;
  /// `idle` between steps. From any thread.
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
        all[i] = {since(begins_[i]), since(ends_[group_of(i)])};
    return all;
  }

 private:
  using stream = typename D::stream;

  typename D::sums make_sums(program_pass const& p) {
    std::vector<region_pair> pairs;
    for (auto const& s : p.sums) pairs.push_back({views_.room_of(s.from), views_.room_of(s.to)});
    return device_.make_sums(pairs);
  }

  static bool is_timed(call_kind k) {
    return k == call_kind::send || k == call_kind::receive || is_pass(k) || k == call_kind::other;
  }
  static bool is_pass(call_kind k) {
    return k == call_kind::forward || k == call_kind::backward || k == call_kind::backward_input ||
           k == call_kind::backward_weight;
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
    switch (call.kind) {
      case call_kind::forward:
      case call_kind::backward:
      case call_kind::backward_input:
      case call_kind::backward_weight:
        return issue_pass(i);
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
        return call_stages(i, {.stage = call.of.stage, .microbatch = {}}, {}, {});
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
    limit_run_ahead(i);
    auto const& p = program_.passes[instruction.pass];
    if (sums_[instruction.pass]) device_.accumulate(computing_, *sums_[instruction.pass], {});
    device_.record(begins_[i], computing_);
    auto const in = views_.in(instruction.pass), out = views_.out(instruction.pass);
    bool const forward = call.kind == call_kind::forward;
    if (forward)
      read_shapes(p, in);
    else
      views_.take_shapes(instruction.pass);
    call_stages(i, pass_of(instruction), in, out);
    if (forward) write_results(i, p, out);
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
      region const block{views_.arena_at(m.at), static_cast<std::size_t>(m.bytes), element_type::u8};
      message const what{m.peer, m.number, {m.call.of.stage, m.call.of.microbatch}};
      if (m.call.kind == call_kind::send)
        communicator_.send(block, what, moving_);
      else
        communicator_.receive(block, what, moving_);
    }
    communicator_.end_group(ends_[head], moving_);
  }

  void issue_other(std::uint32_t i) {
    auto const& instruction = program_.instructions[i];
    auto const& a = instruction.call.of;
    device_.record(begins_[i], computing_);
    if (!is_about_tie(a.kind)) {
      call_stages(i, pass_of(instruction), views_.in(program_.passes[instruction.pass].forward), {});
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
  void call_stages(std::uint32_t i, stage_pass const& pass, std::span<tensor_view const> in,
                   std::span<tensor_view> out) {
    auto const& call = program_.instructions[i].call;
    if constexpr (requires { computing_.about(stage_call{}); }) computing_.about(call_at());
    try {
      call_stage<D>(stages_, computing_, call, pass, in, out);
    } catch (run_error const&) {
      throw;
    } catch (...) {
      auto failed = current_failure(call_at());
      failed.reporter = failed.culprit = communicator_.rank();
      failed.operation = name_of(call.kind);
      throw run_error(std::move(failed));
    }
  }

  stage_pass pass_of(rank_instruction const& i) const {
    auto const& p = program_.passes[i.pass];
    auto const& a = i.call.of;
    return {.stage = a.stage,
            .microbatch = a.microbatch,
            .weight = weights_.empty() ? 1 : weights_[index(a.microbatch)],
            .from_loss = i.call.from_loss,
            .last = i.call.last,
            .trains = trains_,
            .stash = views_.arena_region(p.stash_at, p.stash_bytes),
            .weight_stash = views_.arena_region(p.weight_stash_at, p.weight_stash_bytes)};
  }

  /// Shapes that came with values: the program must wait for them, and does only where there are any.
  void read_shapes(program_pass const& p, std::span<tensor_view> in) {
    for (std::size_t k = 0; k < p.in.size(); ++k) {
      if (p.in[k].shape.where == place_kind::nowhere) continue;
      device_.copy(computing_, &in[k].shape, views_.arena_at(p.in[k].shape.at), sizeof(tensor_shape));
      wait_on_host(computing_);
    }
  }

  /// Copies results for those who do not read them where they were made, with their shapes.
  void write_results(std::uint32_t i, program_pass const& p, std::span<tensor_view const> out) {
    for (std::size_t k = 0; k < p.out.size(); ++k)
      if (p.out[k].shape.where != place_kind::nowhere) write_shape(i, p.out[k], out[k].shape, k);
    for (auto const& c : p.copies) {
      auto const from = views_.room_of(c.from), to = views_.room_of(c.to);
      device_.copy(computing_, to.data, from.data, from.bytes());
      if (c.to.shape.where == place_kind::nowhere) continue;
      auto const k = static_cast<std::size_t>(std::ranges::find(p.out, c.from) - p.out.begin());
      write_shape(i, c.to, out[k].shape, k);
    }
  }

  void write_shape(std::uint32_t i, program_value const& v, tensor_shape const& shape, std::size_t result) {
    auto const room = program_.layouts.shape_of(v.edge, program_.instructions[i].call.of.microbatch);
    auto const count = shape.count();
    if (shape.axes != room.axes || !count || *count > *room.count())
      throw run_error({.code = failure_code::stage,
                       .at = call_at(),
                       .detail = "result #" + std::to_string(result) +
                                 " has more elements, or another number of axes, than edge #" +
                                 std::to_string(v.edge) + " has room for",
                       .reporter = communicator_.rank(),
                       .culprit = communicator_.rank()});
    device_.copy(computing_, views_.arena_at(v.shape.at), &shape, sizeof(tensor_shape));
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

  /// Messages of an exchange end together.
  std::size_t group_of(std::size_t i) const { return views_.head_of(i); }

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
  gradient_reducer<D, C>*reducer_, *reducing_ = nullptr;  // the second in steps that sum gradients
  bool trains_;
  typename D::buffer arena_, results_;
  pass_views views_;
  typename D::event origin_, ended_;
  std::vector<typename D::event> begins_, ends_;       // of instructions
  std::vector<std::optional<typename D::sums>> sums_;  // of passes
  std::vector<std::uint32_t> passes_;                  // issued in this step
  std::span<double const> weights_;
  std::atomic<std::uint32_t> at_ = program_done;
  stream computing_, moving_;  // last: what they still do uses all else
};

}  // namespace cleave
