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
#include "cleave/cuda/detail/adopted_communicator.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/detail/nccl_check.hpp"
#include "cleave/cuda/detail/nccl_ordered_reducer.hpp"
#include "cleave/cuda/detail/nccl_registration.hpp"
#include "cleave/cuda/detail/nccl_split.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/nccl_rank.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"
#include "cleave/run/model/stable_list.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/model/wait_on_host.hpp"
#include "cleave/run/processes/process_pipeline.hpp"
#include "cleave/run/rendezvous/process_start.hpp"
#include "cleave/schedule/model/delivery.hpp"

namespace cleave::inline v0_2::detail {

/// The NCCL version of a rank, as a code: 22809 is 2.28.9.
struct nccl_version {
  std::int32_t header = NCCL_VERSION_CODE;  ///< for which the program was compiled
  std::int32_t library = 0;                 ///< loaded at run time

  bool operator==(nccl_version const&) const = default;
};

/// Formats a version code: `2.28.9`.
inline std::string nccl_version_text(std::int32_t code) {
  std::int32_t const major = code >= 10000 ? 10000 : 1000;  // 2.9 was the first with five digits
  return std::to_string(code / major) + "." + std::to_string(code % major / 100) + "." +
         std::to_string(code % 100);
}

/// Returns the NCCL version of this process.
/// \throws run_error if NCCL does not report it
inline nccl_version own_nccl_version(rank_id here) {
  int code = 0;
  if (auto const r = ncclGetVersion(&code); r != ncclSuccess)
    throw run_error(nccl_failure("ncclGetVersion", r, nullptr, here));
  return {.library = code};
}

/// The first rank whose NCCL is older than its headers, or differs from that of rank 0.
struct nccl_version_fault {
  rank_id rank;
  nccl_version there;
  std::optional<nccl_version> of_rank_0;  ///< nothing: the rank's library is older than its headers

  bool operator==(nccl_version_fault const&) const = default;
};

/// Describes the fault: `rank 1 has loaded NCCL 2.18.1, but rank 0 has loaded 2.19.3; install …`.
inline std::string describe(nccl_version_fault const& f) {
  auto const who = "rank " + std::to_string(index(f.rank));
  auto const have = nccl_version_text(f.there.library), built = nccl_version_text(f.there.header);
  if (!f.of_rank_0)
    return who + " has loaded NCCL " + have + ", but was compiled for " + built +
           "; put that version or a newer one first in LD_LIBRARY_PATH";
  if (f.there.library != f.of_rank_0->library)
    return who + " has loaded NCCL " + have + ", but rank 0 has loaded " +
           nccl_version_text(f.of_rank_0->library) + "; install the same version on all hosts";
  return who + " was compiled for NCCL " + built + ", but rank 0 for " +
         nccl_version_text(f.of_rank_0->header) + "; run the same program on all ranks";
}

/// Thrown if an NCCL version cannot be used. Carries the rank and the versions.
using nccl_version_error = fault_error<nccl_version_fault>;

/// Returns the first fault among the versions of ranks 0, 1, …, or nothing. O(ranks).
inline std::optional<nccl_version_fault> find_nccl_version_fault(std::span<nccl_version const> of_ranks) {
  for (std::uint32_t r = 0; r < of_ranks.size(); ++r) {
    if (of_ranks[r].library < of_ranks[r].header)
      return nccl_version_fault{rank_id{r}, of_ranks[r], std::nullopt};
    if (of_ranks[r] != of_ranks[0]) return nccl_version_fault{rank_id{r}, of_ranks[r], of_ranks[0]};
  }
  return std::nullopt;
}

/// Exchanges the NCCL versions of all ranks and compares them; all ranks find the same fault. Collective:
/// each of the `ranks` ranks of the rendezvous calls it.
/// \throws nccl_version_error on all ranks if versions do not match; run_error if a rank is lost or late
template <collective_rendezvous B>
void agree_on_nccl(B& rendezvous, rank_id here, std::uint32_t ranks,
                   std::chrono::steady_clock::time_point until) {
  std::vector<nccl_version> all(ranks);
  all[index(here)] = own_nccl_version(here);
  for (std::uint32_t r = 0; r < ranks; ++r)
    rendezvous.broadcast(std::as_writable_bytes(std::span(&all[r], 1)), rank_id{r}, until);
  if (auto const fault = find_nccl_version_fault(all)) throw nccl_version_error(*fault);
}

/// Returns the NCCL type of elements of type `t` in reductions, or nothing if NCCL cannot reduce them.
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

/// The communicator of ranks that NCCL connects, each with its own GPU. Transfers issued together are one
/// NCCL group, which ends when all of them have. Messages between the same two ranks match only by order;
/// `agree_on_program` checks before the first step that both ends agree. The rank's thread makes all calls,
/// except that `poll` and `abort` may be called from any thread.
class nccl_communicator {
 public:
  /// True: the transfers can be recorded in a CUDA graph, because all work goes to the stream that is passed.
  static constexpr bool can_be_recorded = true;

  /// The purpose of a communicator. One for messages uses at most `cuda::nccl_options::most_blocks` thread
  /// blocks of the GPU and leaves the rest to the stages.
  enum class use : std::uint8_t { messages, sums };

  /// Connects all ranks of a run through the rendezvous `b`. This is rank `here` of `size`. Collective. `r`
  /// must outlive it. Its calls are polled, so that they can be given up.
  /// \throws nccl_version_error on all ranks; run_error if connecting fails or takes too long
  template <collective_rendezvous B>
  nccl_communicator(nccl_rank& r, B& b, rank_id here, std::uint32_t size, use what = use::messages)
      : nccl_communicator(r, here, size, nccl_slot{}) {
    auto const within = r.options().connect_within;
    auto const until = std::chrono::steady_clock::now() + within;
    agree_on_nccl(b, here, size, until);
    auto id = make_id(b);
    b.broadcast(std::as_writable_bytes(std::span(&id, 1)), rank_id{0}, until);
    auto config = config_for(what);
    auto& made = of_->handle;
    char const* const call = "ncclCommInitRankConfig";
    r.check(call,
            ncclCommInitRankConfig(&made, static_cast<int>(size), id, static_cast<int>(index(here)), &config),
            made);
    r.settle(call, made, within, [&] { return made != nullptr; });
    reducer_.emplace(r, *of_, index(here), size);
  }

  /// Uses a communicator of the caller, which has all ranks of a run; this is rank `here` of `size`. It stays
  /// the caller's. Collective. `r` must outlive it.
  /// \throws nccl_version_error on all ranks; adopted_communicator_error if it is not of these ranks and this
  ///   GPU; run_error
  template <collective_rendezvous B>
  nccl_communicator(nccl_rank& r, B& b, rank_id here, std::uint32_t size,
                    cuda::adopted_communicator const& adopted)
      : nccl_communicator(r, here, size, slot_of(adopted)) {
    agree_on_nccl(b, here, size, std::chrono::steady_clock::now() + r.options().connect_within);
    require_adoptable(r, adopted.handle, here, size);
    reducer_.emplace(r, *of_, index(here), size);
  }

  /// Connects the ranks of `of` with the same `colour`, ordered by `key`. A rank without colour is alone. Its
  /// calls return as `cuda::nccl_options::calls` says. Collective, in the same order on all ranks.
  /// Preconditions: no message is pending; `of` was made by the other constructor.
  /// \throws run_error
  nccl_communicator(nccl_communicator const& of, std::optional<std::uint32_t> colour, std::uint32_t key,
                    use what = use::messages)
      : nccl_communicator(*of.rank_, rank_id{0}, 1,
                          {.blocks = of.rank_->options().calls == cuda::nccl_calls::blocking}) {
    what_ = what;
    auto& made = of_->handle;
    auto const as_int = [](std::uint32_t x) { return static_cast<int>(x & 0x7fffffffu); };
    split_communicator(*rank_, *of.of_, made,
                       {.colour = colour ? std::optional(as_int(*colour)) : std::nullopt,
                        .key = as_int(key),
                        .config = config_for(what)});
    if (!colour) return;
    rank_->settle("ncclCommSplit", made, rank_->options().connect_within);
    int number = 0, count = 0;
    rank_->check("ncclCommUserRank", ncclCommUserRank(made, &number), made);
    rank_->check("ncclCommCount", ncclCommCount(made, &count), made);
    here_ = rank_id{static_cast<std::uint32_t>(number)};
    size_ = static_cast<std::uint32_t>(count);
    reducer_.emplace(*rank_, *of_, index(here_), size_);
  }
  nccl_communicator(nccl_communicator&&) = delete;
  /// Ends the communicator together with the other ranks, unless the run has failed or the stack is being
  /// unwound.
  ~nccl_communicator() {
    if (reducer_) reducer_->end_registrations();
    rank_->end(*of_, std::uncaught_exceptions() == exceptions_);
  }

  rank_id rank() const { return here_; }
  std::uint32_t size() const { return size_; }

  /// Connects this rank with each of `peers`, which must call it with this rank, and all ranks for the sum
  /// of a number. Otherwise NCCL would connect lazily during a step. Collective; blocks until done.
  /// \throws run_error
  void warm_up(std::vector<rank_id> peers, cuda_stream& s) {
    if (size_ < 2) return;
    auto* const memory = take_memory(2 * sizeof(double));
    auto const pair_with = [this](rank_id p) {
      return std::pair((std::min)(here_, p), (std::max)(here_, p));
    };
    std::ranges::sort(peers, {}, pair_with);  // by one global order of pairs, so ranks never wait in a cycle
    for (auto const p : peers)
      rank_->connecting_group(*of_, [&] {
        send_bytes({memory, 1}, p, s);
        receive_bytes({memory + sizeof(double), 1}, p, s);
      });
    open_sum({memory, 1, element_type::f64}, s);
    await_connections(s);
  }

  /// Connects all ranks for sums of regions like these. NCCL chooses the algorithm of a sum by its size and
  /// type, and connects for each when it is first used. Collective, with the same types and sizes on all
  /// ranks; blocks until done. Does not touch the regions.
  /// \throws run_error
  void open_sums(std::span<region const> like, cuda_stream& s) {
    if (size_ < 2) return;
    std::vector<region> distinct;
    std::size_t most = 0;
    for (auto r : like) {
      r.data = nullptr;
      r.count = (std::min)(r.count, most_bytes_opened / size_of(r.type));
      if (r.count == 0 || std::ranges::find(distinct, r) != distinct.end()) continue;
      distinct.push_back(r);
      most = (std::max)(most, r.bytes());
    }
    auto* const memory = take_memory(most);
    for (auto r : distinct) {
      r.data = memory;
      open_sum(r, s);
    }
    await_connections(s);
  }

  using registration = nccl_registration;
  /// Registers the memory `r` of later messages or sums, as `cuda::nccl_options::registrations` says. The
  /// result must not outlive the memory. Windows are for sums only, since memory of messages differs from
  /// rank to rank; for them, this is collective, with the same sizes in the same order.
  /// \throws run_error
  registration register_memory(region const& r) {
    using enum cuda::nccl_registrations;
    auto const how = rank_->options().registrations;
    if (how == none || size_ < 2 || r.bytes() == 0) return {};
    if (how == windows && what_ == use::sums) return nccl_registration::of_window(*rank_, *of_, r);
    return nccl_registration::of_buffer(*rank_, *of_, r);
  }
  /// Returns where sums are. Windows need memory that NCCL has allocated.
  sum_memory wanted_sum_memory() const {
    return rank_->options().registrations == cuda::nccl_registrations::windows ? sum_memory::own
                                                                               : sum_memory::any;
  }

  void begin_group() { pending_.clear(); }
  void send(region r, message const& m, cuda_stream&) { add(group_transfer::send(r, m)); }
  void receive(region r, message const& m, cuda_stream&) { add(group_transfer::receive(r, m)); }
  /// Adds a reduction to the group. Reductions of types that NCCL cannot reduce are always ordered.
  /// Precondition: a group with ordered reductions has no messages.
  void all_reduce(region r, reduce_op op, std::uint32_t number, cuda_stream&) {
    add(group_transfer::reduce(r, op, number));
  }

  /// Issues the collected transfers; returns when they are enqueued.
  /// \throws run_error if a call fails, or once the run has failed
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
      rank_->group(*of_, [&] {
        for (auto const& t : pending_) issue(t, s);
      });
    else
      for (auto const& t : pending_) reducer_->reduce(t.memory, t.op, s);
    rank_->device().record(e, s);
  }

  std::optional<failure> poll() const { return rank_->poll(); }
  /// Publishes a failure. On the rank's thread it also stops running operations, if this version of NCCL
  /// supports that.
  void abort(failure const& f) noexcept {
    rank_->publish(f);
    rank_->revoke();
  }

 private:
  using kind = group_transfer::kind;

  /// Sums of more bytes are opened as if they had so many; NCCL's choice is that of long sums for both.
  static constexpr std::size_t most_bytes_opened = std::size_t{256} << 20;

  nccl_communicator(nccl_rank& r, rank_id here, std::uint32_t size, nccl_slot const& slot)
      : rank_(&r), of_(r.make_slot(slot)), here_(here), size_(size) {}

  /// The largest buffer that is kept after connections are open. A larger one is freed, for which `cudaFree`
  /// waits for all work of the GPU.
  static constexpr std::size_t most_bytes_kept = std::size_t{1} << 20;

  /// Returns memory for messages that only open connections.
  std::byte* take_memory(std::size_t bytes) {
    return static_cast<std::byte*>(opening_.emplace_back(rank_->device().allocate(bytes)).data());
  }
  /// Issues the first sum of a size.
  void open_sum(region const& r, cuda_stream& s) {
    auto const t = group_transfer::reduce(r, reduce_op::sum, 0);
    if (is_ordered(t)) return reducer_->reduce(r, t.op, s, sum_turn::first);
    rank_->connecting_group(*of_, [&] { issue(t, s); });
  }
  void await_connections(cuda_stream& s) {
    auto& device = rank_->device();
    auto const within = rank_->options().connect_within;
    auto ended = device.make_event();
    device.record(ended, s);
    auto const check = [this] {
      if (auto f = poll()) throw run_error(*std::move(f));
    };
    if (!wait_on_host(device, ended, deadline_after(within), check))
      rank_->fail(nccl_timeout("the first message of each pair of ranks", within.count(), rank_->here()));
    if (opening_.back().size() > most_bytes_kept) opening_.pop_back();
  }

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
    c.blocking = of_->blocks ? 1 : 0;
    if (what == use::messages) c.maxCTAs = rank_->options().most_blocks;
    return c;
  }

  void add(group_transfer const& t) {
    expects(t.how == kind::reduction || index(t.what.peer) < size_,
            "nccl_communicator: messages go to members");
    if (t.memory.bytes() > 0 && size_ > 1) pending_.push_back(t);  // both ends agree on the size
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
                               of_->handle, s.handle()),
                 of_->handle);
  }
  void send_bytes(region const& r, rank_id to, cuda_stream& s) const {
    auto const peer = static_cast<int>(index(to));
    auto const c = of_->handle;
    rank_->check("ncclSend", ncclSend(r.data, r.bytes(), ncclUint8, peer, c, s.handle()), c);
  }
  void receive_bytes(region const& r, rank_id from, cuda_stream& s) const {
    auto const peer = static_cast<int>(index(from));
    auto const c = of_->handle;
    rank_->check("ncclRecv", ncclRecv(r.data, r.bytes(), ncclUint8, peer, c, s.handle()), c);
  }

  nccl_rank* rank_;
  nccl_slot* of_;  // its handle is null if this rank is alone
  rank_id here_;
  std::uint32_t size_;
  use what_ = use::messages;
  int exceptions_ = std::uncaught_exceptions();
  std::vector<cuda::buffer> opening_;  // of the first messages, which may outlast a failure
  std::optional<nccl_ordered_reducer> reducer_;
  std::vector<group_transfer> pending_;
};

static_assert(communicator<nccl_communicator, cuda::device>);

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// Options of every pipeline, plus those of CUDA and NCCL.
struct pipeline_options {
  cleave::pipeline_options run = {};
  /// GPU number in CUDA's list of devices. Empty: the only GPU, or the one with the local rank of the
  /// process.
  std::optional<int> gpu = {};
  cuda::options device = {};  ///< `device.device` is ignored
  cuda::nccl_options messages = {};
  /// A communicator of the caller with all ranks of the run, or none. Those of the run are split from it.
  cuda::adopted_communicator communicator = {};
  tcp_rendezvous_options rendezvous = {};  ///< `rendezvous.key` is ignored
};

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

/// Returns the GPU of a process, given its local rank and the number of visible GPUs. Returns nothing if
/// there are too few. A process that sees a single GPU uses that one.
constexpr std::optional<int> find_gpu(std::uint32_t local_rank, int count) {
  if (count == 1) return 0;
  if (count < 0 || local_rank >= static_cast<std::uint32_t>(count)) return std::nullopt;
  return static_cast<int>(local_rank);
}

/// A host with more processes than GPUs.
struct gpu_shortage {
  std::uint32_t local_rank;  ///< of the first process without a GPU
  int gpus;                  ///< number of GPUs that it sees

  bool operator==(gpu_shortage const&) const = default;
};

inline std::string describe(gpu_shortage const& s) {
  return "process " + std::to_string(s.local_rank) + " of its host sees " + std::to_string(s.gpus) +
         " GPUs (processes are counted from 0); start at most one process per GPU, or choose the GPU of each "
         "(cuda::pipeline_options::gpu)";
}

using gpu_error = fault_error<gpu_shortage>;

/// Thrown if a plan was verified for independent messages. Carries the delivery of the plan.
using plan_delivery_error = witness_error<delivery>;

/// Returns the delivery for which a plan was verified, if the plan may deadlock when the messages of a rank
/// execute in order. Returns nothing otherwise.
std::optional<delivery> find_plan_delivery_fault(planned_step auto const& p) {
  if constexpr (requires { p.options().delivery; }) {
    delivery_rules const rules = p.options().delivery;
    if (rules.delivery != delivery::one_queue && rules.delivery != delivery::rendezvous)
      return rules.delivery;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// The device and communicators of a process in a `cuda::pipeline`.
class backend final : public watchdog::waiter {
 public:
  using device = cuda::device;
  using communicator = detail::nccl_communicator;

  /// Joins the run and makes the device and the communicators. Collective; blocks until all ranks have
  /// joined.
  /// \throws error, gpu_error, run_error
  backend(process_start const& start, cuda::pipeline_options const& o) try
      : rendezvous_(join_rendezvous(start, o.rendezvous)),
        device_(make_device(start, o)),
        nccl_(device_, rendezvous_.rank(), o.messages),
        adopted_(o.communicator),
        connecting_(device_.make_stream(0)) {
  } catch (...) {
    detail::abort_unused(o.communicator);
  }

  tcp_rendezvous& rendezvous() { return rendezvous_; }
  cuda::device& own_device() { return device_; }

  detail::nccl_communicator& connect_all() {
    if (nccl_.options().calls == cuda::nccl_calls::polled && !adopted_.handle) return all();
    return *connect(0, index(rendezvous_.rank()));
  }
  detail::nccl_communicator* connect(std::optional<std::uint32_t> colour, std::uint32_t key) {
    auto& made = communicators_.emplace(all(), colour, key, detail::nccl_communicator::use::messages);
    return colour ? &made : nullptr;
  }
  detail::nccl_communicator* connect_sums(std::optional<std::uint32_t> colour, std::uint32_t key) {
    auto& made = communicators_.emplace(all(), colour, key, detail::nccl_communicator::use::sums);
    if (!colour) return nullptr;
    std::vector<rank_id> others;
    bool const sliced = made.size() > 2 && nccl_.options().reductions == cuda::nccl_reductions::ordered;
    for (std::uint32_t r = 0; sliced && r < made.size(); ++r)
      if (rank_id{r} != made.rank()) others.push_back(rank_id{r});
    made.warm_up(std::move(others), connecting_);
    return &made;
  }

  /// Connects the peers of a program and checks the sizes of its groups.
  /// \throws run_error if a group has too many messages, or connecting fails
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
  void end() noexcept {
    if (auto const f = rendezvous_.poll()) nccl_.publish(*f);  // or an adopted communicator would stay
    nccl_.abort_all();
  }

 private:
  /// Returns the communicator that all others are split from.
  detail::nccl_communicator& all() {
    if (all_) return *all_;
    auto const here = rendezvous_.rank();
    auto const size = rendezvous_.size();
    all_ = adopted_.handle ? &communicators_.emplace(nccl_, rendezvous_, here, size, adopted_)
                           : &communicators_.emplace(nccl_, rendezvous_, here, size);
    return *all_;
  }

  /// Makes the device. If there is no GPU for it, publishes the failure, so that the other ranks do not wait.
  cuda::device make_device(process_start const& start, cuda::pipeline_options const& o) {
    try {
      auto chosen = o.device;
      chosen.device = o.gpu ? *o.gpu : require_gpu(start.local_rank);
      detail::require_registration(o.messages.registrations);
      device made(chosen);
      if (o.messages.registrations != cuda::nccl_registrations::none)
        detail::take_memory_from_nccl(*made.resources());
      return made;
    } catch (error const& e) {
      rendezvous_.publish({.code = failure_code::device, .detail = e.what(), .reporter = start.rank});
      throw;
    }
  }
  /// Returns the GPU for a local rank. Returns 0 if CUDA cannot count the GPUs; the constructor of the device
  /// then reports the reason.
  /// \throws gpu_error if there are too few GPUs
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
  cuda::adopted_communicator adopted_;
  detail::cuda_stream connecting_;
  detail::stable_list<detail::nccl_communicator> communicators_;
  detail::nccl_communicator* all_ = nullptr;
};

/// The pipeline of one process with one GPU: `process_pipeline` with CUDA and NCCL. torchrun, mpirun or srun
/// starts the processes, all with the same CLEAVE_KEY.
template <stage<cuda::device> S>
class pipeline : public process_pipeline<S, cuda::backend> {
 public:
  /// `make_stages(device)` returns the stages of this rank, which use that device. Collective.
  /// \throws plan_delivery_error if the plan was verified for independent messages
  /// \throws error if the number of ranks is not that of the plan times the replicas
  /// \throws gpu_error, cuda_error, nccl_version_error, run_error, tie_order_error, program_need_error, and
  ///   exceptions of `make_stages`
  template <std::invocable<cuda::device&> F>
  pipeline(planned_step auto const& p, F make_stages, cuda::pipeline_options const& o = {},
           process_start const& start = read_process_start())
      : process_pipeline<S, cuda::backend>(
            require_delivery(p), std::move(make_stages), o.run,
            {start.size, "there are", "torchrun --nproc-per-node, mpirun -n or srun -n"}, start, o) {}

  /// Adds a plan like `process_pipeline::add_plan`.
  /// \throws plan_delivery_error and the errors of `process_pipeline::add_plan`
  std::size_t add_plan(planned_step auto const& p) {
    return process_pipeline<S, cuda::backend>::add_plan(require_delivery(p));
  }

 private:
  template <planned_step P>
  static P const& require_delivery(P const& p) {
    if (auto const d = detail::find_plan_delivery_fault(p))
      throw detail::plan_delivery_error(
          "the plan was verified for independent messages, but NCCL executes the messages of a rank in "
          "order; make the plan with program_options{.delivery = {.delivery = delivery::one_queue}}",
          *d);
    return p;  // NOLINT(bugprone-return-const-ref-from-parameter): for the length of a call
  }
};

template <class P, std::invocable<cuda::device&> F>
pipeline(P const&, F, auto const&...)
    -> pipeline<std::remove_cvref_t<std::invoke_result_t<F, cuda::device&>>>;

/// Runs the ranks of a pipeline as processes with one GPU each, for `make_pipeline`.
struct on_processes {
  using device = cuda::device;

  cuda::pipeline_options options = {};

  std::uint32_t local_replicas() const { return 1; }
  /// NCCL executes the messages of a rank in order.
  template <class Options>
  Options rules(Options o) const {
    o.delivery = {.delivery = decltype(o.delivery.delivery)::one_queue};
    return o;
  }
  template <class S, planned_step P, class Add, class F>
  auto make(P const& p, Add add, F make_stages) const {
    auto o = options;
    add(o.run);
    auto const start = read_process_start();
    auto const here = detail::rank_in_plan(p, o.run, index(start.rank));
    return cuda::pipeline<S>(p, [&](device& d) { return make_stages(here, d); }, o, start);
  }
};

}  // namespace cleave::cuda
