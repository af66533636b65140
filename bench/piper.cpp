// SPDX-License-Identifier: MIT
// Compares place_replicated with Piper (Tarnawski et al., NeurIPS 2021) on Piper's workloads and cost model:
// layers with several degrees of tensor parallelism, copies of stages, and layers that run again.
//   bench_piper [FILE]     Piper's plans, as bench/peers/piper.py records them; without one, those of the project
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/place/place_replicated.hpp"
#include "measure.hpp"
#include "piper_workload.hpp"

namespace {

using namespace bench::piper;

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

}  // namespace

int main(int argc, char** argv) {
  std::puts(
      "| workload | GiB | devices | Piper: stages × copies × shards | here, Piper's memory | period / "
      "Piper's | step / Piper's | here, whole rounds | step / Piper's | CPU s (Piper's) "
      "|\n|---|---|---|---|---|---|---|---|---|---|");
  auto const compare = [](json const& plan, workload const& w, double memory, cleave::replication_options o) {
    auto const rule = cleave::kept_microbatches::fewest;
    bool const has_plan = plan.contains("period");
    auto const piper = placement_of(plan, w, memory, rule);
    if (has_plan &&
        (std::abs(piper.period / plan["period"].get<double>() - 1) > 1e-6 || !fits(piper, memory)))
      throw std::runtime_error("here, the plan has the period " + std::to_string(piper.period));
    std::printf(" %s |", has_plan ? summary(piper).c_str() : "none fits");
    // Where memory allows, Piper's plan may also keep whole rounds, if that makes its step shorter.
    double peer = has_plan ? step_of(piper) : 0;
    if (auto const more = placement_of(plan, w, memory, cleave::kept_microbatches::whole_rounds);
        has_plan && fits(more, memory))
      peer = std::min(peer, step_of(more));
    o.shards = w.shards;
    double seconds = 0;
    for (auto const kept : {rule, cleave::kept_microbatches::whole_rounds}) {
      o.kept = kept;
      slice_layers const layers(w);
      auto const cost = [&](std::uint32_t begin, std::uint32_t end, cleave::stage_form const& f) {
        return cost_of(layers(begin, end, f.shards), f, memory);
      };
      try {
        cleave::replicated_placement p;
        auto const s = bench::seconds([&] { p = place_replicated(row_of(w), o, cost); });
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
  };
  return each_plan(argc > 1 ? argv[1] : nullptr, "piper.jsonl", compare);
}
