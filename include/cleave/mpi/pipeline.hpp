// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/mpi/board.hpp"
#include "cleave/mpi/communicator.hpp"
#include "cleave/mpi/device.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/steady_list.hpp"
#include "cleave/run/processes/process_pipeline.hpp"

namespace cleave {

struct mpi_pipeline_options {
  watch_options watch = {};
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

/// The processor, and MPI between ranks: what a process of an `mpi_pipeline` computes and sends with.
class mpi_backend final : public rank_watch::waiter {
 public:
  using device = mpi_device;
  using communicator = detail::mpi_communicator;

  /// Every rank of `ranks` calls it. \throws mpi_error, run_error
  mpi_backend(MPI_Comm ranks, mpi_pipeline_options const& o)
      : ranks_(ranks), messages_(o.messages), device_(o.patience), board_(detail::make_mpi_board(ranks, o.board)) {}

  tcp_board& board() { return board_; }
  mpi_device& own_device() { return device_; }

  detail::mpi_communicator& connect_all() {
    all_ = &communicators_.emplace(ranks_, device_, messages_);
    return *all_;
  }
  /// Who says no colour makes one alone.
  detail::mpi_communicator* connect(std::optional<std::uint32_t> colour, std::uint32_t key) {
    auto& made = communicators_.emplace(*all_, colour ? *colour : all_->size() + index(all_->rank()), key);
    return colour ? &made : nullptr;
  }
  detail::mpi_communicator* connect_sums(std::optional<std::uint32_t> colour, std::uint32_t key) {
    return connect(colour, key);
  }
  void prepare(detail::mpi_communicator&, rank_program const&) {}

  void release(failure const& f) noexcept override { device_.run().publish(f); }
  void end() noexcept {}

 private:
  MPI_Comm ranks_;
  mpi_options messages_;
  mpi_device device_;
  tcp_board board_;
  detail::steady_list<detail::mpi_communicator> communicators_;
  detail::mpi_communicator* all_ = nullptr;
};

/// What one process does of schedules that run on processes of MPI, step after step: `process_pipeline` with
/// MPI. No other calls of MPI are made meanwhile.
///
/// After a failure MPI cannot be ended as usual: `mpi_environment::run` does what can be done.
template <stage<mpi_device> S>
class mpi_pipeline : public process_pipeline<S, mpi_backend> {
 public:
  /// `stages` has those of this rank. Every rank of `ranks` calls it. \throws error where there are not as
  /// many ranks as the plan and the replicas need; mpi_error, run_error, tie_order_error, program_need_error
  mpi_pipeline(planned_step auto const& p, S stages, mpi_pipeline_options const& o = {},
               MPI_Comm ranks = MPI_COMM_WORLD)
      : process_pipeline<S, mpi_backend>(
            p, [&](mpi_device&) { return std::move(stages); },
            {.watch = o.watch,
             .replicas = o.replicas,
             .order = o.order,
             .ties = o.ties,
             .bucket_bytes = o.bucket_bytes},
            {size_of(ranks), "MPI has started", "mpirun -n"}, ranks, o) {}

 private:
  static std::uint32_t size_of(MPI_Comm ranks) {
    int started = 0;
    detail::check_mpi(MPI_Comm_size(ranks, &started));
    return static_cast<std::uint32_t>(started);
  }
};
}  // namespace cleave
