// SPDX-License-Identifier: MIT
// Compares acyclic parts with recorded results of other programs (bench/recorded/dag_peers.csv,
// workload_peers.csv).
//   bench_acyclic [--effort E] [FOLDER | FILE ...]
// A FILE is a .dag, or the JSON of a workload; a FOLDER is searched for both. Without arguments, it uses the
// project's workloads and cost graphs, and generated graphs of up to a million nodes.
#include "cleave/partition/acyclic/acyclic.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cost_graph.hpp"
#include "generated_dags.hpp"
#include "measure.hpp"

namespace {

namespace fs = std::filesystem;

double effort = 1;

/// Rows of a table of recorded figures, by instance; 0 if nothing is recorded.
using record = std::map<std::string, double>;
std::multimap<std::string, record> records_of(char const* name) {
  std::ifstream in(fs::path(CLEAVE_SOURCE_DIR) / "bench/recorded" / name);
  std::multimap<std::string, record> found;
  std::vector<std::string> columns;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream cells(line);
    std::vector<std::string> row;
    for (std::string cell; std::getline(cells, cell, ',');) row.push_back(cell);
    if (columns.empty()) {
      columns = row;
      continue;
    }
    record r;
    for (std::size_t i = 1; i < row.size(); ++i)
      if (!row[i].empty()) r[columns[i]] = std::strtod(row[i].c_str(), nullptr);
    found.emplace(row[0], r);
  }
  return found;
}

/// One value per arc, so that a cut counts the cost of each arc.
cleave::snapshot_arrays value_per_arc(cleave::cost_dag const& d, cleave::dag_snapshot const& s) {
  using index = std::uint32_t;
  struct arc {
    index from, to;
    double cost;
  };
  std::vector<arc> arcs;
  for (auto const& a : d.arcs)
    arcs.push_back({static_cast<index>(s.position[a.from]), static_cast<index>(s.position[a.to]), a.cost});
  std::sort(arcs.begin(), arcs.end(),
            [](arc const& a, arc const& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
  cleave::snapshot_arrays g;
  g.weight = s.graph.weight;
  std::vector<std::vector<index>> read(d.nodes());
  for (index n = 0, v = 0; n < d.nodes(); ++n) {
    for (; v < arcs.size() && arcs[v].from == n; ++v) {
      g.results.add(v);
      read[arcs[v].to].push_back(v);
      g.users.add(arcs[v].to);
      g.users.close();
      g.producer.push_back(n);
      g.slot.push_back(v);
      g.from.push_back(cleave::source::node);
      g.bytes.push_back(static_cast<std::size_t>(std::llround(1e6 * arcs[v].cost)));
    }
    g.results.close();
    g.group.push_back(n);
  }
  g.latest = g.slot;
  for (auto const& values : read) {
    for (auto const v : values) g.operands.add(v);
    g.operands.close();
  }
  g.replicable.assign(d.nodes(), 0);
  return g;
}

/// Lists "12.3 (a)" for each recorded figure above 0, and marks if ours is above the smallest.
std::string beside(record const& r, std::vector<std::pair<char const*, char const*>> const& names,
                   double ours) {
  std::string text;
  double least = std::numeric_limits<double>::infinity();
  for (auto const& [key, shown] : names) {
    auto const at = r.find(key);
    if (at == r.end()) continue;
    least = std::min(least, at->second);
    char cell[64];
    std::snprintf(cell, sizeof cell, "%s%s %.6g", text.empty() ? "" : ", ", shown, at->second);
    text += cell;
  }
  if (ours > least * (1 + 1e-4)) text += " (**lower**)";  // recorded figures are rounded
  return text;
}

void print_dag_title() {
  std::printf(
      "\n### Graphs: bottleneck, and cut of arcs at a true 3 %%\n\n"
      "| graph | nodes | k | slices (CPU s) | acyclic (CPU s) | / ideal | / bound | others | cut | imbalance "
      "| CPU s | others' cuts (imbalance) | cut at that of dagP |\n"
      "|---|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|---|--:|\n");
}

void run_dag(std::string const& name, cleave::cost_dag const& d, std::uint32_t k, record const& r) {
  auto const s = cleave::snapshot_of_dag(d);
  cleave::acyclic_options o{.effort = effort, .limits = s.options};
  o.limits.memory = {};
  o.limits.node_memory.clear();
  cleave::balanced_partition slices;
  cleave::ordered_partition p, q;
  double const slicing = bench::seconds([&] { slices = cleave::balance(s.graph, k, o.limits); });
  double const seconds = bench::seconds([&] { p = cleave::partition_acyclic(s.graph, k, o); });
  double sum = 0;
  for (double const w : d.work) sum += w;
  auto const arcs = value_per_arc(d, s);
  cleave::acyclic_options c{.goal = cleave::acyclic_goal::cut, .effort = effort};
  double const cutting = bench::seconds([&] { q = cleave::partition_acyclic(arcs, k, c); });
  if (cleave::detail::find_backward_edge(s.graph, p) || cleave::detail::find_backward_edge(arcs, q))
    std::fprintf(stderr, "%s: an edge leads backward\n", name.c_str());
  std::string cuts, alike;
  for (auto const& [cut, imbalance, who] : {std::tuple("dagp_cut", "dagp_imbalance", "dagP"),
                                            std::tuple("dagpart_cut", "dagpart_imbalance", "dagpart")}) {
    if (!r.contains(cut)) continue;
    char cell[64];
    std::snprintf(cell, sizeof cell, "%s%s %.6g (%.3f)", cuts.empty() ? "" : ", ", who, r.at(cut),
                  r.at(imbalance));
    cuts += cell;
  }
  if (r.contains("dagp_cut") && r.at("dagp_imbalance") > 0.03) {
    c.epsilon = r.at("dagp_imbalance") + 5e-4;
    auto const loose = cleave::partition_acyclic(arcs, k, c);
    char cell[64];
    std::snprintf(cell, sizeof cell, "%.6g", loose.cut / 1e6);
    alike = cell;
  }
  std::printf(
      "| %s | %zu | %u | %.6g (%.3g) | %.6g (%.3g) | %.4f | %.3f | %s | %.6g | %.4f%s | %.3g | %s | %s |\n",
      name.c_str(), d.nodes(), k, slices.bottleneck, slicing, p.bottleneck, seconds, p.bottleneck / (sum / k),
      p.bottleneck / p.bound,
      beside(r,
             {{"exact", "exact"},
              {"slices", "slices"},
              {"slices_by_time", "by time"},
              {"dagp", "dagP"},
              {"dagpart", "dagpart"}},
             p.bottleneck)
          .c_str(),
      q.cut / 1e6, q.imbalance, q.balanced ? "" : " (least)", cutting, cuts.c_str(), alike.c_str());
  std::fflush(stdout);
}

void print_workload_title() {
  std::printf(
      "\n### Workloads: largest load in ms\n\n"
      "| workload | nodes | devices | memory | slices | acyclic (CPU s) | / bound | others | of the time of "
      "the "
      "exact search |\n|---|--:|---|---|--:|--:|--:|---|--:|\n");
}

/// k accelerators and, if asked, one host that pays no transfers and has all the memory it needs.
cleave::acyclic_options with_host(cleave::cost_dag const& d, cleave::acyclic_options o, std::uint32_t k) {
  double speed = 1;
  for (std::size_t n = 0; n < d.nodes(); ++n)
    if (d.work[n] > 0) speed = d.work[n] / d.host_work[n];
  std::vector<double> speeds(k, 1), links(k, 1);
  std::vector<std::size_t> memory(k, static_cast<std::size_t>(d.device_memory));
  speeds.push_back(speed);
  links.push_back(0);
  memory.push_back(std::numeric_limits<std::size_t>::max() / 4);
  o.limits.speed = speeds;
  o.limits.link = links;
  o.limits.memory = memory;
  o.limits.empty = cleave::empty_parts::allowed;
  o.devices = cleave::device_order::any;
  return o;
}

void run_workload(std::string const& name, cleave::cost_dag const& d, record const& r) {
  auto const s = cleave::snapshot_of_dag(d);
  cleave::acyclic_options const o{.effort = effort, .limits = s.options};
  auto const run = [&](char const* devices, std::string const& memory, std::uint32_t k,
                       cleave::acyclic_options const& options, record const& others) {
    double slices = std::numeric_limits<double>::infinity();
    cleave::ordered_partition p;
    double seconds = 0;
    try {
      if (options.devices == cleave::device_order::given)
        slices = cleave::balance(s.graph, k, options.limits).bottleneck;
      seconds = bench::seconds([&] { p = cleave::partition_acyclic(s.graph, k, options); });
    } catch (cleave::infeasible_error const& e) {
      std::printf("| %s | %zu | %u %s | %s | – | – | – | %s | |\n", name.c_str(), d.nodes(),
                  k - (*devices != 0), devices, memory.c_str(), e.what());
      return;
    }
    std::string share;
    if (others.contains("exact_s") && others.at("exact_s") > 0)
      share = "1/" + std::to_string(static_cast<long>(others.at("exact_s") / seconds));
    std::string const sliced = std::isfinite(slices) ? std::to_string(slices) : "";
    std::printf("| %s | %zu | %u%s | %s | %s | %.6g (%.3g) | %.3f | %s | %s |\n", name.c_str(), d.nodes(),
                k - (*devices != 0), devices, memory.c_str(), sliced.c_str(), p.bottleneck, seconds,
                p.bottleneck / p.bound,
                beside(others,
                       {{"exact", "exact"},
                        {"linear", "linear"},
                        {"pipedream", "PipeDream"},
                        {"experts", "experts"},
                        {"scotch", "Scotch*"},
                        {"local_search", "local search*"}},
                       p.bottleneck)
                    .c_str(),
                share.c_str());
    std::fflush(stdout);
  };
  std::uint32_t const k = d.devices == 0 ? 6 : d.devices;
  run("", "16 GiB", k, o, {});
  if (!d.host_work.empty()) run(" and a host", "16 GiB", k + 1, with_host(d, o, k), r);
  double held = 0;
  for (double const bytes : d.memory) held += bytes;
  for (double const share : {1.5, 1.15}) {  // of an even share of all memory, low enough to be binding
    auto tight = o;
    tight.limits.memory = static_cast<std::size_t>(share * held / k);
    run("", std::to_string(share).substr(0, 4) + " shares", k, tight, {});
  }
}

void run_cost_graph(fs::path const& path) {
  auto c = bench::read_cost_graph(path.string(), path.stem().stem().string());
  c.options.cost_per_byte = 1000;
  for (std::uint32_t const k : {2u, 4u, 8u}) {
    cleave::ordered_partition p;
    auto const slices = cleave::balance(c.graph, k, c.options);
    double const seconds = bench::seconds(
        [&] { p = cleave::partition_acyclic(c.graph, k, {.effort = effort, .limits = c.options}); });
    double const layers = cleave::bottleneck(c.graph, c.layer_split(k), {.cost_per_byte = 1000});
    std::printf("| %s | %zu | %u | %.6g | %.6g (%.3g) | %.3f | %.6g%s |\n", c.name.c_str(), c.graph.nodes(),
                k, slices.bottleneck, p.bottleneck, seconds, p.bottleneck / p.bound, layers,
                layers < p.bottleneck * (1 - 1e-9) ? " (**lower**)" : "");
    std::fflush(stdout);
  }
}

void run_dags(std::string const& name, cleave::cost_dag const& d,
              std::multimap<std::string, record> const& records) {
  auto const [first, last] = records.equal_range(name);
  if (first == last) run_dag(name, d, 8, {});
  for (auto r = first; r != last; ++r)
    run_dag(name, d, static_cast<std::uint32_t>(r->second.at("k")), r->second);
}

void run_generated(std::multimap<std::string, record> const& records) {
  print_dag_title();
  for (auto const* name : {"tfm_L24_H1", "tfm_L64_H16", "tfm_train_L32_H16", "resnet_b50", "resnet_10k",
                           "inception_3k", "inception_30k", "unet_6x4", "unet_6x200", "moe_32x64",
                           "layered_10k", "layered_100k", "layered_1M", "tfm_L512_H64", "tfm_1M"})
    run_dags(name, bench::operations_called(name), records);
}

std::vector<fs::path> files_in(fs::path const& place) {
  std::vector<fs::path> files;
  if (fs::is_directory(place)) {
    for (auto const& entry : fs::recursive_directory_iterator(place))
      if (entry.is_regular_file()) files.push_back(entry.path());
    std::ranges::sort(files);
  } else {
    files.push_back(place);
  }
  return files;
}

void run_files(std::vector<fs::path> const& files) {
  auto const graphs = records_of("dag_peers.csv"), workloads = records_of("workload_peers.csv");
  auto const each = [&](auto title, auto wanted, auto run) {
    bool any = false;
    for (auto const& file : files) {
      if (!wanted(file)) continue;
      if (!std::exchange(any, true)) title();
      try {
        run(file);
      } catch (std::exception const& e) {
        std::fprintf(stderr, "%s: %s\n", file.c_str(), e.what());
      }
    }
  };
  each(
      print_dag_title, [](fs::path const& f) { return f.extension() == ".dag"; },
      [&](fs::path const& f) { run_dags(f.stem().string(), cleave::read_cost_dag(f.string()), graphs); });
  each(
      print_workload_title,
      [](fs::path const& f) {
        return f.extension() == ".json" && f.parent_path().parent_path().filename() == "throughput-inputs";
      },
      [&](fs::path const& f) {
        auto const name = f.parent_path().filename().string() + "/" + f.stem().string();
        auto const r = workloads.find(name);
        run_workload(name, cleave::read_cost_dag(f.string()), r == workloads.end() ? record{} : r->second);
      });
  each(
      [] {
        std::printf(
            "\n### Cost graphs of training steps: a byte sent costs 1000 FLOPs\n\n"
            "| model | nodes | k | slices | acyclic (CPU s) | / bound | layer split |\n"
            "|---|--:|--:|--:|--:|--:|--:|\n");
      },
      [](fs::path const& f) { return f.string().ends_with(".costs.gz"); }, run_cost_graph);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<fs::path> files;
  bool own = true;
  auto const add = [&](fs::path const& place) {
    for (auto const& file : files_in(place)) files.push_back(file);
  };
  for (int i = 1; i < count; ++i) {
    std::string_view const a = arguments[i];
    if (a == "--effort" && i + 1 < count) {
      effort = std::strtod(arguments[++i], nullptr);
    } else if (!a.starts_with("-") && fs::exists(a)) {
      add(a);
      own = false;
    } else {
      return std::fprintf(stderr, "usage: bench_acyclic [--effort E] [FOLDER | FILE ...]\n"), 2;
    }
  }
  if (own) {
    add(fs::path(CLEAVE_SOURCE_DIR) / "bench/data");
    add(fs::path(CLEAVE_SOURCE_DIR) / "tests/models/costs");
  }
  run_files(files);
  if (own) run_generated(records_of("dag_peers.csv"));
}
