// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/schedule/memory/share_slots.hpp"

namespace cleave::inline v0_2::detail {

/// The free bytes of an arena that grows on demand. Free blocks are kept in lists by size, 16 lists for each
/// power of two, so that a well-fitting block is found in O(1). This is two-level segregated fit: Masmano,
/// Ripoll, Crespo and Real, ECRTS 2004.
class free_memory {
 public:
  free_memory() { heads_.fill(none); }

  /// Allocates `bytes`, at least one; returns the block number that `give` expects. O(1).
  std::uint32_t take(std::uint64_t bytes) {
    auto const found = find(bytes);
    if (found == none) return grow(bytes);
    unlink(found);
    if (blocks_[found].bytes > bytes) {
      // The remainder becomes a free block behind it.
      auto const rest =
          add({blocks_[found].offset + bytes, blocks_[found].bytes - bytes, found, blocks_[found].after});
      if (blocks_[rest].after != none)
        blocks_[blocks_[rest].after].before = rest;
      else
        last_ = rest;
      blocks_[found].after = rest;
      blocks_[found].bytes = bytes;
      link(rest);
    }
    return found;
  }

  /// Frees a block and merges it with free neighbours. O(1).
  void give(std::uint32_t block) {
    if (auto const before = blocks_[block].before; before != none && blocks_[before].is_free) {
      unlink(before);
      block = join(before);
    }
    if (auto const after = blocks_[block].after; after != none && blocks_[after].is_free) {
      unlink(after);
      join(block);
    }
    link(block);
  }

  std::uint64_t offset_of(std::uint32_t block) const { return blocks_[block].offset; }
  /// Returns the size of the arena so far.
  std::uint64_t bytes() const { return bytes_; }

 private:
  static constexpr std::uint32_t none = 0xffffffff;
  struct memory_block {
    std::uint64_t offset, bytes;
    std::uint32_t before, after;                 // neighbours by address
    std::uint32_t previous = none, next = none;  // neighbours in its free list
    bool is_free = false;
  };

  /// Returns the free list for a size.
  static std::size_t list_of(std::uint64_t bytes) {
    if (bytes < 16) return static_cast<std::size_t>(bytes);
    auto const log = static_cast<unsigned>(std::bit_width(bytes)) - 1;
    return std::size_t{16} * (log - 3) + static_cast<std::size_t>(bytes >> (log - 4) & 15);
  }

  /// Returns the first block of the size's own list if it is large enough, else any block of the next
  /// non-empty list.
  std::uint32_t find(std::uint64_t bytes) const {
    auto const list = list_of(bytes);
    if (heads_[list] != none && blocks_[heads_[list]].bytes >= bytes) return heads_[list];
    for (auto word = (list + 1) / 64; word < filled_.size(); ++word) {
      auto const bits = filled_[word] &
                        (word == (list + 1) / 64 ? ~std::uint64_t{0} << (list + 1) % 64 : ~std::uint64_t{0});
      if (bits != 0) return heads_[64 * word + static_cast<std::size_t>(std::countr_zero(bits))];
    }
    return none;
  }

  /// Grows the arena; extends its last block if that is free.
  std::uint32_t grow(std::uint64_t bytes) {
    auto block = last_;
    if (block != none && blocks_[block].is_free) {
      unlink(block);
      blocks_[block].bytes = bytes;
    } else {
      block = add({bytes_, bytes, last_, none});
      if (last_ != none) blocks_[last_].after = block;
      last_ = block;
    }
    bytes_ = blocks_[block].offset + bytes;
    return block;
  }

  std::uint32_t add(memory_block b) {
    if (unused_.empty()) {
      blocks_.push_back(b);
      return static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    auto const number = unused_.back();
    unused_.pop_back();
    blocks_[number] = b;
    return number;
  }

  /// Merges a block with the one behind it; returns the first.
  std::uint32_t join(std::uint32_t block) {
    auto const gone = blocks_[block].after;
    blocks_[block].bytes += blocks_[gone].bytes;
    blocks_[block].after = blocks_[gone].after;
    if (blocks_[gone].after != none)
      blocks_[blocks_[gone].after].before = block;
    else
      last_ = block;
    unused_.push_back(gone);
    return block;
  }

  void link(std::uint32_t block) {
    auto const list = list_of(blocks_[block].bytes);
    auto& b = blocks_[block];
    b.is_free = true;
    b.previous = none;
    b.next = heads_[list];
    if (b.next != none) blocks_[b.next].previous = block;
    heads_[list] = block;
    filled_[list / 64] |= std::uint64_t{1} << list % 64;
  }

  void unlink(std::uint32_t block) {
    auto const list = list_of(blocks_[block].bytes);
    auto& b = blocks_[block];
    b.is_free = false;
    if (b.next != none) blocks_[b.next].previous = b.previous;
    if (b.previous != none) {
      blocks_[b.previous].next = b.next;
      return;
    }
    heads_[list] = b.next;
    if (b.next == none) filled_[list / 64] &= ~(std::uint64_t{1} << list % 64);
  }

  std::vector<memory_block> blocks_;
  std::vector<std::uint32_t> unused_;  ///< numbers of blocks that were merged into others
  std::array<std::uint32_t, 1024> heads_;
  std::array<std::uint64_t, 16> filled_{};  ///< one bit per list: set if it has blocks
  std::uint32_t last_ = none;               ///< by address
  std::uint64_t bytes_ = 0;
};

/// A number of bytes needed during a lifetime.
struct memory_request {
  lifetime alive;
  std::uint64_t bytes = 0;

  bool operator==(memory_request const&) const = default;
};

/// The reason why requests have no layout; `at` is the index of the request.
struct memory_request_fault {
  static constexpr char subject[] = "memory: ";
  enum class kind : std::uint8_t {
    odd_alignment,  ///< `bytes` is not a power of two
    no_bytes,       ///< the request is for 0 bytes, or its size is unknown
    backward,       ///< the lifetime ends before it begins
    too_large,      ///< together with the requests before it, more than 2^62 bytes
  };
  kind what;
  std::size_t at = 0;
  std::uint64_t bytes = 0;

  bool operator==(memory_request_fault const&) const = default;
};

/// The message for a fault: where it is and how to correct it.
inline std::string describe(memory_request_fault const& f) {
  using enum memory_request_fault::kind;
  auto const at = "memory request #" + std::to_string(f.at);
  switch (f.what) {
    case odd_alignment:
      return "an alignment of " + std::to_string(f.bytes) + " bytes is not a power of two";
    case no_bytes:
      return at + " has 0 bytes; give its size, or leave it out";
    case backward:
      return at + " ends before it begins";
    case too_large:
      return at + " of " + std::to_string(f.bytes) +
             " bytes and the requests before it exceed 2^62 bytes in total";
  }
  return {};
}

using memory_request_error = fault_error<memory_request_fault>;

/// Rounds `bytes` up to a multiple of `alignment`, a power of two. O(1).
constexpr std::uint64_t rounded_up(std::uint64_t bytes, std::uint64_t alignment) {
  return (bytes + (alignment - 1)) & ~(alignment - 1);
}

/// Returns the first reason why requests have no layout, or nothing. O(requests).
inline std::optional<memory_request_fault> find_memory_request_fault(std::span<memory_request const> requests,
                                                                     std::uint64_t alignment) {
  using enum memory_request_fault::kind;
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  if (alignment == 0 || alignment > most || (alignment & (alignment - 1)) != 0)
    return memory_request_fault{odd_alignment, 0, alignment};
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].bytes == 0) return memory_request_fault{no_bytes, i};
    if (requests[i].alive.last < requests[i].alive.first) return memory_request_fault{backward, i};
    if (requests[i].bytes > most || rounded_up(requests[i].bytes, alignment) > most - all)
      return memory_request_fault{too_large, i, requests[i].bytes};
    all += rounded_up(requests[i].bytes, alignment);
  }
  return std::nullopt;
}

/// The last owner of each byte while requests are added one by one: a segment tree over the offsets where
/// requests begin and end.
class last_allocation_tree {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  /// Keeps references to both arguments. O(requests log requests).
  last_allocation_tree(std::span<memory_request const> requests, std::span<std::uint64_t const> offsets)
      : requests_(requests), offsets_(offsets) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      places_.push_back(offsets[i]);
      places_.push_back(offsets[i] + requests[i].bytes);
    }
    std::ranges::sort(places_);
    places_.erase(std::ranges::unique(places_).begin(), places_.end());
    leaves_ = std::bit_ceil(places_.size() + 1);
    whole_.assign(2 * leaves_, none);
    inside_.assign(2 * leaves_, none);
  }

  /// Returns, of the requests added so far that share a byte with request `i`, the one that lives longest.
  /// O(log requests).
  std::uint32_t of(std::uint32_t i) const {
    auto left = first_leaf(i), right = last_leaf(i) + 1;
    if (left >= right) return none;
    auto found = none;
    for (auto const leaf : {left, right - 1})
      for (auto node = leaf; node > 0; node /= 2) found = later(found, whole_[node]);
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) found = later(found, inside_[left++]);
      if (right % 2 == 1) found = later(found, inside_[--right]);
    }
    return found;
  }

  /// Makes request `i` the owner of its bytes. O(log requests).
  void add(std::uint32_t i) {
    auto left = first_leaf(i), right = last_leaf(i) + 1;
    if (left >= right) return;
    auto const first = left, last = right - 1;
    auto const take = [&](std::size_t node) {
      whole_[node] = later(whole_[node], i);
      inside_[node] = later(inside_[node], i);
    };
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) take(left++);
      if (right % 2 == 1) take(--right);
    }
    for (auto const leaf : {first, last})
      for (auto node = leaf / 2; node > 0; node /= 2)
        inside_[node] = later(whole_[node], later(inside_[2 * node], inside_[2 * node + 1]));
  }

 private:
  std::size_t leaf_at(std::uint64_t place) const {
    return leaves_ + static_cast<std::size_t>(std::ranges::lower_bound(places_, place) - places_.begin());
  }
  std::size_t first_leaf(std::uint32_t i) const { return leaf_at(offsets_[i]); }
  std::size_t last_leaf(std::uint32_t i) const { return leaf_at(offsets_[i] + requests_[i].bytes) - 1; }
  std::uint32_t later(std::uint32_t a, std::uint32_t b) const {
    if (a == none || b == none) return a == none ? b : a;
    return requests_[b].alive.last > requests_[a].alive.last ? b : a;
  }

  std::span<memory_request const> requests_;
  std::span<std::uint64_t const> offsets_;
  std::vector<std::uint64_t> places_;
  std::size_t leaves_ = 0;
  std::vector<std::uint32_t> whole_,
      inside_;  ///< per node: the latest owner of all its bytes, and of any of them
};

/// Two requests that overlap in memory, and a cell in which both are alive.
struct memory_overlap {
  std::size_t first, second;
  std::uint32_t cell;

  bool operator==(memory_overlap const&) const = default;
};

/// Returns two requests that are alive in one cell and overlap at these offsets, or nothing. Precondition:
/// each request has an offset, ends within 2^64 bytes, and has a lifetime that does not end before it begins.
/// O(requests log requests).
inline std::optional<memory_overlap> find_memory_overlap(std::span<memory_request const> requests,
                                                         std::span<std::uint64_t const> offsets) {
  std::vector<lifetime> alive;
  for (auto const& n : requests) alive.push_back(n.alive);
  last_allocation_tree allocations(requests, offsets);
  for (auto const i : order_of(alive)) {
    auto const other = allocations.of(i);
    if (other != last_allocation_tree::none && alive[other].last >= alive[i].first)
      return memory_overlap{(std::min)(i, other), (std::max)(i, other), alive[i].first};
    allocations.add(i);
  }
  return std::nullopt;
}

/// Returns the number of slots of equal size in which all requests lie, or nothing if they do not, or in
/// only a few of very many. O(requests).
inline std::optional<std::size_t> count_equal_slots(std::span<memory_request const> requests,
                                                    std::span<std::uint64_t const> offsets) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    auto const bytes = requests[i].bytes;
    if (bytes == 0 || bytes != requests[0].bytes || offsets[i] % bytes != 0) return std::nullopt;
    last = (std::max)(last, offsets[i] / requests[0].bytes);
  }
  if (last / 64 > requests.size()) return std::nullopt;
  return static_cast<std::size_t>(last) + 1;
}

/// Returns for each request the last cell in which another request owns some of its bytes before it, or
/// nothing. The first writer of the request must wait until that cell is done. Precondition: no two requests
/// own the same byte in the same cell. O(requests log requests).
inline std::vector<std::optional<std::uint32_t>> last_allocations(std::span<memory_request const> requests,
                                                                  std::span<std::uint64_t const> offsets) {
  std::vector<lifetime> alive;
  for (auto const& n : requests) alive.push_back(n.alive);
  std::vector<std::optional<std::uint32_t>> before(requests.size());
  if (auto const slots = count_equal_slots(requests, offsets)) {
    std::vector<std::optional<std::uint32_t>> owned_until(*slots);
    for (auto const i : order_of(alive))
      before[i] =
          std::exchange(owned_until[static_cast<std::size_t>(offsets[i] / requests[i].bytes)], alive[i].last);
    return before;
  }
  last_allocation_tree allocations(requests, offsets);
  for (auto const i : order_of(alive)) {
    if (auto const other = allocations.of(i); other != last_allocation_tree::none)
      before[i] = alive[other].last;
    allocations.add(i);
  }
  return before;
}

/// An offset for each request.
struct memory_layout {
  std::vector<std::uint64_t> offsets;  ///< one for each request, in bytes
  std::uint64_t bytes = 0;             ///< size of the arena
  std::uint64_t least_bytes = 0;  ///< most bytes alive in one cell, each rounded up; no layout is smaller

  bool operator==(memory_layout const&) const = default;
};

/// Places each request in turn at a good fit among the bytes free when it begins. Precondition: no fault, and
/// sizes are rounded. O(requests log requests).
inline memory_layout good_fits(std::span<memory_request const> requests) {
  std::vector<lifetime> alive;
  for (auto const& n : requests) alive.push_back(n.alive);
  auto const ends = order_of_ends(alive);
  memory_layout layout{std::vector<std::uint64_t>(requests.size())};
  std::vector<std::uint32_t> blocks(requests.size());
  free_memory memory;
  std::size_t ended = 0;
  for (auto const i : order_of(alive)) {
    for (; alive[ends[ended]].last < alive[i].first; ++ended) memory.give(blocks[ends[ended]]);
    blocks[i] = memory.take(requests[i].bytes);
    layout.offsets[i] = memory.offset_of(blocks[i]);
  }
  layout.bytes = memory.bytes();
  return layout;
}

/// Like `good_fits`, from the last request to the first. O(requests log requests).
inline memory_layout good_fits_backward(std::span<memory_request const> requests) {
  constexpr auto end = (std::numeric_limits<std::uint32_t>::max)();
  std::vector<memory_request> turned;
  for (auto const& [alive, bytes] : requests)
    turned.push_back({{end - alive.last, end - alive.first}, bytes});
  return good_fits(turned);
}

/// Gives the requests of each size the fewest slots possible; the slots of one size lie behind those of
/// another. O(requests log requests).
inline memory_layout slots_by_size(std::span<memory_request const> requests) {
  std::vector<std::uint32_t> order(requests.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(requests[i].bytes, i); });
  memory_layout layout{std::vector<std::uint64_t>(requests.size())};
  std::vector<lifetime> alive;
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    auto const bytes = requests[order[first]].bytes;
    for (alive.clear(); last < order.size() && requests[order[last]].bytes == bytes; ++last)
      alive.push_back(requests[order[last]].alive);
    auto const slots = share_slots(alive);
    for (auto i = first; i < last; ++i) layout.offsets[order[i]] = layout.bytes + slots[i - first] * bytes;
    layout.bytes += count_slots(slots) * bytes;
  }
  return layout;
}

/// Returns the most bytes that are alive in one cell. O(requests log requests).
inline std::uint64_t most_alive_bytes(std::span<memory_request const> requests) {
  std::vector<lifetime> alive;
  for (auto const& n : requests) alive.push_back(n.alive);
  auto const ends = order_of_ends(alive);
  std::uint64_t now = 0, most = 0;
  std::size_t ended = 0;
  for (auto const i : order_of(alive)) {
    for (; alive[ends[ended]].last < alive[i].first; ++ended) now -= requests[ends[ended]].bytes;
    most = (std::max)(most, now += requests[i].bytes);
  }
  return most;
}

/// Places requests so that none that are alive in one cell overlap. Returns the smallest of three layouts:
/// `good_fits`, `good_fits_backward` and `slots_by_size`. If all requests have the same size, it is optimal;
/// in general the smallest layout is NP-hard to find. Offsets are multiples of `alignment`, a power of two.
/// O(requests log requests). \throws memory_request_error
inline memory_layout place_in_memory(std::span<memory_request const> requests, std::uint64_t alignment = 1) {
  if (auto const fault = find_memory_request_fault(requests, alignment)) throw memory_request_error(*fault);
  std::vector<memory_request> rounded(requests.begin(), requests.end());
  for (auto& n : rounded) n.bytes = rounded_up(n.bytes, alignment);
  auto const least = most_alive_bytes(rounded);
  auto best = slots_by_size(rounded);
  for (auto* const layout_of : {good_fits, good_fits_backward}) {
    if (best.bytes == least) break;
    if (auto other = layout_of(rounded); other.bytes < best.bytes) best = std::move(other);
  }
  best.least_bytes = least;
  return best;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The content of a slot; each slot belongs to one stage and microbatch at a time.
enum class slot_use : std::uint8_t {
  saved,                ///< saved by F for B or I
  input,                ///< the part of recomputed activations that is kept from F to B or I
  saved_for_weights,    ///< saved by I for W
  received_activation,  ///< received from `peer`
  received_gradient,
  sent_activation,  ///< sent to `peer`; kept until the send has completed
  sent_gradient,
  local_activation,  ///< passed to `peer`, a stage of the same rank
  local_gradient,
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

inline constexpr std::array<std::string_view, 9> slot_use_names = {
    "stash",           "input",         "weight stash",      "received activation", "received gradient",
    "sent activation", "sent gradient", "handed activation", "handed gradient"};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the name of a use as in messages, such as `received activation`.
constexpr std::string_view name_of(slot_use u) { return detail::slot_use_names[static_cast<std::size_t>(u)]; }

/// A value in a rank's memory, with its lifetime and its place.
struct slot_value {
  slot_use use = slot_use::saved;
  stage_id stage{0};  ///< the stage whose pass makes, receives or passes on the value
  microbatch_id microbatch{0};
  stage_id peer{0xffffffff};  ///< the stage at the other end of a message or local edge
  lifetime alive;
  std::uint64_t bytes = 0, offset = 0;  ///< its size, and its place in the memory of the rank
  std::uint32_t slot = 0;  ///< number of the slot among those of the same use; values with overlapping
                           ///< lifetimes never share one
  /// The cell after which its bytes are free. That cell must be done before anything is written there.
  std::optional<std::uint32_t> after = {};

  bool operator==(slot_value const&) const = default;
};

/// The memory of one rank.
struct rank_slots {
  std::vector<slot_value> values;            ///< in the order in which their lifetimes begin
  std::array<std::uint32_t, 9> counts = {};  ///< number of slots of each use, as few as possible
  std::uint64_t bytes = 0;                   ///< size of the memory in bytes, from offset 0
  std::uint64_t least_bytes = 0;             ///< most bytes kept in one cell; no plan needs less

  bool operator==(rank_slots const&) const = default;
};

/// The place of every value in the memory of every rank, computed once before the run. Plain data for any
/// code that runs the schedule.
struct memory_plan {
  std::uint64_t alignment = 256;  ///< of offsets, in bytes
  std::vector<rank_slots> ranks;

  bool operator==(memory_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a memory plan cannot be used, and its place.
struct slot_fault {
  static constexpr char subject[] = "slots: ";
  enum class kind : std::uint8_t {
    overflow,   ///< `value` ends at `bytes`, beyond the `allowed` bytes of the rank
    overlap,    ///< `value` and `other` overlap in memory while both are alive
    unaligned,  ///< the offset of `value` is not a multiple of the alignment
    backward,   ///< the lifetime of `value` ends before it begins
    too_early,  ///< `value` may be written before cell `bytes`, in which its memory is still taken
  };
  kind what;
  rank_id rank{};
  slot_value value = {}, other = {};
  std::uint64_t bytes = 0, allowed = 0;

  bool operator==(slot_fault const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the words for a value, such as `the input of stage 3, microbatch 1`.
inline std::string slot_text(slot_value const& v) {
  auto text = "the " + std::string(name_of(v.use)) + " of stage " + std::to_string(index(v.stage)) +
              ", microbatch " + std::to_string(index(v.microbatch));
  return v.peer == stage_id{0xffffffff} ? text
                                        : text + " (other end: stage " + std::to_string(index(v.peer)) + ")";
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The message for a fault: where it is and how to correct it.
inline std::string describe(slot_fault const& f) {
  auto const value = "rank " + std::to_string(index(f.rank)) + ": " + slot_text(f.value);
  switch (f.what) {
    case slot_fault::kind::overflow:
      return value + ", kept from cell #" + std::to_string(f.value.alive.first) + " on, ends at " +
             format_bytes(f.bytes) + ", beyond the " + format_bytes(f.allowed) +
             " of the rank; raise its limit, keep fewer microbatches in flight, offload or recompute";
    case slot_fault::kind::overlap:
      return value + " overlaps " + slot_text(f.other) + " in memory while both are alive";
    case slot_fault::kind::unaligned:
      return value + " lies at byte " + std::to_string(f.value.offset) +
             ", which is not a multiple of the plan's alignment";
    case slot_fault::kind::backward:
      return value + " ends before it begins";
    case slot_fault::kind::too_early:
      return value + " shares memory with another value that is alive until cell #" +
             std::to_string(f.bytes) + "; its 'after' must be that cell or a later one";
  }
  return {};
}

using slot_error = fault_error<slot_fault>;

/// Returns the memory requests of a rank's values, and their offsets.
inline std::pair<std::vector<memory_request>, std::vector<std::uint64_t>> requests_of(rank_slots const& r) {
  std::pair<std::vector<memory_request>, std::vector<std::uint64_t>> found;
  for (auto const& v : r.values) {
    found.first.push_back({v.alive, v.bytes});
    found.second.push_back(v.offset);
  }
  return found;
}

/// Returns the first value of rank `r` that ends beyond its `allowed` bytes, or nothing. `allowed` has one
/// entry for each rank, one for all, or none for no limit. O(values).
inline std::optional<slot_fault> find_slot_overflow(rank_slots const& slots, std::uint32_t r,
                                                    std::vector<std::uint64_t> const& allowed) {
  if (allowed.empty()) return std::nullopt;
  auto const most = one_or_each(allowed)[r];
  for (auto const& v : slots.values)
    if (v.bytes > most || v.offset > most - v.bytes)
      return slot_fault{slot_fault::kind::overflow, rank_id{r}, v, {}, v.offset + v.bytes, most};
  return std::nullopt;
}

/// Returns the first such value of the lowest rank, or nothing. O(values).
inline std::optional<slot_fault> find_slot_overflow(memory_plan const& p,
                                                    std::vector<std::uint64_t> const& allowed) {
  for (std::uint32_t r = 0; r < p.ranks.size(); ++r)
    if (auto const f = find_slot_overflow(p.ranks[r], r, allowed)) return f;
  return std::nullopt;
}

/// Returns the first fault of a memory plan from any source, or nothing: values that overlap, exceed the
/// bytes of their rank, are unaligned, or may be written too early. O(values log values).
inline std::optional<slot_fault> find_slot_fault(memory_plan const& p) {
  using enum slot_fault::kind;
  for (std::uint32_t r = 0; r < p.ranks.size(); ++r) {
    auto const& rank = p.ranks[r];
    for (auto const& v : rank.values) {
      if (v.bytes > rank.bytes || v.offset > rank.bytes - v.bytes)
        return slot_fault{overflow, rank_id{r}, v, {}, v.offset + v.bytes, rank.bytes};
      if (p.alignment > 1 && v.offset % p.alignment != 0) return slot_fault{unaligned, rank_id{r}, v};
      if (v.alive.last < v.alive.first) return slot_fault{backward, rank_id{r}, v};
    }
    auto const [requests, offsets] = requests_of(rank);
    if (auto const o = find_memory_overlap(requests, offsets))
      return slot_fault{overlap, rank_id{r}, rank.values[o->first], rank.values[o->second]};
    auto const before = last_allocations(requests, offsets);
    for (std::size_t i = 0; i < before.size(); ++i)
      if (rank.values[i].after < before[i])
        return slot_fault{too_early, rank_id{r}, rank.values[i], {}, *before[i]};
  }
  return std::nullopt;
}

}  // namespace cleave::detail
