// SPDX-License-Identifier: MIT
// Simulation and output of a schedule, for `cleave schedule` and `cleave simulate`.
#include "schedule_run.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/draw/schedule_chart.hpp>
#include <cleave/draw/schedule_page.hpp>
#include <cleave/draw/schedule_svg.hpp>
#include <cleave/draw/schedule_trace.hpp>
#include <cleave/formats/cost_table.hpp>
#include <cleave/formats/schedule_json.hpp>
#include <cleave/graph/disjoint_sets.hpp>
#include <cleave/schedule/lower/lower.hpp>
#include <cleave/schedule/simulate/critical_path.hpp>
#include <cleave/schedule/simulate/memory_over_time.hpp>
#include <cleave/schedule/simulate/simulate.hpp>
#include <string>
#include <utility>
#include <vector>

#include "files.hpp"
#include "own_files.hpp"
#include "schedule_file.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

/// Browsers can still show this many bars, slowly.
constexpr std::size_t most_bars = 500'000;

cleave::cost_table costs_of(time_options const& options) {
  if (options.costs.empty()) return {};
  try {
    return cleave::read_costs(read_text(options.costs));
  } catch (cleave::json::error const& e) {
    throw cleave::error(input_name(options.costs) + ": " + e.what());
  } catch (cleave::cost_line_error const& e) {
    throw cleave::error(input_name(options.costs) + ": " + e.what());
  }
}

/// No colours and 100 columns if stdout is not a terminal.
cleave::schedule_chart_options chart_options(bool in_file) {
  cleave::schedule_chart_options options;
  if (in_file || isatty(STDOUT_FILENO) == 0) return options;
  if (!bold("").empty()) options.colours = cleave::schedule_chart_options::ink::ansi;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.columns = size.ws_col;
  return options;
}

std::string table_of(cleave::timed_schedule const& t) {
  std::vector<std::vector<std::string>> rows = {{"rank", "stages", "computes", "bubble", "begins", "ends"}};
  if (!t.memory.empty()) rows[0].push_back("memory");
  for (std::size_t r = 0; r < t.order.ranks.size(); ++r) {
    std::string stages;
    for (std::size_t s = 0; s < t.order.place.rank_of.size(); ++s)
      if (index(t.order.place.rank_of[s]) == r) stages += (stages.empty() ? "" : ",") + std::to_string(s);
    rows.push_back({std::to_string(r), cleave::printable(stages, 24), cleave::time_text(t, t.times.busy[r]),
                    cleave::percent_text(1 - t.times.busy[r] / cleave::drawn_time(t.times)),
                    cleave::time_text(t, t.times.first[r]), cleave::time_text(t, t.times.last[r])});
    if (!t.memory.empty()) rows.back().push_back(cleave::memory_text(t, cleave::most_memory(t.memory[r])));
  }
  return table_text(rows);
}

std::string small_letters_text(cleave::timed_schedule const& t) {
  auto const local = cleave::local_numbers(t.order.place);
  auto const several = std::ranges::any_of(local, [](auto number) { return number > 0; });
  return several ? "\nsmall letters: every second stage of a rank\n" : "";
}

std::string text_of(cleave::timed_schedule const& t, bool in_file) {
  return (in_file ? t.name : bold(t.name)) + ": " + plural(t.order.ranks.size(), "rank") + ", " +
         plural(t.order.place.stages(), "stage") + ", " + plural(t.order.microbatches, "microbatch") +
         "\n  the step takes " + cleave::time_text(t, t.times.makespan) + ", bubble " +
         cleave::percent_text(cleave::bubble_rate(t.times)) + ", " +
         plural(cleave::count_messages(t.order), "message") + "\n" +
         (t.time_unit == common_unit
              ? "  1\u00a0F is what F of a rank's stages takes for a microbatch; I and W take as long\n\n"
              : "\n") +
         cleave::schedule_chart(t, chart_options(in_file)) + small_letters_text(t) + "\n" + table_of(t);
}

std::string written(schedule_run const& run, schedule_output const& to) {
  using enum schedule_output::form;
  auto const t = run.shown();
  auto const form = to.asked.value_or(text);
  switch (form) {
    case svg:
      return cleave::schedule_svg(t, {.bars = to.plain ? cleave::schedule_svg_options::detail::plain
                                                       : cleave::schedule_svg_options::detail::hover});
    case html:
      return cleave::schedule_page(t);
    case trace:
      return cleave::schedule_trace(t) + "\n";
    case csv:
      return csv_of(run.order);
    case json:
      return cleave::schedule_json(t) + "\n";
    case text:
      break;
  }
  return text_of(t, !to.file.empty());
}

}  // namespace

std::uint32_t copies_in(cleave::stage_placement const& place) {
  cleave::disjoint_sets<std::uint32_t> sets(place.stages());
  for (auto const& e : place.edges) sets.join(index(e.from), index(e.to));
  std::uint32_t copies = 0;
  for (std::uint32_t s = 0; s < place.stages(); ++s) copies += sets[s] == s;
  return copies;
}

cleave::stage_cost common_cost(cleave::stage_placement const& place) {
  double const share = static_cast<double>(place.ranks) * copies_in(place) / std::max(1u, place.stages());
  return {share, 2 * share, share, share, share};
}

void add_time_options(command& c, time_options& to) {
  c.options.push_back(
      file_to_read("--costs", "FILE", "times, bytes and links (format: docs/schedules.md)", to.costs));
  c.options.push_back(
      {"", "--hop", "TIME", "a time from 0 to 1e100", "time of each message between ranks (0)",
       [&to](auto text) { return read_number(text, to.base_latency.emplace(), 0.0, 1e100); }});
  c.options.push_back(flag("--overlap", "a compound takes the time of its longest action", to.overlap));
  c.options.push_back({"", "--jitter", "SHARE", "a share from 0 to 1",
                       "largest relative variation of times (0)",
                       [&to](auto text) { return read_number(text, to.noise, 0.0, 1.0); }});
  c.options.push_back(
      number_option("", "--seed", "N", "seed of the jitter (0)", to.seed, 0, ~std::uint64_t{0}));
}

schedule_run run_in_time(std::string const& name, cleave::schedule order, time_options const& options) {
  auto costs = costs_of(options);
  if (costs.stages.empty()) {
    costs.stages = {common_cost(order.place)};
    if (costs.unit.empty()) costs.unit = common_unit;
  }
  costs.unit = cleave::printable(costs.unit, 40);
  auto timing = cleave::simulate_options_of(costs, order.place);
  if (options.base_latency) timing.base_latency = *options.base_latency;
  if (options.overlap) timing.compounds = cleave::compound_time::longest_part;
  timing.noise = options.noise;
  timing.seed = options.seed;
  auto times = cleave::simulate(order, timing);
  bool const in_bytes = !costs.bytes.stages.empty();
  std::vector<std::vector<cleave::memory_step>> memory;
  if (cleave::passes_of(order) ==
      cleave::expected_passes::forward_and_backward)  // without backward passes nothing is kept
    memory = cleave::memory_over_time(order, times, in_bytes ? costs.bytes : cleave::schedule_bytes{});
  std::vector<cleave::action_place> critical;
  for (auto const& step : cleave::critical_path(order, times))
    critical.push_back({step.rank, static_cast<std::uint32_t>(step.position)});
  using enum cleave::timed_schedule::unit;
  return {name,
          std::move(order),
          std::move(times),
          costs.unit,
          in_bytes ? bytes : passes,
          std::move(memory),
          std::move(critical)};
}

void add_output_options(command& c, schedule_output& to) {
  using enum schedule_output::form;
  auto const add = [&](std::string const& name, schedule_output::form form, std::string const& help) {
    c.options.push_back({"", name, "", "", help, [&to, form, name](std::string_view) {
                           if (to.asked && *to.asked != form)
                             throw usage_error("one output form at a time; leave out " + name +
                                               " or the other one");
                           to.asked = form;
                           return true;
                         }});
  };
  add("--text", text, "text for the terminal (default)");
  add("--svg", svg, "picture in SVG");
  add("--html", html, "self-contained HTML page with the picture and a table");
  add("--trace", trace, "trace for Perfetto and Chrome");
  add("--csv", csv, "PyTorch's CSV");
  add("--json", json, "all data as one JSON object");
  c.options.push_back(flag("--plain", "for --svg: smaller file, without tooltips", to.plain));
  c.options.push_back(answer_to_write("-o", "--out", "write to this file instead of stdout", to.file,
                                      is_own_schedule_output, schedule_form));
}

void write_run(schedule_run const& run, schedule_output const& to) {
  auto const text = written(run, to);
  if (to.file.empty()) return print(text);
  bool const marked = to.asked == schedule_output::form::svg || to.asked == schedule_output::form::html;
  marked ? write_page(to.file, text) : write_file(to.file, text);
  print("  " + shown(to.file.path) + "\n");
}

void require_drawable(cleave::schedule const& order, schedule_output const& to) {
  std::size_t actions = 0;
  for (auto const& row : order.ranks) actions += row.size();
  bool const picture = to.asked == schedule_output::form::svg || to.asked == schedule_output::form::html;
  if (picture && actions > most_bars)
    throw usage_error("a picture of " + std::to_string(actions) + " actions is too large; the limit is " +
                      std::to_string(most_bars) +
                      "; take fewer microbatches, stages or ranks, or --csv, --json or --trace");
}

void require_memory(std::uint64_t actions) {
  constexpr std::uint64_t bytes_each = 400;  // for the actions, their times and their text
  auto const pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || page <= 0) return;
  auto const there = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) / 2;
  if (actions > there / bytes_each)
    throw usage_error("about " + std::to_string(actions) +
                      " actions need more than half of this machine's memory, " +
                      cleave::format_bytes(there) + "; take fewer microbatches, stages or ranks");
}

}  // namespace tool
