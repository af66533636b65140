// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/text/layer_layout.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "conformance_runner/outcome.hpp"

/// Compares the text of actions, grids, names and stage maps with their recordings.
namespace cleave::conformance {

using namespace detail;
namespace {

json write_action(action const& a, std::span<action const> parts) {
  if (a.kind == action_kind::idle) return nullptr;
  json j = {{"stage", a.stage == no_stage ? json(-1) : json(index(a.stage))},
            {"type", std::string(name_of(a.kind))},
            {"microbatch", a.microbatch == no_microbatch ? json(nullptr) : json(index(a.microbatch))}};
  for (auto const& part : parts) j["parts"].push_back(write_action(part, {}));
  return j;
}

json run_parse(std::string const& text, trailing_text trailing) {
  auto const cell = read_cell(text, trailing);
  auto const parts = std::span(cell).subspan(1);
  auto const prints = cell_text(cell[0], parts);
  return {{"action", write_action(cell[0], parts)},
          {"prints", prints.empty() ? json(nullptr) : json(prints)}};
}

json run_grid(json const& input) {
  std::vector<std::vector<action>> rows;
  for (json const& row : input["grid"]) rows.push_back(read_row(row.get<std::string>(), rows.size()));
  grid_options options;
  if (input["error_step"].is_number()) options.marked_step = input["error_step"].get<std::size_t>();
  if (input.contains("rank_keys")) {
    // Columns are ordered by rank.
    auto const given = rows;
    std::vector<std::pair<std::uint32_t, std::size_t>> keys;
    for (json const& key : input["rank_keys"]) keys.emplace_back(key.get<std::uint32_t>(), keys.size());
    std::ranges::sort(keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      rows[i] = given[keys[i].second];
      options.ranks.push_back(rank_id{keys[i].first});
    }
  }
  return grid_text(rows, options);
}

json run_map(json const& input) {
  auto const style = input["map"].get<std::string>();
  auto const ranks = input["ranks"].get<std::uint32_t>(), stages = input["stages"].get<std::uint32_t>();
  auto const p = map_stages(map_style_of(style), ranks, stages);
  json map = json::object();
  for (auto const r : p.rank_of) map["stage_to_rank"].push_back(index(r));
  map["rank_to_stages"] = json::array();
  for (std::uint32_t r = 0; auto const& stages_of_rank : stages_by_rank(p)) {
    json list = json::array();
    for (auto const s : stages_of_rank) list.push_back(index(s));
    if (!list.empty()) map["rank_to_stages"].push_back({r, list});
    ++r;
  }
  return map;
}

/// Returns the result, or upstream's name for the library's error.
json run_text(json const& input, trailing_text trailing) {
  try {
    if (input.contains("parse")) return run_parse(input["parse"], trailing);
    if (input.contains("grid")) return run_grid(input);
    if (input.contains("map")) return run_map(input);
    if (input.contains("type")) {
      auto const kind = find_action_kind(input["type"].get<std::string>());
      return kind ? json(std::string(name_of(*kind))) : json{{"refused", "RuntimeError"}};
    }
    auto const found = find_pytorch_schedule(input["lookup"].get<std::string>());
    return found ? json(std::string(found->class_name)) : json{{"refused", "ValueError"}};
  } catch (cell_error const&) {
    return {{"refused", "RuntimeError"}};
  } catch (cleave::error const&) {
    return {{"refused", "ValueError"}};
  }
}

/// Checks a grid whose recording is wrong: it must have a column for each rank, under its number and with its
/// cells.
void check_grid(json const& input, std::string const& got, std::vector<difference>& to) {
  auto const header = got.substr(0, got.find('\n'));
  for (std::size_t column = 0; column < input["grid"].size(); ++column) {
    auto const rank =
        input.contains("rank_keys") ? input["rank_keys"][column].dump() : std::to_string(column);
    auto const at = header.find("Rank " + rank);
    auto const row = input["grid"][column].get<std::string>();
    std::string cells;
    for (std::size_t line = got.find('\n') + 1; line < got.size(); line = got.find('\n', line) + 1) {
      auto const cell = at == header.npos ? "" : got.substr(line + at, got.find(' ', line + at) - line - at);
      cells += (cells.empty() ? "" : ",") + cell;
    }
    if (at == header.npos || cells != row) to.push_back({"column of rank " + rank, row, cells});
  }
}

}  // namespace

outcome run_schedules_text(test_case const& c, json const& body) {
  bool const defect = body.contains("defect");
  auto const got = run_text(c.input(), defect ? trailing_text::refused : trailing_text::ignored);
  outcome result;
  if (!defect)
    compare(body.contains("error") ? json{{"refused", body["error"]["type"]}} : body["expect"], got, "text",
            result.differences);
  else if (c.input().contains("grid"))
    check_grid(c.input(), got.get<std::string>(), result.differences);
  else
    compare(json{{"refused", "RuntimeError"}}, got, "text", result.differences);
  return result;
}

}  // namespace cleave::conformance
