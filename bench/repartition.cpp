// SPDX-License-Identifier: MIT
// New parts after four of sixteen have grown twice as heavy: by moving as little as pays, beside parts
// made anew. Prints the table of docs/performance.md.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cleave/partition/kway.hpp"
#include "cleave/partition/repartition.hpp"
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

}  // namespace

int main() {
  std::puts("| graph | k | | cut | moved, % | CPU s |\n|---|---|---|---|---|---|");
  for (auto const* name : {"grid2d_100k", "rgg2d_18", "rhyp_18"}) measure(name, 16);
}
