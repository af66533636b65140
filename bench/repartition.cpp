// SPDX-License-Identifier: MIT
// Compares repartitioning with partitioning from scratch: graphs in which four of sixteen parts have doubled
// in weight, and pipelines whose layers now take half to twice their time. Prints the tables of
// docs/performance/partitioning.md.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/repartition/repartition.hpp"
#include "cleave/partition/repartition/repartition_stages.hpp"
#include "generated_dags.hpp"
#include "instances/catalogue.hpp"
#include "measure.hpp"

namespace {

void measure(std::string const& name, std::uint32_t k) {
  auto const made = bench::find_instance(name);
  if (!made) return;
  auto g = bench::undirected_instance(*made);
  auto const nodes = g.view().nodes();
  auto const old = cleave::partition_kway(g.view(), k);
  g.node_weight.assign(nodes, 1);
  for (std::size_t n = 0; n < nodes; ++n)
    if (index(old.of[n]) % 5 == 0) g.node_weight[n] = 2;

  cleave::kway_partition<> anew;
  auto const fresh = bench::seconds([&] { anew = cleave::partition_kway(g.view(), k); });
  std::size_t moved = 0;
  for (std::size_t n = 0; n < nodes; ++n) moved += anew.of[n] != old.of[n];
  auto const share = [&](std::size_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(nodes);
  };
  std::printf("| %s | %u | made anew | %lld | %.1f | %.2f |\n", name.c_str(), k,
              static_cast<long long>(anew.cut), share(moved), fresh);
  for (double const cost : {0.01, 0.1, 1.0}) {
    cleave::repartitioned<> after;
    auto const spent =
        bench::seconds([&] { after = cleave::repartition(g.view(), old, k, {.cost_per_byte = cost}); });
    std::printf("| %s | %u | a node moves for %g | %lld%s | %.1f | %.2f |\n", name.c_str(), k, cost,
                static_cast<long long>(after.cut), after.within_limits ? "" : " (not balanced)",
                share(after.moved_nodes), spent);
  }
}

void measure_stages(std::string const& name, std::uint32_t k) {
  auto const before = bench::instance_called(name);
  auto const old = cleave::balance(before.graph, k, before.options);
  auto g = before.graph;
  auto const nodes = g.nodes();
  for (std::size_t n = 0; n < nodes; ++n)  // forty stretches, each with a random factor
    g.weight[n] *= 0.5 + 1.5 * static_cast<double>(n / (nodes / 40 + 1) * 7919 % 13) / 12;

  cleave::balanced_partition anew;
  auto const fresh = bench::seconds([&] { anew = cleave::balance(g, k, before.options); });
  std::size_t moved = 0;
  for (std::size_t n = 0; n < nodes; ++n) moved += anew.of[n] != old.of[n];
  auto const share = [&](std::size_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(nodes);
  };
  auto const kept = cleave::bottleneck(g, old, {.cost_per_byte = before.options.cost_per_byte});
  std::printf("| %s | %u | as they are | %.3f | 0.0 | |\n", name.c_str(), k, kept / anew.bottleneck);
  std::printf("| %s | %u | made anew | 1.000 | %.1f | %.2f |\n", name.c_str(), k, share(moved), fresh);
  for (double const all : {0.1, 1.0, 10.0}) {
    cleave::repartitioned_stages after;
    auto const cost = all * anew.bottleneck / static_cast<double>(nodes);
    auto const spent = bench::seconds([&] {
      after = cleave::repartition_stages(g, old, k, {.cost_per_moved_byte = cost, .balance = before.options});
    });
    std::printf("| %s | %u | all nodes move for %g | %.3f | %.1f | %.2f |\n", name.c_str(), k, all,
                after.bottleneck / anew.bottleneck, share(after.moved_nodes), spent);
  }
}

}  // namespace

int main() {
  std::puts("| graph | k | | cut | moved, % | CPU s |\n|---|---|---|---|---|---|");
  for (auto const* name : {"grid2d_100k", "rgg2d_18", "rhyp_18"}) measure(name, 16);
  std::puts("\n| graph | k | | bottleneck | moved, % | CPU s |\n|---|---|---|---|---|---|");
  for (auto const* name : {"tfm_L64_H16", "inception_30k", "layered_100k", "tfm_1M"}) measure_stages(name, 8);
}
