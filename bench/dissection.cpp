// SPDX-License-Identifier: MIT
// Compares nested_dissection with METIS_NodeND, if METIS is installed (Debian: libmetis-dev): entries and
// flops of the Cholesky factor, and CPU seconds, least of three. Arguments: files or instances (`grid3d_27k`,
// `rgg2d:100k:7`), `--restarts N`, `--leaf N`, `--imbalance X`, `--seed N`.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cleave/dissection.hpp"
#include "cleave/formats/graph_files/graph_file.hpp"
#include "instances/catalogue.hpp"
#include "measure.hpp"

#if __has_include(<metis.h>)
#include <metis.h>
#endif

namespace {

using graph = cleave::adjacency<std::uint32_t>;

struct asked {
  std::vector<std::string> graphs;
  cleave::dissection_options options;
  std::size_t runs = 3;
};

graph graph_called(std::string const& word) {
  if (auto const made = bench::find_instance(word)) return bench::undirected_instance(*made);
  return cleave::read_graph_file<std::uint32_t>(word);
}

struct measured {
  cleave::cholesky_size size;
  double seconds = 0;
};

measured ours(graph const& g, asked const& a) {
  cleave::elimination_order o;
  auto const spent = bench::repeat(
      a.runs, [&] { return bench::seconds([&] { o = cleave::nested_dissection(g.view(), a.options); }); });
  return {cleave::cholesky_fill(g.view(), o.order), spent.least};
}

#if __has_include(<metis.h>)
measured of_metis(graph const& g, asked const& a) {
  std::vector<idx_t> order(g.view().nodes()), position(order.size());
  auto const spent = bench::repeat(a.runs, [&] {
    std::vector<idx_t> first(g.offsets.begin(), g.offsets.end()), head(g.targets.begin(), g.targets.end());
    idx_t nodes = static_cast<idx_t>(order.size()), options[METIS_NOPTIONS];
    METIS_SetDefaultOptions(options);
    options[METIS_OPTION_SEED] = static_cast<idx_t>(a.options.seed);
    return bench::seconds([&] {
      METIS_NodeND(&nodes, first.data(), head.data(), nullptr, options, order.data(), position.data());
    });
  });
  return {cleave::cholesky_fill(g.view(), {order.begin(), order.end()}), spent.least};
}
#endif

asked read_arguments(int count, char** words) {
  asked a;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word.starts_with("--") && i + 1 < count) {
      auto const value = std::stod(words[++i]);
      if (word == "--restarts") a.options.restarts = static_cast<std::uint32_t>(value);
      if (word == "--leaf") a.options.leaf = static_cast<std::uint32_t>(value);
      if (word == "--imbalance") a.options.imbalance = value;
      if (word == "--seed") a.options.seed = static_cast<std::uint64_t>(value);
      if (word == "--runs") a.runs = static_cast<std::size_t>(value);
    } else {
      a.graphs.push_back(word);
    }
  }
  if (a.graphs.empty())
    a.graphs = {"grid2d_10k", "grid2d_100k", "grid3d_27k", "mesh3d_13k", "fem2d_10k",
                "fem2d_100k", "fem3d_65k",   "del2d_10k",  "rgg2d_14",   "road_10k",
                "rhyp_14",    "grid3d:100k", "ba_14",      "rmat_16"};
  return a;
}

std::string name_of(std::string const& word) { return word.substr(word.find_last_of('/') + 1); }

}  // namespace

int main(int count, char** words) try {
  auto const a = read_arguments(count, words);
  std::puts("| graph | nodes | entries | flops | seconds | entries ÷ METIS | flops ÷ METIS | time ÷ METIS |");
  std::puts("|---|--:|--:|--:|--:|--:|--:|--:|");
  double entries = 0, flops = 0, seconds = 0;
  for (auto const& word : a.graphs) {
    auto const g = graph_called(word);
    auto const own = ours(g, a);
    std::printf("| %s | %zu | %.3g | %.3g | %.3f |", name_of(word).c_str(), g.view().nodes(),
                static_cast<double>(own.size.nonzeros), own.size.flops, own.seconds);
#if __has_include(<metis.h>)
    auto const peer = of_metis(g, a);
    auto const ratio = [](double x, double y, double& sum) {
      sum += std::log(x / y);
      return x / y;
    };
    std::printf(
        " %.3f | %.3f | %.2f |",
        ratio(static_cast<double>(own.size.nonzeros), static_cast<double>(peer.size.nonzeros), entries),
        ratio(own.size.flops, peer.size.flops, flops), ratio(own.seconds, peer.seconds, seconds));
#else
    std::printf(" – | – | – |");
#endif
    std::puts("");
    std::fflush(stdout);
  }
#if __has_include(<metis.h>)
  auto const mean = [&](double sum) { return std::exp(sum / static_cast<double>(a.graphs.size())); };
  std::printf("| geometric mean | | | | | %.3f | %.3f | %.2f |\n", mean(entries), mean(flops), mean(seconds));
#endif
} catch (std::exception const& e) {
  std::fprintf(stderr, "bench dissection: %s\n", e.what());
  return 1;
}
