// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/cuda/check.hpp"
#include "cleave/cuda/detail/event.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/detail/nccl_registration.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::detail {

/// The place of a sum among those of its size and type. The first one opens connections.
enum class sum_turn : std::uint8_t { first, later };

/// All-reduce in rank order, so every rank gets the bits of `sum_in_order`. Each rank receives its slice from
/// all others, reduces it and gathers the results. Short regions, and the remainder after equal slices, are
/// gathered whole and reduced by every rank itself.
class nccl_ordered_reducer {
 public:
  /// `with` is this rank's communicator, of `size` ranks, in which its number is `here`. `rank` and `with`
  /// must outlive it.
  nccl_ordered_reducer(nccl_rank& rank, nccl_slot const& with, std::uint32_t here, std::uint32_t size)
      : rank_(&rank), with_(&with), here_(here), size_(size), ended_(rank.device().make_event()) {}

  /// Issues the reduction of `r`, in place, to `s`. Collective, in the same order on all ranks.
  /// \throws run_error
  void reduce(region const& r, reduce_op op, cuda_stream& s, sum_turn turn = sum_turn::later) {
    if (size_ < 2 || r.count == 0) return;
    auto const share = is_sliced(r) ? r.count / size_ / together * together : 0;
    auto const left = r.count - share * size_;
    region const slice = part_of(r, here_ * share, share), rest = part_of(r, size_ * share, left);
    auto const stride = stride_of(slice);
    auto* const slices = make_room(size_ * (stride + rest.bytes()), s);
    auto* const rests = slices + size_ * stride;
    if (share > 0) exchange(r, slice.bytes(), slices, stride, s, turn);
    if (left > 0) gather(rest, rests, s, turn);
    if (share > 0) sum(slice, slices, stride, op, s);
    if (left > 0) sum(rest, rests, rest.bytes(), op, s);
    if (share > 0) gather(slice, r.data, s, turn);
    rank_->device().record(ended_, s);
  }

  /// Ends what it has registered with the communicator, which it needs no more.
  void end_registrations() noexcept { registrations_.clear(); }

 private:
  /// Slices have a multiple of this many elements, so that kernels can read 16 bytes at once.
  static constexpr std::size_t together = 8;
  static constexpr std::size_t alignment = 256;

  bool is_sliced(region const& r) const {
    return size_ > 2 && r.bytes() >= rank_->options().shortest_slice && r.count >= size_ * together;
  }
  static region part_of(region const& r, std::size_t first, std::size_t count) {
    return {static_cast<std::byte*>(r.data) + first * size_of(r.type), count, r.type};
  }
  static std::size_t stride_of(region const& r) {
    return (r.bytes() + alignment - 1) / alignment * alignment;
  }

  /// Returns scratch memory. Waits in `s` for the previous reduction, which may be on another stream. Buffers
  /// that became too small are kept until the end, as they may still be in use.
  std::byte* make_room(std::size_t bytes, cuda_stream& s) {
    auto& device = rank_->device();
    if (room_.empty() || room_.back().size() < bytes) {
      room_.push_back(device.allocate((std::max)(bytes, room_.empty() ? 0 : 2 * room_.back().size())));
      if (rank_->options().registrations != cuda::nccl_registrations::none)
        registrations_.push_back(nccl_registration::of_buffer(
            *rank_, *with_, {room_.back().data(), room_.back().size(), element_type::u8}));
    }
    device.wait(s, ended_);
    return static_cast<std::byte*>(room_.back().data());
  }

  /// Exchanges slices with some ranks at a time. In each group every rank sends as many messages as it
  /// receives.
  void exchange(region const& r, std::size_t bytes, std::byte* to, std::size_t stride, cuda_stream& s,
                sum_turn turn) {
    auto const at_once = (std::max)(rank_->options().largest_group / 2, 1u);
    for (std::uint32_t first = 1; first < size_; first += at_once)
      group(turn, [&] {
        for (auto away = first; away < (std::min)(size_, first + at_once); ++away) {
          auto const peer = (here_ + away) % size_, from = (here_ + size_ - away) % size_;
          auto* const sent = static_cast<std::byte*>(r.data) + peer * bytes;
          auto const c = with_->handle;
          check("ncclSend", ncclSend(sent, bytes, ncclUint8, static_cast<int>(peer), c, s.handle()));
          check("ncclRecv",
                ncclRecv(to + from * stride, bytes, ncclUint8, static_cast<int>(from), c, s.handle()));
        }
      });
  }
  void gather(region const& own, void* to, cuda_stream& s, sum_turn turn) {
    group(turn, [&] {
      check("ncclAllGather", ncclAllGather(own.data, to, own.bytes(), ncclUint8, with_->handle, s.handle()));
    });
  }

  /// Reduces the parts of the other ranks, which begin at `parts`, and the own part, which gets the result.
  void sum(region const& own, std::byte* parts, std::size_t stride, reduce_op op, cuda_stream& s) {
    parts_.assign(size_, own);
    for (std::uint32_t r = 0; r < size_; ++r)
      if (r != here_) parts_[r].data = parts + r * stride;
    launch_sum_in_order(s.handle(), parts_, op, rank_->device().processors(), here_);
    check_launch("sum_in_order");
  }

  void check(std::string_view call, ncclResult_t r) const { rank_->check(call, r, with_->handle); }
  template <class Issue>
  void group(sum_turn turn, Issue issue) const {
    if (turn == sum_turn::first)
      rank_->connecting_group(*with_, issue);
    else
      rank_->group(*with_, issue);
  }

  nccl_rank* rank_;
  nccl_slot const* with_;
  std::uint32_t here_, size_;
  cuda_event ended_;                // end of the last reduction
  std::vector<cuda::buffer> room_;  // the last buffer is used
  std::vector<nccl_registration> registrations_;
  std::vector<region> parts_;
};

}  // namespace cleave::detail
