// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/nccl_element.hpp"
#include "cleave/cuda/nccl_ordered_reducer.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/cuda/nccl_version.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"
#include "cleave/run/model/wait_on_host.hpp"

namespace cleave::detail {

/// Ranks that NCCL connects, each with a GPU of its own. What is issued together is one group of NCCL, which
/// ends when all of it has. Messages of a pair of ranks match in order, and by nothing else: that both ends
/// mean the same is agreed before the first step. The thread of the rank makes all calls, but for `poll` and
/// `abort`, which any thread may.
class nccl_communicator {
 public:
  /// All that it issues goes to the stream that it is given.
  static constexpr bool can_be_recorded = true;

  /// What it is for. Messages leave the GPU to the stages, as far as `nccl_options::most_blocks` says.
  enum class use : std::uint8_t { messages, sums };

  /// All ranks of a run, who meet at `b`: `here` is one of `size`. Every rank calls it; `r` must outlive it.
  /// \throws nccl_version_error, on all ranks; run_error, also where that takes too long
  template <meeting_board B>
  nccl_communicator(nccl_rank& r, B& b, rank_id here, std::uint32_t size, use what = use::messages)
      : nccl_communicator(r, here, size) {
    auto const within = r.options().connect_within;
    auto const until = std::chrono::steady_clock::now() + within;
    agree_on_nccl(b, here, size, until);
    auto id = make_id(b);
    b.broadcast(std::as_writable_bytes(std::span(&id, 1)), rank_id{0}, until);
    auto config = config_for(what);
    char const* const call = "ncclCommInitRankConfig";
    r.check(
        call,
        ncclCommInitRankConfig(place_, static_cast<int>(size), id, static_cast<int>(index(here)), &config),
        *place_);
    r.settle(call, *place_, within, [this] { return *place_ != nullptr; });
    reducer_.emplace(r, *place_, index(here), size);
  }

  /// Those ranks of `of` that say the same `colour`, in the order of their `key`; who says none is alone.
  /// Every rank of it calls this, in the same order. Precondition: no message is on its way. \throws
  /// run_error
  nccl_communicator(nccl_communicator const& of, std::optional<std::uint32_t> colour, std::uint32_t key,
                    use what = use::messages)
      : nccl_communicator(*of.rank_, rank_id{0}, 1) {
    auto config = config_for(what);
    auto const within = rank_->options().connect_within;
    int const chosen = colour ? static_cast<int>(*colour & 0x7fffffffu) : NCCL_SPLIT_NOCOLOR;
    char const* const call = "ncclCommSplit";
    rank_->check(call,
                 ncclCommSplit(*of.place_, chosen, static_cast<int>(key & 0x7fffffffu), place_, &config),
                 *of.place_);
    rank_->settle(call, *of.place_, within, [&] { return !colour || *place_ != nullptr; });
    if (!colour) return;
    rank_->settle(call, *place_, within);
    int number = 0, count = 0;
    rank_->check("ncclCommUserRank", ncclCommUserRank(*place_, &number), *place_);
    rank_->check("ncclCommCount", ncclCommCount(*place_, &count), *place_);
    here_ = rank_id{static_cast<std::uint32_t>(number)};
    size_ = static_cast<std::uint32_t>(count);
    reducer_.emplace(*rank_, *place_, index(here_), size_);
  }
  nccl_communicator(nccl_communicator&&) = delete;
  /// Together with the other ranks, unless the run has failed or an exception is on its way.
  ~nccl_communicator() { rank_->end(place_, std::uncaught_exceptions() == exceptions_); }

  rank_id rank() const { return here_; }
  std::uint32_t size() const { return size_; }

  /// Connects this rank with each of `peers`, which does the same with it, and all of them for reductions, so
  /// that nothing connects in a step. Every rank calls it; returns when it is done. \throws run_error
  void warm_up(std::vector<rank_id> peers, cuda_stream& s) {
    if (size_ < 2) return;
    auto const within = rank_->options().connect_within;
    auto& device = rank_->device();
    warmth_ = device.allocate(2 * sizeof(double));
    auto const pair_with = [this](rank_id p) {
      return std::pair((std::min)(here_, p), (std::max)(here_, p));
    };
    std::ranges::sort(peers, {}, pair_with);  // part of one order of all pairs: nobody waits in a circle
    for (auto const p : peers)
      rank_->group(*place_, within, [&] {
        send_bytes({warmth_.data(), 1}, p, s);
        receive_bytes({static_cast<std::byte*>(warmth_.data()) + sizeof(double), 1}, p, s);
      });
    begin_group();
    all_reduce({warmth_.data(), 1, element_type::f64}, reduce_op::max, 0, s);
    auto ended = device.make_event();
    end_group(ended, s);
    auto const check = [this] {
      if (auto f = poll()) throw run_error(*std::move(f));
    };
    if (!wait_on_host(device, ended, deadline_after(within), check))
      rank_->fail(nccl_timeout("the first message of each pair of ranks", within.count(), rank_->here()));
  }

  void begin_group() { pending_.clear(); }
  void send(region r, message const& m, cuda_stream&) { add(group_transfer::send(r, m)); }
  void receive(region r, message const& m, cuda_stream&) { add(group_transfer::receive(r, m)); }
  /// Precondition: in a group without messages, where reductions are ordered. Those of elements that NCCL
  /// does not reduce always are.
  void all_reduce(region r, reduce_op op, std::uint32_t number, cuda_stream&) {
    add(group_transfer::reduce(r, op, number));
  }

  /// Returns when all is in its stream. \throws run_error, also once the run has failed
  void end_group(cuda_event& e, cuda_stream& s) {
    if (auto f = poll()) throw run_error(*std::move(f));
    bool const ordered =
        std::ranges::any_of(pending_, [this](group_transfer const& t) { return is_ordered(t); });
    bool const other =
        std::ranges::any_of(pending_, [this](group_transfer const& t) { return !is_ordered(t); });
    expects(!ordered || !other, "nccl_communicator: an ordered reduction is issued without messages");
    if (pending_.size() > rank_->options().largest_group)
      rank_->fail(too_many_messages(pending_.size(), rank_->options().largest_group, rank_->here()));
    if (other)
      rank_->group(*place_, rank_->options().settle_within, [&] {
        for (auto const& t : pending_) issue(t, s);
      });
    else
      for (auto const& t : pending_) reducer_->reduce(t.memory, t.op, s);
    rank_->device().record(e, s);
  }

  std::optional<failure> poll() const { return rank_->poll(); }
  /// On the thread of the rank it also stops what is on its way, as far as this NCCL can.
  void abort(failure const& f) noexcept {
    rank_->publish(f);
    rank_->revoke();
  }

 private:
  using kind = group_transfer::kind;

  nccl_communicator(nccl_rank& r, rank_id here, std::uint32_t size)
      : rank_(&r), place_(r.make_place()), here_(here), size_(size) {}

  template <meeting_board B>
  ncclUniqueId make_id(B& b) const {
    ncclUniqueId id = {};
    if (here_ != rank_id{0}) return id;
    auto const r = ncclGetUniqueId(&id);
    if (r == ncclSuccess) return id;
    auto const f = nccl_failure("ncclGetUniqueId", r, nullptr, rank_->here());
    b.publish(f);
    rank_->fail(f);
  }

  ncclConfig_t config_for(use what) const {
    ncclConfig_t c = NCCL_CONFIG_INITIALIZER;
    c.blocking = 0;
    if (what == use::messages) c.maxCTAs = rank_->options().most_blocks;
    return c;
  }

  void add(group_transfer const& t) {
    expects(t.how == kind::reduction || index(t.what.peer) < size_,
            "nccl_communicator: messages go to members");
    if (t.memory.bytes() > 0 && size_ > 1) pending_.push_back(t);  // both ends agree about the bytes
  }

  bool is_ordered(group_transfer const& t) const {
    return t.how == kind::reduction &&
           (rank_->options().reductions == nccl_reductions::ordered || !find_nccl_type(t.memory.type));
  }

  void issue(group_transfer const& t, cuda_stream& s) const {
    auto const& m = t.memory;
    if (t.how == kind::send) return send_bytes(m, t.what.peer, s);
    if (t.how == kind::receive) return receive_bytes(m, t.what.peer, s);
    rank_->check("ncclAllReduce",
                 ncclAllReduce(m.data, m.data, m.count, *find_nccl_type(m.type), nccl_operation_of(t.op),
                               *place_, s.handle()),
                 *place_);
  }
  void send_bytes(region const& r, rank_id to, cuda_stream& s) const {
    auto const peer = static_cast<int>(index(to));
    rank_->check("ncclSend", ncclSend(r.data, r.bytes(), ncclUint8, peer, *place_, s.handle()), *place_);
  }
  void receive_bytes(region const& r, rank_id from, cuda_stream& s) const {
    auto const peer = static_cast<int>(index(from));
    rank_->check("ncclRecv", ncclRecv(r.data, r.bytes(), ncclUint8, peer, *place_, s.handle()), *place_);
  }

  nccl_rank* rank_;
  ncclComm_t* place_;  // null there where this rank is alone
  rank_id here_;
  std::uint32_t size_;
  int exceptions_ = std::uncaught_exceptions();
  cuda_buffer warmth_;
  std::optional<nccl_ordered_reducer> reducer_;
  std::vector<group_transfer> pending_;
};

static_assert(communicator<nccl_communicator, cuda_device>);

}  // namespace cleave::detail
