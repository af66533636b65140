// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/nccl_communicator.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/run/board/process_start.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/steady_list.hpp"
#include "cleave/run/processes/process_pipeline.hpp"
#include "cleave/schedule/model/delivery.hpp"

namespace cleave {

struct cuda_pipeline_options {
  /// Of those that CUDA lists; none: the only one, or that of the number of the process on its machine.
  std::optional<int> gpu = {};
  cuda_options device = {};  ///< but for its number
  nccl_options messages = {};
  watch_options watch = {};
  tcp_board_options board = {};  ///< but for its key
  /// How many times all stages are there, for samples of their own; their gradients are summed.
  std::uint32_t replicas = 1;
  /// How processes are ranks of replicas: neighbours are on the last axis.
  rank_grid::axes order = {rank_axis::data, rank_axis::model, rank_axis::pipe};
  std::vector<tied_gradients> ties = {};
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients that are summed at once
  step_mode steps = step_mode::issued;               ///< as of `executor_options`, as CUDA graphs
};

}  // namespace cleave

namespace cleave::detail {

/// The GPU, of so many, of a process that is number `local_rank` on its machine; nothing where there are too
/// few. One that sees a single GPU was given it.
constexpr std::optional<int> find_gpu(std::uint32_t local_rank, int count) {
  if (count == 1) return 0;
  if (count < 0 || local_rank >= static_cast<std::uint32_t>(count)) return std::nullopt;
  return static_cast<int>(local_rank);
}

/// A machine with more processes than GPUs. The witness: the number of the process.
class gpu_error : public witness_error<std::uint32_t> {
 public:
  gpu_error(std::uint32_t local_rank, int count)
      : witness_error("process " + std::to_string(local_rank) + " of its machine sees " +
                          std::to_string(count) +
                          " GPUs, counted from 0; start no more processes there than it has, or say which "
                          "each takes (cuda_pipeline_options::gpu)",
                      local_rank) {}
};

/// A plan that was verified for messages which do not wait for each other. The witness: for which.
class plan_delivery_error : public witness_error<delivery> {
 public:
  explicit plan_delivery_error(delivery d)
      : witness_error(
            "the plan was verified for messages that do not wait for each other, but through NCCL those of a "
            "rank go one after the other; make it with program_options{.delivery = {.delivery = "
            "delivery::one_queue}}",
            d) {}
};

/// How messages go for which a plan was verified, where it may get stuck if those of a rank go one after the
/// other; or nothing.
std::optional<delivery> find_plan_delivery_fault(planned_step auto const& p) {
  if constexpr (requires { p.options().delivery; }) {
    delivery_rules const rules = p.options().delivery;
    if (rules.delivery != delivery::one_queue && rules.delivery != delivery::rendezvous)
      return rules.delivery;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// A GPU, and NCCL between them: what a process of a `cuda_pipeline` computes and sends with.
class cuda_backend final : public rank_watch::waiter {
 public:
  using device = cuda_device;
  using communicator = detail::nccl_communicator;

  /// Every rank makes its own; returns when all have joined. \throws error, gpu_error, run_error
  cuda_backend(process_start const& start, cuda_pipeline_options const& o)
      : board_(detail::join_board(start, o.board)),
        device_(make_device(start, o)),
        nccl_(device_, board_.rank(), o.messages),
        connecting_(device_.make_stream(0)) {}

  tcp_board& board() { return board_; }
  cuda_device& own_device() { return device_; }

  detail::nccl_communicator& connect_all() {
    all_ = &communicators_.emplace(nccl_, board_, board_.rank(), board_.size());
    return *all_;
  }
  detail::nccl_communicator* connect(std::optional<std::uint32_t> colour, std::uint32_t key) {
    auto& made = communicators_.emplace(*all_, colour, key, detail::nccl_communicator::use::messages);
    return colour ? &made : nullptr;
  }
  detail::nccl_communicator* connect_sums(std::optional<std::uint32_t> colour, std::uint32_t key) {
    auto& made = communicators_.emplace(*all_, colour, key, detail::nccl_communicator::use::sums);
    if (!colour) return nullptr;
    std::vector<rank_id> others;
    bool const sliced = made.size() > 2 && nccl_.options().reductions == nccl_reductions::ordered;
    for (std::uint32_t r = 0; sliced && r < made.size(); ++r)
      if (rank_id{r} != made.rank()) others.push_back(rank_id{r});
    made.warm_up(std::move(others), connecting_);
    return &made;
  }

  /// \throws run_error too where more messages begin together than may
  void prepare(detail::nccl_communicator& c, rank_program const& p) {
    std::vector<rank_id> peers;
    for (auto const& i : p.instructions) {
      if (i.call.parts > nccl_.options().largest_group) refuse(i.call.parts);
      bool const moves = i.call.kind == call_kind::send || i.call.kind == call_kind::receive;
      if (moves && std::ranges::find(peers, i.peer) == peers.end()) peers.push_back(i.peer);
    }
    c.warm_up(std::move(peers), connecting_);
  }

  void release(failure const& f) noexcept override { nccl_.publish(f); }
  void end() noexcept { nccl_.abort_all(); }

 private:
  /// The others need not wait for a rank without a GPU.
  cuda_device make_device(process_start const& start, cuda_pipeline_options const& o) {
    try {
      auto chosen = o.device;
      chosen.device = o.gpu ? *o.gpu : demand_gpu(start.local_rank);
      return cuda_device(chosen);
    } catch (error const& e) {
      board_.publish({.code = failure_code::device, .detail = e.what(), .reporter = start.rank});
      throw;
    }
  }
  /// Where CUDA cannot say how many there are, the device says why.
  static int demand_gpu(std::uint32_t local_rank) {
    int count = 0;
    bool const known = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
    auto const found = known ? detail::find_gpu(local_rank, count) : 0;
    if (!found) throw detail::gpu_error(local_rank, count);
    return *found;
  }

  [[noreturn]] void refuse(std::uint32_t together) {
    auto const f = detail::too_many_messages(together, nccl_.options().largest_group, board_.rank());
    board_.publish(f);
    nccl_.fail(f);
  }

  tcp_board board_;
  cuda_device device_;
  detail::nccl_rank nccl_;
  detail::cuda_stream connecting_;
  detail::steady_list<detail::nccl_communicator> communicators_;
  detail::nccl_communicator* all_ = nullptr;
};

/// What one process does of schedules that run on GPUs of processes, one GPU each, step after step:
/// `process_pipeline` with CUDA and NCCL. torchrun, mpirun or srun starts the processes, all with one
/// CLEAVE_KEY.
template <stage<cuda_device> S>
class cuda_pipeline : public process_pipeline<S, cuda_backend> {
 public:
  /// `make_stages(device)` gives the stages of this rank, which use that device. Every process calls it.
  /// \throws plan_delivery_error; error where there are not as many ranks as the plan and the replicas need;
  /// gpu_error, cuda_error, nccl_version_error, run_error, tie_order_error, program_need_error, and what it
  /// throws
  template <std::invocable<cuda_device&> F>
  cuda_pipeline(planned_step auto const& p, F make_stages, cuda_pipeline_options const& o = {},
                process_start const& start = read_process_start())
      : process_pipeline<S, cuda_backend>(
            demand_delivery(p), std::move(make_stages),
            {.watch = o.watch,
             .replicas = o.replicas,
             .order = o.order,
             .ties = o.ties,
             .bucket_bytes = o.bucket_bytes,
             .steps = o.steps},
            {start.size, "there are", "torchrun --nproc-per-node, mpirun -n or srun -n"}, start, o) {}

  /// As of `process_pipeline`. \throws plan_delivery_error too
  std::size_t add_plan(planned_step auto const& p) {
    return process_pipeline<S, cuda_backend>::add_plan(demand_delivery(p));
  }

 private:
  template <planned_step P>
  static P const& demand_delivery(P const& p) {
    if (auto const d = detail::find_plan_delivery_fault(p)) throw detail::plan_delivery_error(*d);
    return p;  // NOLINT(bugprone-return-const-ref-from-parameter): for the length of a call
  }
};

template <class P, std::invocable<cuda_device&> F>
cuda_pipeline(P const&, F, auto const&...)
    -> cuda_pipeline<std::remove_cvref_t<std::invoke_result_t<F, cuda_device&>>>;

}  // namespace cleave
