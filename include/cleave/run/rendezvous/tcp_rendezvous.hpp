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

namespace cleave {

struct tcp_rendezvous_options {
  /// Known to all ranks of the run and to nobody else; 16 bytes at least (`random_rendezvous_key()`). Who
  /// knows it belongs. A key serves one run.
  std::string key;
  std::chrono::milliseconds join_within{30'000};   ///< all ranks
  std::chrono::milliseconds answer_within{100};    ///< ranks that are asked what they do
  std::chrono::milliseconds decide_within{1'000};  ///< rank 0, which failure is the first, before ranks do
  std::chrono::milliseconds leave_within{1'000};   ///< the destructor
  std::size_t largest_broadcast = 1_MiB;           ///< the same at all ranks
};

}  // namespace cleave

namespace cleave::detail {

/// What ranks that begin to join now agree upon.
inline rendezvous_terms terms_of(tcp_rendezvous_options const& o, std::uint32_t ranks) {
  std::size_t const least = 2 * longest_detail + 4 * std::size_t{ranks};  // a failure, an activity
  return {ranks, o.key, (std::max)(o.largest_broadcast, least) + 64,
          std::chrono::steady_clock::now() + o.join_within};
}

/// What a rank knows of the run, from what rank 0 says; and how long it lets rank 0 take to say it. Without a
/// clock and without sockets.
class participant {
 public:
  using time_point = coordinator::time_point;

  participant(rank_id here, std::uint32_t ranks) : here_(here), presence_(ranks, rank_presence::here) {}

  /// \throws rendezvous_message_error where it is not what rank 0 may say.
  void take(rendezvous_message const& m) {
    switch (m.word) {
      case message_kind::failed:
        return learn(read_failed(m.body));
      case message_kind::absent:
        return miss(m.body);
      case message_kind::release:
        return go_on(m.body);
      case message_kind::asked:
        is_asked_ = true;
        return;
      case message_kind::leave:
        return lose_hub(rank_presence::left, failure_code::peer_lost, {});
      case message_kind::start:
      case message_kind::arrive:
      case message_kind::activity:
        break;
    }
    throw rendezvous_message_error("a message that rank 0 does not send");
  }

  /// What rank 0 is to be told of a failure here, unless it is too late for that.
  std::optional<rendezvous_message> propose(failure f, time_point decided_until) {
    if (first_ || proposed_) return std::nullopt;
    if (f.reporter == no_rank) f.reporter = here_;
    proposed_ = {here_, std::move(f)};
    if (!has_hub()) return learn(*proposed_), std::nullopt;
    wait_for_decision(decided_until);
    return failed_message({here_, portable(proposed_->what)});
  }
  /// What rank 0 is to be told of what this rank does.
  std::optional<rendezvous_message> report(rank_activity const& a, time_point decided_until) {
    is_asked_ = false;
    if (first_) return std::nullopt;
    if (!has_hub()) return culprit_alone(a), std::nullopt;
    wait_for_decision(decided_until);
    return activity_message(a);
  }
  /// The same, for one who was asked and has no deadline of its own.
  std::optional<rendezvous_message> answer(rank_activity const& a) {
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
  void culprit_alone(rank_activity const& a) {
    std::vector<rank_activity> all;
    for (auto const p : presence_)
      all.push_back({p == rank_presence::here ? activity_kind::silent : activity_kind::gone});
    all[index(here_)] = a;
    learn({here_, failure_of(find_culprit(all, here_), all, here_)});
  }
  void miss(std::string_view body) {
    message_reader r(body);
    auto const who = r.rank();
    auto const how = r.one_of(rank_presence::lost);
    r.end();
    if (index(who) >= presence_.size()) throw rendezvous_message_error("a rank that there is not");
    presence_[index(who)] = how;
  }
  void go_on(std::string_view body) {
    message_reader r(body);
    if (r.number<std::uint64_t>() != place_ || !meets_)
      throw rendezvous_message_error("a release from elsewhere");
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

/// The connections of a rank, those by rank to all others at rank 0, elsewhere the one to rank 0; and what
/// wakes the thread that waits for them. All but `wake` and `wait` wants a mutex.
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

  /// Without effect where the connection has ended. `send` begins to send it.
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

  /// From any thread: who waits goes on, or will not begin to wait.
  void wake() const noexcept {
    char const one = 0;
    [[maybe_unused]] auto const n = ::write(waker_.descriptor(), &one, 1);  // if it is full, it wakes anyway
  }
  /// What `wait` waits for.
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

/// Carries what ranks say: from this one to rank 0, what has arrived to whom it is for, and, at rank 0, what
/// that decides to all. It waits for nothing, and wants a mutex.
class mailbox {
 public:
  using time_point = coordinator::time_point;

  /// `member` and `links` must outlive it.
  mailbox(rank_id here, std::uint32_t ranks, std::chrono::nanoseconds answer_within, participant& member,
          rendezvous_links& links)
      : here_(here), member_(member), links_(links), hub_(ranks, answer_within) {}

  void tell_hub(rendezvous_message const& m) {
    if (is_hub())
      hub_.take(here_, m, std::chrono::steady_clock::now());
    else
      links_.put(rank_id{0}, m);
  }
  /// To all that this rank is connected to. What becomes of their connections is no failure from now on.
  void say_good_bye() {
    has_said_good_bye_ = true;
    links_.put_good_byes();
  }

  /// Delivers what rank 0 has decided, and sends what can be sent.
  void deliver() {
    for (auto& l : hub_.take_letters())
      if (l.to == here_)
        member_.take(l.what);
      else
        links_.put(l.to, l.what);
    links_.send();
  }
  /// Takes what has arrived, and notices who is lost.
  void collect() {
    links_.each_open([this](rendezvous_connection& c) { listen_to(c); });
  }

  /// Rank 0 decides what is to be decided by now.
  void pass(time_point now) { hub_.pass(now); }
  std::optional<time_point> due() const { return hub_.due(); }
  /// Nobody needs this rank any more, which only rank 0 can say of itself.
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
      throw rendezvous_message_error("a message of " + c.name() + " makes no sense: " + e.what());
    }
    if (m.word == message_kind::leave) c.finish();
  }
  void lose(rendezvous_connection& c, failure_code code, std::string const& why) {
    c.close();
    if (has_said_good_bye_) return;
    if (is_hub())
      hub_.lose(c.peer(), code, why);
    else
      member_.lose_hub(rank_presence::lost, code, why);
  }

  rank_id here_;
  participant& member_;
  rendezvous_links& links_;
  coordinator hub_;  // idle but at rank 0
  bool has_said_good_bye_ = false;
};

}  // namespace cleave::detail

namespace cleave {

/// The rendezvous of ranks that are processes, on one machine or on several: all are connected to rank 0,
/// which decides. Every member may be called from any thread, but `broadcast` and `barrier` by one at a time;
/// none from an `activity_source`.
///
/// A connection that ends without a good-bye is a lost rank, and a failure of all. A rank that stands still
/// keeps its connection; only who waits for it can notice (`report_waiting`). A process that forks hands its
/// connections on: as long as the child lives, the death of the parent is not seen.
class tcp_rendezvous {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// Rank 0. Returns once all have joined; then nobody listens any more. \throws run_error, error
  tcp_rendezvous(tcp_listener at, std::uint32_t ranks, tcp_rendezvous_options const& options)
      : tcp_rendezvous(rank_id{0}, ranks, options) {
    auto const terms = detail::terms_of(options_, ranks_);
    detail::join_listener reception(at, terms);
    links_.open(reception.admit_all());
    refused_ = reception.refused();
    start();
  }
  /// Any other rank; `at` is where rank 0 listens, or will before the deadline. Returns once all have joined.
  /// \throws run_error, error
  tcp_rendezvous(rank_id here, std::uint32_t ranks, network_address const& at,
                 tcp_rendezvous_options const& options)
      : tcp_rendezvous(here, ranks, options) {
    if (here == rank_id{0}) throw error("rank 0 joins no board; it listens");
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
    expects(index(root) < ranks_, "tcp_rendezvous: a root among the ranks");
    detail::barrier_arrival a{.root = root, .size = bytes.size()};
    if (bytes.size() > options_.largest_broadcast) refuse_broadcast(bytes.size());
    if (root == here_) a.bytes.assign(reinterpret_cast<char const*>(bytes.data()), bytes.size());
    auto const got = meet(std::move(a), until);
    if (root == here_) return;
    expects(got.size() == bytes.size(), "tcp_rendezvous: rank 0 lets only those meet who agree about the size");
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
  /// From now on the rendezvous's thread asks `source` instead, nobody where it is null. On return nobody
  /// asks the one before any more.
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

  /// The rendezvous's thread decides without rank 0 when it is time; it ends only where the rendezvous does.
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
      fail_here({failure_code::peer_lost, {}, "rank 0 has left, and all are waited for"});
    a.timeout = std::chrono::ceil<std::chrono::microseconds>(until - now);
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

  /// The rendezvous's thread. It ends the process where there is no memory, so that others miss this rank.
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
