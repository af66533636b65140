// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/graph_statistics.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::detail {

/// Classes of graphs for which the parameters of a preset differ.
enum class graph_class : std::uint8_t {
  skewed,       ///< power-law degrees
  skewed_rows,  ///< the same, with a grid that is numbered row by row
  uneven,       ///< varying degrees, as in most meshes
  uneven_rows,  ///< a grid numbered row by row with varying degrees, for example because diagonals change
                ///< direction
  thin_mesh,    ///< equal degrees of at most 7: grids in two or three dimensions, triangles
  mesh,         ///< equal degrees of at most 10
  dense_mesh,   ///< equal degrees above 10
};

inline graph_class class_of(degree_statistics const& degrees, bool rows) {
  if (degrees.dense_mesh()) return graph_class::dense_mesh;
  if (degrees.regular()) return degrees.mean > 7 ? graph_class::mesh : graph_class::thin_mesh;
  if (degrees.skewed()) return rows ? graph_class::skewed_rows : graph_class::skewed;
  return rows ? graph_class::uneven_rows : graph_class::uneven;
}

/// The parameters of one preset for one class of graphs.
struct preset_row {
  graph_class graph;
  kway_preset preset;
  std::uint32_t shrink, nodes_a_part;                        // coarsening
  std::uint32_t passes, max_fruitless_moves;                 // FM moves
  std::uint32_t flow_rounds;                                 // flow refinement
  std::uint32_t restarts, least_restarts, bisection_passes;  // recursive bisection
};

/// Returns the parameters of a preset for a class of graphs. Graphs whose large clusters would be ragged
/// shrink less per level. Skewed graphs get no flow refinement, because no narrow region contains a good cut.
/// Dense meshes get more FM moves, because a straight cut is many moves away.
inline preset_row const& row_of(graph_class graph, kway_preset preset) {
  using enum graph_class;
  using enum kway_preset;
  static constexpr std::array<preset_row, 21> table{{
      // class, preset: coarsening; FM moves; flow refinement; bisection
      {skewed, fast, 8, 20, 1, 100, 0, 16, 2, 4},
      {skewed, standard, 8, 40, 3, 400, 0, 32, 8, 4},
      {skewed, quality, 8, 40, 3, 400, 0, 32, 8, 4},
      {skewed_rows, fast, 4, 20, 2, 300, 0, 16, 2, 4},
      {skewed_rows, standard, 4, 40, 3, 400, 0, 32, 8, 4},
      {skewed_rows, quality, 4, 40, 3, 400, 0, 32, 8, 4},
      {uneven, fast, 8, 20, 1, 100, 0, 8, 2, 2},
      {uneven, standard, 8, 40, 3, 400, 1, 16, 4, 4},
      {uneven, quality, 8, 40, 3, 400, 1, 16, 4, 4},
      {uneven_rows, fast, 4, 20, 2, 300, 0, 8, 2, 2},
      {uneven_rows, standard, 4, 40, 3, 400, 1, 16, 4, 4},
      {uneven_rows, quality, 4, 40, 3, 400, 1, 16, 4, 4},
      {thin_mesh, fast, 8, 20, 2, 300, 0, 6, 2, 2},
      {thin_mesh, standard, 8, 40, 3, 400, 1, 16, 4, 4},
      {thin_mesh, quality, 8, 40, 3, 400, 1, 16, 4, 4},
      {mesh, fast, 4, 20, 2, 300, 0, 6, 2, 2},
      {mesh, standard, 4, 40, 3, 400, 1, 16, 4, 4},
      {mesh, quality, 4, 40, 3, 400, 1, 16, 4, 4},
      {dense_mesh, fast, 4, 20, 1, 100, 0, 6, 2, 2},
      {dense_mesh, standard, 4, 40, 6, 1000, 1, 16, 4, 4},
      {dense_mesh, quality, 4, 40, 10, 2000, 1, 16, 4, 4},
  }};
  return *std::find_if(table.begin(), table.end(),
                       [&](preset_row const& row) { return row.graph == graph && row.preset == preset; });
}

/// Returns the configuration that a row of the table describes.
inline kway_config choose_config(preset_row const& row) {
  kway_config e;
  e.shrink = row.shrink, e.nodes_a_part = row.nodes_a_part;
  e.passes = row.passes, e.max_fruitless_moves = row.max_fruitless_moves;
  e.flow_rounds = row.flow_rounds;
  e.bisection.restarts = row.restarts, e.bisection.least_restarts = row.least_restarts;
  e.bisection.passes = row.bisection_passes;
  return e;
}

/// Chooses compact initial parts for triangle and tetrahedron meshes with many parts, and matching for 3-D
/// grids.
inline void suit_mesh(kway_config& e, weighted_view const& g, std::uint32_t parts,
                      degree_statistics const& degrees, bool uniform) {
  if (degrees.spread() >= 0.06 || degrees.mean <= 5) return;
  bool const lattice = degrees.regular() && uniform;
  if (closed_wedges(g) <= 0.25) {
    if (lattice) e.clusters = coarsening::matching;
  } else if (suits_centres(g, parts)) {
    e.first = first_method::centres;
    if (!degrees.dense_mesh()) e.ties = tie_breaking::lighter;  // compact parts need no rows
    if (degrees.mean > 10 && !lattice) e.nodes_a_part = 80;
  }
}

/// Configures a graph without locality: it is not coarsened, and its sparse periphery, if any, is peeled off.
inline void cut_whole(kway_config& e, weighted_view const& g, degree_statistics const& degrees,
                      kway_preset preset) {
  bool const fast = preset == kway_preset::fast;
  e.least_nodes = g.nodes;
  if (fast) e.bisection.arcs = 2 * (std::min)(g.directed_edges(), e.bisection.arcs / 2);  // two restarts
  if (!has_sparse_periphery(g, degrees)) return;
  e.bisection.smallest = g.nodes;  // contraction would hide the core
  e.bisection.restarts = e.bisection.least_restarts = e.bisection.growths = 1;
  e.bisection.passes = fast ? 0 : 2;
}

/// Returns the configuration of a preset for a graph.
inline kway_config choose_config(kway_preset preset, weighted_view const& g, std::uint32_t parts,
                                 thread_team const& team = thread_team{}) {
  auto const degrees = compute_degree_statistics(g, team);
  bool const uniform = has_uniform_weights(g);
  bool const rows = uniform && is_numbered_in_rows(g);
  bool const fast = preset == kway_preset::fast;
  auto e = choose_config(row_of(class_of(degrees, rows), preset));
  // Clusters that follow rows are too coarse for small parts.
  e.ties = rows && g.nodes / parts >= 1000 ? tie_breaking::heavier : tie_breaking::lighter;
  e.bisection.arcs = std::clamp(g.directed_edges(), 1u << 17, 1u << 21) * 2;
  if (degrees.spread() > 0.3) e.bisection.smallest = 25, e.bisection.growths = 6;  // there are few good cuts
  if (!fast) suit_mesh(e, g, parts, degrees, uniform);
  if ((!fast || degrees.skewed()) && lacks_locality(g, degrees)) cut_whole(e, g, degrees, preset);
  return e;
}

/// Returns the configuration of the preset `quality` for a graph.
inline quality_config choose_quality_config(weighted_view const& g, std::uint32_t parts,
                                            thread_team const& team = thread_team{}) {
  quality_config e;
  e.standard = choose_config(kway_preset::quality, g, parts, team);
  auto const degrees = compute_degree_statistics(g, team);
  bool const local = !lacks_locality(g, degrees);
  if (!local && has_sparse_periphery(g, degrees)) {
    e.strip_rounds = 0, e.swap_rounds = 4;
    return e;
  }
  if (degrees.skewed()) {
    e.trials = {e.standard, e.standard};
    e.flow_nodes = 60'000, e.strip_rounds = 0;
    return e;
  }
  if (parts == 2) {
    e.strip_share = 0.5;
    if (!degrees.regular() && degrees.mean > 8 && closed_wedges(g) > 0.25) {
      e.trials = {e.standard};
      e.trials[0].shrink = 4;  // good cuts are few, and clusters of one size may miss them all
    }
    return e;
  }
  if (degrees.dense_mesh() && parts <= 8) return e;  // all trials find the straight cuts
  e.trials = {e.standard};
  e.trials[0].bisection.first_share = 1. / 3;  // rows of parts with different lengths may cut less
  if (degrees.dense_mesh() || !local) return e;
  e.trials[0].first = first_method::bisections;
  auto other = e.standard;
  if (degrees.regular() && degrees.mean > 5) {  // grids in 3-D
    other.clusters = coarsening::labels, other.ties = tie_breaking::lighter;
    e.trials.push_back(other);
  } else if (!degrees.regular() && suits_centres(g, parts)) {
    other.first = other.first == first_method::centres ? first_method::bisections : first_method::centres;
    e.trials.push_back(other);
  }
  return e;
}

}  // namespace cleave::detail
