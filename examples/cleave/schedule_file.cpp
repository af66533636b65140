// SPDX-License-Identifier: MIT
// Schedules in files, for `cleave verify` and `cleave simulate`.
#include "schedule_file.hpp"

#include <algorithm>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/schedule_json.hpp>
#include <cleave/schedule/text/listed_schedule.hpp>
#include <cleave/schedule/text/schedule_csv.hpp>
#include <cstdint>
#include <string>
#include <utility>

namespace tool {

void add_count_options(command& c, cleave::row_counts& to) {
  auto const add = [&](std::string const& letter, std::string const& name, std::uint32_t& count) {
    c.options.push_back(number_option(letter, "--" + name, "N", "number of " + name + " (as in the file)",
                                      count, 1, most_count));
  };
  add("-p", "ranks", to.ranks);
  add("", "stages", to.stages);
  add("-m", "microbatches", to.microbatches);
}

fs::path only_schedule(std::vector<std::string> const& operands) {
  if (operands.empty()) throw usage_error("a schedule is missing; name FILE.csv or FILE.json");
  if (operands.size() > 1)
    throw usage_error("one schedule at a time; found a second operand: '" + cleave::printable(operands[1]) +
                      "'");
  return operands[0];
}

schedule_file read_schedule(fs::path const& path, cleave::row_counts const& counts) {
  auto const file = input_name(path);
  auto text = read_text(path);
  bool const is_csv = is_standard(path) ? !begins_as_json(text) : path.extension() != ".json";
  try {
    auto found = is_csv ? schedule_file{path, cleave::listed_schedule(cleave::read_csv_rows(text), counts)}
                        : schedule_file{path, cleave::read_schedule_json(std::move(text)), false};
    if (std::ranges::all_of(found.order.ranks, [](auto const& row) { return row.empty(); }))
      throw cleave::error(file + ": there is no action in it; a schedule has a row of actions for each rank");
    return found;
  } catch (cleave::cell_error const& e) {
    auto const sentence = describe(e.witness);  // begins with row and column from 0
    throw cleave::error(file + ":" + std::to_string(e.witness.row + 1) + ":" +
                        std::to_string(e.witness.column + 1) + sentence.substr(sentence.find(": ")));
  } catch (cleave::json::error const& e) {
    throw cleave::error(file + ": " + e.what());
  }
}

std::string csv_of(cleave::schedule const& s) {
  if (s.place.edges != cleave::chain_edges(s.place.stages()))
    throw usage_error("CSV can only hold stages that form a single chain; write JSON");
  return cleave::schedule_csv(s);
}

void write_schedule_file(output_file const& to, cleave::schedule const& order) {
  if (fs::path(to.path).extension() != ".json") return write_file(to, csv_of(order));
  cleave::json::writer json;
  json.open_object();
  write_schedule_members(json, order);
  write_file(to, json.close_object().text() + "\n");
}

file_place place_of(cleave::schedule const& order, cleave::schedule_fault const& f) {
  auto const r = std::size_t{index(f.rank)};
  bool const about_all = f.at == cleave::action{};
  if (about_all || r >= order.ranks.size()) return {};
  auto const& row = order.ranks[r];
  auto position = f.position;
  bool const repeated = f.what == cleave::schedule_fault::kind::repeated;
  if (repeated || position >= row.size() || !(row[position] == f.at))  // some faults name only the action
    position = static_cast<std::size_t>(std::find(row.rbegin(), row.rend(), f.at).base() - row.begin()) - 1;
  if (position >= row.size()) return {r + 1, 0};
  std::size_t cell = 0, seen = 0;
  each_cell(row, [&](cleave::action const&, auto const& parts) {
    if (seen <= position) ++cell;
    seen += 1 + parts.size();
  });
  return {r + 1, cell};
}

std::string place_text(schedule_file const& file, file_place const& at) {
  auto text = input_name(file.path);
  if (at.line == 0) return text;
  text += file.is_csv ? ":" + std::to_string(at.line) : ", rank " + std::to_string(at.line - 1);
  if (at.cell > 0) text += (file.is_csv ? ":" : ", cell ") + std::to_string(at.cell);
  return text;
}

std::string sentence_of(cleave::schedule_fault const& f) {
  auto const whole = describe(f);
  auto const place = "rank " + std::to_string(index(f.rank)) + ", action #";
  return whole.starts_with(place) ? whole.substr(whole.find(": ") + 2) : whole;
}

}  // namespace tool
