// SPDX-License-Identifier: MIT
// Compares place_replicated with Alpa's cut into stages on submeshes (Zheng et al., OSDI 2022), on the
// workloads of Piper. A submesh splits each microbatch into shares, and the layers of each share among
// shards.
//   bench_alpa [FILE]     Alpa's plans, as bench/peers/alpa.py records them; without one, those of the project
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cleave/place/place_replicated.hpp"
#include "measure.hpp"
#include "piper_workload.hpp"

namespace {

using namespace bench::piper;

/// The costs of slices on submeshes: of all ways to divide a submesh into shares and shards, the quickest
/// that fits.
class slices {
 public:
  slices(workload const& w, double memory) : w_(w), memory_(memory) {
    for (std::uint32_t begin = 0; begin < w.layers.size(); ++begin)
      for (auto end = begin + 1; end <= w.layers.size(); ++end) {
        std::vector<std::uint32_t> layers(end - begin);
        std::iota(layers.begin(), layers.end(), begin);
        for (auto const t : w.shards) known_[{begin, end, t}] = layers_of(w, layers, t);
      }
  }

  cleave::slice_cost operator()(std::uint32_t begin, std::uint32_t end, cleave::stage_form const& f) const {
    auto least = cost_of({}, f, memory_);
    for (auto const t : w_.shards) {
      if (f.shards % t != 0) continue;
      auto const c = cost_of(known_.at({begin, end, t}), f, memory_, f.shards / t);
      if (rank(c, f) < rank(least, f)) least = c;
    }
    return least;
  }

 private:
  std::pair<bool, double> rank(cleave::slice_cost const& c, cleave::stage_form const& f) const {
    return {static_cast<double>(c.memory) > memory_,
            (c.time.forward + c.time.backward) / f.width + c.sum_time / w_.microbatches};
  }

  workload const& w_;
  double memory_;
  std::map<std::array<std::uint32_t, 3>, std::vector<placed_layer>> known_;  // by beginning, end and shards
};

/// Returns a plan of Alpa as a placement: each stage is one copy, which keeps a microbatch for itself and for
/// each stage after it.
cleave::replicated_placement placement_of(json const& plan, workload const& w) {
  cleave::replicated_placement p{.microbatches = w.microbatches};
  auto const& stages = plan["stages"];
  for (std::size_t i = 0; i < stages.size(); ++i) {
    auto const& s = stages[i];
    std::uint32_t const shares = s["width"], shards = s["shards"];
    std::vector<std::uint32_t> layers;
    for (int const id : s["nodes"]) layers.push_back(w.position.at(id));
    auto on_shards = layers_of(w, layers, shards);
    if (s["again"])
      for (auto& l : on_shards) l.ways = {l.ways.back()}, l.fast = 0;
    auto const kept = std::min<std::size_t>(stages.size() - i, w.microbatches);
    cleave::stage_form const form{1, shares * shards, static_cast<std::uint32_t>(kept)};
    auto const c = cost_of(on_shards, form, never, shares);
    cleave::replicated_stage made{.shards = form.shards, .time = c.time, .sum_time = c.sum_time};
    made.memory = c.memory;
    made.kept = form.kept;
    p.stages.push_back(made);
    p.period = std::max(p.period, c.time.forward + c.time.backward + c.sum_time / p.microbatches);
  }
  return p;
}

/// Returns the sum that Alpa makes least: a microbatch through all stages, and the others through the
/// slowest.
double alpa_cost(cleave::replicated_placement const& p) {
  double sum = 0;
  for (auto const& s : p.stages) sum += s.time.forward + s.time.backward + s.sum_time / p.microbatches;
  return sum + (p.microbatches - 1) * p.period;
}

}  // namespace

int main(int argc, char** argv) {
  auto const root = std::string(CLEAVE_SOURCE_DIR) + "/bench/";
  std::ifstream plans(argc > 1 ? argv[1] : root + "recorded/alpa.jsonl");
  if (!plans) return std::fprintf(stderr, "cannot read %s\n", argv[1]), 1;
  std::puts(
      "| workload | GiB | devices | Alpa: stages × copies × devices of a copy | here | period / Alpa's "
      "| step / Alpa's | CPU s (Alpa's) |\n|---|---|---|---|---|---|---|---|");
  std::map<std::string, workload> known;
  for (std::string line; std::getline(plans, line);) {
    auto const plan = json::parse(line);
    std::string const name = plan["workload"];
    auto const& w = known.try_emplace(name, root + "data/piper/" + name + ".json").first->second;
    double const memory = plan["memory_gib"].get<double>() * (1 << 30);
    bool const has_plan = plan.contains("cost");
    auto const alpa = placement_of(plan, w);
    if (has_plan &&
        (std::abs(alpa_cost(alpa) / plan["cost"].get<double>() - 1) > 1e-5 || !fits(alpa, memory)))
      return std::fprintf(stderr, "the cost model differs from Alpa's on %s: %g\n", line.c_str(),
                          alpa_cost(alpa)),
             1;
    cleave::placement_row row;
    row.units.cost.assign(w.layers.size() + 1, {0, 0, 0, 0, 0});
    cleave::replication_options o{.devices = plan["devices"], .microbatches = w.microbatches};
    for (std::uint32_t n = 2; n <= o.devices; n *= 2) o.shards.push_back(n);
    o.device.memory = static_cast<std::uint64_t>(memory);
    std::printf("| %s | %g | %u | %s |", name.c_str(), plan["memory_gib"].get<double>(), o.devices,
                has_plan ? summary(alpa).c_str() : "none fits");
    slices const cost(w, memory);
    try {
      cleave::replicated_placement p;
      auto const s = bench::seconds([&] { p = place_replicated(row, o, cost); });
      std::printf(" %s |", summary(p).c_str());
      if (has_plan) {
        std::printf(" %.3f | %.3f |", p.period / alpa.period, step_of(p) / step_of(alpa));
      } else {
        std::printf(" – | – |");
      }
      std::printf(" %.1f (%.1f) |\n", s, plan["seconds"].get<double>());
    } catch (cleave::infeasible_error const&) {
      std::printf(" none fits | – | – | – (%.1f) |\n", plan["seconds"].get<double>());
    }
    std::fflush(stdout);
  }
}
