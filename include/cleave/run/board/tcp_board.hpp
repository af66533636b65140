// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/run/board/activity_source.hpp"
#include "cleave/run/board/board_join.hpp"
#include "cleave/run/board/board_links.hpp"
#include "cleave/run/board/board_member.hpp"
#include "cleave/run/board/board_post.hpp"
#include "cleave/run/board/tcp_board_options.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave {

/// The board of ranks that are processes, on one machine or on several: all are connected to rank 0, which
/// decides. Every member may be called from any thread, but `broadcast` and `barrier` by one at a time; none
/// from an `activity_source`.
///
/// A connection that ends without a good-bye is a lost rank, and a failure of all. A rank that stands still
/// keeps its connection; only who waits for it can notice (`report_waiting`). A process that forks hands its
/// connections on: as long as the child lives, the death of the parent is not seen.
class tcp_board {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Rank 0. Returns once all have joined; then nobody listens any more. \throws run_error, error
  tcp_board(tcp_listener at, std::uint32_t ranks, tcp_board_options const& options)
      : tcp_board(rank_id{0}, ranks, options) {
    auto const terms = detail::terms_of(options_, ranks_);
    detail::board_reception reception(at, terms);
    links_.open(reception.admit_all());
    refused_ = reception.refused();
    start();
  }
  /// Any other rank; `at` is where rank 0 listens, or will before the deadline. Returns once all have joined.
  /// \throws run_error, error
  tcp_board(rank_id here, std::uint32_t ranks, network_address const& at, tcp_board_options const& options)
      : tcp_board(here, ranks, options) {
    if (here == rank_id{0}) throw error("rank 0 joins no board; it listens");
    auto const terms = detail::terms_of(options_, ranks_);
    std::vector<std::optional<detail::board_connection>> link;
    link.emplace_back(detail::board_joiner(here, at, terms).join());
    links_.open(std::move(link));
    start();
  }
  tcp_board(tcp_board const&) = delete;
  tcp_board& operator=(tcp_board const&) = delete;
  ~tcp_board() { leave(std::chrono::steady_clock::now() + options_.leave_within); }

  rank_id rank() const { return here_; }
  std::uint32_t size() const { return ranks_; }
  /// Who was sent away from rank 0 while ranks joined, and why; the latest few.
  std::vector<std::string> const& refused() const { return refused_; }

  /// The first one of all ranks wins, as rank 0 decides. Returns when it has, which takes its answer, or
  /// after `decide_within` without one; from then on `poll` knows the first.
  void publish(failure const& f) noexcept {
    auto const propose = [this](failure const& what) {
      return change([&] { return member_.propose(what, from_now(options_.decide_within)); });
    };
    // Without memory for the words the place matters more.
    if (propose(f) || propose({f.code, f.at, {}, f.cause, f.reporter, f.culprit})) wait_for_decision();
  }
  std::optional<failure> poll() const {
    if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard lock(mutex_);
    return member_.first();
  }
  /// Waits until the run has failed or all others have left, but not beyond `until`; whether that is so.
  bool wait_until(time_point until) const {
    std::unique_lock lock(mutex_);
    return news_.wait_until(lock, until, [&] { return member_.first() || member_.is_alone(); });
  }
  /// The ranks that have neither left nor been lost, as far as it is known here.
  std::vector<rank_id> alive() const {
    std::lock_guard lock(mutex_);
    std::vector<rank_id> found;
    for (std::uint32_t r = 0; r < ranks_; ++r)
      if (member_.presence()[r] == detail::rank_presence::here) found.push_back(rank_id{r});
    return found;
  }

  /// The bytes of rank `root` to all; returns when all ranks have come. \throws run_error where a rank is
  /// lost, has left, comes too late, or is at another broadcast or barrier, which fails the run.
  void broadcast(std::span<std::byte> bytes, rank_id root, time_point until) {
    expects(index(root) < ranks_, "tcp_board: a root among the ranks");
    detail::board_arrival a{.root = root, .size = bytes.size()};
    if (bytes.size() > options_.largest_broadcast) refuse_broadcast(bytes.size());
    if (root == here_) a.bytes.assign(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    auto const got = meet(std::move(a), until);
    if (root == here_) return;
    expects(got.size() == bytes.size(), "tcp_board: rank 0 lets only those meet who agree about the size");
    if (!got.empty()) std::memcpy(bytes.data(), got.data(), got.size());
  }
  /// Returns when all ranks have come. \throws run_error as `broadcast`.
  void barrier(time_point until) { meet({}, until); }

  /// The deadline of this rank has passed. All are asked what they do, and within `answer_within` the run
  /// fails with a timeout that says who keeps the others waiting.
  void report_waiting(detail::rank_activity const& a) noexcept {
    change([&] { return member_.report(a, from_now(options_.answer_within + options_.decide_within)); });
  }
  /// Whether somebody has asked what this rank does, and it has not been reported since. Never waits.
  bool is_asked() const noexcept { return asked_.load(std::memory_order_acquire); }
  /// From now on the board's thread asks `source` instead, nobody where it is null. On return nobody asks the
  /// one before any more.
  void answer_with(activity_source const* source) {
    source_.change_to(source);
    links_.wake();
  }

  /// Says good-bye, after which this rank is missed by nobody. Rank 0 first waits until all others have left
  /// or the run has failed, since they need it. Returns before `until`, or soon after. Nothing but `poll`,
  /// `alive` and `wait_until` may be called afterwards, and the destructor does nothing more.
  void leave(time_point until) noexcept {
    if (!thread_.joinable()) return;
    {
      std::unique_lock lock(mutex_);
      news_.wait_until(lock, until, [&] { return member_.first() || post_.is_done(); });
      say_good_bye();
      auto const soon = from_now(
          std::chrono::milliseconds(100));  // enough for an answer, and nobody needs this rank any more
      news_.wait_until(lock, member_.first() ? soon : (std::max)(soon, until),
                       [&] { return links_.are_closed(); });
      stopped_ = true;
    }
    news_.notify_all();
    links_.wake();
    thread_.join();
  }

 private:
  tcp_board(rank_id here, std::uint32_t ranks, tcp_board_options const& options)
      : options_(options),
        here_(here),
        ranks_(ranks),
        member_(here, ranks),
        post_(here, ranks, options.answer_within, member_, links_) {
    if (index(here) >= ranks)
      throw error("there is no rank " + std::to_string(index(here)) + " of " + std::to_string(ranks));
    if (auto const fault = detail::find_key_fault(options.key)) throw error(*fault);
  }
  static time_point from_now(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

  void start() {
    thread_ = std::thread([this] { serve(); });
  }

  /// Changes what this rank knows, and tells rank 0 what it is to be told of that; whether there was memory.
  template <class Change>
  bool change(Change act) noexcept {
    std::lock_guard lock(mutex_);
    try {
      if (auto m = act()) post_.tell_hub(*m);
      settle();
      links_.wake();  // for there may be a deadline now
      return true;
    } catch (...) {
      return false;
    }
  }

  /// The board's thread decides without rank 0 when it is time; it ends only where the board does.
  void wait_for_decision() const noexcept {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return member_.first() || stopped_; });
  }

  std::string meet(detail::board_arrival a, time_point until) {
    std::unique_lock lock(mutex_);
    auto const now = std::chrono::steady_clock::now();
    until = std::clamp(until, now, now + std::chrono::hours(24 * 365));
    if (member_.first()) detail::raise(*member_.first());
    if (!member_.has_hub())
      fail_here({failure_code::peer_lost, {}, "rank 0 has left, and all are waited for"});
    a.patience = std::chrono::ceil<std::chrono::microseconds>(until - now);
    a.number = member_.arrive();
    post_.tell_hub(detail::arrive_message(a));
    settle();
    links_.wake();
    news_.wait_until(lock, until + options_.decide_within,
                     [&] { return member_.may_go_on() || member_.first(); });
    if (!member_.may_go_on()) fail_here({failure_code::timeout, {}, "rank 0 gives no answer"});
    return member_.take_bytes();
  }
  [[noreturn]] void refuse_broadcast(std::size_t size) {
    failure f{failure_code::mismatch, {}, {}, {}, here_, here_};
    f.detail = "a broadcast of " + std::to_string(size) + " bytes, and the board carries " +
               std::to_string(options_.largest_broadcast) + " at most";
    publish(f);
    std::lock_guard lock(mutex_);
    fail_here(std::move(f));
  }

  // From here on, whoever calls has the mutex.

  /// Reports the first failure, which is `f` where rank 0 has not decided.
  [[noreturn]] void fail_here(failure f) {
    if (!member_.first()) member_.decide_alone(std::move(f));
    settle();
    detail::raise(*member_.first());
  }
  void say_good_bye() noexcept {
    try {
      post_.say_good_bye();
      settle();
    } catch (...) {
      return;  // no memory: the end of the connection must do
    }
  }

  /// Delivers what there is to deliver, and tells all who wait here.
  void settle() {
    post_.deliver();
    failed_.store(member_.first().has_value(), std::memory_order_release);
    asked_.store(member_.is_asked(), std::memory_order_release);
    news_.notify_all();
  }

  /// The board's thread. It ends the process where there is no memory, so that others miss this rank.
  void serve() noexcept {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      answer_if_asked(lock);
      wait_for_news(lock);
      auto const now = std::chrono::steady_clock::now();
      post_.collect();
      post_.pass(now);
      member_.pass(now);
      settle();
    }
  }

  void answer_if_asked(std::unique_lock<std::mutex>& lock) {
    if (!member_.is_asked()) return;
    lock.unlock();
    auto const a = source_.activity();
    lock.lock();
    if (!a) return;
    if (auto m = member_.answer(*a)) post_.tell_hub(*m);
    settle();
  }

  void wait_for_news(std::unique_lock<std::mutex>& lock) {
    auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (auto const& due : {post_.due(), member_.due()})
      if (due) until = (std::min)(until, *due);
    auto sources = links_.sources();
    lock.unlock();
    links_.wait(std::move(sources), until);
    lock.lock();
  }

  tcp_board_options options_;
  rank_id here_;
  std::uint32_t ranks_;
  std::vector<std::string> refused_;

  mutable std::mutex mutex_;
  mutable std::condition_variable news_;
  detail::board_member member_;
  detail::board_links links_;
  detail::board_post post_;
  bool stopped_ = false;
  std::atomic<bool> failed_ = false, asked_ = false;

  detail::asked_source source_;
  std::thread thread_;
};

static_assert(meeting_board<tcp_board>);
}  // namespace cleave
