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
#include "cleave/run/model/steady_list.hpp"
#include "cleave/run/processes/process_pipeline.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

namespace cleave::detail {

/// One rank's part of a reduction, and who is told its end.
struct mpi_reduction {
  region memory;
  reduce_op op;
  std::uint32_t number;
  mpi_requester* to;
  std::uint32_t which;
};

/// The reductions of one communicator: one after the other, in the order in which they are issued, which is
/// the same at all ranks.
class mpi_reducer : public mpi_requester {
 public:
  /// `link` is used for nothing else, and outlives it.
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
  /// What is said of it; it has no peer unless `r` is one.
  message what(rank_id r = no_rank) const { return {r, now().number, {no_stage, {}}}; }
  /// `message 7, the sum of 28 bytes of f32`.
  static std::string text_of(std::int64_t number, std::string const& bytes, std::int64_t type,
                             std::int64_t op) {
    bool const known = type >= 0 && static_cast<std::size_t>(type) < element_names.size();
    return "message " + std::to_string(number) + ", the " + (op == 0 ? "sum" : "maximum") + " of " + bytes +
           " bytes of " +
           (known ? std::string(element_names[static_cast<std::size_t>(type)]) : "unknown type");
  }
  void disagree(rank_id with, std::string const& theirs, std::string const& ours) {
    link_->refuse(what(with), failure_code::mismatch,
                  link_->name_of(link_->rank()) + " brings " + ours + ", but " + link_->name_of(with) +
                      " brings " + theirs + "; both must run the same program");
  }
  void expect_one_more() { ++open_; }

  /// Posts what comes next, phase after phase; false where all has been done.
  virtual bool post(std::uint32_t phase) = 0;
  /// Whether what was posted as `which` has ended well; else the run has failed.
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
  std::vector<mpi_reduction> queue_;  // from `first_` on
  std::size_t first_ = 0;
  std::uint32_t phase_ = 0, open_ = 0;
};

/// By MPI_Iallreduce, once all ranks have said that they mean the same.
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

/// By messages: each rank gets one slice of all others, sums it in the order of the ranks and gives the sum
/// to all; what is short, each rank sums itself.
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

  /// The number also says what is reduced, and how: ranks that disagree find out.
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

/// Ranks that are processes of MPI. Messages go on once they are issued, whenever this rank waits for
/// something or asks; those of a pair of ranks match in order, and so do reductions, and nothing else is
/// ordered. One thread calls it, and the device, except for `poll` and `abort`: these two may be called from
/// any. `abort` releases this rank alone; who releases the others is the rendezvous.
class mpi_communicator {
 public:
  /// The ranks of `of`, which is used for nothing here but to make communicators of its own. Every rank of it
  /// calls this, with the same options. \throws mpi_error
  mpi_communicator(MPI_Comm of, mpi::device& d, mpi::options const& o = {})
      : mpi_communicator(of, ranks_of(of), d.run(), o) {}  // `d` must outlive it

  rank_id rank() const { return messages_.rank(); }
  std::uint32_t size() const { return messages_.size(); }
  /// The rank in the run, which is that of the first communicator, of a rank of this one.
  rank_id member(rank_id r) const { return messages_.member(r); }

  /// Those ranks of `of` that say the same `colour`, in the order of their `key`. Every rank of it calls
  /// this, and waits until all have. Precondition: no message is on its way. \throws mpi_error
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

  /// \throws run_error once the run has failed
  void end_group(mpi::device::event& e, mpi::device::stream&) {
    if (auto const f = poll()) throw run_error(*f);
    auto& g = free_group();
    g.begin(pending_, e.expect());
    run_->advance();
    if (auto const f = poll()) throw run_error(*f);
  }

  std::optional<failure> poll() const { return run_->poll(); }
  void abort(failure const& f) noexcept { run_->publish(f); }

 private:
  using kind = group_transfer::kind;

  /// What has been issued together and has not ended.
  class group final : public mpi_requester {
   public:
    group(mpi_link& messages, mpi_reducer& reductions) : messages_(&messages), reductions_(&reductions) {}
    bool is_free() const { return open_ == 0; }

    /// Receives first, so that messages that are there find their place.
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

  /// Some of the ranks of a communicator, for as long as it takes to make one of them.
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
  mpi_reducer* reductions_ = nullptr;  // one of the two
  std::vector<std::vector<group>>
      groups_;            // those that go on, and those that are free: each stays where it is
  std::size_t next_ = 0;  // where to look first
  std::vector<group_transfer> pending_;
};

static_assert(communicator<mpi_communicator, mpi::device>);

}  // namespace cleave::detail

namespace cleave::mpi {

/// Options of every pipeline, and of MPI.
struct pipeline_options {
  cleave::pipeline_options run = {};
  mpi::rendezvous_options rendezvous = {};
  mpi::options messages = {.reductions = mpi::reductions::ordered};
  mpi::backoff backoff = {};
};

/// The device and the communicators of a process of an `mpi::pipeline`.
class backend final : public watchdog::waiter {
 public:
  using device = mpi::device;
  using communicator = detail::mpi_communicator;

  /// Every rank of `ranks` calls it. \throws mpi_error, run_error
  backend(MPI_Comm ranks, mpi::pipeline_options const& o)
      : ranks_(ranks),
        messages_(o.messages),
        device_(o.backoff),
        rendezvous_(detail::make_mpi_rendezvous(ranks, o.rendezvous)) {}

  tcp_rendezvous& rendezvous() { return rendezvous_; }
  mpi::device& own_device() { return device_; }

  detail::mpi_communicator& connect_all() {
    all_ = &communicators_.emplace(ranks_, device_, messages_);
    return *all_;
  }
  /// Who says no colour makes one alone.
  detail::mpi_communicator* connect(std::optional<std::uint32_t> colour, std::uint32_t key) {
    auto& made = communicators_.emplace(*all_, colour ? *colour : all_->size() + index(all_->rank()), key);
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
  detail::steady_list<detail::mpi_communicator> communicators_;
  detail::mpi_communicator* all_ = nullptr;
};

/// What one process does of schedules that run on processes of MPI, step after step: `process_pipeline` with
/// MPI. No other calls of MPI are made meanwhile.
///
/// After a failure MPI cannot be ended as usual: `mpi::environment::run` does what can be done.
template <stage<mpi::device> S>
class pipeline : public process_pipeline<S, mpi::backend> {
 public:
  /// `stages` has those of this rank. Every rank of `ranks` calls it. \throws error where there are not as
  /// many ranks as the plan and the replicas need; mpi_error, run_error, tie_order_error, program_need_error
  pipeline(planned_step auto const& p, S stages, mpi::pipeline_options const& o = {},
           MPI_Comm ranks = MPI_COMM_WORLD)
      : process_pipeline<S, mpi::backend>(
            p, [&](mpi::device&) { return std::move(stages); }, o.run,
            {size_of(ranks), "MPI has started", "mpirun -n"}, ranks, o) {}

 private:
  static std::uint32_t size_of(MPI_Comm ranks) {
    int started = 0;
    detail::check_mpi(MPI_Comm_size(ranks, &started));
    return static_cast<std::uint32_t>(started);
  }
};
}  // namespace cleave::mpi
