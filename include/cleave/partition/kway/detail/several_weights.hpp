// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/fixed_point.hpp"
#include "cleave/partition/kway/detail/further_weights.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the unit in which the weights become integers: 1 if all are whole and their sum is below 2^62.
inline fixed_point unit_of(std::vector<double> const& weights) {
  double total = 0;
  bool whole = true;
  for (auto const w : weights) {
    total += w;
    whole = whole && w < 0x1p62 && static_cast<double>(static_cast<std::int64_t>(w)) == w;
  }
  return whole && total < 0x1p62 ? fixed_point{} : fixed_point::for_total(total);
}

/// The weights of the nodes of a graph: its own weight and those of the options. Steps that know only one
/// weight use the guide: the sum of a node's weights, each relative to its total.
class several_weights {
 public:
  /// \pre The options fit the graph. `limit` has the limits of the graph's own weight.
  several_weights(flat_graph const& g, std::vector<std::int64_t> const& limit, kway_options const& o)
      : nodes_(g.nodes), parts_(static_cast<std::uint32_t>(limit.size())) {
    limits_.weights = 1 + static_cast<std::uint32_t>(o.further_weights.size());
    limits_.limit.resize(std::size_t{parts_} * limits_.weights);
    of_nodes_.resize(std::size_t{nodes_} * limits_.weights);
    std::vector<std::int64_t> own(nodes_, 1);
    for (std::uint32_t n = 0; n < nodes_ && g.weighted; ++n) own[n] = g.node_weight[n];
    add(own, limit);
    for (auto const& w : o.further_weights) {
      auto const unit = unit_of(w.of);
      std::int64_t total = 0;
      for (std::uint32_t n = 0; n < nodes_; ++n) total += own[n] = unit.of(w.of[n]);
      add(own, weight_limits(own, nodes_, fair_weights(total, parts_, w.share), w.imbalance, o.fixed));
    }
    make_guide();
  }

  further_weights view() const { return {of_nodes_.data(), &limits_}; }
  std::uint32_t const* guide() const { return guide_.data(); }
  std::vector<std::int64_t> const& guide_limits() const { return guide_limit_; }

 private:
  void add(std::vector<std::int64_t> const& own, std::vector<std::int64_t> const& limit) {
    auto const w = limits_.unit.size();
    std::int64_t total = 0;
    for (std::size_t n = 0; n < nodes_; ++n) total += of_nodes_[n * limits_.weights + w] = own[n];
    for (std::size_t part = 0; part < parts_; ++part) limits_.limit[part * limits_.weights + w] = limit[part];
    limits_.unit.push_back(total > 0 ? 0x1p31 / limits_.weights / static_cast<double>(total) : 1);
  }

  /// Adds up the weights of each node, rounded down, and the limits of each part, rounded up. Parts within
  /// all limits are therefore within the limits of the sums.
  void make_guide() {
    guide_.assign(nodes_, 0);
    guide_limit_.assign(parts_, 0);
    for (std::uint32_t w = 0; w < limits_.weights; ++w) {
      for (std::uint32_t n = 0; n < nodes_; ++n)
        guide_[n] += static_cast<std::uint32_t>(static_cast<double>(view().of(n)[w]) * limits_.unit[w]);
      for (std::uint32_t part = 0; part < parts_; ++part)
        guide_limit_[part] += limits_.counted(limits_.of(part)[w], w);
    }
  }

  std::uint32_t nodes_, parts_;
  further_limits limits_;
  std::vector<std::int64_t> of_nodes_;
  std::vector<std::uint32_t> guide_;
  std::vector<std::int64_t> guide_limit_;
};

}  // namespace cleave::detail
