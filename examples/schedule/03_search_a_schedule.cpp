// SPDX-License-Identifier: MIT
// Searches a schedule for unequal stages on ranks with little memory, with a lower bound. Then it replans
// with measured costs, and chooses the cut into stages together with the schedule.
#include <cleave/schedule_search.hpp>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

/// A model: embedding, blocks, and a head that takes as long as three blocks.
cleave::unit_row make_row(int blocks) {
  cleave::unit_row row{.cost = {{0, 0, 0, 0}}, .bytes = {{0, 0, 0}}, .resident = {0}};
  auto const add = [&](double time, std::uint64_t kept, std::uint64_t weights) {
    auto const c = row.cost.back();
    auto const b = row.bytes.back();
    row.cost.push_back(
        {c.forward + time, c.backward + 2 * time, c.input_gradient + time, c.weight_gradient + time});
    row.bytes.push_back({b.saved + kept, b.saved_for_weights + kept / 2, 0});
    row.resident.push_back(row.resident.back() + weights);
  };
  add(0.5, 1, 12);
  for (int i = 0; i < blocks; ++i) add(1, 4, 3);
  add(3, 6, 12);
  return row;
}

void print(char const* what, cleave::schedule_certificate const& c) {
  std::printf("%s: %.1f, and none below %.1f (%s)\n", what, c.makespan, c.bound, c.reason.c_str());
}

}  // namespace

int main() {
  // [search]
  cleave::search_problem step{.ranks = 4, .microbatches = 8};
  for (double const f : {1.5, 1.0, 1.25, 1.0, 1.0, 1.25, 1.0, 2.0})  // of each of two stages a rank
    step.costs.push_back({.forward = f, .backward = 2 * f, .input_gradient = f, .weight_gradient = f});
  step.bytes.stages = {{.saved = 4, .saved_for_weights = 2}};
  step.memory_limit = {24};  // of each rank
  step.links = {{.latency = 0.1, .bandwidth = 10}};
  step.bytes.edges = {{.activation = 1, .gradient = 1}};

  auto const found = search_schedule(step, {.effort = 2'000'000});
  print("found", found.certificate);
  // [search]
  std::printf("best family: %s with %.1f; began with: %s\n", found.certificate.best_family.c_str(),
              found.certificate.best_family_makespan, found.certificate.began_with.c_str());
  std::printf("memory:");
  for (auto const bytes : found.certificate.peak_bytes) std::printf(" %d", static_cast<int>(bytes));
  std::printf("\n\n");

  step.costs[3] = {.forward = 1.5, .backward = 3, .input_gradient = 1.5, .weight_gradient = 1.5};  // measured
  auto const next = reschedule(found.order, step, {.effort = 2'000'000});
  std::printf("with what was measured %.1f, planned again %.1f: %s\n", *next.before,
              next.found.certificate.makespan, next.is_new ? "new" : "kept");

  step.memory_limit = {7};
  try {
    search_schedule(step);
  } catch (cleave::byte_cap_error const& e) {
    std::printf("%s\n\n", e.what());
  }

  // [cut]
  auto const row = make_row(14);
  cleave::cut_step const slices{.ranks = 4, .microbatches = 6, .memory_limit = {90}};
  auto const plan = cut_for_schedule(row, slices, {.search = {.effort = 200'000}, .effort = 2'000'000});
  // [cut]
  auto const print_cut = [](char const* what, cleave::scheduled_cut const& c) {
    std::printf("%s at", what);
    for (auto const place : c.cut) std::printf(" %d", static_cast<int>(place));
    std::printf(": %.1f\n", c.found.certificate.makespan);
  };
  if (plan.bottleneck) print_cut("slowest stage fastest:", *plan.bottleneck);
  print_cut("step shortest:        ", plan.best);
  std::printf("%.1f %% saved\n", 100 * plan.gain());
}

// It prints:
//
//   found: 78.8, and none below 77.8 (rank)
//   best family: VHalf with 92.4; began with: list schedule, depth 4, I and W
//   memory: 24 24 24 22
//
//   with what was measured 88.7, planned again 88.3: new
//   schedule: rank 0 needs 8 bytes at least, but its limit is 7 bytes; raise the limit, give the rank fewer or smaller stages, or use smaller microbatches
//
//   slowest stage fastest: at 0 5 10 14 16: 104.5
//   step shortest:         at 0 4 9 14 16: 101.5
//   2.9 % saved
