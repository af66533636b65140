// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::detail {

/// An array of uninitialized or zeroed elements. Pages that are never touched cost nothing, so callers may
/// ask for an upper bound of the size.
template <class T>
  requires std::is_trivially_copyable_v<T>
class uninitialized_array {
 public:
  uninitialized_array() = default;
  /// \throws std::bad_alloc.
  explicit uninitialized_array(std::size_t size) : uninitialized_array(std::malloc(bytes(size)), size) {}
  /// Returns an array of zeros. \throws std::bad_alloc.
  static uninitialized_array zeros(std::size_t size) {
    return uninitialized_array(std::calloc(bytes(size), 1), size);
  }

  /// Releases the memory after the first `size` elements.
  void shrink(std::size_t size) {
    auto* const kept = static_cast<T*>(std::realloc(data_.get(), bytes(size)));
    if (!kept) return;
    data_.release();
    data_.reset(kept);
    size_ = size;
  }

  T& operator[](std::size_t i) { return data_.get()[i]; }
  T const& operator[](std::size_t i) const { return data_.get()[i]; }
  T* data() { return data_.get(); }
  T const* data() const { return data_.get(); }
  T const* begin() const { return data_.get(); }
  T const* end() const { return data_.get() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct release {
    void operator()(T* data) const { std::free(data); }
  };

  uninitialized_array(void* memory, std::size_t size) : data_(static_cast<T*>(memory)), size_(size) {
    if (!memory) throw std::bad_alloc();
  }
  static std::size_t bytes(std::size_t size) { return (size ? size : 1) * sizeof(T); }

  std::unique_ptr<T, release> data_;
  std::size_t size_ = 0;
};

/// Storage of a weight: 32 bits if the sum of all weights fits, which halves the memory, otherwise 64 bits.
enum class weight_width : std::uint8_t { narrow, wide };

/// A view of weights of either width. Without an array, each weight is 1.
struct weights_view {
  std::uint32_t const* narrow = nullptr;
  std::int64_t const* wide = nullptr;

  weights_view(std::nullptr_t = nullptr) {}
  weights_view(std::uint32_t const* n) : narrow(n) {}
  weights_view(std::int64_t const* w) : wide(w) {}

  std::int64_t operator[](std::size_t i) const { return narrow ? narrow[i] : wide ? wide[i] : 1; }
  weight_width width() const { return wide ? weight_width::wide : weight_width::narrow; }
  bool all_one() const { return !narrow && !wide; }
};

/// The weights of a level that owns its arrays. They are uninitialized.
class level_weights {
 public:
  level_weights() = default;
  level_weights(std::size_t size, weight_width width) {
    if (width == weight_width::narrow)
      narrow_ = uninitialized_array<std::uint32_t>(size);
    else
      wide_ = uninitialized_array<std::int64_t>(size);
  }

  weights_view view() const {
    return narrow_.empty() ? weights_view(wide_.data()) : weights_view(narrow_.data());
  }
  /// Stores a weight. \pre `weight` fits the width.
  void set(std::size_t i, std::int64_t weight) {
    if (!narrow_.empty())
      narrow_[i] = static_cast<std::uint32_t>(weight);
    else if (!wide_.empty())
      wide_[i] = weight;
  }
  void shrink(std::size_t size) {
    if (!narrow_.empty()) narrow_.shrink(size);
    if (!wide_.empty()) wide_.shrink(size);
  }

  /// Returns the array of elements of type `Weight`; it is empty if the weights have the other width.
  template <class Weight>
  uninitialized_array<Weight>& array() {
    if constexpr (sizeof(Weight) == sizeof(std::uint32_t))
      return narrow_;
    else
      return wide_;
  }

 private:
  uninitialized_array<std::uint32_t> narrow_;
  uninitialized_array<std::int64_t> wide_;
};

/// One level of a k-way partition: an undirected graph in CSR form without self-loops or negative weights.
/// The sum of all edge weights and the sum of all node weights fit 63 bits.
struct weighted_view {
  std::uint32_t nodes = 0;
  std::uint32_t const* offsets = nullptr;  ///< start of each node's row; nodes + 1 entries
  std::uint32_t const* targets = nullptr;  ///< neighbours, row by row
  weights_view node_weights;
  weights_view edge_weights;  ///< parallel to `targets`

  std::uint32_t directed_edges() const { return offsets[nodes]; }
  std::uint32_t degree(std::uint32_t n) const { return offsets[n + 1] - offsets[n]; }
  std::int64_t weight(std::uint32_t n) const { return node_weights[n]; }
  std::int64_t edge_weight(std::uint32_t e) const { return edge_weights[e]; }
  /// Returns the width that holds any sum of weights of this level.
  weight_width width() const {
    bool const wide =
        node_weights.width() == weight_width::wide || edge_weights.width() == weight_width::wide;
    return wide ? weight_width::wide : weight_width::narrow;
  }
};

/// A level that owns its arrays: the contraction of the next finer level.
struct level_graph {
  std::uint32_t nodes = 0;
  uninitialized_array<std::uint32_t> offsets;
  uninitialized_array<std::uint32_t> targets;
  level_weights node_weights;
  level_weights edge_weights;

  weighted_view view() const {
    return {nodes, offsets.data(), targets.data(), node_weights.view(), edge_weights.view()};
  }
};

/// The part of each node of a level, with the weight and limit of each part.
struct partitioned_level {
  std::vector<std::uint32_t> of;     ///< part of each node
  std::vector<std::int64_t> weight;  ///< weight of each part, without isolated nodes that were set aside
  std::vector<std::int64_t> limit;   ///< weight limit of each part
  std::uint32_t parts() const { return static_cast<std::uint32_t>(limit.size()); }
  std::int64_t room(std::uint32_t part) const { return limit[part] - weight[part]; }
};

/// Returns the total weight by which parts exceed their limits.
inline std::int64_t excess_weight(partitioned_level const& p) {
  std::int64_t sum = 0;
  for (std::uint32_t part = 0; part < p.parts(); ++part)
    sum += std::max<std::int64_t>(0, p.weight[part] - p.limit[part]);
  return sum;
}

/// Stands for "no part": the node is not fixed.
inline constexpr std::uint32_t no_block = 0xffffffff;

/// Cluster of an isolated node. The coarser level omits it.
inline constexpr std::uint32_t no_cluster = 0xffffffff;

/// Splits `nodes` ids into ranges of `grain`. The ranges do not depend on the number of threads.
struct id_ranges {
  std::uint32_t nodes, grain;

  std::size_t count() const { return (std::size_t{nodes} + grain - 1) / grain; }
  std::uint32_t begin(std::size_t range) const { return static_cast<std::uint32_t>(range) * grain; }
  std::uint32_t end(std::size_t range) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(nodes, (std::uint64_t{range} + 1) * std::uint64_t{grain}));
  }
};

/// Places isolated nodes: fixed nodes in their parts, the others by decreasing weight in the part with the
/// most room.
inline void place_isolated_nodes(weighted_view const& g, partitioned_level& p,
                                 std::vector<std::uint32_t> const& fixed,
                                 std::vector<std::uint32_t> const& nodes) {
  if (nodes.empty()) return;
  std::vector<std::pair<std::int64_t, std::uint32_t>> heaviest_first;
  for (auto const n : nodes) {
    if (!fixed.empty() && fixed[n] != no_block) {
      p.of[n] = fixed[n];
      p.weight[fixed[n]] += g.weight(n);
    } else {
      heaviest_first.emplace_back(-g.weight(n), n);
    }
  }
  std::sort(heaviest_first.begin(), heaviest_first.end());
  std::vector<std::pair<std::int64_t, std::uint32_t>> room;
  for (std::uint32_t part = 0; part < p.parts(); ++part) room.emplace_back(p.room(part), ~part);
  std::make_heap(room.begin(), room.end());
  for (auto const& [weight, n] : heaviest_first) {
    std::pop_heap(room.begin(), room.end());
    auto const part = ~room.back().second;
    p.of[n] = part;
    p.weight[part] -= weight;
    room.back().first += weight;
    std::push_heap(room.begin(), room.end());
  }
}

/// Projects the parts of a level to `below`, the next finer level. Each node gets the part of its cluster;
/// isolated nodes go where there is most room. O(nodes).
inline void project(weighted_view const& below, partitioned_level& p, std::vector<std::uint32_t> const& fixed,
                    uninitialized_array<std::uint32_t> const& cluster_of, thread_team const& team) {
  id_ranges const ranges{below.nodes, 1u << 16};
  std::vector<std::vector<std::uint32_t>> alone(ranges.count());
  std::vector<std::uint32_t> of(below.nodes);
  team.share(ranges.count(), [&](std::size_t r) {
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n)
      if (cluster_of[n] == no_cluster)
        alone[r].push_back(n);
      else
        of[n] = p.of[cluster_of[n]];
  });
  p.of = std::move(of);
  std::vector<std::uint32_t> isolated;
  for (auto const& nodes : alone) isolated.insert(isolated.end(), nodes.begin(), nodes.end());
  place_isolated_nodes(below, p, fixed, isolated);
}

/// Computes, for one node at a time, its connectivity: the total weight of its edges into each part.
class part_connectivity {
 public:
  explicit part_connectivity(std::uint32_t parts) : weight_(parts, 0) { near_.reserve(64); }

  /// Computes the connectivity of a node, and discards that of the previous one.
  void count(weighted_view const& g, std::vector<std::uint32_t> const& of, std::uint32_t n) {
    for (auto const part : near_) weight_[part] = 0;
    near_.clear();
    for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e) {
      auto const part = of[g.targets[e]];
      if (weight_[part] == 0) near_.push_back(part);
      weight_[part] += g.edge_weight(e);
    }
  }

  std::int64_t to(std::uint32_t part) const { return weight_[part]; }
  /// Returns the parts that contain neighbours of the node.
  std::vector<std::uint32_t> const& nearby() const { return near_; }

  /// Returns the part other than `own` to which the node is most connected and which has room for weight `w`.
  /// Ties go to the part with the most room. Returns `no_block` if no part qualifies.
  std::uint32_t best_target(partitioned_level const& p, std::uint32_t own, std::int64_t w) const {
    auto best = no_block;
    std::int64_t most = 0;
    for (auto const part : near_) {
      if (part == own || weight_[part] < most || p.weight[part] + w > p.limit[part]) continue;
      if (weight_[part] == most && best != no_block && p.room(part) <= p.room(best)) continue;
      best = part;
      most = weight_[part];
    }
    return best;
  }

 private:
  std::vector<std::int64_t> weight_;
  std::vector<std::uint32_t> near_;
};

/// Moves a node to another part.
inline void move_node(weighted_view const& g, partitioned_level& p, std::uint32_t n, std::uint32_t to) {
  auto const w = g.weight(n);
  p.weight[p.of[n]] -= w;
  p.weight[to] += w;
  p.of[n] = to;
}

}  // namespace cleave::detail
