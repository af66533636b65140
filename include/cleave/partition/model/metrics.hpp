// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"

/// What a partition costs, one number a function. Nodes without a part count nowhere, replicable nodes
/// neither: they are copied and never sent. What the caller passes or receives and what parts hold (inputs,
/// outputs, state) is no transfer.
namespace cleave {

/// What a part pays: the weights of its nodes at its speed, and `cost_per_byte` for each byte that enters or
/// leaves it. A value leaves the part that makes it once, however many parts read it, and enters each of
/// those once.
struct load_model {
  double cost_per_byte = 1;  ///< in the unit of the weights
  per_part<double> speed{};  ///< weight done in a unit of time; 1 where nothing is said
  per_part<double> link{};   ///< times what a part's transfers cost; 1 where nothing is said, 0 for a part
                             ///< that pays none, such as a host whose memory the others reach
};

}  // namespace cleave

namespace cleave::detail {

/// Calls `f(v, from, readers)` for each value that is read outside the part of its producer; `readers` are
/// those other parts, each once, by first use. O(V + E).
template <std::unsigned_integral Index, class F>
void each_crossing(basic_snapshot_arrays<Index> const& g, partition const& p, F f) {
  expects(p.of.size() == g.nodes(), "a partition of this graph");
  std::vector<std::size_t> seen(p.parts, g.values());
  std::vector<part_id> readers;
  for (std::size_t v = 0; v < g.values(); ++v) {
    Index const producer = g.producer[v];
    if (producer == none<Index> || is_replicable(g, producer) || p.of[producer] == no_part) continue;
    auto const from = p.of[producer];
    readers.clear();
    for (Index const user : g.users[v])
      if (auto const to = p.of[user];
          to != no_part && to != from && !is_replicable(g, user) && seen[index(to)] != v) {
        seen[index(to)] = v;
        readers.push_back(to);
      }
    if (!readers.empty()) f(static_cast<Index>(v), from, std::span<part_id const>(readers));
  }
}

}  // namespace cleave::detail

namespace cleave {

/// The weights of each part's nodes.
template <std::unsigned_integral Index>
std::vector<double> part_weights(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::vector<double> weight(p.parts);
  for (std::size_t n = 0; n < g.weight.size(); ++n)
    if (p.of[n] != no_part && !detail::is_replicable(g, n)) weight[index(p.of[n])] += g.weight[n];
  return weight;
}

}  // namespace cleave

namespace cleave::detail {

/// The bytes that enter or leave each part. \throws error if a sum overflows.
template <std::unsigned_integral Index>
std::vector<std::size_t> part_transfers(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::vector<std::size_t> bytes(p.parts);
  if (g.bytes.empty()) return bytes;
  each_crossing(g, p, [&](Index v, part_id from, std::span<part_id const> readers) {
    add_bytes(bytes[index(from)], g.bytes[v], g, g.producer[v]);
    for (auto const to : readers) add_bytes(bytes[index(to)], g.bytes[v], g, g.producer[v]);
  });
  return bytes;
}

}  // namespace cleave::detail

namespace cleave {

/// What each part pays.
template <std::unsigned_integral Index>
std::vector<double> part_loads(basic_snapshot_arrays<Index> const& g, partition const& p,
                               load_model const& model = {}) {
  expects(model.speed.covers(p.parts), "one speed, or one for each part");
  expects(model.link.covers(p.parts), "one link, or one for each part");
  auto load = part_weights(g, p);
  auto const bytes = detail::part_transfers(g, p);
  for (std::size_t i = 0; i < load.size(); ++i)
    load[i] = load[i] / (model.speed.empty() ? 1 : model.speed[i]) +
              (model.link.empty() ? 1 : model.link[i]) * model.cost_per_byte * static_cast<double>(bytes[i]);
  return load;
}

/// What the part that pays most pays: the time between two microbatches of a full pipeline.
template <std::unsigned_integral Index>
double bottleneck(basic_snapshot_arrays<Index> const& g, partition const& p, load_model const& model = {}) {
  double most = 0;
  for (double const load : part_loads(g, p, model)) most = (std::max)(most, load);
  return most;
}

/// The heaviest part's weight above the mean, as a share of the mean: 0 where all weigh the same, or nothing.
template <std::unsigned_integral Index>
double imbalance(basic_snapshot_arrays<Index> const& g, partition const& p) {
  double most = 0, sum = 0;
  for (double const w : part_weights(g, p)) most = (std::max)(most, w), sum += w;
  return sum > 0 ? most * p.parts / sum - 1 : 0;
}

}  // namespace cleave

namespace cleave::detail {

/// The bytes received by all parts: a value counts once for each part that reads it elsewhere.
template <std::unsigned_integral Index>
std::size_t cut_bytes(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::size_t sum = 0;
  if (!g.bytes.empty())
    each_crossing(g, p, [&](Index v, part_id, std::span<part_id const> readers) {
      for (std::size_t i = 0; i < readers.size(); ++i) add_bytes(sum, g.bytes[v], g, g.producer[v]);
    });
  return sum;
}

/// The values that are read outside the part that makes them.
template <std::unsigned_integral Index>
std::size_t cut_values(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::size_t count = 0;
  each_crossing(g, p, [&](Index, part_id, std::span<part_id const>) { ++count; });
  return count;
}

/// Those of them whose bytes nobody knows: what they cost is in no other number here.
template <std::unsigned_integral Index>
std::size_t unsized_cut_values(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::size_t count = 0;
  each_crossing(
      g, p, [&](Index v, part_id, std::span<part_id const>) { count += g.bytes.empty() || g.bytes[v] == 0; });
  return count;
}

}  // namespace cleave::detail
