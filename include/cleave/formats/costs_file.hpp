// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/formats/cost_lines.hpp"
#include "cleave/formats/cost_table.hpp"
#include "cleave/formats/json/json_document.hpp"
#include "cleave/formats/json/json_value.hpp"
#include "cleave/schedule/model/schedule_bytes.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::detail {

/// Reads costs from JSON; `read_cost_json` is its one use.
class cost_json_reader {
 public:
  cost_table read(json_value const& all) {
    all.allow({"unit", "hop", "link", "links", "edges", "stages"});
    cost_table table;
    if (auto const unit = all.find("unit")) table.unit = unit->text();
    if (auto const hop = all.find("hop")) table.hop = time(*hop);
    if (auto const link = all.find("link")) {
      link->allow({"latency", "bandwidth"});
      table.link = link_of(*link);
    }
    if (auto const links = all.find("links"))
      links->each_element([&](json_value const& v) {
        v.allow({"from", "to", "latency", "bandwidth"});
        table.links.push_back({rank(v["from"]), rank(v["to"]), link_of(v)});
      });
    if (auto const edges = all.find("edges"))
      each_or_all(*edges, [&](json_value const& v) {
        v.allow({"activation", "gradient"});
        table.bytes.edges.push_back({bytes(v["activation"]), bytes(v["gradient"])});
      });
    stage_costs stages;
    each_or_all(all["stages"], [&](json_value const& v) { stages.add(stage(v)); });
    stages.give_to(table);
    return table;
  }

 private:
  /// `f` with the one object, or with each of a list that is not empty.
  template <class F>
  static void each_or_all(json_value const& v, F f) {
    if (v.what() == json_kind::object) return f(v);
    v.each_element(f);
    if (v.size() == 0) v.fail("must not be empty");
  }

  static double time(json_value const& v) {
    double const t = v.real();
    if (!(t >= 0 && t <= longest_cost)) v.fail("must be a time from 0 to 1e100");
    return t;
  }
  static std::uint64_t bytes(json_value const& v) {
    if (v.what() != json_kind::text) return v.integer<std::uint64_t>();
    auto const n = parse_bytes(v.text());
    if (!n) v.fail(quoted(v.text()) + " is no number of bytes, as in 4096 or '1.5MiB'");
    return *n;
  }
  static rank_id rank(json_value const& v) { return rank_id{v.integer<std::uint32_t>()}; }

  static rank_link link_of(json_value const& v) {
    rank_link link;
    if (auto const latency = v.find("latency")) link.latency = time(*latency);
    if (auto const bandwidth = v.find("bandwidth")) {
      link.bandwidth = bandwidth->real();
      if (!(link.bandwidth > 0)) bandwidth->fail("must be above 0: bytes in a unit of time");
    }
    return link;
  }

  static stated_costs stage(json_value const& v) {
    stated_costs stated;
    v["F"];
    v.each_member([&](std::string const& key, json_value const& value) {
      for (std::size_t k = 0; k < stated.times.size(); ++k)
        if (key == stated_costs::time_names[k]) return void(stated.times[k] = time(value));
      for (std::size_t k = 0; k < stated.bytes.size(); ++k)
        if (key == stated_costs::byte_names[k]) return void(stated.bytes[k] = bytes(value));
      value.fail("unknown key " + quoted(key));
    });
    return stated;
  }
};

/// \throws json_error
inline cost_table read_cost_json(std::string text) {
  json_document const document(std::move(text));
  return cost_json_reader().read(json_value(document));
}

}  // namespace cleave::detail

namespace cleave {

/// What a file of costs says, in one of two forms. JSON:
///
///     {"unit": "ms", "hop": 0.1,
///      "link": {"latency": 0.05, "bandwidth": 2.5e7},
///      "links": [{"from": 0, "to": 1, "latency": 0.2}],
///      "edges": {"activation": "8MiB", "gradient": "8MiB"},
///      "stages": [{"F": 1.5, "B": 3, "stash": "96MiB"}, {"F": 1, "I": 1.25, "W": 0.75, "stash": "64MiB"}]}
///
/// `stages` and `edges` are lists, or one object for all; bandwidths are bytes in a unit of time; everything
/// but `stages` and F may be left out. Or lines, below a heading of the same names:
///
///     stage,F,B,stash
///     0,1.5,3,96MiB
///     1,1,2,64MiB
///
/// What is not said of a stage follows: see `stated_costs`. O(size of the text).
/// \throws json_error, cost_line_error: with the place
inline cost_table read_costs(std::string text) {
  auto const first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') return detail::read_cost_json(std::move(text));
  return detail::read_cost_lines(text);
}

}  // namespace cleave
