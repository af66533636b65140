// SPDX-License-Identifier: MIT
#pragma once
#include <array>
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

inline constexpr std::string_view other_class = "other graphs";

/// Returns the family of a name: `grid2d` for `grid2d_10k`.
inline std::string_view family_of(std::string_view instance) {
  return instance.substr(0, instance.find_first_of("_:."));
}

inline std::string_view class_of_instance(std::string_view instance) {
  for (auto const& [family, kind] : bench_families)
    if (family == family_of(instance)) return kind;
  return other_class;
}

}  // namespace tool
