// SPDX-License-Identifier: MIT
// Compares partition_kway with the limits of the machine: time as a multiple of the passes that every
// multilevel partitioner needs, speedup on several threads, and memory beyond the graph. Prints tables of
// docs/performance/partitioning.md. Arguments: files or instances (`grid3d_1M`, `rgg2d:100k:7`), `-k N`,
// `--threads N`.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "instances/catalogue.hpp"
#include "measure.hpp"

namespace {

using graph = cleave::adjacency<std::uint32_t>;
using cleave::kway_preset;

std::vector<std::pair<char const*, kway_preset>> const presets = {
    {"fast", kway_preset::fast}, {"standard", kway_preset::standard}, {"quality", kway_preset::quality}};

struct asked {
  std::vector<std::string> graphs;
  std::uint32_t k = 32, threads = 2;
};

graph graph_called(std::string const& word) {
  if (auto const made = bench::find_instance(word)) return bench::undirected_instance(*made);
  return cleave::read_graph_file<std::uint32_t>(word);
}

/// CPU milliseconds, the best of seven calls.
template <class F>
double least_ms(F f) {
  return 1000 * bench::repeat(7, [&] { return bench::seconds(f); }).least;
}

std::int64_t volatile kept;  // keeps the compiler from removing a pass

/// Reads the parts at both ends of each arc.
double edge_pass(graph const& g, std::vector<std::uint32_t> const& part) {
  return least_ms([&] {
    std::int64_t cut = 0;
    for (std::size_t n = 0; n < part.size(); ++n)
      for (auto a = g.offsets[n]; a < g.offsets[n + 1]; ++a) cut += part[g.targets[a]] != part[n];
    kept = cut;
  });
}

/// Finds the most frequent part among each node's neighbours.
double label_round(graph const& g, std::vector<std::uint32_t> const& part, std::uint32_t k) {
  std::vector<std::uint32_t> count(k);
  return least_ms([&] {
    std::int64_t sum = 0;
    for (std::size_t n = 0; n < part.size(); ++n) {
      auto most = part[n];
      for (auto a = g.offsets[n]; a < g.offsets[n + 1]; ++a) ++count[part[g.targets[a]]];
      for (auto a = g.offsets[n]; a < g.offsets[n + 1]; ++a)
        if (auto const p = part[g.targets[a]]; count[p] > count[most]) most = p;
      for (auto a = g.offsets[n]; a < g.offsets[n + 1]; ++a) count[part[g.targets[a]]] = 0;
      sum += most;
    }
    kept = sum;
  });
}

/// Matches each node with its first unmatched neighbour, or with itself.
std::vector<std::uint32_t> matched(graph const& g) {
  auto const alone = ~std::uint32_t{0};
  std::vector<std::uint32_t> mate(g.view().nodes(), alone);
  for (std::uint32_t n = 0; n < mate.size(); ++n) {
    if (mate[n] != alone) continue;
    mate[n] = n;
    for (auto const to : g.view().neighbours(n))
      if (mate[to] == alone) {
        mate[n] = to, mate[to] = n;
        break;
      }
  }
  return mate;
}

/// Contracts the pairs to a graph without parallel edges.
double contraction(graph const& g) {
  auto const mate = matched(g);
  auto const nodes = static_cast<std::uint32_t>(mate.size());
  return least_ms([&] {
    std::uint32_t pairs = 0;
    std::vector<std::uint32_t> id(nodes), first{0}, head, weight;
    for (std::uint32_t n = 0; n < nodes; ++n)
      if (mate[n] >= n) id[n] = id[mate[n]] = pairs++;
    std::vector<std::uint32_t> last(pairs, 0);  // one past its last position
    head.reserve(g.targets.size()), weight.reserve(g.targets.size());
    auto const merge = [&](std::uint32_t n, std::size_t row) {
      for (auto const neighbour : g.view().neighbours(n)) {
        auto const to = id[neighbour];
        if (to == id[n]) continue;
        if (last[to] > row) {
          ++weight[last[to] - 1];
        } else {
          head.push_back(to), weight.push_back(1);
          last[to] = static_cast<std::uint32_t>(head.size());
        }
      }
    };
    for (std::uint32_t n = 0; n < nodes; ++n) {
      if (mate[n] < n) continue;
      auto const row = head.size();
      merge(n, row);
      if (mate[n] != n) merge(mate[n], row);
      first.push_back(static_cast<std::uint32_t>(head.size()));
    }
    kept = static_cast<std::int64_t>(head.size());
  });
}

double clock_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void print_floors(std::string const& name, graph const& g, std::uint32_t k) {
  std::vector<std::uint32_t> part(g.view().nodes());
  for (std::uint32_t n = 0; n < part.size(); ++n) part[n] = n * 2'654'435'761u % k;
  auto const labels = label_round(g, part, k), contracted = contraction(g);
  auto const floor = 1.3 * (2 * labels + contracted);
  std::printf("| %s | %.1f | %.1f | %.1f | %.1f |", name.c_str(), edge_pass(g, part), labels, contracted,
              floor);
  for (auto const& [word, preset] : presets) {
    auto const spent = bench::repeat(preset == kway_preset::quality ? 1 : 3, [&] {
      return 1000 * bench::seconds([&] { cleave::partition_kway(g.view(), k, {.preset = preset}); });
    });
    std::printf(" %.1f |", spent.least / floor);
  }
  std::puts("");
}

/// Seconds for the threads to make the same parts independently, one call each.
double apart_seconds(graph const& g, std::uint32_t k, kway_preset preset, std::uint32_t threads) {
  auto const begin = clock_seconds();
  {
    std::vector<std::jthread> each;
    for (std::uint32_t i = 0; i < threads; ++i)
      each.emplace_back([&] { cleave::partition_kway(g.view(), k, {.preset = preset}); });
  }
  return clock_seconds() - begin;
}

/// Best seconds of one thread and of several, alternating, and a check that the parts are equal. In brackets:
/// the speedup of independent calls on these threads, which bounds the speedup of one call.
void print_threads(std::string const& name, graph const& g, asked const& a) {
  std::printf("| %s |", name.c_str());
  for (auto const preset : {kway_preset::fast, kway_preset::standard}) {
    double least[] = {1e9, 1e9}, apart = 1e9;
    bool same = true;
    for (int round = 0; round < 5; ++round) {
      cleave::kway_partition<> p[2];
      for (std::uint32_t several : {0u, 1u}) {
        auto const begin = clock_seconds();
        p[several] =
            cleave::partition_kway(g.view(), a.k, {.preset = preset, .threads = several ? a.threads : 1});
        least[several] = std::min(least[several], clock_seconds() - begin);
      }
      same = same && p[0].of == p[1].of;
      apart = std::min(apart, apart_seconds(g, a.k, preset, a.threads));
    }
    std::printf(" %.3f → %.3f | %.2f (%.2f)%s |", least[0], least[1], least[0] / least[1],
                a.threads * least[0] / apart, same ? "" : ", UNLIKE PARTS");
  }
  std::puts("");
}

/// Peak bytes beyond the input, as a multiple of the graph in 32-bit CSR.
void print_memory(std::string const& name, std::string const& word, std::uint32_t k) {
  std::printf("| %s |", name.c_str());
  double rows = 0;
  for (auto const& [preset_word, preset] : presets) {
    auto const bytes = bench::in_child([&] {
      auto const g = graph_called(word);
      malloc_trim(0);  // memory freed while making the graph must not serve the call
      return static_cast<double>(
          bench::added_peak([&] { cleave::partition_kway(g.view(), k, {.preset = preset}); }));
    });
    if (rows == 0)
      rows = bench::in_child([&] {
        auto const g = graph_called(word);
        return 4 * static_cast<double>(g.offsets.size() + g.targets.size());
      });
    std::printf(" %.2f |", bytes / rows);
  }
  std::puts("");
}

asked read_arguments(int count, char** words) {
  asked a;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if ((word == "-k" || word == "--threads") && i + 1 < count)
      (word == "-k" ? a.k : a.threads) = static_cast<std::uint32_t>(std::stoul(words[++i]));
    else
      a.graphs.push_back(word);
  }
  if (a.graphs.empty())
    a.graphs = {"grid2d_1M", "grid3d_1M", "mesh3d_216k", "del2d_18",
                "rgg2d_18",  "road_1M",   "rhyp_18",     "rmat_16"};
  return a;
}

std::string name_of(std::string const& word) { return word.substr(word.find_last_of('/') + 1); }

}  // namespace

int main(int count, char** words) try {
  auto const a = read_arguments(count, words);
  std::printf("k = %u; milliseconds of the CPU, least of seven; presets in floors\n\n", a.k);
  std::puts("| graph | edge pass | label round | contraction | floor | fast | standard | quality |");
  std::puts("|---|--:|--:|--:|--:|--:|--:|--:|");
  for (auto const& word : a.graphs) print_floors(name_of(word), graph_called(word), a.k);
  std::printf("\nk = %u; seconds on the clock of one thread → %u, least of five; %u processors\n\n", a.k,
              a.threads, std::thread::hardware_concurrency());
  std::puts(
      "| graph | fast | times faster (calls apart) | standard | times faster (calls apart) "
      "|\n|---|--:|--:|--:|--:|");
  for (auto const& word : a.graphs) print_threads(name_of(word), graph_called(word), a);
  std::printf("\nk = %u; peak memory beyond the graph, as a multiple of its rows and heads in 32 bits\n\n",
              a.k);
  std::puts("| graph | fast | standard | quality |\n|---|--:|--:|--:|");
  for (auto const& word : a.graphs) print_memory(name_of(word), word, a.k);
} catch (std::exception const& e) {
  std::fprintf(stderr, "bench kway: %s\n", e.what());
  return 1;
}
