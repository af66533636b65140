// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cleave/backward/joint_graph.hpp"

namespace cleave::testing {

/// What PyTorch's min-cut partitioner chose for a joint graph.
struct recorded_choice {
  std::string settings;
  std::size_t bytes = 0;  ///< of saved values that are no parameters
  double cost = 0;        ///< of operations that run again, as `recorded_joint_graph::graph` counts
  std::vector<std::uint32_t> fixed;  ///< nodes that it may not run again
  bool is_wrong = false;             ///< it draws random numbers again
  double seconds = 0;
};

/// A joint graph of PyTorch. A floating-point operation costs 1, and so does a byte that is read or written.
struct recorded_joint_graph {
  std::string name, about;
  joint_arrays graph;  ///< `run_once` are the random operations
  std::vector<recorded_choice> peers;
};

inline std::vector<std::filesystem::path> recorded_joint_graphs() {
  std::vector<std::filesystem::path> files;
  for (auto const& e : std::filesystem::directory_iterator(std::filesystem::path(CLEAVE_TEST_DATA) /
                                                           "backward" / "joint_graphs"))
    files.push_back(e.path());
  std::ranges::sort(files);
  return files;
}

inline recorded_joint_graph read_joint_graph(std::filesystem::path const& file) {
  std::ifstream in(file);
  auto const j = nlohmann::json::parse(in);
  recorded_joint_graph r{j.at("name"), j.at("about"), {}, {}};
  auto& g = r.graph;
  for (auto const& n : j.at("nodes")) {
    for (std::uint32_t const m : n.at("reads")) g.reads.add(m);
    g.reads.close();
    auto const is = [&](char const* flag) { return n.value(flag, false); };
    g.source.push_back(is("parameter") ? joint_source::parameter
                       : is("input")   ? joint_source::input
                       : is("tangent") ? joint_source::gradient
                                       : joint_source::operation);
    g.bytes.push_back(n.at("bytes"));
    g.cost.push_back(n.at("cost").get<double>() + n.at("moved").get<double>());
    g.run_once.push_back(is("random"));
    g.unsavable.push_back(is("whole"));
    for (char const c : n.at("name").get<std::string>()) g.name.add(c);
    g.name.close();
  }
  j.at("results").get_to(g.results);
  auto const& gradients = j.at("gradients");
  std::size_t input = 0;
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (g.source[n] != joint_source::input && g.source[n] != joint_source::parameter) continue;
    auto const gradient = gradients.at(input++).get<int>();
    if (gradient < 0) continue;
    (g.source[n] == joint_source::input ? g.input_gradients : g.weight_gradients)
        .push_back(static_cast<std::uint32_t>(gradient));
  }
  for (auto const& p : j.at("peer")) {
    auto& c = r.peers.emplace_back();
    c.settings = p.at("settings").dump();
    c.bytes = p.at("bytes").get<std::size_t>() - p.at("parameter_bytes").get<std::size_t>();
    for (std::uint32_t const n : p.at("again")) c.cost += g.cost[n];
    p.at("fixed").get_to(c.fixed);
    c.is_wrong = p.contains("wrong");
    c.seconds = p.at("seconds");
  }
  return r;
}

}  // namespace cleave::testing
