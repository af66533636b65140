// SPDX-License-Identifier: MIT
// Measures the time to split a backward pass into input and weight gradients, to lay out both phases, and to
// find the smallest stash between them; and the memory saved.
//   bench_weight_cut
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "cleave/backward/backward_phases.hpp"
#include "cleave/backward/min_saved_activations.hpp"
#include "cleave/backward/recompute_hints.hpp"
#include "cleave/backward/weight_cut.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;

constexpr std::size_t mib = 1 << 20;

/// The backward pass of a chain of layers `x + product(relu(product(x, w1) + b1), w2)`: ten nodes each. Every
/// `shared`-th layer shares its first weight with the previous layer; 0 = none. Operands of products have 32
/// MiB and weights 8 MiB; a product costs 8, other nodes 1.
backward_arrays layers(std::uint32_t count, std::uint32_t shared) {
  backward_arrays g;
  std::uint32_t weight = 0;
  auto const edge = [&](std::uint32_t to, double cost) {
    g.next.add({to});
    g.cost.push_back(cost);
  };
  auto const node = [&](std::size_t bytes) {
    g.next.close();
    g.bytes.push_back(bytes);
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t const at = 10 * i, after = at + 10;
    edge(after, 1), edge(at + 1, 1), node(8 * mib);    // 0: sum of the layer before and 1
    edge(at + 3, 8), edge(at + 2, 8), node(8 * mib);   // 1: product of 3 and 2
    edge(at + 8, 1), node(8 * mib);                    // 2: second weight, transposed
    edge(at + 4, 1), node(32 * mib);                   // 3: relu
    edge(at + 5, 1), edge(at + 9, 1), node(32 * mib);  // 4: sum of 5 and the bias
    edge(after, 8), edge(at + 6, 8), node(32 * mib);   // 5: product of the layer before and 6
    if (shared == 0 || i % shared != 0 || i == 0) weight = at + 7;
    edge(weight, 1), node(8 * mib);  // 6: first weight, transposed
    node(8 * mib);                   // 7, 8: weights
    node(8 * mib);
    node(1024);  // 9: bias
    g.parameters.insert(g.parameters.end(), {at + 7, at + 8, at + 9});
  }
  node(8 * mib);
  g.outputs = {0};
  g.inputs = {10 * count};
  return g;
}

template <class F>
double milliseconds(F f) {
  return bench::repeat(5, [&] { return bench::seconds(f); }).median * 1e3;
}

void growth() {
  std::printf(
      "| nodes | tied | groups | cut, ms | phases, ms | smallest stash, ms | hints, ms | cut, ns/node |\n"
      "|---|---|---|---|---|---|---|---|\n");
  for (std::uint32_t const count : {1'000u, 10'000u, 100'000u})
    for (std::uint32_t const shared : {0u, 4u}) {
      auto const g = layers(count, shared);
      auto const rule = edge_phases_of(g);
      auto const groups = weight_cut_of(g).groups.size();
      auto const cut = milliseconds([&] { weight_cut_of(g); });
      auto const phases = milliseconds([&] { backward_phases_of(g); });
      auto const saved = milliseconds([&] { min_saved_activations(g, {.bytes_per_cost = 1.0 * mib}); });
      auto const hints = milliseconds([&] { recompute_hints(g, rule); });
      std::printf("| %zu | %s | %zu | %.2f | %.2f | %.2f | %.2f | %.0f |\n", g.nodes(),
                  shared == 0 ? "none" : "every fourth", groups, cut, phases, saved, hints,
                  cut * 1e6 / static_cast<double>(g.nodes()));
    }
}

/// Compares the bytes kept between the phases, by the default rule and by price.
void savings() {
  auto const g = layers(12, 0);
  std::printf(
      "\n| kept between the phases | MiB a layer | runs early or again, cost a layer |\n|---|---|---|\n");
  auto const row = [](char const* what, std::size_t bytes, double cost) {
    std::printf("| %s | %.1f | %.1f |\n", what, static_cast<double>(bytes) / mib / 12, cost / 12);
  };
  row("by the rule", backward_phases_of(g).bytes, 0);
  for (auto const& [what, o] : std::vector<std::pair<char const*, saved_options>>{
           {"smallest, at least 4 MiB for a cost of 1", {saved_reach::early, 4.0 * mib}},
           {"smallest, at any price", {saved_reach::early}},
           {"the same, or made again, at least 4 MiB", {saved_reach::both, 4.0 * mib}},
       }) {
    auto const c = min_saved_activations(g, o);
    row(what, c.bytes, c.cost);
  }
  auto const hints = recompute_hints(g, edge_phases_of(g), {.least_worth = 4.0 * mib});
  auto const phases = recomputed(g, edge_phases_of(g), hints);
  double cost = 0;
  for (auto const& h : hints) cost += h.cost;
  row("by the rule, and hints of at least 4 MiB", backward_phases_of(g, phases).bytes, cost);
}

}  // namespace

int main() {
  growth();
  savings();
}
