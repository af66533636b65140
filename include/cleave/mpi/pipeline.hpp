// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/mpi/device.hpp"
#include "cleave/mpi/link.hpp"
#include "cleave/mpi/rendezvous.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"
#include "cleave/run/model/stable_list.hpp"
#include "cleave/run/processes/process_pipeline.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

namespace cleave::inline v0_2::detail {

/// One rank's part of a reduction, and the object that is notified of its end.
struct mpi_reduction {
  region memory;
  reduce_op op;
  std::uint32_t number;
  mpi_requester* to;
  std::uint32_t which;
};

/// The reductions of one communicator, executed one by one in issue order, which is the same on all ranks.
class mpi_reducer : public mpi_requester {
 public:
  /// `link` must outlive it, and is used for nothing else.
  explicit mpi_reducer(mpi_link& link) : link_(&link) {}
  virtual ~mpi_reducer() = default;

  void reduce(mpi_reduction const& r) {
    queue_.push_back(r);
    if (queue_.size() == first_ + 1) go_on();
  }

  void ended(std::uint32_t which, MPI_Status const& s) override {
    if (!arrived(which, s)) return;
    --open_;
    go_on();
  }

 protected:
  mpi_link& link() const { return *link_; }
  mpi_reduction const& now() const { return queue_[first_]; }
  /// Returns the reduction as a message for errors. The peer is `r`, if any.
  message what(rank_id r = no_rank) const { return {r, now().number, {no_stage, {}}}; }
  /// Formats a reduction: `message 7, the sum of 28 bytes of f32`.
  static std::string text_of(std::int64_t number, std::string const& bytes, std::int64_t type,
                             std::int64_t op) {
    bool const known = type >= 0 && static_cast<std::size_t>(type) < element_names.size();
    return "message " + std::to_string(number) + ", the " + (op == 0 ? "sum" : "maximum") + " of " + bytes +
           " bytes of " +
           (known ? std::string(element_names[static_cast<std::size_t>(type)]) : "unknown type");
  }
  void disagree(rank_id with, std::string const& theirs, std::string const& ours) {
    link_->refuse(what(with), failure_code::mismatch,
                  link_->name_of(link_->rank()) + " contributes " + ours + ", but " + link_->name_of(with) +
                      " contributes " + theirs + "; both must run the same program");
  }
  void expect_one_more() { ++open_; }

  /// Posts the operations of a phase. Returns false if no phase is left.
  virtual bool post(std::uint32_t phase) = 0;
  /// Returns true if operation `which` succeeded; otherwise the run fails.
  virtual bool arrived(std::uint32_t /*which*/, MPI_Status const& s) { return link_->check_ended(what(), s); }

 private:
  void go_on() {
    while (open_ == 0 && first_ < queue_.size() && !link_->run().poll())
      if (!post(phase_++)) finish();
  }

  void finish() {
    auto const done = now();
    phase_ = 0;
    if (++first_ == queue_.size()) queue_.clear(), first_ = 0;
    MPI_Status well = {};
    well.MPI_ERROR = MPI_SUCCESS;
    done.to->ended(done.which, well);
  }

  mpi_link* link_;
  std::vector<mpi_reduction> queue_;  // valid from position `first_`
  std::size_t first_ = 0;
  std::uint32_t phase_ = 0, open_ = 0;
};

/// Reduces with MPI_Iallreduce, after all ranks have compared their arguments.
class mpi_library_reducer : public mpi_reducer {
 public:
  explicit mpi_library_reducer(mpi_link& link) : mpi_reducer(link), said_(link.size()) {}

 protected:
  bool post(std::uint32_t phase) override {
    auto const& m = now().memory;
    if (phase == 0) return say();
    if (phase == 1 && !agreed()) return true;  // the run has failed
    auto const piece = (std::min)(std::max<std::size_t>(link().options().longest_piece / size_of(m.type), 1),
                                  static_cast<std::size_t>((std::numeric_limits<int>::max)()));
    std::size_t const at = (phase - 1) * piece;
    if (at >= m.count) return false;
    auto const count = static_cast<int>((std::min)(piece, m.count - at));
    auto* const data = static_cast<std::byte*>(m.data) + at * size_of(m.type);
    MPI_Request q = MPI_REQUEST_NULL;
    int const code = MPI_Iallreduce(MPI_IN_PLACE, data, count, mpi_type_of(m.type),
                                    operations_(m.type, now().op), link().handle(), &q);
    return watch(code, q);
  }

 private:
  using words = std::array<std::int64_t, 4>;  // number, bytes, type, operation

  bool say() {
    auto const& r = now();
    mine_ = {std::int64_t{r.number}, static_cast<std::int64_t>(r.memory.bytes()),
             static_cast<std::int64_t>(r.memory.type), static_cast<std::int64_t>(r.op)};
    MPI_Request q = MPI_REQUEST_NULL;
    int const code =
        MPI_Iallgather(mine_.data(), 4, MPI_INT64_T, said_.data(), 4, MPI_INT64_T, link().handle(), &q);
    return watch(code, q);
  }

  bool agreed() {
    auto const other = std::ranges::find_if(said_, [&](words const& w) { return w != mine_; });
    if (other == said_.end()) return true;
    auto const text = [](words const& w) { return text_of(w[0], std::to_string(w[1]), w[2], w[3]); };
    disagree(rank_id{static_cast<std::uint32_t>(other - said_.begin())}, text(*other), text(mine_));
    return false;
  }

  bool watch(int code, MPI_Request q) {
    expect_one_more();
    link().accept(code, what(), q, *this, 0);
    return true;
  }

  mpi_operations operations_;
  words mine_ = {};
  std::vector<words> said_;
};

/// Reduces with point-to-point messages, in rank order. Each rank receives its slice from all others, sums it
/// and sends the result to all. Short regions are sent whole, and each rank sums them itself.
class mpi_ordered_reducer : public mpi_reducer {
 public:
  explicit mpi_ordered_reducer(mpi_link& link) : mpi_reducer(link) {}

 protected:
  bool post(std::uint32_t phase) override {
    switch (phase) {
      case 0:
        exchange_parts();
        return true;
      case 1:
        sum();
        return is_sliced();
      case 2:
        exchange_sums();
        return true;
      default:
        return false;
    }
  }

  bool arrived(std::uint32_t which, MPI_Status const& s) override {
    rank_id const peer{which % link().size()};
    auto const m = tagged(peer);
    if (which < link().size()) return link().check_ended(m, s);
    auto const& here = received_[index(peer)];
    auto const there = link().find_arrival(here, m, s);
    if (!there || there->expected) return there.has_value();
    disagree(peer, text_of_tag(there->number, there->bytes),
             text_of_tag(link().number_of(m), std::to_string(here.bytes())));
    return false;
  }

 private:
  bool is_sliced() const {
    return now().memory.bytes() >= link().options().shortest_slice && link().size() > 2;
  }
  region slice_of(std::uint32_t r) const {
    auto const& m = now().memory;
    if (!is_sliced()) return m;
    auto const all = m.count, share = all / link().size(), more = all % link().size();
    auto const first = r * share + std::min<std::size_t>(r, more);
    return {static_cast<std::byte*>(m.data) + first * size_of(m.type), share + (r < more ? 1 : 0), m.type};
  }

  /// Returns a message whose number also encodes type and operation, so that mismatches are detected.
  message tagged(rank_id r) const {
    auto m = what(r);
    m.number = m.number * 32 + static_cast<std::uint32_t>(now().memory.type) * 2 +
               static_cast<std::uint32_t>(now().op);
    return m;
  }

  static std::string text_of_tag(std::uint32_t tag, std::string const& bytes) {
    return text_of(tag / 32, bytes, tag % 32 / 2, tag % 2);
  }

  template <class F>
  void for_others(F f) {
    for (std::uint32_t r = 0; r < link().size(); ++r)
      if (rank_id{r} != link().rank()) f(r);
  }
  void receive(std::uint32_t from, region r) {
    received_[from] = r;
    expect_one_more();
    link().receive(r, tagged(rank_id{from}), *this, link().size() + from);
  }
  void send(std::uint32_t to, region r) {
    expect_one_more();
    link().send(r, tagged(rank_id{to}), *this, to);
  }

  void exchange_parts() {
    auto own = slice_of(index(link().rank()));
    auto const stride = (own.bytes() + 63) / 64 * 64;
    scratch_.resize((std::max)(scratch_.size(), stride * link().size()));
    received_.resize(link().size());
    parts_.assign(link().size(), own);
    for_others([&](std::uint32_t r) {
      parts_[r].data = scratch_.data() + r * stride;
      receive(r, parts_[r]);
    });
    for_others([&](std::uint32_t r) { send(r, slice_of(r)); });
  }
  void sum() { sum_in_order(parts_, now().op); }
  void exchange_sums() {
    for_others([&](std::uint32_t r) { receive(r, slice_of(r)); });
    for_others([&](std::uint32_t r) { send(r, slice_of(index(link().rank()))); });
  }

  std::vector<std::byte> scratch_;
  std::vector<region> parts_, received_;
};

/// The communicator of ranks that are MPI processes. Issued messages progress whenever this rank waits or
/// queries. Messages between the same two ranks match in order, as do reductions; nothing else is ordered.
/// One thread uses it and the device, except that `poll` and `abort` may be called from any thread. `abort`
/// releases only this rank; the rendezvous releases the others.
class mpi_communicator {
 public:
  /// Connects all ranks of `of`, which is only duplicated. Collective, with the same options on all ranks.
  /// \throws mpi_error
  mpi_communicator(MPI_Comm of, mpi::device& d, mpi::options const& o = {})
      : mpi_communicator(of, ranks_of(of), d.run(), o) {}  // `d` must outlive it

  rank_id rank() const { return messages_.rank(); }
  std::uint32_t size() const { return messages_.size(); }
  /// Returns the rank in the run (the first communicator) of rank `r` of this communicator.
  rank_id member(rank_id r) const { return messages_.member(r); }

  /// Connects the ranks of `of` with the same `colour`, ordered by `key`. Collective and blocking.
  /// Precondition: no message is pending.
  /// \throws mpi_error
  mpi_communicator(mpi_communicator const& of, std::uint32_t colour, std::uint32_t key)
      : mpi_communicator(part(of, colour, key)) {}
  mpi_communicator split(std::uint32_t colour, std::uint32_t key) const { return {*this, colour, key}; }
  mpi_communicator(mpi_communicator&&) = delete;

  void begin_group() { pending_.clear(); }
  void send(region r, message const& m, mpi::device::stream&) {
    pending_.push_back(group_transfer::send(r, m));
  }
  void receive(region r, message const& m, mpi::device::stream&) {
    pending_.push_back(group_transfer::receive(r, m));
  }
  void all_reduce(region r, reduce_op op, std::uint32_t number, mpi::device::stream&) {
    pending_.push_back(group_transfer::reduce(r, op, number));
  }

  /// Issues the collected transfers.
  /// \throws run_error once the run has failed
  void end_group(mpi::device::event& e, mpi::device::stream&) {
    if (auto const f = poll()) throw run_error(*f);
    auto const mine = run_->turn();
    auto& g = free_group();
    g.begin(pending_, e.expect());
    run_->advance();
    if (auto const f = poll()) throw run_error(*f);
  }

  std::optional<failure> poll() const { return run_->poll(); }
  void abort(failure const& f) noexcept { run_->publish(f); }

 private:
  using kind = group_transfer::kind;

  /// The transfers of one issued group that have not ended yet.
  class group final : public mpi_requester {
   public:
    group(mpi_link& messages, mpi_reducer& reductions) : messages_(&messages), reductions_(&reductions) {}
    bool is_free() const { return open_ == 0; }

    /// Posts receives first, so that messages that have already arrived find a matching receive.
    void begin(std::vector<group_transfer> const& all, mpi_event::state& end) {
      all_.assign(all.begin(), all.end());
      end_ = &end;
      open_ = static_cast<std::uint32_t>(all.size());
      if (open_ == 0) return finish();
      for (std::uint32_t i = 0; i < all_.size(); ++i)
        if (all_[i].how == kind::receive) messages_->receive(all_[i].memory, all_[i].what, *this, i);
      for (std::uint32_t i = 0; i < all_.size(); ++i)
        if (all_[i].how == kind::send) messages_->send(all_[i].memory, all_[i].what, *this, i);
      for (std::uint32_t i = 0; i < all_.size(); ++i)
        if (all_[i].how == kind::reduction)
          reductions_->reduce({all_[i].memory, all_[i].op, all_[i].what.number, this, i});
    }

    void ended(std::uint32_t which, MPI_Status const& s) override {
      auto const& t = all_[which];
      if (!(t.how == kind::receive ? is_what_was_sent(t, s) : messages_->check_ended(t.what, s))) return;
      if (--open_ == 0) finish();
    }

   private:
    bool is_what_was_sent(group_transfer const& t, MPI_Status const& s) {
      auto const there = messages_->find_arrival(t.memory, t.what, s);
      if (!there || there->expected) return there.has_value();
      auto const text = [](std::uint32_t number, std::string const& bytes) {
        return "message " + std::to_string(number) + " of " + bytes + " bytes";
      };
      messages_->refuse(t.what, failure_code::mismatch,
                        messages_->name_of(t.what.peer) + " sends " + text(there->number, there->bytes) +
                            ", but " + messages_->name_of(messages_->rank()) + " receives " +
                            text(messages_->number_of(t.what), std::to_string(t.memory.bytes())) +
                            "; both must run the same program");
      return false;
    }
    void finish() { end_->pass(); }

    mpi_link* messages_;
    mpi_reducer* reductions_;
    std::vector<group_transfer> all_;
    mpi_event::state* end_ = nullptr;
    std::uint32_t open_ = 0;
  };

  mpi_communicator(MPI_Comm of, std::vector<rank_id> const& members, mpi_progress& run, mpi::options const& o)
      : run_(&run), messages_(of, members, run, o), for_reductions_(of, members, run, o) {
    if (o.reductions == mpi::reductions::ordered)
      reductions_ = &ordered_.emplace(for_reductions_);
    else
      reductions_ = &library_.emplace(for_reductions_);
  }

  /// The result of an MPI_Comm_split, kept only until a communicator is made of it.
  struct some_ranks {
    MPI_Comm handle = MPI_COMM_NULL;
    std::vector<rank_id> members = {};
    mpi_progress* run = nullptr;
    mpi::options options = {};
  };
  explicit mpi_communicator(some_ranks p) : mpi_communicator(p.handle, p.members, *p.run, p.options) {
    check_mpi(MPI_Comm_free(&p.handle));
  }
  static some_ranks part(mpi_communicator const& of, std::uint32_t colour, std::uint32_t key) {
    some_ranks p{.run = of.run_, .options = of.messages_.options()};
    check_mpi(MPI_Comm_split(of.messages_.handle(), static_cast<int>(colour & 0x7fffffffu),
                             static_cast<int>(key & 0x7fffffffu), &p.handle));
    std::uint32_t const mine = index(of.member(of.rank()));
    int size = 0;
    check_mpi(MPI_Comm_size(p.handle, &size));
    p.members.resize(static_cast<std::size_t>(size));
    check_mpi(MPI_Allgather(&mine, 1, MPI_UINT32_T, p.members.data(), 1, MPI_UINT32_T, p.handle));
    return p;
  }

  static std::vector<rank_id> ranks_of(MPI_Comm of) {
    int size = 0;
    check_mpi(MPI_Comm_size(of, &size));
    std::vector<rank_id> ranks;
    for (int r = 0; r < size; ++r) ranks.push_back(rank_id{static_cast<std::uint32_t>(r)});
    return ranks;
  }

  group& free_group() {
    for (std::size_t tried = 0; tried < groups_.size(); ++tried) {
      auto& g = groups_[next_].front();
      next_ = (next_ + 1) % groups_.size();
      if (g.is_free()) return g;
    }
    next_ = 0;
    return groups_.emplace_back().emplace_back(messages_, *reductions_);
  }

  mpi_progress* run_;
  mpi_link messages_, for_reductions_;
  std::optional<mpi_ordered_reducer> ordered_;
  std::optional<mpi_library_reducer> library_;
  mpi_reducer* reductions_ = nullptr;  // one of the two above
  // busy and free groups; their addresses do not change
  std::vector<std::vector<group>> groups_;
  std::size_t next_ = 0;  // start of the search for a free group
  std::vector<group_transfer> pending_;
};

static_assert(communicator<mpi_communicator, mpi::device>);

}  // namespace cleave::detail

namespace cleave::inline v0_2::mpi {

/// Options of every pipeline, plus those of MPI.
struct pipeline_options {
  cleave::pipeline_options run = {};
  mpi::rendezvous_options rendezvous = {};
  mpi::options messages = {.reductions = mpi::reductions::ordered};
  mpi::backoff backoff = {};
  mpi::progress progress = mpi::progress::calls;
};

/// The device and communicators of a process in an `mpi::pipeline`.
class backend final : public watchdog::waiter {
 public:
  using device = mpi::device;
  using communicator = detail::mpi_communicator;

  /// Collective over `ranks`.
  /// \throws mpi_error, run_error
  backend(MPI_Comm ranks, mpi::pipeline_options const& o)
      : ranks_(ranks),
        messages_(o.messages),
        device_(o.backoff, o.progress),
        rendezvous_(detail::make_mpi_rendezvous(ranks, o.rendezvous)) {}

  tcp_rendezvous& rendezvous() { return rendezvous_; }
  mpi::device& own_device() { return device_; }

  detail::mpi_communicator& connect_all() {
    if (!all_) all_ = &communicators_.emplace(ranks_, device_, messages_);
    return *all_;
  }
  /// A rank without colour gets a communicator of its own, which is not returned.
  detail::mpi_communicator* connect(std::optional<std::uint32_t> colour, std::uint32_t key) {
    auto& all = connect_all();
    auto& made = communicators_.emplace(all, colour ? *colour : all.size() + index(all.rank()), key);
    return colour ? &made : nullptr;
  }
  detail::mpi_communicator* connect_sums(std::optional<std::uint32_t> colour, std::uint32_t key) {
    return connect(colour, key);
  }
  void prepare(detail::mpi_communicator&, rank_program const&) {}

  void release(failure const& f) noexcept override { device_.run().publish(f); }
  void end() noexcept {}

 private:
  MPI_Comm ranks_;
  mpi::options messages_;
  mpi::device device_;
  tcp_rendezvous rendezvous_;
  detail::stable_list<detail::mpi_communicator> communicators_;
  detail::mpi_communicator* all_ = nullptr;
};

/// The pipeline of one MPI process: `process_pipeline` with MPI. No other MPI calls may be made while it
/// runs. After a failure MPI cannot be finalised normally; `mpi::environment::run` handles that.
template <stage<mpi::device> S>
class pipeline : public process_pipeline<S, mpi::backend> {
 public:
  /// `stages` are those of this rank. Collective over `ranks`.
  /// \throws error if the number of ranks is not that of the plan times the replicas
  /// \throws mpi_error, run_error, tie_order_error, program_need_error
  pipeline(planned_step auto const& p, S stages, mpi::pipeline_options const& o = {},
           MPI_Comm ranks = MPI_COMM_WORLD)
      : process_pipeline<S, mpi::backend>(
            p, [&](mpi::device&) { return std::move(stages); }, o.run,
            {size_of(ranks), "MPI has started", "mpirun -n"}, ranks, o) {}
  /// `make_stages(device)` returns the stages of this rank. Otherwise as above.
  template <std::invocable<mpi::device&> F>
  pipeline(planned_step auto const& p, F make_stages, mpi::pipeline_options const& o = {},
           MPI_Comm ranks = MPI_COMM_WORLD)
      : process_pipeline<S, mpi::backend>(p, std::move(make_stages), o.run,
                                          {size_of(ranks), "MPI has started", "mpirun -n"}, ranks, o) {}

 private:
  static std::uint32_t size_of(MPI_Comm ranks) {
    int started = 0;
    detail::check_mpi(MPI_Comm_size(ranks, &started));
    return static_cast<std::uint32_t>(started);
  }
};

/// Runs the ranks of a pipeline as MPI processes, for `make_pipeline`.
struct on_processes {
  using device = mpi::device;

  mpi::pipeline_options options = {};
  MPI_Comm ranks = MPI_COMM_WORLD;

  std::uint32_t local_replicas() const { return 1; }
  template <class Options>
  Options rules(Options o) const {
    return o;
  }
  template <class S, planned_step P, class Add, class F>
  auto make(P const& p, Add add, F make_stages) const {
    auto o = options;
    add(o.run);
    int rank = 0;
    detail::check_mpi(MPI_Comm_rank(ranks, &rank));
    auto const here = detail::rank_in_plan(p, o.run, static_cast<std::uint32_t>(rank));
    return mpi::pipeline<S>(p, [&](device& d) { return make_stages(here, d); }, o, ranks);
  }
};

}  // namespace cleave::mpi
