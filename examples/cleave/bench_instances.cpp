// SPDX-License-Identifier: MIT
// The instances of the bench: files, folders, generators.
#include "bench_instances.hpp"

#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/graph_files/cost_dag.hpp>
#include <cleave/formats/graph_files/graph_file.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "../../bench/instances/catalogue.hpp"
#include "../../bench/instances/hypergraphs.hpp"
#include "../../bench/instances/several_weights.hpp"
#include "files.hpp"
#include "hypergraphs.hpp"
#include "options.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

std::vector<bench_instance> files_in(std::string const& folder) {
  std::vector<bench_instance> found;
  for (auto const& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;  // reading a pipe would block
    auto const path = entry.path().string();
    if (path.ends_with(".by-degree.graph")) continue;  // written by bench/peers for KaMinPar
    if (is_hypergraph_file(path) ||
        std::ranges::any_of(cleave::graph_suffixes, [&](auto const& s) { return path.ends_with(s.suffix); }))
      found.push_back({.name = entry.path().stem().string(), .path = path, .named = false});
  }
  std::ranges::sort(found, {}, &bench_instance::path);
  if (found.empty())
    throw cleave::error(cleave::printable(folder, 200) +
                        ": this folder contains no file of a graph or hypergraph");
  return found;
}

bool is_directed(std::string const& path) {
  return std::ranges::any_of(cleave::graph_suffixes, [&](auto const& s) {
    return path.ends_with(s.suffix) && cleave::is_directed(s.format);
  });
}

loaded_instance of_dag(cleave::cost_dag file) {
  auto snapshot = cleave::snapshot_of_dag(file);
  return {.dag = bench_dag{std::move(file), std::move(snapshot)}};
}

loaded_instance of_graph(bench::graph g) {
  return {.rows = {{g.offsets.begin(), g.offsets.end()},
                   {g.targets.begin(), g.targets.end()},
                   std::move(g.node_weight),
                   std::move(g.edge_weight)}};
}

loaded_instance made(std::string const& name) {
  if (auto h = bench::find_hypergraph(name))
    return {.hypergraph = bench_hypergraph{h->nodes, std::move(h->offsets), std::move(h->pins), {}, {}}};
  if (auto g = bench::find_with_weights(name)) {
    auto loaded = of_graph(std::move(g->rows));
    loaded.further = std::move(g->further);
    return loaded;
  }
  auto instance = *bench::find_instance(name);
  if (auto* const dag = std::get_if<cleave::cost_dag>(&instance)) return of_dag(std::move(*dag));
  return of_graph(std::get<bench::graph>(std::move(instance)));
}

}  // namespace

std::vector<bench_instance> instances_of(std::string const& word) {
  if (is_standard(word))
    throw usage_error("rows of a bench are named after files, and standard input has no name; name a file");
  std::vector<bench_instance> found;
  for (auto const& i : bench::instances_called(word)) found.push_back({.name = std::string(i.name)});
  for (auto const& i : bench::hypergraphs_called(word)) found.push_back({.name = std::string(i.name)});
  if (!found.empty()) return found;
  std::error_code unknown;
  if (fs::is_directory(word, unknown)) return files_in(word);
  if (fs::exists(word, unknown)) return {{.name = fs::path(word).stem().string(), .path = word}};
  if (bench::find_hypergraph(word) || bench::find_with_weights(word) || bench::find_instance(word))
    return {{.name = word}};
  std::vector<std::string> names;
  for (auto const& [name, about] : generated_instances()) names.push_back(name);
  throw cleave::error(cleave::printable(word, 200) + ": no such file, folder or generated instance" +
                      cleave::suggestion(cleave::near_names(word, names)) +
                      "; cleave bench --list shows the generated ones");
}

std::vector<std::pair<std::string, std::string>> generated_instances() {
  std::vector<std::pair<std::string, std::string>> list;
  for (auto const& i : bench::instances()) list.emplace_back(i.name, i.about);
  for (auto const& i : bench::hypergraph_instances()) list.emplace_back(i.name, i.about);
  return list;
}

std::optional<loaded_instance> load(bench_instance const& i) {
  if (i.path.empty()) return made(i.name);
  try {
    if (is_hypergraph_file(i.path)) {
      loaded_instance loaded;  // g++ 12 destroys `rows` twice if an initializer below it throws
      loaded.hypergraph = read_hypergraph_file<std::int64_t>(i.path, i.path);
      return loaded;
    }
    if (is_directed(i.path)) return of_dag(cleave::read_cost_dag(i.path, 0, limited({})));
    loaded_instance loaded;
    loaded.rows = cleave::read_graph_file<std::int32_t, std::int64_t>(
        i.path, limited({.further_weights = &loaded.further}));
    return loaded;
  } catch (cleave::error const& e) {
    if (i.named) throw;
    note(std::string(e.what()) + "; skipped");
    return {};
  }
}

}  // namespace tool
