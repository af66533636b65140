// SPDX-License-Identifier: MIT
#pragma once
// The workloads of Piper (Tarnawski et al., NeurIPS 2021), and what their layers cost as a stage.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/place/place_replicated.hpp"

namespace bench::piper {

using nlohmann::json;
inline constexpr double bandwidth = 25.0 * (1ll << 30);
inline constexpr double never = std::numeric_limits<double>::infinity();

/// One way to run a layer.
struct way {
  double time, weights, saved, held;  ///< saved: bytes for each microbatch that is kept
};

/// A layer, and what crosses to and from others if they are in other stages.
struct layer {
  int id;
  std::map<std::uint32_t, std::vector<way>> ways;  ///< by shards
  std::map<std::uint32_t, std::vector<std::map<int, double>>>
      far;  ///< by shards and way: bytes for another layer
};

/// A workload of Piper: layers in an order in which each comes after what it reads.
struct workload {
  std::vector<layer> layers;
  std::uint32_t microbatches = 0;
  std::vector<std::uint32_t> shards;
  std::map<int, std::uint32_t> position;  ///< of each layer, by its id

  explicit workload(std::string const& path) {
    std::ifstream in(path);
    if (!in) throw std::runtime_error("no workload " + path);
    auto const file = json::parse(in);
    microbatches = file["mbsInBatch"];
    std::map<std::pair<int, int>, double> bytes;
    std::map<int, std::vector<int>> before, after;
    for (auto const& e : file["edges"]) {
      int const from = e["sourceId"], to = e["destId"];
      bytes[{from, to}] = e["communicationCost"];
      before[to].push_back(from);
      after[from].push_back(to);
    }
    std::map<int, layer> all;
    for (auto const& n : file["nodes"]) {
      layer l{n["id"], {}, {}};
      for (auto const& [key, list] : n["TMPCs"].items()) {
        auto const t = static_cast<std::uint32_t>(std::stoul(key));
        for (auto const& w : list) {
          l.ways[t].push_back({w["timePerSample"], w["parameterSize"], w["memoryUsageA"], w["memoryUsageB"]});
          auto& far = l.far[t].emplace_back();
          for (auto const& [from, sync] : w["syncTimeFw"].items())
            far[std::stoi(from)] += 2 * (bytes[{std::stoi(from), l.id}] + sync.get<double>());
          for (auto const& [to, sync] : w["syncTimeBw"].items())
            far[std::stoi(to)] += 2 * (bytes[{l.id, std::stoi(to)}] + sync.get<double>());
        }
      }
      all.emplace(l.id, std::move(l));
    }
    std::map<int, bool> is_listed;
    auto const list = [&](auto const& self, int id) -> void {
      if (std::exchange(is_listed[id], true)) return;
      for (auto const b : before[id]) self(self, b);
      position[id] = static_cast<std::uint32_t>(layers.size());
      layers.push_back(all.at(id));
    };
    for (auto const& [id, l] : all) list(list, id);
    for (auto const& [t, ways] : layers.front().ways) shards.push_back(t);
  }
};

/// A layer in a stage of a number of shards: what it and its messages take if it keeps its activations, or
/// runs again.
struct placed_layer {
  std::vector<std::array<double, 3>> ways;  ///< time, bytes for each microbatch that is kept, bytes held
  std::size_t fast = 0;
  double weights = 0;
};

/// Returns the layers of a stage, or nothing if they cannot run on so many shards.
inline std::vector<placed_layer> layers_of(workload const& w, std::vector<std::uint32_t> const& stage,
                                           std::uint32_t shards) {
  std::vector<char> is_inside(w.layers.size());
  for (auto const i : stage) is_inside[i] = 1;
  std::vector<placed_layer> made;
  for (auto const i : stage) {
    auto const& l = w.layers[i];
    auto const found = l.ways.find(shards);
    if (found == l.ways.end()) return {};
    auto& placed = made.emplace_back();
    for (std::size_t v = 0; v < found->second.size(); ++v) {
      auto const& way = found->second[v];
      double sent = 0;
      for (auto const& [other, b] : l.far.at(shards)[v])
        if (!is_inside[w.position.at(other)]) sent += b;
      placed.ways.push_back({way.time + sent / bandwidth, way.saved, way.held});
      if (placed.ways[v][0] < placed.ways[placed.fast][0]) placed.fast = v;
    }
    placed.weights = found->second[placed.fast].weights;
  }
  return made;
}

/// The layers of each slice of a workload on each number of shards, looked up once.
class slice_layers {
 public:
  explicit slice_layers(workload const& w) : w_(w) {}

  std::vector<placed_layer> const& operator()(std::uint32_t begin, std::uint32_t end,
                                              std::uint32_t shards) const {
    auto const [at, is_new] = known_.try_emplace({begin, end, shards});
    if (is_new) {
      std::vector<std::uint32_t> layers(end - begin);
      std::iota(layers.begin(), layers.end(), begin);
      at->second = layers_of(w_, layers, shards);
    }
    return at->second;
  }

 private:
  workload const& w_;
  mutable std::map<std::array<std::uint32_t, 3>, std::vector<placed_layer>> known_;
};

/// Returns what a stage takes if each microbatch is split into `shares`, on `shards` devices each. It chooses
/// the layers that run again as Piper does: while memory is short, those that cost the least for each byte.
inline cleave::slice_cost cost_of(std::vector<placed_layer> const& stage, cleave::stage_form const& f,
                                  double memory, double shares = 1) {
  if (stage.empty()) return {.time = {never, 0, 0, 0, 0}, .memory = ~std::uint64_t{0}};
  double const kept = f.kept / shares, sums = f.width * shares;
  double time = 0, bytes = 0, weights = 0;
  for (auto const& l : stage) {
    auto const& way = l.ways[l.fast];
    time += way[0];
    bytes += way[1] * kept + way[2];
    weights += l.weights;
  }
  struct change {
    double price, time, bytes;
  };
  std::vector<change> changes;
  for (auto const& l : stage)
    for (auto const& other : l.ways) {
      if (bytes <= memory) break;
      auto const& way = l.ways[l.fast];
      auto const less = (way[1] - other[1]) * kept + way[2] - other[2], more = other[0] - way[0];
      if (less > 1e-9) changes.push_back({more / less, more, less});
    }
  std::ranges::sort(changes, {}, &change::price);
  for (auto const& c : changes) {
    if (bytes <= memory) break;
    time += c.time;
    bytes -= c.bytes;
  }
  cleave::slice_cost made{.sum_time = 4 * (sums - 1) * weights / sums / bandwidth};
  made.time = {time / shares / 3, 2 * time / shares / 3, 0, 0, 0};
  made.memory = static_cast<std::uint64_t>(bytes);
  return made;
}

inline double step_of(cleave::replicated_placement const& p) {
  return cleave::detail::step_of(p, simulate_options_of(p, cleave::rank_link{}));
}

inline bool fits(cleave::replicated_placement const& p, double memory) {
  return std::ranges::all_of(p.stages,
                             [&](auto const& s) { return static_cast<double>(s.memory) <= memory; });
}

inline std::string summary(cleave::replicated_placement const& p) {
  auto widths = std::pair{~0u, 0u}, shards = widths;
  for (auto const& s : p.stages) {
    widths = {std::min(widths.first, s.width), std::max(widths.second, s.width)};
    shards = {std::min(shards.first, s.shards), std::max(shards.second, s.shards)};
  }
  auto const range = [](auto r) {
    return r.first == r.second ? std::to_string(r.first)
                               : std::to_string(r.first) + "–" + std::to_string(r.second);
  };
  return std::to_string(p.stages.size()) + " × " + range(widths) + " × " + range(shards);
}

/// Calls `f(plan, workload, memory, options)` with each plan of a file of JSON lines, after it has printed
/// the first cells of its row. `file` is the one that the program was given, or `recorded` of the project.
/// Returns the exit status of the program; an error names the line.
template <class F>
int each_plan(char const* file, std::string const& recorded, F f) {
  auto const root = std::string(CLEAVE_SOURCE_DIR) + "/bench/";
  auto const path = file ? std::string(file) : root + "recorded/" + recorded;
  std::ifstream plans(path);
  if (!plans) return std::fprintf(stderr, "cannot read %s\n", path.c_str()), 1;
  std::map<std::string, workload> known;
  std::size_t number = 0;
  for (std::string line; std::getline(plans, line);) try {
      ++number;
      auto const plan = json::parse(line);
      auto const name = plan.at("workload").get<std::string>();
      auto const& w = known.try_emplace(name, root + "data/piper/" + name + ".json").first->second;
      auto const gib = plan.at("memory_gib").get<double>();
      cleave::replication_options o{.devices = plan.at("devices"), .microbatches = w.microbatches};
      o.device.memory = static_cast<std::uint64_t>(gib * (1 << 30));
      std::printf("| %s | %g | %u |", name.c_str(), gib, o.devices);
      f(plan, w, gib * (1 << 30), o);
      std::fflush(stdout);
    } catch (std::exception const& e) {
      std::fflush(stdout);
      return std::fprintf(stderr, "%s, line %zu: %s\n", path.c_str(), number, e.what()), 1;
    }
  return 0;
}

/// A row of as many units as a workload has layers; a cost function says what its slices take.
inline cleave::placement_row row_of(workload const& w) {
  cleave::placement_row row;
  row.units.cost.assign(w.layers.size() + 1, {0, 0, 0, 0, 0});
  return row;
}

}  // namespace bench::piper
