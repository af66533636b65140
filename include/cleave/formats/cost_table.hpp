// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/read_real.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The link from one rank to another, if it differs from the default.
struct pair_link {
  rank_id from, to;
  rank_link link;

  bool operator==(pair_link const&) const = default;
};

/// The content of a cost file. Times are in `unit`, bandwidths in bytes per unit of time.
struct cost_table {
  std::string unit = {};                ///< such as `ms`; empty if not given
  std::vector<stage_cost> stages = {};  ///< one for all, or one for each stage
  double base_latency = 0;              ///< latency of every message
  rank_link link = {};                  ///< the link of all pairs of ranks without their own
  std::vector<pair_link> links = {};    ///< the links of single pairs of ranks
  schedule_bytes bytes = {};            ///< sizes of stages are empty if the file gives none

  bool operator==(cost_table const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown for a link of a rank that does not exist; the witness is the link.
using pair_link_error = witness_error<pair_link>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the costs as options of `simulate`. O(stages), plus O(ranks²) if `links` is not empty.
/// \throws pair_link_error if a link names a rank outside the placement
inline simulate_options simulate_options_of(cost_table const& table, stage_placement const& place) {
  simulate_options options{
      .costs = table.stages, .base_latency = table.base_latency, .bytes = table.bytes.edges};
  if (!(table.link == rank_link{})) options.links = {table.link};
  if (table.links.empty()) return options;
  options.links.assign(std::size_t{place.ranks} * place.ranks, table.link);
  for (auto const& l : table.links) {
    if (index(l.from) >= place.ranks || index(l.to) >= place.ranks)
      throw detail::pair_link_error("costs: a link from rank " + std::to_string(index(l.from)) + " to rank " +
                                        std::to_string(index(l.to)) +
                                        " is given, but the placement has only " +
                                        std::to_string(place.ranks) + " ranks",
                                    l);
    options.links[std::size_t{index(l.from)} * place.ranks + index(l.to)] = l.link;
  }
  return options;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The entries of a file for one stage; missing ones are derived.
struct stated_costs {
  static constexpr std::array<std::string_view, 10> time_names = {
      "F", "B", "I", "W", "RECOMPUTE", "UNSHARD", "REDUCE_GRAD", "OFFLOAD", "RELOAD", "OVERLAP_F_B"};
  static constexpr std::array<std::string_view, 3> byte_names = {"stash", "weight_stash", "input"};

  std::array<std::optional<double>, time_names.size()> times = {};
  std::array<std::optional<std::uint64_t>, byte_names.size()> bytes = {};

  bool has_bytes() const {
    return std::ranges::any_of(bytes, [](auto const& b) { return b.has_value(); });
  }

  /// Returns the costs with missing entries filled in. B is I + W; if only one of these is given, twice that;
  /// otherwise twice F. I and W are the remainder of B without the other, or half of B. RECOMPUTE is F.
  /// OVERLAP_F_B stays empty. All other times are 0.
  stage_cost cost() const {
    auto const& [f, b, i, w, recompute, unshard, reduce, offload, reload, overlapped] = times;
    stage_cost c;
    c.forward = f.value_or(c.forward);
    c.backward = b ? *b : i && w ? *i + *w : i ? 2 * *i : w ? 2 * *w : 2 * c.forward;
    c.input_gradient = i ? *i : w ? (std::max)(0.0, c.backward - *w) : c.backward / 2;
    c.weight_gradient = w ? *w : (std::max)(0.0, c.backward - c.input_gradient);
    c.recompute = recompute.value_or(c.forward);
    c.unshard = unshard.value_or(0);
    c.reduce_gradient = reduce.value_or(0);
    c.offload = offload.value_or(0);
    c.reload = reload.value_or(0);
    c.overlapped = overlapped;
    return c;
  }
  pass_bytes kept() const {
    return {.saved = bytes[0].value_or(0),
            .saved_for_weights = bytes[1].value_or(0),
            .input = bytes[2].value_or(0)};
  }
};

/// Collects the stages of a table in the order in which they are read.
class stage_costs {
 public:
  void add(stated_costs const& stated) {
    costs_.push_back(stated.cost());
    bytes_.push_back(stated.kept());
    any_bytes_ |= stated.has_bytes();
  }
  std::size_t size() const { return costs_.size(); }
  void give_to(cost_table& table) const {
    table.stages = costs_;
    if (any_bytes_) table.bytes.stages = bytes_;
  }

 private:
  std::vector<stage_cost> costs_;
  std::vector<pass_bytes> bytes_;
  bool any_bytes_ = false;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A place in lines of costs; both numbers count from 1. Field 0 is the whole line.
struct cost_place {
  std::size_t line = 0, field = 0;

  bool operator==(cost_place const&) const = default;
};

/// Thrown for an invalid line of costs; the witness is its place.
using cost_line_error = witness_error<cost_place>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reads lines of costs, for `read_cost_lines`.
class cost_lines_reader {
 public:
  cost_table read(std::string_view text) {
    while (!text.empty()) {
      auto const end = text.find('\n');
      ++line_;
      line(text.substr(0, end));
      text.remove_prefix(end == text.npos ? text.size() : end + 1);
    }
    if (columns_.empty()) fail(0, "the file has no heading; begin it with stage,F,B,I,W");
    if (stages_.size() == 0) fail(0, "there are no lines of costs below the heading");
    cost_table table;
    stages_.give_to(table);
    return table;
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    auto const first = text.find_first_not_of(" \t\r");
    return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") + 1 - first);
  }
  [[noreturn]] void fail(std::size_t field, std::string const& what) const {
    auto const place = field == 0 ? "" : ", field " + std::to_string(field);
    throw cost_line_error("line " + std::to_string(line_) + place + ": " + what, {line_, field});
  }

  void line(std::string_view text) {
    if (trimmed(text).empty() || trimmed(text).starts_with('#')) return;
    std::vector<std::string_view> fields;
    for (auto rest = text;;) {
      auto const end = rest.find(',');
      fields.push_back(trimmed(rest.substr(0, end)));
      if (end == rest.npos) break;
      rest.remove_prefix(end + 1);
    }
    columns_.empty() ? heading(fields) : costs(fields);
  }

  /// Reads the heading. Column 0 is the stage; then come the times, then the bytes.
  void heading(std::vector<std::string_view> const& fields) {
    std::vector<std::string> known = {"stage"};
    for (auto const name : stated_costs::time_names) known.emplace_back(name);
    for (auto const name : stated_costs::byte_names) known.emplace_back(name);
    for (std::size_t i = 0; i < fields.size(); ++i) {
      auto const column = static_cast<std::size_t>(std::ranges::find(known, fields[i]) - known.begin());
      if (column == known.size())
        fail(i + 1, "unknown column " + quoted(fields[i]) + suggestion(nearest_names(fields[i], known)));
      if (std::ranges::find(columns_, column) != columns_.end())
        fail(i + 1, "the column " + quoted(fields[i]) + " is repeated; keep one");
      columns_.push_back(column);
    }
    if (std::ranges::find(columns_, std::size_t{1}) == columns_.end()) fail(0, "the column 'F' is missing");
  }

  void costs(std::vector<std::string_view> const& fields) {
    if (fields.size() != columns_.size())
      fail(0, "there are " + std::to_string(fields.size()) + " fields, but the heading has " +
                  std::to_string(columns_.size()) + "; give each line the same number");
    stated_costs stated;
    for (std::size_t i = 0; i < fields.size(); ++i) {
      auto const column = columns_[i];
      if (column == 0)
        require_stage(i + 1, fields[i]);
      else if (fields[i].empty())
        continue;
      else if (column <= stated.times.size())
        stated.times[column - 1] = time(i + 1, fields[i]);
      else
        stated.bytes[column - 1 - stated.times.size()] = bytes(i + 1, fields[i]);
    }
    if (!stated.times[0]) fail(0, "the time of F is missing");
    stages_.add(stated);
  }

  void require_stage(std::size_t field, std::string_view text) const {
    if (text != std::to_string(stages_.size()) && !(text == "*" && stages_.size() == 0))
      fail(field, quoted(text) + " found where stage " + std::to_string(stages_.size()) +
                      " was expected; list the stages in order, or use '*' for all of them");
  }
  double time(std::size_t field, std::string_view text) const {
    double t = -1;
    auto const [end, fault] = read_real(text.data(), text.data() + text.size(), t);
    if (fault != std::errc() || end != text.data() + text.size() || !(t >= 0 && t <= longest_cost))
      fail(field, quoted(text) + " is not a time from 0 to 1e100");
    return t;
  }
  std::uint64_t bytes(std::size_t field, std::string_view text) const {
    auto const n = parse_bytes(text);
    if (!n) fail(field, quoted(text) + " is not a size in bytes, such as 4096 or 1.5MiB");
    return *n;
  }

  stage_costs stages_;
  std::vector<std::size_t> columns_;
  std::size_t line_ = 0;
};

/// Reads costs from lines of comma-separated fields. The first line names the columns: `stage` and the names
/// in `stated_costs`. Lines that begin with `#` are comments, and a field may be empty. The stage `*` stands
/// for all stages. O(size of the text). \throws cost_line_error
inline cost_table read_cost_lines(std::string_view text) { return cost_lines_reader().read(text); }

/// Reads costs from JSON, for `read_cost_json`.
class cost_json_reader {
 public:
  cost_table read(json_value const& all) {
    all.allow({"unit", "hop", "link", "links", "edges", "stages"});
    cost_table table;
    if (auto const unit = all.find("unit")) table.unit = unit->text();
    if (auto const base_latency = all.find("hop")) table.base_latency = time(*base_latency);
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
  /// Calls `f` with the one object, or with each element of a non-empty list.
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
    if (!n) v.fail(quoted(v.text()) + " is not a size in bytes, such as 4096 or '1.5MiB'");
    return *n;
  }
  static rank_id rank(json_value const& v) { return rank_id{v.integer<std::uint32_t>()}; }

  static rank_link link_of(json_value const& v) {
    rank_link link;
    if (auto const latency = v.find("latency")) link.latency = time(*latency);
    if (auto const bandwidth = v.find("bandwidth")) {
      link.bandwidth = bandwidth->real();
      if (!(link.bandwidth > 0)) bandwidth->fail("must be above 0, in bytes per unit of time");
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

/// Reads costs from JSON. \throws json::error
inline cost_table read_cost_json(std::string text) {
  json_document const document(std::move(text));
  return cost_json_reader().read(json_value(document));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads a file of costs in one of two forms. The first is JSON:
///
///     {"unit": "ms", "hop": 0.1,
///      "link": {"latency": 0.05, "bandwidth": 2.5e7},
///      "links": [{"from": 0, "to": 1, "latency": 0.2}],
///      "edges": {"activation": "8MiB", "gradient": "8MiB"},
///      "stages": [{"F": 1.5, "B": 3, "stash": "96MiB"}, {"F": 1, "I": 1.25, "W": 0.75, "stash": "64MiB"}]}
///
/// `stages` and `edges` are lists, or one object for all. Bandwidths are bytes per unit of time. Everything
/// except `stages` and F is optional. The second form has one line per stage, below a heading with the same
/// names:
///
///     stage,F,B,stash
///     0,1.5,3,96MiB
///     1,1,2,64MiB
///
/// Missing entries of a stage are derived; see `stated_costs`. O(size of the text).
/// \throws json::error, cost_line_error: with the place in the file
inline cost_table read_costs(std::string text) {
  auto const first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') return detail::read_cost_json(std::move(text));
  return detail::read_cost_lines(text);
}

}  // namespace cleave
