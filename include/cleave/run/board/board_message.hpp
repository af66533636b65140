// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
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
