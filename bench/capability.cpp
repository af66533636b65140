// SPDX-License-Identifier: MIT
// Measures the time to group the nodes that a device supports, including reading the graph, and the number of
// groups; then the time to fuse and to inline them. Three of four nodes are supported.
//   bench_capability
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/groups/capability.hpp"
#include "cleave/split/modules/fuse_groups.hpp"
#include "cleave/split/modules/inline_pieces.hpp"
#include "measure.hpp"
#include "support/rng.hpp"

namespace {

/// A graph of numbers: node i makes value i and reads `reads[first[i]] … reads[first[i + 1]]`.
struct graph {
  std::vector<std::uint32_t> first{0}, reads;

  auto nodes() const {
    return std::views::iota(std::uint32_t{}, static_cast<std::uint32_t>(first.size() - 1));
  }
  std::span<std::uint32_t const> operands(std::uint32_t n) const {
    return std::span(reads).subspan(first[n], first[n + 1] - first[n]);
  }
};

/// Each node reads one to three of the previous `reach` nodes.
graph random_dag(std::uint32_t n, std::uint32_t reach) {
  graph g;
  cleave::testing::rng random(1);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::size_t reads = 1 + random.below(3); i > 0 && reads-- > 0;)
      g.reads.push_back(i - 1 - static_cast<std::uint32_t>(random.below(std::min(i, reach))));
    g.first.push_back(static_cast<std::uint32_t>(g.reads.size()));
  }
  return g;
}

/// The same graph as a module_graph with a call for each node.
cleave::module_graph module_of(graph const& g) {
  cleave::module_graph m;
  m.reserve(g.first.size() + 1);
  cleave::module_node n;
  n.kind = cleave::node_kind::placeholder;
  n.name = n.target = "x";
  m.add(n);
  std::vector<std::uint32_t> unread(g.first.size() - 1, 1);
  for (auto const i : g.nodes()) {
    cleave::module_node call;
    call.name = "f_" + std::to_string(i + 1);
    call.target = "f";
    for (auto const v : g.operands(i)) {
      call.args.push_back(cleave::node_argument(v + 1));
      unread[v] = 0;
    }
    if (call.args.empty()) call.args.push_back(cleave::node_argument(0));
    m.add(std::move(call));
  }
  n.kind = cleave::node_kind::output;
  n.name = n.target = "output";
  std::vector<std::uint32_t> results;
  for (auto const i : g.nodes())
    if (unread[i]) results.push_back(i + 1);
  n.args = {cleave::detail::tuple_argument(results)};
  m.add(n);
  return m;
}

bool supports(std::uint32_t n) { return cleave::testing::rng(n).below(4) != 0; }

struct row {
  std::uint32_t nodes, reach;
  std::optional<double> recorded, recorded_connected;  // seconds of torch.fx 2.15 for such a graph
};

void print(row const& r, graph const& g, cleave::fusion along, cleave::grouping by) {
  bool const walk = by == cleave::grouping::merge_walk, connected = along == cleave::fusion::connected;
  if (walk && r.nodes > 10'000) return;
  std::size_t groups = 0;
  auto const t = bench::repeat(r.nodes > 200'000 ? 3 : 9, [&] {
    return bench::seconds(
        [&] { groups = cleave::capability_groups(g, supports, {.by = by, .along = along}).size(); });
  });
  std::printf("| %u | %u | %s | %s | %zu | %.5f (%.5f to %.5f) | %.0f |", r.nodes, r.reach,
              connected ? "connected" : "horizontal", walk ? "merge walk" : "fewest", groups, t.median,
              t.least, t.most, 1e9 * t.median / r.nodes);
  auto const recorded = connected ? r.recorded_connected : r.recorded;
  recorded ? std::printf(" %.2f | %.0f |\n", *recorded, *recorded / t.median) : std::printf(" – | – |\n");
  std::fflush(stdout);
}

bool print_fusion(std::uint32_t nodes) {
  auto const m = module_of(random_dag(nodes, 50));
  std::vector<std::vector<std::uint32_t>> groups;
  for (auto const& group : cleave::capability_groups(m, supports)) {
    groups.emplace_back();
    for (auto const n : group.nodes) groups.back().push_back(m.nodes()[n]);
  }
  cleave::fused_graph fused;
  cleave::module_graph whole;
  std::vector<std::string> paths;
  auto const fuse = bench::repeat(3, [&] { return bench::seconds([&] { fused = fuse_groups(m, groups); }); });
  for (auto const& piece : fused.pieces) paths.push_back(piece.path);
  auto const back = bench::repeat(
      3, [&] { return bench::seconds([&] { whole = cleave::detail::inline_pieces(fused.outer, paths); }); });
  std::printf("| %u | %zu | %.4f | %.0f | %.4f | %.0f |\n", nodes, groups.size(), fuse.median,
              1e9 * fuse.median / nodes, back.median, 1e9 * back.median / nodes);
  std::fflush(stdout);
  return whole.list().size() == m.list().size();
}

}  // namespace

int main() {
  std::printf(
      "| nodes | operands among the last | fusion | grouping | groups | seconds, median (least to most) | "
      "ns/node | torch.fx 2.15 recorded, s | times faster |\n|---|---|---|---|---|---|---|---|---|\n");
  for (row const r : {row{300, 50, 0.1, 0.06}, row{1'000, 50, 4.1, 2.5}, row{2'000, 50, 27, 11},
                      row{2'000, 2'000, 27, 11}, row{10'000, 50, {}, {}}, row{100'000, 50, {}, {}},
                      row{100'000, 100'000, {}, {}}, row{1'000'000, 50, {}, {}}}) {
    auto const g = random_dag(r.nodes, r.reach);
    for (auto const along : {cleave::fusion::horizontal, cleave::fusion::connected})
      for (auto const by : {cleave::grouping::fewest, cleave::grouping::merge_walk}) print(r, g, along, by);
  }
  std::printf(
      "\n| nodes | groups | fuse, s | ns/node | inline again, s | ns/node |\n|---|---|---|---|---|---|\n");
  for (auto const nodes : {10'000u, 100'000u})
    if (!print_fusion(nodes)) return std::puts("after inlining, the graph has another number of nodes"), 1;
}
