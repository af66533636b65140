// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cleave/cuda/check.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/kernels.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::detail {

/// Reductions of one communicator in the order of its ranks. Each rank gets one slice of all others, reduces
/// it and gives the result to all; what is short, or left over by equal slices, all give to all and each
/// reduces itself. So the bits are those of `sum_in_order`, at each rank.
class nccl_ordered_reducer {
 public:
  /// `with` is this rank's communicator, of `size` ranks of which it is number `here`; both must outlive it.
  nccl_ordered_reducer(nccl_rank& rank, ncclComm_t const& with, std::uint32_t here, std::uint32_t size)
      : rank_(&rank), with_(&with), here_(here), size_(size), ended_(rank.device().make_event()) {}

  /// Issues the reduction of `r`, in place, to `s`. All ranks call it, in the same order. \throws run_error
  void reduce(region const& r, reduce_op op, cuda_stream& s) {
    if (size_ < 2 || r.count == 0) return;
    auto const share = is_sliced(r) ? r.count / size_ / together * together : 0;
    auto const left = r.count - share * size_;
    region const slice = part_of(r, here_ * share, share), rest = part_of(r, size_ * share, left);
    auto const stride = stride_of(slice);
    auto* const slices = make_room(size_ * (stride + rest.bytes()), s);
    auto* const rests = slices + size_ * stride;
    if (share > 0) exchange(r, slice.bytes(), slices, stride, s);
    if (left > 0) gather(rest, rests, s);
    if (share > 0) sum(slice, slices, stride, op, s);
    if (left > 0) sum(rest, rests, rest.bytes(), op, s);
    if (share > 0) gather(slice, r.data, s);
    rank_->device().record(ended_, s);
  }

 private:
  /// Slices are so many elements, or a multiple, so that kernels read 16 bytes at once.
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

  /// What it reduced before may have been issued to another stream. Room that was too small stays until the
  /// end: it may still be used.
  std::byte* make_room(std::size_t bytes, cuda_stream& s) {
    auto& device = rank_->device();
    if (room_.empty() || room_.back().size() < bytes)
      room_.push_back(device.allocate((std::max)(bytes, room_.empty() ? 0 : 2 * room_.back().size())));
    device.wait(s, ended_);
    return static_cast<std::byte*>(room_.back().data());
  }

  /// By messages, with some ranks at a time: in each group everybody sends as many as it receives.
  void exchange(region const& r, std::size_t bytes, std::byte* to, std::size_t stride, cuda_stream& s) {
    auto const at_once = (std::max)(rank_->options().largest_group / 2, 1u);
    for (std::uint32_t first = 1; first < size_; first += at_once)
      group([&] {
        for (auto away = first; away < (std::min)(size_, first + at_once); ++away) {
          auto const peer = (here_ + away) % size_, from = (here_ + size_ - away) % size_;
          auto* const sent = static_cast<std::byte*>(r.data) + peer * bytes;
          check("ncclSend", ncclSend(sent, bytes, ncclUint8, static_cast<int>(peer), *with_, s.handle()));
          check("ncclRecv",
                ncclRecv(to + from * stride, bytes, ncclUint8, static_cast<int>(from), *with_, s.handle()));
        }
      });
  }
  void gather(region const& own, void* to, cuda_stream& s) {
    group([&] {
      check("ncclAllGather", ncclAllGather(own.data, to, own.bytes(), ncclUint8, *with_, s.handle()));
    });
  }

  /// The parts of others lie from `parts` on, its own where it was.
  void sum(region const& own, std::byte* parts, std::size_t stride, reduce_op op, cuda_stream& s) {
    parts_.assign(size_, own);
    for (std::uint32_t r = 0; r < size_; ++r)
      if (r != here_) parts_[r].data = parts + r * stride;
    launch_sum_in_order(s.handle(), parts_, op, rank_->device().processors());
    check_launch("sum_in_order");
  }

  void check(std::string_view call, ncclResult_t r) const { rank_->check(call, r, *with_); }
  template <class Issue>
  void group(Issue issue) const {
    rank_->group(*with_, rank_->options().settle_within, issue);
  }

  nccl_rank* rank_;
  ncclComm_t const* with_;
  std::uint32_t here_, size_;
  cuda_event ended_;               // the last of them
  std::vector<cuda_buffer> room_;  // the last one is used
  std::vector<region> parts_;
};

}  // namespace cleave::detail
