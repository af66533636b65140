// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/mpi/element.hpp"
#include "cleave/mpi/link.hpp"
#include "cleave/run/model/concepts.hpp"
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

}  // namespace cleave::detail
