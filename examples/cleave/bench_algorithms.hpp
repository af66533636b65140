// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/graph/adjacency.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tool {

using bench_graph = cleave::adjacency_view<std::int32_t, std::int64_t, std::int64_t>;

/// What a run is to do.
struct bench_task {
  bench_graph graph;
  std::uint32_t parts = 2;
  double eps = 0.03;
  std::uint64_t seed = 1;
  std::uint32_t threads = 1;
};

struct bench_answer {
  std::vector<std::uint32_t> part_of;
  std::optional<std::int64_t> claimed_cut;  ///< what the algorithm itself says, where it does
};

/// An algorithm that the bench knows: `prepare` brings the graph into its form, the call that it returns is
/// what is timed.
struct bench_algorithm {
  std::string name, about;
  std::function<std::function<bench_answer()>(bench_task const&)> prepare;
};

/// All that this build has, and the names of those that it was built without.
std::vector<bench_algorithm> bench_algorithms();
std::vector<std::string> bench_algorithms_left_out();

/// The presets of `partition_kway`.
std::vector<bench_algorithm> kway_algorithms();

/// METIS: empty where the build found none.
std::vector<bench_algorithm> metis_algorithms();

}  // namespace tool
