// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <memory>

namespace cleave {

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

  bool happened() const { return !state_ || state_->happened; }
  /// Precondition: it has happened.
  clock::time_point at() const { return state_ ? state_->at : clock::time_point{}; }

  /// It happens when whoever takes the result says so.
  std::shared_ptr<state> expect() {
    if (!state_ || state_.use_count() > 1) state_ = std::make_shared<state>();
    state_->happened = false;
    return state_;
  }

 private:
  std::shared_ptr<state> state_;
};

}  // namespace cleave
