// SPDX-License-Identifier: MIT
// Compares ways to partition a stream of nodes with partition_kway, which has the whole graph: hashing, LDG,
// Fennel and buffers. Each row gives cuts and CPU seconds, for the nodes in the order of the file, and in a
// random one. Arguments: files or instances (`grid3d_27k`, `rgg2d:100k:7`), `--k N`, `--buffer N`, `--seed
// N`.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/partition/kway/stream_partitioner.hpp"
#include "instances/catalogue.hpp"
#include "measure.hpp"

namespace {

using graph = cleave::adjacency<std::uint32_t>;

struct asked {
  std::vector<std::string> graphs;
  std::uint32_t parts = 32;
  std::size_t buffer = 16'384;
  std::uint64_t seed = 1;
};

graph graph_called(std::string const& word) {
  if (word.find('.') == word.npos)
    if (auto const made = bench::find_instance(word)) return bench::undirected_instance(*made);
  return cleave::read_graph_file<std::uint32_t>(word);
}

/// Returns the graph with its nodes in a random order.
graph shuffled(graph const& g, std::uint64_t seed) {
  auto const nodes = g.view().nodes();
  std::vector<std::uint32_t> order(nodes), position(nodes);
  std::iota(order.begin(), order.end(), 0u);
  cleave::splitmix(seed).shuffle(order);
  for (std::uint32_t i = 0; i < nodes; ++i) position[order[i]] = i;
  graph to;
  for (auto const n : order) {
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
      to.targets.push_back(position[g.targets[e]]);
      if (!g.edge_weight.empty()) to.edge_weight.push_back(g.edge_weight[e]);
    }
    if (!g.node_weight.empty()) to.node_weight.push_back(g.node_weight[n]);
    to.offsets.push_back(static_cast<std::uint32_t>(to.targets.size()));
  }
  return to;
}

cleave::graph_totals totals_of(graph const& g) {
  std::int64_t nodes = 0, ends = 0;
  for (std::size_t n = 0; n < g.view().nodes(); ++n) nodes += g.view().weight(n);
  for (std::size_t e = 0; e < g.targets.size(); ++e) ends += g.view().weight_of_edge(e);
  return {g.view().nodes(), nodes, ends / 2};
}

std::int64_t hashed_cut(graph const& g, std::uint32_t parts) {
  std::int64_t cut = 0;
  auto const part_of = [&](std::size_t n) { return cleave::splitmix(n).next() % parts; };
  for (std::size_t n = 0, e = 0; n < g.view().nodes(); ++n)
    for (; e < g.offsets[n + 1]; ++e)
      if (g.targets[e] < n && part_of(n) != part_of(g.targets[e])) cut += g.view().weight_of_edge(e);
  return cut;
}

void print(std::int64_t cut, double seconds) {
  std::printf(" %lld, %.2f |", static_cast<long long>(cut), seconds);
}

void print_streamed(graph const& g, asked const& a, cleave::stream_options options) {
  options.seed = a.seed;
  std::int64_t cut = 0;
  bool within = true;
  auto const spent = bench::seconds([&] {
    cleave::stream_partitioner s(a.parts, totals_of(g), options);
    std::vector<std::uint64_t> to;
    for (std::size_t n = 0; n < g.view().nodes(); ++n) {
      auto const row = g.view().neighbours(n);
      to.assign(row.begin(), row.end());
      std::span<std::int64_t const> weights;
      if (!g.edge_weight.empty()) weights = std::span(g.edge_weight).subspan(g.offsets[n], to.size());
      s.add(to, g.view().weight(n), weights);
    }
    auto const p = s.finish();
    cut = p.cut;
    within = p.within_limits;
  });
  print(cut, spent);
  if (!within) std::printf(" above limits |");
}

void print_whole(graph const& g, asked const& a, cleave::kway_preset preset) {
  std::int64_t cut = 0;
  auto const spent = bench::seconds(
      [&] { cut = cleave::partition_kway(g.view(), a.parts, {.preset = preset, .seed = a.seed}).cut; });
  print(cut, spent);
}

asked read_arguments(int count, char** words) {
  asked a;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word.starts_with("--") && i + 1 < count) {
      auto const value = std::stoull(words[++i]);
      if (word == "--k") a.parts = static_cast<std::uint32_t>(value);
      if (word == "--buffer") a.buffer = value;
      if (word == "--seed") a.seed = value;
    } else {
      a.graphs.push_back(word);
    }
  }
  if (a.graphs.empty())
    a.graphs = {"del2d:60k:4", "ws:30k:2",  "rhyp:50k:5",    "mesh3d:40k:3", "rgg2d:80k:3",
                "fem2d:60k:2", "sbm:20k:2", "torus3d:30k:2", "ba:20k:2"};
  return a;
}

}  // namespace

int main(int count, char** words) try {
  auto const a = read_arguments(count, words);
  std::puts("| graph | order | hash | LDG | Fennel | buffered, fast | buffered | whole, fast | whole |");
  std::puts("|---|---|--:|--:|--:|--:|--:|--:|--:|");
  for (auto const& word : a.graphs) {
    auto const natural = graph_called(word);
    for (std::string const order : {"file", "random"}) {
      auto const g = order == "file" ? natural : shuffled(natural, a.seed);
      std::printf("| %s | %s | %lld |", word.substr(word.find_last_of('/') + 1).c_str(), order.c_str(),
                  static_cast<long long>(hashed_cut(g, a.parts)));
      using enum cleave::kway_preset;
      print_streamed(g, a, {.buffer = 0});
      print_streamed(g, a, {.rule = cleave::stream_rule::fennel, .buffer = 0});
      print_streamed(g, a, {.buffer = a.buffer, .preset = fast});
      print_streamed(g, a, {.buffer = a.buffer});
      print_whole(g, a, fast);
      print_whole(g, a, standard);
      std::puts("");
      std::fflush(stdout);
    }
  }
} catch (std::exception const& e) {
  std::fprintf(stderr, "bench streaming: %s\n", e.what());
  return 1;
}
