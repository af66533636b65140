// SPDX-License-Identifier: MIT
// Measures the time to cut a tree of modules into stages, and to analyse the values that stages pass on. Each
// module has ten children, to a given depth; there is one cut for every ten innermost blocks.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/ties.hpp"
#include "cleave/split/modules/liveness.hpp"
#include "cleave/split/modules/split_hierarchy.hpp"
#include "measure.hpp"

namespace {

using cleave::module_graph;

module_graph::position add(module_graph& g, cleave::node_kind kind, std::string name, std::string target,
                           std::vector<cleave::module_argument> args = {}) {
  cleave::module_node n;
  n.kind = kind;
  n.name = std::move(name);
  n.target = std::move(target);
  n.args = std::move(args);
  return g.add(std::move(n));
}

/// A chain of `width` modules. Each is a chain of ten modules one level lower; at the lowest level it is a
/// layer with a weight that adds its inputs.
module_graph row(std::size_t width, std::size_t levels, std::string const& path,
                 std::vector<std::string>& layers) {
  module_graph g;
  auto last = add(g, cleave::node_kind::placeholder, "x", "x");
  for (std::size_t i = 0; i < width; ++i) {
    auto const target = "m" + std::to_string(i);
    auto const full = path.empty() ? target : path + "." + target;
    cleave::module_attribute a{target, cleave::module_attribute::kind::module, {}, {}, {}, {}};
    if (levels > 1) a.body.push_back(row(10, levels - 1, full, layers));
    g.add_attribute(std::move(a));
    if (levels == 1) {
      layers.push_back(full);
      g.add_attribute({target + ".weight", cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
    }
    auto const made = add(g, cleave::node_kind::call_module, "call" + std::to_string(i), target,
                          {cleave::node_argument(last)});
    last = add(g, cleave::node_kind::call_function, "add" + std::to_string(i), "add",
               {cleave::node_argument(made), cleave::node_argument(last)});
  }
  add(g, cleave::node_kind::output, "output", "output", {cleave::node_argument(last)});
  return g;
}

}  // namespace

int main() {
  std::printf(
      "| layers | levels | nodes | stages | split, s: median (least to most) | us/node | liveness, ms | "
      "ties, ms |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (auto const& [layers, levels] : {std::pair<std::size_t, std::size_t>{1'000, 4},
                                       {2'000, 4},
                                       {4'000, 4},
                                       {8'000, 4},
                                       {16'000, 4},
                                       {1'000, 1},
                                       {1'000, 2},
                                       {1'000, 3}}) {
    std::size_t width = layers;
    for (std::size_t i = 1; i < levels; ++i) width /= 10;
    std::vector<std::string> paths, cuts;
    auto const g = row(width, levels, "", paths);
    for (std::size_t i = 9; i < paths.size(); i += 10) cuts.push_back(paths[i]);
    std::size_t nodes = 0, stages = 0;
    auto const split = bench::repeat(5, [&] {
      return bench::seconds([&] {
        auto const r = cleave::split_hierarchy(g, cuts);
        stages = r.stages.size();
        nodes = 0;
        for (auto const& s : r.stages) nodes += s.runs.size();
      });
    });
    auto const r = cleave::split_hierarchy(g, cuts);
    auto const liveness = bench::repeat(
        5, [&] { return bench::seconds([&] { stages = cleave::liveness_of(r.outer).stages.size(); }); });
    auto const ties = bench::repeat(5, [&] {
      return bench::seconds([&] {
        auto const found = cleave::ties_of(cleave::state_of_stages(r.outer), cleave::tie_scope::stages);
        if (!found.empty()) std::printf("a tie\n");
      });
    });
    std::printf("| %zu | %zu | %zu | %zu | %.4f (%.4f to %.4f) | %.2f | %.2f | %.2f |\n", layers, levels,
                nodes, stages, split.median, split.least, split.most,
                1e6 * split.median / static_cast<double>(nodes), 1e3 * liveness.median, 1e3 * ties.median);
  }
}
