// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// A point in time of a rank that is a process. One that nothing was recorded in has happened. For one
/// thread.
class mpi_event {
 public:
  using clock = std::chrono::steady_clock;

  struct state {
    bool happened = true;
    clock::time_point at = {};

    void pass() {
      at = clock::now();
      happened = true;
    }
  };

  bool happened() const { return state_.empty() || state_[0].happened; }
  /// Precondition: it has happened.
  clock::time_point at() const { return state_.empty() ? clock::time_point{} : state_[0].at; }

  /// It happens when whoever is given the result says so. That stays where it is, as long as this or what it
  /// is moved to lives. Precondition: it has happened.
  state& expect() {
    if (state_.empty()) state_.resize(1);
    state_[0].happened = false;
    return state_[0];
  }

 private:
  std::vector<state> state_;  // none until it is used
};

}  // namespace cleave::detail
