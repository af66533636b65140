// SPDX-License-Identifier: MIT
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/board/board_connection.hpp"
#include "cleave/run/board/board_message.hpp"
#include "cleave/run/board/tcp_socket.hpp"

namespace cleave::detail {

/// The connections of a rank, those by rank to all others at rank 0, elsewhere the one to rank 0; and what
/// wakes the thread that waits for them. All but `wake` and `wait` wants a mutex.
class board_links {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  /// \throws socket_error
  board_links() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw socket_error("making a pipe", errno);
    woken_ = tcp_socket(ends[0]);
    waker_ = tcp_socket(ends[1]);
  }
  void open(std::vector<std::optional<board_connection>> to) { to_ = std::move(to); }

  /// Without effect where the connection has ended. `send` begins to send it.
  void put(rank_id to, board_message const& m) {
    if (is_open(to_[index(to)])) to_[index(to)]->put(m);
  }
  void put_good_byes() {
    each_open([](board_connection& c) {
      c.put({board_word::leave});
      c.finish();
    });
  }
  void send() {
    each_open([](board_connection& c) {
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
  static bool is_open(std::optional<board_connection> const& c) { return c && c->is_open(); }

  std::vector<std::optional<board_connection>> to_;
  tcp_socket woken_, waker_;
};

}  // namespace cleave::detail
