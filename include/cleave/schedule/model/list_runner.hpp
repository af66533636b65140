// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Runs lists of actions, each in order, until all have ended or none can continue. A list that needs an
/// event which has not happened waits for it. It is retried when the event happens.
///
/// The caller decides what each action requires and which events it triggers. It calls `waits_for`, `happen`
/// and `wake` with event numbers, and `pass` for each completed action. All members are O(1) except `run`.
class list_runner {
 public:
  list_runner() = default;
  list_runner(std::vector<std::size_t> lengths, std::size_t events)
      : length_(std::move(lengths)),
        position_(length_.size()),
        next_waiter_(length_.size()),
        state_(events) {}

  std::uint32_t lists() const { return static_cast<std::uint32_t>(length_.size()); }
  /// Returns the position of the next action of a list.
  std::size_t position(std::uint32_t list) const { return position_[list]; }
  bool is_finished(std::uint32_t list) const { return position_[list] == length_[list]; }
  /// Marks the next `actions` actions of a list as done.
  void pass(std::uint32_t list, std::size_t actions = 1) { position_[list] += actions; }

  bool has_happened(std::size_t event) const { return state_[event] == done; }
  /// Returns true if an event has not happened yet. If so, the list waits for it.
  bool waits_for(std::uint32_t list, std::size_t event) {
    if (has_happened(event)) return false;
    next_waiter_[list] = std::exchange(state_[event], list + 2);
    return true;
  }
  /// Marks an event as happened and wakes the lists that wait for it.
  void happen(std::size_t event) { wake_all(std::exchange(state_[event], done)); }
  /// Wakes the lists that wait for an event without marking it; they may wait for it again.
  void wake(std::size_t event) {
    if (!has_happened(event)) wake_all(std::exchange(state_[event], 0));
  }

  /// Runs the lists, first the first one, then always the list that was woken last. `go_on(list)` does the
  /// next action and returns true, or makes the list wait and returns false. Returns true if all lists have
  /// ended.
  template <class F>
  bool run(F go_on) {
    return run(go_on, [] { return false; });
  }
  /// Does the same, and calls `go_on_idle()` whenever no list can continue. That causes the next event and
  /// returns true, or returns false if there is none.
  template <class F, class Idle>
  bool run(F go_on, Idle go_on_idle) {
    for (auto l = lists(); l-- > 0;) awake_.push_back(l);
    do {
      while (!awake_.empty()) {
        auto const l = awake_.back();
        awake_.pop_back();
        while (!is_finished(l) && go_on(l)) {
        }
      }
    } while (go_on_idle());
    for (std::uint32_t l = 0; l < lists(); ++l)
      if (!is_finished(l)) return false;
    return true;
  }

 private:
  static constexpr std::uint32_t done = 1;

  void wake_all(std::uint32_t waiter) {
    for (; waiter > done; waiter = next_waiter_[waiter - 2]) awake_.push_back(waiter - 2);
  }

  std::vector<std::size_t> length_, position_;
  std::vector<std::uint32_t> next_waiter_;  // per list: 2 + the next list that waits for the same event
  std::vector<std::uint32_t> state_;        // per event: 0, `done`, or 2 + the last list that began to wait
  std::vector<std::uint32_t> awake_;
};

/// Returns the length of each list.
template <class Rows>
std::vector<std::size_t> lengths_of(Rows const& rows) {
  std::vector<std::size_t> lengths;
  for (auto const& row : rows) lengths.push_back(row.size());
  return lengths;
}

}  // namespace cleave::detail
