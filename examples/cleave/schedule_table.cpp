// SPDX-License-Identifier: MIT
// The table of all schedules: `cleave schedule all`, and docs/schedules.md.
#include "schedule_table.hpp"

#include <algorithm>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/timed_schedule.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/schedule/families/generate.hpp>
#include <cleave/schedule/model/simulate_options.hpp>
#include <cleave/schedule/simulate/simulate.hpp>
#include <string>
#include <vector>

#include "schedule_facts.hpp"
#include "schedule_run.hpp"
#include "terminal.hpp"

namespace tool {

namespace {

/// One row of the table. In each schedule, a rank works equally long for a microbatch: F, I and W of all its
/// stages take 1 each. Kept activations are counted in shares of 1 / p of the model.
struct compared_schedule {
  schedule_facts const& facts;
  cleave::schedule_shape shape;
  std::string refused = {};
  double time = 0, bubble = 0, share = 0, kept = 0;
  std::uint64_t messages = 0, copies = 1;
};

compared_schedule compared(schedule_facts const& facts, table_counts const& counts) {
  auto const stages = cleave::stages_per_rank_of(facts.family).value_or(counts.stages_per_rank.value_or(2));
  compared_schedule row{facts, {counts.ranks, stages, counts.microbatches}};
  try {
    auto const s = cleave::make_schedule(facts.family, row.shape);
    auto const cost = common_cost(s.place);
    auto const times = cleave::simulate(s, {.costs = {cost}});
    row.time = times.makespan;
    row.share = cleave::bubble_rate(times);
    row.bubble = times.makespan * row.share;
    for (auto const& kept : times.most_kept)
      if (facts.family != cleave::schedule_family::forward_only)
        row.kept = std::max(row.kept, cost.forward * static_cast<double>(kept.passes));
    row.messages = cleave::count_messages(s);
    row.copies = copies_in(s.place);
  } catch (cleave::shape_error const& e) {
    row.refused = describe(e.witness);
  }
  return row;
}

std::string published(compared_schedule const& row) {
  if (row.facts.bubble.empty()) return "";
  auto const formula = std::string(row.facts.bubble);
  return formula + " = " + cleave::decimal_text(row.facts.bubble_time(row.shape), 2);
}

/// Returns the cells of a row. For refused counts, one cell gives the reason.
std::vector<std::string> cells(compared_schedule const& row) {
  std::vector<std::string> list = {std::string(name_of(row.facts.family)),
                                   std::to_string(row.shape.stages_per_rank)};
  if (!row.refused.empty()) {
    list.insert(list.end(), {"", "", "", "", "", "", "", "no: " + row.refused});
    return list;
  }
  list.insert(list.end(),
              {cleave::decimal_text(row.time, 2), cleave::decimal_text(row.bubble, 2), published(row),
               cleave::percent_text(row.share), cleave::decimal_text(row.kept, 2), std::to_string(row.copies),
               cleave::count_text(row.messages), std::string(row.facts.takes)});
  return list;
}

/// Returns the Markdown anchor of a heading.
std::string anchor(std::string const& name) {
  std::string text;
  for (char const c : name) text += cleave::lower_case(c);
  return text;
}

std::vector<std::string> const heading = {"schedule", "stages a rank", "time",    "bubble",   "published",
                                          "share",    "kept",          "weights", "messages", "takes"};

}  // namespace

std::string schedule_names_text() {
  std::string text;
  for (auto const& facts : all_schedule_facts) {
    auto const name = std::string(name_of(facts.family));
    text += "  " + bold(name) + std::string(22 - name.size(), ' ') + std::string(facts.about) + "\n" +
            std::string(24, ' ') + "p ranks, v stages a rank, m microbatches: " + std::string(facts.takes) +
            (facts.origin.empty() ? "" : ". " + std::string(facts.origin)) + "\n";
  }
  return text;
}

std::string schedule_names_json() {
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().key("schedules").open_array();
  for (auto const& facts : all_schedule_facts) {
    json.open_object().member("schedule", name_of(facts.family)).member("about", facts.about);
    json.member("takes", facts.takes).member("origin", facts.origin).close_object();
  }
  return json.close_array().close_object().text() + "\n";
}

std::string schedule_table_json(table_counts const& counts) {
  cleave::json::writer json(cleave::json::writer::layout::indented);
  json.open_object().member("ranks", counts.ranks).member("microbatches", counts.microbatches);
  json.member("time_unit", common_unit).key("schedules").open_array();
  for (auto const& facts : all_schedule_facts) {
    auto const row = compared(facts, counts);
    json.open_object().member("schedule", name_of(facts.family));
    json.member("stages_a_rank", row.shape.stages_per_rank);
    if (row.refused.empty()) {
      json.member("time", row.time).member("bubble", row.bubble).key("published");
      facts.bubble.empty() ? json.null() : json.value(facts.bubble_time(row.shape));
      json.member("share", row.share).member("kept", row.kept).member("weights", row.copies);
      json.member("messages", row.messages).member("takes", facts.takes);
    } else {
      json.member("refused", row.refused);
    }
    json.close_object();
  }
  return json.close_array().close_object().text() + "\n";
}

std::string schedule_table_text(table_counts const& counts) {
  std::vector<std::vector<std::string>> rows = {heading};
  for (auto const& facts : all_schedule_facts) rows.push_back(cells(compared(facts, counts)));
  return bold(plural(counts.ranks, "rank") + ", " + plural(counts.microbatches, "microbatch")) + "\n" +
         table_text(rows) +
         "\n  Times are in F: what F of a rank's stages takes for a microbatch; I and W take as long, a\n"
         "  message nothing. bubble: how long a rank computes nothing, on average, and which share of the\n"
         "  step that is. kept: the most forward passes that a rank keeps, each of 1/p of the model.\n"
         "  weights: how often they are there.\n";
}

std::string schedule_table_markdown(table_counts const& counts, std::string const& pictures) {
  auto const line = [](std::vector<std::string> const& list) {
    std::string text = "|";
    for (auto const& cell : list) text += ' ' + cell + " |";
    return text + '\n';
  };
  auto text = "\n" + line(heading) + "|---|";
  for (std::size_t i = 2; i < heading.size(); ++i) text += "---:|";
  text += "---|\n";
  for (auto const& facts : all_schedule_facts) {
    auto list = cells(compared(facts, counts));
    list[0] = "[" + list[0] + "](#" + anchor(list[0]) + ")";
    text += line(list);
  }
  for (auto const& facts : all_schedule_facts) {
    auto const name = std::string(name_of(facts.family));
    text.append("\n### ").append(name).append("\n\n").append(facts.about);
    if (!facts.origin.empty()) text.append(" ").append(facts.origin).append(".");
    text.append("\n\n![").append(name).append("](").append(pictures).append("/").append(name).append(
        ".svg)\n");
  }
  return text + "\n";
}

}  // namespace tool
