// SPDX-License-Identifier: MIT
// Joint graphs of PyTorch, with the choices of its min-cut partitioner
// (tests/support/record_joint_graphs.py).
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "cleave/backward/cut_joint_graph.hpp"
#include "support/cases.hpp"
#include "support/recorded_joint_graph.hpp"

using namespace cleave;
using namespace cleave::testing;

TEST_CASE("cut_joint_graph: saves no more than PyTorch's min-cut partitioner, and rarely runs more again") {
  std::size_t choices = 0, dearer = 0;
  for (auto const& file : recorded_joint_graphs()) {
    INFO(file);
    auto const recorded = read_joint_graph(file);
    if (recorded.graph.nodes() > cases(200, 10'000)) continue;
    for (auto const& peer : recorded.peers) {
      if (peer.is_wrong) continue;  // random numbers drawn again
      INFO(peer.settings);
      // What may not run again there may not here.
      auto g = recorded.graph;
      for (auto const n : peer.fixed) g.run_once[n] = 1;
      auto const fewest = cut_joint_graph(g);
      CHECK(fewest.least);
      CHECK(fewest.bytes <= peer.bytes);
      // Within its bytes, at about its cost or less.
      auto const within = cut_joint_graph(recorded.graph, {.most_bytes = peer.bytes});
      CHECK(within.bytes <= peer.bytes);
      CHECK(within.bound <= peer.cost);
      CHECK(within.cost <= 1.05 * peer.cost);
      ++choices;
      dearer += within.cost > peer.cost;
    }
  }
  CHECK(choices > cases(8, 100));
  CHECK(dearer * 40 <= choices);
}
