// SPDX-License-Identifier: MIT
// Compares partition_kway on nodes with several weights with METIS_PartGraphKway (`ncon`), if METIS is
// installed (Debian: libmetis-dev): cut, CPU seconds, and the largest imbalance of a weight.
// Arguments: files or instances (`grid3d_27k`, `rgg2d:100k:7`), `--weights 2,3,5`, `-k 8,64`,
// `--imbalance X`, `--kinds random,regions,phases`, `--seeds 1,2,3`.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/kway.hpp"
#include "instances/catalogue.hpp"
#include "instances/several_weights.hpp"
#include "measure.hpp"

#if __has_include(<metis.h>)
#include <metis.h>
#endif

namespace {

using bench::graph;
using weights = std::vector<std::vector<double>>;  // a list for each weight

struct asked {
  std::vector<std::string> graphs;
  std::vector<std::size_t> counts{2, 3, 5}, parts{8, 64}, seeds{1};
  std::vector<bench::weight_kind> kinds{bench::weight_kind::random, bench::weight_kind::regions,
                                        bench::weight_kind::phases};
  double imbalance = 0.05;
  std::size_t runs = 1;
};

graph graph_called(std::string const& word) {
  if (auto const made = bench::find_instance(word)) return bench::undirected_instance(*made);
  return cleave::read_graph_file<std::uint32_t>(word);
}

struct measured {
  double cut = 0, imbalance = 0, seconds = 0;
};

/// Recomputes the cut and the largest imbalance of a weight from the parts alone. Shares are rounded up.
measured judged(graph const& g, weights const& all, std::vector<std::uint32_t> const& of, std::size_t k) {
  measured m;
  for (std::size_t n = 0; n < of.size(); ++n)
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e)
      if (of[n] != of[g.targets[e]])
        m.cut += g.edge_weight.empty() ? 0.5 : 0.5 * static_cast<double>(g.edge_weight[e]);
  for (auto const& list : all) {
    std::vector<double> sum(k, 0);
    double total = 0;
    for (std::size_t n = 0; n < of.size(); ++n) sum[of[n]] += list[n], total += list[n];
    if (total > 0)
      m.imbalance = (std::max)(
          m.imbalance,
          *std::max_element(sum.begin(), sum.end()) / std::ceil(total / static_cast<double>(k)) - 1);
  }
  return m;
}

measured ours(graph const& g, weights const& all, std::size_t k, cleave::kway_preset preset, asked const& a,
              std::uint64_t seed) {
  graph own = g;
  own.node_weight.clear();
  for (auto const w : all[0]) own.node_weight.push_back(static_cast<std::int64_t>(w));
  if (own.edge_weight.empty()) own.edge_weight.assign(own.targets.size(), 1);
  cleave::kway_options o{.preset = preset, .imbalance = a.imbalance, .seed = seed};
  for (std::size_t i = 1; i < all.size(); ++i) o.further_weights.push_back({all[i], a.imbalance});
  std::vector<std::uint32_t> of(g.view().nodes());
  auto const spent = bench::repeat(a.runs, [&] {
    cleave::kway_partition<std::int64_t, std::int64_t> p;
    auto const s =
        bench::seconds([&] { p = cleave::partition_kway(own.view(), static_cast<std::uint32_t>(k), o); });
    for (std::size_t n = 0; n < of.size(); ++n) of[n] = cleave::index(p.of[n]);
    return s;
  });
  auto m = judged(g, all, of, k);
  m.seconds = spent.least;
  return m;
}

#if __has_include(<metis.h>)
measured of_metis(graph const& g, weights const& all, std::size_t k, asked const& a, std::uint64_t seed) {
  std::vector<idx_t> part(g.view().nodes());
  auto const spent = bench::repeat(a.runs, [&] {
    std::vector<idx_t> first(g.offsets.begin(), g.offsets.end()), head(g.targets.begin(), g.targets.end());
    std::vector<idx_t> edge(g.edge_weight.begin(), g.edge_weight.end()), node;
    for (std::size_t n = 0; n < part.size(); ++n)
      for (auto const& list : all) node.push_back(static_cast<idx_t>(list[n]));
    idx_t nodes = static_cast<idx_t>(part.size()), count = static_cast<idx_t>(all.size()),
          parts = static_cast<idx_t>(k), cut = 0, options[METIS_NOPTIONS];
    std::vector<real_t> most(all.size(), static_cast<real_t>(1 + a.imbalance));
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = static_cast<idx_t>(seed);
    return bench::seconds([&] {
      METIS_PartGraphKway(&nodes, &count, first.data(), head.data(), node.data(), nullptr,
                          edge.empty() ? nullptr : edge.data(), &parts, nullptr, most.data(), options, &cut,
                          part.data());
    });
  });
  auto m = judged(g, all, {part.begin(), part.end()}, k);
  m.seconds = spent.least;
  return m;
}
#endif

std::vector<std::string> split(std::string const& list) {
  std::vector<std::string> words;
  std::istringstream in(list);
  for (std::string word; std::getline(in, word, ',');) words.push_back(word);
  return words;
}
std::vector<std::size_t> numbers(std::string const& list) {
  std::vector<std::size_t> all;
  for (auto const& word : split(list)) all.push_back(std::stoul(word));
  return all;
}

std::vector<bench::weight_kind> kinds(std::string const& list) {
  std::vector<bench::weight_kind> all;
  for (auto const& word : split(list)) {
    auto const found = std::ranges::find(bench::weight_kind_names, word);
    if (found == bench::weight_kind_names.end()) throw cleave::error("--kinds: random, regions or phases");
    all.push_back(static_cast<bench::weight_kind>(found - bench::weight_kind_names.begin()));
  }
  return all;
}

asked read_arguments(int count, char** words) {
  asked a;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word.starts_with("-") && i + 1 < count) {
      std::string const value = words[++i];
      if (word == "--weights") a.counts = numbers(value);
      if (word == "-k") a.parts = numbers(value);
      if (word == "--seeds") a.seeds = numbers(value);
      if (word == "--kinds") a.kinds = kinds(value);
      if (word == "--imbalance") a.imbalance = std::stod(value);
      if (word == "--runs") a.runs = std::stoul(value);
    } else {
      a.graphs.push_back(word);
    }
  }
  if (a.graphs.empty())
    a.graphs = {"fem3d:40k:3", "grid2d:60k", "del2d:90k:7", "rgg3d:30k:5",
                "sbm:20k:2",   "rhyp:50k:5", "road:60k:4"};
  return a;
}

std::string name_of(bench::weight_kind kind) {
  return std::string(bench::weight_kind_names[static_cast<std::size_t>(kind)]);
}
std::string name_of(std::string const& word) { return word.substr(word.find_last_of('/') + 1); }

/// Sums of logarithms of ratios, and of problems whose parts are too heavy.
struct summary {
  double cut = 0, time = 0, worst = 0;
  std::size_t problems = 0, broken = 0;
};

}  // namespace

int main(int count, char** words) try {
  auto const a = read_arguments(count, words);
  std::vector<std::string> const names{"fast", "standard", "METIS"};
  std::map<std::string, std::vector<summary>> by_kind;
  std::puts("| graph | weights | k | fast | standard | METIS |");
  std::puts("|---|---|--:|--:|--:|--:|");
  for (auto const& word : a.graphs) {
    auto const g = graph_called(word);
    for (auto const& kind : a.kinds)
      for (auto const number : a.counts)
        for (auto const k : a.parts) {
          std::vector<measured> mean(names.size());
          for (auto const seed : a.seeds) {
            auto const all = bench::several_weights(g, kind, number, seed);
            std::vector<measured> one{ours(g, all, k, cleave::kway_preset::fast, a, seed),
                                      ours(g, all, k, cleave::kway_preset::standard, a, seed)};
#if __has_include(<metis.h>)
            one.push_back(of_metis(g, all, k, a, seed));
#endif
            for (std::size_t i = 0; i < one.size(); ++i) {
              mean[i].cut += one[i].cut / static_cast<double>(a.seeds.size());
              mean[i].seconds += one[i].seconds / static_cast<double>(a.seeds.size());
              mean[i].imbalance = (std::max)(mean[i].imbalance, one[i].imbalance);
            }
          }
          std::printf("| %s | %zu %s | %zu |", name_of(word).c_str(), number, name_of(kind).c_str(), k);
          auto& sums = by_kind[name_of(kind)];
          sums.resize(names.size());
          for (std::size_t i = 0; i < mean.size(); ++i) {
            bool const broken = mean[i].imbalance > a.imbalance + 1e-6;
            if (mean.back().cut > 0 && mean[i].cut > 0) {
              sums[i].cut += std::log(mean[i].cut / mean.back().cut);
              sums[i].time += std::log(mean[i].seconds / mean.back().seconds);
            }
            sums[i].worst = (std::max)(sums[i].worst, mean[i].imbalance);
            ++sums[i].problems;
            sums[i].broken += broken;
            std::printf(" %.0f, %.3f s, %s%.1f %%%s |", mean[i].cut, mean[i].seconds, broken ? "**" : "",
                        100 * mean[i].imbalance, broken ? "**" : "");
          }
          std::puts("");
          std::fflush(stdout);
        }
  }
  std::puts("\n| weights | algorithm | cut ÷ METIS | time ÷ METIS | problems above the tolerance | worst |");
  std::puts("|---|---|--:|--:|--:|--:|");
  for (auto const& [kind, sums] : by_kind)
    for (std::size_t i = 0; i < sums.size(); ++i) {
      auto const mean = [&](double sum) { return std::exp(sum / static_cast<double>(sums[i].problems)); };
      std::printf("| %s | %s | %.3f | %.2f | %zu of %zu | %.1f %% |\n", name_of(kind).c_str(),
                  names[i].c_str(), mean(sums[i].cut), mean(sums[i].time), sums[i].broken, sums[i].problems,
                  100 * sums[i].worst);
    }
} catch (std::exception const& e) {
  std::fprintf(stderr, "bench several_weights: %s\n", e.what());
  return 1;
}
