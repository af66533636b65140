// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <optional>

#include "cleave/run/board/tcp_board.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/processes/rank_watch.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave {

/// What a rank that is a process computes and sends with.
/// - `B::device`, `B::communicator`
/// - `b.board()`, `b.own_device()`  those of this rank
/// - `b.connect_all()`           a communicator of all ranks, for messages and sums
/// - `b.connect(colour, key)`    one of those that say the same colour, in the order of their keys; null
///                               where this rank says none. Every rank calls it, in the same order.
/// - `b.connect_sums(colour, key)`  the same, for sums alone
/// - `b.prepare(c, program)`     makes ready what a program of this rank sends; every rank of `c` calls it
/// - `b.release(f)`              of `rank_watch::waiter`
/// - `b.end()`                   after a failure: then nothing uses memory of this rank any more; noexcept
template <class B>
concept process_backend =
    communicator<typename B::communicator, typename B::device> && std::derived_from<B, rank_watch::waiter> &&
    requires(B& b, std::optional<std::uint32_t> colour, std::uint32_t key, typename B::communicator& c,
             rank_program const& program) {
      { b.board() } -> std::same_as<tcp_board&>;
      { b.own_device() } -> std::same_as<typename B::device&>;
      { b.connect_all() } -> std::same_as<typename B::communicator&>;
      { b.connect(colour, key) } -> std::same_as<typename B::communicator*>;
      { b.connect_sums(colour, key) } -> std::same_as<typename B::communicator*>;
      { b.prepare(c, program) };
      { b.end() } noexcept;
    };

}  // namespace cleave

namespace cleave::detail {

/// How many processes there are, for a message where they are not as many as needed.
struct started_processes {
  std::uint32_t count;
  char const *by, *how;  ///< `MPI has started`, `mpirun -n`
};

}  // namespace cleave::detail
