// SPDX-License-Identifier: MIT
// Compares place_replicated with Piper (Tarnawski et al., NeurIPS 2021) on Piper's workloads and cost model:
// layers with several degrees of tensor parallelism, copies of stages, and layers that run again.
//   bench_piper [FILE]     Piper's plans, as bench/peers/piper.py records them; without one, those of the project
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/place/place_replicated.hpp"
#include "measure.hpp"

namespace {

using nlohmann::json;
constexpr double bandwidth = 25.0 * (1ll << 30);
constexpr double never = std::numeric_limits<double>::infinity();

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
    auto const file = json::parse(std::ifstream(path));
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
std::vector<placed_layer> layers_of(workload const& w, std::vector<std::uint32_t> const& stage,
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

/// Returns what a stage takes. It chooses the layers that run again as Piper does: while memory is short,
/// those that cost the least for each byte.
cleave::slice_cost cost_of(std::vector<placed_layer> const& stage, cleave::stage_form const& f,
                           double memory) {
  if (stage.empty()) return {.time = {never, 0, 0, 0, 0}, .memory = ~std::uint64_t{0}};
  double time = 0, bytes = 0, weights = 0;
  for (auto const& l : stage) {
    auto const& way = l.ways[l.fast];
    time += way[0];
    bytes += way[1] * f.kept + way[2];
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
      auto const less = (way[1] - other[1]) * f.kept + way[2] - other[2], more = other[0] - way[0];
      if (less > 1e-9) changes.push_back({more / less, more, less});
    }
  std::ranges::sort(changes, {}, &change::price);
  for (auto const& c : changes) {
    if (bytes <= memory) break;
    time += c.time;
    bytes -= c.bytes;
  }
  cleave::slice_cost made{.sum_time = 4 * (f.width - 1.0) * weights / f.width / bandwidth};
  made.time = {time / 3, 2 * time / 3, 0, 0, 0};
  made.memory = static_cast<std::uint64_t>(bytes);
  return made;
}

/// The costs of slices. The layers of each are looked up once.
class slices {
 public:
  slices(workload const& w, double memory)
      : w_(w), memory_(memory), known_(w.layers.size() * w.layers.size() * 16) {}

  cleave::slice_cost operator()(std::uint32_t begin, std::uint32_t end, cleave::stage_form const& f) const {
    auto& stage = known_[(begin * w_.layers.size() + end - 1) * 16 + f.shards];
    if (!stage) {
      std::vector<std::uint32_t> layers(end - begin);
      std::iota(layers.begin(), layers.end(), begin);
      stage = layers_of(w_, layers, f.shards);
    }
    return cost_of(*stage, f, memory_);
  }

 private:
  workload const& w_;
  double memory_;
  mutable std::vector<std::optional<std::vector<placed_layer>>> known_;  // by beginning, end and shards
};

/// Returns a plan of Piper as a placement whose copies keep microbatches by a rule.
cleave::replicated_placement placement_of(json const& plan, workload const& w, double memory,
                                          cleave::kept_microbatches rule) {
  cleave::replicated_placement p{.microbatches = w.microbatches};
  for (auto const& s : plan["stages"]) {
    cleave::replicated_stage stage{.width = s["width"], .shards = s["shards"]};
    stage.time = {1, 1, 0, 0, 0};
    p.stages.push_back(stage);
  }
  auto const kept = cleave::detail::kept_by(rule, p.stages, p.microbatches);
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    std::vector<std::uint32_t> layers;
    for (int const id : plan["stages"][s]["nodes"]) layers.push_back(w.position.at(id));
    auto& stage = p.stages[s];
    stage.kept = kept[s];
    auto const c = cost_of(layers_of(w, layers, stage.shards), {stage.width, stage.shards, kept[s]}, memory);
    stage.time = c.time;
    stage.sum_time = c.sum_time;
    stage.memory = c.memory;
    p.period =
        std::max(p.period, (c.time.forward + c.time.backward) / stage.width + c.sum_time / p.microbatches);
  }
  return p;
}

double step_of(cleave::replicated_placement const& p) {
  return cleave::detail::step_of(p, simulate_options_of(p, cleave::rank_link{}));
}

bool fits(cleave::replicated_placement const& p, double memory) {
  return std::ranges::all_of(p.stages,
                             [&](auto const& s) { return static_cast<double>(s.memory) <= memory; });
}

std::string summary(cleave::replicated_placement const& p) {
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

}  // namespace

int main(int argc, char** argv) {
  auto const root = std::string(CLEAVE_SOURCE_DIR) + "/bench/";
  std::ifstream plans(argc > 1 ? argv[1] : root + "recorded/piper.jsonl");
  if (!plans) return std::fprintf(stderr, "cannot read %s\n", argv[1]), 1;
  std::puts(
      "| workload | GiB | devices | Piper: stages × copies × shards | here, Piper's memory | period / "
      "Piper's | step / "
      "Piper's | here, whole rounds | step / Piper's | CPU s (Piper's) "
      "|\n|---|---|---|---|---|---|---|---|---|---|");
  std::map<std::string, workload> known;
  for (std::string line; std::getline(plans, line);) {
    auto const plan = json::parse(line);
    std::string const name = plan["workload"];
    auto const& w = known.try_emplace(name, root + "data/piper/" + name + ".json").first->second;
    double const memory = plan["memory_gib"].get<double>() * (1 << 30);
    auto const rule = cleave::kept_microbatches::fewest;
    bool const has_plan = plan.contains("period");
    auto const piper = placement_of(plan, w, memory, rule);
    cleave::placement_row row;
    row.units.cost.assign(w.layers.size() + 1, {0, 0, 0, 0, 0});
    cleave::replication_options o{
        .devices = plan["devices"], .microbatches = w.microbatches, .shards = w.shards};
    o.device.memory = static_cast<std::uint64_t>(memory);
    std::printf("| %s | %g | %u | %s |", name.c_str(), plan["memory_gib"].get<double>(), o.devices,
                has_plan ? summary(piper).c_str() : "none fits");
    if (has_plan &&
        (std::abs(piper.period / plan["period"].get<double>() - 1) > 1e-6 || !fits(piper, memory)))
      return std::fprintf(stderr, "the cost model differs from Piper's on %s: %g\n", line.c_str(),
                          piper.period),
             1;
    // Where memory allows, Piper's plan may also keep whole rounds, if that makes its step shorter.
    double peer = has_plan ? step_of(piper) : 0;
    if (auto const more = placement_of(plan, w, memory, cleave::kept_microbatches::whole_rounds);
        has_plan && fits(more, memory))
      peer = std::min(peer, step_of(more));
    double seconds = 0;
    for (auto const kept : {rule, cleave::kept_microbatches::whole_rounds}) {
      o.kept = kept;
      slices const cost(w, memory);
      try {
        cleave::replicated_placement p;
        auto const s = bench::seconds([&] { p = place_replicated(row, o, cost); });
        std::printf(" %s |", summary(p).c_str());
        if (kept == rule) {
          seconds = s;
          std::printf(" %.3f |", has_plan ? p.period / piper.period : 0);
        }
        std::printf(" %.3f |", has_plan ? step_of(p) / peer : 0);
      } catch (cleave::infeasible_error const&) {
        std::printf(kept == rule ? " none fits | – | – |" : " none fits | – |");
      }
    }
    std::printf(" %.1f (%.1f) |\n", seconds, plan["seconds"].get<double>());
    std::fflush(stdout);
  }
}
