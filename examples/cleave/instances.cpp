// SPDX-License-Identifier: MIT
// cleave instances DIR NAME...: writes generated graphs as files, or lists them.
#include "../../bench/instances/catalogue.hpp"

#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/nearest_names.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/graph_files/cost_dag.hpp>
#include <cleave/formats/graph_files/hmetis_hypergraph.hpp>
#include <cleave/formats/graph_files/metis_graph.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "../../bench/instances/hypergraphs.hpp"
#include "../../bench/instances/several_weights.hpp"
#include "files.hpp"
#include "options.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

/// Returns the names of all instances, with what the table says about them, below a heading.
std::vector<std::vector<std::string>> rows_of_instances() {
  std::vector<std::vector<std::string>> rows{{"name", "size", "file", "what"}};
  for (auto const& i : bench::instances())
    rows.push_back({std::string(i.name), std::string(bench::size_names[static_cast<std::size_t>(i.size)]),
                    i.directed ? ".dag" : ".graph", std::string(i.about)});
  for (auto const& i : bench::hypergraph_instances())
    rows.push_back({std::string(i.name), std::string(bench::size_names[static_cast<std::size_t>(i.size)]),
                    ".hgr", std::string(i.about)});
  return rows;
}

/// Returns the same as JSON.
std::string json_of_instances() {
  auto const rows = rows_of_instances();
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().key("instances").open_array();
  for (auto const& row : std::span(rows).subspan(1)) {
    json.open_object();
    for (std::size_t c = 0; c < row.size(); ++c) json.member(rows[0][c], row[c]);
    json.close_object();
  }
  json.close_array().key("families").open_array();
  for (auto const& f : bench::families()) json.value(f.name);
  return json.close_array().close_object().text() + "\n";
}

std::string list_of_instances() {
  auto const rows = rows_of_instances();
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
  return text + "\nor FAMILY:NODES[:SEED], as in rgg2d:100k or rgg2d:100k:7, of " + families +
         ";\nhypergraphs: netlist:NODES[:SEED], nets:NODES[:SEED], rows_ before the name of an undirected " +
         "graph,\nvalues_ before that of a directed one\n";
}

/// A generated instance as the text of a file.
struct instance_text {
  std::string suffix, text;
  std::size_t nodes;
};

instance_text text_of(bench::made_instance const& made) {
  if (auto const* g = std::get_if<bench::graph>(&made))
    return {".graph", cleave::write_metis_graph(g->view()), g->view().nodes()};
  auto const& dag = std::get<cleave::cost_dag>(made);
  return {".dag", cleave::write_dag_file(dag), dag.nodes()};
}

instance_text text_of(bench::graph_with_weights const& g) {
  return {".graph", cleave::write_metis_graph(g.rows.view(), g.further), g.rows.view().nodes()};
}

instance_text text_of(bench::hypergraph const& h) {
  return {".hgr", cleave::write_hmetis_hypergraph(h.view()), h.nodes};
}

/// The folder of the instances, and what was written there, as JSON.
struct instance_folder {
  fs::path path;
  cleave::json::writer written{cleave::json::writer::layout::indented};
};

/// Writes an instance to `folder` under its name, with `_` for `:`.
void write_instance(instance_folder& folder, std::string name, instance_text const& made) {
  std::ranges::replace(name, ':', '_');
  auto const file = folder.path / (name + made.suffix);
  std::error_code missing;
  bool const there = fs::exists(file, missing) && fs::file_size(file, missing) > 0;
  if (there && read_text(file) != made.text)  // generators give the same text on every machine
    throw cleave::error(shown(file) + ": exists and holds another graph; move it, or choose another folder");
  if (!there) write_file({file}, made.text);
  print("  " + shown(file) + ": " + plural(made.nodes, "node") + "\n");
  folder.written.open_object().member("file", file.string()).member("nodes", made.nodes).close_object();
}

/// Writes all instances that a word stands for. Returns false if there are none.
bool write_instances(instance_folder& folder, std::string const& word) {
  auto const called = bench::instances_called(word);
  auto const nets_called = bench::hypergraphs_called(word);
  for (auto const& i : called) write_instance(folder, std::string(i.name), text_of(i.make()));
  for (auto const& i : nets_called) write_instance(folder, std::string(i.name), text_of(i.make()));
  if (!called.empty() || !nets_called.empty()) return true;
  if (auto const h = bench::find_hypergraph(word)) return write_instance(folder, word, text_of(*h)), true;
  if (auto const g = bench::find_with_weights(word)) return write_instance(folder, word, text_of(*g)), true;
  if (auto const made = bench::find_instance(word)) return write_instance(folder, word, text_of(*made)), true;
  return false;
}

}  // namespace

int instances(std::span<std::string const> words) {
  bool as_json = false;
  command c{
      "instances",
      "[DIR NAME...]",
      "Writes generated graphs into a folder: meshes, random graphs, operator graphs and hypergraphs. They\n"
      "are the same on every machine. NAME is a name in the list, a family (rgg2d), a size (small, medium,\n"
      "large), graph, dag, hypergraph or all; or FAMILY:NODES[:SEED] (rgg2d:100k:7). After the name of an\n"
      "undirected graph, +nodes, +edges or +weights gives nodes, edges or both heavy-tailed weights from 1\n"
      "to 256; +random3, +regions3 or +phases3 gives each node three weights. Without a folder, prints the\n"
      "list.",
      {},
      {}};
  c.options.push_back(json_flag(as_json));
  auto const operands = read_options(c, words).operands;
  if (operands.empty()) return print(as_json ? json_of_instances() : list_of_instances()), 0;
  if (operands.size() == 1)
    throw usage_error(
        "the names of graphs are missing after the folder, as in cleave instances graphs small");
  if (operands[0] == "-")
    throw usage_error("graphs are written to a folder, not to stdout; for a folder named -, write ./-");
  instance_folder folder{operands[0]};
  make_folder(folder.path);
  folder.written.open_object().key("written").open_array();
  if (as_json) texts_go = text_target::nowhere;
  for (auto const& word : std::span(operands).subspan(1)) {
    if (write_instances(folder, word)) continue;
    std::vector<std::string> names;
    for (auto const& i : bench::instances()) names.emplace_back(i.name);
    for (auto const& i : bench::hypergraph_instances()) names.emplace_back(i.name);
    for (auto const& f : bench::families()) names.emplace_back(f.name);
    names.insert(names.end(), bench::size_names.begin(), bench::size_names.end());
    throw usage_error("unknown graph " + cleave::quoted(word) +
                      cleave::suggestion(cleave::near_names(word, names)) +
                      "; cleave instances lists all names");
  }
  if (as_json) write_stdout(folder.written.close_array().close_object().text() + "\n");
  return 0;
}

}  // namespace tool
