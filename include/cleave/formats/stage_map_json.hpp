// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/stage_map.hpp"

/// The nodes of each stage and the rank that runs it, in the model's own names. This is enough to build the
/// stages with other tools and run them by a schedule.
///
///     {"format": "cleave stage map 1",
///      "ranks": 2,
///      "stages": [{"stage": 0, "rank": 0, "nodes": ["embed", "h_0"], "modules": ["embed", "h.0"],
///                  "state": ["position"], "inputs": ["tokens"], "outputs": ["h_0"]}, …]}
///
/// Nodes are in program order. Nodes that a stage has as copies, since they depend on weights alone, are
/// listed as its `constants`, if it has any; several stages may have one. Only `stage`, `rank` and `nodes`
/// are required.
namespace cleave::inline v0_2 {

inline constexpr char stage_map_json_format[] = "cleave stage map 1";

/// A stage, its rank, and the names of what it contains.
struct mapped_stage {
  rank_id rank{};
  std::vector<std::string> nodes{};
  std::vector<std::string> modules{};            ///< modules called by its nodes
  std::vector<std::string> state{};              ///< parameters and buffers
  std::vector<std::string> inputs{}, outputs{};  ///< values that it receives, and values that it produces
  std::vector<std::string> constants{};          ///< nodes that it has as copies

  bool operator==(mapped_stage const&) const = default;
};

/// The stages of a model and their ranks.
struct stage_map {
  std::uint32_t ranks = 0;
  std::vector<mapped_stage> stages{};

  bool operator==(stage_map const&) const = default;
};

/// Returns the first difference between `m` and a schedule's placement in words, or nothing. O(stages).
inline std::optional<std::string> find_other_placement(stage_map const& m, stage_placement const& p) {
  auto const count = [](std::size_t n, char const* what) {
    return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
  };
  auto const differs = [](std::string const& here, std::string const& there) {
    return "the map has " + here + ", the schedule has " + there;
  };
  if (m.stages.size() != p.rank_of.size())
    return differs(count(m.stages.size(), "stage"), count(p.rank_of.size(), "stage"));
  if (m.ranks != p.ranks) return differs(count(m.ranks, "rank"), count(p.ranks, "rank"));
  for (std::size_t i = 0; i < m.stages.size(); ++i)
    if (m.stages[i].rank != p.rank_of[i])
      return differs("stage " + std::to_string(i) + " on rank " + std::to_string(index(m.stages[i].rank)),
                     "on rank " + std::to_string(index(p.rank_of[i])));
  return std::nullopt;
}

/// Returns `m` as JSON. O(size).
inline std::string write_stage_map_json(stage_map const& m,
                                        json::writer::layout l = json::writer::layout::compact) {
  json::writer w(l);
  auto const list = [&](char const* key, std::vector<std::string> const& names) {
    w.key(key).open_array();
    for (auto const& name : names) w.value(name);
    w.close_array();
  };
  w.open_object().member("format", stage_map_json_format).member("ranks", m.ranks);
  w.key("stages").open_array();
  for (std::size_t i = 0; i < m.stages.size(); ++i) {
    auto const& stage = m.stages[i];
    w.open_object().member("stage", i).member("rank", index(stage.rank));
    list("nodes", stage.nodes);
    if (!stage.constants.empty()) list("constants", stage.constants);
    list("modules", stage.modules);
    list("state", stage.state);
    list("inputs", stage.inputs);
    list("outputs", stage.outputs);
    w.close_object();
  }
  return w.close_array().close_object().text();
}

/// Reads a stage map; stages may be listed in any order.
/// \throws json::error with line, column and path if the text is not a stage map, or a stage has no rank
/// \throws stage_map_error if a stage is repeated or missing, or its rank is out of range
inline stage_map read_stage_map_json(std::string text) {
  detail::json_document const document(std::move(text));
  detail::json_value const top(document);
  top.allow({"format", "ranks", "stages"});
  top.require_format(stage_map_json_format);

  stage_map m{top["ranks"].integer<std::uint32_t>(), {}};
  std::vector<stage_on_rank> entries;
  top["stages"].each_element([&](detail::json_value const& entry) {
    entry.allow({"stage", "rank", "nodes", "constants", "modules", "state", "inputs", "outputs"});
    entries.push_back({entry["stage"].integer(), entry["rank"].integer()});
  });
  auto const place = detail::place_stages(entries, m.ranks);
  for (auto const r : place.rank_of) m.stages.push_back({.rank = r});

  std::size_t at = 0;
  top["stages"].each_element([&](detail::json_value const& entry) {
    auto& stage = m.stages[static_cast<std::size_t>(entries[at++].stage)];
    auto const read = [](detail::json_value const& list, std::vector<std::string>& to) {
      list.each_element([&](detail::json_value const& name) { to.push_back(name.text()); });
    };
    read(entry["nodes"], stage.nodes);
    for (auto const& [key, names] :
         {std::pair("constants", &stage.constants), std::pair("modules", &stage.modules),
          std::pair("state", &stage.state), std::pair("inputs", &stage.inputs),
          std::pair("outputs", &stage.outputs)})
      if (auto const list = entry.find(key)) read(*list, *names);
  });
  return m;
}
}  // namespace cleave
