// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/cuda/device.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/run/rendezvous/process_start.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
#include "cleave/run/rendezvous/tcp_socket.hpp"
#include "support/cuda/fake_cuda.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns options for a fake with `count` GPUs.
inline fake_cuda_options fake_gpus(std::uint32_t count, std::uint64_t seed = 1) {
  fake_cuda_options o;
  o.seed = seed;
  o.devices.resize(count);
  o.longest_delay = std::chrono::microseconds(seed % 2 == 0 ? 0 : 50);
  o.callers = nccl_callers::one_thread;
  return o;
}

/// Returns the start parameters of ranks that are threads of this process, as for processes, at a free port.
inline std::vector<process_start> starts_of(std::uint32_t ranks) {
  auto const key = random_rendezvous_key();
  auto const port = tcp_listener().address().port;
  std::vector<process_start> all;
  for (std::uint32_t r = 0; r < ranks; ++r) all.push_back({rank_id{r}, ranks, r, {"127.0.0.1", port}, key});
  return all;
}

/// Calls `f(start)` on a thread for each rank. Returns the exception of each, or null.
template <class F>
std::vector<std::string> on_ranks(std::uint32_t ranks, F f) {
  std::vector<std::string> thrown(ranks);
  std::vector<std::thread> threads;
  for (auto const& s : starts_of(ranks))
    threads.emplace_back([&, s] {
      try {
        f(s);
      } catch (std::exception const& e) {
        thrown[index(s.rank)] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  return thrown;
}

/// The setup of a rank before it communicates; rank r uses GPU r.
struct nccl_place {
  tcp_rendezvous rendezvous;
  cleave::cuda::device device;
  nccl_rank rank;
  cuda_stream stream;

  nccl_place(process_start const& s, cleave::cuda::nccl_options const& o, int gpu)
      : rendezvous(join_rendezvous(s)),
        device({.device = gpu}),
        rank(device, s.rank, o),
        stream(device.make_stream(0)) {
    device.use();
  }
  nccl_place(process_start const& s, cleave::cuda::nccl_options const& o = {})
      : nccl_place(s, o, static_cast<int>(index(s.rank))) {}

  /// Returns GPU memory with these bytes.
  cleave::cuda::buffer put(std::vector<std::byte> const& bytes) {
    auto made = device.allocate(bytes.size());
    cleave::cuda::check(cudaMemcpy(made.data(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
                        "cudaMemcpy");
    return made;
  }
  /// Returns the bytes of `from` once all issued work has ended.
  std::vector<std::byte> take(cleave::cuda::buffer const& from) {
    cleave::cuda::check(cudaStreamSynchronize(stream.handle()), "cudaStreamSynchronize");
    std::vector<std::byte> bytes(from.size());
    cleave::cuda::check(cudaMemcpy(bytes.data(), from.data(), bytes.size(), cudaMemcpyDeviceToHost),
                        "cudaMemcpy");
    return bytes;
  }
};

}  // namespace cleave::testing
