// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

#include "cleave/core/ids.hpp"
#include "cleave/run/board/activity_source.hpp"
#include "cleave/run/board/tcp_board.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/failure.hpp"

namespace cleave::detail {

/// The board of a rank that is a process, as what runs there sees it: what it publishes says which rank
/// failed and what that was doing, and is decided on when it returns.
class failure_teller {
 public:
  /// Both must outlive it; `source` says what the rank does.
  failure_teller(tcp_board& b, activity_source const& source) : board_(b), source_(source) {}

  void publish(failure const& f) noexcept {
    if (board_.poll()) return;
    try {
      auto mine = f;
      if (f.reporter == no_rank || f.code == failure_code::stage) mine.reporter = board_.rank();
      if (f.code == failure_code::stage) mine.culprit = board_.rank();
      board_.publish(placed(std::move(mine)));
    } catch (...) {  // no memory for the words
      board_.publish({f.code, f.at, {}, f.cause, board_.rank()});
    }
    board_.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(2));
  }
  std::optional<failure> poll() const { return board_.poll(); }

  /// The exception that is being handled. Call it in a `catch` clause.
  void publish_current() noexcept {
    try {
      throw;
    } catch (run_error const& e) {
      publish(e.info);
    } catch (std::exception const& e) {
      publish({.code = failure_code::cancelled, .detail = e.what(), .reporter = board_.rank()});
    } catch (...) {
      publish({.code = failure_code::cancelled, .reporter = board_.rank()});
    }
  }

  /// As this rank tells it: with what it is doing, unless whoever reported it said what that one did.
  failure placed(failure f) const noexcept {
    try {
      auto const a = source_.activity();
      if (f.at && (!f.operation.empty() || f.reporter != board_.rank())) return f;
      f.reporter = board_.rank();
      if (!f.at) f.at = a.at;
      f.operation = a.operation.empty() ? "between steps" : a.operation;
    } catch (...) {
      return f;  // no memory for the words
    }
    return f;
  }

 private:
  tcp_board& board_;
  activity_source const& source_;
};

static_assert(board<failure_teller>);

}  // namespace cleave::detail
