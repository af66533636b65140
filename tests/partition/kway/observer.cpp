// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/partition_hypergraph.hpp"
#include "support/cases.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A grid as a graph, and as a hypergraph with a net per edge.
struct grid {
  adjacency<std::uint32_t, std::int64_t> graph;
  hypergraph<std::uint32_t> nets;

  explicit grid(std::uint32_t width) {
    nets.nodes = width * width;
    for (std::uint32_t n = 0; n < nets.nodes; ++n) {
      auto const row = n / width, column = n % width;
      if (row > 0) graph.targets.push_back(n - width);
      if (column > 0) graph.targets.push_back(n - 1);
      for (auto const to : {column + 1 < width ? n + 1 : n, row + 1 < width ? n + width : n}) {
        if (to == n) continue;
        graph.targets.push_back(to);
        nets.pins.insert(nets.pins.end(), {n, to});
        nets.offsets.push_back(static_cast<std::uint32_t>(nets.pins.size()));
      }
      graph.offsets.push_back(static_cast<std::uint32_t>(graph.targets.size()));
    }
  }
};

/// Keeps what it is told, and throws at one of the steps.
struct listener : kway_observer {
  std::vector<kway_phase> phases;
  std::vector<std::size_t> sizes;
  std::int64_t gained = 0;
  bool elsewhere = false;  // true if a call came on another thread
  std::size_t last = ~std::size_t{0};
  std::thread::id caller = std::this_thread::get_id();

  void passed(kway_phase phase, std::size_t nodes, std::int64_t gain) override {
    elsewhere |= std::this_thread::get_id() != caller;
    phases.push_back(phase);
    sizes.push_back(nodes);
    gained += gain;
    if (phases.size() == last) throw std::runtime_error("the listener has heard enough");
  }
};

/// Checks the calls of a partitioner that `cut(preset, threads, observer)` runs.
template <class Cut>
void check_calls(std::size_t nodes, Cut cut) {
  for (auto const preset : {kway_preset::fast, kway_preset::standard, kway_preset::quality}) {
    auto const alone = cut(preset, 1, nullptr);
    listener one;
    CHECK(cut(preset, 1, &one).of == alone.of);
    REQUIRE(one.phases.size() >= 3);
    CHECK(one.phases.front() == kway_phase::coarsened);
    CHECK(one.sizes.front() == nodes);
    CHECK(one.phases.back() == kway_phase::refined);
    CHECK(one.sizes.back() == nodes);
    CHECK(one.gained >= 0);

    listener four;
    CHECK(cut(preset, 4, &four).of == alone.of);
    CHECK(four.phases.size() >= 3);
    CHECK_FALSE(four.elsewhere);

    for (std::uint32_t const threads : {1u, 4u}) {
      listener impatient;
      impatient.last = 2;
      CHECK_THROWS_WITH_AS(cut(preset, threads, &impatient), "the listener has heard enough",
                           std::runtime_error);
      CHECK(impatient.phases.size() == 2);
    }
  }
}

}  // namespace

TEST_CASE(
    "kway_observer: hears the steps on the graph on the caller's thread, and ends the call by throwing") {
  auto const width = static_cast<std::uint32_t>(testing::cases(10, 24));
  grid const g(width);
  check_calls(g.nets.nodes, [&](kway_preset preset, std::uint32_t threads, kway_observer* observer) {
    return partition_kway(g.graph.view(), 8, {.preset = preset, .threads = threads, .observer = observer});
  });
}

TEST_CASE("kway_observer: hears the steps on a hypergraph on the caller's thread, and ends the call too") {
  auto const width = static_cast<std::uint32_t>(testing::cases(13, 24));
  grid const g(width);
  for (auto const objective : {hypergraph_objective::connectivity, hypergraph_objective::cut_nets}) {
    if (objective == hypergraph_objective::cut_nets && !testing::all_cases()) continue;
    check_calls(g.nets.nodes, [&](kway_preset preset, std::uint32_t threads, kway_observer* observer) {
      return partition_hypergraph(
          g.nets.view(), 8,
          {.preset = preset, .objective = objective, .threads = threads, .observer = observer});
    });
  }
}

TEST_CASE("thread_team: piece 0 runs on the thread of the caller") {
  for (std::size_t round = 0; round < testing::cases(100, 300); ++round) {
    std::vector<std::thread::id> ran(8);
    thread_team(8).share(ran.size(), [&](std::size_t piece) { ran[piece] = std::this_thread::get_id(); });
    REQUIRE(ran[0] == std::this_thread::get_id());
  }
}
