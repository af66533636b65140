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
#include "cleave/partition/kway/detail/further_weights.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::inline v0_2::detail {

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

/// Storage of offsets: 32 bits if they number all directed edges, otherwise 64 bits.
enum class offset_width : std::uint8_t { narrow, wide };

/// Returns the width of the offsets of a graph with at most `edges` directed edges.
constexpr offset_width width_for_edges(std::uint64_t edges) {
  return edges <= 0xffffffff ? offset_width::narrow : offset_width::wide;
}

/// A view of offsets of either width.
struct offsets_view {
  std::uint32_t const* narrow = nullptr;
  std::uint64_t const* wide = nullptr;

  offsets_view(std::nullptr_t = nullptr) {}
  offsets_view(std::uint32_t const* n) : narrow(n) {}
  offsets_view(std::uint64_t const* w) : wide(w) {}

  std::uint64_t operator[](std::size_t i) const { return narrow ? narrow[i] : wide[i]; }
  bool empty() const { return !narrow && !wide; }
};

/// The offsets of a level that owns its arrays. They are uninitialized.
class level_offsets {
 public:
  level_offsets() = default;
  level_offsets(std::size_t size, offset_width width) {
    if (width == offset_width::narrow)
      narrow_ = uninitialized_array<std::uint32_t>(size);
    else
      wide_ = uninitialized_array<std::uint64_t>(size);
  }

  offsets_view view() const {
    return narrow_.empty() ? offsets_view(wide_.data()) : offsets_view(narrow_.data());
  }
  std::uint64_t operator[](std::size_t i) const { return narrow_.empty() ? wide_[i] : narrow_[i]; }
  /// Stores an offset. \pre `offset` fits the width.
  void set(std::size_t i, std::uint64_t offset) {
    if (!narrow_.empty())
      narrow_[i] = static_cast<std::uint32_t>(offset);
    else
      wide_[i] = offset;
  }
  void shrink(std::size_t size) {
    if (!narrow_.empty()) narrow_.shrink(size);
    if (!wide_.empty()) wide_.shrink(size);
  }
  std::size_t size() const { return narrow_.size() + wide_.size(); }
  bool empty() const { return size() == 0; }
  offset_width width() const { return wide_.empty() ? offset_width::narrow : offset_width::wide; }

 private:
  uninitialized_array<std::uint32_t> narrow_;
  uninitialized_array<std::uint64_t> wide_;
};

/// One level of a k-way partition: an undirected graph in CSR form without self-loops or negative weights.
/// The sum of all edge weights and the sum of all node weights fit 63 bits.
struct weighted_view {
  std::uint32_t nodes = 0;
  offsets_view offsets;                    ///< start of each node's row; nodes + 1 entries
  std::uint32_t const* targets = nullptr;  ///< neighbours, row by row
  weights_view node_weights;
  weights_view edge_weights;  ///< parallel to `targets`
  further_weights further{};  ///< of the nodes, if they have several weights

  std::uint64_t directed_edges() const { return offsets[nodes]; }
  std::uint64_t degree(std::uint32_t n) const { return offsets[n + std::size_t{1}] - offsets[n]; }
  std::int64_t weight(std::uint32_t n) const { return node_weights[n]; }
  std::int64_t edge_weight(std::uint64_t e) const { return edge_weights[e]; }
  /// Returns the width that holds any sum of weights of this level.
  weight_width width() const {
    bool const wide =
        node_weights.width() == weight_width::wide || edge_weights.width() == weight_width::wide;
    bool const many = edge_weights.all_one() && width_for_edges(directed_edges()) == offset_width::wide;
    return wide || many ? weight_width::wide : weight_width::narrow;
  }
};

/// A level that owns its arrays: the contraction of the next finer level.
struct level_graph {
  std::uint32_t nodes = 0;
  level_offsets offsets;
  uninitialized_array<std::uint32_t> targets;
  level_weights node_weights;
  level_weights edge_weights;
  uninitialized_array<std::int64_t> further;  ///< further weights of the nodes, node by node; may be empty
  further_limits const* limits = nullptr;     ///< of the further weights

  weighted_view view() const {
    return {nodes,
            offsets.view(),
            targets.data(),
            node_weights.view(),
            edge_weights.view(),
            {further.data(), limits}};
  }
};

/// The part of each node of a level, with the weight and limit of each part.
struct partitioned_level {
  std::vector<std::uint32_t> of;     ///< part of each node
  std::vector<std::int64_t> weight;  ///< weight of each part, without isolated nodes that were set aside
  std::vector<std::int64_t> limit;   ///< weight limit of each part
  further_sums further{};            ///< of each part, if nodes have several weights

  std::uint32_t parts() const { return static_cast<std::uint32_t>(limit.size()); }
  std::int64_t room(std::uint32_t part) const { return limit[part] - weight[part]; }

  /// Returns true if a part can take a node without exceeding a limit.
  bool fits(weighted_view const& g, std::uint32_t n, std::uint32_t part) const {
    return weight[part] + g.weight(n) <= limit[part] && further.fits(g.further, n, part);
  }
  /// Returns how much a part exceeds its limits.
  std::int64_t excess(std::uint32_t part) const {
    return std::max<std::int64_t>(0, weight[part] - limit[part]) + further.excess(part);
  }
  bool is_over(std::uint32_t part) const { return excess(part) > 0; }
  /// Returns the weight that counts if a node leaves its part: if there are several, only weights whose
  /// limits are exceeded.
  std::int64_t relief(weighted_view const& g, std::uint32_t n) const {
    if (!further.limits) return g.weight(n);
    auto const part = of[n];
    auto all = room(part) < 0 ? g.weight(n) : 0;
    for (std::uint32_t w = 0; w < further.limits->weights; ++w)
      if (auto const own = g.further.of(n)[w]; own > 0 && further.of(part)[w] > further.limits->of(part)[w])
        all += further.limits->counted(own, w);
    return all;
  }

  /// Adds the weights of a node to a part, or removes them with `sign` -1.
  void add_weight(weighted_view const& g, std::uint32_t n, std::uint32_t part, int sign = 1) {
    weight[part] += sign * g.weight(n);
    further.add(g.further, n, part, sign);
  }
  /// Computes the weights of all parts from the parts of the nodes. Nodes without a part are left out.
  void weigh(weighted_view const& g) {
    weight.assign(limit.size(), 0);
    further.limits = g.further.limits;
    further.clear(limit.size());
    for (std::uint32_t n = 0; n < g.nodes; ++n)
      if (of[n] < parts()) add_weight(g, n, of[n]);
  }
};

/// Returns the total weight by which parts exceed their limits.
inline std::int64_t excess_weight(partitioned_level const& p) {
  std::int64_t sum = 0;
  for (std::uint32_t part = 0; part < p.parts(); ++part) sum += p.excess(part);
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

/// Returns the part that would be least full with the node in it. A part is as full as the fullest of its
/// weights, relative to the limit. O(parts). \pre Nodes have several weights.
inline std::uint32_t emptiest(weighted_view const& g, partitioned_level const& p, std::uint32_t n) {
  std::uint32_t best = 0;
  double least = 0;
  auto const* const own = g.further.of(n);
  for (std::uint32_t part = 0; part < p.parts(); ++part) {
    double fullest = 0;
    for (std::uint32_t w = 0; w < g.further.count(); ++w) {
      auto const with = static_cast<double>(p.further.of(part)[w]) + static_cast<double>(own[w]);
      auto const most = static_cast<double>(p.further.limits->of(part)[w]);
      if (own[w] > 0) fullest = (std::max)(fullest, with / (std::max)(1.0, most));
    }
    if (part == 0 || fullest < least) best = part, least = fullest;
  }
  return best;
}

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
      p.add_weight(g, n, fixed[n]);
    } else {
      heaviest_first.emplace_back(-g.weight(n), n);
    }
  }
  std::sort(heaviest_first.begin(), heaviest_first.end());
  if (p.further.limits) {
    for (auto const& [weight, n] : heaviest_first) {
      p.of[n] = emptiest(g, p, n);
      p.add_weight(g, n, p.of[n]);
    }
    return;
  }
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
    auto const* const target = g.targets;
    auto const* const part_of = of.data();
    auto const edge_weights = g.edge_weights;
    auto* const weight = weight_.data();
    for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e) {
      auto const part = part_of[target[e]];
      if (weight[part] == 0) near_.push_back(part);
      weight[part] += edge_weights[e];
    }
  }

  std::int64_t to(std::uint32_t part) const { return weight_[part]; }
  /// Returns the parts that contain neighbours of the node.
  std::vector<std::uint32_t> const& nearby() const { return near_; }

  /// Returns the part other than its own to which the node is most connected and which has room for it.
  /// Ties go to the part with the most room. Returns `no_block` if no part qualifies.
  std::uint32_t best_target(weighted_view const& g, partitioned_level const& p, std::uint32_t n) const {
    auto const own = p.of[n];
    auto best = no_block;
    std::int64_t most = 0;
    for (auto const part : near_) {
      if (part == own || weight_[part] < most || !p.fits(g, n, part)) continue;
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
  p.add_weight(g, n, p.of[n], -1);
  p.add_weight(g, n, to);
  p.of[n] = to;
}

}  // namespace cleave::detail
