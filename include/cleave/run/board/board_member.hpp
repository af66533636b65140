// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/board/board_hub.hpp"
#include "cleave/run/board/board_message.hpp"
#include "cleave/run/model/failure.hpp"

namespace cleave::detail {

/// What a rank knows of the run, from what rank 0 says; and how long it lets rank 0 take to say it. Without a
/// clock and without sockets.
class board_member {
 public:
  using time_point = board_hub::time_point;

  board_member(rank_id here, std::uint32_t ranks) : here_(here), presence_(ranks, rank_presence::here) {}

  /// \throws board_message_error where it is not what rank 0 may say.
  void take(board_message const& m) {
    switch (m.word) {
      case board_word::failed:
        return learn(read_failed(m.body));
      case board_word::absent:
        return miss(m.body);
      case board_word::release:
        return go_on(m.body);
      case board_word::asked:
        is_asked_ = true;
        return;
      case board_word::leave:
        return lose_hub(rank_presence::left, failure_code::peer_lost, {});
      case board_word::start:
      case board_word::arrive:
      case board_word::activity:
        break;
    }
    throw board_message_error("a message that rank 0 does not send");
  }

  /// What rank 0 is to be told of a failure here, unless it is too late for that.
  std::optional<board_message> propose(failure f, time_point decided_until) {
    if (first_ || proposed_) return std::nullopt;
    if (f.reporter == no_rank) f.reporter = here_;
    proposed_ = {here_, std::move(f)};
    if (!has_hub()) return learn(*proposed_), std::nullopt;
    wait_for_decision(decided_until);
    return failed_message({here_, portable(proposed_->what)});
  }
  /// What rank 0 is to be told of what this rank does.
  std::optional<board_message> report(rank_activity const& a, time_point decided_until) {
    is_asked_ = false;
    if (first_) return std::nullopt;
    if (!has_hub()) return blame_alone(a), std::nullopt;
    wait_for_decision(decided_until);
    return activity_message(a);
  }
  /// The same, for one who was asked and has no deadline of its own.
  std::optional<board_message> answer(rank_activity const& a) {
    if (!std::exchange(is_asked_, false) || first_) return std::nullopt;
    return activity_message(a);
  }

  /// Rank 0 cannot be reached any more, or has left.
  void lose_hub(rank_presence how, failure_code code, std::string const& why) {
    if (!has_hub()) return;
    presence_.front() = how;
    if (how == rank_presence::left && proposed_) return learn(*proposed_);
    if (how == rank_presence::left && !meets_) return;
    failure f{code, {}, how == rank_presence::left ? "rank 0 has left, and all are waited for" : why};
    f.culprit = rank_id{0};
    f.reporter = here_;
    learn({here_, std::move(f)});
  }

  /// Rank 0 is of no help: what was proposed, or else `f`, is the first failure here.
  void decide_alone(failure f) {
    f.reporter = here_;
    f.culprit = f.culprit == no_rank ? rank_id{0} : f.culprit;
    learn(proposed_.value_or(published_failure{here_, std::move(f)}));
  }

  /// Rank 0 has said nothing for too long.
  void pass(time_point now) {
    if (first_ || !decided_until_ || now < *decided_until_) return;
    decide_alone({failure_code::timeout,
                  {},
                  "asked who keeps others waiting, " + describe(rank_activity{}, rank_id{0})});
  }
  std::optional<time_point> due() const { return first_ ? std::nullopt : decided_until_; }

  // Meetings: barriers and broadcasts.

  /// The number of the next place, where this rank now waits.
  std::uint64_t arrive() {
    meets_ = true;
    return place_;
  }
  bool may_go_on() const { return !meets_; }
  std::string take_bytes() { return std::move(bytes_); }

  std::optional<failure> const& first() const { return first_; }
  bool is_asked() const { return is_asked_ && !first_; }
  bool has_hub() const { return presence_.front() == rank_presence::here; }
  std::vector<rank_presence> const& presence() const { return presence_; }
  bool is_alone() const {
    return std::ranges::all_of(
        presence_, [&](auto const& p) { return p != rank_presence::here || &p == &presence_[index(here_)]; });
  }

 private:
  void wait_for_decision(time_point until) {
    decided_until_ = (std::min)(until, decided_until_.value_or(until));
  }

  /// What was thrown here stays with the failure that it is.
  void learn(published_failure p) {
    if (first_) return;
    first_ = portable(p.what);
    if (p.by == here_ && proposed_) first_->cause = proposed_->what.cause;
  }
  /// Nobody is left who could ask the others.
  void blame_alone(rank_activity const& a) {
    std::vector<rank_activity> all;
    for (auto const p : presence_)
      all.push_back({p == rank_presence::here ? activity_kind::silent : activity_kind::gone});
    all[index(here_)] = a;
    learn({here_, failure_of(find_blame(all, here_), all, here_)});
  }
  void miss(std::string_view body) {
    board_reader r(body);
    auto const who = r.rank();
    auto const how = r.one_of(rank_presence::lost);
    r.end();
    if (index(who) >= presence_.size()) throw board_message_error("a rank that there is not");
    presence_[index(who)] = how;
  }
  void go_on(std::string_view body) {
    board_reader r(body);
    if (r.number<std::uint64_t>() != place_ || !meets_) throw board_message_error("a release from elsewhere");
    bytes_ = r.rest();
    meets_ = false;
    ++place_;
  }

  rank_id here_;
  std::vector<rank_presence> presence_;
  std::optional<failure> first_;
  std::optional<published_failure> proposed_;
  std::optional<time_point> decided_until_;
  std::uint64_t place_ = 0;
  std::string bytes_;
  bool meets_ = false, is_asked_ = false;
};

}  // namespace cleave::detail
