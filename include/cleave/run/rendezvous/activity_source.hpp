// SPDX-License-Identifier: MIT
#pragma once
#include <mutex>
#include <optional>

#include "cleave/run/model/wait_chain.hpp"

namespace cleave::inline v0_2 {

/// An object that reports the current activity of a rank.
class activity_source {
 public:
  /// Returns the current activity. Called by the rendezvous's thread; must not block.
  virtual detail::rank_activity activity() const = 0;

 protected:
  ~activity_source() = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The activity source that a rendezvous asks, initially none. Thread-safe.
class asked_source {
 public:
  /// Replaces the source; null means none. On return the previous source is no longer being called.
  void change_to(activity_source const* source) {
    std::lock_guard lock(mutex_);
    source_ = source;
  }

  /// Returns the activity, or nothing if there is no source or it throws.
  std::optional<rank_activity> activity() noexcept {
    std::lock_guard alone(mutex_);
    try {
      return source_ != nullptr ? std::optional(source_->activity()) : std::nullopt;
    } catch (...) {
      return std::nullopt;
    }
  }

 private:
  std::mutex mutex_;
  activity_source const* source_ = nullptr;
};

}  // namespace cleave::detail
