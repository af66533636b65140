// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

namespace cleave::inline v0_2 {

/// Writes the members of a schedule into the object that is open. O(actions).
inline void write_schedule_members(json::writer& to, schedule const& s) {
  to.member("ranks", s.place.ranks).member("microbatches", s.microbatches).key("rank_of").open_array();
  for (auto const r : s.place.rank_of) to.value(index(r));
  to.close_array().key("edges").open_array();
  for (auto const& e : s.place.edges) to.open_array().value(index(e.from)).value(index(e.to)).close_array();
  to.close_array().key("rows").open_array();
  for (auto const& row : s.ranks) to.value(row_text(row));
  to.close_array();
}

/// Returns a schedule and its times as one JSON object:
///
///     name, time_unit
///     ranks, microbatches     counts
///     rank_of                 rank of each stage
///     edges                   [from, to] of stages
///     rows                    list of each rank in PyTorch's text, cells separated by commas
///     makespan, bubble, messages
///     busy, first, last       one number for each rank
///     spans                   [begin, end] of each action in the list of each rank; a compound is followed
///                             by its parts
///     memory_unit             "passes" or "bytes"
///     memory                  [time, amount] of each change on each rank, if known
///
/// O(actions).
inline std::string schedule_json(timed_schedule const& t) {
  json::writer to;
  auto const list = [&](std::string_view key, std::vector<double> const& numbers) {
    to.key(key).open_array();
    for (double const x : numbers) to.value(x);
    to.close_array();
  };
  to.open_object().member("name", t.name).member("time_unit", t.time_unit);
  write_schedule_members(to, t.order);
  to.member("makespan", t.times.makespan).member("bubble", bubble_rate(t.times));
  to.member("messages", count_messages(t.order));
  list("busy", t.times.busy);
  list("first", t.times.first);
  list("last", t.times.last);
  to.key("spans").open_array();
  for (auto const& row : t.times.spans) {
    to.open_array();
    for (auto const& span : row) to.open_array().value(span.begin).value(span.end).close_array();
    to.close_array();
  }
  to.close_array().member("memory_unit", t.memory_unit == timed_schedule::unit::bytes ? "bytes" : "passes");
  to.key("memory").open_array();
  for (auto const& steps : t.memory) {
    to.open_array();
    for (auto const& step : steps) to.open_array().value(step.time).value(step.bytes).close_array();
    to.close_array();
  }
  return to.close_array().close_object().text();
}

/// Reads a schedule from a JSON object with `ranks`, `microbatches`, `rank_of`, `edges` and `rows`. Other
/// members are ignored. Use `schedule_faults` to check that the schedule can run. O(size of the text).
/// \throws json::error with line, column and path, also for a cell that is not an action
inline schedule read_schedule_json(std::string text) {
  detail::json_document const document(std::move(text));
  detail::json_value const all(document);
  schedule s;
  s.place.ranks = all["ranks"].integer<std::uint32_t>();
  s.microbatches = all["microbatches"].integer<std::uint32_t>();
  all["rank_of"].each_element(
      [&](detail::json_value const& v) { s.place.rank_of.push_back(rank_id{v.integer<std::uint32_t>()}); });
  all["edges"].each_element([&](detail::json_value const& v) {
    std::vector<stage_id> ends;
    v.each_element(
        [&](detail::json_value const& end) { ends.push_back(stage_id{end.integer<std::uint32_t>()}); });
    if (ends.size() != 2) v.fail("an edge is a list of two stages");
    s.place.edges.push_back({ends[0], ends[1]});
  });
  all["rows"].each_element([&](detail::json_value const& v) {
    try {
      s.ranks.push_back(read_row(v.text(), s.ranks.size()));
    } catch (cell_error const& e) {
      v.fail(e.what());
    }
  });
  return s;
}
}  // namespace cleave
