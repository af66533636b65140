// SPDX-License-Identifier: MIT
// Measures the time to fill gradient buckets, to find optimal buckets, to cut at them and to find equal
// pieces; and how much earlier optimal buckets are sent than buckets of a fixed size.
//   bench_buckets
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/partition/buckets/bucket_times.hpp"
#include "cleave/partition/buckets/module_buckets.hpp"
#include "cleave/partition/buckets/optimal_buckets.hpp"
#include "cleave/split/modules/compile_pieces.hpp"
#include "cleave/split/modules/split_buckets.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;

struct model {
  module_graph g;
  model_parameters parameters;
};

/// A chain of blocks as traced by Dynamo, with parameters as inputs: four matrices, a norm and a residual
/// each.
model transformer(std::size_t parameters) {
  model m;
  module_node n;
  std::size_t made = 0;
  auto const add = [&](node_kind kind, char const* target, std::vector<module_graph::position> const& reads) {
    n.kind = kind;
    n.name = std::string(target) + std::to_string(made++);
    n.target = kind == node_kind::placeholder ? n.name : target;
    n.args.clear();
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return m.g.add(n);
  };
  using enum node_kind;
  static constexpr std::size_t sizes[] = {48, 16, 64, 64, 1};  // of a width of 1024, in units of 64 KiB
  std::vector<module_graph::position> weights;
  auto x = add(placeholder, "x", {});
  for (std::size_t i = 0; i < parameters; ++i) {
    weights.push_back(add(placeholder, "w", {}));
    m.parameters.placeholders.push_back({m.g[weights.back()].name, static_cast<std::uint32_t>(i)});
    m.parameters.list.push_back({.bytes = sizes[i % 5] * 64_KiB});
  }
  for (std::size_t i = 0; i < parameters; ++i) {
    auto const y = add(call_function, i % 5 == 4 ? "layer_norm" : "linear", {x, weights[i]});
    x = i % 5 == 4 ? add(call_function, "add", {y, x}) : y;
  }
  add(output, "output", {x});
  return m;
}

/// Backward time of multiplying by the parameters, in ms.
std::vector<double> times_of(model const& m) {
  std::vector<double> times(m.g.list().size(), 0.01);
  for (module_graph::position n = 0; n < m.g.list().size(); ++n)
    if (m.g[n].target == "linear") times[n] = 0.4;
  return times;
}

void growth() {
  std::printf(
      "| parameters | nodes | count, ms | fill, ms | best, ms | cut, ms | alike, ms | pieces | classes | "
      "fill, "
      "ns/node |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (std::size_t const parameters : {1'000u, 10'000u, 100'000u, 1'000'000u}) {
    auto const m = transformer(parameters);
    auto const times = times_of(m);
    auto const time = [&](module_graph::position n) { return times[n]; };
    auto const median = [&](auto f) {
      return bench::repeat(parameters > 200'000 ? 3 : 7, [&] { return bench::seconds(f); }).median * 1e3;
    };
    auto const c = count_parameters(m.g, m.parameters, parameter_counting::each_once);
    auto const count = median([&] { count_parameters(m.g, m.parameters, parameter_counting::each_once); });
    auto const fill = median([&] { fill_buckets(c.nodes, c.counts, {}); });
    std::vector<double> by_node;
    for (auto const n : c.nodes.node.handles()) by_node.push_back(time(n));
    link_speed const link{.bandwidth = 12e6, .latency = 0.05};
    auto const best = median([&] { fill_optimal_buckets(c.nodes, c.counts, by_node, link); });
    auto const buckets = fill_buckets(m.g, m.parameters);
    auto split = split_at_buckets(m.g, buckets);
    auto const cut = median([&] { split = split_at_buckets(m.g, buckets); });
    auto found = isomorphic_pieces(*split.split);
    auto const alike = median([&] { found = isomorphic_pieces(*split.split); });
    std::printf("| %zu | %zu | %.2f | %.2f | %.2f | %.2f | %.2f | %zu | %zu | %.0f |\n", parameters,
                c.nodes.nodes(), count, fill, best, cut, alike, split.split->pieces.size(), found.classes,
                fill * 1e6 / static_cast<double>(c.nodes.nodes()));
    std::fflush(stdout);
  }
}

void plans() {
  std::printf(
      "\n| bandwidth, GB/s | latency, ms | computed, ms | 25 MiB: buckets | sent after, ms | best cap | sent "
      "after, "
      "ms | best plan: buckets | sent after, ms |\n|---|---|---|---|---|---|---|---|---|\n");
  auto const m = transformer(240);
  auto const times = times_of(m);
  auto const time = [&](module_graph::position n) { return times[n]; };
  for (double const bandwidth : {3e6, 12e6, 50e6})  // bytes a ms
    for (double const latency : {0.02, 0.5, 4.0}) {
      link_speed const link{bandwidth, latency};
      auto const timed = [&](std::vector<module_bucket> const& b) {
        return bucket_times_of(loads_of(b, time), link);
      };
      auto const greedy = fill_buckets(m.g, m.parameters);
      auto least = timed(greedy).finish;
      std::uint64_t cap = 25_MiB;
      for (std::uint64_t c = 1_MiB; c <= 1_GiB; c += 1_MiB)
        if (auto const f = timed(fill_buckets(m.g, m.parameters, {.caps = {.cap = c}})).finish; f < least) {
          least = f;
          cap = c;
        }
      auto const best = fill_optimal_buckets(m.g, m.parameters, time, link);
      std::printf("| %.0f | %.2f | %.1f | %zu | %.2f | %s | %.2f | %zu | %.2f |\n", bandwidth / 1e6, latency,
                  timed(greedy).computed, greedy.size(), timed(greedy).finish, format_bytes(cap).c_str(),
                  least, best.size(), timed(best).finish);
      std::fflush(stdout);
    }
}

}  // namespace

int main() {
  growth();
  plans();
}
