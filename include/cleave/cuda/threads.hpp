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
#include "cleave/run/model/steady_list.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"

namespace cleave::cuda {

/// One member of a `cuda::loopback_group`.
using loopback_communicator = member_communicator<cuda::device, cuda::loopback_group>;

static_assert(communicator<cuda::loopback_communicator, cuda::device>);
/// Ranks that are threads of one process, each with a GPU or several with the same.
struct threads {
  using device = cuda::device;
  using communicator = cuda::loopback_communicator;
  using group = cuda::loopback_group;

  /// Rank r uses GPU `gpus[r % gpus.size()]`, of those that CUDA lists.
  std::vector<int> gpus = {0};
  cuda::options of_each = {};  ///< but for its `device`

  /// \throws cuda_error, error where no GPU is named
  device make_device(host_ranks& /*ranks*/, rank_id r) {
    if (gpus.empty()) throw error("cuda threads: no GPU is named; name one at least, {0} for the first");
    auto options = of_each;
    options.device = gpus[index(r) % gpus.size()];
    return device(options);
  }
  /// \throws cuda_error
  group& make_group(detail::steady_list<group>& to, host_ranks& ranks, std::vector<rank_id> members,
                    std::span<device> devices) {
    std::vector<cuda::device*> of_members;
    for (auto const m : members) of_members.push_back(&devices[index(m)]);
    return to.emplace(ranks, std::move(members), of_members);
  }
  void begin(device& d) { d.use(); }
  /// Where the work of one does not end, all leave what they have: it may use memory of any.
  void end(std::span<device> devices) noexcept {
    bool ended = true;
    for (auto& d : devices) ended = d.drain() && ended;
    for (auto& d : devices)
      if (!ended) d.keep();
  }
};

/// Runs schedules on GPUs of one process, by a thread for each rank. As of `thread_pipeline`, where what the
/// caller gives and gets is memory of the GPU of the rank that reads or makes it.
template <class S>
using thread_pipeline = cleave::thread_pipeline<S, cuda::threads>;
}  // namespace cleave::cuda
