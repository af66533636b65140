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

/// What rank 0 and the others tell each other, as bytes: numbers in little-endian order, texts behind their
/// length.
namespace cleave::detail {

enum class message_kind : std::uint8_t {
  start,     ///< 0 to all: everybody has joined
  failed,    ///< to 0: something has; from 0: this is the first failure, and who said it
  absent,    ///< 0 to all: a rank has left, or was lost
  arrive,    ///< to 0: here I am, at a barrier or a broadcast, with the bytes if they are mine
  release,   ///< 0 to all: all are there; with the bytes
  asked,     ///< 0 to all: what are you doing?
  activity,  ///< to 0: this
  leave,     ///< either way: I have nothing left to do
};

struct rendezvous_message {
  message_kind word;
  std::string body = {};

  bool operator==(rendezvous_message const&) const = default;
};

/// Bytes are no message.
class rendezvous_message_error : public error {
 public:
  using error::error;
};

/// How long texts in a failure may be; the rest is cut off.
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

/// Reads from the front. \throws rendezvous_message_error where the bytes are too few, or not what they must
/// be.
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
    if (n > static_cast<std::uint8_t>(last)) throw rendezvous_message_error("a kind that there is not");
    return static_cast<Enum>(n);
  }
  std::string text(std::size_t longest) {
    auto const n = number<std::uint32_t>();
    if (n > longest) throw rendezvous_message_error("a text that is too long");
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
    if (n > rest_.size()) throw rendezvous_message_error("it ends too early");
    auto const bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  std::string_view rest() { return take(rest_.size()); }
  void end() const {
    if (!rest_.empty()) throw rendezvous_message_error("it goes on where it must end");
  }

 private:
  std::string_view rest_;
};

/// The text, or as many whole characters of it as go into `longest` bytes with a `…` behind them.
inline std::string shortened(std::string text, std::size_t longest) {
  constexpr std::string_view more = "…";
  if (text.size() <= longest) return text;
  std::size_t end = 0;
  for (std::size_t next = 0; next <= longest - more.size(); next += utf8_at(text, next).bytes) end = next;
  return text.substr(0, end).append(more);
}

/// What all ranks can be told of a failure: texts that are not too long, without what was thrown.
inline failure portable(failure f) {
  f.detail = shortened(std::move(f.detail), longest_detail);
  f.operation = shortened(std::move(f.operation), longest_operation);
  f.cause = nullptr;
  return f;
}

/// `rank 1 and rank 3 are missing`. Precondition: at least one.
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

/// Precondition: what is told is portable.
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

/// A rank at a place where all must come by. A barrier is one where no rank gives bytes.
struct barrier_arrival {
  std::uint64_t number = 0;             ///< of the place, counted by each rank
  rank_id root = no_rank;               ///< whose bytes go to all
  std::uint64_t size = 0;               ///< of them
  std::chrono::microseconds timeout{};  ///< how much longer the rank waits; a year at most
  std::string bytes = {};               ///< of the root
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
  if (timeout > static_cast<std::uint64_t>(year.count())) throw rendezvous_message_error("a wait of years");
  a.timeout = std::chrono::microseconds(static_cast<std::int64_t>(timeout));
  a.bytes = r.rest();
  return a;
}

}  // namespace cleave::detail

/// Codes that only who knows a key can make. They prove who wrote a message and that it is whole; they hide
/// nothing.
namespace cleave::detail {

/// An HMAC-SHA-256, or a key made from one.
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
  /// Returns the code of all that was added. Nothing may be added afterwards.
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

/// Returns whether two texts are equal, in a time that does not depend on where they differ.
inline bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace cleave::detail

namespace cleave {

/// `rank 2 (10.0.0.7:4000)`.
inline std::string name_of(rank_id r, network_address const& at) {
  return "rank " + std::to_string(index(r)) + " (" + name_of(at) + ")";
}

}  // namespace cleave

namespace cleave::detail {

/// The keys of one connection, made from what both ends have drawn: what was recorded on one proves nothing
/// on another, nor in the other direction.
struct rendezvous_keys {
  hmac_digest sending, receiving;
};

/// An end of a connection between two ranks who know each other. Each message goes as its length, word and
/// body, and a code of these and of how many went before, so that none can be altered, left out, repeated or
/// made by others. Reads and writes what goes at once; it never waits.
class rendezvous_connection {
 public:
  /// `largest` is how long a body may be.
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
  /// Nothing is put from now on: what was is sent, and then the end.
  void finish() { finishing_ = true; }
  bool has_to_send() const { return is_open() && !silent_ && (!out_.empty() || finishing_); }
  void send() {
    while (out_at_ < out_.size()) {
      auto const moved = send_some(socket_, std::string_view(out_).substr(out_at_));
      if (moved.ended) return fall_silent();  // what has arrived is still to be read
      if (moved.count == 0) return;
      out_at_ += moved.count;
    }
    out_.clear();
    out_at_ = 0;
    if (finishing_ && !std::exchange(silent_, true)) socket_.end_sending();
  }

  /// Whether the connection is still open after reading what is there.
  bool receive() {
    std::array<char, 16384> block;
    for (int rounds = 0; rounds < 64; ++rounds) {  // then others have their turn
      auto const moved = receive_some(socket_, block);
      in_.append(block.data(), moved.count);
      if (moved.ended) return false;
      if (moved.count == 0) return true;
    }
    return true;
  }

  /// The next message that has arrived as a whole. \throws rendezvous_message_error
  std::optional<rendezvous_message> next() {
    if (in_.size() < head) return std::nullopt;
    message_reader r(in_);
    auto const size = std::size_t{r.number<std::uint32_t>()};
    if (size > largest_) fail("is of " + format_bytes(size) + ", and the most is " + format_bytes(largest_));
    if (in_.size() < head + size + code_size) return std::nullopt;
    std::string_view const all = in_, said = all.substr(0, head + size);
    if (!equal_in_constant_time(code(keys_.receiving, received_, said), all.substr(said.size(), code_size)))
      fail("is not authentic");
    ++received_;
    auto const word = r.number<std::uint8_t>();
    if (word > static_cast<std::uint8_t>(message_kind::leave)) fail("is of a kind that there is not");
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
  std::size_t out_at_ = 0;  // what is before has been sent
  std::uint64_t sent_ = 0, received_ = 0;
  bool finishing_ = false, silent_ = false;
};

}  // namespace cleave::detail

/// How a rank and rank 0 prove to each other that they know the same key, without saying it:
/// - rank 0 sends a greeting: who it is, its version, a nonce;
/// - the rank sends a hello: who it is, its version, number, count of ranks, a nonce, a code of both;
/// - rank 0 sends a verdict: joined, or why not, and a code of all three.
/// Both nonces go into every code and into the keys that follow, so that nothing recorded can be used again.
namespace cleave::detail {

inline constexpr std::string_view rendezvous_magic = "cleavebd";
inline constexpr std::uint32_t rendezvous_version = 1;
inline constexpr std::size_t nonce_size = 16, greeting_size = 28, hello_size = 68, longest_verdict = 512;
/// The fewest bytes that a key has.
inline constexpr std::size_t min_rendezvous_key = 16;

/// Bytes that nobody can foretell; 256 at most. \throws error where the system gives none.
inline std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (::getentropy(bytes.data(), bytes.size()) != 0) throw error("the system gives no random numbers");
  return bytes;
}

/// A key for one run, in hexadecimal digits: what starts the ranks draws it and tells it to all of them.
inline std::string random_rendezvous_key() {
  std::string key;
  for (char const c : random_bytes(32)) {
    key += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    key += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return key;
}

/// What is wrong with a key, if anything.
inline std::optional<std::string> find_key_fault(std::string_view key) {
  if (key.size() >= min_rendezvous_key) return std::nullopt;
  return "the key of the board has " + std::to_string(key.size()) + " bytes; give it at least " +
         std::to_string(min_rendezvous_key) + ", as random_rendezvous_key() does";
}

/// A code of what was said so far; different for each use, since the bytes begin with it.
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

/// What a rank says of itself.
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

/// The version that a greeting or hello begins with, or nothing where it is no such thing. Precondition: of
/// its size.
inline std::optional<std::uint32_t> find_version(std::string_view said) {
  if (!said.starts_with(rendezvous_magic)) return std::nullopt;
  return message_reader(said.substr(rendezvous_magic.size())).number<std::uint32_t>();
}

/// Precondition: of its size.
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

/// `why` is empty where the rank has joined. `before` is greeting and hello.
inline std::string make_verdict(std::string_view key, std::string const& before, std::string why) {
  message_writer w;
  w.text(shortened(std::move(why), longest_verdict));
  return w.bytes + handshake_code(key, "verdict", before + w.bytes);
}

/// How many bytes follow the first four of a verdict; nothing where it is none.
inline std::optional<std::size_t> find_final_verdict(std::string_view first) {
  auto const size = message_reader(first).number<std::uint32_t>();
  if (size > longest_verdict) return std::nullopt;
  return size + sizeof(hmac_digest);
}

struct join_verdict {
  std::string why;
  bool authentic;
};

/// Precondition: `bytes` is one verdict as a whole.
inline join_verdict read_verdict(std::string_view key, std::string const& before, std::string_view bytes) {
  auto const said = bytes.substr(0, bytes.size() - sizeof(hmac_digest));
  auto const code = handshake_code(key, "verdict", before + std::string(said));
  return {std::string(said.substr(4)), equal_in_constant_time(code, bytes.substr(said.size()))};
}

/// The keys of rank 0's end, or of the other one.
inline rendezvous_keys make_rendezvous_keys(std::string_view key, std::string const& before, rank_id whose) {
  auto const down = handshake_digest(key, "down", before), up = handshake_digest(key, "up", before);
  return index(whose) == 0 ? rendezvous_keys{down, up} : rendezvous_keys{up, down};
}

}  // namespace cleave::detail
