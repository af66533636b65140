// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <span>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/failure.hpp"

/// What streams values of any C++ type through stages, forward only and within one process.
namespace cleave {

/// What moves between stages: a tensor, a set of them, a handle to either. A moved-from or default value may
/// be assigned to.
template <class Value>
concept stage_value = std::movable<Value> && std::default_initializable<Value>;

}  // namespace cleave

namespace cleave::detail {

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
concept value_communicator =
    clocked_device<D> && stage_value<Value> &&
    requires(C& c, Value& v, envelope const& which, typename D::stream& s, failure const& f) {
      { c.send(v, which, s) };
      { c.recv(v, which, s) };
      { c.abort(f) } noexcept;
    };

/// The user's code for all stages that one device runs.
/// - `st.forward(s, i, mb, in, out)`  issues to `s` what makes `out`, the results of stage `i` that are read,
///                                   from `in`, its inputs, both in the order of the transport. May move
///                                   from `in`.
template <class S, class D, class Value>
concept value_stage =
    clocked_device<D> && stage_value<Value> &&
    requires(S& st, typename D::stream& s, stage_id i, microbatch_id mb, std::span<Value> values) {
      { st.forward(s, i, mb, values, values) };
    };

}  // namespace cleave::detail
