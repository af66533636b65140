// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>

#include "cleave/run/model/concepts.hpp"

namespace cleave {

/// Whether an executor issues each step, or has its device do again what it issued in an earlier one.
enum class step_mode : std::uint8_t { issued, replayed };

}  // namespace cleave

namespace cleave::detail {

/// A device that writes down what is issued to it, and does all of that again as often as it is asked to.
/// - `D::recording`         movable. What it does uses the memory and the sums that were issued.
/// - `d.begin_recording(s)` what is issued to `s` from now on is written down and not done; so is what is
///                          issued to streams that wait for an event recorded in these since.
///                          Precondition: all that was issued to other streams has ended.
/// - `d.end_recording(s)`   what was written down; streams do again what is issued to them. Precondition: `s`
///                          waits for all of it. \throws run_error where that is not so, or something was
///                          issued that cannot be written down
/// - `d.drop_recording(s)`  ends it too, whatever state it is in, and forgets what was written down;
/// noexcept.
/// - `d.replay(r, s)`       all of it, as one piece of work.
///
/// An event that was recorded before has happened for what is written down, and one that is recorded in
/// between has, afterwards, at no time. Nothing may ask for these until the recording ends.
template <class D>
concept recording_device = device<D> && std::movable<typename D::recording> &&
                           requires(D& d, typename D::stream& s, typename D::recording const& r) {
                             { d.begin_recording(s) };
                             { d.end_recording(s) } -> std::same_as<typename D::recording>;
                             { d.drop_recording(s) } noexcept;
                             { d.replay(r, s) };
                           };

/// Whose groups can be part of a recording. All their ranks record them, or none does, and they replay what
/// they have recorded together.
/// - `C::can_be_recorded`  true
template <class C, class D>
concept recorded_communicator =
    communicator<C, D> && recording_device<D> && requires { requires C::can_be_recorded; };

/// Stages that say whether what they issue is the same in each step, in the same memory, and can be written
/// down. Those that say nothing are never recorded: what they call may keep memory of its own, and use it for
/// something else between the steps.
/// - `st.records()`
template <class S>
concept recorded_stage = requires(S const& st) {
  { st.records() } -> std::same_as<bool>;
};

}  // namespace cleave::detail
