// SPDX-License-Identifier: MIT
// Measures the time to make a pipe from a program (read it, cut it at markers, place its state, write its
// stages and the outer graph) and to add the backward passes. A tenth of the nodes read their own parameter;
// every fiftieth reads the result of a much earlier block.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/loss.hpp"
#include "cleave/backward/with_backward.hpp"
#include "cleave/backward/with_loss.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/relay.hpp"
#include "measure.hpp"

namespace {

using cleave::module_graph, cleave::module_node, cleave::node_argument;

module_node make(cleave::node_kind kind, std::string name, std::string target,
                 std::vector<module_graph::position> const& reads = {}) {
  module_node n;
  n.kind = kind;
  n.name = std::move(name);
  n.target = std::move(target);
  for (auto const v : reads) n.args.push_back(node_argument(v));
  return n;
}

/// `nodes` operations in blocks of ten, with a parameter a block, cut into `stages` by markers.
module_graph program(std::size_t nodes, std::size_t stages) {
  module_graph g;
  g.reserve(nodes + nodes / 10 + stages + 2);
  std::vector<module_graph::position> weights;
  for (std::size_t b = 0; b < nodes / 10; ++b) {
    auto const path = "blocks." + std::to_string(b) + ".weight";
    g.add_attribute({path, cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
    weights.push_back(g.add(make(cleave::node_kind::get_attr, "w" + std::to_string(b), path)));
  }
  auto last = g.add(make(cleave::node_kind::placeholder, "x", "x"));
  std::vector<module_graph::position> given{last};  // by blocks
  for (std::size_t n = 0; n < nodes; ++n) {
    auto const block = n / 10;
    bool const skips = n % 50 == 49;
    std::vector<module_graph::position> reads{last};
    if (n % 10 == 0) reads.push_back(weights[block]);
    if (skips) reads.push_back(given[given.size() / 2]);
    auto made = make(cleave::node_kind::call_function, "n" + std::to_string(n),
                     n % 10 == 0 ? "linear"
                     : skips     ? "add"
                                 : "relu",
                     reads);
    made.metadata = {{"scope",
                      {cleave::container{cleave::container::kind::list, 2}, std::string("blocks"),
                       "blocks." + std::to_string(block)}},
                     {"bytes", {std::int64_t{4096}}}};
    last = g.add(std::move(made));
    if (n % 10 == 9) given.push_back(last);
    if ((n + 1) * stages / nodes != n * stages / nodes && n + 1 < nodes)
      g.add(make(cleave::node_kind::call_function, "cut" + std::to_string(n), "pipe_split"));
  }
  g.add(make(cleave::node_kind::output, "output", "output", {last}));
  return g;
}

}  // namespace

int main(int count, char** words) {
  std::printf(
      "| operations | parameters | stages | edges | pipe, s: median (least to most) | with backward | us a "
      "node | "
      "passed on, ms |\n|---|---|---|---|---|---|---|---|\n");
  for (auto const& [nodes, stages] : {std::pair<std::size_t, std::size_t>{12'500, 16},
                                      {25'000, 16},
                                      {50'000, 16},
                                      {100'000, 16},
                                      {200'000, 16},
                                      {100'000, 2},
                                      {100'000, 256}}) {
    auto const g = program(nodes, stages);
    std::size_t made = 0, edges = 0;
    auto const forward = bench::repeat(5, [&] {
      return bench::seconds([&] {
        auto const p = cleave::make_module_pipe(g);
        made = p.paths.size();
        edges = p.plan.edges.size();
      });
    });
    auto const both = bench::repeat(5, [&] {
      return bench::seconds([&] {
        auto const p = cleave::make_module_pipe(g);
        auto const loss = cleave::loss_of(p.outer, cleave::sole_output());
        if (cleave::with_backward(p.outer, *loss).list().size() < made) std::printf("no backward pass\n");
      });
    });
    auto const p = cleave::make_module_pipe(g);
    cleave::snapshot_arrays const& s = p.program.s;
    auto const relays = bench::repeat(5, [&] {
      return bench::seconds([&] {
        auto const q = cleave::relayed(s, p.plan, cleave::routes_of(s, p.plan, {.beyond = {0, 3}}));
        if (q.plan.stages.size() != made) std::printf("another pipe\n");
      });
    });
    std::printf("| %zu | %zu | %zu | %zu | %.3f (%.3f to %.3f) | %.3f | %.2f | %.1f |\n", nodes, nodes / 10,
                made, edges, forward.median, forward.least, forward.most, both.median,
                1e6 * both.median / static_cast<double>(nodes), 1e3 * relays.median);
  }
  for (int i = 1; i < count; ++i) {  // times of other programs, measured elsewhere
    std::ifstream file(words[i]);
    for (std::string line; std::getline(file, line);) std::printf("%s\n", line.c_str());
  }
}
