// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/groups/fusion_group.hpp"

namespace cleave::inline v0_2 {

/// The merge walk of torch.fx 2.15's CapabilityBasedPartitioner. It visits nodes from the last to the first.
/// Each supported node first forms a group, and groups are then merged where that closes no cycle. Used by
/// `capability_groups`.
///
/// Instead of searching for paths, each group keeps the set of nodes that lead to it. A merge is rejected if
/// a reader outside of both groups leads to one of them. Sets are bit rows, numbered from the last node.
template <std::unsigned_integral Index>
class merge_walk {
 public:
  merge_walk(detail::csr<Index> const& users, std::span<char const> supported)
      : users_(users), supported_(supported) {}

  std::vector<fusion_group> run(fusion along) {
    for (std::size_t n = users_.rows(); n-- > 0;) {
      words_ = bit(n) / 64 + 1;
      for (auto& g : groups_)
        if (std::ranges::any_of(users_[n], [&](Index u) { return has(g.above, bit(u)); }))
          set(g.above, bit(n));
      bool const makes_one = supported_[n] != 0;
      if (makes_one) begin_group(n);
      if (along == fusion::horizontal)
        makes_one ? merge_new_with_all() : merge_first_with_all();
      else if (makes_one)
        merge_with_users(n);
    }
    return listed();
  }

 private:
  using row = std::vector<std::uint64_t>;

  struct group {
    Index id;
    std::size_t size;
    row members, users;
    row above;            ///< its nodes and all nodes that lead to it, also through other groups
    std::size_t changed;  ///< time of the last change
  };

  std::size_t bit(std::size_t n) const { return users_.rows() - 1 - n; }
  static bool has(row const& r, std::size_t i) { return (r[i / 64] >> i % 64 & 1) != 0; }
  static void set(row& r, std::size_t i) { r[i / 64] |= std::uint64_t{1} << i % 64; }
  void add(row& to, row const& from) const {
    for (std::size_t w = 0; w < words_; ++w) to[w] |= from[w];
  }

  void begin_group(std::size_t n) {
    std::size_t const words = users_.rows() / 64 + 1;
    group g{next_id_++, 1, row(words), row(words), row(words), ++clock_};
    set(g.members, bit(n));
    set(g.above, bit(n));
    for (Index const u : users_[n]) set(g.users, bit(u));
    groups_.push_back(std::move(g));
  }

  bool may_merge(group const& a, group const& b) const {
    for (std::size_t w = 0; w < words_; ++w)
      if (((a.users[w] | b.users[w]) & ~(a.members[w] | b.members[w]) & (a.above[w] | b.above[w])) != 0)
        return false;
    return true;
  }

  /// Groups are ordered by rank: the least id merged into each.
  void merge_new_with_all() {
    std::size_t const made = groups_.size() - 1;
    std::size_t i = 0;
    while (i < made && !may_merge(groups_[made], groups_[i])) ++i;
    if (i < made) merge_with_later(merge(made, i), 0);
  }

  /// The original walk does this at each node that forms no group, mostly without effect. A pair that was
  /// rejected stays rejected until one of its groups changes.
  void merge_first_with_all() {
    auto const begin = clock_;
    if (!groups_.empty()) merge_with_later(0, settled_);
    settled_ = begin;
  }

  void merge_with_later(std::size_t current, std::size_t settled) {
    for (std::size_t i = current + 1; i < groups_.size();) {
      bool const known = groups_[current].changed <= settled && groups_[i].changed <= settled;
      if (!known && may_merge(groups_[current], groups_[i]))
        merge(current, i);
      else
        ++i;
    }
  }

  void merge_with_users(std::size_t n) {
    std::vector<Index> ids;
    for (Index const u : users_[n])
      for (auto const& g : groups_)
        if (has(g.members, bit(u)) && std::find(ids.begin(), ids.end(), g.id) == ids.end())
          ids.push_back(g.id);
    std::size_t current = groups_.size() - 1;
    for (Index const id : ids) {
      auto const i = static_cast<std::size_t>(
          std::find_if(groups_.begin(), groups_.end(), [&](group const& g) { return g.id == id; }) -
          groups_.begin());
      if (may_merge(groups_[current], groups_[i])) current = merge(current, i);
    }
  }

  /// Merges group b into a, or a into b if b is larger. Returns the position of the union.
  std::size_t merge(std::size_t a, std::size_t b) {
    auto const [low, high] = std::minmax(a, b);
    group whole = std::move(groups_[a]);
    group const other = std::move(groups_[b]);
    groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(high));
    if (whole.size < other.size) whole.id = other.id;
    whole.size += other.size;
    add(whole.members, other.members);
    add(whole.users, other.users);
    add(whole.above, other.above);
    whole.changed = ++clock_;
    groups_[low] = std::move(whole);
    for (auto& g : groups_)
      if (leads_to(groups_[low], g)) add(g.above, groups_[low].above);
    return low;
  }

  bool leads_to(group const& a, group const& b) const {
    for (std::size_t w = 0; w < words_; ++w)
      if ((a.members[w] & b.above[w]) != 0) return true;
    return false;
  }

  std::vector<fusion_group> listed() const {
    std::vector<fusion_group> list;
    for (auto const& g : groups_) {
      list.push_back({g.id, {}});
      for (std::size_t n = 0; n < users_.rows(); ++n)
        if (has(g.members, bit(n))) list.back().nodes.push_back(n);
    }
    std::sort(list.begin(), list.end(),
              [](fusion_group const& a, fusion_group const& b) { return a.id < b.id; });
    return list;
  }

  detail::csr<Index> const& users_;
  std::span<char const> supported_;
  std::vector<group> groups_;
  std::size_t words_ = 0;  // words in use: those of the nodes visited so far
  Index next_id_ = 0;
  std::size_t clock_ = 0, settled_ = 0;
};
}  // namespace cleave
