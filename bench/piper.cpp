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
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <unordered_map>
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

/// What a stage of some layers takes on a number of shards and copies, keeping a number of microbatches. It
/// chooses the layers that run again as Piper does: while memory is short, those that cost the least for each
/// byte.
cleave::slice_cost cost_of(workload const& w, std::vector<std::uint32_t> const& stage,
                           cleave::stage_form const& f, double memory) {
  std::vector<char> is_inside(w.layers.size());
  for (auto const i : stage) is_inside[i] = 1;
  struct change {
    double price, time, bytes;
  };
  std::vector<change> changes;
  double time = 0, bytes = 0, sums = 0;
  for (auto const i : stage) {
    auto const& l = w.layers[i];
    auto const found = l.ways.find(f.shards);
    if (found == l.ways.end()) return {.time = {never, 0, 0, 0, 0}, .memory = ~std::uint64_t{0}};
    std::vector<std::array<double, 2>> all;  // of each way: its time and bytes
    for (std::size_t v = 0; v < found->second.size(); ++v) {
      auto const& way = found->second[v];
      double sent = 0;
      for (auto const& [other, b] : l.far.at(f.shards)[v])
        if (!is_inside[w.position.at(other)]) sent += b;
      all.push_back({way.time + sent / bandwidth, way.saved * f.kept + way.held});
    }
    auto const fast = std::ranges::min_element(all);
    time += (*fast)[0];
    bytes += (*fast)[1];
    sums += 4 * (f.width - 1.0) * found->second[static_cast<std::size_t>(fast - all.begin())].weights /
            f.width / bandwidth;
    for (auto const& other : all)
      if (other[1] < (*fast)[1] - 1e-9)
        changes.push_back({(other[0] - (*fast)[0]) / ((*fast)[1] - other[1]), other[0] - (*fast)[0],
                           (*fast)[1] - other[1]});
  }
  std::ranges::sort(changes, {}, &change::price);
  for (auto const& c : changes) {
    if (bytes <= memory) break;
    time += c.time;
    bytes -= c.bytes;
  }
  cleave::slice_cost made{.sum_time = sums};
  made.time = {time / 3, 2 * time / 3, 0, 0, 0};
  made.memory = static_cast<std::uint64_t>(bytes);
  return made;
}

/// The costs of all slices, each computed once.
class slices {
 public:
  slices(workload const& w, double memory) : w_(w), memory_(memory) {}

  cleave::slice_cost operator()(std::uint32_t begin, std::uint32_t end, cleave::stage_form const& f) const {
    auto const key = ((std::uint64_t{begin} * 256 + end) * 16 + f.shards) * 2048 + f.width;
    auto& kept = (*known_)[key];
    if (kept.size() <= f.kept) kept.resize(f.kept + 1, {.time = {}, .sum_time = -1});
    auto& c = kept[f.kept];
    if (c.sum_time < 0) {
      std::vector<std::uint32_t> stage(end - begin);
      std::iota(stage.begin(), stage.end(), begin);
      c = cost_of(w_, stage, f, memory_);
    }
    return c;
  }

 private:
  workload const& w_;
  double memory_;
  std::shared_ptr<std::unordered_map<std::uint64_t, std::vector<cleave::slice_cost>>> known_ =
      std::make_shared<std::unordered_map<std::uint64_t, std::vector<cleave::slice_cost>>>();
};

/// Returns a plan of Piper as a placement that keeps microbatches by a rule. Its memory is 0 if it does not
/// fit.
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
    auto const c = cost_of(w, layers, {stage.width, stage.shards, kept[s]}, memory);
    stage.time = c.time;
    stage.sum_time = c.sum_time;
    stage.memory = c.memory;
    p.period =
        std::max(p.period, (c.time.forward + c.time.backward) / stage.width + c.sum_time / p.microbatches);
    p.bound = std::max(p.bound, static_cast<double>(c.memory));
  }
  return p;
}

double step_of(cleave::replicated_placement const& p) {
  auto const times = simulate(schedule_of(p), simulate_options_of(p, cleave::rank_link{}));
  double step = 0;
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    for (std::uint32_t r = 0; r < p.stages[s].width; ++r)
      step = std::max(step, times.last[p.first_rank(s) + r] + p.stages[s].sum_time);
  return step;
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
    double const peer = has_plan ? step_of(piper) : 0;
    if (has_plan &&
        (std::abs(piper.period / plan["period"].get<double>() - 1) > 1e-6 || piper.bound > memory))
      return std::fprintf(stderr, "the cost model differs from Piper's on %s: %g\n", line.c_str(),
                          piper.period),
             1;
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
