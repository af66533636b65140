// SPDX-License-Identifier: MIT
// Measures time and memory of reading a graph, planning its cut and emitting the stages; and the same for
// split_module, with all features of a module_graph.
//   bench_split [FILE]     FILE has lines "KIND NODES SECONDS" of another program in the same run
//   (tests/support/torch_split.py)
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/split/modules/split_module.hpp"
#include "cleave/split/split.hpp"
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
  std::size_t size() const { return first.size() - 1; }
};

graph chain(std::uint32_t n) {
  graph g;
  for (std::uint32_t i = 0; i < n; ++i) {
    if (i > 0) g.reads.push_back(i - 1);
    g.first.push_back(static_cast<std::uint32_t>(g.reads.size()));
  }
  return g;
}

/// Each node reads up to three of the previous fifty.
graph random_dag(std::uint32_t n) {
  graph g;
  cleave::testing::rng random(1);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (std::size_t reads = 1 + random.below(3); i > 0 && reads-- > 0;)
      g.reads.push_back(i - 1 - static_cast<std::uint32_t>(random.below(std::min(i, 50u))));
    g.first.push_back(static_cast<std::uint32_t>(g.reads.size()));
  }
  return g;
}

/// Writes a stage as a graph of the same kind.
struct id_builder {
  graph const& from;
  graph made{};
  std::vector<std::uint32_t> given{};
  std::uint32_t next = 1u << 31;  // arguments are numbered from here

  std::uint32_t argument(std::uint32_t, cleave::source) { return next++; }
  auto clone(std::uint32_t n, auto lookup) {
    for (auto const v : from.operands(n)) made.reads.push_back(lookup(v));
    made.first.push_back(static_cast<std::uint32_t>(made.reads.size()));
    return std::views::single(static_cast<std::uint32_t>(made.size() - 1));
  }
  void result(std::uint32_t, std::uint32_t made_name) { given.push_back(made_name); }
};

cleave::partition slices(std::size_t n, std::uint32_t k) {
  cleave::partition p{std::vector<cleave::part_id>(n), k};
  for (std::size_t i = 0; i < n; ++i) p.of[i] = cleave::part_id{static_cast<std::uint32_t>(i * k / n)};
  return p;
}

/// Reads, plans and emits. Returns the number of nodes in the stages, so that nothing is optimised away.
std::size_t cut(graph const& g, cleave::partition const& p) {
  auto const stages = cleave::split(g, p);
  std::vector<id_builder> built;
  for (std::uint32_t i = 0; i < p.parts; ++i) {
    built.push_back({g});
    cleave::emit(stages, cleave::stage_id{i}, built.back());
  }
  std::size_t nodes = 0;
  for (auto const& b : built) nodes += b.made.size();
  return nodes;
}

/// Features of a module_graph besides calls: none; or modules, attributes, keywords, metadata, symbols,
/// effects without a value, autocast and gradient mode.
enum class features : bool { calls, all };

/// The same graph as calls. With all features one call in ten has each of them, and one in a thousand is in
/// front of a mark.
cleave::module_graph calls_of(graph const& g, features with) {
  using namespace cleave;
  using namespace cleave::detail;
  module_graph made;
  std::vector<module_graph::position> at;
  module_graph::position entered = none<module_graph::position>;
  auto const add = [&](node_kind kind, std::string name, std::string target,
                       std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.name = std::move(name);
    n.target = std::move(target);
    n.args = std::move(args);
    n.symbols = with == features::all && made.list().size() % 10 == 3 ? std::vector<std::string>{"s0"}
                                                                      : std::vector<std::string>();
    if (kind == node_kind::placeholder && with == features::all) n.symbols = {n.binds = "s0"};
    return n;
  };
  auto const x = made.add(add(node_kind::placeholder, "x", "x", {}));
  made.add_attribute({"layer.w", module_attribute::kind::parameter, {}, {}, {}, {}});
  made.add_attribute({"layer.linear", module_attribute::kind::module, {}, {}, {}, {}});
  auto const w = with == features::all ? made.add(add(node_kind::get_attr, "w", "layer.w", {}))
                                       : module_graph::position{};
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    auto const name = std::to_string(i);
    if (with == features::all && i % 1000 == 500) {
      bool const enters = entered == none<module_graph::position>;
      auto const mark = made.add(
          enters ? add(node_kind::call_function, "e" + name, "_enter_autocast", {{true}})
                 : add(node_kind::call_function, "l" + name, "_exit_autocast", {node_argument(entered)}));
      entered = enters ? mark : none<module_graph::position>;
      made.add(add(node_kind::call_function, "m" + name, "_set_grad_enabled", {{enters}}));
    }
    auto n = add(node_kind::call_function, "opaque_" + name, "opaque", {});
    for (auto const v : g.operands(i)) n.args.push_back(node_argument(at[v]));
    if (n.args.empty()) n.args.push_back(node_argument(x));
    if (with == features::all && i % 10 == 1) n.kwargs = {{"weight", node_argument(w)}, {"scale", {0.5}}};
    if (with == features::all && i % 10 == 2) n.kind = node_kind::call_module, n.target = "layer.linear";
    if (with == features::all && i % 10 == 4) n.metadata = {{"line", {std::int64_t{i}}}};
    if (with == features::all && i % 10 == 5) n.after = {at.back()};
    at.push_back(made.add(std::move(n)));
  }
  if (entered != none<module_graph::position>)
    made.add(add(node_kind::call_function, "last", "_exit_autocast", {node_argument(entered)}));
  made.add(add(node_kind::output, "output", "output", {node_argument(at.back())}));
  return made;
}

/// CPU seconds of a cut into equal slices, without freeing the result, as in the recorded times. Adds the
/// number of calls in the pieces to `calls`.
double cut_seconds(cleave::module_graph const& g, std::size_t parts, std::size_t& calls) {
  std::size_t asked = 0;
  auto const slice = [&](cleave::module_node const&) { return asked++ * parts / g.nodes().size(); };
  std::optional<cleave::split_module_result> r;
  auto const t = bench::seconds([&] { r.emplace(cleave::split_module(g, slice)); });
  for (auto const& piece : r->pieces) calls += piece.nodes.size();
  return t;
}

struct row {
  char const* kind;
  std::uint32_t nodes;
  std::optional<double> recorded = {};  // seconds of torch.fx 2.15's split_module for the same shape
  std::uint32_t parts = 8;
};

graph shape_of(row const& r) { return std::string(r.kind) == "chain" ? chain(r.nodes) : random_dag(r.nodes); }

/// The table of split_module, plain and with all features.
int print_module_table() {
  std::printf(
      "\n| split_module of | features | nodes | parts | seconds, median (least to most) | ns/node | "
      "torch.fx 2.15 recorded, s | times faster |\n|---|---|---|---|---|---|---|---|\n");
  for (row const& r :
       {row{"chain", 1'000, 0.08}, row{"chain", 3'000, 0.21}, row{"chain", 10'000, 1.2},
        row{"chain", 30'000, 2.4}, row{"chain", 300'000}, row{"random DAG", 1'000, 0.10},
        row{"random DAG", 3'000, 0.27}, row{"random DAG", 3'000, 1.1, 100}, row{"random DAG", 10'000, 1.5},
        row{"random DAG", 30'000, 4.0}, row{"random DAG", 300'000}})
    for (auto const with : {features::calls, features::all}) {
      auto const g = calls_of(shape_of(r), with);
      std::size_t calls = 0;
      auto const t = bench::repeat(r.nodes > 100'000 ? 3 : 9, [&] { return cut_seconds(g, r.parts, calls); });
      if (calls % g.nodes().size() != 0) return std::puts("the pieces do not have the graph's calls"), 1;
      std::printf("| %s | %s | %u | %u | %.4f (%.4f to %.4f) | %.0f |", r.kind,
                  with == features::all ? "all" : "calls only", r.nodes, r.parts, t.median, t.least, t.most,
                  1e9 * t.median / r.nodes);
      r.recorded ? std::printf(" %.2f | %.0f |\n", *r.recorded, *r.recorded / t.median)
                 : std::printf(" – | – |\n");
      std::fflush(stdout);
    }
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::pair<std::string, std::uint32_t>, double> beside;
  if (count > 1) {
    std::ifstream file(arguments[1]);
    std::string kind;
    double seconds = 0;
    for (std::uint32_t nodes = 0; file >> kind >> nodes >> seconds;) {
      std::ranges::replace(kind, '_', ' ');
      beside[{kind, nodes}] = seconds;
    }
    if (beside.empty()) return std::fprintf(stderr, "%s: no lines \"KIND NODES SECONDS\"\n", arguments[1]), 2;
  }
  std::printf(
      "| graph | nodes | parts | seconds, median (least to most) | ns/node | added peak bytes/node | "
      "torch.fx 2.15 recorded, s | times faster | torch.fx in this run, s | times faster |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n");
  for (row const r : {row{"chain", 1'000, 0.08},
                      {"chain", 3'000, 0.21},
                      {"chain", 10'000, 1.2},
                      {"chain", 30'000, 2.4},
                      {"chain", 100'000, {}},
                      {"chain", 1'000'000, {}},
                      {"chain", 1'000'000, {}, 64},
                      {"random DAG", 1'000, 0.10},
                      {"random DAG", 3'000, 0.27},
                      {"random DAG", 10'000, 1.5},
                      {"random DAG", 30'000, 4.0},
                      {"random DAG", 100'000, {}},
                      {"random DAG", 3'000, 1.1, 100},
                      {"random DAG", 1'000'000, {}},
                      {"random DAG", 1'000'000, {}, 64}}) {
    auto const g = shape_of(r);
    auto const p = slices(g.size(), r.parts);
    auto const bytes =
        bench::in_child([&] { return static_cast<double>(bench::added_peak([&] { cut(g, p); })); });
    std::size_t emitted = 0;
    auto const t = bench::repeat(r.nodes > 200'000 ? 3 : 9,
                                 [&] { return bench::seconds([&] { emitted += cut(g, p); }); });
    if (emitted % r.nodes != 0) return std::puts("the stages do not have the graph's nodes"), 1;
    std::printf("| %s | %u | %u | %.4f (%.4f to %.4f) | %.0f | %.0f |", r.kind, r.nodes, r.parts, t.median,
                t.least, t.most, 1e9 * t.median / r.nodes, bytes / r.nodes);
    auto const known = r.parts == 8 ? beside.find({r.kind, r.nodes}) : beside.end();
    for (auto const other : {r.recorded, known == beside.end() ? std::nullopt : std::optional(known->second)})
      other ? std::printf(" %.2f | %.0f |", *other, *other / t.median) : std::printf(" – | – |");
    std::printf("\n");
    std::fflush(stdout);
  }
  return print_module_table();
}
