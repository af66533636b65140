// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_group.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/member_communicator.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/stable_list.hpp"

namespace cleave::inline v0_2 {

/// The communicator of one member of a `host_group`.
using host_communicator = member_communicator<host_device, host_group>;

static_assert(communicator<host_communicator, host_device>);
/// The devices and communicators of ranks that are threads of one process.
/// - `B::device`, `B::communicator`: movable.
/// - `B::group`: need not be movable. A communicator is made of a group and a member number.
/// - `b.make_device(ranks, r)`: returns the device of rank `r`.
/// - `b.make_group(to, ranks, members, devices)`: makes a group of the ranks `members` in `to` and returns
///   it. `devices` are those of all ranks. Each member gets a communicator.
/// - `b.begin(d)`: called once on the thread that uses `d` from then on.
/// - `b.end(devices)`: called when no more work is issued, before memory is released; noexcept.
template <class B>
concept thread_backend =
    communicator<typename B::communicator, typename B::device> &&
    std::constructible_from<typename B::communicator, typename B::group&, std::uint32_t> &&
    requires(B& b, detail::stable_list<typename B::group>& to, host_ranks& ranks, rank_id r,
             std::vector<rank_id> members, std::span<typename B::device> devices) {
      { b.make_device(ranks, r) } -> std::same_as<typename B::device>;
      { b.make_group(to, ranks, members, devices) } -> std::same_as<typename B::group&>;
      { b.begin(devices.front()) };
      { b.end(devices) } noexcept;
    };

/// The backend whose threads compute on the host themselves.
struct host_threads {
  using device = host_device;
  using communicator = host_communicator;
  using group = host_group;

  device make_device(host_ranks& ranks, rank_id r) { return {ranks, r}; }
  group& make_group(detail::stable_list<group>& to, host_ranks& ranks, std::vector<rank_id> members,
                    std::span<device> /*devices*/) {
    return to.emplace(ranks, std::move(members));
  }
  void begin(device&) {}
  void end(std::span<device>) noexcept {}
};

static_assert(thread_backend<host_threads>);
}  // namespace cleave
