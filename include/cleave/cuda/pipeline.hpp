// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/detail/nccl_check.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"
#include "cleave/run/model/steady_list.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/model/wait_on_host.hpp"
#include "cleave/run/processes/process_pipeline.hpp"
#include "cleave/run/rendezvous/process_start.hpp"
#include "cleave/schedule/model/delivery.hpp"

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
  cuda_event ended_;                // the last of them
  std::vector<cuda::buffer> room_;  // the last one is used
  std::vector<region> parts_;
};

/// Which NCCL a rank has, as its numbers: 22809 is 2.28.9.
struct nccl_version {
  std::int32_t header = NCCL_VERSION_CODE;  ///< for which the program was compiled
  std::int32_t library = 0;                 ///< that was loaded

  bool operator==(nccl_version const&) const = default;
};

/// `2.28.9`.
inline std::string nccl_version_text(std::int32_t code) {
  std::int32_t const major = code >= 10000 ? 10000 : 1000;  // 2.9 was the first with five digits
  return std::to_string(code / major) + "." + std::to_string(code % major / 100) + "." +
         std::to_string(code % 100);
}

/// \throws run_error
inline nccl_version own_nccl_version(rank_id here) {
  int code = 0;
  if (auto const r = ncclGetVersion(&code); r != ncclSuccess)
    throw run_error(nccl_failure("ncclGetVersion", r, nullptr, here));
  return {.library = code};
}

/// The rank whose NCCL is older than what its program was compiled for, or other than that of rank 0.
struct nccl_version_fault {
  rank_id rank;
  nccl_version there;
  std::optional<nccl_version> of_rank_0;  ///< nothing: it is the rank alone

  bool operator==(nccl_version_fault const&) const = default;
};

/// `rank 1 has loaded NCCL 2.18.1, but rank 0 has loaded 2.19.3; install the same on all machines`.
inline std::string describe(nccl_version_fault const& f) {
  auto const who = "rank " + std::to_string(index(f.rank));
  auto const have = nccl_version_text(f.there.library), built = nccl_version_text(f.there.header);
  if (!f.of_rank_0)
    return who + " has loaded NCCL " + have + ", but was compiled for " + built +
           "; let it find that library or a newer one first (LD_LIBRARY_PATH)";
  if (f.there.library != f.of_rank_0->library)
    return who + " has loaded NCCL " + have + ", but rank 0 has loaded " +
           nccl_version_text(f.of_rank_0->library) + "; install the same on all machines";
  return who + " was compiled for NCCL " + built + ", but rank 0 for " +
         nccl_version_text(f.of_rank_0->header) + "; start the same program everywhere";
}

/// An NCCL that cannot be used. The witness: which, and whose.
using nccl_version_error = fault_error<nccl_version_fault>;

/// Of the versions of ranks 0, 1, …: the first that cannot be used, or nothing. O(ranks).
inline std::optional<nccl_version_fault> find_nccl_version_fault(std::span<nccl_version const> of_ranks) {
  for (std::uint32_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r].library < of_ranks[r].header)
      return nccl_version_fault{rank_id{r}, of_ranks[r], std::nullopt};
    if (of_ranks[r] != of_ranks[0]) return nccl_version_fault{rank_id{r}, of_ranks[r], of_ranks[0]};
  }
  return std::nullopt;
}

/// Every rank tells all others which NCCL it has; all find the same fault. Each of `ranks` ranks of the
/// rendezvous calls it. \throws nccl_version_error, on all ranks; run_error
template <collective_rendezvous B>
void agree_on_nccl(B& rendezvous, rank_id here, std::uint32_t ranks,
                   std::chrono::steady_clock::time_point until) {
  std::vector<nccl_version> all(ranks);
  all[index(here)] = own_nccl_version(here);
  for (std::uint32_t r = 0; r < ranks; ++r)
    rendezvous.broadcast(std::as_writable_bytes(std::span(&all[r], 1)), rank_id{r}, until);
  if (auto const fault = find_nccl_version_fault(all)) throw nccl_version_error(*fault);
}

/// What NCCL calls elements of `t` in a reduction; nothing where it has none such.
constexpr std::optional<ncclDataType_t> find_nccl_type(element_type t) {
  switch (t) {
    case element_type::f32:
      return ncclFloat32;
    case element_type::f64:
      return ncclFloat64;
    case element_type::f16:
      return ncclFloat16;
    case element_type::bf16:
      return ncclBfloat16;
    case element_type::i64:
      return ncclInt64;
    case element_type::i32:
      return ncclInt32;
    case element_type::i8:
      return ncclInt8;
    case element_type::u8:
      return ncclUint8;
    default:
      return std::nullopt;
  }
}

constexpr ncclRedOp_t nccl_operation_of(reduce_op op) { return op == reduce_op::sum ? ncclSum : ncclMax; }

/// Ranks that NCCL connects, each with a GPU of its own. What is issued together is one group of NCCL, which
/// ends when all of it has. Messages of a pair of ranks match in order, and by nothing else: that both ends
/// mean the same is agreed before the first step. The thread of the rank makes all calls, but for `poll` and
/// `abort`, which any thread may.
class nccl_communicator {
 public:
  /// All that it issues goes to the stream that it is given.
  static constexpr bool can_be_recorded = true;

  /// What a communicator is for. One for messages occupies at most `cuda::nccl_options::most_blocks` of the
  /// GPU and leaves the rest to the stages.
  enum class use : std::uint8_t { messages, sums };

  /// All ranks of a run, who meet at `b`: `here` is one of `size`. Every rank calls it; `r` must outlive it.
  /// \throws nccl_version_error, on all ranks; run_error, also where that takes too long
  template <collective_rendezvous B>
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
    std::ranges::sort(peers, {}, pair_with);  // part of one order of all pairs: nobody waits in a cycle
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

  template <collective_rendezvous B>
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
           (rank_->options().reductions == cuda::nccl_reductions::ordered || !find_nccl_type(t.memory.type));
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
  cuda::buffer warmth_;
  std::optional<nccl_ordered_reducer> reducer_;
  std::vector<group_transfer> pending_;
};

static_assert(communicator<nccl_communicator, cuda::device>);

}  // namespace cleave::detail

namespace cleave::cuda {

/// Options of every pipeline, and of CUDA and NCCL.
struct pipeline_options {
  cleave::pipeline_options run = {};
  /// Of those that CUDA lists; none: the only one, or that of the number of the process on its machine.
  std::optional<int> gpu = {};
  cuda::options device = {};  ///< but for its number
  cuda::nccl_options messages = {};
  tcp_rendezvous_options rendezvous = {};  ///< but for its key
};

}  // namespace cleave::cuda

namespace cleave::detail {

/// The GPU, of so many, of a process that is number `local_rank` on its machine; nothing where there are too
/// few. One that sees a single GPU was given it.
constexpr std::optional<int> find_gpu(std::uint32_t local_rank, int count) {
  if (count == 1) return 0;
  if (count < 0 || local_rank >= static_cast<std::uint32_t>(count)) return std::nullopt;
  return static_cast<int>(local_rank);
}

/// A machine with more processes than GPUs.
struct gpu_shortage {
  std::uint32_t local_rank;  ///< of the first process that has none
  int gpus;                  ///< that it sees

  bool operator==(gpu_shortage const&) const = default;
};

inline std::string describe(gpu_shortage const& s) {
  return "process " + std::to_string(s.local_rank) + " of its machine sees " + std::to_string(s.gpus) +
         " GPUs, counted from 0; start no more processes there than it has, or say which each takes "
         "(cuda::pipeline_options::gpu)";
}

using gpu_error = fault_error<gpu_shortage>;

/// A plan that was verified for messages which do not wait for each other. The witness: for which.
using plan_delivery_error = witness_error<delivery>;

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

namespace cleave::cuda {

/// The device and the communicators of a process of a `cuda::pipeline`.
class backend final : public watchdog::waiter {
 public:
  using device = cuda::device;
  using communicator = detail::nccl_communicator;

  /// Every rank makes its own; returns when all have joined. \throws error, gpu_error, run_error
  backend(process_start const& start, cuda::pipeline_options const& o)
      : rendezvous_(detail::join_rendezvous(start, o.rendezvous)),
        device_(make_device(start, o)),
        nccl_(device_, rendezvous_.rank(), o.messages),
        connecting_(device_.make_stream(0)) {}

  tcp_rendezvous& rendezvous() { return rendezvous_; }
  cuda::device& own_device() { return device_; }

  detail::nccl_communicator& connect_all() {
    all_ = &communicators_.emplace(nccl_, rendezvous_, rendezvous_.rank(), rendezvous_.size());
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
    bool const sliced = made.size() > 2 && nccl_.options().reductions == cuda::nccl_reductions::ordered;
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
  cuda::device make_device(process_start const& start, cuda::pipeline_options const& o) {
    try {
      auto chosen = o.device;
      chosen.device = o.gpu ? *o.gpu : require_gpu(start.local_rank);
      return device(chosen);
    } catch (error const& e) {
      rendezvous_.publish({.code = failure_code::device, .detail = e.what(), .reporter = start.rank});
      throw;
    }
  }
  /// Where CUDA cannot say how many there are, the device says why.
  static int require_gpu(std::uint32_t local_rank) {
    int count = 0;
    bool const known = cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
    auto const found = known ? detail::find_gpu(local_rank, count) : 0;
    if (!found) throw detail::gpu_error({local_rank, count});
    return *found;
  }

  [[noreturn]] void refuse(std::uint32_t together) {
    auto const f = detail::too_many_messages(together, nccl_.options().largest_group, rendezvous_.rank());
    rendezvous_.publish(f);
    nccl_.fail(f);
  }

  tcp_rendezvous rendezvous_;
  cuda::device device_;
  detail::nccl_rank nccl_;
  detail::cuda_stream connecting_;
  detail::steady_list<detail::nccl_communicator> communicators_;
  detail::nccl_communicator* all_ = nullptr;
};

/// What one process does of schedules that run on GPUs of processes, one GPU each, step after step:
/// `process_pipeline` with CUDA and NCCL. torchrun, mpirun or srun starts the processes, all with one
/// CLEAVE_KEY.
template <stage<cuda::device> S>
class pipeline : public process_pipeline<S, cuda::backend> {
 public:
  /// `make_stages(device)` gives the stages of this rank, which use that device. Every process calls it.
  /// \throws plan_delivery_error; error where there are not as many ranks as the plan and the replicas need;
  /// gpu_error, cuda_error, nccl_version_error, run_error, tie_order_error, program_need_error, and what it
  /// throws
  template <std::invocable<cuda::device&> F>
  pipeline(planned_step auto const& p, F make_stages, cuda::pipeline_options const& o = {},
           process_start const& start = read_process_start())
      : process_pipeline<S, cuda::backend>(
            require_delivery(p), std::move(make_stages), o.run,
            {start.size, "there are", "torchrun --nproc-per-node, mpirun -n or srun -n"}, start, o) {}

  /// As of `process_pipeline`. \throws plan_delivery_error too
  std::size_t add_plan(planned_step auto const& p) {
    return process_pipeline<S, cuda::backend>::add_plan(require_delivery(p));
  }

 private:
  template <planned_step P>
  static P const& require_delivery(P const& p) {
    if (auto const d = detail::find_plan_delivery_fault(p))
      throw detail::plan_delivery_error(
          "the plan was verified for messages that do not wait for each other, but through NCCL those of a "
          "rank go one after the other; make it with program_options{.delivery = {.delivery = "
          "delivery::one_queue}}",
          *d);
    return p;  // NOLINT(bugprone-return-const-ref-from-parameter): for the length of a call
  }
};

template <class P, std::invocable<cuda::device&> F>
pipeline(P const&, F, auto const&...)
    -> cuda::pipeline<std::remove_cvref_t<std::invoke_result_t<F, cuda::device&>>>;

}  // namespace cleave::cuda
