// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/memory/memory_tenants.hpp"
#include "cleave/schedule/memory/place_in_memory.hpp"
#include "cleave/schedule/memory/share_slots.hpp"

namespace cleave {

/// What lies in a slot, always for one stage and microbatch.
enum class slot_use : std::uint8_t {
  stash,                ///< of F, for B or I
  input,                ///< what is kept of a stash that is recomputed
  weight_stash,         ///< of I, for W
  received_activation,  ///< from `peer`
  received_gradient,
  sent_activation,  ///< to `peer`, until it has left
  sent_gradient,
  handed_activation,  ///< to `peer`, a stage of the same rank
  handed_gradient,
};

}  // namespace cleave

namespace cleave::detail {

inline constexpr std::array<std::string_view, 9> slot_use_names = {
    "stash",           "input",         "weight stash",      "received activation", "received gradient",
    "sent activation", "sent gradient", "handed activation", "handed gradient"};

}  // namespace cleave::detail

namespace cleave {

/// `weight stash`.
constexpr std::string_view name_of(slot_use u) { return detail::slot_use_names[static_cast<std::size_t>(u)]; }

/// One thing that a rank keeps, when, and where.
struct slot_value {
  slot_use use = slot_use::stash;
  stage_id stage{0};  ///< whose pass makes, receives or hands it
  microbatch_id microbatch{0};
  stage_id peer{0xffffffff};  ///< at the other end of a message or of a hand-over
  lifetime alive;
  std::uint64_t bytes = 0, offset = 0;
  std::uint32_t slot = 0;  ///< which of those of the same use; no two that meet share one
  /// The cell after which its bytes are free; it must be done before anything is written there.
  std::optional<std::uint32_t> after = {};

  bool operator==(slot_value const&) const = default;
};

/// The memory of one rank.
struct rank_slots {
  std::vector<slot_value> values;            ///< in the order in which they begin
  std::array<std::uint32_t, 9> counts = {};  ///< slots of each use: as few as there can be
  std::uint64_t bytes = 0;                   ///< of all, from offset 0
  std::uint64_t least_bytes = 0;             ///< kept in one cell at most; no plan takes less

  bool operator==(rank_slots const&) const = default;
};

/// Where every rank keeps what it keeps: found once, before anything runs. Plain data, for whoever runs the
/// schedule.
struct slot_plan {
  std::uint64_t alignment = 256;  ///< of offsets
  std::vector<rank_slots> ranks;

  bool operator==(slot_plan const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Why a plan cannot be used, and where.
struct slot_fault {
  enum class kind : std::uint8_t {
    overflow,   ///< the rank may take `allowed` bytes; `value` ends at `bytes`
    overlap,    ///< `value` and `other` lie on each other while both are kept
    unaligned,  ///< the offset of `value`
    backward,   ///< `value` ends before it begins
    too_early,  ///< `value` says that its bytes are free before cell `bytes`, in which they still are taken
  };
  kind what;
  rank_id rank{};
  slot_value value = {}, other = {};
  std::uint64_t bytes = 0, allowed = 0;

  bool operator==(slot_fault const&) const = default;
};

}  // namespace cleave::detail

namespace cleave {

/// `the stash of stage 3, microbatch 1`.
inline std::string slot_text(slot_value const& v) {
  auto text = "the " + std::string(name_of(v.use)) + " of stage " + std::to_string(index(v.stage)) +
              ", microbatch " + std::to_string(index(v.microbatch));
  return v.peer == stage_id{0xffffffff} ? text
                                        : text + " (other end: stage " + std::to_string(index(v.peer)) + ")";
}

}  // namespace cleave

namespace cleave::detail {

/// What, where and how to mend it.
inline std::string describe(slot_fault const& f) {
  auto const value = "rank " + std::to_string(index(f.rank)) + ": " + slot_text(f.value);
  switch (f.what) {
    case slot_fault::kind::overflow:
      return value + ", kept from cell #" + std::to_string(f.value.alive.first) + " on, ends at " +
             format_bytes(f.bytes) + ", beyond the " + format_bytes(f.allowed) +
             " of the rank; allow more, keep fewer microbatches, offload or recompute";
    case slot_fault::kind::overlap:
      return value + " lies on " + slot_text(f.other) + " while both are kept";
    case slot_fault::kind::unaligned:
      return value + " lies at byte " + std::to_string(f.value.offset) + ", which is not aligned";
    case slot_fault::kind::backward:
      return value + " ends before it begins";
    case slot_fault::kind::too_early:
      return value + " lies where something else is kept until cell #" + std::to_string(f.bytes) +
             ", and must wait for it";
  }
  return {};
}

class slot_error : public witness_error<slot_fault> {
 public:
  explicit slot_error(slot_fault f) : witness_error("slots: " + describe(f), f) {}
};

/// What a rank needs, and where it lies.
inline std::pair<std::vector<memory_need>, std::vector<std::uint64_t>> needs_of(rank_slots const& r) {
  std::pair<std::vector<memory_need>, std::vector<std::uint64_t>> found;
  for (auto const& v : r.values) {
    found.first.push_back({v.alive, v.bytes});
    found.second.push_back(v.offset);
  }
  return found;
}

/// The first value that ends beyond `allowed` bytes of its rank, or nothing. `allowed` is of each rank, or
/// one number for all. O(values).
inline std::optional<slot_fault> find_slot_overflow(slot_plan const& p,
                                                    std::span<std::uint64_t const> allowed) {
  for (std::uint32_t r = 0; r < p.ranks.size() && !allowed.empty(); ++r)
    for (auto const& v : p.ranks[r].values)
      if (auto const most = allowed[allowed.size() == 1 ? 0 : r]; v.bytes > most || v.offset > most - v.bytes)
        return slot_fault{slot_fault::kind::overflow, rank_id{r}, v, {}, v.offset + v.bytes, most};
  return std::nullopt;
}

/// The first thing that is wrong with a plan, wherever it comes from, or nothing: values that lie on each
/// other, beyond the bytes of their rank or unaligned, or that are written too early. O(values log values).
inline std::optional<slot_fault> find_slot_fault(slot_plan const& p) {
  using enum slot_fault::kind;
  for (std::uint32_t r = 0; r < p.ranks.size(); ++r) {
    auto const& rank = p.ranks[r];
    for (auto const& v : rank.values) {
      if (v.bytes > rank.bytes || v.offset > rank.bytes - v.bytes)
        return slot_fault{overflow, rank_id{r}, v, {}, v.offset + v.bytes, rank.bytes};
      if (p.alignment > 1 && v.offset % p.alignment != 0) return slot_fault{unaligned, rank_id{r}, v};
      if (v.alive.last < v.alive.first) return slot_fault{backward, rank_id{r}, v};
    }
    auto const [needs, offsets] = needs_of(rank);
    if (auto const o = find_memory_overlap(needs, offsets))
      return slot_fault{overlap, rank_id{r}, rank.values[o->first], rank.values[o->second]};
    auto const before = last_tenants(needs, offsets);
    for (std::size_t i = 0; i < before.size(); ++i)
      if (rank.values[i].after < before[i])
        return slot_fault{too_early, rank_id{r}, rank.values[i], {}, *before[i]};
  }
  return std::nullopt;
}

}  // namespace cleave::detail
