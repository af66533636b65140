// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/rendezvous/network_address.hpp"
#include "cleave/run/rendezvous/protocol.hpp"
#include "cleave/run/rendezvous/tcp_socket.hpp"

/// Connection set-up between rank 0 and the other ranks.
namespace cleave::inline v0_2::detail {

/// The terms that all ranks of a rendezvous share.
struct rendezvous_terms {
  std::uint32_t ranks;
  std::string key;
  std::size_t largest;  ///< maximum size of a message body, in bytes
  std::chrono::steady_clock::time_point join_until;
};

/// Extra time that a connected rank waits after its own deadline, so that the explanation of rank 0 can
/// arrive.
inline constexpr std::chrono::milliseconds final_message_of_rank_0{250};

/// Rank 0's side: admits ranks that have the key, and refuses all other connections without waiting for them.
class join_listener {
 public:
  join_listener(tcp_listener const& listener, rendezvous_terms const& terms)
      : listener_(&listener), terms_(&terms), joined_(terms.ranks) {}

  /// Waits for all ranks to join and returns their connections by rank; rank 0 itself has none. If a rank is
  /// late or lost, notifies all joined ranks. A loss is reported only after all others have joined.
  /// \throws run_error if a rank is late or lost
  std::vector<std::optional<rendezvous_connection>> admit_all() {
    while (!missing().empty()) {
      if (std::chrono::steady_clock::now() >= terms_->join_until) fail(lost_.value_or(too_late()));
      wait_for_news();
      accept_newcomers();
      for (auto& n : newcomers_) listen_to(n);
      std::erase_if(newcomers_, [](newcomer const& n) { return !n.socket.is_open(); });
      for (auto& c : joined_)
        if (c && c->is_open() && !c->receive()) lose(*c);
    }
    if (lost_) fail(*lost_);
    for (auto& c : joined_)
      if (c) c->put({message_kind::start}), c->send();
    return std::move(joined_);
  }

  /// Returns the latest refused connections, with the reasons.
  std::vector<std::string> const& refused() const { return refused_; }

 private:
  struct newcomer {
    tcp_socket socket;
    network_address from;
    std::string greeting, hello;
    std::chrono::steady_clock::time_point until;
  };
  static constexpr std::size_t most_refused = 8, most_strangers = 256;
  static constexpr std::size_t most_at_once = 16;    // connections accepted between looks at the others
  static constexpr std::chrono::seconds timeout{2};  // limit for a new connection to identify itself

  std::vector<rank_id> missing() const {
    std::vector<rank_id> found;
    for (std::uint32_t r = 1; r < joined_.size(); ++r)
      if (!joined_[r]) found.push_back(rank_id{r});
    return found;
  }

  void wait_for_news() const {
    std::vector<pollfd> sources = {{listener_->socket().descriptor(), POLLIN, 0}};
    auto until = terms_->join_until;
    for (auto const& n : newcomers_) {
      sources.push_back({n.socket.descriptor(), POLLIN, 0});
      until = (std::min)(until, n.until);
    }
    for (auto const& c : joined_)
      if (c && c->is_open()) sources.push_back({c->socket().descriptor(), POLLIN, 0});
    ::poll(sources.data(), sources.size(), milliseconds_until(until));
  }

  /// Accepts a few connections, so that a flood of them delays neither the deadline nor those that are here.
  void accept_newcomers() {
    for (std::size_t accepted = 0; accepted < most_at_once; ++accepted) {
      auto s = listener_->accept();
      if (!s) return;
      newcomer n{std::move(*s), {}, make_greeting(random_bytes(nonce_size)), {}, {}};
      n.from = remote_address(n.socket);
      n.until = std::chrono::steady_clock::now() + timeout;
      if (newcomers_.size() >= terms_->ranks + most_strangers) {
        auto const evicted = oldest_of_the_busiest_host();
        refuse(*evicted, "it sent nothing, and its place was needed for newer connections");
        newcomers_.erase(evicted);
      }
      send_some(n.socket, n.greeting);  // fits into the send buffer of a new connection
      newcomers_.push_back(std::move(n));
    }
  }

  /// Returns the oldest newcomer of the host that has most of them. Precondition: there are newcomers.
  std::vector<newcomer>::iterator oldest_of_the_busiest_host() {
    std::vector<std::string_view> hosts;
    for (auto const& n : newcomers_) hosts.emplace_back(n.from.host);
    std::ranges::sort(hosts);
    std::string_view busiest;
    std::ptrdiff_t most = 0;
    for (auto at = hosts.begin(); at != hosts.end();) {
      auto const next = std::ranges::upper_bound(at, hosts.end(), *at);
      if (next - at > most) busiest = *at, most = next - at;
      at = next;
    }
    return std::ranges::find_if(newcomers_, [&](newcomer const& n) { return n.from.host == busiest; });
  }

  void listen_to(newcomer& n) {
    std::array<char, hello_size> bytes;
    auto const moved = receive_some(n.socket, std::span(bytes).first(hello_size - n.hello.size()));
    n.hello.append(bytes.data(), moved.count);
    if (n.hello.size() == hello_size) return judge(n);
    if (moved.ended) return refuse(n, "it disconnected before it identified itself");
    if (std::chrono::steady_clock::now() >= n.until) refuse(n, "it did not identify itself in time");
  }

  void judge(newcomer& n) {
    auto const version = find_version(n.hello);
    if (!version) return refuse(n, "it did not send a valid hello");
    if (*version != rendezvous_version)
      return refuse(n, "it has version " + std::to_string(*version) +
                           " of the rendezvous protocol, rank 0 has version " +
                           std::to_string(rendezvous_version));
    bool const authentic = is_authentic(terms_->key, n.greeting, n.hello);
    auto const hello = read_hello(n.hello);
    auto const why = authentic ? find_objection(hello) : "its key is different";
    auto const before = n.greeting + n.hello;
    send_some(n.socket, make_verdict(terms_->key, before, why.value_or("")));
    if (why) return refuse(n, *why, authentic ? std::optional(hello.rank) : std::nullopt);
    joined_[index(hello.rank)].emplace(std::move(n.socket), hello.rank,
                                       make_rendezvous_keys(terms_->key, before, rank_id{0}),
                                       terms_->largest);
  }

  /// Returns why a rank with the right key cannot join, or nothing.
  std::optional<std::string> find_objection(join_request const& h) const {
    auto const r = index(h.rank);
    if (h.ranks != terms_->ranks)
      return "it expects " + std::to_string(h.ranks) + " ranks, rank 0 expects " +
             std::to_string(terms_->ranks);
    if (r == 0) return "it claims to be rank 0, which is the listening rank";
    if (r >= terms_->ranks)
      return "it claims to be rank " + std::to_string(r) + " of " + std::to_string(terms_->ranks);
    if (joined_[r]) return joined_[r]->name() + " has joined already";
    return std::nullopt;
  }

  void refuse(newcomer& n, std::string const& why, std::optional<rank_id> known = {}) {
    if (refused_.size() == most_refused) refused_.erase(refused_.begin());
    refused_.push_back((known ? name_of(*known, n.from) : name_of(n.from)) + " was refused: " + why);
    n.socket.close();
  }

  void lose(rendezvous_connection& c) {
    c.close();
    if (lost_) return;
    lost_ = {failure_code::peer_lost, {}, c.name() + " disconnected before all ranks had joined"};
    lost_->culprit = c.peer();
  }
  failure too_late() const {
    auto const absent = missing();
    failure f{failure_code::timeout, {}, {}};
    f.detail = "only " + std::to_string(joined_.size() - absent.size()) + " of " +
               std::to_string(joined_.size()) + " ranks joined before the deadline: " + are_missing(absent);
    for (auto const& r : refused_) f.detail += "; " + r;
    if (absent.size() == 1) f.culprit = absent.front();
    return f;
  }
  [[noreturn]] void fail(failure f) {
    f.reporter = rank_id{0};
    f.operation = "join";
    f = portable(std::move(f));
    for (auto& c : joined_)
      if (c && c->is_open()) c->put(failed_message({rank_id{0}, f})), c->finish(), c->send();
    throw run_error(f);
  }

  tcp_listener const* listener_;
  rendezvous_terms const* terms_;
  std::vector<std::optional<rendezvous_connection>> joined_;
  std::vector<newcomer> newcomers_;
  std::vector<std::string> refused_;
  std::optional<failure> lost_;
};

/// The side of a rank other than 0: connects to rank 0.
class rendezvous_joiner {
 public:
  /// `at` are addresses of rank 0, at least one.
  rendezvous_joiner(rank_id here, std::span<network_address const> at, rendezvous_terms const& terms)
      : here_(here), terms_(&terms) {
    for (auto const& a : at) candidates_.push_back({a, look_up_host(a, AI_NUMERICHOST).found});
  }

  /// Returns the connection to rank 0, once all ranks have joined. Names are looked up after the numeric
  /// addresses have failed. Retries what does not answer, because it may still be starting.
  /// \throws run_error if rank 0 is not reached, refuses, or does not start in time; error if its name is not
  /// known
  rendezvous_connection join() {
    for (;;) {
      auto const began = std::chrono::steady_clock::now();
      auto const until = (std::min)(began + std::chrono::seconds(2), terms_->join_until);
      for (std::size_t i = 0; i < candidates_.size(); ++i) {
        at_ = candidates_[i].name;
        auto const now = std::chrono::steady_clock::now();
        auto const share = (until - now) / static_cast<std::int64_t>(candidates_.size() - i);
        // A listener that is not rank 0 may accept and be silent.
        answer_until_ = candidates_.size() == 1
                            ? terms_->join_until
                            : (std::min)(now + std::chrono::seconds(2), terms_->join_until);
        if (auto s = try_connect(candidates_[i].numbers, now + share))
          if (auto c = shake_hands(std::move(*s))) return wait_for_start(std::move(*c));
      }
      look_up_names();
      if (std::chrono::steady_clock::now() >= terms_->join_until) give_up();
      std::this_thread::sleep_until((std::min)(began + std::chrono::milliseconds(10), terms_->join_until));
    }
  }

 private:
  [[noreturn]] void fail(failure_code code, std::string detail) const {
    failure f{code, {}, std::move(detail)};
    f.reporter = here_;
    f.culprit = rank_id{0};
    f.operation = "join";
    throw run_error(portable(std::move(f)));
  }

  [[noreturn]] void give_up() const {
    std::string all;
    for (auto const& c : candidates_) all += (all.empty() ? "" : ", ") + cleave::name_of(c.name);
    fail(failure_code::timeout, "rank 0 (" + all + ") was not reached before the deadline: " + last_);
  }

  /// Ends the attempt with a listener that is not rank 0. If it has no other address, fails.
  std::nullopt_t pass_over(std::string const& why) {
    if (candidates_.size() == 1) fail(failure_code::transport, why);
    last_ = why;
    return std::nullopt;
  }

  /// Looks up the names that are not known yet, at most once in half a second.
  void look_up_names() {
    if (std::chrono::steady_clock::now() < look_up_from_) return;
    for (auto& c : candidates_) {
      if (!c.numbers.empty()) continue;
      auto made = look_up_host_until(c.name, terms_->join_until);
      if (made && made->code == 0) {
        c.numbers = std::move(made->found);
        continue;
      }
      if (made)
        last_ = describe_unknown_host(c.name.host, made->code);
      else
        last_ = "the system has not found the host " + c.name.host + " in time";
      // Another attempt may succeed if the name server did not answer, or another address may be reached.
      if (made && made->code != EAI_AGAIN && candidates_.size() == 1) throw error(last_);
    }
    look_up_from_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  }

  /// Returns `count` bytes, or nothing if the connection ends or the deadline passes first.
  std::optional<std::string> read(tcp_socket const& s, std::size_t count) const {
    std::string bytes(count, '\0');
    for (std::size_t done = 0; done < count;) {
      if (!wait_for_socket(s, POLLIN, answer_until_)) return std::nullopt;
      auto const moved = receive_some(s, std::span(bytes).subspan(done));
      if (moved.ended) return std::nullopt;
      done += moved.count;
    }
    return bytes;
  }

  /// Performs the handshake and returns the connection. Returns nothing if the other end disconnects or sends
  /// nothing; another attempt may then reach rank 0.
  std::optional<rendezvous_connection> shake_hands(tcp_socket s) {
    auto const both = name_of(rank_id{0}, at_) + " and " + name_of(here_, local_address(s));
    last_ = "the listener there sent no greeting";
    auto const greeting = read(s, greeting_size);
    if (!greeting) return std::nullopt;
    auto const version = find_version(*greeting);
    if (!version) return pass_over("the listener at " + name_of(at_) + " is not a rendezvous");
    if (*version != rendezvous_version)
      fail(failure_code::transport, both + " have versions " + std::to_string(*version) + " and " +
                                        std::to_string(rendezvous_version) + " of the rendezvous protocol");
    auto const hello =
        make_hello(terms_->key, *greeting, {.rank = here_, .ranks = terms_->ranks}, random_bytes(nonce_size));
    send_some(s, hello);  // fits into the send buffer of a new connection
    last_ = "it did not answer";
    auto const before = *greeting + hello;
    auto const first = read(s, 4);
    auto const size = first ? find_final_verdict(*first) : std::optional(std::size_t{0});
    if (!size) return pass_over("the listener at " + name_of(at_) + " is not a rendezvous");
    auto const rest = first ? read(s, *size) : std::nullopt;
    if (!rest) return std::nullopt;
    auto const verdict = read_verdict(terms_->key, before, *first + *rest);
    if (!verdict.authentic) return pass_over(both + " have different keys");
    if (!verdict.why.empty())
      fail(failure_code::mismatch,
           name_of(rank_id{0}, at_) + " refuses " + name_of(here_, local_address(s)) + ": " + verdict.why);
    return rendezvous_connection(std::move(s), rank_id{0}, make_rendezvous_keys(terms_->key, before, here_),
                                 terms_->largest);
  }

  rendezvous_connection wait_for_start(rendezvous_connection c) const {
    for (bool open = true;;) {
      auto const m = next(c);
      if (m && m->word == message_kind::start) return c;
      if (m && m->word == message_kind::failed) throw run_error(read_failed(m->body).what);
      if (!open) fail(failure_code::peer_lost, c.name() + " disconnected before all ranks had joined");
      if (!wait_for_socket(c.socket(), POLLIN, terms_->join_until + final_message_of_rank_0))
        fail(failure_code::timeout,
             c.name() + " did not confirm before the deadline that all ranks had joined");
      open = c.receive();
    }
  }
  std::optional<rendezvous_message> next(rendezvous_connection& c) const {
    try {
      return c.next();
    } catch (rendezvous_message_error const& e) {
      fail(failure_code::transport, e.what());
    }
  }

  struct candidate {
    network_address name;
    std::vector<system_address> numbers;  ///< empty: not looked up yet
  };

  rank_id here_;
  rendezvous_terms const* terms_;
  std::vector<candidate> candidates_;
  network_address at_;  // the one that is being tried
  std::chrono::steady_clock::time_point answer_until_, look_up_from_;
  std::string last_ = "there is no listener";
};

}  // namespace cleave::detail
