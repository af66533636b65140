// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cleave/core/ids.hpp"
#include "cleave/run/board/board_connection.hpp"
#include "cleave/run/board/board_hub.hpp"
#include "cleave/run/board/board_links.hpp"
#include "cleave/run/board/board_member.hpp"
#include "cleave/run/board/board_message.hpp"
#include "cleave/run/model/failure.hpp"

namespace cleave::detail {

/// Carries what ranks say: from this one to rank 0, what has arrived to whom it is for, and, at rank 0, what
/// that decides to all. It waits for nothing, and wants a mutex.
class board_post {
 public:
  using time_point = board_hub::time_point;

  /// `member` and `links` must outlive it.
  board_post(rank_id here, std::uint32_t ranks, std::chrono::nanoseconds answer_within, board_member& member,
             board_links& links)
      : here_(here), member_(member), links_(links), hub_(ranks, answer_within) {}

  void tell_hub(board_message const& m) {
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
    links_.each_open([this](board_connection& c) { listen_to(c); });
  }

  /// Rank 0 decides what is to be decided by now.
  void pass(time_point now) { hub_.pass(now); }
  std::optional<time_point> due() const { return hub_.due(); }
  /// Nobody needs this rank any more, which only rank 0 can say of itself.
  bool is_done() const { return !is_hub() || hub_.is_alone(); }

 private:
  bool is_hub() const { return here_ == rank_id{0}; }

  void listen_to(board_connection& c) {
    bool const open = c.receive();
    try {
      while (auto const m = c.next()) take(c, *m);
      if (open) return;
      lose(c, failure_code::peer_lost, "the connection to " + c.name() + " has ended");
    } catch (board_message_error const& e) {
      lose(c, failure_code::transport, e.what());
    }
  }
  void take(board_connection& c, board_message const& m) {
    try {
      if (is_hub())
        hub_.take(c.peer(), m, std::chrono::steady_clock::now());
      else
        member_.take(m);
    } catch (board_message_error const& e) {
      throw board_message_error("a message of " + c.name() + " makes no sense: " + e.what());
    }
    if (m.word == board_word::leave) c.finish();
  }
  void lose(board_connection& c, failure_code code, std::string const& why) {
    c.close();
    if (has_said_good_bye_) return;
    if (is_hub())
      hub_.lose(c.peer(), code, why);
    else
      member_.lose_hub(rank_presence::lost, code, why);
  }

  rank_id here_;
  board_member& member_;
  board_links& links_;
  board_hub hub_;  // idle but at rank 0
  bool has_said_good_bye_ = false;
};

}  // namespace cleave::detail
