// SPDX-License-Identifier: MIT
// METIS, called as a library if it is installed (Debian: libmetis-dev).
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench_algorithms.hpp"

#if __has_include(<metis.h>)
#include <metis.h>

namespace tool {

namespace {

/// Returns weights in METIS' type.
std::vector<idx_t> narrowed(std::span<std::int64_t const> from) {
  std::vector<idx_t> to;
  to.reserve(from.size());
  for (auto const w : from) {
    if (w > std::numeric_limits<idx_t>::max())
      throw cleave::error("a weight is too large for METIS' idx_t; scale the weights down");
    to.push_back(static_cast<idx_t>(w));
  }
  return to;
}

/// Recursive bisection compounds the imbalance of each step.
idx_t load_tolerance(double eps, std::uint32_t parts, bool recursive) {
  double slack = eps;
  if (recursive) {
    double const levels = std::max(1.0, std::ceil(std::log2(std::max(2.0, static_cast<double>(parts)))));
    slack = std::pow(1 + eps, 1 / levels) - 1;
  }
  return std::max<idx_t>(1, static_cast<idx_t>(1000 * slack + 1e-6));
}

struct metis_arrays {
  std::vector<idx_t> first, head, node_weight, edge_weight, options, part;
};

enum class metis_method : std::uint8_t { kway, connected_kway, recursive };

template <metis_method Method>
std::function<bench_answer()> prepare(bench_task const& task) {
  constexpr bool recursive = Method == metis_method::recursive;
  metis_arrays arrays{{task.graph.offsets.begin(), task.graph.offsets.end()},
                      {task.graph.targets.begin(), task.graph.targets.end()},
                      narrowed(task.graph.node_weight),
                      narrowed(task.graph.edge_weight),
                      std::vector<idx_t>(METIS_NOPTIONS),
                      std::vector<idx_t>(task.graph.nodes())};
  METIS_SetDefaultOptions(arrays.options.data());
  arrays.options[METIS_OPTION_SEED] = static_cast<idx_t>(task.seed);
  arrays.options[METIS_OPTION_UFACTOR] = load_tolerance(task.eps, task.parts, recursive);
  arrays.options[METIS_OPTION_CONTIG] = Method == metis_method::connected_kway;
  return [a = std::move(arrays), parts = static_cast<idx_t>(task.parts), n = task.graph.nodes()]() mutable {
    auto const or_null = [](std::vector<idx_t>& list) { return list.empty() ? nullptr : list.data(); };
    idx_t nodes = static_cast<idx_t>(n), constraints = 1, cut = -1;
    auto const partition = recursive ? METIS_PartGraphRecursive : METIS_PartGraphKway;
    int const code =
        partition(&nodes, &constraints, a.first.data(), a.head.data(), or_null(a.node_weight), nullptr,
                  or_null(a.edge_weight), &parts, nullptr, nullptr, a.options.data(), &cut, a.part.data());
    if (code != METIS_OK) throw cleave::error("METIS returned " + std::to_string(code));
    return bench_answer{{a.part.begin(), a.part.end()}, cut};
  };
}

}  // namespace

std::vector<bench_algorithm> metis_algorithms() {
  using enum metis_method;
  return {{"metis", "METIS, k-way", bench_algorithm::input::graph, prepare<kway>},
          {"metis-contig", "METIS, k-way, connected parts", bench_algorithm::input::graph,
           prepare<connected_kway>},
          {"metis-rb", "METIS, recursive bisection", bench_algorithm::input::graph, prepare<recursive>}};
}

}  // namespace tool
#else  // keeps the tool buildable without METIS
namespace tool {
std::vector<bench_algorithm> metis_algorithms() { return {}; }
}  // namespace tool
#endif
