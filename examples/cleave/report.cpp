// SPDX-License-Identifier: MIT
// cleave report RUNS.csv ... --out report.html: what a bench of partitioners found, as tables and pictures.
#include <cleave/core/printable.hpp>
#include <cleave/io/markup_writer.hpp>
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
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

struct report_files {
  std::string page, profile, times;
};

/// The algorithm that others are compared with: the one asked for, or METIS, or the first.
std::size_t baseline_of(bench_summary const& s, std::string const& asked) {
  if (auto const found = s.find_algorithm(asked.empty() ? "metis" : asked)) return *found;
  if (asked.empty()) return 0;
  throw usage_error("no row is of " + cleave::printable(asked) + suggestion(asked, s.algorithms()));
}

template <class Plot, class... Base>
std::string svg_of(bench_summary const& s, Base... base) {
  cleave::markup_writer to;
  Plot(to, s, base...).write();
  return to.str();
}

}  // namespace

int report(std::span<std::string const> words) {
  report_files out;
  std::string baseline;
  bool as_markdown = false;
  command c{"report",
            "RUNS.csv [MORE.csv ...]",
            "Compares algorithms by the tables that cleave bench and bench/peers write.",
            {}};
  auto const file = [&](std::string const& name, std::string const& help, std::string& to) {
    c.options.push_back({name == "--out" ? "-o" : "", name, "FILE", "a file name", help,
                         [&to](auto text) { return !(to = text).empty(); }});
  };
  file("--out", "write a self-contained HTML page", out.page);
  file("--profile-svg", "write the performance profile", out.profile);
  file("--times-svg", "write the picture of time and cut", out.times);
  c.options.push_back({"", "--baseline", "NAME", "an algorithm",
                       "compare with this one (else metis, or the first)",
                       [&](auto text) { return !(baseline = text).empty(); }});
  c.options.push_back(flag("--markdown", "print all tables as Markdown", as_markdown));
  auto const operands = read_options(c, words);
  if (operands.empty()) throw usage_error("a table is missing: cleave report RUNS.csv");

  std::vector<bench_row> rows;
  for (auto const& path : operands) {
    auto const text = read_text(path);
    auto const more = csv_reader(text, path).read();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  if (rows.empty()) throw cleave::error(cleave::printable(operands[0], 200) + ": a header and no rows");
  bench_summary const s(rows);
  auto const base = baseline_of(s, baseline);
  if (!out.page.empty()) write_file(out.page, write_bench_page(s, base, rows.size()));
  if (!out.profile.empty()) write_file(out.profile, svg_of<profile_plot>(s));
  if (!out.times.empty()) write_file(out.times, svg_of<time_plot>(s, base));
  print(as_markdown ? markdown_of(s, base) : terminal_table(s, base));
  if (as_markdown) return 0;
  for (auto const& written : {out.page, out.profile, out.times})
    if (!written.empty()) print("  " + shown(written) + "\n");
  return 0;
}

}  // namespace tool
