// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/graph/csr.hpp"

namespace cleave::detail {

/// How many of the units that touch a value each part has, kept while units move. A value that few units
/// touch has a place for each of them, any other one for each part: O(touches) in all.
template <std::unsigned_integral Index>
class pin_counts {
 public:
  pin_counts() = default;
  pin_counts(csr<Index> const& touching, std::span<std::uint32_t const> of, std::uint32_t parts)
      : parts_(parts), first_{0}, spread_(touching.rows()) {
    first_.reserve(touching.rows() + 1);
    for (std::size_t v = 0; v < touching.rows(); ++v)
      first_.push_back(first_.back() + std::min<std::size_t>(parts, touching[v].size()));
    slots_.assign(first_.back(), {none<std::uint32_t>, 0});
    for (std::size_t v = 0; v < touching.rows(); ++v)
      for (Index const unit : touching[v]) add(v, of[unit]);
  }

  /// In how many parts units touch value `v`.
  std::uint32_t spread(std::size_t v) const { return spread_[v]; }
  Index count(std::size_t v, std::uint32_t part) const {
    auto const at = find(v, part);
    return at == first_[v + 1] ? Index{} : slots_[at].count;
  }
  /// Calls `f(part)` for each part with units that touch `v`, in no order that matters.
  template <class F>
  void each_part(std::size_t v, F f) const {
    for (auto at = first_[v]; at < first_[v + 1]; ++at)
      if (slots_[at].count != 0) f(slots_[at].part);
  }
  void move(std::size_t v, std::uint32_t from, std::uint32_t to) {
    if (--slots_[find(v, from)].count == 0) --spread_[v];
    add(v, to);
  }

 private:
  struct slot {
    std::uint32_t part;
    Index count;
  };

  bool by_part(std::size_t v) const { return first_[v + 1] - first_[v] == parts_; }
  /// The place of a part that has one, else the end.
  std::size_t find(std::size_t v, std::uint32_t part) const {
    if (by_part(v)) return first_[v] + part;
    auto at = first_[v];
    while (at < first_[v + 1] && (slots_[at].count == 0 || slots_[at].part != part)) ++at;
    return at;
  }
  void add(std::size_t v, std::uint32_t part) {
    auto at = find(v, part);
    if (at == first_[v + 1])  // a place is free: there is one for each unit
      for (at = first_[v]; slots_[at].count != 0;) ++at;
    slots_[at].part = part;
    if (slots_[at].count++ == 0) ++spread_[v];
  }

  std::size_t parts_ = 0;
  std::vector<std::size_t> first_;  // of a value: its places
  std::vector<std::uint32_t> spread_;
  std::vector<slot> slots_;
};

}  // namespace cleave::detail
