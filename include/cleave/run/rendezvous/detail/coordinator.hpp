// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/model/wait_chain.hpp"
#include "cleave/run/rendezvous/protocol.hpp"

namespace cleave::inline v0_2::detail {

/// The participation of a rank in a run.
enum class rank_presence : std::uint8_t { here, left, lost };

/// The decisions that rank 0 makes for all ranks: which failure is the first, when all have arrived at a
/// barrier, and which rank blocks the others. It uses neither a clock nor sockets. The owner passes it the
/// messages of all ranks, including rank 0, and delivers its letters.
class coordinator {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  struct letter {
    rank_id to;
    rendezvous_message what;
  };

  /// `answer_within` is the time limit for ranks to report their activity.
  coordinator(std::uint32_t ranks, std::chrono::nanoseconds answer_within)
      : presence_(ranks, rank_presence::here), arrived_(ranks), answer_within_(answer_within) {}

  /// Processes a message from a rank.
  /// \throws rendezvous_message_error if a rank may not send it
  void take(rank_id from, rendezvous_message const& m, time_point now) {
    switch (m.word) {
      case message_kind::failed:
        return decide({from, read_failed(m.body).what});
      case message_kind::arrive:
        return arrive(from, read_arrive(m.body), now);
      case message_kind::activity:
        return answer(from, read_activity(m.body), now);
      case message_kind::leave:
        return part(from, rank_presence::left);
      case message_kind::start:
      case message_kind::absent:
      case message_kind::release:
      case message_kind::asked:
        break;
    }
    throw rendezvous_message_error("only rank 0 may send it");
  }

  /// Handles the loss of rank `r`: decides that the run has failed.
  void lose(rank_id r, failure_code code, std::string const& why) {
    if (presence_[index(r)] != rank_presence::here) return;
    part(r, rank_presence::lost);
    failure f{code, {}, why};
    f.culprit = r;
    decide({rank_id{0}, std::move(f)});
  }

  /// Makes the decisions whose deadline has passed.
  void pass(time_point now) {
    if (decided_) return;
    if (arrivals_ > 0 && now >= timeout_at_) give_up_waiting();
    if (asker_ && now >= answers_until_) conclude();
  }
  /// Returns the next deadline at which to call `pass`, or nothing.
  std::optional<time_point> due() const {
    if (decided_) return std::nullopt;
    auto next = (time_point::max)();
    if (arrivals_ > 0) next = (std::min)(next, timeout_at_);
    if (asker_) next = (std::min)(next, answers_until_);
    return next == (time_point::max)() ? std::nullopt : std::optional(next);
  }

  std::vector<letter> take_letters() { return std::exchange(letters_, {}); }
  bool is_here(rank_id r) const { return presence_[index(r)] == rank_presence::here; }
  bool is_alone() const {
    return std::ranges::count(presence_, rank_presence::here) == (is_here(rank_id{0}));
  }

 private:
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(presence_.size()); }
  void send_to(rank_id r, rendezvous_message m) {
    if (is_here(r)) letters_.push_back({r, std::move(m)});
  }
  void send_to_all(rendezvous_message const& m) {
    for (std::uint32_t r = 0; r < ranks(); ++r) send_to(rank_id{r}, m);
  }

  void decide(published_failure p) {
    if (decided_) return;
    decided_ = true;
    if (p.what.reporter == no_rank) p.what.reporter = p.by;
    p.what = portable(std::move(p.what));
    send_to_all(failed_message(p));
  }

  void part(rank_id r, rank_presence how) {
    if (!is_here(r)) return;
    presence_[index(r)] = how;
    message_writer w;
    w.number(index(r)).number(static_cast<std::uint8_t>(how));
    send_to_all({message_kind::absent, std::move(w.bytes)});
    if (how == rank_presence::left && arrivals_ > 0) cannot_meet(r);
    if (asker_ && !decided_) {
      answers_[index(r)] = {activity_kind::gone};
      conclude_if_all_answered();
    }
  }

  // Barriers and broadcasts. A rank continues only when all have arrived, so at most one is open at a time.

  void arrive(rank_id from, barrier_arrival a, time_point now) {
    if (decided_) return;
    if (a.number != place_ || arrived_[index(from)])
      throw rendezvous_message_error("arrival at barrier " + std::to_string(a.number) +
                                     ", but the current one is " + std::to_string(place_));
    if (a.bytes.size() != (a.root == from ? a.size : 0))
      throw rendezvous_message_error("arrival with a wrong number of bytes");
    auto const until = now + a.timeout;
    timeout_at_ = arrivals_ == 0 ? until : (std::min)(timeout_at_, until);
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      if (arrived_[r] && (arrived_[r]->root != a.root || arrived_[r]->size != a.size))
        return disagree(rank_id{r}, from, a);
      if (presence_[r] == rank_presence::left) return cannot_meet(rank_id{r}, from);
    }
    arrived_[index(from)] = std::move(a);
    if (++arrivals_ == ranks()) release();
  }

  void release() {
    auto const root = arrived_.front()->root;
    auto const has_bytes = index(root) < ranks();
    message_writer with, without;
    without.number(place_);
    with.number(place_).bytes += has_bytes ? arrived_[index(root)]->bytes : "";
    for (std::uint32_t r = 0; r < ranks(); ++r)
      send_to(rank_id{r}, {message_kind::release, rank_id{r} == root ? without.bytes : with.bytes});
    std::ranges::fill(arrived_, std::nullopt);
    arrivals_ = 0;
    ++place_;
  }

  static std::string name_of_place(barrier_arrival const& a) {
    if (a.root == no_rank) return "a barrier";
    return "a broadcast of " + std::to_string(a.size) + " bytes from rank " + std::to_string(index(a.root));
  }
  void disagree(rank_id first, rank_id second, barrier_arrival const& a) {
    auto const name = [](rank_id r) { return "rank " + std::to_string(index(r)); };
    failure f{failure_code::mismatch, {}, {}};
    f.detail = name(first) + " is at " + name_of_place(*arrived_[index(first)]) + ", " + name(second) +
               " at " + name_of_place(a);
    decide({second, std::move(f)});
  }
  void cannot_meet(rank_id left, rank_id waits = no_rank) {
    for (std::uint32_t r = 0; r < ranks() && waits == no_rank; ++r)
      if (arrived_[r]) waits = rank_id{r};
    failure f{failure_code::peer_lost, {}, {}};
    f.detail = "rank " + std::to_string(index(left)) + " has left, but all ranks must take part";
    f.culprit = left;
    decide({waits, std::move(f)});
  }
  void give_up_waiting() {
    std::vector<rank_id> absent;
    std::optional<barrier_arrival> place;
    for (std::uint32_t r = 0; r < ranks(); ++r)
      if (arrived_[r])
        place = place ? place : arrived_[r];
      else
        absent.push_back(rank_id{r});
    failure f{failure_code::timeout, {}, {}};
    f.detail = "only " + std::to_string(arrivals_) + " of " + std::to_string(ranks()) + " ranks reached " +
               name_of_place(*place) + " before the deadline: " + are_missing(absent);
    if (absent.size() == 1) f.culprit = absent.front();
    decide({rank_id{0}, std::move(f)});
  }

  // Search for the rank that blocks the others. The first rank whose deadline has passed starts it, and all
  // ranks answer.

  void answer(rank_id from, rank_activity a, time_point now) {
    if (decided_) return;
    if (!asker_) {
      asker_ = from;
      answers_until_ = now + answer_within_;
      answers_.assign(ranks(), std::nullopt);
      for (std::uint32_t r = 0; r < ranks(); ++r)
        if (!is_here(rank_id{r}))
          answers_[r] = rank_activity{activity_kind::gone};
        else if (rank_id{r} != from)
          send_to(rank_id{r}, {message_kind::asked});
    }
    answers_[index(from)] = std::move(a);
    conclude_if_all_answered();
  }
  void conclude_if_all_answered() {
    if (std::ranges::all_of(answers_, [](auto const& a) { return a.has_value(); })) conclude();
  }
  void conclude() {
    std::vector<rank_activity> all;
    for (auto const& a : answers_) all.push_back(a.value_or(rank_activity{}));
    decide({*asker_, failure_of(find_culprit(all, *asker_), all, *asker_)});
  }

  std::vector<rank_presence> presence_;
  std::vector<std::optional<barrier_arrival>> arrived_;
  std::uint64_t place_ = 0;
  std::uint32_t arrivals_ = 0;
  time_point timeout_at_ = {};

  std::chrono::nanoseconds answer_within_;
  std::optional<rank_id> asker_;
  std::vector<std::optional<rank_activity>> answers_;
  time_point answers_until_ = {};

  std::vector<letter> letters_;
  bool decided_ = false;
};

}  // namespace cleave::detail
