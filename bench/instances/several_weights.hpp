// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "catalogue.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/random.hpp"
#include "random_graphs.hpp"

namespace bench {

/// The kinds of several weights. Karypis, Kumar, "Multilevel algorithms for multi-constraint graph
/// partitioning", SC 1998.
enum class weight_kind : std::uint8_t {
  random,   ///< from 0 to 19, at random for each node
  regions,  ///< from 0 to 19, at random for each of 16 connected regions
  phases,   ///< 1 where a region takes part in a phase of a computation: all of 32 in the first, then fewer
};
inline constexpr std::array<std::string_view, 3> weight_kind_names = {"random", "regions", "phases"};

/// Returns `count` connected regions, grown from random nodes. Nodes that none reaches are in region 0.
inline std::vector<std::uint32_t> connected_regions(graph const& g, std::uint32_t count,
                                                    cleave::splitmix& random) {
  std::vector<std::uint32_t> of(g.view().nodes(), count), open;
  for (std::uint32_t r = 0; r < count && !of.empty(); ++r) {
    auto const n = static_cast<std::uint32_t>(random.below(of.size()));
    if (of[n] == count) of[n] = r, open.push_back(n);
  }
  for (std::size_t i = 0; i < open.size(); ++i)
    for (auto const to : g.view().neighbours(open[i]))
      if (of[to] == count) of[to] = of[open[i]], open.push_back(to);
  for (auto& r : of) r = r == count ? 0 : r;
  return of;
}

/// Returns `count` lists of weights of the nodes.
inline std::vector<std::vector<double>> several_weights(graph const& g, weight_kind kind, std::size_t count,
                                                        std::uint64_t seed) {
  cleave::splitmix random(seed);
  std::vector<std::vector<double>> all(count, std::vector<double>(g.view().nodes()));
  auto const any = [&] { return static_cast<double>(random.below(20)); };
  if (kind == weight_kind::random) {
    for (auto& list : all)
      for (auto& w : list) w = any();
    return all;
  }
  bool const phases = kind == weight_kind::phases;
  std::uint32_t const regions = phases ? 32 : 16;
  auto const of = connected_regions(g, regions, random);
  for (std::size_t i = 0; i < count; ++i) {
    auto const active =
        i == 0 ? regions
               : (std::max)(regions / 8,
                            regions * (4 - static_cast<std::uint32_t>((std::min)(i, std::size_t{3}))) / 4);
    std::vector<double> of_region(regions);
    for (std::uint32_t r = 0; r < regions; ++r) of_region[r] = phases ? (r < active ? 1 : 0) : any();
    if (phases) random.shuffle(of_region);
    for (std::size_t n = 0; n < of.size(); ++n) all[i][n] = of_region[of[n]];
  }
  return all;
}

/// A graph, and the weights of its nodes beyond the first.
struct graph_with_weights {
  graph rows;
  std::vector<std::vector<double>> further;
};

/// Returns the graph that a name with `+random3`, `+regions3` or `+phases3` behind it stands for, with three
/// weights a node; 2 to 8 are possible. Nothing for other words. \throws cleave::error if the name is wrong
inline std::optional<graph_with_weights> find_with_weights(std::string_view word) {
  auto const plus = word.rfind('+');
  if (plus == word.npos) return std::nullopt;
  auto const what = word.substr(plus + 1);
  for (std::size_t k = 0; k < weight_kind_names.size(); ++k) {
    auto const name = weight_kind_names[k];
    if (!what.starts_with(name)) continue;
    auto const count = what.substr(name.size());
    auto const made = count.size() == 1 && count[0] >= '2' && count[0] <= '8'
                          ? find_unweighted(word.substr(0, plus))
                          : std::nullopt;
    auto const* const g = made ? std::get_if<graph>(&*made) : nullptr;
    if (!g)
      throw cleave::error(cleave::quoted(word) + " says no graph; write +" + std::string(name) +
                          "3 behind the name of an undirected one, with 2 to 8 weights");
    auto all = several_weights(*g, static_cast<weight_kind>(k), static_cast<std::size_t>(count[0] - '0'), 1);
    graph_with_weights found{*g, {}};
    found.rows.node_weight.assign(all[0].begin(), all[0].end());
    all.erase(all.begin());
    found.further = std::move(all);
    return found;
  }
  return std::nullopt;
}

}  // namespace bench
