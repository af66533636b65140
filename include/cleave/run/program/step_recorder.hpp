// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/schedule/calls/call_options.hpp"

namespace cleave::inline v0_2::detail {

/// Copies of the caller's inputs at fixed addresses, so that each step reads them at the same place.
template <device D>
class input_copies {
 public:
  /// Precondition: the shapes of inputs are known in advance.
  input_copies(D& d, rank_program const& p) : device_(d) {
    std::uint64_t bytes = 0;
    for (auto const& pass : p.passes)
      for (auto const& v : pass.in)
        if (v.place.where == place_kind::input)
          of_each_ = (std::max)(of_each_, static_cast<std::size_t>(v.place.at) + 1);
    views_.resize(of_each_ * p.microbatches);
    std::vector<bool> seen(views_.size());  // several stages may read the same input
    for (auto const& i : p.instructions) {
      if (!is_forward_pass(i.call)) continue;
      auto const m = i.call.of.microbatch;
      for (auto const& v : p.passes[i.pass].in) {
        if (v.place.where != place_kind::input) continue;
        auto const number = static_cast<std::size_t>(v.place.at), own = index(m) * of_each_ + number;
        if (seen[own]) continue;
        seen[own] = true;
        views_[own] = {nullptr, p.layouts.edges[v.edge].type, p.layouts.shape_of(v.edge, m)};
        auto const size = views_[own].elements().bytes();
        copied_.push_back({index(m), number, own, size, bytes});
        bytes += (size + alignment - 1) / alignment * alignment;
      }
    }
    memory_ = d.allocate(static_cast<std::size_t>(bytes));
    void* const data = memory_.data();
    for (auto const& c : copied_) views_[c.own].data = static_cast<std::byte*>(data) + c.at;
  }

  /// Issues copies of the inputs to `s`. Returns `v` with views of the copies, valid once that work has
  /// ended. Keeps references to `v`'s other members.
  step_values take(step_values const& v, typename D::stream& s) {
    for (auto const& c : copied_)
      device_.copy(s, views_[c.own].data, v.inputs[c.microbatch * v.inputs_of_each + c.number].data, c.bytes);
    auto own = v;
    own.inputs = views_;
    own.inputs_of_each = of_each_;
    return own;
  }

 private:
  static constexpr std::uint64_t alignment = 256;
  struct copied_input {
    std::size_t microbatch, number;
    std::size_t own;  // index into `views_`
    std::size_t bytes;
    std::uint64_t at;  // offset in `memory_`
  };

  D& device_;
  typename D::buffer memory_;
  std::vector<copied_input> copied_;
  std::size_t of_each_ = 0;
  std::vector<tensor_view> views_;
};

/// Returns the reason why steps of a program cannot be replayed with this device and communicator, or
/// nothing. O(edges).
template <class D, class C, class S>
std::optional<std::string> find_replay_obstacle(rank_program const& p, S const& stages) {
  if constexpr (!recording_device<D>) {
    return "the device cannot record issued work";
  } else if constexpr (!recorded_communicator<C, D>) {
    return "the communicator sends messages that cannot be recorded";
  } else {
    for (std::size_t e = 0; e < p.layouts.edges.size(); ++e)
      if (p.layouts.edges[e].extents == shape_kind::dynamic)
        return "the shape of edge #" + std::to_string(e) + " is known only while a step runs";
    if constexpr (recorded_stage<S>) {
      if (stages.records()) return std::nullopt;
      return "the stages declare that their work cannot be recorded (records() is false)";
    } else {
      return "the stages do not declare that their work can be recorded (records())";
    }
  }
}

/// The end of a step: a plain one, or an update of parameters.
enum class step_ending : std::uint8_t { plain, update };

/// Issues the steps of a program, or replays them. The first step of each kind is issued, the second is
/// recorded, and every step from the second on is a replay. Steps that sum gradients, and steps that end
/// with an update, are kinds of their own. If the weights change, the step is recorded again.
///
/// All ranks must record a step, or none. So the decision depends only on arguments that are the same on all
/// ranks. In particular it does not depend on the addresses of inputs: inputs are copied to a fixed place,
/// where recordings read them.
template <device D>
class step_recorder {
 public:
  /// `obstacle` is the reason why all steps are issued, if they are.
  step_recorder(D& d, rank_program const& p, std::optional<std::string> obstacle)
      : device_(d), obstacle_(std::move(obstacle)) {
    if (!obstacle_) inputs_.emplace(d, p);
  }

  /// Returns why steps are issued, or nothing if they are replayed.
  std::optional<std::string> const& obstacle() const { return obstacle_; }
  /// Switches to issuing all steps, for example because another rank cannot replay. Precondition: no step has
  /// been recorded.
  void issue_all(std::string why) {
    obstacle_ = std::move(why);
    inputs_.reset();
  }
  /// Returns the number of steps recorded so far.
  std::size_t recordings() const { return recordings_; }
  /// Returns true if issued work is currently recorded instead of executed.
  bool is_recording() const { return is_recording_; }

  /// Returns the values that the step reads, valid until the next step. Issues their copies to `s`.
  step_values take_inputs(step_values const& v, typename D::stream& s) {
    return inputs_ ? inputs_->take(v, s) : v;
  }

  /// Runs the step that `issue()` issues; it begins and ends on `s`. Returns true if it was replayed.
  template <class Issue>
  bool carry_out(step_values const& v, step_ending ending, typename D::stream& s, Issue issue) {
    if constexpr (recording_device<D>) {
      auto& of = kinds_[(v.gradients == gradient_end::reduced ? 1u : 0u) +
                        (ending == step_ending::update ? 2u : 0u)];
      if (!obstacle_ && std::exchange(of.was_issued, true)) {
        if (!of.recorded || !std::ranges::equal(of.weights, v.weights)) record(of, v, s, issue);
        device_.replay(*of.recorded, s);
        return true;
      }
    }
    issue();
    return false;
  }

  /// Releases all recordings. Communicators can only be destroyed after the recordings that use them.
  /// Precondition: no step follows.
  void forget() noexcept {
    for (auto& k : kinds_) k.recorded.reset();
  }

 private:
  struct nothing {};
  template <class Device, bool = recording_device<Device>>
  struct recording_of {
    using type = nothing;
  };
  template <class Device>
  struct recording_of<Device, true> {
    using type = typename Device::recording;
  };
  struct step_kind {
    bool was_issued = false;
    std::vector<double> weights;
    std::optional<typename recording_of<D>::type> recorded;
  };

  template <class Issue>
  void record(step_kind& of, step_values const& v, typename D::stream& s, Issue issue) {
    of.recorded.reset();
    of.weights.assign(v.weights.begin(), v.weights.end());
    device_.begin_recording(s);
    is_recording_ = true;
    try {
      issue();
    } catch (...) {
      is_recording_ = false;
      device_.drop_recording(s);
      throw;
    }
    is_recording_ = false;
    of.recorded.emplace(device_.end_recording(s));
    ++recordings_;
  }

  D& device_;
  std::optional<std::string> obstacle_;
  std::optional<input_copies<D>> inputs_;  // only if steps are replayed
  std::array<step_kind, 4> kinds_;
  std::size_t recordings_ = 0;
  bool is_recording_ = false;
};

}  // namespace cleave::detail
