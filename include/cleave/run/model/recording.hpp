// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>

#include "cleave/run/model/concepts.hpp"

namespace cleave::inline v0_2 {

/// The mode of an executor: it issues each step, or its device replays a recorded one.
enum class step_mode : std::uint8_t { issued, replayed };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A device that records issued work and replays it any number of times, like a CUDA graph.
/// - `D::recording`: movable. A replay uses the same memory and sums as the recorded work.
/// - `d.begin_recording(s)`: records the work issued to `s` from now on instead of executing it. Also records
///   work issued to streams that wait for an event recorded during the recording. Precondition: all work
///   issued to other streams has ended.
/// - `d.end_recording(s)`: returns the recording; streams execute work again. Precondition: `s` waits for all
///   recorded work. \throws run_error if it does not, or if some of the work cannot be recorded
/// - `d.drop_recording(s)`: ends and discards the recording, whatever its state; noexcept.
/// - `d.replay(r, s)`: issues the whole recording as one piece of work.
///
/// An event recorded before the recording counts as happened for the recorded work. An event recorded during
/// the recording has no defined time afterwards; do not query such events until the recording ends.
template <class D>
concept recording_device = device<D> && std::movable<typename D::recording> &&
                           requires(D& d, typename D::stream& s, typename D::recording const& r) {
                             { d.begin_recording(s) };
                             { d.end_recording(s) } -> std::same_as<typename D::recording>;
                             { d.drop_recording(s) } noexcept;
                             { d.replay(r, s) };
                           };

/// A communicator whose groups can be part of a recording. Either all its ranks record a group, or none does.
/// They replay their recordings together.
/// - `C::can_be_recorded`: true.
template <class C, class D>
concept recorded_communicator =
    communicator<C, D> && recording_device<D> && requires { requires C::can_be_recorded; };

/// A stage that declares whether its work can be recorded: the same work in every step, on the same memory.
/// Stages without this member are never recorded, because a library they call may reuse its own memory for
/// something else between steps.
/// - `st.records()`: returns true if the work can be recorded.
template <class S>
concept recorded_stage = requires(S const& st) {
  { st.records() } -> std::same_as<bool>;
};

/// A stage that is told when its work is recorded. A library that it calls may keep freed memory for others;
/// it must then take the memory of recorded work from a place of its own, which lives as long as the stage.
/// - `st.begin_recording(s)`: the work that is issued to `s` from now on is recorded.
/// - `st.end_recording(s)`: the work of the step has been issued, or issuing it has failed. Does not throw.
template <class S, class D>
concept told_of_recordings = requires(S& st, typename D::stream& s) {
  { st.begin_recording(s) };
  { st.end_recording(s) };
};

}  // namespace cleave::detail
