// SPDX-License-Identifier: MIT
// cleave order FILE: orders a sparse matrix in a file so that its Cholesky factor has few entries.
#include <array>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/dissection.hpp>
#include <cleave/formats/graph_files/graph_file.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"
#include "partition_task.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

struct order_task {
  graph_input graph;
  bool as_json = false;
  cleave::dissection_options options;
  cleave::graph_file_options reading{.values = cleave::matrix_values::ignored};
  output_file out{.path = {}, .form = order_form};
};

void add_options(command& c, order_task& task) {
  c.options.push_back(number_option("", "--restarts", "N",
                                    "separators tried for each large piece; more take longer (1)",
                                    task.options.restarts, 1, 1000));
  c.options.push_back(number_option("", "--eps", "SHARE",
                                    "imbalance: share by which a side may exceed half of its piece (0.3)",
                                    task.options.imbalance, 0, most_imbalance));
  c.options.push_back(number_option("", "--seed", "N", "seed of the random choices (1)", task.options.seed, 0,
                                    ~std::uint64_t{0}));
  c.options.push_back({"",
                       "--out",
                       "ORDER",
                       "a file name, or -",
                       "write the position of each node to this file, one per line; - is stdout",
                       [&](auto text) { return !(task.out.path = text).empty(); },
                       {.what = file_use::kind::written, .form = order_form}});
  c.options.push_back({"", "--first-node", "0|1", "0 or 1", "number of the first node in a list of edges (0)",
                       [&](auto text) {
                         return read_number(text, task.reading.first_node, std::uint64_t{0},
                                            std::uint64_t{1});
                       }});
  add_format_option(c, task.graph, undirected_among_formats);
  c.options.push_back(json_flag(task.as_json));
}

std::string separators_text(std::vector<std::size_t> const& sizes) {
  if (sizes.empty()) return "none";
  std::string text = cleave::count_text(sizes.size()) + ", of ";
  for (std::size_t i = 0; i < sizes.size() && i < 5; ++i)
    text += (i > 0 ? ", " : "") + cleave::count_text(sizes[i]);
  return text + (sizes.size() > 5 ? ", …" : "") + " nodes";
}

int order_graph(order_task const& task) {
  progress const doing;
  doing("reading " + task.graph.name());
  partition_clock clock;
  auto const g = read_graph_of<std::uint32_t>(task.graph, task.reading);
  clock.has_read();
  doing("ordering");
  auto const found = cleave::nested_dissection(g.view(), task.options);
  auto const took = clock.times();
  doing("counting the entries of the factor");
  auto const size = cleave::cholesky_fill(g.view(), found.order);
  doing.clear();
  fact_sheet told(task.graph.file, {{"node", g.view().nodes()}, {"edge", g.view().directed_edges() / 2}});
  told.line("factor",
            cleave::count_text(size.nonzeros) + " entries, " + cleave::short_text(size.flops) + " flops");
  told.json().key("factor").open_object().member("entries", size.nonzeros);
  told.json().member("flops", size.flops).close_object();
  told.line("separators", separators_text(found.separator_sizes));
  told.list("separators", found.separator_sizes);
  took.add_to(told);
  std::string positions;
  for (auto const at : found.position) positions += std::to_string(at) + '\n';
  if (!task.out.empty()) write_file(task.out, positions);
  told.written(task.out);
  told.print_as(task.as_json);
  return 0;
}

}  // namespace

int order(std::span<std::string const> words) {
  order_task task;
  command c{"order",
            "FILE",
            "Orders the rows and columns of a symmetric sparse matrix by nested dissection, so that its\n"
            "Cholesky factor has few entries. Reports the size of the factor. FILE is Matrix Market (.mtx),\n"
            "METIS (.graph), an edge list (.edges, .txt) or DIMACS (.dimacs, .col, .gr). FILE - is\n"
            "standard input, whose content tells its format.",
            {}};
  add_options(c, task);
  auto const operands = read_options(c, words).operands;
  if (operands.empty())
    throw usage_error("a graph file is missing, as in cleave order matrix.mtx --out order");
  if (operands.size() > 1)
    throw usage_error("one graph at a time; found a second operand: " + cleave::printable(operands[1]));
  task.graph.file = operands[0];
  task.graph.find_format();
  return order_graph(task);
}

}  // namespace tool
