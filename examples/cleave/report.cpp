// SPDX-License-Identifier: MIT
// cleave report RUNS.csv ... --out report.html: shows bench results as tables and pictures.
#include <cleave/core/printable.hpp>
#include <cleave/draw/markup_writer.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench_page.hpp"
#include "bench_plots.hpp"
#include "bench_row.hpp"
#include "bench_summary.hpp"
#include "bench_tables.hpp"
#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

struct report_files {
  output_file page, profile, times;
};

/// Returns the baselines: the algorithms given; else METIS and, for DAGs, cleave-slices; else the first
/// algorithm.
std::vector<std::size_t> baselines_of(bench_summary const& s, std::vector<std::string> const& asked) {
  std::vector<std::size_t> found;
  for (auto const& name : asked.empty() ? std::vector<std::string>{"metis", "cleave-slices"} : asked) {
    if (auto const at = s.find_algorithm(name))
      found.push_back(*at);
    else if (!asked.empty())
      throw usage_error("no row of the tables has the algorithm " + cleave::printable(name) +
                        suggestion(name, s.algorithms()));
  }
  return found.empty() ? std::vector<std::size_t>{0} : found;
}

template <class Plot>
std::string svg_of(bench_summary const& s) {
  cleave::markup_writer to;
  Plot(to, s).write();
  return to.str();
}

}  // namespace

int report(std::span<std::string const> words) {
  report_files out;
  std::vector<std::string> baselines;
  bool as_markdown = false;
  command c{"report",
            "RUNS.csv [MORE.csv ...]",
            "Compares the algorithms in the tables that cleave bench and bench/peers write.",
            {}};
  auto const file = [&](std::string const& letter, std::string const& name, std::string const& help,
                        output_file& to) {
    c.options.push_back(file_to_write(letter, name, help, to, is_own_page));
  };
  file("-o", "--out", "write a self-contained HTML page", out.page);
  file("", "--profile-svg", "write the performance profile", out.profile);
  file("", "--times-svg", "write the plot of time and cut", out.times);
  c.options.push_back({"", "--baseline", "NAME,...", "algorithms",
                       "compare with the first of these that was run (metis,cleave-slices)",
                       [&](auto text) { return !(baselines = names_in(text)).empty(); }});
  c.options.push_back(flag("--markdown", "print all tables as Markdown", as_markdown));
  auto const operands = read_options(c, words).operands;
  if (operands.empty()) throw usage_error("a table is missing, as in cleave report RUNS.csv");

  std::vector<bench_row> rows;
  for (auto const& path : operands) {
    auto const text = read_text(path);
    auto const more = csv_reader(text, path).read();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (rows.empty())
    throw cleave::error(cleave::printable(operands[0], 200) + ": the table has a header but no rows");
  bench_summary s(rows);
  s.compare_with(baselines_of(s, baselines));
  if (!out.page.empty()) write_page(out.page, write_bench_page(s, rows.size()));
  if (!out.profile.empty()) write_page(out.profile, svg_of<profile_plot>(s));
  if (!out.times.empty()) write_page(out.times, svg_of<time_plot>(s));
  print(as_markdown ? markdown_of(s) : terminal_table(s));
  if (as_markdown) return 0;
  for (auto const& written : {out.page, out.profile, out.times})
    if (!written.empty()) print("  " + shown(written.path) + "\n");
  return 0;
}

}  // namespace tool
