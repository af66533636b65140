// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// The messages of one rank, found by stage, microbatch and kind whatever numbers these have: as large as
/// what is in it.
class message_table {
 public:
  struct entry {
    action what;
    std::size_t position = 0;  ///< whatever its owner likes
    bool open = true;
    std::uint32_t next = none;  ///< of the same stage, microbatch and kind
  };

  explicit message_table(std::size_t messages = 0) {
    entries_.reserve(messages);
    grow(messages);
  }

  /// Adds one that is open. Expected O(1).
  void add(action const& a, std::size_t position) {
    if (entries_.size() * 2 >= slots_.size()) grow(entries_.size() + 1);
    entries_.push_back({a, position});
    link(static_cast<std::uint32_t>(entries_.size() - 1));
  }

  /// The one added last that has the stage, peer and microbatch of `a` and moves the same; or null. Until the
  /// next is added. Expected O(1).
  entry* find(action const& a) {
    entry* found = nullptr;
    each(a.stage, a.microbatch, is_activation_message(a.kind), [&](entry& e) {
      if (e.what.peer == a.peer) found = &e;
    });
    return found;
  }

  /// `f(entry)` for each of a stage and microbatch, in the order in which they were added. Expected O(those).
  template <class F>
  void each(stage_id s, microbatch_id i, bool activations, F f) {
    for (auto e = slots_[slot_of(s, i, activations)]; e != none; e = entries_[e].next) f(entries_[e]);
  }

  /// All, in the order in which they were added.
  std::span<entry> entries() { return entries_; }

 private:
  static constexpr std::uint32_t none = (std::numeric_limits<std::uint32_t>::max)();

  /// The slot of the first of them, or an empty one.
  std::size_t slot_of(stage_id s, microbatch_id i, bool activations) const {
    auto const key = (std::uint64_t{index(s)} << 32 | index(i)) * 2 + (activations ? 1 : 0);
    auto at = static_cast<std::size_t>((key ^ key >> 29) * 0x9e3779b97f4a7c15 >> shift_);
    for (;; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == none) return at;
      action const& a = entries_[slots_[at]].what;
      if (a.stage == s && a.microbatch == i && is_activation_message(a.kind) == activations) return at;
    }
  }

  void link(std::uint32_t number) {
    action const& a = entries_[number].what;
    auto* last = &slots_[slot_of(a.stage, a.microbatch, is_activation_message(a.kind))];
    while (*last != none) last = &entries_[*last].next;
    *last = number;
  }

  void grow(std::size_t messages) {
    unsigned bits = 4;
    while ((std::size_t{1} << bits) < 4 * messages) ++bits;
    shift_ = 64 - bits;
    slots_.assign(std::size_t{1} << bits, none);
    for (auto& e : entries_) e.next = none;
    for (std::uint32_t e = 0; e < entries_.size(); ++e) link(e);
  }

  std::vector<entry> entries_;
  std::vector<std::uint32_t> slots_;  ///< of the first entry of each stage, microbatch and kind
  unsigned shift_ = 0;
};

}  // namespace cleave::detail
