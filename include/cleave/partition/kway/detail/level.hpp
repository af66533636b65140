// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/language.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/detail/effort.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::detail {

/// An array whose elements have no value until they are written, or are zero: memory that is never touched
/// costs nothing, so that an upper bound is a fair size to ask for.
template <class T>
  requires std::is_trivially_copyable_v<T>
class raw_array {
 public:
  raw_array() = default;
  /// \throws std::bad_alloc.
  explicit raw_array(std::size_t size) : raw_array(std::malloc(bytes(size)), size) {}
  /// All zero. \throws std::bad_alloc.
  static raw_array zeros(std::size_t size) { return raw_array(std::calloc(bytes(size), 1), size); }

  /// Gives back what is beyond the first `size` elements.
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

  raw_array(void* memory, std::size_t size) : data_(static_cast<T*>(memory)), size_(size) {
    if (!memory) throw std::bad_alloc();
  }
  static std::size_t bytes(std::size_t size) { return (size ? size : 1) * sizeof(T); }

  std::unique_ptr<T, release> data_;
  std::size_t size_ = 0;
};

/// In how many bits a weight is stored: 32 do where the sum of all fits them, and take half the memory.
enum class weight_width : std::uint8_t { narrow, wide };

/// Weights of either width; without an array, each is 1.
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

/// Weights of a level that owns its arrays. They have no value until they are written.
class level_weights {
 public:
  level_weights() = default;
  level_weights(std::size_t size, weight_width width) {
    if (width == weight_width::narrow)
      narrow_ = raw_array<std::uint32_t>(size);
    else
      wide_ = raw_array<std::int64_t>(size);
  }

  weights_view view() const {
    return narrow_.empty() ? weights_view(wide_.data()) : weights_view(narrow_.data());
  }
  /// Precondition: it fits the width.
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

  /// Empty where they are not stored in `Weight`.
  template <class Weight>
  raw_array<Weight>& array() {
    if constexpr (sizeof(Weight) == sizeof(std::uint32_t))
      return narrow_;
    else
      return wide_;
  }

 private:
  raw_array<std::uint32_t> narrow_;
  raw_array<std::int64_t> wide_;
};

/// One level of a k-way partition: an undirected graph in compressed rows, with neither loops nor negative
/// weights. The sum of all weights of arcs, and that of nodes, fits 63 bits.
struct weighted_view {
  std::uint32_t nodes = 0;
  std::uint32_t const* first = nullptr;  ///< where the row of a node begins; nodes + 1 of them
  std::uint32_t const* head = nullptr;   ///< the neighbours
  weights_view node_weights;
  weights_view arc_weights;  ///< beside `head`

  std::uint32_t arcs() const { return first[nodes]; }
  std::uint32_t degree(std::uint32_t n) const { return first[n + 1] - first[n]; }
  std::int64_t weight(std::uint32_t n) const { return node_weights[n]; }
  std::int64_t arc_weight(std::uint32_t arc) const { return arc_weights[arc]; }
  /// What sums of weights of this level fit in.
  weight_width width() const {
    bool const wide = node_weights.width() == weight_width::wide || arc_weights.width() == weight_width::wide;
    return wide ? weight_width::wide : weight_width::narrow;
  }
};

/// A level that owns its arrays: what contraction makes of the level below.
struct level_graph {
  std::uint32_t nodes = 0;
  raw_array<std::uint32_t> first;
  raw_array<std::uint32_t> head;
  level_weights node_weights;
  level_weights arc_weights;

  weighted_view view() const {
    return {nodes, first.data(), head.data(), node_weights.view(), arc_weights.view()};
  }
};

/// Which part each node of a level is in, what the parts weigh and may weigh.
struct level_parts {
  std::vector<std::uint32_t> of;     ///< the part of a node
  std::vector<std::int64_t> weight;  ///< of a part; what was put aside (isolated nodes) is not in it
  std::vector<std::int64_t> limit;   ///< of a part: the most it may weigh
  std::uint32_t parts() const { return static_cast<std::uint32_t>(limit.size()); }
  std::int64_t room(std::uint32_t part) const { return limit[part] - weight[part]; }
};

/// The part a node must be in: `free_node`, or a part.
inline constexpr std::uint32_t free_node = 0xffffffff;

/// More nodes or arcs than 32 bits can number.
class kway_size_error : public error {
 public:
  using error::error;
};

/// A user's graph as the engine reads it: 32-bit numbers, no loops, integral weights. The arrays are the
/// user's where they already are so.
struct flat_graph {
  std::uint32_t nodes = 0;
  std::uint32_t const* first = nullptr;
  std::uint32_t const* head = nullptr;
  bool weighted = false;                ///< otherwise all weights are 1
  raw_array<std::int64_t> node_weight;  ///< if weighted
  raw_array<std::int64_t> arc_weight;   ///< if weighted
  raw_array<std::uint32_t> own_first, own_head;
  std::int64_t node_total = 0, arc_total = 0;
  fixed_point node_unit, arc_unit;  ///< of weights that were floating

  std::uint32_t arcs() const { return first ? first[nodes] : 0; }
};

/// How many arcs lead from a node to itself.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::size_t count_loops(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  std::size_t loops = 0;
  for (std::size_t n = 0; n < g.nodes(); ++n)
    for (auto const to : g.neighbours(n)) loops += static_cast<std::size_t>(to) == n;
  return loops;
}

/// `loops` is how many arcs lead from a node to itself. Precondition: `find_adjacency_fault` finds none.
/// \throws kway_size_error. O(n + m), O(1) where the user's arrays can be read as they are.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
flat_graph make_flat(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, std::size_t loops) {
  if (g.nodes() >= free_node || g.arcs() >= free_node)
    throw kway_size_error("k-way partition: " + std::to_string(g.nodes()) + " nodes with " +
                          std::to_string(g.arcs()) + " arcs are more than 4294967294");
  flat_graph f;
  f.nodes = static_cast<std::uint32_t>(g.nodes());
  f.weighted = !g.node_weight.empty() || !g.edge_weight.empty();
  f.node_total = f.nodes;
  f.arc_total = static_cast<std::int64_t>(g.arcs() - loops);

  if (loops == 0 && f.nodes > 0) {
    // The same bytes: no index is negative. Types that differ in sign only may alias.
    if constexpr (sizeof(Offset) == sizeof(std::uint32_t))
      f.first = reinterpret_cast<std::uint32_t const*>(g.offsets.data());
    if constexpr (sizeof(Index) == sizeof(std::uint32_t))
      f.head = reinterpret_cast<std::uint32_t const*>(g.targets.data());
  }
  bool const rows_copied = f.first == nullptr, heads_copied = f.head == nullptr;
  if (rows_copied) f.own_first = raw_array<std::uint32_t>(std::size_t{f.nodes} + 1);
  if (heads_copied) f.own_head = raw_array<std::uint32_t>(g.arcs() - loops + 1);
  f.node_unit = exact_unit(g.node_weight);
  f.arc_unit = exact_unit(g.edge_weight);
  if (f.weighted) {
    f.node_weight = raw_array<std::int64_t>(f.nodes);
    f.arc_weight = raw_array<std::int64_t>(g.arcs() - loops);
    f.node_total = f.arc_total = 0;
  }
  if (!rows_copied && !heads_copied && !f.weighted) return f;
  std::uint32_t to = 0;
  for (std::uint32_t n = 0; n < f.nodes; ++n) {
    if (rows_copied) f.own_first[n] = to;
    if (!heads_copied && !f.weighted) {
      to = static_cast<std::uint32_t>(g.offsets[n + 1]);
      continue;
    }
    if (f.weighted) f.node_total += f.node_weight[n] = in_unit(g.weight(n), f.node_unit);
    for (auto arc = static_cast<std::size_t>(g.offsets[n]); arc < static_cast<std::size_t>(g.offsets[n + 1]);
         ++arc) {
      auto const other = static_cast<std::uint32_t>(g.targets[arc]);
      if (other == n) continue;
      if (heads_copied) f.own_head[to] = other;
      if (f.weighted) f.arc_total += f.arc_weight[to] = in_unit(g.weight_of_arc(arc), f.arc_unit);
      ++to;
    }
  }
  if (rows_copied) {
    f.own_first[f.nodes] = to;
    f.first = f.own_first.data();
  }
  if (heads_copied) f.head = f.own_head.data();
  return f;
}

template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
flat_graph make_flat(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  return make_flat(g, count_loops(g));
}

/// The share of the total that each part should weigh: rounded up, where weights are integers.
template <class Total>
std::vector<Total> fair_weights(Total total, std::uint32_t parts, kway_options const& o) {
  double shares = 0;
  for (std::uint32_t part = 0; part < parts; ++part) shares += o.share.same() ? 1 : o.share[part];
  std::vector<Total> fair(parts);
  for (std::uint32_t part = 0; part < parts; ++part) {
    if constexpr (std::floating_point<Total>) {
      fair[part] = total * ((o.share.same() ? 1 : o.share[part]) / shares);
    } else if (o.share.same()) {
      fair[part] = total / parts + (total % parts != 0);
    } else {
      auto const exact = static_cast<double>(total) * (o.share[part] / shares);
      fair[part] = exact < static_cast<double>(total) ? static_cast<Total>(exact) : total;
      if (static_cast<double>(fair[part]) < exact && fair[part] < total) ++fair[part];
    }
  }
  return fair;
}

/// What each part may weigh: (1 + imbalance) * its fair weight, rounded down; more only where a node or what
/// is fixed to it leaves no choice.
inline std::vector<std::int64_t> weight_limits(flat_graph const& g, std::vector<std::int64_t> const& fair,
                                               kway_options const& o) {
  auto const parts = fair.size();
  std::vector<std::int64_t> limit(parts), bound(parts, 0);
  std::int64_t heaviest = 0;
  bool const alike = !g.weighted && o.fixed.empty();
  if (alike) heaviest = 1;
  for (std::uint32_t n = 0; n < g.nodes && !alike; ++n) {
    auto const w = g.weighted ? g.node_weight[n] : 1;
    if (!o.fixed.empty() && o.fixed[n] != no_part)
      bound[index(o.fixed[n])] += w;
    else
      heaviest = (std::max)(heaviest, w);
  }
  for (std::size_t part = 0; part < parts; ++part) {
    auto const slack = o.imbalance[part] * static_cast<double>(fair[part]);
    auto const room = (std::numeric_limits<std::int64_t>::max)() / 2 - fair[part];
    limit[part] = fair[part] + (slack < static_cast<double>(room) ? static_cast<std::int64_t>(slack) : room);
    limit[part] = (std::min)((std::max)(limit[part], bound[part]), g.node_total);
  }
  if (std::none_of(limit.begin(), limit.end(), [&](std::int64_t l) { return l >= heaviest; }))
    for (std::size_t part = 0; part < parts; ++part)
      if (fair[part] > 0 || heaviest == 0) limit[part] = (std::max)(limit[part], heaviest);
  return limit;
}

/// The cluster of a node that is left out of the level above: it has no edge.
inline constexpr std::uint32_t no_cluster = 0xffffffff;

/// Which nodes become one on the level above. Clusters are numbered in order of their first members, so that
/// neighbours in memory remain neighbours.
struct clustering {
  std::uint32_t clusters = 0;
  raw_array<std::uint32_t> of;      ///< the cluster of a node, or `no_cluster`
  raw_array<std::uint32_t> begin;   ///< of a cluster in `member`; clusters + 1 of them
  raw_array<std::uint32_t> member;  ///< nodes, cluster after cluster
};

/// What bounds and steers the choice of clusters.
struct cluster_rules {
  std::int64_t heaviest = 1;  ///< a cluster may weigh
  std::vector<std::uint32_t> const*
      fixed;                       ///< nodes bound to different parts are not put together; may be null
  std::uint32_t grain = 1u << 17;  ///< nodes a range, which is clustered by itself

  cluster_tie tie = cluster_tie::lighter;

  bool may_join(std::uint32_t a, std::uint32_t b) const {
    if (!fixed || fixed->empty()) return true;
    return (*fixed)[a] == free_node || (*fixed)[b] == free_node || (*fixed)[a] == (*fixed)[b];
  }
};

/// Fixed ranges of `nodes` ids: how many depends on nothing else.
struct id_ranges {
  std::uint32_t nodes, grain;

  std::size_t count() const { return (std::size_t{nodes} + grain - 1) / grain; }
  std::uint32_t begin(std::size_t range) const { return static_cast<std::uint32_t>(range) * grain; }
  std::uint32_t end(std::size_t range) const {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(nodes, (std::uint64_t{range} + 1) * std::uint64_t{grain}));
  }
};

/// Numbers the clusters and lists their members, where `leader[n]` is the least member of the cluster of n,
/// or `no_cluster`, and no cluster reaches from one range into another.
inline clustering numbered_clusters(raw_array<std::uint32_t> leader, id_ranges const& ranges,
                                    thread_team const& team) {
  clustering c;
  c.of = std::move(leader);
  std::vector<std::uint32_t> first_cluster(ranges.count() + 1, 0), first_member(ranges.count() + 1, 0);
  team.share(ranges.count(), [&](std::size_t r) {
    std::uint32_t clusters = 0, members = 0;
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (c.of[n] == no_cluster) continue;
      ++members;
      c.of[n] = c.of[n] == n ? clusters++ : c.of[c.of[n]];  // a leader comes first, and has its number
    }
    first_cluster[r + 1] = clusters;
    first_member[r + 1] = members;
  });
  for (std::size_t r = 0; r < ranges.count(); ++r) {
    first_cluster[r + 1] += first_cluster[r];
    first_member[r + 1] += first_member[r];
  }
  c.clusters = first_cluster.back();
  c.begin = raw_array<std::uint32_t>(std::size_t{c.clusters} + 1);
  c.member = raw_array<std::uint32_t>(first_member.back());
  c.begin[c.clusters] = first_member.back();
  team.share(ranges.count(), [&](std::size_t r) {
    auto* const begin = c.begin.data() + first_cluster[r];
    auto const clusters = first_cluster[r + 1] - first_cluster[r];
    std::fill_n(begin, clusters, 0u);
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n)
      if (c.of[n] != no_cluster) ++begin[c.of[n]];
    auto end = first_member[r];
    for (std::uint32_t i = 0; i < clusters; ++i) begin[i] = std::exchange(end, end + begin[i]);
    std::vector<std::uint32_t> next(begin, begin + clusters);
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (c.of[n] == no_cluster) continue;
      c.member[next[c.of[n]]++] = n;
      c.of[n] += first_cluster[r];
    }
  });
  return c;
}

/// Puts nodes without edges where they must be or where there is most room, the heaviest first.
inline void place_left_out(weighted_view const& g, level_parts& p, std::vector<std::uint32_t> const& fixed,
                           std::vector<std::uint32_t> const& nodes) {
  if (nodes.empty()) return;
  std::vector<std::pair<std::int64_t, std::uint32_t>> heaviest_first;
  for (auto const n : nodes) {
    if (!fixed.empty() && fixed[n] != free_node) {
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

/// Makes the parts of a level those of `below`, the level it stands on: each node gets the part of its
/// cluster, and nodes that have none go where there is room. O(nodes).
inline void project(weighted_view const& below, level_parts& p, std::vector<std::uint32_t> const& fixed,
                    raw_array<std::uint32_t> const& cluster_of, thread_team const& team) {
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
  std::vector<std::uint32_t> left_out;
  for (auto const& nodes : alone) left_out.insert(left_out.end(), nodes.begin(), nodes.end());
  place_left_out(below, p, fixed, left_out);
}

/// How strongly one node at a time is tied to each part.
class part_links {
 public:
  explicit part_links(std::uint32_t parts) : weight_(parts, 0) { near_.reserve(64); }

  /// Counts the links of a node, forgetting those of the last one.
  void count(weighted_view const& g, std::vector<std::uint32_t> const& of, std::uint32_t n) {
    for (auto const part : near_) weight_[part] = 0;
    near_.clear();
    for (auto arc = g.first[n], stop = g.first[n + 1]; arc < stop; ++arc) {
      auto const part = of[g.head[arc]];
      if (weight_[part] == 0) near_.push_back(part);
      weight_[part] += g.arc_weight(arc);
    }
  }

  std::int64_t to(std::uint32_t part) const { return weight_[part]; }
  /// Parts that have neighbours of the node.
  std::vector<std::uint32_t> const& nearby() const { return near_; }

  /// The part beside `own` with room for `w` that the node is tied to most, of those the one with most room;
  /// `free_node` if there is none.
  std::uint32_t best_target(level_parts const& p, std::uint32_t own, std::int64_t w) const {
    auto best = free_node;
    std::int64_t most = 0;
    for (auto const part : near_) {
      if (part == own || weight_[part] < most || p.weight[part] + w > p.limit[part]) continue;
      if (weight_[part] == most && best != free_node && p.room(part) <= p.room(best)) continue;
      best = part;
      most = weight_[part];
    }
    return best;
  }

 private:
  std::vector<std::int64_t> weight_;
  std::vector<std::uint32_t> near_;
};

/// Puts a node into another part.
inline void move_node(weighted_view const& g, level_parts& p, std::uint32_t n, std::uint32_t to) {
  auto const w = g.weight(n);
  p.weight[p.of[n]] -= w;
  p.weight[to] += w;
  p.of[n] = to;
}

/// `check_adjacency` on several threads, for graphs without weights; on one for others. Returns how many arcs
/// lead from a node to itself. \throws adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::size_t check_arrays(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, thread_team const& team) {
  auto const all = g.nodes();
  if (!g.node_weight.empty() || !g.edge_weight.empty() || all == 0 || all >= no_cluster ||
      static_cast<std::uint64_t>(g.offsets[0]) != 0 ||
      static_cast<std::uint64_t>(g.offsets[all]) != g.arcs()) {
    check_adjacency(g);
    return count_loops(g);
  }
  struct findings {
    arc_balance balance;
    std::size_t loops = 0;
    bool sound = true;
  };
  id_ranges const ranges{static_cast<std::uint32_t>(all), 1u << 15};
  std::vector<findings> found(ranges.count());
  team.share(ranges.count(), [&](std::size_t r) {
    findings f;
    for (std::size_t n = ranges.begin(r); n < ranges.end(r) && f.sound; ++n) {
      auto const begin = static_cast<std::uint64_t>(g.offsets[n]);
      auto const end = static_cast<std::uint64_t>(g.offsets[n + 1]);
      f.sound = begin <= end && end <= g.arcs();
      for (auto arc = begin; f.sound && arc < end; ++arc) {
        auto const to = static_cast<std::uint64_t>(g.targets[arc]);
        if (to >= all) f.sound = false;
        f.loops += to == n;
        f.balance.add(n, to, 1);
      }
    }
    found[r] = f;
  });
  findings sum;
  for (auto const& f : found) {
    sum.balance.add(f.balance);
    sum.loops += f.loops;
    sum.sound &= f.sound;
  }
  if (!sum.sound || !sum.balance.even()) check_adjacency(g);  // which says where
  return sum.loops;
}

/// The level above: a node for each cluster, and edges between them with the sum of the weights of those that
/// they stand for. The rows are merged with an array that remembers where each neighbour was put last, not by
/// hashing. O(n + m).
class contraction {
 public:
  contraction(weighted_view const& g, clustering const& c) : g_(g), c_(c) {}

  level_graph graph(thread_team const& team) const { return graph(team, g_.width()); }

  /// Precondition: sums of weights fit `width`.
  level_graph graph(thread_team const& team, weight_width width) const {
    level_graph coarse;
    coarse.nodes = c_.clusters;
    coarse.first = raw_array<std::uint32_t>(std::size_t{c_.clusters} + 1);
    coarse.head = raw_array<std::uint32_t>(g_.arcs());
    coarse.node_weights = level_weights(c_.clusters, width);
    coarse.arc_weights = level_weights(g_.arcs(), width);
    if (width == weight_width::narrow)
      merge_all<std::uint32_t>(coarse, team);
    else
      merge_all<std::int64_t>(coarse, team);
    return coarse;
  }

 private:
  /// The threads merge pieces of the rows into places with room for all their arcs; then these are drawn
  /// together.
  template <class Weight>
  void merge_all(level_graph& coarse, thread_team const& team) const {
    bool const in_one = team.threads() == 1 || c_.clusters < 1u << 14;
    id_ranges const ranges{c_.clusters,
                           in_one ? (std::max)(c_.clusters, 1u) : c_.clusters / (4 * team.threads()) + 1};
    std::vector<std::uint32_t> place(ranges.count() + 1, 0), arcs(ranges.count() + 1, 0);
    if (ranges.count() > 1)
      team.share(ranges.count(), [&](std::size_t r) {
        for (auto at = c_.begin[ranges.begin(r)]; at < c_.begin[ranges.end(r)]; ++at)
          place[r + 1] += g_.degree(c_.member[at]);
      });
    for (std::size_t r = 0; r < ranges.count(); ++r) place[r + 1] += place[r];
    team.share(ranges.count(), [&](std::size_t r) {
      arcs[r + 1] = merge<Weight>(ranges.begin(r), ranges.end(r), coarse, place[r]);
    });
    for (std::size_t r = 0; r < ranges.count(); ++r) arcs[r + 1] += arcs[r];
    coarse.first[c_.clusters] = arcs.back();
    if (ranges.count() == 1) {
      coarse.head.shrink(arcs.back());
      coarse.arc_weights.shrink(arcs.back());
      return;
    }
    team.share(ranges.count(), [&](std::size_t r) {
      for (auto i = ranges.begin(r); i < ranges.end(r); ++i) coarse.first[i] -= place[r] - arcs[r];
    });
    coarse.head = drawn_together(coarse.head, place, arcs, team);
    auto& weights = coarse.arc_weights.array<Weight>();
    weights = drawn_together(weights, place, arcs, team);
  }

  /// Of pieces that begin at `from`, those elements that they have, to begin at `to`.
  template <class T>
  static raw_array<T> drawn_together(raw_array<T> const& pieces, std::vector<std::uint32_t> const& from,
                                     std::vector<std::uint32_t> const& to, thread_team const& team) {
    raw_array<T> all(to.back());
    team.share(from.size() - 1, [&](std::size_t r) {
      std::copy_n(pieces.data() + from[r], to[r + 1] - to[r], all.data() + to[r]);
    });
    return all;
  }

  /// Writes rows and weights of the clusters from `lo` up to `hi`, the first arc at `begin`, and returns how
  /// many arcs they have.
  template <class Weight>
  std::uint32_t merge(std::uint32_t lo, std::uint32_t hi, level_graph& coarse, std::uint32_t begin) const {
    auto last = raw_array<std::uint32_t>::zeros(c_.clusters);  // one past where it was put last
    auto* const head = coarse.head.data();
    auto* const weight = coarse.arc_weights.array<Weight>().data();
    auto const* const of = c_.of.data();
    auto const arc_weights = g_.arc_weights;
    auto end = begin;
    for (auto i = lo; i < hi; ++i) {
      auto const row = end;
      coarse.first[i] = row;
      std::int64_t sum = 0;
      for (auto at = c_.begin[i]; at < c_.begin[i + 1]; ++at) {
        auto const n = c_.member[at];
        sum += g_.weight(n);
        for (auto arc = g_.first[n], stop = g_.first[n + 1]; arc < stop; ++arc) {
          auto const other = of[g_.head[arc]];
          if (other == i) continue;
          auto const place = last[other];
          auto const w = static_cast<Weight>(arc_weights[arc]);
          if (place > row) {
            weight[place - 1] += w;
          } else {
            head[end] = other;
            weight[end] = w;
            last[other] = ++end;
          }
        }
      }
      coarse.node_weights.array<Weight>()[i] = static_cast<Weight>(sum);
    }
    return end - begin;
  }

  weighted_view const& g_;
  clustering const& c_;
};

}  // namespace cleave::detail
