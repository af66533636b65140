// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/partition/kway/detail/hyper_level.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/task.hpp"

namespace cleave::inline v0_2::detail {

/// A graph that approximates a hypergraph. Each small net becomes a clique, and each large net a ring with
/// chords. The edges of a net share its weight. Hadley, Mark, Vannelli, 1992 (cliques).
class clique_graph {
 public:
  /// \throws kway_size_error if directed edges exceed 32 bits.
  explicit clique_graph(hyper_level const& h) : h_(h) {
    double sum = 0;
    std::uint64_t arcs = 0;
    for (std::uint32_t e = 0; e < h.nets(); ++e) {
      std::uint64_t const size = h.size_of(e);
      sum += static_cast<double>(h.net_weight[e]) * static_cast<double>(size);
      arcs += size * (std::min<std::uint64_t>)(size - 1, 2 * std::uint64_t{chords});
    }
    if (arcs >= no_block)
      throw kway_size_error("hypergraph: the nets have too many pins for the graph of " +
                            std::to_string(arcs) +
                            " directed edges that approximates them: at most 4294967294 are supported");
    scale_ = (std::min)(1024., 0x1p60 / (std::max)(sum, 1.));
    offsets_.assign(h.nodes() + std::size_t{1}, 0);
    each_edge([&](std::uint32_t a, std::uint32_t b, std::int64_t) {
      ++offsets_[a + std::size_t{1}], ++offsets_[b + std::size_t{1}];
    });
    for (std::size_t n = 0; n < h.nodes(); ++n) offsets_[n + 1] += offsets_[n];
    targets_.resize(offsets_.back());
    weights_.resize(offsets_.back());
    auto next = offsets_;
    each_edge([&](std::uint32_t a, std::uint32_t b, std::int64_t w) {
      targets_[next[a]] = b, weights_[next[a]++] = w;
      targets_[next[b]] = a, weights_[next[b]++] = w;
    });
  }

  weighted_view view() const {
    return {h_.nodes(), offsets_.data(), targets_.data(), h_.node_weight.data(), weights_.data()};
  }

 private:
  static constexpr std::uint32_t chords = 5;  // neighbours of a pin in each direction

  /// Calls `visit(a, b, weight)` for each edge.
  template <class Visit>
  void each_edge(Visit const& visit) const {
    for (std::uint32_t e = 0; e < h_.nets(); ++e) {
      auto const* const pin = h_.pin.data() + h_.net_first[e];
      auto const size = h_.size_of(e);
      if (size <= 2 * chords + 1) {
        auto const w = share(e, size - 1);
        for (std::uint32_t i = 0; i < size; ++i)
          for (auto j = i + 1; j < size; ++j) visit(pin[i], pin[j], w);
      } else {
        auto const w = share(e, 2 * chords);
        for (std::uint32_t i = 0; i < size; ++i)
          for (std::uint32_t step = 1; step <= chords; ++step) visit(pin[i], pin[(i + step) % size], w);
      }
    }
  }

  /// Returns the weight of an edge of net `e`, one of `neighbours` at each pin.
  std::int64_t share(std::uint32_t e, std::uint32_t neighbours) const {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(h_.net_weight[e]) * scale_ / neighbours));
  }

  hyper_level const& h_;
  double scale_ = 1;  // makes shares integers whose sum is at most 2^60
  std::vector<std::uint32_t> offsets_, targets_;
  std::vector<std::int64_t> weights_;
};

}  // namespace cleave::detail
