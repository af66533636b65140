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

/// Returns the weights of the nodes, all those of a node one after the other.
std::vector<idx_t> node_weights(bench_task const& task) {
  if (task.further.empty()) return narrowed(task.graph.node_weight);
  std::vector<std::int64_t> all;
  for (std::size_t n = 0; n < task.graph.nodes(); ++n) {
    all.push_back(task.graph.weight(n));
    for (auto const& list : task.further) all.push_back(std::llround(list[n]));
  }
  return narrowed(all);
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
                      node_weights(task),
                      narrowed(task.graph.edge_weight),
                      std::vector<idx_t>(METIS_NOPTIONS),
                      std::vector<idx_t>(task.graph.nodes())};
  METIS_SetDefaultOptions(arrays.options.data());
  arrays.options[METIS_OPTION_SEED] = static_cast<idx_t>(task.seed);
  arrays.options[METIS_OPTION_UFACTOR] = load_tolerance(task.eps, task.parts, recursive);
  arrays.options[METIS_OPTION_CONTIG] = Method == metis_method::connected_kway;
  return [a = std::move(arrays), parts = static_cast<idx_t>(task.parts), n = task.graph.nodes(),
          constraints = static_cast<idx_t>(task.further.size() + 1)]() mutable {
    auto const or_null = [](std::vector<idx_t>& list) { return list.empty() ? nullptr : list.data(); };
    idx_t nodes = static_cast<idx_t>(n), cut = -1;
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
  return {{.name = "metis", .about = "METIS, k-way", .prepare = prepare<kway>, .several_weights = true},
          {.name = "metis-contig",
           .about = "METIS, k-way, connected parts",
           .prepare = prepare<connected_kway>,
           .several_weights = true},
          {.name = "metis-rb",
           .about = "METIS, recursive bisection",
           .prepare = prepare<recursive>,
           .several_weights = true}};
}

}  // namespace tool
#else  // keeps the tool buildable without METIS
namespace tool {
std::vector<bench_algorithm> metis_algorithms() { return {}; }
}  // namespace tool
#endif
