// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/loopback_group.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "cleave/run/host/member_communicator.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/stable_list.hpp"
#include "cleave/run/threads/on_threads.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"

namespace cleave::inline v0_2::cuda {

/// The communicator of one member of a `cuda::loopback_group`.
using loopback_communicator = member_communicator<cuda::device, cuda::loopback_group>;

static_assert(communicator<cuda::loopback_communicator, cuda::device>);
/// The backend of ranks that are threads of one process on one or several GPUs. Ranks may share a GPU.
struct threads {
  using device = cuda::device;
  using communicator = cuda::loopback_communicator;
  using group = cuda::loopback_group;

  /// Rank r uses GPU `gpus[r % gpus.size()]`, by number in CUDA's list of devices.
  std::vector<int> gpus = {0};
  cuda::options of_each = {};  ///< `device` is ignored, and `passes` is null

  /// \throws cuda_error, or error if `gpus` is empty
  device make_device(host_ranks& /*ranks*/, rank_id r) {
    if (gpus.empty()) throw error("cuda threads: the list of GPUs is empty; give at least one, such as {0}");
    if (of_each.passes) throw error("cuda threads: a stream of the caller cannot be that of several ranks");
    auto options = of_each;
    options.device = gpus[index(r) % gpus.size()];
    return device(options);
  }
  /// \throws cuda_error
  group& make_group(detail::stable_list<group>& to, host_ranks& ranks, std::vector<rank_id> members,
                    std::span<device> devices) {
    std::vector<cuda::device*> of_members;
    for (auto const m : members) of_members.push_back(&devices[index(m)]);
    return to.emplace(ranks, std::move(members), of_members);
  }
  void begin(device& d) { d.use(); }
  /// Waits for all devices. If one does not finish, all devices keep their memory, which that one may still
  /// use.
  void end(std::span<device> devices) noexcept {
    bool ended = true;
    for (auto& d : devices) ended = d.drain() && ended;
    for (auto& d : devices)
      if (!ended) d.keep();
  }
};

/// Runs schedules on GPUs of one process, with one thread per rank. As `cleave::thread_pipeline`, except that
/// inputs and results of the caller are in memory of the GPU of the rank that reads or makes them.
template <class S>
using thread_pipeline = cleave::thread_pipeline<S, cuda::threads>;

/// Runs the ranks of a pipeline as threads with GPUs, for `make_pipeline`.
using on_threads = on_threads_of<cuda::threads>;
}  // namespace cleave::cuda
