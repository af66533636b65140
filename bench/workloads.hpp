// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cleave/partition/partition.hpp"
#include "costed_graph.hpp"

namespace bench {

/// A workload of msr-fiddle/dnn-partitioning: times in ms, k alike accelerators and their memory.
struct workload : instance {
  std::uint32_t devices = 0;
  std::map<std::int64_t, std::size_t> node_of;  ///< of an id in the file
};

/// An edge's cost is a time, so a byte is 2^-40 ms here. Nodes of one colour stay together; a node that
/// computes a gradient does not restrict the order; the order of the program is that of the file.
inline workload read_workload(std::string const& path, std::string name) {
  auto const file = nlohmann::json::parse(std::ifstream(path));
  auto const& nodes = file.at("nodes");
  std::map<std::int64_t, std::uint32_t> at;
  node_list list;
  for (auto const& node : nodes) {
    at[node.at("id")] = static_cast<std::uint32_t>(list.weight.size());
    list.weight.push_back(node.at("fpgaLatency"));
  }
  list.bytes.resize(nodes.size());
  for (auto const& edge : file.at("edges")) {
    auto const from = at.at(edge.at("sourceId")), to = at.at(edge.at("destId"));
    auto const bytes = static_cast<std::size_t>(std::llround(std::ldexp(edge.at("cost").get<double>(), 40)));
    list.bytes[from] = std::max(list.bytes[from], bytes);
    list.edges.push_back({from, to});
  }

  workload w;
  w.name = std::move(name);
  w.graph = dense_of(list, w.position);
  w.devices = file.at("maxFPGAs");
  w.options.cost_per_byte = 0x1p-40;
  w.options.memory = static_cast<std::size_t>(file.at("maxSizePerFPGA").get<double>());
  w.options.backward.resize(nodes.size());
  w.options.rank.resize(nodes.size());
  w.options.node_memory.resize(nodes.size());
  std::map<std::int64_t, std::vector<std::size_t>> colours;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto const n = w.position[i];
    w.node_of[nodes[i].at("id")] = n;
    auto const& backward = nodes[i].at("isBackwardNode");
    w.options.backward[n] = backward.is_boolean() ? backward.get<bool>() : backward.get<int>() != 0;
    w.options.rank[n] = i;
    w.options.node_memory[n] = static_cast<std::size_t>(nodes[i].at("size").get<double>());
    if (nodes[i].contains("colorClass")) colours[nodes[i]["colorClass"]].push_back(n);
  }
  for (auto& [colour, members] : colours) w.options.together.push_back(std::move(members));
  return w;
}

/// The split that a person made, or nothing where it leaves a node out.
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
