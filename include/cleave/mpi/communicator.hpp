// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/mpi/device.hpp"
#include "cleave/mpi/link.hpp"
#include "cleave/mpi/reducer.hpp"
#include "cleave/run/concepts.hpp"

namespace cleave {

/// Ranks that are processes of MPI. Messages go on once they are issued, whenever this rank waits for
/// something or asks; those of a pair of ranks match in order, and so do reductions, and nothing else is
/// ordered. One thread calls it, and the device, except for `poll` and `abort`: these two may be called from
/// any. `abort` releases this rank alone; who releases the others is the board.
class mpi_communicator {
 public:
  /// The ranks of `of`, which is used for nothing here but to make communicators of its own. Every rank of it
  /// calls this, with the same options. \throws mpi_error
  mpi_communicator(MPI_Comm of, mpi_device& d, mpi_options const& o = {})
      : mpi_communicator(of, ranks_of(of), d.run(), o) {}

  rank_id rank() const { return messages_->rank(); }
  std::uint32_t size() const { return messages_->size(); }
  /// The rank in the run, which is that of the first communicator, of a rank of this one.
  rank_id member(rank_id r) const { return messages_->member(r); }

  /// A communicator of those ranks that say the same `colour`, in the order of their `key`. Every rank of
  /// this one calls it, and waits until all have. Precondition: no message is on its way. \throws mpi_error
  mpi_communicator split(std::uint32_t colour, std::uint32_t key) const {
    MPI_Comm part = MPI_COMM_NULL;
    check_mpi(MPI_Comm_split(messages_->handle(), static_cast<int>(colour & 0x7fffffffu),
                             static_cast<int>(key & 0x7fffffffu), &part));
    std::uint32_t const mine = index(member(rank()));
    int size = 0;
    check_mpi(MPI_Comm_size(part, &size));
    std::vector<rank_id> members(static_cast<std::size_t>(size));
    check_mpi(MPI_Allgather(&mine, 1, MPI_UINT32_T, members.data(), 1, MPI_UINT32_T, part));
    mpi_communicator made(part, std::move(members), run_, messages_->options());
    check_mpi(MPI_Comm_free(&part));
    return made;
  }

  void begin_group() { pending_.clear(); }
  void send(region r, message const& m, mpi_device::stream&) { pending_.push_back({r, m, kind::send}); }
  void receive(region r, message const& m, mpi_device::stream&) { pending_.push_back({r, m, kind::receive}); }
  void all_reduce(region r, reduce_op op, std::uint32_t number, mpi_device::stream&) {
    pending_.push_back({r, {no_rank, number, {no_stage, {}}}, op == reduce_op::sum ? kind::sum : kind::max});
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
  enum class kind : std::uint8_t { send, receive, sum, max };
  struct transfer {
    region memory;
    message what;
    kind how;
  };

  /// What has been issued together and has not ended.
  class group final : public mpi_requester {
   public:
    group(mpi_link& messages, mpi_reducer& reductions) : messages_(&messages), reductions_(&reductions) {}
    bool is_free() const { return open_ == 0; }

    /// Receives first, so that messages that are there find their place.
    void begin(std::vector<transfer> const& all, std::shared_ptr<mpi_event::state> end) {
      all_.assign(all.begin(), all.end());
      end_ = std::move(end);
      open_ = static_cast<std::uint32_t>(all.size());
      if (open_ == 0) return finish();
      for (std::uint32_t i = 0; i < all_.size(); ++i)
        if (all_[i].how == kind::receive) messages_->receive(all_[i].memory, all_[i].what, *this, i);
      for (std::uint32_t i = 0; i < all_.size(); ++i)
        if (all_[i].how == kind::send) messages_->send(all_[i].memory, all_[i].what, *this, i);
      for (std::uint32_t i = 0; i < all_.size(); ++i)
        if (all_[i].how == kind::sum || all_[i].how == kind::max)
          reductions_->reduce({all_[i].memory, all_[i].how == kind::sum ? reduce_op::sum : reduce_op::max,
                               all_[i].what.number, this, i});
    }

    void ended(std::uint32_t which, MPI_Status const& s) override {
      auto const& t = all_[which];
      if (!(t.how == kind::receive ? is_what_was_sent(t, s) : messages_->check_ended(t.what, s))) return;
      if (--open_ == 0) finish();
    }

   private:
    bool is_what_was_sent(transfer const& t, MPI_Status const& s) {
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
    void finish() {
      end_->pass();
      end_.reset();
    }

    mpi_link* messages_;
    mpi_reducer* reductions_;
    std::vector<transfer> all_;
    std::shared_ptr<mpi_event::state> end_;
    std::uint32_t open_ = 0;
  };

  mpi_communicator(MPI_Comm of, std::vector<rank_id> members, std::shared_ptr<mpi_progress> run,
                   mpi_options const& o)
      : run_(std::move(run)),
        messages_(std::make_unique<mpi_link>(of, members, run_, o)),
        for_reductions_(std::make_unique<mpi_link>(of, std::move(members), run_, o)) {
    if (o.reductions == mpi_reductions::ordered)
      reductions_ = std::make_unique<mpi_ordered_reducer>(*for_reductions_);
    else
      reductions_ = std::make_unique<mpi_library_reducer>(*for_reductions_);
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
      auto& g = *groups_[next_];
      next_ = (next_ + 1) % groups_.size();
      if (g.is_free()) return g;
    }
    next_ = 0;
    return *groups_.emplace_back(std::make_unique<group>(*messages_, *reductions_));
  }

  std::shared_ptr<mpi_progress> run_;
  std::unique_ptr<mpi_link> messages_, for_reductions_;
  std::unique_ptr<mpi_reducer> reductions_;
  std::vector<std::unique_ptr<group>> groups_;  // those that go on, and those that are free
  std::size_t next_ = 0;                        // where to look first
  std::vector<transfer> pending_;
};

static_assert(communicator<mpi_communicator, mpi_device>);

}  // namespace cleave
