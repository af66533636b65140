// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/rendezvous/activity_source.hpp"
#include "cleave/run/rendezvous/detail/coordinator.hpp"
#include "cleave/run/rendezvous/detail/join.hpp"
#include "cleave/run/rendezvous/protocol.hpp"
#include "cleave/run/rendezvous/tcp_socket.hpp"

namespace cleave::inline v0_2 {

/// Options of `tcp_rendezvous`, the same on all ranks.
struct tcp_rendezvous_options {
  /// Shared secret of the ranks of a run, at least 16 bytes (`random_rendezvous_key()`). Any process with the
  /// key can join. Use a key for one run only.
  std::string key;
  std::chrono::milliseconds join_within{30'000};  ///< time limit for all ranks to join
  std::chrono::milliseconds answer_within{100};   ///< time limit for ranks to report their activity
  /// Time limit for rank 0 to decide which failure is the first; ranks then decide alone.
  std::chrono::milliseconds decide_within{1'000};
  std::chrono::milliseconds leave_within{1'000};  ///< time limit of the destructor
  std::size_t largest_broadcast = 1_MiB;          ///< bytes
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the terms for joining, with a deadline that starts now.
inline rendezvous_terms terms_of(tcp_rendezvous_options const& o, std::uint32_t ranks) {
  std::size_t const least = 2 * longest_detail + 4 * std::size_t{ranks};  // size of a failure or an activity
  return {ranks, o.key, (std::max)(o.largest_broadcast, least) + 64,
          std::chrono::steady_clock::now() + o.join_within};
}

/// The state of one rank: its knowledge of the run from rank 0, and the deadline for decisions of rank 0. It
/// uses neither a clock nor sockets.
class participant {
 public:
  using time_point = coordinator::time_point;

  participant(rank_id here, std::uint32_t ranks) : here_(here), presence_(ranks, rank_presence::here) {}

  /// Processes a message from rank 0.
  /// \throws rendezvous_message_error if rank 0 may not send it
  void take(rendezvous_message const& m) {
    switch (m.word) {
      case message_kind::failed:
        return conclude(read_failed(m.body));
      case message_kind::absent:
        return miss(m.body);
      case message_kind::release:
        return go_on(m.body);
      case message_kind::asked:
        is_asked_ = true;
        return;
      case message_kind::leave:
        return on_hub_lost(rank_presence::left, failure_code::peer_lost, {});
      case message_kind::start:
      case message_kind::arrive:
      case message_kind::activity:
        break;
    }
    throw rendezvous_message_error("rank 0 may not send it");
  }

  /// Returns the message that reports a failure of this rank to rank 0, or nothing if a failure is already
  /// known.
  std::optional<rendezvous_message> propose(failure f, time_point decided_until) {
    if (first_ || proposed_) return std::nullopt;
    if (f.reporter == no_rank) f.reporter = here_;
    proposed_ = {here_, std::move(f)};
    if (!has_hub()) return conclude(*proposed_), std::nullopt;
    wait_for_decision(decided_until);
    return failed_message({here_, portable(proposed_->what)});
  }
  /// Returns the message that reports the activity of this rank to rank 0, after its deadline has passed.
  std::optional<rendezvous_message> report(rank_activity const& a, time_point decided_until) {
    is_asked_ = false;
    if (first_) return std::nullopt;
    if (!has_hub()) return culprit_alone(a), std::nullopt;
    wait_for_decision(decided_until);
    return activity_message(a);
  }
  /// Returns the message that answers a request of rank 0 for the activity of this rank, or nothing if there
  /// is no open request.
  std::optional<rendezvous_message> answer(rank_activity const& a) {
    if (!std::exchange(is_asked_, false) || first_) return std::nullopt;
    return activity_message(a);
  }

  /// Handles that rank 0 has left or is lost.
  void on_hub_lost(rank_presence how, failure_code code, std::string const& why) {
    if (!has_hub()) return;
    presence_.front() = how;
    if (how == rank_presence::left && proposed_) return conclude(*proposed_);
    if (how == rank_presence::left && !meets_) return;
    failure f{code, {}, how == rank_presence::left ? "rank 0 has left, but all ranks must take part" : why};
    f.culprit = rank_id{0};
    f.reporter = here_;
    conclude({here_, std::move(f)});
  }

  /// Decides without rank 0: the failure proposed here, or else `f`, is the first failure.
  void decide_alone(failure f) {
    f.reporter = here_;
    f.culprit = f.culprit == no_rank ? rank_id{0} : f.culprit;
    conclude(proposed_.value_or(published_failure{here_, std::move(f)}));
  }

  /// Decides alone if rank 0 has not decided in time.
  void pass(time_point now) {
    if (first_ || !decided_until_ || now < *decided_until_) return;
    decide_alone({failure_code::timeout,
                  {},
                  "asked which rank blocks the others, " + describe(rank_activity{}, rank_id{0})});
  }
  std::optional<time_point> due() const { return first_ ? std::nullopt : decided_until_; }

  // Barriers and broadcasts.

  /// Arrives at the next barrier or broadcast and returns its sequence number.
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

  /// Records the first failure. Keeps its exception if the failure is this rank's own.
  void conclude(published_failure p) {
    if (first_) return;
    first_ = portable(p.what);
    if (p.by == here_ && proposed_) first_->cause = proposed_->what.cause;
  }
  /// Finds the culprit without asking the others, since rank 0 is gone.
  void culprit_alone(rank_activity const& a) {
    std::vector<rank_activity> all;
    for (auto const p : presence_)
      all.push_back({p == rank_presence::here ? activity_kind::silent : activity_kind::gone});
    all[index(here_)] = a;
    conclude({here_, failure_of(find_culprit(all, here_), all, here_)});
  }
  void miss(std::string_view body) {
    message_reader r(body);
    auto const who = r.rank();
    auto const how = r.one_of(rank_presence::lost);
    r.end();
    if (index(who) >= presence_.size()) throw rendezvous_message_error("unknown rank");
    presence_[index(who)] = how;
  }
  void go_on(std::string_view body) {
    message_reader r(body);
    if (r.number<std::uint64_t>() != place_ || !meets_)
      throw rendezvous_message_error("release of another barrier");
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

/// The connections of a rank: at rank 0 one to each other rank, elsewhere one to rank 0. They include the
/// pipe that wakes the thread that waits for them. All members except `wake` and `wait` must be called under
/// a mutex.
class rendezvous_links {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// \throws socket_error
  rendezvous_links() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw socket_error("making a pipe", errno);
    woken_ = tcp_socket(ends[0]);
    waker_ = tcp_socket(ends[1]);
  }
  void open(std::vector<std::optional<rendezvous_connection>> to) { to_ = std::move(to); }

  /// Queues a message; `send` sends it. No effect if the connection has ended.
  void put(rank_id to, rendezvous_message const& m) {
    if (is_open(to_[index(to)])) to_[index(to)]->put(m);
  }
  void put_good_byes() {
    each_open([](rendezvous_connection& c) {
      c.put({message_kind::leave});
      c.finish();
    });
  }
  void send() {
    each_open([](rendezvous_connection& c) {
      if (c.has_to_send()) c.send();
    });
  }
  template <class F>
  void each_open(F f) {
    for (auto& c : to_)
      if (is_open(c)) f(*c);
  }
  bool are_closed() const { return std::ranges::none_of(to_, is_open); }

  /// Ends the current `wait`, or the next one at once. From any thread.
  void wake() const noexcept {
    char const one = 0;
    [[maybe_unused]] auto const n = ::write(waker_.descriptor(), &one, 1);  // a full pipe wakes as well
  }
  /// Returns the descriptors that `wait` polls.
  std::vector<pollfd> sources() const {
    std::vector<pollfd> all = {{woken_.descriptor(), POLLIN, 0}};
    for (auto const& c : to_)
      if (is_open(c))
        all.push_back(
            {c->socket().descriptor(), static_cast<short>(c->has_to_send() ? POLLIN | POLLOUT : POLLIN), 0});
    return all;
  }
  void wait(std::vector<pollfd> sources, time_point until) const {
    ::poll(sources.data(), sources.size(), milliseconds_until(until));
    std::array<char, 256> wakes;
    [[maybe_unused]] auto const n = ::read(woken_.descriptor(), wakes.data(), wakes.size());
  }

 private:
  static bool is_open(std::optional<rendezvous_connection> const& c) { return c && c->is_open(); }

  std::vector<std::optional<rendezvous_connection>> to_;
  tcp_socket woken_, waker_;
};

/// Routes messages: from this rank to rank 0, received messages to their receiver, and on rank 0 its
/// decisions to all ranks. Never blocks. Must be called under a mutex.
class mailbox {
 public:
  using time_point = coordinator::time_point;

  /// `member` and `links` must outlive it.
  mailbox(rank_id here, std::uint32_t ranks, std::chrono::nanoseconds answer_within, participant& member,
          rendezvous_links& links)
      : here_(here), member_(member), links_(links), hub_(ranks, answer_within) {}

  void send_to_hub(rendezvous_message const& m) {
    if (is_hub())
      hub_.take(here_, m, std::chrono::steady_clock::now());
    else
      links_.put(rank_id{0}, m);
  }
  /// Says good-bye to all connected ranks. Connections that end from now on are not failures.
  void say_good_bye() {
    has_said_good_bye_ = true;
    links_.put_good_byes();
  }

  /// Delivers the decisions of rank 0 and sends as much as possible.
  void deliver() {
    for (auto& l : hub_.take_letters())
      if (l.to == here_)
        member_.take(l.what);
      else
        links_.put(l.to, l.what);
    links_.send();
  }
  /// Reads what has arrived and detects lost ranks.
  void collect() {
    links_.each_open([this](rendezvous_connection& c) { listen_to(c); });
  }

  /// Makes the decisions whose deadline has passed. Only on rank 0.
  void pass(time_point now) { hub_.pass(now); }
  std::optional<time_point> due() const { return hub_.due(); }
  /// Returns true if no other rank needs this one. Only rank 0 is needed by others.
  bool is_done() const { return !is_hub() || hub_.is_alone(); }

 private:
  bool is_hub() const { return here_ == rank_id{0}; }

  void listen_to(rendezvous_connection& c) {
    bool const open = c.receive();
    try {
      while (auto const m = c.next()) take(c, *m);
      if (open) return;
      lose(c, failure_code::peer_lost, "the connection to " + c.name() + " has ended");
    } catch (rendezvous_message_error const& e) {
      lose(c, failure_code::transport, e.what());
    }
  }
  void take(rendezvous_connection& c, rendezvous_message const& m) {
    try {
      if (is_hub())
        hub_.take(c.peer(), m, std::chrono::steady_clock::now());
      else
        member_.take(m);
    } catch (rendezvous_message_error const& e) {
      throw rendezvous_message_error("a message of " + c.name() + " is invalid: " + e.what());
    }
    if (m.word == message_kind::leave) c.finish();
  }
  void lose(rendezvous_connection& c, failure_code code, std::string const& why) {
    c.close();
    if (has_said_good_bye_) return;
    if (is_hub())
      hub_.lose(c.peer(), code, why);
    else
      member_.on_hub_lost(rank_presence::lost, code, why);
  }

  rank_id here_;
  participant& member_;
  rendezvous_links& links_;
  coordinator hub_;  // used on rank 0 only
  bool has_said_good_bye_ = false;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The rendezvous of ranks that are processes, on one or several hosts. All ranks are connected to rank 0,
/// which makes all decisions. Members are thread-safe, except that only one thread at a time may call
/// `broadcast` and `barrier`. An `activity_source` must not call any member.
///
/// A connection that ends without a good-bye means a lost rank and fails the run on all ranks. A hung rank
/// keeps its connection, so only a rank that waits for it can detect it (`report_waiting`). Forked children
/// inherit the connections: the death of the parent is not detected while a child lives.
class tcp_rendezvous {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Makes the rendezvous on rank 0. Blocks until all ranks have joined, and then stops accepting
  /// connections.
  /// \throws run_error if a rank is missing or lost; error for invalid arguments
  tcp_rendezvous(tcp_listener at, std::uint32_t ranks, tcp_rendezvous_options const& options)
      : tcp_rendezvous(rank_id{0}, ranks, options) {
    auto const terms = detail::terms_of(options_, ranks_);
    detail::join_listener reception(at, terms);
    links_.open(reception.admit_all());
    refused_ = reception.refused();
    start();
  }
  /// Makes the rendezvous on any other rank. `at` is the address at which rank 0 listens now or before the
  /// deadline. Blocks until all ranks have joined.
  /// \throws run_error if rank 0 is not reached or refuses; error for invalid arguments and unknown hosts
  tcp_rendezvous(rank_id here, std::uint32_t ranks, network_address const& at,
                 tcp_rendezvous_options const& options)
      : tcp_rendezvous(here, ranks, std::span(&at, 1), options) {}
  /// Joins a rank 0 that has several addresses; only one of them has to be reachable from here. They are
  /// tried in order, numeric ones before names. Otherwise as above.
  tcp_rendezvous(rank_id here, std::uint32_t ranks, std::span<network_address const> at,
                 tcp_rendezvous_options const& options)
      : tcp_rendezvous(here, ranks, options) {
    if (here == rank_id{0}) throw error("rank 0 cannot join a rendezvous; construct it with a tcp_listener");
    if (at.empty()) throw error("a rank cannot join a rendezvous without an address of rank 0");
    auto const terms = detail::terms_of(options_, ranks_);
    std::vector<std::optional<detail::rendezvous_connection>> link;
    link.emplace_back(detail::rendezvous_joiner(here, at, terms).join());
    links_.open(std::move(link));
    start();
  }
  tcp_rendezvous(tcp_rendezvous const&) = delete;
  tcp_rendezvous& operator=(tcp_rendezvous const&) = delete;
  ~tcp_rendezvous() { leave(std::chrono::steady_clock::now() + options_.leave_within); }

  rank_id rank() const { return here_; }
  std::uint32_t size() const { return ranks_; }
  /// Returns the latest few connections that rank 0 refused during joining, with the reasons.
  std::vector<std::string> const& refused() const { return refused_; }

  /// Publishes a failure. Rank 0 decides which failure of all ranks is the first. Returns after its decision,
  /// or after `decide_within` without one. From then on `poll` returns the first failure.
  void publish(failure const& f) noexcept {
    auto const propose = [this](failure const& what) {
      return change([&] { return member_.propose(what, from_now(options_.decide_within)); });
    };
    // Without memory for the strings, at least the place is sent.
    if (propose(f) || propose({f.code, f.at, {}, f.cause, f.reporter, f.culprit})) wait_for_decision();
  }
  std::optional<failure> poll() const {
    if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard lock(mutex_);
    return member_.first();
  }
  /// Waits until the run has failed or all other ranks have left, at most until `until`. Returns true if one
  /// of the two has happened.
  bool wait_until(time_point until) const {
    std::unique_lock lock(mutex_);
    return news_.wait_until(lock, until, [&] { return member_.first() || member_.is_alone(); });
  }
  /// Returns the ranks that have neither left nor been lost, as known here.
  std::vector<rank_id> alive() const { return ranks_that_are(detail::rank_presence::here); }
  /// Returns the ranks whose connection ended before they left, as known here.
  std::vector<rank_id> lost() const { return ranks_that_are(detail::rank_presence::lost); }

  /// Copies the bytes of rank `root` to all ranks, and returns when all ranks have called it. `bytes` has the
  /// same size on all ranks.
  /// \throws run_error and fails the run if a rank is lost, has left, is late, or calls another broadcast or
  ///   barrier
  void broadcast(std::span<std::byte> bytes, rank_id root, time_point until) {
    expects(index(root) < ranks_, "tcp_rendezvous: a root among the ranks");
    detail::barrier_arrival a{.root = root, .size = bytes.size()};
    if (bytes.size() > options_.largest_broadcast) refuse_broadcast(bytes.size());
    if (root == here_) a.bytes.assign(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    auto const got = meet(std::move(a), until);
    if (root == here_) return;
    expects(got.size() == bytes.size(),
            "tcp_rendezvous: rank 0 lets only those meet who agree about the size");
    if (!got.empty()) std::memcpy(bytes.data(), got.data(), got.size());
  }
  /// Returns when all ranks have called it.
  /// \throws run_error as `broadcast`
  void barrier(time_point until) { meet({}, until); }

  /// Reports that the deadline of this rank has passed. All ranks are asked for their activity. Within
  /// `answer_within` the run fails with a timeout that names the rank that blocks the others.
  void report_waiting(detail::rank_activity const& a) noexcept {
    change([&] { return member_.report(a, from_now(options_.answer_within + options_.decide_within)); });
  }
  /// Returns true if this rank was asked for its activity and has not reported it yet. Never waits.
  bool is_asked() const noexcept { return asked_.load(std::memory_order_acquire); }
  /// Lets the rendezvous's thread ask `source` for the activity of this rank; null means none. On return the
  /// previous source is no longer being called.
  void answer_with(activity_source const* source) {
    source_.change_to(source);
    links_.wake();
  }

  /// Leaves the run: after this the end of the connection is not a failure. Rank 0 first waits until all
  /// others have left or the run has failed, since they need it. Returns at `until` or soon after. Afterwards
  /// only `poll`, `alive`, `lost` and `wait_until` may be called, and the destructor does nothing.
  void leave(time_point until) noexcept {
    if (!thread_.joinable()) return;
    {
      std::unique_lock lock(mutex_);
      news_.wait_until(lock, until, [&] { return member_.first() || post_.is_done(); });
      say_good_bye();
      // long enough for an answer; no other rank needs this one any more
      auto const soon = from_now(std::chrono::milliseconds(100));
      news_.wait_until(lock, member_.first() ? soon : (std::max)(soon, until),
                       [&] { return links_.are_closed(); });
      stopped_ = true;
    }
    news_.notify_all();
    links_.wake();
    thread_.join();
  }

 private:
  tcp_rendezvous(rank_id here, std::uint32_t ranks, tcp_rendezvous_options const& options)
      : options_(options),
        here_(here),
        ranks_(ranks),
        member_(here, ranks),
        post_(here, ranks, options.answer_within, member_, links_) {
    if (index(here) >= ranks)
      throw error("there is no rank " + std::to_string(index(here)) + " of " + std::to_string(ranks));
    if (auto const fault = detail::find_key_fault(options.key)) throw error(*fault);
  }
  std::vector<rank_id> ranks_that_are(detail::rank_presence how) const {
    std::lock_guard lock(mutex_);
    std::vector<rank_id> found;
    for (std::uint32_t r = 0; r < ranks_; ++r)
      if (member_.presence()[r] == how) found.push_back(rank_id{r});
    return found;
  }
  static time_point from_now(std::chrono::milliseconds d) { return std::chrono::steady_clock::now() + d; }

  void start() {
    thread_ = std::thread([this] { serve(); });
  }

  /// Applies a change to the state of this rank and sends the resulting message to rank 0. Returns false if
  /// memory ran out.
  template <class Change>
  bool change(Change act) noexcept {
    std::lock_guard lock(mutex_);
    try {
      if (auto m = act()) post_.send_to_hub(*m);
      settle();
      links_.wake();  // there may be a new deadline
      return true;
    } catch (...) {
      return false;
    }
  }

  /// Waits for the decision. The rendezvous's thread makes it without rank 0 when the deadline passes.
  void wait_for_decision() const noexcept {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return member_.first() || stopped_; });
  }

  std::string meet(detail::barrier_arrival a, time_point until) {
    std::unique_lock lock(mutex_);
    auto const now = std::chrono::steady_clock::now();
    until = std::clamp(until, now, now + std::chrono::hours(24 * 365));
    if (member_.first()) detail::raise(*member_.first());
    if (!member_.has_hub())
      fail_here({failure_code::peer_lost, {}, "rank 0 has left, but all ranks must take part"});
    a.timeout = std::chrono::ceil<std::chrono::microseconds>(until - now);
    a.number = member_.arrive();
    post_.send_to_hub(detail::arrive_message(a));
    settle();
    links_.wake();
    news_.wait_until(lock, until + options_.decide_within,
                     [&] { return member_.may_go_on() || member_.first(); });
    if (!member_.may_go_on()) fail_here({failure_code::timeout, {}, "rank 0 does not answer"});
    return member_.take_bytes();
  }
  [[noreturn]] void refuse_broadcast(std::size_t size) {
    failure f{failure_code::mismatch, {}, {}, {}, here_, here_};
    f.detail = "a broadcast of " + std::to_string(size) + " bytes, but the rendezvous carries " +
               std::to_string(options_.largest_broadcast) + " at most";
    publish(f);
    std::lock_guard lock(mutex_);
    fail_here(std::move(f));
  }

  // All functions below are called under the mutex.

  /// Throws the first failure, which is `f` if rank 0 has not decided.
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
      return;  // out of memory: the other ranks see the connection end
    }
  }

  /// Delivers pending messages, publishes the state and wakes all waiting threads.
  void settle() {
    post_.deliver();
    failed_.store(member_.first().has_value(), std::memory_order_release);
    asked_.store(member_.is_asked(), std::memory_order_release);
    news_.notify_all();
  }

  /// The rendezvous's thread. If memory runs out, it terminates the process, and the other ranks detect that.
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
    if (auto m = member_.answer(*a)) post_.send_to_hub(*m);
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

  tcp_rendezvous_options options_;
  rank_id here_;
  std::uint32_t ranks_;
  std::vector<std::string> refused_;

  mutable std::mutex mutex_;
  mutable std::condition_variable news_;
  detail::participant member_;
  detail::rendezvous_links links_;
  detail::mailbox post_;
  bool stopped_ = false;
  std::atomic<bool> failed_ = false, asked_ = false;

  detail::asked_source source_;
  std::thread thread_;
};

static_assert(collective_rendezvous<tcp_rendezvous>);
}  // namespace cleave
