// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>
#include <algorithm>
#include <array>
#include <bit>
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
#include "cleave/run/board/network_address.hpp"
#include "cleave/run/board/tcp_socket.hpp"
#include "cleave/run/model/blame.hpp"
#include "cleave/run/model/failure.hpp"

/// What rank 0 and the others tell each other, as bytes: numbers in little-endian order, texts behind their
/// length.
namespace cleave::detail {

enum class board_word : std::uint8_t {
  start,     ///< 0 to all: everybody has joined
  failed,    ///< to 0: something has; from 0: this is the first failure, and who said it
  absent,    ///< 0 to all: a rank has left, or was lost
  arrive,    ///< to 0: here I am, at a barrier or a broadcast, with the bytes if they are mine
  release,   ///< 0 to all: all are there; with the bytes
  asked,     ///< 0 to all: what are you doing?
  activity,  ///< to 0: this
  leave,     ///< either way: I have nothing left to do
};

struct board_message {
  board_word word;
  std::string body = {};

  bool operator==(board_message const&) const = default;
};

/// Bytes are no message.
class board_message_error : public error {
 public:
  using error::error;
};

/// How long texts in a failure may be; the rest is cut off.
inline constexpr std::size_t longest_detail = 4096, longest_operation = 256;

class board_writer {
 public:
  template <std::unsigned_integral N>
  board_writer& number(N n) {
    for (std::size_t i = 0; i < sizeof n; ++i) bytes += static_cast<char>(n >> (8 * i));
    return *this;
  }
  board_writer& text(std::string_view t) {
    number(static_cast<std::uint32_t>(t.size()));
    bytes += t;
    return *this;
  }
  board_writer& at(std::optional<stage_call> const& call) {
    auto const c = call.value_or(stage_call{});
    return number(std::uint8_t{call.has_value()}).number(index(c.stage)).number(index(c.microbatch));
  }

  std::string bytes;
};

/// Reads from the front. \throws board_message_error where the bytes are too few, or not what they must be.
class board_reader {
 public:
  explicit board_reader(std::string_view bytes) : rest_(bytes) {}

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
    if (n > static_cast<std::uint8_t>(last)) throw board_message_error("a kind that there is not");
    return static_cast<Enum>(n);
  }
  std::string text(std::size_t longest) {
    auto const n = number<std::uint32_t>();
    if (n > longest) throw board_message_error("a text that is too long");
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
    if (n > rest_.size()) throw board_message_error("it ends too early");
    auto const bytes = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return bytes;
  }
  std::string_view rest() { return take(rest_.size()); }
  void end() const {
    if (!rest_.empty()) throw board_message_error("it goes on where it must end");
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
inline board_message failed_message(published_failure const& p) {
  auto const& f = p.what;
  board_writer w;
  w.number(index(p.by)).number(static_cast<std::uint8_t>(f.code)).at(f.at);
  w.number(index(f.reporter)).number(index(f.culprit)).text(f.operation).text(f.detail);
  return {board_word::failed, std::move(w.bytes)};
}

inline published_failure read_failed(std::string_view body) {
  board_reader r(body);
  published_failure p{r.rank(), {r.one_of(failure_code::device)}};
  p.what.at = r.at();
  p.what.reporter = r.rank();
  p.what.culprit = r.rank();
  p.what.operation = r.text(longest_operation);
  p.what.detail = r.text(longest_detail);
  r.end();
  return p;
}

inline board_message activity_message(rank_activity const& a) {
  board_writer w;
  w.number(static_cast<std::uint8_t>(a.kind)).at(a.at);
  w.text(shortened(a.operation, longest_operation)).number(static_cast<std::uint32_t>(a.peers.size()));
  for (auto const p : a.peers) w.number(index(p));
  return {board_word::activity, std::move(w.bytes)};
}

inline rank_activity read_activity(std::string_view body) {
  board_reader r(body);
  rank_activity a{r.one_of(activity_kind::waiting)};
  a.at = r.at();
  a.operation = r.text(longest_operation);
  auto const peers = r.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < peers; ++i) a.peers.push_back(r.rank());
  r.end();
  return a;
}

/// A rank at a place where all must come by. A barrier is one where no rank gives bytes.
struct board_arrival {
  std::uint64_t number = 0;              ///< of the place, counted by each rank
  rank_id root = no_rank;                ///< whose bytes go to all
  std::uint64_t size = 0;                ///< of them
  std::chrono::microseconds patience{};  ///< how much longer the rank waits; a year at most
  std::string bytes = {};                ///< of the root
};

inline board_message arrive_message(board_arrival const& a) {
  board_writer w;
  w.number(a.number)
      .number(index(a.root))
      .number(a.size)
      .number(static_cast<std::uint64_t>(a.patience.count()))
      .bytes += a.bytes;
  return {board_word::arrive, std::move(w.bytes)};
}

inline board_arrival read_arrive(std::string_view body) {
  board_reader r(body);
  board_arrival a{r.number<std::uint64_t>(), r.rank()};
  a.size = r.number<std::uint64_t>();
  auto const patience = r.number<std::uint64_t>();
  constexpr std::chrono::microseconds year = std::chrono::hours(24 * 365);
  if (patience > static_cast<std::uint64_t>(year.count())) throw board_message_error("a wait of years");
  a.patience = std::chrono::microseconds(static_cast<std::int64_t>(patience));
  a.bytes = r.rest();
  return a;
}

}  // namespace cleave::detail

/// Codes that only who knows a key can make. They prove who wrote a message and that it is whole; they hide
/// nothing.
namespace cleave::detail {

using sha256_digest = std::array<std::uint8_t, 32>;

/// SHA-256, FIPS 180-4, of bytes that are added in pieces.
class sha256 {
 public:
  sha256& add(std::string_view bytes) {
    for (total_ += bytes.size(); !bytes.empty();) {
      auto const n = (std::min)(bytes.size(), block_.size() - held_);
      std::memcpy(block_.data() + held_, bytes.data(), n);
      bytes.remove_prefix(n);
      held_ += n;
      if (held_ == block_.size()) mix();
    }
    return *this;
  }
  sha256& add(sha256_digest const& bytes) { return add({reinterpret_cast<char const*>(bytes.data()), 32}); }

  /// Of all that was added. Nothing may be added afterwards.
  sha256_digest digest() {
    auto const bits = total_ * 8;
    block_[held_++] = 0x80;
    if (held_ > block_.size() - 8) pad();
    pad(8);
    for (std::size_t i = 0; i < 8; ++i)
      block_[block_.size() - 1 - i] = static_cast<std::uint8_t>(bits >> (8 * i));
    mix();
    sha256_digest out;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
    return out;
  }

 private:
  void pad(std::size_t kept_free = 0) {
    std::fill(block_.begin() + static_cast<std::ptrdiff_t>(held_), block_.end(), std::uint8_t{0});
    held_ = block_.size() - kept_free;
    if (kept_free == 0) mix();
  }

  void mix() {
    std::array<std::uint32_t, 64> w;
    for (std::size_t i = 0; i < 16; ++i)
      w[i] = std::uint32_t{block_[4 * i]} << 24 | std::uint32_t{block_[4 * i + 1]} << 16 |
             std::uint32_t{block_[4 * i + 2]} << 8 | block_[4 * i + 3];
    for (std::size_t i = 16; i < 64; ++i) {
      auto const a = w[i - 15], b = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
             (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
    }
    auto [a, b, c, d, e, f, g, h] = state_;
    for (std::size_t i = 0; i < 64; ++i) {
      auto const one = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) + ((e & f) ^ (~e & g)) +
                       round_constants[i] + w[i];
      auto const two =
          (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + one;
      d = c, c = b, b = a, a = one + two;
    }
    std::array const mixed = {a, b, c, d, e, f, g, h};
    for (std::size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
    held_ = 0;
  }

  static constexpr std::array<std::uint32_t, 64> round_constants = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_ = {};
  std::size_t held_ = 0;
  std::uint64_t total_ = 0;
};

/// HMAC-SHA-256, RFC 2104, of bytes that are added in pieces, under a key of any length.
class hmac_sha256 {
 public:
  explicit hmac_sha256(std::string_view key) {
    std::array<char, 64> block = {};
    if (key.size() > block.size()) {
      auto const shorter = sha256().add(key).digest();
      std::ranges::copy(shorter, block.begin());
    } else {
      std::ranges::copy(key, block.begin());
    }
    auto const masked = [&](char mask) {
      auto with = block;
      for (char& c : with) c = static_cast<char>(c ^ mask);
      return with;
    };
    auto const inner = masked(0x36), outer = masked(0x5c);
    inner_.add({inner.data(), inner.size()});
    outer_.add({outer.data(), outer.size()});
  }
  explicit hmac_sha256(sha256_digest const& key)
      : hmac_sha256(std::string_view(reinterpret_cast<char const*>(key.data()), key.size())) {}

  hmac_sha256& add(std::string_view bytes) {
    inner_.add(bytes);
    return *this;
  }
  /// Of all that was added. Nothing may be added afterwards.
  sha256_digest digest() { return outer_.add(inner_.digest()).digest(); }

 private:
  sha256 inner_, outer_;
};

/// Whether they are equal, in a time that does not tell where they differ.
constexpr bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
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
struct board_keys {
  sha256_digest sending, receiving;
};

/// An end of a connection between two ranks who know each other. Each message goes as its length, word and
/// body, and a code of these and of how many went before, so that none can be altered, left out, repeated or
/// made by others. Reads and writes what goes at once; it never waits.
class board_connection {
 public:
  /// `largest` is how long a body may be.
  board_connection(tcp_socket s, rank_id peer, board_keys const& keys, std::size_t largest)
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

  void put(board_message const& m) {
    if (silent_) return;
    board_writer frame;
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

  /// The next message that has arrived as a whole. \throws board_message_error
  std::optional<board_message> next() {
    if (in_.size() < head) return std::nullopt;
    board_reader r(in_);
    auto const size = std::size_t{r.number<std::uint32_t>()};
    if (size > largest_) fail("is of " + format_bytes(size) + ", and the most is " + format_bytes(largest_));
    if (in_.size() < head + size + code_size) return std::nullopt;
    std::string_view const all = in_, said = all.substr(0, head + size);
    if (!equal_in_constant_time(code(keys_.receiving, received_, said), all.substr(said.size(), code_size)))
      fail("is not authentic");
    ++received_;
    auto const word = r.number<std::uint8_t>();
    if (word > static_cast<std::uint8_t>(board_word::leave)) fail("is of a kind that there is not");
    board_message m{static_cast<board_word>(word), std::string(r.take(size))};
    in_.erase(0, said.size() + code_size);
    return m;
  }

 private:
  static constexpr std::size_t head = 5, code_size = 16;

  static std::string code(sha256_digest const& key, std::uint64_t number, std::string_view said) {
    auto const all = hmac_sha256(key).add(board_writer().number(number).bytes).add(said).digest();
    return {reinterpret_cast<char const*>(all.data()), code_size};
  }
  [[noreturn]] void fail(std::string const& what) const {
    throw board_message_error("a message of " + name() + " " + what);
  }
  void fall_silent() {
    out_.clear();
    out_at_ = 0;
    silent_ = true;
  }

  tcp_socket socket_;
  rank_id peer_;
  network_address address_;
  board_keys keys_;
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

inline constexpr std::string_view board_mark = "cleavebd";
inline constexpr std::uint32_t board_version = 1;
inline constexpr std::size_t nonce_size = 16, greeting_size = 28, hello_size = 68, longest_verdict = 512;
/// The fewest bytes that a key has.
inline constexpr std::size_t shortest_board_key = 16;

/// Bytes that nobody can foretell; 256 at most. \throws error where the system gives none.
inline std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (::getentropy(bytes.data(), bytes.size()) != 0) throw error("the system gives no random numbers");
  return bytes;
}

/// A key for one run, in hexadecimal digits: what starts the ranks draws it and tells it to all of them.
inline std::string random_board_key() {
  std::string key;
  for (char const c : random_bytes(32)) {
    key += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    key += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return key;
}

/// What is wrong with a key, if anything.
inline std::optional<std::string> find_key_fault(std::string_view key) {
  if (key.size() >= shortest_board_key) return std::nullopt;
  return "the key of the board has " + std::to_string(key.size()) + " bytes; give it at least " +
         std::to_string(shortest_board_key) + ", as random_board_key() does";
}

/// A code of what was said so far; different for each use, since the bytes begin with it.
inline sha256_digest handshake_digest(std::string_view key, std::string_view use, std::string_view said) {
  return hmac_sha256(key).add(use).add(said).digest();
}
inline std::string handshake_code(std::string_view key, std::string_view use, std::string_view said) {
  auto const all = handshake_digest(key, use, said);
  return {reinterpret_cast<char const*>(all.data()), all.size()};
}

inline std::string make_greeting(std::string_view nonce) {
  return std::string(board_mark) + board_writer().number(board_version).bytes + std::string(nonce);
}

/// What a rank says of itself.
struct board_hello {
  std::uint32_t version = board_version;
  rank_id rank;
  std::uint32_t ranks;
};

inline std::string make_hello(std::string_view key, std::string_view greeting, board_hello const& h,
                              std::string_view nonce) {
  board_writer w;
  w.bytes = board_mark;
  w.number(h.version).number(index(h.rank)).number(h.ranks).bytes += nonce;
  return w.bytes + handshake_code(key, "hello", std::string(greeting) + w.bytes);
}

/// The version that a greeting or hello begins with, or nothing where it is no such thing. Precondition: of
/// its size.
inline std::optional<std::uint32_t> find_version(std::string_view said) {
  if (!said.starts_with(board_mark)) return std::nullopt;
  return board_reader(said.substr(board_mark.size())).number<std::uint32_t>();
}

/// Precondition: of its size.
inline board_hello read_hello(std::string_view hello) {
  board_reader r(hello.substr(board_mark.size()));
  board_hello h{.version = r.number<std::uint32_t>(), .rank = r.rank(), .ranks = 0};
  h.ranks = r.number<std::uint32_t>();
  return h;
}
inline bool is_authentic(std::string_view key, std::string_view greeting, std::string_view hello) {
  auto const code_at = hello_size - sizeof(sha256_digest);
  auto const said = std::string(greeting) + std::string(hello.substr(0, code_at));
  return equal_in_constant_time(handshake_code(key, "hello", said), hello.substr(code_at));
}

/// `why` is empty where the rank has joined. `before` is greeting and hello.
inline std::string make_verdict(std::string_view key, std::string const& before, std::string why) {
  board_writer w;
  w.text(shortened(std::move(why), longest_verdict));
  return w.bytes + handshake_code(key, "verdict", before + w.bytes);
}

/// How many bytes follow the first four of a verdict; nothing where it is none.
inline std::optional<std::size_t> find_rest_of_verdict(std::string_view first) {
  auto const size = board_reader(first).number<std::uint32_t>();
  if (size > longest_verdict) return std::nullopt;
  return size + sizeof(sha256_digest);
}

struct board_verdict {
  std::string why;
  bool authentic;
};

/// Precondition: `bytes` is one verdict as a whole.
inline board_verdict read_verdict(std::string_view key, std::string const& before, std::string_view bytes) {
  auto const said = bytes.substr(0, bytes.size() - sizeof(sha256_digest));
  auto const code = handshake_code(key, "verdict", before + std::string(said));
  return {std::string(said.substr(4)), equal_in_constant_time(code, bytes.substr(said.size()))};
}

/// The keys of rank 0's end, or of the other one.
inline board_keys make_board_keys(std::string_view key, std::string const& before, rank_id whose) {
  auto const down = handshake_digest(key, "down", before), up = handshake_digest(key, "up", before);
  return index(whose) == 0 ? board_keys{down, up} : board_keys{up, down};
}

}  // namespace cleave::detail
