// SPDX-License-Identifier: MIT
// Compares cut_joint_graph with PyTorch's min-cut partitioner on recorded joint graphs.
//   bench_joint_cut
#include <cstddef>
#include <cstdio>
#include <string>

#include "cleave/backward/cut_joint_graph.hpp"
#include "measure.hpp"
#include "support/recorded_joint_graph.hpp"

using namespace cleave;
using namespace cleave::testing;

int main() {
  std::printf(
      "| model | nodes | saved by default, MB | saved here, same bans | time | cost here within the bytes of "
      "budgets 1, 0.7, 0.5, 0.3, 0.1 | time |\n|---|---|---|---|---|---|---|\n");
  for (auto const& file : recorded_joint_graphs()) {
    auto const recorded = read_joint_graph(file);
    std::string costs, times;
    for (auto const& peer : recorded.peers) {
      bool const is_default = &peer == &recorded.peers.front();
      if (is_default) {
        auto g = recorded.graph;
        for (auto const n : peer.fixed) g.run_once[n] = 1;
        joint_cut c;
        auto const s = bench::seconds([&] { c = cut_joint_graph(g); });
        std::printf("| %s | %zu | %.1f | %.3f | %.1f ms (%.2f s) |", recorded.name.c_str(), g.nodes(),
                    static_cast<double>(peer.bytes) / 1e6,
                    static_cast<double>(c.bytes) / static_cast<double>(peer.bytes), s * 1e3, peer.seconds);
      }
      if (!is_default && peer.settings.find("solver") == std::string::npos) continue;
      if (peer.settings.find(":0.0,") != std::string::npos) continue;
      if (peer.is_wrong) {
        costs += " wrong";
        continue;
      }
      joint_cut c;
      auto const s = bench::seconds([&] { c = cut_joint_graph(recorded.graph, {.most_bytes = peer.bytes}); });
      char text[64];
      bool const are_both_free = c.cost <= 0 && peer.cost <= 0;
      std::snprintf(text, sizeof text, " %.2f", are_both_free ? 1 : c.cost / peer.cost);
      costs += text;
      std::snprintf(text, sizeof text, "%s%.2f (%.2f) s", times.empty() ? "" : ", ", s, peer.seconds);
      if (peer.settings.find(":0.5,") != std::string::npos) times = text;
    }
    std::printf("%s | %s |\n", costs.c_str(), times.c_str());
  }
}
