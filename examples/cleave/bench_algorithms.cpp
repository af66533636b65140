// SPDX-License-Identifier: MIT
// The algorithms that `cleave bench` knows by name.
#include "bench_algorithms.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tool {

std::vector<bench_algorithm> bench_algorithms() {
  auto all = kway_algorithms();
  for (auto& classic : classic_algorithms()) all.push_back(std::move(classic));
  for (auto& dag : dag_algorithms()) all.push_back(std::move(dag));
  for (auto& nets : hypergraph_algorithms()) all.push_back(std::move(nets));
  for (auto& metis : metis_algorithms()) all.push_back(std::move(metis));
  return all;
}

std::vector<std::string> bench_algorithms_left_out() {
  return metis_algorithms().empty() ? std::vector<std::string>{"metis", "metis-contig", "metis-rb"}
                                    : std::vector<std::string>();
}

}  // namespace tool
