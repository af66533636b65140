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

/// Cost metrics of a partition, one number per function. Nodes without a part are not counted. Neither are
/// replicable nodes, because they are copied and never sent. Inputs and outputs of the whole graph and state
/// are not transfers.
namespace cleave::inline v0_2 {

/// The cost model of parts. A part costs the weights of its nodes divided by its speed, plus `cost_per_byte`
/// for each byte that enters or leaves it. A value leaves its producer's part once, however many parts read
/// it, and enters each reading part once.
struct load_model {
  double cost_per_byte = 1;  ///< cost of one transferred byte, in the unit of the node weights
  per_part<double> speed{};  ///< weight processed per unit of time, per part; 1 if empty
  per_part<double> link{};   ///< factor on the transfer cost of each part; 1 if empty. 0 for a part that pays
                             ///< no transfers, such as a host whose memory the other devices access directly
  bool relayed = false;  ///< a value passes through all parts between its producer and its last reader, in
                         ///< the order of the parts; each of these receives it and sends it on
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Calls `f(v, from, readers)` for each value that is read outside its producer's part. `readers` lists the
/// other parts that read it, each once, in order of first use. O(V + E).
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

namespace cleave::inline v0_2 {

/// Returns the total node weight of each part. O(V).
template <std::unsigned_integral Index>
std::vector<double> part_weights(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::vector<double> weight(p.parts);
  for (std::size_t n = 0; n < g.weight.size(); ++n)
    if (p.of[n] != no_part && !detail::is_replicable(g, n)) weight[index(p.of[n])] += g.weight[n];
  return weight;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the bytes that enter or leave each part. \throws error if a sum overflows.
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

/// Returns the bytes that enter or leave each part if each part sends to the next one only, and to the
/// previous one. \throws error if a sum overflows.
template <std::unsigned_integral Index>
std::vector<std::size_t> part_relays(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::vector<std::size_t> bytes(p.parts);
  if (g.bytes.empty()) return bytes;
  each_crossing(g, p, [&](Index v, part_id from, std::span<part_id const> readers) {
    auto const [low, high] = std::ranges::minmax(readers);
    auto const first = index((std::min)(low, from)), last = index((std::max)(high, from));
    for (auto part = first; part <= last; ++part) {
      if (part > first) add_bytes(bytes[part], g.bytes[v], g, g.producer[v]);
      if (part < last) add_bytes(bytes[part], g.bytes[v], g, g.producer[v]);
    }
  });
  return bytes;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the load of each part: its compute cost plus its transfer cost, in units of time. O(V + E), plus
/// O(parts) for each value that is relayed.
/// \throws error if the bytes of a part overflow.
template <std::unsigned_integral Index>
std::vector<double> part_loads(basic_snapshot_arrays<Index> const& g, partition const& p,
                               load_model const& model = {}) {
  expects(model.speed.covers(p.parts), "one speed, or one for each part");
  expects(model.link.covers(p.parts), "one link, or one for each part");
  auto load = part_weights(g, p);
  auto const bytes = model.relayed ? detail::part_relays(g, p) : detail::part_transfers(g, p);
  for (std::size_t i = 0; i < load.size(); ++i)
    load[i] = load[i] / (model.speed.empty() ? 1 : model.speed[i]) +
              (model.link.empty() ? 1 : model.link[i]) * model.cost_per_byte * static_cast<double>(bytes[i]);
  return load;
}

/// Returns the largest load of any part: the time between two microbatches of a full pipeline. O(V + E).
/// \throws error if the bytes of a part overflow.
template <std::unsigned_integral Index>
double bottleneck(basic_snapshot_arrays<Index> const& g, partition const& p, load_model const& model = {}) {
  double most = 0;
  for (double const load : part_loads(g, p, model)) most = (std::max)(most, load);
  return most;
}

/// Returns how far the heaviest part is above the mean weight, as a fraction of the mean: 0.03 is 3 %.
/// Returns 0 if all parts weigh the same or all weights are 0. O(V).
template <std::unsigned_integral Index>
double imbalance(basic_snapshot_arrays<Index> const& g, partition const& p) {
  double most = 0, sum = 0;
  for (double const w : part_weights(g, p)) most = (std::max)(most, w), sum += w;
  return sum > 0 ? most * p.parts / sum - 1 : 0;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the bytes received by all parts together. A value counts once per part that receives it.
template <std::unsigned_integral Index>
std::size_t cut_bytes(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::size_t sum = 0;
  if (!g.bytes.empty())
    each_crossing(g, p, [&](Index v, part_id, std::span<part_id const> readers) {
      for (std::size_t i = 0; i < readers.size(); ++i) add_bytes(sum, g.bytes[v], g, g.producer[v]);
    });
  return sum;
}

/// Returns the number of values that are read outside their producer's part.
template <std::unsigned_integral Index>
std::size_t cut_values(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::size_t count = 0;
  each_crossing(g, p, [&](Index, part_id, std::span<part_id const>) { ++count; });
  return count;
}

/// Returns the number of cut values of unknown size. No other metric includes their cost.
template <std::unsigned_integral Index>
std::size_t unsized_cut_values(basic_snapshot_arrays<Index> const& g, partition const& p) {
  std::size_t count = 0;
  each_crossing(
      g, p, [&](Index v, part_id, std::span<part_id const>) { count += g.bytes.empty() || g.bytes[v] == 0; });
  return count;
}

}  // namespace cleave::detail
