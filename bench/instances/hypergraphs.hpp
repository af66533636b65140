// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "catalogue.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "steady_math.hpp"

/// The hypergraphs of the benches by name: rows of matrices, values of computations, netlists, random nets.
namespace bench {

using hypergraph = cleave::hypergraph<std::uint32_t>;

/// Adds a net with each pin once, in ascending order. A net with fewer than two pins is left out.
inline void add_net(hypergraph& h, std::vector<std::uint32_t> pins) {
  std::ranges::sort(pins);
  pins.erase(std::unique(pins.begin(), pins.end()), pins.end());
  if (pins.size() < 2) return;
  h.pins.insert(h.pins.end(), pins.begin(), pins.end());
  h.offsets.push_back(static_cast<std::uint32_t>(h.pins.size()));
}

/// The rows of a matrix as nets: node n and its neighbours. Its connectivity is the volume of a product of
/// the matrix and a vector.
inline hypergraph rows_of(graph const& g) {
  hypergraph h;
  h.nodes = g.view().nodes();
  for (std::size_t n = 0; n < h.nodes; ++n) {
    auto const row = g.view().neighbours(n);
    std::vector<std::uint32_t> pins(row.begin(), row.end());
    pins.push_back(static_cast<std::uint32_t>(n));
    add_net(h, std::move(pins));
  }
  return h;
}

/// The values of a computation as nets: an operation and those that read its result.
inline hypergraph values_of(cost_dag const& dag) {
  std::vector<std::vector<std::uint32_t>> nets(dag.nodes());
  for (std::uint32_t n = 0; n < nets.size(); ++n) nets[n].push_back(n);
  for (auto const& arc : dag.arcs) nets[arc.from].push_back(arc.to);
  hypergraph h;
  h.nodes = dag.nodes();
  for (auto& pins : nets) add_net(h, std::move(pins));
  return h;
}

/// Short nets among near nodes, fewer over long distances, and four nets with a twentieth of all nodes, as
/// clocks have.
inline hypergraph netlist(std::uint32_t nodes, std::uint64_t seed) {
  dice d(seed);
  hypergraph h;
  h.nodes = nodes;
  auto const nets = nodes + nodes / 12;
  for (std::uint32_t e = 0; e < nets; ++e) {
    std::uint32_t size = d.unit() < 0.55 ? 2 : 3;
    if (size == 3 && d.unit() >= 0.5)
      while (size < 40 && d.unit() < 0.78) ++size;
    double const reach = d.unit();
    auto const span = std::max(4u, static_cast<std::uint32_t>(power(2, reach * reach * 13)));
    auto const at = d.below(nodes);
    std::vector<std::uint32_t> pins{static_cast<std::uint32_t>(at)};
    while (pins.size() < size)
      pins.push_back(
          static_cast<std::uint32_t>((at + nodes + d.below(2 * span + 1) - std::min(span, nodes)) % nodes));
    add_net(h, std::move(pins));
  }
  for (int clock = 0; clock < 4; ++clock) {
    std::vector<std::uint32_t> pins;
    for (std::uint32_t i = 0; i < nodes / 20; ++i) pins.push_back(static_cast<std::uint32_t>(d.below(nodes)));
    add_net(h, std::move(pins));
  }
  return h;
}

/// Nets of two to five nodes without locality, three to two nodes.
inline hypergraph random_nets(std::uint32_t nodes, std::uint64_t seed) {
  static constexpr std::array<std::uint32_t, 5> sizes{2, 3, 3, 4, 5};
  dice d(seed);
  hypergraph h;
  h.nodes = nodes;
  for (std::uint32_t e = 0; e < nodes + nodes / 2; ++e) {
    std::vector<std::uint32_t> pins(sizes[d.below(sizes.size())]);
    for (auto& pin : pins) pin = static_cast<std::uint32_t>(d.below(nodes));
    add_net(h, std::move(pins));
  }
  return h;
}

struct named_hypergraph {
  std::string_view name;  ///< its family, an underscore and its size
  instance_size size;
  std::string_view about;
  hypergraph (*make)();

  std::string_view family() const { return name.substr(0, name.find('_')); }
};

inline std::vector<named_hypergraph> const& hypergraph_instances() {
  using enum instance_size;
  static constexpr auto rows = [](char const* name) {
    return rows_of(std::get<graph>(*find_instance(name)));
  };
  static constexpr auto values = [](char const* name) {
    return values_of(std::get<cost_dag>(*find_instance(name)));
  };
  static std::vector<named_hypergraph> const all{
      {"rows_fem2d_10k", small, "a net for each row of the matrix of fem2d_10k",
       [] { return rows("fem2d_10k"); }},
      {"rows_grid3d_27k", small, "", [] { return rows("grid3d_27k"); }},
      {"rows_rhyp_14", small, "", [] { return rows("rhyp_14"); }},
      {"rows_ba_14", small, "", [] { return rows("ba_14"); }},
      {"rows_fem3d_65k", medium, "", [] { return rows("fem3d_65k"); }},
      {"values_tfm_L64_H16", small, "a net for each value of tfm_L64_H16: its producer and its readers",
       [] { return values("tfm_L64_H16"); }},
      {"values_layered_10k", small, "", [] { return values("layered_10k"); }},
      {"values_moe_32x64", small, "", [] { return values("moe_32x64"); }},
      {"values_inception_3k", small, "", [] { return values("inception_3k"); }},
      {"values_tfm_L512_H64", medium, "", [] { return values("tfm_L512_H64"); }},
      {"netlist_10k", small, "short nets among near nodes, a few long ones, four clocks",
       [] { return netlist(10'000, 1); }},
      {"netlist_100k", medium, "", [] { return netlist(100'000, 1); }},
      {"nets_10k", small, "nets of two to five random nodes", [] { return random_nets(10'000, 1); }}};
  return all;
}

/// Those that a word stands for: one by its name, a family, a size, `hypergraph`, or `all`.
inline std::vector<named_hypergraph> hypergraphs_called(std::string_view word) {
  std::vector<named_hypergraph> found;
  for (auto const& i : hypergraph_instances())
    if (word == i.name || word == i.family() || word == size_names[static_cast<std::size_t>(i.size)] ||
        word == "hypergraph" || word == "all")
      found.push_back(i);
  return found;
}

/// The hypergraph that a name stands for: `netlist_10k`; `netlist:20k`, `netlist:20k:7`, the same with
/// `nets`; or `rows_` or `values_` before the name of a graph or a computation, as in `rows_rgg2d:20k`.
/// Empty for other words. \throws cleave::error if a word with such a beginning is wrong
inline std::optional<hypergraph> find_hypergraph(std::string_view word) {
  for (auto const& i : hypergraph_instances())
    if (i.name == word) return i.make();
  auto const refuse = [&](std::string const& why) {
    throw cleave::error(cleave::quoted(word) + " says no hypergraph; " + why);
  };
  for (std::string_view const prefix : {"rows_", "values_"}) {
    if (!word.starts_with(prefix)) continue;
    auto const made = find_unweighted(word.substr(prefix.size()));
    if (!made) return std::nullopt;
    auto const* const g = std::get_if<graph>(&*made);
    if ((g != nullptr) != (prefix == "rows_"))
      refuse("rows_ stands before an undirected graph, values_ before a directed one");
    return g != nullptr ? rows_of(*g) : values_of(std::get<cost_dag>(*made));
  }
  for (std::string_view const family : {"netlist", "nets"}) {
    if (!word.starts_with(std::string(family) + ":")) continue;
    auto const rest = word.substr(family.size() + 1);
    auto const second = rest.find(':');
    auto const nodes = node_count(rest.substr(0, second));
    auto const seed =
        second == rest.npos ? std::optional<std::uint32_t>(1) : node_count(rest.substr(second + 1));
    if (!nodes || !seed)
      refuse("write " + std::string(family) + ":100k for 100000 nodes, " + std::string(family) +
             ":100k:7 with another seed; both from 1 to 200M");
    return family == "netlist" ? netlist(*nodes, *seed) : random_nets(*nodes, *seed);
  }
  return std::nullopt;
}

}  // namespace bench
