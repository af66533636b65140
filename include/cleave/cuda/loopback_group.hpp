// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/detail/event.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/detail/stream.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/cuda/resources.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/transfer_matcher.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"

namespace cleave::inline v0_2::cuda {

/// A group of ranks that are threads of one process, on one or several GPUs, which send each other messages.
/// The rank that issues the second end of a message also issues the copy, on a separate stream and after
/// events of both ends. So no GPU work waits for work that has not been issued. Thread-safe.
class loopback_group {
 public:
  /// `members[i]` is the rank of member i among `ranks`, and uses `devices[i]`; all ranks differ. All
  /// arguments must outlive it.
  /// \throws cuda_error
  loopback_group(host_ranks& ranks, std::vector<rank_id> members, std::span<cuda::device* const> devices)
      : matcher_(ranks, std::move(members)), lanes_(devices.size() * devices.size()), turns_(devices.size()) {
    expects(devices.size() == matcher_.size(), "cuda::loopback_group: a device for each member");
    for (auto const* const d : devices) {
      resources_.push_back(d->resources());
      processors_.push_back(d->processors());
    }
    for (auto const* const from : devices)
      for (auto const* const to : devices) connect(from->number(), to->number());
  }

  std::uint32_t size() const { return matcher_.size(); }
  host_ranks& ranks() const { return matcher_.ranks(); }

  /// Issues transfers as `transfer_matcher::issue`. They begin after all work issued to `s`, and `e` happens
  /// when all have ended.
  /// \throws cuda_error
  void issue(std::uint32_t member, std::span<detail::group_transfer const> all, std::uint64_t reductions,
             detail::cuda_event& e, detail::cuda_stream const& s) {
    if (all.empty()) return e.record(s);
    auto& end = e.expect(static_cast<std::uint32_t>(all.size()), s, ranks(), matcher_.rank_of(member));
    matcher_.issue(member, all, reductions, &end, *this);
  }

 private:
  using matcher = detail::transfer_matcher<detail::cuda_event::transfers*>;
  friend matcher;

  /// A stream for one kind of work of a member, on its GPU, with an event to wait for.
  struct lane {
    explicit lane(std::shared_ptr<cuda::resources> const& of) : stream(of, -1), done(of) {}
    detail::cuda_stream stream;
    detail::pooled_event done;
  };
  struct lane_pair {
    std::optional<lane> sender, receiver;
  };

  static lane& open(std::optional<lane>& l, std::shared_ptr<cuda::resources> const& of) {
    return l ? *l : l.emplace(of);
  }
  bool is_shared(std::size_t a, std::size_t b) const {
    return resources_[a]->device() == resources_[b]->device();
  }

  /// Enables direct copies between two GPUs that support peer access.
  static void connect(int from, int to) {
    int can = 0;
    if (from == to) return;
    check(cudaDeviceCanAccessPeer(&can, from, to), "cudaDeviceCanAccessPeer");
    if (can == 0) return;
    detail::cuda_scope const here(from);
    auto const e = cudaDeviceEnablePeerAccess(to, 0);
    if (e != cudaErrorPeerAccessAlreadyEnabled) return check(e, "cudaDeviceEnablePeerAccess");
    static_cast<void>(cudaGetLastError());
  }

  void copy(std::uint32_t from, std::uint32_t to, matcher::issued const& sent,
            matcher::issued const& received) {
    auto& pair = lanes_[std::size_t{from} * size() + to];
    auto& here = open(pair.receiver, resources_[to]);
    sent.end->ready().hold_back(here.stream.handle());
    received.end->ready().hold_back(here.stream.handle());
    copy(here, received.memory.data, sent.memory.data, sent.memory.bytes());
    if (is_shared(from, to)) {
      sent.end->issue(here.stream.handle());
    } else {  // an event must be recorded on a stream of its own GPU
      here.done.record(here.stream.handle());
      auto& there = open(pair.sender, resources_[from]);
      here.done.hold_back(there.stream.handle());
      sent.end->issue(there.stream.handle());
    }
    received.end->issue(here.stream.handle());
  }

  /// Reduces on the GPU of the first member, in member order. Parts on other GPUs are copied there and back.
  void reduce(std::span<matcher::issued const> parts) {
    auto& here = open(turns_[0], resources_[0]);
    auto const handle = here.stream.handle();
    for (auto const& p : parts) p.end->ready().hold_back(handle);
    regions_.clear();
    std::size_t const bytes = parts[0].memory.bytes(), each = (bytes + 255) / 256 * 256;
    make_room(each);
    for (std::size_t m = 0; m < parts.size(); ++m) {
      auto r = parts[m].memory;
      if (!is_shared(0, m)) {
        r.data = static_cast<std::byte*>(room_->data()) + m * each;
        copy(here, r.data, parts[m].memory.data, bytes);
      }
      regions_.push_back(r);
    }
    if (bytes > 0) {
      detail::cuda_scope const gpu(resources_[0]->device());
      detail::launch_sum_in_order(handle, regions_, parts[0].op, processors_[0]);
      detail::check_launch("launch of a sum in order");
    }
    for (std::size_t m = 0; m < parts.size(); ++m)
      if (!is_shared(0, m)) copy(here, parts[m].memory.data, regions_[m].data, bytes);
    here.done.record(handle);
    for (std::size_t m = 0; m < parts.size(); ++m) end_part(m, parts[m], here);
  }
  void end_part(std::size_t member, matcher::issued const& part, lane const& here) {
    if (is_shared(0, member)) return part.end->issue(here.stream.handle());
    auto& there = open(turns_[member], resources_[member]);
    here.done.hold_back(there.stream.handle());
    part.end->issue(there.stream.handle());
  }

  /// Provides memory for parts on other GPUs. To replace memory that is too small, waits until it is unused.
  void make_room(std::size_t each) {
    bool const is_one_gpu = std::ranges::all_of(
        resources_, [&](auto const& r) { return r->device() == resources_[0]->device(); });
    if (is_one_gpu || (room_ && room_->size() >= each * size())) return;
    if (room_) check(cudaStreamSynchronize(turns_[0]->stream.handle()), "cudaStreamSynchronize");
    room_.emplace(resources_[0], each * size());
  }

  static void copy(lane const& on, void* to, void const* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, on.stream.handle()), "cudaMemcpyAsync");
  }

  std::vector<std::shared_ptr<cuda::resources>> resources_;  // by member
  std::vector<std::uint32_t> processors_;
  std::optional<cuda::buffer> room_;
  std::vector<region> regions_;
  matcher matcher_;
  std::vector<lane_pair> lanes_;            // by sender and receiver
  std::vector<std::optional<lane>> turns_;  // by member: where its reductions end
};
}  // namespace cleave::cuda
