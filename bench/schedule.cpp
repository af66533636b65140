// SPDX-License-Identifier: MIT
// Measures the time to make, lower, verify and simulate schedules, against recorded times of PyTorch 2.15;
// the growth of these times, and the largest schedule. Then compares the bubble of each schedule with the
// published one.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "measure.hpp"

namespace {

using cleave::schedule_family, cleave::schedule_shape;

/// Seconds of each phase, the best of a few runs, and of all phases together.
struct timings {
  double generate, lower, verify, simulate;
  bench::spread all;
  std::uint64_t computed, lowered;
};

/// A result that the optimiser cannot remove.
double volatile kept = 0;

timings measure(schedule_family family, schedule_shape const& shape, std::size_t runs) {
  timings best{1e9, 1e9, 1e9, 1e9, {}, 0, 0};
  best.all = bench::repeat(runs, [&] {
    cleave::schedule s, lowered;
    double const generate = bench::seconds([&] { s = cleave::make_schedule(family, shape); });
    double const lower = bench::seconds([&] { lowered = cleave::lower(s); });
    double const verify = bench::seconds([&] {
      if (cleave::find_schedule_fault(lowered)) std::printf("not a sound schedule\n");
    });
    double const simulate = bench::seconds([&] { kept = cleave::simulate(lowered).makespan; });
    best.generate = std::min(best.generate, generate);
    best.lower = std::min(best.lower, lower);
    best.verify = std::min(best.verify, verify);
    best.simulate = std::min(best.simulate, simulate);
    best.computed = cleave::count_actions(s);
    best.lowered = cleave::count_actions(lowered);
    return generate + lower + verify + simulate;
  });
  return best;
}

/// Recorded seconds: making and lowering a schedule, and simulating it, in Python.
struct recorded_row {
  schedule_family family;
  schedule_shape shape;
  double generate, lower, simulate;
  double goal;  ///< how many times faster
};

constexpr recorded_row recorded[] = {
    {schedule_family::interleaved_1f1b, {8, 4, 64}, 0.003, 0.19, 0.08, 100},
    {schedule_family::interleaved_1f1b, {16, 4, 256}, 0.17, 0.93, 1.16, 100},
    {schedule_family::zbv, {16, 2, 256}, 0.17, 9.8, 0.65, 1000},
    {schedule_family::one_f_one_b, {64, 1, 512}, 0.62, 40.7, 3.30, 1000},
};

std::string shape_text(schedule_shape const& s) {
  return std::to_string(s.ranks) + " | " + std::to_string(s.stages_per_rank) + " | " +
         std::to_string(s.microbatches);
}

void print_recorded() {
  std::printf(
      "| schedule | ranks | stages a rank | microbatches | actions, lowered | generate, ms | lower | verify "
      "| "
      "simulate | all, ms: median (least to most) | ns an action | recorded: generate + lower, s | times "
      "faster | with simulate, s | times faster, all | goal |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (auto const& row : recorded) {
    auto const t = measure(row.family, row.shape, 9);
    double const made = row.generate + row.lower, all = made + row.simulate;
    std::printf(
        "| %s | %s | %llu, %llu | %.2f | %.2f | %.2f | %.2f | %.2f (%.2f to %.2f) | %.0f | %.3f | %.0f | "
        "%.3f | "
        "%.0f | %.0f |\n",
        std::string(name_of(row.family)).c_str(), shape_text(row.shape).c_str(),
        static_cast<unsigned long long>(t.computed), static_cast<unsigned long long>(t.lowered),
        1e3 * t.generate, 1e3 * t.lower, 1e3 * t.verify, 1e3 * t.simulate, 1e3 * t.all.median,
        1e3 * t.all.least, 1e3 * t.all.most, 1e9 * t.all.median / static_cast<double>(t.lowered), made,
        made / (t.generate + t.lower), all, all / t.all.median, row.goal);
  }
}

void print_growth() {
  std::printf(
      "\n| schedule | ranks | stages a rank | microbatches | actions, lowered | generate, s | lower | verify "
      "| "
      "simulate | all, s: median (least to most) | ns an action | peak memory of the process, MB |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (auto const family : {schedule_family::interleaved_1f1b, schedule_family::interleaved_zero_bubble})
    for (std::uint32_t const m : {64u, 128u, 256u, 512u, 1024u}) {
      schedule_shape const shape{64, 4, m};
      double const peak = bench::in_child([&] {
        bench::added_peak([&] { measure(family, shape, 1); });
        return static_cast<double>(bench::memory_line("VmHWM"));
      });
      auto const t = measure(family, shape, 3);
      std::printf("| %s | %s | %llu | %.3f | %.3f | %.3f | %.3f | %.3f (%.3f to %.3f) | %.0f | %.0f |\n",
                  std::string(name_of(family)).c_str(), shape_text(shape).c_str(),
                  static_cast<unsigned long long>(t.lowered), t.generate, t.lower, t.verify, t.simulate,
                  t.all.median, t.all.least, t.all.most, 1e9 * t.all.median / static_cast<double>(t.lowered),
                  peak / 1e6);
    }
}

/// The published bubble of a rank with 3 units of work per microbatch over all its stages and F = I = W; or
/// nothing if none is published.
std::optional<double> published_bubble(schedule_family family, double p, double v) {
  using enum schedule_family;
  switch (family) {
    case gpipe:
    case one_f_one_b:
    case eager_1f1b:
      return 3 * (p - 1);
    case looped_bfs:
    case depth_first:
    case interleaved_1f1b:
    case megatron_interleaved:
      return 3 * (p - 1) / v;
    case zb_h1:
      return p - 1;
    case interleaved_zero_bubble:
      return (p - 1) / v;
    case zb_h2:
    case zbv:
      return 0;
    case v_half:
      return 3 * (p - 1) / 2;
    case v_min:
      return 2 * (p - 1);
    case dual_pipe:
      return p - 2;
    case dual_pipe_v:
      return p - 1;
    default:
      return std::nullopt;
  }
}

void print_bubbles() {
  std::printf(
      "\n| schedule | ranks | stages a rank | microbatches | makespan | bubble: makespan - busy | most on a "
      "rank "
      "within its span | published | bubble rate | most kept, of 1F1B's "
      "|\n|---|---|---|---|---|---|---|---|---|---|\n");
  constexpr std::uint32_t p = 8, m = 32;
  for (std::size_t f = 0; f < cleave::schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const v =
        cleave::stages_per_rank_of(family).value_or(family == schedule_family::forward_only ? 1 : 2);
    schedule_shape const shape{p, v, m};
    // Both directions of a bidirectional schedule share the microbatches: each of a rank's two stages is a
    // whole one.
    bool const two_ways = family == schedule_family::dual_pipe || family == schedule_family::chimera;
    double const part = two_ways ? 1.0 : 1.0 / v;
    auto const t =
        cleave::simulate(cleave::make_schedule(family, shape), {.costs = {{part, 2 * part, part, part}}});
    double within = 0;
    std::uint64_t most = 0;
    for (std::size_t r = 0; r < p; ++r) {
      within = std::max(within, cleave::detail::span_bubble(t, r));
      most = std::max(most, t.most_kept[r].passes);
    }
    auto const published = published_bubble(family, p, v);
    std::printf("| %s | %s | %.4g | %.4g | %.4g | ", std::string(name_of(family)).c_str(),
                shape_text(shape).c_str(), t.makespan, t.makespan - t.busy[0], within);
    if (published)
      std::printf("%.4g", *published);
    else
      std::printf("–");
    std::printf(" | %.2f %% | %.3g |\n", 100 * bubble_rate(t), part * static_cast<double>(most) / p);
  }
}

}  // namespace

int main() {
  print_recorded();
  print_growth();
  print_bubbles();
}
