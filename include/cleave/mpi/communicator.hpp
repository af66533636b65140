// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/mpi/device.hpp"
#include "cleave/mpi/link.hpp"
#include "cleave/mpi/reducer.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/group_transfer.hpp"

namespace cleave::detail {

/// Ranks that are processes of MPI. Messages go on once they are issued, whenever this rank waits for
/// something or asks; those of a pair of ranks match in order, and so do reductions, and nothing else is
/// ordered. One thread calls it, and the device, except for `poll` and `abort`: these two may be called from
/// any. `abort` releases this rank alone; who releases the others is the board.
class mpi_communicator {
 public:
  /// The ranks of `of`, which is used for nothing here but to make communicators of its own. Every rank of it
  /// calls this, with the same options. \throws mpi_error
  mpi_communicator(MPI_Comm of, mpi_device& d, mpi_options const& o = {})
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
  void send(region r, message const& m, mpi_device::stream&) {
    pending_.push_back(group_transfer::send(r, m));
  }
  void receive(region r, message const& m, mpi_device::stream&) {
    pending_.push_back(group_transfer::receive(r, m));
  }
  void all_reduce(region r, reduce_op op, std::uint32_t number, mpi_device::stream&) {
    pending_.push_back(group_transfer::reduce(r, op, number));
  }

  /// \throws run_error once the run has failed
  void end_group(mpi_device::event& e, mpi_device::stream&) {
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

  mpi_communicator(MPI_Comm of, std::vector<rank_id> const& members, mpi_progress& run, mpi_options const& o)
      : run_(&run), messages_(of, members, run, o), for_reductions_(of, members, run, o) {
    if (o.reductions == mpi_reductions::ordered)
      reductions_ = &ordered_.emplace(for_reductions_);
    else
      reductions_ = &library_.emplace(for_reductions_);
  }

  /// Some of the ranks of a communicator, for as long as it takes to make one of them.
  struct some_ranks {
    MPI_Comm handle = MPI_COMM_NULL;
    std::vector<rank_id> members = {};
    mpi_progress* run = nullptr;
    mpi_options options = {};
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

static_assert(communicator<mpi_communicator, mpi_device>);

}  // namespace cleave::detail
