// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/formats/units.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/split/plan.hpp"

namespace cleave {

/// A sum of sizes of which some may be unknown; it stops at the largest number instead of wrapping.
struct byte_sum {
  std::uint64_t known = 0;
  std::size_t unknown = 0;  ///< how many values have no size

  void add(byte_sum const& other) {
    unknown += other.unknown;
    known = known > UINT64_MAX - other.known ? UINT64_MAX : known + other.known;
  }
  void add(std::size_t bytes) { add(byte_sum{bytes, bytes == 0}); }
  bool operator==(byte_sum const&) const = default;
};

/// `3 MiB`, `≥3 MiB` where sizes are missing, `? B` where all are.
inline std::string bytes_text(byte_sum const& sum) {
  if (sum.unknown == 0) return bytes_text(sum.known);
  return sum.known == 0 ? "?\u00a0B" : "≥" + bytes_text(sum.known);
}

/// A stage as one box.
struct stage_box {
  std::size_t nodes = 0;
  double cost = 0;  ///< sum of its nodes' weights
  byte_sum state;   ///< parameters, buffers and constants; what shares storage counts once
  byte_sum in;      ///< values that the caller or other stages pass
  byte_sum out;     ///< values that other stages or the caller receive, each once

  bool operator==(stage_box const&) const = default;
};

/// All that one stage sends to another.
struct stage_link {
  stage_id from, to;
  std::size_t values = 0;
  byte_sum bytes;

  bool operator==(stage_link const&) const = default;
};

/// A cut graph with its stages as boxes: what one page can show of any graph.
struct quotient {
  std::vector<stage_box> stages;
  std::vector<stage_link> links;  ///< by sender, then by receiver

  bool operator==(quotient const&) const = default;
};

template <std::unsigned_integral Index>
std::size_t bytes_of(basic_dense<Index> const& g, Index value) {
  return g.bytes.empty() ? 0 : g.bytes[value];
}

/// The plan `p` of `g`, a box a stage. O(V + E + T log T) for T transfers.
template <std::unsigned_integral Index>
quotient quotient_of(basic_dense<Index> const& g, basic_plan<Index> const& p) {
  quotient q;
  for (auto const& s : p.stages) {
    auto& box = q.stages.emplace_back();
    box.nodes = s.nodes.size();
    if (!g.weight.empty())
      for (Index const n : s.nodes) box.cost += g.weight[n];
    std::vector<std::pair<Index, Index>> held;  // storage, value
    for (Index const v : s.state) held.emplace_back(g.storage.empty() ? v : g.storage[v], v);
    std::ranges::sort(held);
    auto const same_storage = [](auto const& a, auto const& b) { return a.first == b.first; };
    held.erase(std::unique(held.begin(), held.end(), same_storage), held.end());
    for (auto const& [storage, v] : held) box.state.add(bytes_of(g, v));
    for (Index const v : s.inputs) box.in.add(bytes_of(g, v));
    for (Index const v : s.outputs) box.out.add(bytes_of(g, v));
  }

  auto sent = p.transfers;
  std::ranges::sort(sent, {}, [](auto const& t) { return std::tuple(t.from, t.to, t.value); });
  for (auto const& t : sent) {
    if (q.links.empty() || q.links.back().from != t.from || q.links.back().to != t.to)
      q.links.push_back({t.from, t.to, 0, {}});
    ++q.links.back().values;
    q.links.back().bytes.add(bytes_of(g, t.value));
  }
  return q;
}
}  // namespace cleave
