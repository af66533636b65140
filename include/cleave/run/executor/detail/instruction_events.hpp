// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave::detail {

/// Begin and end of an instruction, in nanoseconds since the start of the rank's step.
struct instruction_time {
  std::int64_t begin = 0, end = 0;

  bool operator==(instruction_time const&) const = default;
};

/// The begin and end events of a program's passes, messages and other stage calls on a device. The parts of
/// an exchange or of a custom compound share the events of their head. Refers to both arguments of the
/// constructor.
template <device D>
class instruction_events {
 public:
  instruction_events(D& d, rank_program const& p)
      : device_(d), program_(p), heads_(heads_of(p)), origin_(d.make_event()) {
    for (std::size_t i = 0; i < p.instructions.size(); ++i) {
      begins_.push_back(d.make_event());
      ends_.push_back(d.make_event());
    }
  }

  /// Sets the origin of times.
  void begin_step(typename D::stream& s) { device_.record(origin_, s); }

  /// Records the begin of instruction `i`. Precondition of this and the next two functions: `i` has events.
  void begin(std::uint32_t i, typename D::stream& s) { device_.record(begin_of(i), s); }
  void end(std::uint32_t i, typename D::stream& s) { device_.record(end_of(i), s); }
  typename D::event& end_of(std::uint32_t i) { return ends_[heads_[i]]; }

  /// Returns the first instruction that has not ended, or nothing. O(instructions).
  std::optional<std::uint32_t> find_open() {
    for (std::uint32_t i = 0; i < heads_.size(); ++i)
      if (happens(i) && !device_.query(end_of(i))) return i;
    return std::nullopt;
  }

  /// Returns the times of all instructions. A message begins when it could be sent and ends when it has been
  /// transferred. Precondition: a step has ended.
  std::vector<instruction_time> times() {
    std::vector<instruction_time> all(heads_.size());
    for (std::uint32_t i = 0; i < all.size(); ++i)
      if (happens(i)) all[i] = {since_origin(begin_of(i)), since_origin(end_of(i))};
    return all;
  }

 private:
  typename D::event& begin_of(std::uint32_t i) { return begins_[heads_[i]]; }

  bool happens(std::uint32_t i) const {
    auto const k = program_.instructions[i].call.kind;
    return is_pass(k) || is_custom(k) || k == call_kind::send || k == call_kind::receive ||
           k == call_kind::other;
  }

  std::int64_t since_origin(typename D::event const& e) const {
    return std::int64_t{std::chrono::nanoseconds(device_.elapsed(origin_, e)).count()};
  }

  D& device_;
  rank_program const& program_;
  std::vector<std::uint32_t> heads_;  // by instruction: the compound it belongs to, or itself
  typename D::event origin_;
  std::vector<typename D::event> begins_, ends_;  // by instruction; only those of heads are used
};

}  // namespace cleave::detail
