// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/detail/nccl_check.hpp"
#include "cleave/cuda/detail/stream.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/schedule/model/link_measurement.hpp"

namespace cleave::inline v0_2::detail {

/// Sends messages between the GPUs of a communicator, to measure its links. Helper of `cuda::measure_links`.
class nccl_messages {
 public:
  nccl_messages(ncclComm_t of, std::size_t bytes, std::chrono::milliseconds within)
      : of_(of),
        within_(within),
        rank_(number(&ncclCommUserRank, "ncclCommUserRank")),
        ranks_(number(&ncclCommCount, "ncclCommCount")),
        device_({.device = static_cast<int>(number(&ncclCommCuDevice, "ncclCommCuDevice"))}),
        memory_(device_.allocate((std::max)(bytes, 2 * sizeof(double) * ranks_ * ranks_))),
        stream_(device_.make_stream(0)) {
    device_.use();
  }
  std::size_t rank() const { return rank_; }
  std::size_t ranks() const { return ranks_; }

  void wait_for_all() {
    call(ncclAllReduce(memory_.data(), memory_.data(), 1, ncclInt8, ncclMax, of_, stream_.handle()),
         "ncclAllReduce");
    finish();
  }

  /// Returns the seconds of round trips, without the first one, which opens the connection.
  std::vector<double> trips(std::size_t to, std::size_t bytes, std::uint32_t rounds) {
    auto const peer = static_cast<int>(to);
    auto const send = [&] {
      call(ncclSend(memory_.data(), bytes, ncclInt8, peer, of_, stream_.handle()), "ncclSend");
    };
    auto const receive = [&] {
      call(ncclRecv(memory_.data(), bytes, ncclInt8, peer, of_, stream_.handle()), "ncclRecv");
    };
    std::vector<double> times;
    for (std::uint32_t i = 0; i <= rounds; ++i) {
      auto const begin = std::chrono::steady_clock::now();
      rank_ < to ? send() : receive();
      rank_ < to ? receive() : send();
      finish();
      if (i > 0)
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return times;
  }

  /// Replaces each number by the largest one of all ranks.
  void make_largest(std::vector<double>& of) {
    auto const bytes = of.size() * sizeof(double);
    cuda::check(cudaMemcpyAsync(memory_.data(), of.data(), bytes, cudaMemcpyHostToDevice, stream_.handle()),
                "cudaMemcpyAsync");
    call(
        ncclAllReduce(memory_.data(), memory_.data(), of.size(), ncclFloat64, ncclMax, of_, stream_.handle()),
        "ncclAllReduce");
    cuda::check(cudaMemcpyAsync(of.data(), memory_.data(), bytes, cudaMemcpyDeviceToHost, stream_.handle()),
                "cudaMemcpyAsync");
    finish();
  }

 private:
  using clock = std::chrono::steady_clock;

  std::uint32_t number(ncclResult_t (*get)(ncclComm_t, int*), char const* name) {
    int made = 0;
    call(get(of_, &made), name);
    return static_cast<std::uint32_t>(made);
  }

  /// Checks the result of a call. A communicator that does not block is waited for.
  void call(ncclResult_t r, char const* name) {
    for (auto const until = clock::now() + within_; r == ncclInProgress; std::this_thread::yield()) {
      if (clock::now() > until) give_up();
      if (auto const e = ncclCommGetAsyncError(of_, &r); e != ncclSuccess) r = e;
    }
    if (r != ncclSuccess) throw run_error(nccl_failure({name, r, ncclGetErrorString(r)}, rank_id{rank_}));
  }

  /// Waits until all work has ended.
  void finish() {
    for (auto const until = clock::now() + within_;;) {
      auto const e = cudaStreamQuery(stream_.handle());
      if (e == cudaSuccess) return;
      if (e != cudaErrorNotReady) cuda::check(e, "cudaStreamQuery");
      ncclResult_t r = ncclSuccess;
      call(ncclCommGetAsyncError(of_, &r), "ncclCommGetAsyncError");
      if (r != ncclInProgress) call(r, "measure_links");
      if (clock::now() > until) give_up();
    }
  }
  [[noreturn]] void give_up() const {
    throw run_error({.code = failure_code::timeout,
                     .detail = "measure_links: another rank did not answer within " +
                               std::to_string(within_.count()) +
                               " ms; all ranks of the communicator have to call it. Abort the communicator",
                     .reporter = rank_id{rank_}});
  }

  ncclComm_t of_;
  std::chrono::milliseconds within_;
  std::uint32_t rank_ = 0, ranks_ = 0;
  cuda::device device_;
  cuda::buffer memory_;
  cuda_stream stream_;  // ends first: if its work does not, the memory is kept
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// Measures the links between the GPUs of a communicator of NCCL, as `mpi::measure_links` does: by messages
/// there and back, one pair at a time. A latency contains the launch of a kernel at each end, as messages of
/// a pipeline do. Collective: all ranks call it, each in a thread or process of its own.
///
/// \param within limit for the other ranks to answer; afterwards the communicator must be aborted. It holds
/// for communicators that do not block (`ncclConfig_t::blocking` = 0); in others NCCL may wait inside a call
/// \throws error if an option is out of range; run_error; cuda_error
inline std::vector<rank_link> measure_links(ncclComm_t of, link_measurement const& o = {},
                                            std::chrono::milliseconds within = std::chrono::seconds(60)) {
  detail::check_link_measurement(o);
  detail::nccl_messages messages(of, o.bytes, within);
  return detail::measure_pairs(
      messages.rank(), messages.ranks(), o, [&] { messages.wait_for_all(); },
      [&](std::size_t to, std::size_t bytes) { return messages.trips(to, bytes, o.rounds); },
      [&](std::vector<double>& figures) { messages.make_largest(figures); });
}

}  // namespace cleave::cuda
