// SPDX-License-Identifier: MIT
// Compares rules of frameworks for chains of layers with `balance` and `slice_weights`, which are exact:
// their time, and the weight of their heaviest part relative to the optimum. The frameworks' own Python
// functions are measured too, if `python3` (or the program in CLEAVE_PYTHON) has their packages.
//   bench_chain_rules [--limit SECONDS]     CPU time of a Python function, default 60
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/classic/chain_rules.hpp"
#include "cleave/partition/exact/slice_weights.hpp"
#include "cleave/partition/model/chain_bounds.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "measure.hpp"

namespace {

/// Log-normal weights: most layers are light, some are ten times as heavy.
std::vector<double> layers(std::size_t count) {
  cleave::splitmix dice(count);
  auto const unit = [&] { return (static_cast<double>(dice.next() >> 11) + 0.5) * 0x1p-53; };
  std::vector<double> weights;
  while (weights.size() < count)
    weights.push_back(std::exp(std::sqrt(-2 * std::log(unit())) * std::cos(6.283185307179586 * unit())));
  return weights;
}

cleave::snapshot_arrays chain_of(std::vector<double> const& weights) {
  cleave::cost_dag d;
  d.work = weights;
  for (std::uint32_t n = 1; n < weights.size(); ++n) d.arcs.push_back({n - 1, n, 1});
  return cleave::snapshot_of_dag(d).graph;
}

struct measurement {
  double seconds, largest;
};

/// CPU seconds of one call: the best of three series of 0.05 s.
template <class F>
double seconds_of_one(F f) {
  auto const seconds_of = [&](std::size_t calls) {
    return bench::seconds([&] {
      for (std::size_t i = 0; i < calls; ++i) f();
    });
  };
  std::size_t calls = 1;
  auto least = seconds_of(calls);
  while (least < 0.05) least = seconds_of(calls *= 2);
  for (int again = 0; again < 2 && least < 1; ++again) least = std::min(least, seconds_of(calls));
  return least / static_cast<double>(calls);
}

measurement rule(std::vector<double> const& weights,
                 std::function<cleave::detail::chain_bounds()> const& call) {
  cleave::detail::chain_bounds bounds;
  auto const seconds = seconds_of_one([&] { bounds = call(); });
  return {seconds, cleave::detail::largest_sum(weights, bounds)};
}

/// The same chain as a graph, the general input of `balance`.
measurement by_balance(std::vector<double> const& weights, std::uint32_t k) {
  auto const chain = chain_of(weights);
  cleave::balanced_partition p;
  auto const seconds = seconds_of_one(
      [&] { p = cleave::balance(chain, k, {.cost_per_byte = 0, .empty = cleave::empty_parts::allowed}); });
  return {seconds, p.bottleneck};
}

/// Result and time of the framework's own function: nothing if it is not installed, no largest sum if it
/// timed out.
std::optional<measurement> in_python(std::string const& name, std::vector<double> const& weights,
                                     std::uint32_t k, double limit) {
  namespace fs = std::filesystem;
  auto const file = fs::temp_directory_path() / ("cleave_chain_" + std::to_string(getpid()));
  std::ofstream out(file);
  out.precision(17);
  for (double const w : weights) out << w << '\n';
  out.close();
  char const* const python = std::getenv("CLEAVE_PYTHON");
  auto const command = std::string(python ? python : "python3") +
                       " " CLEAVE_SOURCE_DIR "/bench/chain_rules.py " + name + " " + std::to_string(k) + " " +
                       std::to_string(limit) + " < " + file.string();
  std::string text;
  if (auto* const pipe = popen(command.c_str(), "r")) {
    char part[4096];
    while (auto const got = std::fread(part, 1, sizeof part, pipe)) text.append(part, got);
    pclose(pipe);
  }
  fs::remove(file);
  if (text.starts_with("late")) return measurement{limit, 0};
  std::istringstream words(text);
  measurement m{};
  cleave::detail::chain_bounds bounds;
  if (!(words >> m.seconds)) return std::nullopt;
  for (std::size_t b; words >> b;) bounds.push_back(b);
  m.largest = cleave::detail::largest_sum(weights, bounds);
  return m;
}

void print(std::string const& what, std::size_t n, std::uint32_t k, measurement m, measurement slices,
           measurement balanced) {
  bool const late = m.largest == 0;
  auto const above = late ? std::string("–") : std::to_string(m.largest / slices.largest).substr(0, 6);
  std::printf("| %s | %zu | %u | %s%.2g | %s | %s%.3g | %s%.3g |\n", what.c_str(), n, k, late ? "> " : "",
              m.seconds, above.c_str(), late ? "> " : "", m.seconds / slices.seconds, late ? "> " : "",
              m.seconds / balanced.seconds);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  double limit = 60;
  for (int i = 1; i < count; ++i) {
    if (std::string_view(arguments[i]) != "--limit" || i + 1 == count)
      return std::fprintf(stderr, "usage: bench_chain_rules [--limit SECONDS]\n"), 2;
    limit = std::strtod(arguments[++i], nullptr);
  }
  std::printf(
      "| rule | layers | parts | CPU s | largest sum ÷ optimum | time ÷ `slice_weights` | time ÷ `balance` "
      "|\n"
      "|---|---|---|---|---|---|---|\n");
  std::string left_out;
  for (std::size_t const n : {100u, 1000u, 10'000u})
    for (std::uint32_t const k : {8u, 64u}) {
      auto const weights = layers(n);
      auto const slices = rule(weights, [&] { return cleave::slice_weights<double>(weights, k).at; });
      auto const balanced = by_balance(weights, k);
      auto const row = [&](std::string const& what, measurement m) {
        print(what, n, k, m, slices, balanced);
      };
      row("`slice_weights`", slices);
      row("`balance`", balanced);
      row("`deepspeed_balanced`", rule(weights, [&] { return cleave::deepspeed_balanced(weights, k); }));
      row("`torchgpipe_blocks`", rule(weights, [&] { return cleave::torchgpipe_blocks(weights, k); }));
      for (std::string const name : {"deepspeed", "torchgpipe"}) {
        if (auto const found = in_python(name, weights, k, limit))
          row((name == "deepspeed" ? "DeepSpeed" : "torchgpipe") + std::string(" itself"), *found);
        else if (left_out.find(name) == left_out.npos)
          left_out += (left_out.empty() ? "" : ", ") + name;
      }
    }
  if (!left_out.empty())
    std::printf("\nLeft out, since python3 does not find them or numpy:  %s.\n", left_out.c_str());
}
