// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/graph_files/cost_dag.hpp"
#include "delaunay.hpp"
#include "delaunay_in_space.hpp"
#include "meshes.hpp"
#include "networks.hpp"
#include "operator_dags.hpp"
#include "random_graphs.hpp"
#include "weights.hpp"

/// The graphs of the benches by name. A name is the same graph on every machine.
namespace bench {

using made_instance = std::variant<graph, cost_dag>;
enum class instance_size : std::uint8_t { small, medium, large };  ///< 10^4 nodes, 10^5, 10^6
inline constexpr std::array<std::string_view, 3> size_names = {"small", "medium", "large"};

struct named_instance {
  std::string_view name;  ///< its family, an underscore and its size
  instance_size size;
  std::string_view about;
  bool directed;
  made_instance (*make)();

  std::string_view family() const { return name.substr(0, name.find('_')); }
};

inline std::vector<named_instance> const& instances() {
  using enum instance_size;
  using made = made_instance;
  static std::vector<named_instance> const all{
      {"grid2d_10k", small, "five-point grid; straight cuts k=2: 100, k=4: 200, k=8: 400", false,
       [] { return made(grid2d(100, 100)); }},
      {"grid2d_100k", medium, "", false, [] { return made(grid2d(316, 316)); }},
      {"grid2d_1M", large, "straight cuts k=2: 1000, k=8: 4000, k=32: 10000, k=64: 14000", false,
       [] { return made(grid2d(1000, 1000)); }},
      {"mesh2d_1M", large, "the same with diagonals", false,
       [] { return made(grid2d(1000, 1000, diagonals::alternating)); }},
      {"grid3d_27k", small, "seven-point grid", false, [] { return made(grid3d(30, 30, 30)); }},
      {"grid3d_1M", large, "straight cuts k=2: 10000, k=8: 30000, k=64: 90000", false,
       [] { return made(grid3d(100, 100, 100)); }},
      {"mesh3d_13k", small, "27-point stencil", false,
       [] { return made(grid3d(24, 24, 24, stencil::corners)); }},
      {"mesh3d_216k", medium, "", false, [] { return made(grid3d(60, 60, 60, stencil::corners)); }},
      {"fem2d_10k", small, "Delaunay mesh of points crowded at two places, as adaptive meshes are", false,
       [] { return made(fem2d(10'000, 1)); }},
      {"fem2d_100k", medium, "", false, [] { return made(fem2d(100'000, 1)); }},
      {"fem3d_65k", medium, "tetrahedra, the same in space", false, [] { return made(fem3d(65'536, 1)); }},
      {"del2d_10k", small, "Delaunay triangulation of random points", false,
       [] { return made(del2d(10'000, 1)); }},
      {"del2d_18", medium, "", false, [] { return made(del2d(1 << 18, 1)); }},
      {"del2d_20", large, "", false, [] { return made(del2d(1 << 20, 1)); }},
      {"rgg2d_14", small, "random geometric in a square", false, [] { return made(rgg2d(1 << 14, 1)); }},
      {"rgg2d_18", medium, "", false, [] { return made(rgg2d(1 << 18, 1)); }},
      {"rgg2d_20", large, "", false, [] { return made(rgg2d(1 << 20, 1)); }},
      {"rgg3d_18", medium, "random geometric in a cube", false, [] { return made(rgg3d(1 << 18, 1, 14)); }},
      {"road_10k", small, "sparse, chains of degree 2, nearly planar", false,
       [] { return made(road(10'000, 1)); }},
      {"road_1M", large, "", false, [] { return made(road(1'000'000, 1)); }},
      {"rhyp_14", small, "hyperbolic-like: power law with locality", false,
       [] { return made(rhyp(1 << 14, 12, 1)); }},
      {"rhyp_18", medium, "", false, [] { return made(rhyp(1 << 18, 12, 1)); }},
      {"rhyp_20", large, "", false, [] { return made(rhyp(1 << 20, 12, 1)); }},
      {"ba_14", small, "Barabási-Albert: power law without locality", false,
       [] { return made(ba(1 << 14, 5, 1)); }},
      {"ba_18", medium, "", false, [] { return made(ba(1 << 18, 5, 1)); }},
      {"rmat_13", small, "R-MAT: skewed degrees, isolated nodes", false,
       [] { return made(rmat(13, 16, 1)); }},
      {"rmat_16", medium, "", false, [] { return made(rmat(16, 16, 1)); }},
      {"rmat_18", medium, "", false, [] { return made(rmat(18, 8, 1)); }},
      {"rmat_20", large, "", false, [] { return made(rmat(20, 8, 1)); }},
      {"sbm_14", small, "16 planted blocks", false, [] { return made(sbm(1 << 14, 16, 10, 2, 1)); }},
      {"sbm_18", medium, "64 planted blocks: the planted cut is about 258000", false,
       [] { return made(sbm(1 << 18, 64, 10, 2, 1)); }},
      {"tfm_L24_H1", small, "unrolled transformer, an operator a node", true,
       [] { return made(transformer(24, 1, 1).finish()); }},
      {"tfm_L64_H16", small, "", true, [] { return made(transformer(64, 16, 1).finish()); }},
      {"tfm_train_L32_H16", small, "the same with its mirrored backward pass", true,
       [] { return made(transformer(32, 16, 1).mirror().finish()); }},
      {"tfm_L512_H64", medium, "", true, [] { return made(transformer(512, 64, 1).finish()); }},
      {"tfm_1M", large, "", true, [] { return made(transformer(2500, 40, 1).finish()); }},
      {"resnet_b50", small, "residual chain", true, [] { return made(resnet(50, 1).finish()); }},
      {"resnet_10k", small, "", true, [] { return made(resnet(1200, 1).finish()); }},
      {"inception_3k", small, "parallel branches", true, [] { return made(inception(100, 1).finish()); }},
      {"inception_30k", medium, "", true, [] { return made(inception(1000, 1).finish()); }},
      {"unet_6x4", small, "long skip connections", true, [] { return made(unet(6, 4, 1).finish()); }},
      {"unet_6x200", medium, "", true, [] { return made(unet(6, 200, 1).finish()); }},
      {"moe_32x64", small, "wide: 64 experts side by side", true,
       [] { return made(moe(32, 64, 1).finish()); }},
      {"layered_10k", small, "random layered, log-normal weights", true,
       [] { return made(layered(10'000, 32, 3, 1).finish()); }},
      {"layered_100k", medium, "", true, [] { return made(layered(100'000, 64, 3, 1).finish()); }},
      {"layered_1M", large, "", true, [] { return made(layered(1'000'000, 256, 3, 1).finish()); }}};
  return all;
}

/// Those that a word stands for: one by its name, a family, a size, `graph` or `dag`, or `all`.
inline std::vector<named_instance> instances_called(std::string_view word) {
  std::vector<named_instance> found;
  for (auto const& i : instances())
    if (word == i.name || word == i.family() || word == size_names[static_cast<std::size_t>(i.size)] ||
        word == (i.directed ? "dag" : "graph") || word == "all")
      found.push_back(i);
  return found;
}

/// A graph of about `nodes` nodes of a family.
struct sized_family {
  std::string_view name;
  made_instance (*make)(std::uint32_t nodes, std::uint64_t seed);
};

inline std::vector<sized_family> const& families() {
  using made = made_instance;
  static constexpr auto root = [](std::uint32_t n, int power_of) {
    return static_cast<std::uint32_t>(std::max(1.0, power_of == 2 ? std::sqrt(n) : power(n, 1.0 / 3) + 1e-9));
  };
  static constexpr auto bits = [](std::uint32_t n) {
    return static_cast<std::uint32_t>(std::bit_width(n) - 1);
  };
  static constexpr auto at_least = [](std::uint32_t n, std::uint32_t least) { return std::max(n, least); };
  static std::vector<sized_family> const all{
      {"grid2d", [](auto n, auto) { return made(grid2d(root(n, 2), root(n, 2))); }},
      {"mesh2d", [](auto n, auto) { return made(grid2d(root(n, 2), root(n, 2), diagonals::alternating)); }},
      {"grid3d", [](auto n, auto) { return made(grid3d(root(n, 3), root(n, 3), root(n, 3))); }},
      {"mesh3d",
       [](auto n, auto) { return made(grid3d(root(n, 3), root(n, 3), root(n, 3), stencil::corners)); }},
      {"fem2d", [](auto n, auto seed) { return made(fem2d(n, seed)); }},
      {"fem3d", [](auto n, auto seed) { return made(fem3d(at_least(n, 16), seed)); }},
      {"del2d", [](auto n, auto seed) { return made(del2d(n, seed)); }},
      {"rgg2d", [](auto n, auto seed) { return made(rgg2d(at_least(n, 2), seed)); }},
      {"rgg3d", [](auto n, auto seed) { return made(rgg3d(at_least(n, 2), seed, 14)); }},
      {"road", [](auto n, auto seed) { return made(road(n, seed)); }},
      {"rhyp", [](auto n, auto seed) { return made(rhyp(at_least(n, 64), 12, seed)); }},
      {"ba", [](auto n, auto seed) { return made(ba(n, 5, seed)); }},
      {"rmat", [](auto n, auto seed) { return made(rmat(bits(n), 16, seed)); }},
      {"er", [](auto n, auto seed) { return made(er(n, 6, seed)); }},
      {"ws", [](auto n, auto seed) { return made(ws(n, 4, 0.05, seed)); }},
      {"sbm",
       [](auto n, auto seed) { return made(sbm(at_least(n, 64), n < 100'000 ? 16 : 64, 10, 2, seed)); }},
      {"hypercube", [](auto n, auto) { return made(hypercube(bits(n))); }},
      {"debruijn", [](auto n, auto) { return made(debruijn(bits(n))); }},
      {"torus3d", [](auto n, auto) { return made(torus3d(root(n, 3))); }},
      {"btree", [](auto n, auto) { return made(binary_tree(n)); }},
      {"tfm", [](auto n, auto seed) { return made(transformer(at_least(n / 374, 1), 40, seed).finish()); }},
      {"tfm_train",
       [](auto n, auto seed) { return made(transformer(at_least(n / 318, 1), 16, seed).mirror().finish()); }},
      {"resnet", [](auto n, auto seed) { return made(resnet(at_least(n / 10, 1), seed).finish()); }},
      {"inception", [](auto n, auto seed) { return made(inception(at_least(n / 39, 1), seed).finish()); }},
      {"unet", [](auto n, auto seed) { return made(unet(6, at_least(n / 97, 1), seed).finish()); }},
      {"moe", [](auto n, auto seed) { return made(moe(at_least(n / 196, 1), 64, seed).finish()); }},
      {"layered", [](auto n, auto seed) { return made(layered(n, 64, 3, seed).finish()); }}};
  return all;
}

/// `100k` as 100000: digits, and k or M.
inline std::optional<std::uint32_t> node_count(std::string_view text) {
  std::uint64_t unit = 1, count = 0;
  if (text.ends_with('k')) unit = 1'000;
  if (text.ends_with('M')) unit = 1'000'000;
  if (unit > 1) text.remove_suffix(1);
  if (text.empty() || text.size() > 9) return std::nullopt;
  for (char const c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    count = 10 * count + static_cast<std::uint64_t>(c - '0');
  }
  if (count == 0 || count * unit > 200'000'000) return std::nullopt;
  return static_cast<std::uint32_t>(count * unit);
}

/// The graph that a name stands for, `rgg2d_18`, or a family, a number of nodes and a seed: `rgg2d:100k`,
/// `rgg2d:100k:7`; nothing where the word has neither form. \throws cleave::error where it has, wrongly
inline std::optional<made_instance> find_unweighted(std::string_view word) {
  for (auto const& i : instances())
    if (i.name == word) return i.make();
  auto const colon = word.find(':');
  if (colon == word.npos) return std::nullopt;
  std::vector<std::string> names;
  for (auto const& f : families()) {
    names.emplace_back(f.name);
    if (f.name != word.substr(0, colon)) continue;
    auto const rest = word.substr(colon + 1);
    auto const second = rest.find(':');
    auto const nodes = node_count(rest.substr(0, second));
    auto const seed =
        second == rest.npos ? std::optional<std::uint32_t>(1) : node_count(rest.substr(second + 1));
    if (!nodes || !seed)
      throw cleave::error(cleave::quoted(word) + " says no graph; write " + names.back() +
                          ":100k for about 100000 nodes, " + names.back() +
                          ":100k:7 with another seed; both from 1 to 200M");
    return f.make(*nodes, *seed);
  }
  auto const family = word.substr(0, colon);
  throw cleave::error("no family of graphs is called " + cleave::quoted(family) +
                      cleave::suggestion(cleave::nearest_names(family, names)));
}

/// The same; behind the name of an undirected graph may stand `+nodes`, `+edges` or `+weights`, which gives
/// these heavy-tailed weights from 1 to 256.
inline std::optional<made_instance> find_instance(std::string_view word) {
  auto const plus = std::min(word.rfind('+'), word.size());
  auto made = find_unweighted(word.substr(0, plus));
  if (!made || plus == word.size()) return made;
  auto const what = items_called(word.substr(plus + 1));
  auto* const g = std::get_if<graph>(&*made);
  if (!what || g == nullptr)
    throw cleave::error(cleave::quoted(word) +
                        " says no graph; behind the name of an undirected one may stand " +
                        "+nodes, +edges or +weights");
  weigh(*g, *what);
  return made;
}

/// The same without directions and weights that are no integers: of operations work and costs in thousandths.
inline graph undirected_instance(made_instance const& made) {
  if (auto const* g = std::get_if<graph>(&made)) return *g;
  auto const from = undirected(std::get<cost_dag>(made));
  graph g{from.offsets, from.targets, {}, {}};
  auto const thousandths = [](double x) { return static_cast<std::int64_t>(std::llround(x * 1000)); };
  for (double const w : from.node_weight) g.node_weight.push_back(thousandths(w));
  for (double const w : from.edge_weight) g.edge_weight.push_back(thousandths(w));
  return g;
}

}  // namespace bench
