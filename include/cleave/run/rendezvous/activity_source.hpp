// SPDX-License-Identifier: MIT
#pragma once
#include <mutex>
#include <optional>

#include "cleave/run/model/wait_chain.hpp"

namespace cleave {

/// Says what a rank does, when somebody asks.
class activity_source {
 public:
  /// Called by the rendezvous's thread; must not wait for anything.
  virtual detail::rank_activity activity() const = 0;

 protected:
  ~activity_source() = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Whom a rendezvous asks what its rank does; nobody at first. Any thread may call any member.
class asked_source {
 public:
  /// Nobody where it is null. On return nobody asks the one before any more.
  void change_to(activity_source const* source) {
    std::lock_guard lock(mutex_);
    source_ = source;
  }

  /// Nothing where nobody answers.
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
