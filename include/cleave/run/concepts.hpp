// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>

#include "cleave/core/ids.hpp"
#include "cleave/run/failure.hpp"

/// What carries stages out. The loops of `run/` are written against these four concepts only; host threads,
/// MPI processes and CUDA devices are models of them. Each asks for exactly what those loops use.
namespace cleave {

/// What moves between stages: a tensor, a set of them, a handle to either. A moved-from or default value may
/// be assigned to.
template <class Value>
concept stage_value = std::movable<Value> && std::default_initializable<Value>;

/// Where stages compute. A stream runs its work in issue order; nothing is ordered across streams but by
/// events.
/// - `D::stream`, `D::event`   movable.
/// - `d.make_stream(priority)` a stream; the smaller the number, the sooner its work.
/// - `d.make_event()`          a point in time, not yet known.
/// - `d.record(e, s)`          `e` becomes the time at which all that was issued to `s` so far has ended.
/// - `d.elapsed(from, to)`     the time between two events that have happened.
template <class D>
concept device = std::movable<typename D::stream> && std::movable<typename D::event> &&
                 requires(D& d, typename D::stream& s, typename D::event& e, typename D::event const& past) {
                   { d.make_stream(int{}) } -> std::same_as<typename D::stream>;
                   { d.make_event() } -> std::same_as<typename D::event>;
                   { d.record(e, s) };
                   { d.elapsed(past, past) } -> std::convertible_to<std::chrono::nanoseconds>;
                 };

/// Which transfer: an edge of the transport, for one microbatch. Both ends name it alike, so that a
/// disagreement is an error and not a wrong value or a wait for ever.
struct envelope {
  std::uint32_t edge;
  microbatch_id microbatch;

  bool operator==(envelope const&) const = default;
};

/// What takes values from the stage that makes them to the stage that reads them, in stream order. Transfers
/// of one edge match in issue order. A transfer may wait for its peer, never for a transfer of another edge.
/// - `c.send(v, which, s)`  moves `v` out.
/// - `c.recv(v, which, s)`  moves what was sent into `v`.
/// - `c.abort(f)`           from any thread: releases everyone who waits in a transfer, now and later;
///                          noexcept.
/// The first two throw `run_error` once the run is aborted, and on a mismatch.
template <class C, class D, class Value>
concept communicator =
    device<D> && stage_value<Value> &&
    requires(C& c, Value& v, envelope const& which, typename D::stream& s, failure const& f) {
      { c.send(v, which, s) };
      { c.recv(v, which, s) };
      { c.abort(f) } noexcept;
    };

/// Who said what, out of band of the data: the first failure that is published is the one everybody reads.
/// - `b.publish(f)`  from any thread; noexcept.
/// - `b.poll()`      the first failure, or nothing; never waits.
template <class B>
concept board = requires(B& b, failure const& f) {
  { b.publish(f) } noexcept;
  { b.poll() } -> std::same_as<std::optional<failure>>;
};

/// The user's code for all stages that one device runs.
/// - `st.forward(s, i, mb, in, out)`  issues to `s` what makes `out`, the results of stage `i` that are read,
///                                   from `in`, its inputs, both in the order of the transport. May move
///                                   from `in`.
template <class S, class D, class Value>
concept stage =
    device<D> && stage_value<Value> &&
    requires(S& st, typename D::stream& s, stage_id i, microbatch_id mb, std::span<Value> values) {
      { st.forward(s, i, mb, values, values) };
    };

}  // namespace cleave
