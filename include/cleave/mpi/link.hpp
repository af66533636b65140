// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/mpi/device.hpp"
#include "cleave/mpi/progress.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::mpi {

/// The mode of MPI sends.
enum class sends : std::uint8_t {
  synchronous,  ///< a send of any size ends once its receive has begun, as schedules are verified
  standard,     ///< short messages may be buffered by the library
};

/// The order of additions in reductions.
enum class reductions : std::uint8_t {
  library,  ///< in the order that MPI chooses
  ordered,  ///< in rank order: every rank gets the same bits as with threads
};

/// The use of MPI by a communicator; the same on all its ranks.
struct options {
  mpi::sends sends = mpi::sends::synchronous;
  mpi::reductions reductions = mpi::reductions::library;
  std::size_t longest_piece = std::size_t{1} << 30;  ///< maximum size of a single MPI operation, in bytes
  std::size_t shortest_slice = 4096;  ///< in bytes; below this size each rank computes an ordered sum alone
};

}  // namespace cleave::mpi

namespace cleave::inline v0_2::detail {

/// A duplicated communicator, so that messages of other code are never received here.
class mpi_own_communicator {
 public:
  /// Collective over `of`.
  /// \throws mpi_error
  mpi_own_communicator(MPI_Comm of, mpi_progress const& run) : run_(&run) {
    check_mpi(MPI_Comm_dup(of, &handle_));
    check_mpi(MPI_Comm_set_errhandler(handle_, MPI_ERRORS_RETURN));
  }
  mpi_own_communicator(mpi_own_communicator const&) = delete;
  mpi_own_communicator& operator=(mpi_own_communicator const&) = delete;
  /// Frees the communicator, except after a failure or MPI_Finalize, because other ranks may still wait in
  /// it.
  ~mpi_own_communicator() {
    int ended = 0;
    if (MPI_Finalized(&ended) == MPI_SUCCESS && ended == 0 && !run_->poll()) MPI_Comm_free(&handle_);
  }
  MPI_Comm handle() const { return handle_; }

 private:
  mpi_progress const* run_;
  MPI_Comm handle_ = MPI_COMM_NULL;
};

/// The connection of this rank with others: posts messages to MPI and checks received ones.
class mpi_link {
 public:
  /// `members[i]` is the rank in the run of rank i of `of`. Collective over `of`. `run` must outlive it.
  /// \throws mpi_error
  mpi_link(MPI_Comm of, std::vector<rank_id> members, mpi_progress& run, mpi::options const& o)
      : run_(&run), own_(of, run), members_(std::move(members)), options_(o) {
    expects(o.longest_piece > 0 && o.longest_piece < std::size_t{1} << 31,
            "mpi::options: longest_piece is positive and fits an int");
    int rank = 0, found = 0;
    int* bound = nullptr;
    check_mpi(MPI_Comm_rank(handle(), &rank));
    check_mpi(MPI_Comm_get_attr(handle(), MPI_TAG_UB, static_cast<void*>(&bound), &found));
    rank_ = static_cast<std::uint32_t>(rank);
    if (found != 0) tags_ = static_cast<std::uint32_t>(*bound);
  }

  rank_id rank() const { return rank_id{rank_}; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  rank_id member(rank_id r) const { return members_[index(r)]; }
  std::vector<rank_id> const& members() const { return members_; }
  MPI_Comm handle() const { return own_.handle(); }
  mpi_progress& run() const { return *run_; }
  mpi::options const& options() const { return options_; }

  /// Posts a send; `to` is notified of its end. An error of MPI is published. Precondition: the peer is a
  /// member.
  void send(region r, message const& m, mpi_requester& to, std::uint32_t which) {
    auto const post = options_.sends == mpi::sends::synchronous ? &MPI_Issend : &MPI_Isend;
    mpi_extent const extent(r.bytes(), options_.longest_piece);
    MPI_Request q = MPI_REQUEST_NULL;
    int const code = post(r.data, extent.count(), extent.type(), peer_of(m), tag_of(m.number), handle(), &q);
    accept(code, m, q, to, which);
  }
  /// Posts a receive of a message with any number. A wrong number is detected on arrival, instead of waiting
  /// forever.
  void receive(region r, message const& m, mpi_requester& to, std::uint32_t which) {
    mpi_extent const extent(r.bytes(), options_.longest_piece);
    MPI_Request q = MPI_REQUEST_NULL;
    int const code = MPI_Irecv(r.data, extent.count(), extent.type(), peer_of(m), MPI_ANY_TAG, handle(), &q);
    accept(code, m, q, to, which);
  }

  /// A received message. `expected` is true if its number and size are right.
  struct arrival {
    bool expected;
    std::uint32_t number;
    /// Number of bytes as text, because some libraries do not report the full size of a truncated message.
    std::string bytes;
  };
  /// Returns the received message. Returns nothing if the receive failed; the run has then failed.
  std::optional<arrival> find_arrival(region r, message const& m, MPI_Status const& s) {
    int kind = MPI_SUCCESS;
    if (s.MPI_ERROR != MPI_SUCCESS) MPI_Error_class(s.MPI_ERROR, &kind);
    bool const cut = kind == MPI_ERR_TRUNCATE;
    if (!cut && !check_ended(m, s)) return std::nullopt;
    MPI_Count bytes = 0;
    MPI_Get_elements_x(&s, MPI_BYTE, &bytes);
    auto const expected = r.bytes();
    bool const more = cut && static_cast<std::size_t>(bytes) <= expected;
    return arrival{!cut && s.MPI_TAG == tag_of(m.number) && static_cast<std::size_t>(bytes) == expected,
                   static_cast<std::uint32_t>(s.MPI_TAG),
                   more ? "more than " + std::to_string(expected) : std::to_string(bytes)};
  }
  /// Returns true if the operation succeeded; otherwise the run fails.
  bool check_ended(message const& m, MPI_Status const& s) {
    if (s.MPI_ERROR == MPI_SUCCESS) return true;
    refuse(m, failure_code::transport, mpi_text(s.MPI_ERROR));
    return false;
  }

  /// Fails the run because of message `m`.
  void refuse(message const& m, failure_code code, std::string const& detail) {
    run_->publish({.code = code,
                   .at = m.of.stage == no_stage ? std::nullopt : std::optional(m.of),
                   .detail = detail,
                   .reporter = member(rank()),
                   .culprit = m.peer == no_rank ? no_rank : member(m.peer)});
  }
  void accept(int code, message const& m, MPI_Request q, mpi_requester& to, std::uint32_t which) {
    if (code != MPI_SUCCESS) return refuse(m, failure_code::transport, mpi_text(code));
    run_->watch(q, to, which);
  }
  std::uint32_t number_of(message const& m) const { return static_cast<std::uint32_t>(tag_of(m.number)); }
  std::string name_of(rank_id r) const { return "rank " + std::to_string(index(member(r))); }

 private:
  int peer_of(message const& m) const {
    expects(index(m.peer) < size(), "mpi_communicator: messages go to members");
    return static_cast<int>(index(m.peer));
  }
  int tag_of(std::uint32_t number) const { return static_cast<int>(number % tags_); }

  mpi_progress* run_;
  mpi_own_communicator own_;
  std::vector<rank_id> members_;
  mpi::options options_;
  std::uint32_t rank_ = 0;
  std::uint32_t tags_ = 32767;  // the minimum that MPI guarantees
};

}  // namespace cleave::detail
