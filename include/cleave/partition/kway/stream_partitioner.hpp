// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/kway/detail/engine.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// The rule that chooses a part for one node.
enum class stream_rule : std::uint8_t {
  ldg,     ///< the weight of edges into the part, times its free share. Stanton, Kliot, "Streaming graph
           ///< partitioning for large distributed graphs", KDD 2012
  fennel,  ///< the same weight, minus a price that rises with the part's weight. Tsourakakis and others,
           ///< "FENNEL: streaming graph partitioning for massive scale graphs", WSDM 2014
};

/// Options of `stream_partitioner`.
struct stream_options {
  double imbalance = 0.03;  ///< how far a part may exceed its share: 0.03 is 3 %
  stream_rule rule = stream_rule::ldg;
  std::size_t buffer = 1 << 16;                ///< nodes that are cut together; 0: each node is placed alone
  kway_preset preset = kway_preset::standard;  ///< effort for each buffer
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;  ///< does not affect the result
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for a node, or a stream, that cannot be partitioned. `witness` is the node, or the number of nodes
/// if the fault is that of the whole stream.
using stream_error = tagged_error<struct stream_tag, std::uint64_t>;

/// Finds the lightest part; of equal ones the first. A tree of minima: O(log k) for each change.
class lightest_part {
 public:
  explicit lightest_part(std::uint32_t parts) {
    while (leaves_ < parts) leaves_ *= 2;
    weight_.assign(leaves_, (std::numeric_limits<std::int64_t>::max)());
    std::fill_n(weight_.begin(), parts, 0);
    best_.resize(2 * leaves_);
    for (std::size_t i = 0; i < leaves_; ++i) best_[leaves_ + i] = static_cast<std::uint32_t>(i);
    for (auto i = leaves_; i-- > 1;) choose(i);
  }
  void set(std::uint32_t part, std::int64_t weight) {
    weight_[part] = weight;
    for (auto i = (leaves_ + part) / 2; i > 0; i /= 2) choose(i);
  }
  std::uint32_t get() const { return best_[1]; }

 private:
  void choose(std::size_t i) {
    auto const a = best_[2 * i], b = best_[2 * i + 1];
    best_[i] = weight_[b] < weight_[a] ? b : a;
  }

  std::size_t leaves_ = 1;
  std::vector<std::int64_t> weight_;
  std::vector<std::uint32_t> best_;
};

/// Sums up the edges of one node by part.
class edges_into_parts {
 public:
  explicit edges_into_parts(std::uint32_t parts) : weight_(parts, 0), met_(parts, 0) {}

  void add(std::uint32_t part, std::int64_t weight) {
    if (met_[part] == 0) parts_.push_back(part);
    met_[part] = 1;
    weight_[part] += weight;
  }
  std::int64_t into(std::uint32_t part) const { return weight_[part]; }
  /// Returns the parts with neighbours of the node, in the order in which they were met.
  std::vector<std::uint32_t> const& parts() const { return parts_; }
  void clear() {
    for (auto const part : parts_) weight_[part] = 0, met_[part] = 0;
    parts_.clear();
  }

 private:
  std::vector<std::int64_t> weight_;
  std::vector<char> met_;
  std::vector<std::uint32_t> parts_;
};

/// The weights of the parts while nodes are placed, and the rule that places one more.
class placed_parts {
 public:
  /// Starts with empty parts. `price` is the price of Fennel for a part of weight 1.
  placed_parts(std::uint32_t parts, std::int64_t limit, stream_rule rule, double price)
      : limit_(limit),
        rule_(rule),
        unit_price_(price),
        weight_(parts, 0),
        price_(parts, 0),
        size_(parts, 0),
        empty_(parts),
        lightest_(parts) {}

  /// Returns the best part with room for a node, or the lightest part if none has room. If only as many nodes
  /// are left as there are empty parts, it is an empty one. `left` counts this node too.
  std::uint32_t choose(edges_into_parts const& edges, std::int64_t weight, std::uint64_t left) {
    if (left <= empty_ && empty_ > 0) {
      while (size_[first_empty_] > 0) ++first_empty_;
      return first_empty_;
    }
    auto best = lightest_.get();
    auto most = score(0, best, weight);
    for (auto const part : edges.parts()) {
      if (weight_[part] + weight > limit_) continue;
      auto const found = score(edges.into(part), part, weight);
      if (found < most) continue;
      if (found == most && std::pair(weight_[part], part) >= std::pair(weight_[best], best)) continue;
      best = part;
      most = found;
    }
    return best;
  }
  void put(std::uint32_t part, std::int64_t weight) {
    if (size_[part]++ == 0) --empty_;
    weight_[part] += weight;
    price_[part] = unit_price_ * std::sqrt(static_cast<double>(weight_[part]));
    lightest_.set(part, weight_[part]);
  }

  std::vector<std::int64_t> const& weights() const { return weight_; }
  std::vector<std::uint64_t> const& sizes() const { return size_; }
  std::uint32_t empty() const { return empty_; }
  std::int64_t limit() const { return limit_; }
  /// Returns the weight above the limits, summed over all parts.
  std::int64_t excess() const {
    std::int64_t sum = 0;
    for (auto const w : weight_) sum += std::max<std::int64_t>(0, w - limit_);
    return sum;
  }

 private:
  /// Returns the score of a part. No product is added to, so that all compilers round it alike.
  double score(std::int64_t edges, std::uint32_t part, std::int64_t weight) const {
    auto const e = static_cast<double>(edges);
    if (rule_ == stream_rule::ldg) return e * static_cast<double>(limit_ - weight_[part]);
    return weight == 0 ? e : e / static_cast<double>(weight) - price_[part];
  }

  std::int64_t limit_;
  stream_rule rule_;
  double unit_price_;
  std::vector<std::int64_t> weight_;
  std::vector<double> price_;
  std::vector<std::uint64_t> size_;  // number of nodes
  std::uint32_t empty_, first_empty_ = 0;
  lightest_part lightest_;
};

/// The graph of the nodes in a buffer, and of one more node for each part. That node is fixed, weighs
/// nothing, and stands for all placed nodes of its part. Faraj, Schulz, "Buffered streaming graph
/// partitioning", ACM JEA 27, 2022.
struct buffer_graph {
  std::uint32_t nodes = 0, parts = 0;  ///< nodes of the buffer, which come first
  std::vector<std::uint32_t> offsets{0}, targets;
  std::vector<std::int64_t> node_weight, edge_weight;
  std::vector<std::uint32_t> fixed;
  std::vector<std::int64_t> unseen;  ///< of a node: the weight of its edges to nodes that are still to come

  weighted_view view() const {
    return {nodes + parts, offsets.data(), targets.data(), node_weight.data(), edge_weight.data()};
  }
  /// Calls `f(other, weight)` for each edge of `n` to a part or to an earlier node of the buffer.
  template <class F>
  void each_earlier(std::uint32_t n, F f) const {
    for (auto e = offsets[n]; e < offsets[n + 1]; ++e)
      if (auto const to = targets[e]; to < n || to >= nodes) f(to, edge_weight[e]);
  }
  /// Adds the nodes of the parts, when the rows of all others are there. Each edge gets its second end.
  void add_parts() {
    std::vector<std::uint32_t> next(parts + std::size_t{1}, 0);
    for (auto const to : targets)
      if (to >= nodes) ++next[to - nodes + 1];
    for (std::uint32_t p = 0; p < parts; ++p) {
      offsets.push_back(offsets.back() + next[p + 1]);
      next[p] = offsets[nodes + p];
    }
    targets.resize(offsets.back());
    edge_weight.resize(offsets.back());
    for (std::uint32_t n = 0; n < nodes; ++n)
      for (auto e = offsets[n]; e < offsets[n + 1]; ++e)
        if (targets[e] >= nodes) {
          auto const at = next[targets[e] - nodes]++;
          targets[at] = n;
          edge_weight[at] = edge_weight[e];
        }
    node_weight.resize(nodes + parts, 0);
    fixed.assign(nodes + parts, no_block);
    for (std::uint32_t p = 0; p < parts; ++p) fixed[nodes + p] = p;
  }
};

/// Cuts one buffer in several ways, and keeps the way with the least expected cut. An edge to a node that is
/// still to come counts by how full its part is, because a full part cannot take that node.
class buffer_cut {
 public:
  buffer_cut(buffer_graph const& g, placed_parts const& placed, std::int64_t total, kway_options options)
      : g_(g), placed_(placed), options_(std::move(options)) {
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      weight_ += g.node_weight[n];
      heaviest_ = (std::max)(heaviest_, g.node_weight[n]);
    }
    auto seen = static_cast<double>(weight_);
    for (auto const w : placed.weights()) seen += static_cast<double>(w);
    auto const share = total > 0 ? (std::min)(1.0, seen / static_cast<double>(total)) : 1.0;
    balanced_ = static_cast<std::int64_t>(std::ceil(static_cast<double>(placed.limit()) * share));
    balanced_ = (std::min)(balanced_, placed.limit());
  }

  /// Returns the part of each node of the buffer, then of the nodes that stand for parts. `left` is the
  /// number of nodes that are not placed, with those of the buffer.
  std::vector<std::uint32_t> parts(std::uint64_t left) {
    auto const greedy = placed_alone(left);
    offer(greedy);
    auto const last = placed_.limit();
    auto const half = balanced_ + (last - balanced_) / 2;
    try_limits(limits(last), greedy);
    try_limits(limits(last), {});
    try_limits(limits(balanced_), {});
    if (balanced_ < last) {
      try_limits(few_open(half), {});
      try_limits(few_open(last), {});
    }
    return std::move(best_);
  }

 private:
  /// Places each node of the buffer alone, by the rule.
  std::vector<std::uint32_t> placed_alone(std::uint64_t left) const {
    auto placed = placed_;
    edges_into_parts edges(g_.parts);
    std::vector<std::uint32_t> of(g_.nodes + g_.parts);
    for (std::uint32_t p = 0; p < g_.parts; ++p) of[g_.nodes + p] = p;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      g_.each_earlier(n, [&](std::uint32_t to, std::int64_t w) { edges.add(of[to], w); });
      of[n] = placed.choose(edges, g_.node_weight[n], left - n);
      placed.put(of[n], g_.node_weight[n]);
      edges.clear();
    }
    return of;
  }

  /// Returns how much of the buffer each part may take until it weighs `most`.
  std::vector<std::int64_t> limits(std::int64_t most) const {
    std::vector<std::int64_t> room;
    for (auto const w : placed_.weights()) room.push_back(std::max<std::int64_t>(0, most - w));
    return room;
  }
  /// Returns such limits, but 0 for all parts beyond those that the buffer fills. Parts with many edges to
  /// the buffer are open first, then heavy ones.
  std::vector<std::int64_t> few_open(std::int64_t most) const {
    std::vector<std::int64_t> pull(g_.parts, 0);
    for (std::uint32_t p = 0; p < g_.parts; ++p)
      for (auto e = g_.offsets[g_.nodes + p]; e < g_.offsets[g_.nodes + p + 1]; ++e)
        pull[p] += g_.edge_weight[e];
    std::vector<std::uint32_t> order(g_.parts);
    for (std::uint32_t p = 0; p < g_.parts; ++p) order[p] = p;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      auto const& w = placed_.weights();
      if (pull[a] != pull[b]) return pull[a] > pull[b];
      return w[a] != w[b] ? w[a] > w[b] : a < b;
    });
    auto room = limits((std::min)(placed_.limit(), most + heaviest_));
    auto const needed = static_cast<double>(weight_) * (1 + options_.imbalance[0]);
    double open = 0;
    for (auto const p : order) {
      if (open >= needed) room[p] = 0;
      open += static_cast<double>(room[p]);
    }
    return room;
  }

  void try_limits(std::vector<std::int64_t> limit, std::vector<std::uint32_t> start) {
    flat_graph const unused;  // the graph is given as a view
    kway_problem task{unused, std::move(limit), g_.fixed, std::move(start), options_};
    offer(parts_of_level(g_.view(), task).of);
  }

  /// Keeps the parts if they exceed limits less, or as much with a smaller expected cut.
  void offer(std::vector<std::uint32_t> of) {
    auto after = placed_.weights();
    std::vector<std::int64_t> unseen(g_.parts, 0);
    std::int64_t cut = 0, excess = 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      after[of[n]] += g_.node_weight[n];
      unseen[of[n]] += g_.unseen[n];
      g_.each_earlier(n, [&](std::uint32_t to, std::int64_t w) { cut += of[to] != of[n] ? w : 0; });
    }
    for (std::uint32_t p = 0; p < g_.parts; ++p) {
      excess += std::max<std::int64_t>(0, after[p] - placed_.limit());
      auto const full = static_cast<double>(after[p]) / static_cast<double>(placed_.limit());
      cut += full < 1 ? static_cast<std::int64_t>(static_cast<double>(unseen[p]) * full) : unseen[p];
    }
    if (!best_.empty() && std::pair(excess, cut) >= std::pair(excess_, cut_)) return;
    best_ = std::move(of);
    excess_ = excess;
    cut_ = cut;
  }

  buffer_graph const& g_;
  placed_parts const& placed_;
  kway_options options_;
  std::int64_t weight_ = 0, heaviest_ = 0, balanced_ = 0;
  std::vector<std::uint32_t> best_;
  std::int64_t excess_ = 0, cut_ = 0;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions an undirected graph that is too large for memory: it takes the nodes in their order, each with
/// its neighbours, and keeps only the part of each node and the edges of a buffer.
///
/// If the buffer is full, its nodes are cut together with the parts as they are. The half of the nodes with
/// the smallest share of edges to nodes that are still to come keep their parts. The other half stay in the
/// buffer. Beside that, each node is placed alone, as without a buffer. `finish` returns the better of both,
/// so that a buffer never makes the cut larger.
///
/// No part weighs more than (1 + imbalance) times its share of the total, rounded up, unless heavy nodes
/// leave no choice; `within_limits` says so. No part is empty if there are enough nodes. For a given seed,
/// the result is the same with any number of threads and any compiler. Memory: O(nodes + parts + edges of the
/// buffer). Complexity: O(edges + nodes * log(parts)) without a buffer.
class stream_partitioner {
 public:
  /// Starts with no node.
  /// \param parts  number of parts, from 1 to the number of nodes + 65,536
  /// \throws kway_option_error if the imbalance or `parts` is invalid
  /// \throws stream_error if totals are negative, too large, or missing for the rule
  stream_partitioner(std::uint32_t parts, graph_totals const& totals, stream_options const& options = {})
      : totals_(checked(parts, totals, options)),
        options_(options),
        alone_(parts, limit_of(parts, totals, options), options.rule, price_of(parts, totals)),
        edges_(parts),
        random_(options.seed) {
    of_alone_.reserve(totals.nodes);
    if (options.buffer == 0) return;
    of_.reserve(totals.nodes);
    together_.emplace(alone_);
  }

  /// Takes the next node. Its neighbours are numbered from 0, may come earlier or later, and each edge is
  /// listed at both of its ends with the same weight. Self-loops are ignored; parallel edges add up.
  /// \param edge_weights  of the edge to each neighbour; empty: all weigh 1
  /// \throws stream_error that names the node, if it is one too many or too heavy, or has a neighbour that
  ///   does not exist or a negative weight. The node is then not taken.
  /// \throws stream_error that names an edge of the buffer, if it is listed at one of its ends only
  void add(std::span<std::uint64_t const> neighbours, std::int64_t weight = 1,
           std::span<std::int64_t const> edge_weights = {}) {
    expects(edge_weights.empty() || edge_weights.size() == neighbours.size(),
            "a weight for each neighbour, or none");
    std::uint64_t const node = of_alone_.size();
    check_row(node, neighbours, weight, edge_weights);
    auto const weight_of = [&](std::size_t i) { return edge_weights.empty() ? 1 : edge_weights[i]; };
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      symmetry_.add(node, neighbours[i], detail::weight_bits(weight_of(i)));
      if (neighbours[i] < node) edges_.add(index(of_alone_[neighbours[i]]), weight_of(i));
    }
    auto const part = alone_.choose(edges_, weight, totals_.nodes - node);
    for (auto const p : edges_.parts()) cut_alone_ += p != part ? edges_.into(p) : 0;
    edges_.clear();
    alone_.put(part, weight);
    of_alone_.push_back(part_id{part});
    if (!together_) return;

    while (!held_.id.empty() && held_.to.size() + neighbours.size() > most_arcs) place_buffer(false);
    of_.push_back(no_part);
    held_.id.push_back(node);
    held_.weight.push_back(weight);
    for (std::size_t i = 0; i < neighbours.size(); ++i) {
      if (neighbours[i] == node) continue;
      held_.to.push_back(neighbours[i]);
      held_.edge_weight.push_back(weight_of(i));
    }
    held_.first.push_back(held_.to.size());
    if (held_.id.size() == options_.buffer) place_buffer(false);
  }

  /// Returns the partition, when all nodes were taken. The object is of no use afterwards.
  /// \throws stream_error if nodes are missing, their weights do not add up to the total, or an edge is not
  ///   listed at both of its ends
  kway_partition<std::int64_t> finish() {
    std::uint64_t const taken = of_alone_.size();
    if (taken != totals_.nodes)
      fail(taken, "the stream ends after " + text(taken) + " nodes, but " + text(totals_.nodes) +
                      " were announced: give the true number of nodes");
    if (weight_ != total_weight(totals_))
      fail(taken, "the nodes weigh " + text(weight_) + " together, but " + text(total_weight(totals_)) +
                      " was announced: give the true total");
    if (!symmetry_.even()) {
      if (together_) graph_of_buffer();  // names the edge if both of its ends are there
      fail(taken,
           "the graph is not symmetric: an edge is listed at one of its ends only, or with two different "
           "weights; list each edge at both ends with the same weight");
    }
    if (together_) place_buffer(true);
    bool const joint =
        together_ && std::pair(together_->excess(), cut_) <= std::pair(alone_.excess(), cut_alone_);
    auto const& parts = joint ? *together_ : alone_;
    kway_partition<std::int64_t> result;
    result.of = std::move(joint ? of_ : of_alone_);
    result.parts = static_cast<std::uint32_t>(parts.weights().size());
    result.cut = joint ? cut_ : cut_alone_;
    result.part_weights = parts.weights();
    result.within_limits = parts.excess() == 0;
    auto const share = fair_share(result.parts, totals_);
    for (auto const w : result.part_weights)
      if (share > 0)
        result.imbalance =
            (std::max)(result.imbalance, static_cast<double>(w) / static_cast<double>(share) - 1);
    return result;
  }

 private:
  static constexpr std::size_t most_arcs = std::size_t{1} << 30;  // so that those of a buffer fit 32 bits

  /// The nodes of the buffer by ascending number, with the edges of each.
  struct held_nodes {
    std::vector<std::uint64_t> id, to;
    std::vector<std::int64_t> weight, edge_weight;
    std::vector<std::size_t> first{0};  // of a node: its edges in `to`

    std::uint32_t size() const { return static_cast<std::uint32_t>(id.size()); }
    /// Returns the place of a node that is held.
    std::uint32_t place_of(std::uint64_t node) const {
      return static_cast<std::uint32_t>(std::lower_bound(id.begin(), id.end(), node) - id.begin());
    }
  };

  template <class Number>
  static std::string text(Number n) {
    return std::to_string(n);
  }
  [[noreturn]] static void fail(std::uint64_t at, std::string const& what) {
    throw detail::stream_error("stream partition: " + what, at);
  }
  static std::int64_t total_weight(graph_totals const& t) {
    return t.node_weight.value_or(static_cast<std::int64_t>(t.nodes));
  }
  static std::int64_t fair_share(std::uint32_t parts, graph_totals const& t) {
    auto const total = total_weight(t);
    return total / parts + (total % parts != 0);
  }

  static graph_totals checked(std::uint32_t parts, graph_totals const& t, stream_options const& o) {
    detail::check_options({.imbalance = o.imbalance}, t.nodes, parts);
    if (t.nodes > std::uint64_t{1} << 60)
      fail(t.nodes, text(t.nodes) + " nodes are announced: give the true number, which is at most 2^60");
    if (t.node_weight.value_or(0) < 0 || t.edge_weight.value_or(0) < 0)
      fail(t.nodes, "a total weight is negative: give the sum of the weights, which are 0 or more");
    if (o.rule == stream_rule::fennel && !t.edge_weight)
      fail(
          t.nodes,
          "the rule fennel needs the total edge weight: give graph_totals::edge_weight, or use the rule ldg");
    if (o.buffer >= std::size_t{1} << 31)
      fail(t.nodes, "a buffer of " + text(o.buffer) + " nodes is too large: use less than 2^31");
    return t;
  }
  static std::int64_t limit_of(std::uint32_t parts, graph_totals const& t, stream_options const& o) {
    auto const share = fair_share(parts, t), total = total_weight(t);
    auto const slack = o.imbalance * static_cast<double>(share);
    auto const room = total - share;
    return share + (slack < static_cast<double>(room) ? static_cast<std::int64_t>(slack) : room);
  }
  /// Returns the price of Fennel for gamma = 3/2: 3/2 * sqrt(parts) * edges / nodes^(3/2).
  static double price_of(std::uint32_t parts, graph_totals const& t) {
    auto const n = static_cast<double>((std::max)(total_weight(t), std::int64_t{1}));
    auto const m = static_cast<double>(t.edge_weight.value_or(0));
    return 1.5 * std::sqrt(static_cast<double>(parts)) * (m / (n * std::sqrt(n)));
  }

  void check_row(std::uint64_t node, std::span<std::uint64_t const> neighbours, std::int64_t weight,
                 std::span<std::int64_t const> edge_weights) {
    auto const name = [&] { return "node #" + text(node); };
    auto const limit = alone_.limit();
    if (node == totals_.nodes)
      fail(node, name() + " is one more than the " + text(totals_.nodes) +
                     " nodes that were announced: give the true number of nodes");
    if (weight < 0) fail(node, name() + " weighs " + text(weight) + ": weights must not be negative");
    if (weight > total_weight(totals_) - weight_)
      fail(node, "with " + name() + ", the nodes weigh more than the announced total of " +
                     text(total_weight(totals_)) + ": give the true total");
    if (weight > limit)
      fail(node, name() + " weighs " + text(weight) + ", but a part may weigh only " + text(limit) +
                     ": use fewer parts or a larger imbalance");
    for (auto const to : neighbours)
      if (to >= totals_.nodes)
        fail(node, name() + " lists the neighbour " + text(to) + ", but the graph has only " +
                       text(totals_.nodes) + " nodes, numbered from 0");
    auto edges = edge_total_;
    for (auto const w : edge_weights) {
      if (!detail::weight_sum<std::int64_t>::is_weight(w))
        fail(node, name() + " has an edge of weight " + text(w) + ": weights must not be negative");
      edges.add(w);
    }
    if (edge_weights.empty()) edges.add(static_cast<std::int64_t>(neighbours.size()));
    if (edges.overflows())
      fail(node, "the sum of the edge weights, counted at both ends, exceeds 2^63 - 1 at " + name() +
                     ": use a larger unit");
    edge_total_ = edges;
    weight_ += weight;
  }

  /// Returns the graph of the buffer. \throws stream_error if an edge between its nodes is one-sided
  detail::buffer_graph graph_of_buffer() {
    detail::buffer_graph g;
    g.nodes = held_.size();
    g.parts = static_cast<std::uint32_t>(together_->weights().size());
    g.unseen.assign(g.nodes, 0);
    g.node_weight = held_.weight;
    detail::edge_symmetry_hash symmetry;
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      for (auto e = held_.first[n]; e < held_.first[n + 1]; ++e) {
        auto const to = held_.to[e];
        auto const w = held_.edge_weight[e];
        if (to >= of_.size()) {
          g.unseen[n] += w;
        } else if (of_[to] != no_part) {
          edges_.add(index(of_[to]), w);
        } else {
          auto const place = held_.place_of(to);
          g.targets.push_back(place);
          g.edge_weight.push_back(w);
          symmetry.add(n, place, detail::weight_bits(w));
        }
      }
      for (auto const part : edges_.parts()) {
        g.targets.push_back(g.nodes + part);
        g.edge_weight.push_back(edges_.into(part));
      }
      edges_.clear();
      g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    }
    if (!symmetry.even()) name_one_sided_edge(g);
    g.add_parts();
    return g;
  }

  [[noreturn]] void name_one_sided_edge(detail::buffer_graph const& g) const {
    adjacency<std::uint32_t> inner;
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
        if (g.targets[e] >= g.nodes) continue;
        inner.targets.push_back(g.targets[e]);
        inner.edge_weight.push_back(g.edge_weight[e]);
      }
      inner.offsets.push_back(static_cast<std::uint32_t>(inner.targets.size()));
    }
    auto const fault = detail::find_one_sided_edge(inner.view());
    auto const from = held_.id[fault->node], to = held_.id[inner.targets[fault->arc]];
    fail(from, "the edge from node #" + text(from) + " to node #" + text(to) + ", of weight " +
                   text(inner.edge_weight[fault->arc]) +
                   ", is listed a different number of times at its other end: list each edge at both ends "
                   "with the same weight");
  }

  /// Cuts the buffer. Then places half of its nodes, or all of them if they are the last.
  void place_buffer(bool last) {
    if (held_.id.empty()) return;
    auto const g = graph_of_buffer();
    auto const left = totals_.nodes - of_.size();
    detail::buffer_cut cut(g, *together_, total_weight(totals_),
                           {.preset = options_.preset,
                            .imbalance = options_.imbalance,
                            .seed = random_.next(),
                            .threads = options_.threads});
    auto part = cut.parts(left + g.nodes);
    fill_empty_parts(part, left);
    auto const goes = last ? std::vector<char>(g.nodes, 1) : best_known(g);
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      if (goes[n] == 0) continue;
      g.each_earlier(n, [&](std::uint32_t to, std::int64_t w) {
        if ((to >= g.nodes || goes[to] != 0) && part[to] != part[n]) cut_ += w;
      });
      together_->put(part[n], held_.weight[n]);
      of_[held_.id[n]] = part_id{part[n]};
    }
    remove(goes);
  }

  /// Moves nodes of the buffer to empty parts, if too few nodes are left to fill these.
  void fill_empty_parts(std::vector<std::uint32_t>& part, std::uint64_t left) const {
    if (together_->empty() <= left) return;
    auto size = together_->sizes();
    for (std::uint32_t n = 0; n < held_.size(); ++n) ++size[part[n]];
    auto empty = static_cast<std::uint64_t>(std::count(size.begin(), size.end(), 0u));
    std::uint32_t to = 0;
    for (std::uint32_t n = 0; n < held_.size() && empty > left; ++n) {
      if (size[part[n]] < 2) continue;
      while (size[to] > 0) ++to;
      --size[part[n]];
      part[n] = to;
      ++size[to];
      --empty;
    }
  }

  /// Chooses the half of the buffer whose neighbours are known best; of equal nodes, those that came first.
  std::vector<char> best_known(detail::buffer_graph const& g) const {
    std::vector<std::pair<double, std::uint32_t>> order;
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      std::int64_t all = 0;
      for (auto e = held_.first[n]; e < held_.first[n + 1]; ++e) all += held_.edge_weight[e];
      order.emplace_back(all > 0 ? static_cast<double>(g.unseen[n]) / static_cast<double>(all) : 0.0, n);
    }
    auto const half = static_cast<std::ptrdiff_t>((order.size() + 1) / 2);
    std::nth_element(order.begin(), order.begin() + (half - 1), order.end());
    std::vector<char> goes(g.nodes, 0);
    for (std::ptrdiff_t i = 0; i < half; ++i) goes[order[static_cast<std::size_t>(i)].second] = 1;
    return goes;
  }

  /// Removes the nodes that have been placed from the buffer.
  void remove(std::vector<char> const& gone) {
    std::size_t nodes = 0, arcs = 0;
    for (std::uint32_t n = 0; n < gone.size(); ++n) {
      if (gone[n] != 0) continue;
      auto const begin = held_.first[n], end = held_.first[n + 1];
      held_.id[nodes] = held_.id[n];
      held_.weight[nodes] = held_.weight[n];
      for (auto e = begin; e < end; ++e, ++arcs) {
        held_.to[arcs] = held_.to[e];
        held_.edge_weight[arcs] = held_.edge_weight[e];
      }
      held_.first[++nodes] = arcs;
    }
    held_.id.resize(nodes);
    held_.weight.resize(nodes);
    held_.first.resize(nodes + 1);
    held_.to.resize(arcs);
    held_.edge_weight.resize(arcs);
  }

  graph_totals totals_;
  stream_options options_;
  std::int64_t weight_ = 0;  // of the nodes taken
  detail::weight_sum<std::int64_t> edge_total_;
  detail::edge_symmetry_hash symmetry_;
  detail::placed_parts alone_;                    // each node placed alone
  std::optional<detail::placed_parts> together_;  // nodes placed with those of their buffer
  std::vector<part_id> of_alone_, of_;            // `of_`: `no_part` for nodes in the buffer
  std::int64_t cut_alone_ = 0, cut_ = 0;
  detail::edges_into_parts edges_;
  splitmix random_;
  held_nodes held_;
};

}  // namespace cleave
