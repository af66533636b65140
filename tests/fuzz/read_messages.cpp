// SPDX-License-Identifier: MIT
// Fuzzes what ranks say to each other at a rendezvous. Frames, handshakes and messages are read or rejected,
// and rank 0 and another rank survive any sequence of messages of a rank that has the key.
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/core/expects.hpp"
#include "cleave/run/rendezvous/detail/coordinator.hpp"
#include "cleave/run/rendezvous/protocol.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"
#include "fuzz/unless_refused.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::unless_refused;

namespace {

constexpr std::uint32_t ranks = 3;
constexpr std::string_view key = "a key of all ranks";

/// Checks that a body of each kind is rejected, or written again as it was.
void check_bodies(std::string const& body) {
  if (auto const p = unless_refused([&] { return read_failed(body); })) {
    auto const again = read_failed(failed_message({p->by, portable(p->what)}).body);
    expects(again.by == p->by && again.what.detail == p->what.detail && again.what.at == p->what.at,
            "the failure again");
  }
  if (auto const a = unless_refused([&] { return read_activity(body); })) {
    auto const again = read_activity(activity_message(*a).body);
    expects(again.kind == a->kind && again.at == a->at && again.peers == a->peers, "the activity again");
  }
  if (auto const a = unless_refused([&] { return read_arrive(body); }))
    expects(arrive_message(*a).body == body, "the arrival again");
}

/// Returns the next message of a script, each of which begins with its rank, kind and size, or nothing.
std::optional<std::pair<rank_id, rendezvous_message>> next_message(std::string_view& script) {
  if (script.size() < 3) return std::nullopt;
  auto const byte = [&](std::size_t at) { return static_cast<unsigned char>(script[at]); };
  rank_id const from{byte(0) % ranks};
  rendezvous_message m{static_cast<message_kind>(byte(1) % (1 + static_cast<int>(message_kind::leave))), {}};
  std::size_t const size = byte(2);
  script.remove_prefix(3);
  m.body = script.substr(0, size);
  script.remove_prefix(m.body.size());
  return std::pair(from, m);
}

/// Checks that rank 0 and rank 1 keep their promises whatever they are told.
void check_script(std::string_view script) {
  coordinator hub(ranks, std::chrono::seconds(1));
  participant far(rank_id{1}, ranks);
  coordinator::time_point now{};
  far.arrive();
  while (auto const said = next_message(script)) {
    auto const& [from, m] = *said;
    now += std::chrono::milliseconds(100);
    try {
      hub.take(from, m, now);
    } catch (rendezvous_message_error const&) {
      hub.lose(from, failure_code::peer_lost, "it says what it may not");
    }
    unless_refused([&] { return far.take(m), true; });
    for (auto const& letter : hub.take_letters()) {
      expects(index(letter.to) < ranks, "a letter to one of the ranks");
      if (letter.to == rank_id{1}) unless_refused([&] { return far.take(letter.what), true; });
    }
    far.answer({activity_kind::waiting, {rank_id{0}}});
    if (auto const due = hub.due(); due && m.body.size() % 2 == 1) hub.pass(now = *due);
    if (far.first()) expects(portable(*far.first()).detail.size() <= longest_detail, "a failure of its size");
  }
}

rendezvous_keys keys(std::uint8_t sending, std::uint8_t receiving) {
  rendezvous_keys k{};
  k.sending.fill(sending);
  k.receiving.fill(receiving);
  return k;
}

/// Two sockets that are connected to each other.
std::array<int, 2> wire() {
  std::array<int, 2> ends{};
  expects(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0, "a wire");
  return ends;
}

/// Checks that bytes of a stranger are no frames, and that a true frame before them is read as it was sent.
void check_frames(std::string const& bytes) {
  if (bytes.size() > 4096) return;
  constexpr std::size_t largest = 1000;
  auto const stranger = wire(), honest = wire();
  tcp_socket const from(stranger[0]);
  rendezvous_connection near(tcp_socket(honest[0]), rank_id{1}, keys(1, 2), largest);
  rendezvous_connection far(tcp_socket(honest[1]), rank_id{0}, keys(2, 1), largest);
  rendezvous_connection listening(tcp_socket(stranger[1]), rank_id{2}, keys(3, 4), largest);
  send_some(from, bytes);
  listening.receive();
  expects(!unless_refused([&] { return listening.next(); }).value_or(std::nullopt),
          "no message of a stranger");
  rendezvous_message const sent{message_kind::arrive, bytes.substr(0, largest)};
  near.put(sent);
  near.send();
  far.receive();
  expects(far.next() == sent, "the message that was sent");
}

/// Checks that greetings, hellos and verdicts are read, and accepted only if they have the code of the key.
void check_handshake(std::string const& bytes) {
  auto const greeting = make_greeting(std::string(nonce_size, 'n'));
  if (bytes.size() >= greeting_size) find_version(std::string_view(bytes).substr(0, greeting_size));
  if (bytes.size() >= hello_size) {
    auto const hello = bytes.substr(0, hello_size);
    auto const said = read_hello(hello);
    expects(!is_authentic(key, greeting, hello), "no code without the key");
    auto const own = make_hello(key, greeting, said, hello.substr(20, nonce_size));
    expects(is_authentic(key, greeting, own) && read_hello(own).rank == said.rank, "the hello again");
  }
  if (bytes.size() < 4) return;
  auto const size = find_final_verdict(std::string_view(bytes).substr(0, 4));
  if (size && bytes.size() >= 4 + *size)
    expects(!read_verdict(key, greeting, bytes.substr(0, 4 + *size)).authentic, "no code without the key");
  auto const own = make_verdict(key, greeting, bytes);
  expects(find_final_verdict(own.substr(0, 4)) == own.size() - 4, "a verdict of its size");
  auto const again = read_verdict(key, greeting, own);
  expects(again.authentic && again.why == shortened(bytes, longest_verdict), "the verdict again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const bytes(reinterpret_cast<char const*>(data), size);
  check_bodies(bytes);
  check_script(bytes);
  check_frames(bytes);
  check_handshake(bytes);
  return 0;
}
