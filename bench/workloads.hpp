// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/partition/model/partition.hpp"
#include "costed_graph.hpp"

namespace bench {

/// A workload of msr-fiddle/dnn-partitioning: times in ms, k equal accelerators and their memory. The program
/// order is the file order.
struct workload : instance {
  std::uint32_t devices = 0;
  std::vector<double> host_weight;              ///< weight of each node on a CPU
  std::map<std::int64_t, std::size_t> node_of;  ///< node of each id in the file
};

inline workload read_workload(std::string const& path, std::string name) {
  auto const d = cleave::read_cost_dag(path);
  auto s = cleave::snapshot_of_dag(d);
  workload w{
      {std::move(name), std::move(s.graph), std::move(s.options), std::move(s.position)}, d.devices, {}, {}};
  w.host_weight.resize(d.nodes());
  for (std::size_t i = 0; i < d.host_work.size(); ++i) w.host_weight[w.position[i]] = d.host_work[i];
  auto const file = nlohmann::json::parse(std::ifstream(path));
  auto const& nodes = file.at("nodes");
  for (std::size_t i = 0; i < nodes.size(); ++i) w.node_of[nodes[i].at("id")] = w.position[i];
  return w;
}

/// Returns the split made by an expert, or nothing if it leaves out a node.
inline std::optional<cleave::partition> read_expert(std::string const& path, workload const& w) {
  auto const file = nlohmann::json::parse(std::ifstream(path));
  cleave::partition p{std::vector<cleave::part_id>(w.graph.nodes(), cleave::no_part), 0};
  for (auto const& device : file.at("fpgas")) {
    for (std::int64_t const id : device.at("nodes"))
      if (auto const n = w.node_of.find(id); n != w.node_of.end()) p.of[n->second] = cleave::part_id{p.parts};
    ++p.parts;
  }
  if (std::ranges::find(p.of, cleave::no_part) != p.of.end()) return std::nullopt;
  return p;
}

}  // namespace bench
