// SPDX-License-Identifier: MIT
// cleave instances DIR NAME...: writes generated graphs as files, or lists them.
#include "../../bench/instances/catalogue.hpp"

#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/graph_files/cost_dag.hpp>
#include <cleave/formats/graph_files/metis_graph.hpp>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "files.hpp"
#include "options.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

std::string list_of_instances() {
  std::vector<std::vector<std::string>> rows{{"name", "size", "file", "what"}};
  for (auto const& i : bench::instances())
    rows.push_back({std::string(i.name), std::string(bench::size_names[static_cast<std::size_t>(i.size)]),
                    i.directed ? ".dag" : ".graph", std::string(i.about)});
  std::string text;
  std::vector<std::size_t> width(4);
  for (auto const& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], columns(row[c]));
  for (auto const& row : rows) {
    std::string line = "  ";
    for (std::size_t c = 0; c + 1 < row.size(); ++c)
      line += row[c] + std::string(width[c] - columns(row[c]) + 2, ' ');
    line += row.back();
    line.erase(line.find_last_not_of(' ') + 1);
    text += (&row == &rows.front() ? bold(line) : line) + "\n";
  }
  std::string families;
  for (auto const& f : bench::families()) families += (families.empty() ? "" : ", ") + std::string(f.name);
  return text + "\nor FAMILY:NODES[:SEED], as in rgg2d:100k or rgg2d:100k:7, of " + families + "\n";
}

/// Writes a graph to `folder` under its name, with `_` for `:`.
void write_instance(fs::path const& folder, std::string name, bench::made_instance const& made) {
  std::ranges::replace(name, ':', '_');
  auto const* g = std::get_if<bench::graph>(&made);
  auto const file = folder / (name + (g != nullptr ? ".graph" : ".dag"));
  auto const text = g != nullptr ? cleave::write_metis_graph(g->view())
                                 : cleave::write_dag_file(std::get<cleave::cost_dag>(made));
  std::error_code missing;
  bool const there = fs::exists(file, missing) && fs::file_size(file, missing) > 0;
  if (there && read_text(file) != text)  // generators give the same text on every machine
    throw cleave::error(shown(file) + ": exists and holds another graph; move it, or choose another folder");
  if (!there) write_file({file}, text);
  auto const nodes = g != nullptr ? g->view().nodes() : std::get<cleave::cost_dag>(made).nodes();
  print("  " + shown(file) + ": " + plural(nodes, "node") + "\n");
}

}  // namespace

int instances(std::span<std::string const> words) {
  command const c{
      "instances",
      "[DIR NAME...]",
      "Writes generated graphs into a folder: meshes, random graphs and operator graphs. They are the same\n"
      "on every machine. NAME is a name in the list, a family (rgg2d), a size (small, medium, large),\n"
      "graph, dag or all; or FAMILY:NODES[:SEED] (rgg2d:100k:7). After a name, +nodes, +edges or +weights\n"
      "gives nodes, edges or both heavy-tailed weights from 1 to 256. Without a folder, prints the list.",
      {},
      {}};
  auto const operands = read_options(c, words).operands;
  if (operands.empty()) return print(list_of_instances()), 0;
  if (operands.size() == 1)
    throw usage_error(
        "the names of graphs are missing after the folder, as in cleave instances graphs small");
  if (operands[0] == "-")
    throw usage_error("graphs are written to a folder, not to stdout; for a folder named -, write ./-");
  fs::path const folder = operands[0];
  make_folder(folder);
  for (auto const& word : std::span(operands).subspan(1)) {
    auto const called = bench::instances_called(word);
    for (auto const& i : called) write_instance(folder, std::string(i.name), i.make());
    if (!called.empty()) continue;
    auto const made = bench::find_instance(word);
    if (!made) {
      std::vector<std::string> names;
      for (auto const& i : bench::instances()) names.emplace_back(i.name);
      throw usage_error("unknown graph " + cleave::quoted(word) +
                        cleave::suggestion(cleave::nearest_names(word, names)) +
                        "; cleave instances lists all names");
    }
    write_instance(folder, word, *made);
  }
  return 0;
}

}  // namespace tool
