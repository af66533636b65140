// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/bytes.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/board/board_message.hpp"
#include "cleave/run/board/message_authentication.hpp"
#include "cleave/run/board/network_address.hpp"
#include "cleave/run/board/tcp_socket.hpp"

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
