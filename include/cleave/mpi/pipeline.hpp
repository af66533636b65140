// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/mpi/board.hpp"
#include "cleave/mpi/communicator.hpp"
#include "cleave/mpi/watch.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/program/program_activity.hpp"
#include "cleave/run/program/program_agreement.hpp"
#include "cleave/run/rank_runtime.hpp"
#include "cleave/run/step_values.hpp"

namespace cleave {

struct mpi_pipeline_options {
  mpi_watch_options watch = {};
  mpi_board_options board = {};
  mpi_options messages = {.reductions = mpi_reductions::ordered};
  mpi_patience patience = {};
  /// How many times all stages are there, for samples of their own; their gradients are summed.
  std::uint32_t replicas = 1;
  /// How ranks of MPI are ranks of replicas: neighbours are on the last axis.
  rank_grid::axes order = {rank_axis::data, rank_axis::model, rank_axis::pipe};
  std::vector<tied_gradients> ties = {};
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients that are summed at once
};

/// What one process does of schedules that run on processes of MPI, step after step. All ranks make theirs
/// from the same plan, with the same options, and call the same in the same order, each on one thread, which
/// makes no other calls of MPI meanwhile.
///
/// The first failure of any rank ends the run on all: what was called throws it, with what this rank was
/// doing where the failure is of no stage. Then MPI cannot be ended as usual: `mpi_environment::run` does
/// what can be done. Who destroys it while an exception is on its way ends the run for the others too.
template <stage<mpi_device> S>
class mpi_pipeline : activity_source {
 public:
  /// `stages` has those of this rank. Every rank of `ranks` calls it. \throws error where there are not as
  /// many ranks as the plan and the replicas need; mpi_error, run_error, tie_order_error, program_need_error
  mpi_pipeline(planned_step auto const& p, S stages, mpi_pipeline_options const& o = {},
               MPI_Comm ranks = MPI_COMM_WORLD)
      : grid_(demand_ranks(p, o, ranks)),
        sets_(tie_sets_of(o.ties)),
        stages_(std::move(stages)),
        device_(o.patience),
        board_(make_mpi_board(ranks, o.board)),
        teller_{this},
        watch_(board_, device_.run(), *this, o.watch) {
    mpi_watch::turn const together(watch_);
    make_communicators(ranks, p.order().place, o.messages);
    runtime_.emplace(device_, with_, teller_, stages_, p.order().place, rank_id{place().pipe}, sets_,
                     o.bucket_bytes);
    limit_ = o.watch.limit;
    add_plan(p);
  }
  mpi_pipeline(mpi_pipeline&&) = delete;
  ~mpi_pipeline() {
    if (std::uncaught_exceptions() > exceptions_ && !board_.poll())
      board_.publish({.code = failure_code::cancelled,
                      .detail = "rank " + std::to_string(index(rank())) + " ends before the run does",
                      .reporter = rank(),
                      .culprit = rank()});
  }

  rank_id rank() const { return board_.rank(); }
  /// Which replica this rank belongs to, and which rank of the plan it is.
  rank_coordinates place() const { return grid_[rank()]; }
  S& stages() { return stages_; }
  tcp_board& board() { return board_; }

  /// One more plan, for the same stages on the same ranks; its number. All ranks call it.
  /// \throws run_error where theirs differ; placement_change_error, program_need_error
  std::size_t add_plan(planned_step auto const& p) {
    mpi_watch::turn const together(watch_);
    runtime_->add_plan(p, plans_);
    agree_about(p);
    return plans_++;
  }

  /// This rank's part in a step; `values` of its replica.
  /// \throws stage_error, run_error, step_value_error
  void run_step(step_values const& values, std::size_t plan_number = 0) {
    expects(plan_number < plans_, "mpi_pipeline: a plan that was added");
    demand_step_values(runtime_->program(plan_number), values);
    plan_.store(plan_number, std::memory_order_relaxed);
    do_together([&] { runtime_->run_step(values, plan_number); });
  }
  /// As of `thread_pipeline`.
  void share_ties()
    requires updated_stage<S, mpi_device>
  {
    do_together([&] { runtime_->share_ties(); });
  }
  update_report update(update_options const& options = {})
    requires updated_stage<S, mpi_device>
  {
    update_report made;
    do_together([&] { made = runtime_->update(options); });
    return made;
  }

  /// What the caller gets of microbatch `m`, result `number`, if this rank makes it: until the next step by
  /// that plan.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number,
                                    std::size_t plan_number = 0) const {
    return runtime_->result(m, number, plan_number);
  }
  rank_program const& program(std::size_t plan_number = 0) const { return runtime_->program(plan_number); }
  /// When this rank began and ended each instruction of the last step, in nanoseconds since it began it.
  std::vector<instruction_time> times(std::size_t plan_number = 0) { return runtime_->times(plan_number); }

 private:
  /// The board as the executor sees it: what it publishes says who and where, and is decided on when it
  /// returns.
  struct teller {
    mpi_pipeline* pipeline;
    void publish(failure const& f) noexcept {
      auto& b = pipeline->board_;
      if (b.poll()) return;
      try {
        auto mine = f;
        if (f.reporter == no_rank || f.code == failure_code::stage) mine.reporter = b.rank();
        if (f.code == failure_code::stage) mine.culprit = b.rank();
        b.publish(pipeline->placed(std::move(mine)));
      } catch (...) {  // no memory for the words
        b.publish({f.code, f.at, {}, f.cause, b.rank()});
      }
      b.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(2));
    }
    std::optional<failure> poll() const { return pipeline->board_.poll(); }
  };
  using runtime = rank_runtime<mpi_device, mpi_communicator, teller, S>;

  static rank_grid demand_ranks(planned_step auto const& p, mpi_pipeline_options const& o, MPI_Comm ranks) {
    auto const each = static_cast<std::uint32_t>(p.order().ranks.size());
    rank_grid const grid({.pipe = each, .data = o.replicas, .model = 1}, o.order);
    int started = 0;
    check_mpi(MPI_Comm_size(ranks, &started));
    if (static_cast<std::uint32_t>(started) != grid.size())
      throw error("MPI has started " + std::to_string(started) + " ranks, but the schedule has " +
                  std::to_string(each) + " and there are " + std::to_string(o.replicas) +
                  " replicas of it; start " + std::to_string(grid.size()) + " (mpirun -n)");
    return grid;
  }

  /// All ranks make all of them, in the same order; of those in which one has no part, it makes one alone.
  void make_communicators(MPI_Comm ranks, placement const& on, mpi_options const& o) {
    auto const at = place();
    auto const make = [&](auto const&... from) {
      return &communicators_.emplace_back(1).front().emplace(from...);
    };
    auto const& all = communicators_.emplace_back(1).front().emplace(ranks, device_, o);
    with_.pipe = make(all, at.data, at.pipe);
    if (grid_.size(rank_axis::data) > 1) with_.replicas = make(all, at.pipe, at.data);
    for (auto const& set : sets_) {
      auto const members = ranks_of(set, on.rank_of);
      bool const in = members.size() > 1 && std::ranges::count(members, rank_id{at.pipe}) > 0;
      auto* const made = make(all, in ? at.data : grid_.size(rank_axis::data) + index(rank()), at.pipe);
      with_.ties.push_back(in ? made : nullptr);
    }
  }

  /// All ranks find the same; the first tells. \throws run_error where a rank has another program
  void agree_about(claimed_plan auto const& p) {
    auto const until = std::chrono::steady_clock::now() + limit_;
    try {
      agree_on_program(board_, p, rank_id{place().pipe}, rank(), grid_.size(), until);
    } catch (disagreement_error const& e) {
      if (rank() == rank_id{0})
        teller_.publish({.code = failure_code::mismatch, .detail = e.witness, .reporter = rank()});
    }
    board_.barrier(until);
  }

  template <class F>
  void do_together(F f) {
    if (auto const failed = board_.poll()) throw run_error(placed(*failed));
    mpi_watch::turn const together(watch_);
    try {
      f();
    } catch (stage_error const&) {
      throw;
    } catch (run_error const& e) {
      throw run_error(placed(e.info));
    }
  }

  /// As this rank tells it: with what it is doing, unless whoever reported it said what that one did.
  failure placed(failure f) const noexcept {
    try {
      auto const a = activity();
      if (f.at && (!f.operation.empty() || f.reporter != rank())) return f;
      f.reporter = rank();
      if (!f.at) f.at = a.at;
      f.operation = a.operation.empty() ? "between steps" : a.operation;
    } catch (...) {
      return f;  // no memory for the words
    }
    return f;
  }

  rank_activity activity() const override {
    if (plans_ == 0) return {.kind = activity_kind::computing, .operation = "being set up"};
    auto const running = plan_.load(std::memory_order_relaxed);
    auto const at = runtime_->at(running);
    auto a = activity_of(runtime_->program(running), at);
    auto const here = place();
    for (auto& p : a.peers) p = grid_[rank_coordinates{.pipe = index(p), .data = here.data, .model = 0}];
    for (std::uint32_t d = 0; at == program_reducing && d < grid_.size(rank_axis::data); ++d)
      if (d != here.data)
        a.peers.push_back(grid_[rank_coordinates{.pipe = here.pipe, .data = d, .model = 0}]);
    return a;
  }

  rank_grid grid_;
  std::vector<tie_set> sets_;
  S stages_;
  mpi_device device_;
  tcp_board board_;
  teller teller_;
  std::vector<std::vector<std::optional<mpi_communicator>>> communicators_;  // each stays where it is
  rank_communicators<mpi_communicator> with_;
  std::optional<runtime> runtime_;
  std::atomic<std::size_t> plan_ = 0;  // the one that is run
  std::atomic<std::size_t> plans_ = 0;
  std::chrono::milliseconds limit_{};
  int exceptions_ = std::uncaught_exceptions();
  mpi_watch watch_;
};

}  // namespace cleave
