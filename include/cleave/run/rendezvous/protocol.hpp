// SPDX-License-Identifier: MIT
#pragma once
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/model/wait_chain.hpp"
#include "cleave/run/rendezvous/network_address.hpp"
#include "cleave/run/rendezvous/tcp_socket.hpp"

/// The messages between rank 0 and the other ranks, as bytes. Integers are little-endian; strings are
/// preceded by their length.
namespace cleave::inline v0_2::detail {

enum class message_kind : std::uint8_t {
  start,     ///< 0 to all: all ranks have joined
  failed,    ///< to 0: a failure; from 0: the first failure, and the rank that published it
  absent,    ///< 0 to all: a rank has left, or was lost
  arrive,    ///< to 0: this rank has reached a barrier or broadcast; with the bytes if it is the root
  release,   ///< 0 to all: all ranks have arrived; with the bytes
  asked,     ///< 0 to all: report your activity
  activity,  ///< to 0: the activity of this rank
  leave,     ///< either way: this rank leaves
};

struct rendezvous_message {
  message_kind word;
  std::string body = {};

  bool operator==(rendezvous_message const&) const = default;
};

/// Thrown if bytes are not a valid message.
class rendezvous_message_error : public error {
 public:
  using error::error;
};

/// Maximum lengths of strings in a failure, in bytes; longer strings are truncated.
inline constexpr std::size_t longest_detail = 4096, longest_operation = 256;

class message_writer {
 public:
  template <std::unsigned_integral N>
  message_writer& number(N n) {
    for (std::size_t i = 0; i < sizeof n; ++i) bytes += static_cast<char>(n >> (8 * i));
    return *this;
  }
  message_writer& text(std::string_view t) {
    number(static_cast<std::uint32_t>(t.size()));
    bytes += t;
    return *this;
  }
  message_writer& at(std::optional<stage_call> const& call) {
    auto const c = call.value_or(stage_call{});
    return number(std::uint8_t{call.has_value()}).number(index(c.stage)).number(index(c.microbatch));
  }

  std::string bytes;
};

/// A reader of messages, from the front.
/// \throws rendezvous_message_error if bytes are missing or invalid
class message_reader {
 public:
  explicit message_reader(std::string_view bytes) : rest_(bytes) {}

  template <std::unsigned_integral N>
  N number() {
    auto const bytes = take(sizeof(N));
    N n = 0;
    for (std::size_t i = 0; i < sizeof n; ++i)
      n = static_cast<N>(n | static_cast<N>(static_cast<N>(static_cast<unsigned char>(bytes[i])) << (8 * i)));
    return n;
  }
  template <class Enum>
  Enum one_of(Enum last) {
    auto const n = number<std::uint8_t>();
    if (n > static_cast<std::uint8_t>(last)) throw rendezvous_message_error("unknown kind");
    return static_cast<Enum>(n);
  }
  std::string text(std::size_t longest) {
    auto const n = number<std::uint32_t>();
    if (n > longest) throw rendezvous_message_error("text too long");
    return std::string(take(n));
  }
  rank_id rank() { return rank_id{number<std::uint32_t>()}; }
  std::optional<stage_call> at() {
    auto const known = number<std::uint8_t>();
    stage_call c{stage_id{number<std::uint32_t>()}, {}};
    c.microbatch = microbatch_id{number<std::uint32_t>()};
    return known != 0 ? std::optional(c) : std::nullopt;
  }
  std::string_view take(std::size_t n) {
    if (n > rest_.size()) throw rendezvous_message_error("it is truncated");
    auto const bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  std::string_view rest() { return take(rest_.size()); }
  void end() const {
    if (!rest_.empty()) throw rendezvous_message_error("extra bytes at the end");
  }

 private:
  std::string_view rest_;
};

/// Returns `text`, truncated at a character boundary to at most `longest` bytes including a final `…`.
inline std::string shortened(std::string text, std::size_t longest) {
  constexpr std::string_view more = "…";
  if (text.size() <= longest) return text;
  std::size_t end = 0;
  for (std::size_t next = 0; next <= longest - more.size(); next += utf8_at(text, next).bytes) end = next;
  return text.substr(0, end).append(more);
}

/// Returns a failure that can be sent to other ranks: with truncated strings and without the exception.
inline failure portable(failure f) {
  f.detail = shortened(std::move(f.detail), longest_detail);
  f.operation = shortened(std::move(f.operation), longest_operation);
  f.cause = nullptr;
  return f;
}

/// Formats a list of ranks: `rank 1 and rank 3 are missing`. Precondition: at least one.
inline std::string are_missing(std::span<rank_id const> ranks) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < (std::min)(ranks.size(), most); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += "rank " + std::to_string(index(ranks[i]));
  }
  if (ranks.size() > most) text += " and " + std::to_string(ranks.size() - most) + " more";
  return text + (ranks.size() == 1 ? " is missing" : " are missing");
}

/// A failure, and the rank that published it.
struct published_failure {
  rank_id by;
  failure what;
};

/// Encodes a failure as a message. Precondition: `p.what` is a result of `portable`.
inline rendezvous_message failed_message(published_failure const& p) {
  auto const& f = p.what;
  message_writer w;
  w.number(index(p.by)).number(static_cast<std::uint8_t>(f.code)).at(f.at);
  w.number(index(f.reporter)).number(index(f.culprit)).text(f.operation).text(f.detail);
  return {message_kind::failed, std::move(w.bytes)};
}

inline published_failure read_failed(std::string_view body) {
  message_reader r(body);
  published_failure p{r.rank(), {r.one_of(failure_code::device)}};
  p.what.at = r.at();
  p.what.reporter = r.rank();
  p.what.culprit = r.rank();
  p.what.operation = r.text(longest_operation);
  p.what.detail = r.text(longest_detail);
  r.end();
  return p;
}

inline rendezvous_message activity_message(rank_activity const& a) {
  message_writer w;
  w.number(static_cast<std::uint8_t>(a.kind)).at(a.at);
  w.text(shortened(a.operation, longest_operation)).number(static_cast<std::uint32_t>(a.peers.size()));
  for (auto const p : a.peers) w.number(index(p));
  return {message_kind::activity, std::move(w.bytes)};
}

inline rank_activity read_activity(std::string_view body) {
  message_reader r(body);
  rank_activity a{r.one_of(activity_kind::waiting)};
  a.at = r.at();
  a.operation = r.text(longest_operation);
  auto const peers = r.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < peers; ++i) a.peers.push_back(r.rank());
  r.end();
  return a;
}

/// A rank's arrival at a barrier or broadcast. A barrier has no root.
struct barrier_arrival {
  std::uint64_t number = 0;             ///< sequence number of the barrier or broadcast
  rank_id root = no_rank;               ///< rank whose bytes are broadcast
  std::uint64_t size = 0;               ///< size of the broadcast in bytes
  std::chrono::microseconds timeout{};  ///< how much longer the rank waits, at most a year
  std::string bytes = {};               ///< the bytes, at the root only
};

inline rendezvous_message arrive_message(barrier_arrival const& a) {
  message_writer w;
  w.number(a.number)
      .number(index(a.root))
      .number(a.size)
      .number(static_cast<std::uint64_t>(a.timeout.count()))
      .bytes += a.bytes;
  return {message_kind::arrive, std::move(w.bytes)};
}

inline barrier_arrival read_arrive(std::string_view body) {
  message_reader r(body);
  barrier_arrival a{r.number<std::uint64_t>(), r.rank()};
  a.size = r.number<std::uint64_t>();
  auto const timeout = r.number<std::uint64_t>();
  constexpr std::chrono::microseconds year = std::chrono::hours(24 * 365);
  if (timeout > static_cast<std::uint64_t>(year.count()))
    throw rendezvous_message_error("timeout longer than a year");
  a.timeout = std::chrono::microseconds(static_cast<std::int64_t>(timeout));
  a.bytes = r.rest();
  return a;
}

}  // namespace cleave::detail

/// Message authentication codes. They prove that a message comes from a holder of the key and is intact. They
/// do not encrypt.
namespace cleave::inline v0_2::detail {

/// An HMAC-SHA-256, or a key derived from one.
using hmac_digest = std::array<std::uint8_t, crypto_auth_hmacsha256_BYTES>;

/// HMAC-SHA-256 (RFC 2104) of bytes that are added in pieces, under a key of any length.
class hmac_sha256 {
 public:
  explicit hmac_sha256(std::string_view key) {
    crypto_auth_hmacsha256_init(&state_, bytes_of(key), key.size());
  }
  explicit hmac_sha256(hmac_digest const& key) {
    crypto_auth_hmacsha256_init(&state_, key.data(), key.size());
  }

  hmac_sha256& add(std::string_view bytes) {
    crypto_auth_hmacsha256_update(&state_, bytes_of(bytes), bytes.size());
    return *this;
  }
  /// Returns the code of all added bytes. Call it once, last.
  hmac_digest digest() {
    hmac_digest code;
    crypto_auth_hmacsha256_final(&state_, code.data());
    return code;
  }

 private:
  static unsigned char const* bytes_of(std::string_view text) {
    return reinterpret_cast<unsigned char const*>(text.data());
  }

  crypto_auth_hmacsha256_state state_;
};

/// Returns true if two strings are equal, in time independent of their content.
inline bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Formats a rank with its address: `rank 2 (10.0.0.7:4000)`.
inline std::string name_of(rank_id r, network_address const& at) {
  return "rank " + std::to_string(index(r)) + " (" + name_of(at) + ")";
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The keys of one connection, derived from nonces of both ends. Messages recorded on one connection are
/// invalid on any other, and in the other direction.
struct rendezvous_keys {
  hmac_digest sending, receiving;
};

/// One end of an authenticated connection between two ranks. A frame has the length, the kind, the body, and
/// a code of these and of the frame's sequence number. So frames cannot be altered, dropped, repeated or
/// forged. Reads and writes never block.
class rendezvous_connection {
 public:
  /// `largest` is the maximum size of a body in bytes.
  rendezvous_connection(tcp_socket s, rank_id peer, rendezvous_keys const& keys, std::size_t largest)
      : socket_(std::move(s)),
        peer_(peer),
        address_(remote_address(socket_)),
        keys_(keys),
        largest_(largest) {}

  rank_id peer() const { return peer_; }
  std::string name() const { return name_of(peer_, address_); }
  bool is_open() const { return socket_.is_open(); }
  tcp_socket const& socket() const { return socket_; }
  void close() noexcept { socket_.close(); }

  void put(rendezvous_message const& m) {
    if (silent_) return;
    message_writer frame;
    frame.number(static_cast<std::uint32_t>(m.body.size())).number(static_cast<std::uint8_t>(m.word));
    frame.bytes += m.body;
    frame.bytes += code(keys_.sending, sent_++, frame.bytes);
    out_ += frame.bytes;
  }
  /// Half-closes the connection after everything already put has been sent. No more `put` may follow.
  void finish() { finishing_ = true; }
  bool has_to_send() const { return is_open() && !silent_ && (!out_.empty() || finishing_); }
  void send() {
    while (out_at_ < out_.size()) {
      auto const moved = send_some(socket_, std::string_view(out_).substr(out_at_));
      if (moved.ended) return fall_silent();  // data that has arrived can still be read
      if (moved.count == 0) return;
      out_at_ += moved.count;
    }
    out_.clear();
    out_at_ = 0;
    if (finishing_ && !std::exchange(silent_, true)) socket_.end_sending();
  }

  /// Reads available bytes. Returns false if the connection has ended.
  bool receive() {
    std::array<char, 16384> block;
    for (int rounds = 0; rounds < 64; ++rounds) {  // bounded, so that other connections get their turn
      auto const moved = receive_some(socket_, block);
      in_.append(block.data(), moved.count);
      if (moved.ended) return false;
      if (moved.count == 0) return true;
    }
    return true;
  }

  /// Returns the next complete message, or nothing.
  /// \throws rendezvous_message_error if the message is invalid or not authentic
  std::optional<rendezvous_message> next() {
    if (in_.size() < head) return std::nullopt;
    message_reader r(in_);
    auto const size = std::size_t{r.number<std::uint32_t>()};
    if (size > largest_) fail("has " + format_bytes(size) + ", but the limit is " + format_bytes(largest_));
    if (in_.size() < head + size + code_size) return std::nullopt;
    std::string_view const all = in_, said = all.substr(0, head + size);
    if (!equal_in_constant_time(code(keys_.receiving, received_, said), all.substr(said.size(), code_size)))
      fail("is not authentic");
    ++received_;
    auto const word = r.number<std::uint8_t>();
    if (word > static_cast<std::uint8_t>(message_kind::leave)) fail("has an unknown kind");
    rendezvous_message m{static_cast<message_kind>(word), std::string(r.take(size))};
    in_.erase(0, said.size() + code_size);
    return m;
  }

 private:
  static constexpr std::size_t head = 5, code_size = 16;

  static std::string code(hmac_digest const& key, std::uint64_t number, std::string_view said) {
    auto const all = hmac_sha256(key).add(message_writer().number(number).bytes).add(said).digest();
    return {reinterpret_cast<char const*>(all.data()), code_size};
  }
  [[noreturn]] void fail(std::string const& what) const {
    throw rendezvous_message_error("a message of " + name() + " " + what);
  }
  void fall_silent() {
    out_.clear();
    out_at_ = 0;
    silent_ = true;
  }

  tcp_socket socket_;
  rank_id peer_;
  network_address address_;
  rendezvous_keys keys_;
  std::size_t largest_;
  std::string in_, out_;
  std::size_t out_at_ = 0;  // bytes before this position have been sent
  std::uint64_t sent_ = 0, received_ = 0;
  bool finishing_ = false, silent_ = false;
};

}  // namespace cleave::detail

/// The handshake by which a rank and rank 0 prove to each other that they have the same key, without sending
/// it:
/// - rank 0 sends a greeting: magic, version and a nonce;
/// - the rank sends a hello: magic, version, rank, number of ranks, a nonce, and a code of greeting and
///   hello;
/// - rank 0 sends a verdict: an empty string or the reason for refusal, and a code of all three.
///
/// Both nonces enter every code and the keys of the connection, so recorded messages cannot be replayed.
namespace cleave::inline v0_2::detail {

inline constexpr std::string_view rendezvous_magic = "cleavebd";
inline constexpr std::uint32_t rendezvous_version = 1;
inline constexpr std::size_t nonce_size = 16, greeting_size = 28, hello_size = 68, longest_verdict = 512;
/// Minimum size of a key in bytes.
inline constexpr std::size_t min_rendezvous_key = 16;

/// Returns `count` cryptographically random bytes, at most 256.
/// \throws error if the system provides none
inline std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    throw error("the system provides no random numbers (getentropy failed)");
  return bytes;
}

/// Returns a random key for one run, as hexadecimal digits. The launcher draws it and passes it to all ranks.
inline std::string random_rendezvous_key() {
  std::string key;
  for (char const c : random_bytes(32)) {
    key += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    key += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return key;
}

/// Returns the problem of a key, or nothing.
inline std::optional<std::string> find_key_fault(std::string_view key) {
  if (key.size() >= min_rendezvous_key) return std::nullopt;
  return "the key of the rendezvous has " + std::to_string(key.size()) + " bytes; give it at least " +
         std::to_string(min_rendezvous_key) + ", as random_rendezvous_key() does";
}

/// Returns the code of the handshake so far. `use` is part of the input, so codes for different uses differ.
inline hmac_digest handshake_digest(std::string_view key, std::string_view use, std::string_view said) {
  return hmac_sha256(key).add(use).add(said).digest();
}
inline std::string handshake_code(std::string_view key, std::string_view use, std::string_view said) {
  auto const all = handshake_digest(key, use, said);
  return {reinterpret_cast<char const*>(all.data()), all.size()};
}

inline std::string make_greeting(std::string_view nonce) {
  return std::string(rendezvous_magic) + message_writer().number(rendezvous_version).bytes +
         std::string(nonce);
}

/// The identity that a rank sends in its hello.
struct join_request {
  std::uint32_t version = rendezvous_version;
  rank_id rank;
  std::uint32_t ranks;
};

inline std::string make_hello(std::string_view key, std::string_view greeting, join_request const& h,
                              std::string_view nonce) {
  message_writer w;
  w.bytes = rendezvous_magic;
  w.number(h.version).number(index(h.rank)).number(h.ranks).bytes += nonce;
  return w.bytes + handshake_code(key, "hello", std::string(greeting) + w.bytes);
}

/// Returns the version in a greeting or hello, or nothing if it is neither. Precondition: it has the size of
/// one.
inline std::optional<std::uint32_t> find_version(std::string_view said) {
  if (!said.starts_with(rendezvous_magic)) return std::nullopt;
  return message_reader(said.substr(rendezvous_magic.size())).number<std::uint32_t>();
}

/// Decodes the first message of a joining rank. Precondition: `hello` has `hello_size` bytes.
inline join_request read_hello(std::string_view hello) {
  message_reader r(hello.substr(rendezvous_magic.size()));
  join_request h{.version = r.number<std::uint32_t>(), .rank = r.rank(), .ranks = 0};
  h.ranks = r.number<std::uint32_t>();
  return h;
}
inline bool is_authentic(std::string_view key, std::string_view greeting, std::string_view hello) {
  auto const code_at = hello_size - sizeof(hmac_digest);
  auto const said = std::string(greeting) + std::string(hello.substr(0, code_at));
  return equal_in_constant_time(handshake_code(key, "hello", said), hello.substr(code_at));
}

/// `why` is empty if the rank has joined. `before` is the greeting followed by the hello.
inline std::string make_verdict(std::string_view key, std::string const& before, std::string why) {
  message_writer w;
  w.text(shortened(std::move(why), longest_verdict));
  return w.bytes + handshake_code(key, "verdict", before + w.bytes);
}

/// Returns the number of bytes that follow the first four of a verdict, or nothing if it is not a verdict.
inline std::optional<std::size_t> find_final_verdict(std::string_view first) {
  auto const size = message_reader(first).number<std::uint32_t>();
  if (size > longest_verdict) return std::nullopt;
  return size + sizeof(hmac_digest);
}

struct join_verdict {
  std::string why;
  bool authentic;
};

/// Decodes a verdict and checks its authentication code. Precondition: `bytes` is exactly one verdict.
inline join_verdict read_verdict(std::string_view key, std::string const& before, std::string_view bytes) {
  auto const said = bytes.substr(0, bytes.size() - sizeof(hmac_digest));
  auto const code = handshake_code(key, "verdict", before + std::string(said));
  return {std::string(said.substr(4)), equal_in_constant_time(code, bytes.substr(said.size()))};
}

/// Returns the connection keys for the end of rank `whose`: rank 0 or another rank.
inline rendezvous_keys make_rendezvous_keys(std::string_view key, std::string const& before, rank_id whose) {
  auto const down = handshake_digest(key, "down", before), up = handshake_digest(key, "up", before);
  return index(whose) == 0 ? rendezvous_keys{down, up} : rendezvous_keys{up, down};
}

}  // namespace cleave::detail
