// SPDX-License-Identifier: MIT
// Compares place_replicated with Alpa's dynamic program, which gives each stage a submesh (Zheng et al., OSDI
// 2022), on the workloads of Piper. The devices of a submesh split each microbatch into shares, and the
// layers of each share into shards.
//   bench_alpa [FILE]     Alpa's plans, as bench/peers/alpa.py records them; without one, those of the project
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/place/place_replicated.hpp"
#include "measure.hpp"
#include "piper_workload.hpp"

namespace {

using namespace bench::piper;

/// Which layers of a stage may run again in the backward pass: all or none, as in Alpa, or each by itself.
enum class recomputed { all_or_none, any };

/// Returns the layers of a stage that all run again.
std::vector<placed_layer> all_again(std::vector<placed_layer> layers) {
  for (auto& l : layers) l.ways = {l.ways.back()}, l.fast = 0;
  return layers;
}

/// The costs of slices on submeshes: of all ways to divide a submesh into shares and shards, the quickest
/// that fits.
class slice_costs {
 public:
  slice_costs(workload const& w, double memory, recomputed which)
      : w_(w), memory_(memory), which_(which), layers_(w) {}

  cleave::slice_cost operator()(std::uint32_t begin, std::uint32_t end, cleave::stage_form const& f) const {
    auto least = cost_of({}, f, memory_);
    auto const try_layers = [&](std::vector<placed_layer> const& layers, double shares) {
      auto const c = cost_of(layers, f, which_ == recomputed::any ? memory_ : never, shares);
      if (rank(c, f) < rank(least, f)) least = c;
    };
    for (auto const t : w_.shards) {
      if (f.shards % t != 0) continue;
      auto const& layers = layers_(begin, end, t);
      try_layers(layers, f.shards / t);
      if (which_ == recomputed::all_or_none) try_layers(all_again(layers), f.shards / t);
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
  recomputed which_;
  slice_layers layers_;
};

/// Returns a plan of Alpa as a placement: each stage is one copy, which keeps a microbatch for itself and for
/// each stage after it.
cleave::replicated_placement placement_of(json const& plan, workload const& w) {
  cleave::replicated_placement p{.microbatches = w.microbatches};
  auto const& stages = plan["stages"];
  for (std::size_t i = 0; i < stages.size(); ++i) {
    auto const& s = stages[i];
    std::uint32_t const shares = s["width"], shards = s["shards"];
    std::vector<std::uint32_t> positions;
    for (int const id : s["nodes"]) positions.push_back(w.position.at(id));
    auto layers = layers_of(w, positions, shards);
    if (s["again"]) layers = all_again(std::move(layers));
    auto const kept = std::min<std::size_t>(stages.size() - i, w.microbatches);
    cleave::stage_form const form{1, shares * shards, static_cast<std::uint32_t>(kept)};
    auto const c = cost_of(layers, form, never, shares);
    cleave::replicated_stage made{.shards = form.shards, .time = c.time, .sum_time = c.sum_time};
    made.memory = c.memory;
    made.kept = form.kept;
    p.stages.push_back(made);
    p.period = std::max(p.period, c.time.forward + c.time.backward + c.sum_time / p.microbatches);
  }
  return p;
}

/// Returns what Alpa minimises: the time of one microbatch through all stages, and of the others through the
/// slowest.
double alpa_cost(cleave::replicated_placement const& p) {
  double sum = 0;
  for (auto const& s : p.stages) sum += s.time.forward + s.time.backward + s.sum_time / p.microbatches;
  return sum + (p.microbatches - 1) * p.period;
}

}  // namespace

int main(int argc, char** argv) {
  std::puts(
      "| workload | GiB | devices | Alpa: stages × copies × devices of a copy | all layers again or none: "
      "period / "
      "Alpa's | any layers again | period / Alpa's | step / Alpa's | CPU s (Alpa's) |\n"
      "|---|---|---|---|---|---|---|---|---|");
  auto const compare = [](json const& plan, workload const& w, double memory, cleave::replication_options o) {
    bool const has_plan = plan.contains("cost");
    auto const alpa = placement_of(plan, w);
    if (has_plan &&
        (std::abs(alpa_cost(alpa) / plan["cost"].get<double>() - 1) > 1e-5 || !fits(alpa, memory)))
      throw std::runtime_error("here, the plan has the cost " + std::to_string(alpa_cost(alpa)));
    std::printf(" %s |", has_plan ? summary(alpa).c_str() : "none fits");
    for (std::uint32_t n = 2; n <= o.devices; n *= 2) o.shards.push_back(n);
    double seconds = 0;
    for (auto const which : {recomputed::all_or_none, recomputed::any}) {
      slice_costs const cost(w, memory, which);
      try {
        cleave::replicated_placement p;
        seconds = bench::seconds([&] { p = place_replicated(row_of(w), o, cost); });
        if (which == recomputed::any) std::printf(" %s |", summary(p).c_str());
        std::printf(has_plan ? " %.3f |" : " – |", p.period / alpa.period);
        if (which == recomputed::any) std::printf(has_plan ? " %.3f |" : " – |", step_of(p) / step_of(alpa));
      } catch (cleave::infeasible_error const&) {
        std::printf(which == recomputed::any ? " none fits | – | – |" : " none fits |");
      }
    }
    std::printf(" %.1f (%.1f) |\n", seconds, plan["seconds"].get<double>());
  };
  return each_plan(argc > 1 ? argv[1] : nullptr, "alpa.jsonl", compare);
}
