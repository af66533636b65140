// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/run/model/concepts.hpp"
#include "cleave/run/program/packed_program.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave::inline v0_2::detail {

/// Begin and end of an instruction, in nanoseconds since the start of the rank's step.
struct instruction_time {
  std::int64_t begin = 0, end = 0;

  bool operator==(instruction_time const&) const = default;
};

/// The begin and end events of a program's passes, messages and other stage calls on a device. The parts of
/// an exchange or of a custom compound share the events of their head. Other instructions have no events.
/// Refers to both arguments of the constructor.
template <device D>
class instruction_events {
 public:
  instruction_events(D& d, packed_program const& p)
      : device_(d), all_(p.instructions()), origin_(d.make_event()), words_(all_.size() / bits + 1) {
    std::uint32_t events = 0;
    for (std::uint32_t i = 0, parts = 0; i < all_.size(); ++i) {
      if (i % bits == 0) words_[i / bits].before = events;
      auto const x = all_[i];
      if (parts > 0) {
        --parts;
        continue;
      }
      parts = x.call.parts;
      if (!has_events(x.call.kind)) continue;
      words_[i / bits].heads |= std::uint64_t{1} << i % bits;
      ++events;
    }
    begins_.reserve(events);
    ends_.reserve(events);
    while (begins_.size() < events) {
      begins_.push_back(d.make_event());
      ends_.push_back(d.make_event());
    }
  }
  instruction_events(D&, packed_program const&&) = delete;

  /// Sets the origin of times.
  void begin_step(typename D::stream& s) { device_.record(origin_, s); }

  /// Returns true if an instruction has events, of its own or of its head.
  bool has(std::uint32_t i) const { return has_events(all_[i].call.kind); }
  /// Records the begin of instruction `i`. Precondition of this and the next two functions: `i` has events.
  void begin(std::uint32_t i, typename D::stream& s) { device_.record(begins_[number_of(i)], s); }
  void end(std::uint32_t i, typename D::stream& s) { device_.record(end_of(i), s); }
  typename D::event& end_of(std::uint32_t i) { return ends_[number_of(i)]; }

  /// Returns the first instruction that has not ended, or nothing. O(instructions).
  std::optional<std::uint32_t> find_open() {
    for (std::uint32_t i = 0; i < all_.size(); ++i)
      if (happens(i) && !device_.query(end_of(i))) return i;
    return std::nullopt;
  }

  /// Returns the times of all instructions. A message begins when it could be sent and ends when it has been
  /// transferred. Precondition: a step has ended.
  std::vector<instruction_time> times() {
    std::vector<instruction_time> all(all_.size());
    for (std::uint32_t i = 0; i < all.size(); ++i)
      if (happens(i)) all[i] = {since_origin(begins_[number_of(i)]), since_origin(end_of(i))};
    return all;
  }

 private:
  static constexpr std::uint32_t bits = 64;
  /// Marks those of 64 instructions that have events of their own; `before` counts those of earlier words.
  struct event_word {
    std::uint64_t heads = 0;
    std::uint32_t before = 0;
  };

  static bool has_events(call_kind k) {
    return is_pass(k) || is_custom(k) || k == call_kind::send || k == call_kind::receive ||
           k == call_kind::exchange || k == call_kind::other;
  }
  bool happens(std::uint32_t i) const {
    auto const k = all_[i].call.kind;
    return k != call_kind::exchange && has_events(k);
  }

  /// Returns the number of the events of an instruction: those of the last head up to it.
  std::size_t number_of(std::uint32_t i) const {
    auto const& word = words_[i / bits];
    auto const up_to = word.heads & (~std::uint64_t{0} >> (bits - 1 - i % bits));
    return word.before + static_cast<std::size_t>(std::popcount(up_to)) - 1;
  }

  std::int64_t since_origin(typename D::event const& e) const {
    return std::int64_t{std::chrono::nanoseconds(device_.elapsed(origin_, e)).count()};
  }

  D& device_;
  packed_instructions const& all_;
  typename D::event origin_;
  std::vector<event_word> words_;
  std::vector<typename D::event> begins_, ends_;
};

}  // namespace cleave::detail
