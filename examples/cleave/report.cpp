// SPDX-License-Identifier: MIT
// cleave report RUNS.csv ... --out report.html: shows bench results as tables and pictures.
#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/draw/markup_writer.hpp>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench_changes.hpp"
#include "bench_json.hpp"
#include "bench_page.hpp"
#include "bench_plots.hpp"
#include "bench_row.hpp"
#include "bench_sections.hpp"
#include "bench_summary.hpp"
#include "files.hpp"
#include "options.hpp"
#include "own_files.hpp"
#include "subcommands.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

struct report_options {
  output_file page, profile, times;
  std::vector<std::string> baselines, recorded;
  std::optional<bench_metric> metric;
  std::optional<double> most_growth;  ///< in percent
  bool as_markdown = false, as_json = false;
};

command command_of(report_options& o) {
  command c{"report",
            "RUNS.csv [MORE.csv ...]",
            "Compares the algorithms in the tables that cleave bench and bench/peers write. Graphs and\n"
            "hypergraphs have sections of their own. A table named - is standard input.",
            {}};
  auto const file = [&](std::string const& letter, std::string const& name, std::string const& help,
                        output_file& to) {
    c.options.push_back(file_to_write(letter, name, help, to, is_own_page));
  };
  file("-o", "--out", "write a self-contained HTML page", o.page);
  file("", "--profile-svg", "write the performance profile of the cuts", o.profile);
  file("", "--times-svg", "write the plot of time and cut", o.times);
  c.options.push_back({"", "--baseline", "NAME,...", "algorithms",
                       "compare with the first of these that was run (metis,cleave-slices)",
                       [&](auto text) { return !(o.baselines = names_in(text)).empty(); }});
  c.options.push_back({"",
                       "--against",
                       "FILE",
                       "a file name",
                       "show what is worse or better than in this table of a recorded run; may be repeated",
                       [&](auto text) { return !o.recorded.emplace_back(text).empty(); },
                       {.what = file_use::kind::read, .repeats = true}});
  c.options.push_back({"", "--fail-if-worse", "X", "a percentage from 0 to 1e9",
                       "with --against: exit with 1 if a cut grew by more than X %, or an answer was lost",
                       [&](auto text) { return read_number(text, o.most_growth.emplace(), 0.0, 1e9); }});
  c.options.push_back(choice_option("--metric", "NAME", bench_metric_names, "show only this metric",
                                    [&](std::size_t at) { o.metric = static_cast<bench_metric>(at); }));
  c.options.push_back(form_flag("--markdown", "print all tables as Markdown", o.as_markdown));
  c.options.push_back(json_flag(o.as_json));
  return c;
}

std::vector<bench_row> read_rows(std::vector<std::string> const& files) {
  std::vector<bench_row> rows;
  for (auto const& file : files) {
    auto const text = read_text(file);
    auto const more = csv_reader(text, input_name(file)).read();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

/// \throws usage_error if a baseline is in no section
void require_baselines(std::vector<bench_section> const& sections, std::vector<std::string> const& asked) {
  std::vector<std::string> names;
  for (auto const& s : sections)
    names.insert(names.end(), s.summary.algorithms().begin(), s.summary.algorithms().end());
  for (auto const& name : asked)
    if (std::ranges::find(names, name) == names.end())
      throw usage_error("no row of the tables has the algorithm " + cleave::printable(name) +
                        suggestion(name, names));
}

template <class Plot>
std::string svg_of(bench_summary const& s) {
  cleave::markup_writer to;
  Plot(to, s).write();
  return to.str();
}

}  // namespace

int report(std::span<std::string const> words) {
  report_options o;
  auto const typed = read_options(command_of(o), words);
  if (typed.operands.empty()) throw usage_error("a table is missing, as in cleave report RUNS.csv");
  if (o.most_growth && o.recorded.empty())
    throw usage_error("--fail-if-worse needs the recorded table that --against names");
  if (o.as_json && o.as_markdown)
    throw usage_error("--json and --markdown exclude each other; leave out one");
  auto const rows = read_rows(typed.operands);
  if (rows.empty())
    throw cleave::error(input_name(typed.operands[0]) + ": the table has a header but no rows");
  auto sections = sections_of(rows, o.baselines);
  require_baselines(sections, o.baselines);
  if (o.metric) std::erase_if(sections, [&](auto const& s) { return s.metric != *o.metric; });
  if (sections.empty())
    throw cleave::error("no row has the metric " + std::string(name_of(*o.metric)) + "; leave out --metric");
  auto const recorded = read_rows(o.recorded);
  for (auto& s : sections)
    if (!o.recorded.empty()) s.changes = changes_since(s.summary, s.rows, recorded);
  if (sections.size() > 1 && !(o.profile.empty() && o.times.empty()))
    note("the pictures show graphs; choose others with --metric");
  auto const& first = sections.front().summary;
  if (!o.page.empty()) write_page(o.page, write_bench_page(sections));
  if (!o.profile.empty()) write_page(o.profile, svg_of<profile_plot>(first));
  if (!o.times.empty()) write_page(o.times, svg_of<time_plot>(first));
  if (o.as_json) {
    cleave::json::writer json(cleave::json::writer::layout::indented);
    json.open_object();
    write_sections(json, sections);
    print(json.close_object().text() + "\n");
  } else {
    print(text_of(sections, o.as_markdown));
  }
  if (!o.as_markdown && !o.as_json)
    for (auto const& written : {o.page, o.profile, o.times}) print(written_line(written));
  auto const is_too_much = [&](auto const& c) { return c.worse_by(*o.most_growth / 100) > 0; };
  return o.most_growth && std::ranges::any_of(changes_of(sections), is_too_much) ? 1 : 0;
}

}  // namespace tool
