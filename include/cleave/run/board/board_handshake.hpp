// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/board/board_connection.hpp"
#include "cleave/run/board/board_message.hpp"
#include "cleave/run/board/message_authentication.hpp"

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
