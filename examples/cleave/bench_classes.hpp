// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tool {

/// Families of instances, by the first word of their names, and the class of each. Families of a class behave
/// alike.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 28> bench_families{{
    {"grid2d", "grids and roads"},
    {"grid3d", "grids and roads"},
    {"mesh2d", "grids and roads"},
    {"road", "grids and roads"},
    {"mesh3d", "27-point meshes"},
    {"del2d", "geometric and Delaunay"},
    {"fem2d", "geometric and Delaunay"},
    {"fem3d", "geometric and Delaunay"},
    {"rgg2d", "geometric and Delaunay"},
    {"rgg3d", "geometric and Delaunay"},
    {"rhyp", "hyperbolic"},
    {"rmat", "power law"},
    {"ba", "power law"},
    {"sbm", "planted"},
    {"er", "random and networks"},
    {"ws", "random and networks"},
    {"hypercube", "random and networks"},
    {"debruijn", "random and networks"},
    {"torus3d", "random and networks"},
    {"btree", "random and networks"},
    {"tfm", "DAGs of models"},
    {"resnet", "DAGs of models"},
    {"inception", "DAGs of models"},
    {"unet", "DAGs of models"},
    {"moe", "DAGs of models"},
    {"dnnL", "DAGs of models"},
    {"dnnO", "DAGs of models"},
    {"layered", "layered DAGs"},
}};

/// Families of hypergraphs and their classes.
inline constexpr std::array<std::pair<std::string_view, std::string_view>, 5> bench_hypergraph_families{{
    {"rows", "rows of matrices"},
    {"values", "values of computations"},
    {"netlist", "netlists"},
    {"nets", "random nets"},
    {"random", "random nets"},
}};

inline constexpr std::string_view other_class = "other graphs", other_hypergraphs = "other hypergraphs";

/// Returns the family of a name: `grid2d` for `grid2d_10k`.
inline std::string_view family_of(std::string_view instance) {
  return instance.substr(0, instance.find_first_of("_:."));
}

inline std::string_view class_of_instance(std::string_view instance, bool is_hypergraph = false) {
  if (is_hypergraph) {
    for (auto const& [family, kind] : bench_hypergraph_families)
      if (family == family_of(instance)) return kind;
    return other_hypergraphs;
  }
  for (auto const& [family, kind] : bench_families)
    if (family == family_of(instance)) return kind;
  return other_class;
}

/// A range of sizes. Partitioners differ on small graphs, where their fixed costs count.
enum class size_band : std::uint8_t { unknown, small, medium, large };

inline constexpr std::array<std::string_view, 4> size_band_names = {"size not given", "small", "medium",
                                                                    "large"};
inline constexpr std::uint64_t medium_nodes = 20'000, large_nodes = 500'000;  ///< the least of each band

inline size_band band_of(std::uint64_t nodes) {
  using enum size_band;
  return nodes == 0 ? unknown : nodes < medium_nodes ? small : nodes < large_nodes ? medium : large;
}

inline std::string_view name_of(size_band b) { return size_band_names[static_cast<std::size_t>(b)]; }

/// Says what the bands are, in one sentence.
inline constexpr std::string_view size_bands_sentence =
    "Small: fewer than 20 000 nodes. Medium: fewer than 500 000. Large: all others.";

}  // namespace tool
