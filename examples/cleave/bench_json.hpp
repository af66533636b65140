// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/formats/json/json_writer.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench_changes.hpp"
#include "bench_row.hpp"
#include "bench_sections.hpp"
#include "bench_summary.hpp"
#include "bench_tables.hpp"

/// Tables of the bench as JSON, for `--json` of cleave bench and cleave report.
namespace tool {

template <class Value>
void add_or_null(cleave::json::writer& to, char const* key, std::optional<Value> const& value) {
  to.key(key);
  value ? to.value(*value) : to.null();
}

/// Writes a row as an object, with the columns of the table as keys. An empty cell is null.
inline void write_row(cleave::json::writer& to, bench_row const& r) {
  auto const answered = [&](auto value) { return r.cut ? std::optional(value) : std::nullopt; };
  to.open_object().member("peer", r.algorithm).member("graph", r.instance).member("n", r.nodes);
  to.member("m", r.edges).member("k", r.parts).member("eps", r.eps).member("seed", r.seed);
  to.member("threads", r.threads);
  add_or_null(to, "wall_s", answered(r.wall_s)), add_or_null(to, "cpu_s", answered(r.cpu_s));
  add_or_null(to, "cut", r.cut), add_or_null(to, "imbalance", answered(r.imbalance));
  add_or_null(to, "empty", answered(r.empty)), add_or_null(to, "memory_csr", answered(r.memory_csr));
  add_or_null(to, "claimed_cut", r.claimed_cut);
  to.member("status", r.status);
  add_or_null(to, "bottleneck", r.bottleneck), add_or_null(to, "bound", r.bound);
  to.member("metric", name_of(r.metric)).close_object();
}

/// Returns a row as a line of JSON.
inline std::string json_line(bench_row const& row) {
  cleave::json::writer json;
  write_row(json, row);
  return json.text() + "\n";
}

/// Writes a list of the rows.
inline void write_rows(cleave::json::writer& to, std::span<bench_row const> rows) {
  to.key("rows").open_array();
  for (auto const& row : rows) write_row(to, row);
  to.close_array();
}

/// Writes a list of the sections:
/// - metric: of the cuts
/// - baseline: the algorithm that ratios compare with
/// - algorithms: [{algorithm, cut, time, good, infeasible, no_answer}]; cut and time are mean ratios to the
///   baseline, null if unknown; the others count runs
/// - problems: [{instance, k, eps, results: [{algorithm, cut, cpu_s, good, infeasible, no_answer}]}]; cut and
///   cpu_s are medians
/// - changes: [{instance, k, algorithm, then, now, change}] since the recorded run, if there is one
inline void write_sections(cleave::json::writer& to, std::span<bench_section const> sections) {
  to.key("sections").open_array();
  for (auto const& section : sections) {
    auto const& s = section.summary;
    to.open_object().member("metric", name_of(section.metric)).member("baseline", s.baseline_name());
    to.key("algorithms").open_array();
    for (std::size_t a = 0; a < s.algorithms().size(); ++a) {
      auto const r = result_of(s, a, all_problems());
      auto const n = counts_of(s, a);
      auto const known = [&](double mean) { return r.known() ? std::optional(mean) : std::nullopt; };
      to.open_object().member("algorithm", s.algorithms()[a]);
      add_or_null(to, "cut", known(r.cut.mean)), add_or_null(to, "time", known(r.time.mean));
      to.member("good", n.good).member("infeasible", n.infeasible);
      to.member("no_answer", n.late + n.crashed + n.refused).close_object();
    }
    to.close_array().key("problems").open_array();
    for (std::size_t p = 0; p < s.problems().size(); ++p) {
      auto const& problem = s.problems()[p];
      to.open_object().member("instance", problem.instance).member("k", problem.parts);
      to.member("eps", problem.eps).key("results").open_array();
      for (std::size_t a = 0; a < s.algorithms().size(); ++a) {
        auto const& c = s.at(p, a);
        if (c.runs() == 0) continue;
        auto const known = [&](double x) { return c.good > 0 ? std::optional(x) : std::nullopt; };
        to.open_object().member("algorithm", s.algorithms()[a]);
        add_or_null(to, problem.by_bottleneck ? "load" : "cut", known(c.cut));
        add_or_null(to, "cpu_s", known(c.cpu_s));
        to.member("good", c.good).member("infeasible", c.infeasible);
        to.member("no_answer", c.late + c.crashed + c.refused).close_object();
      }
      to.close_array().close_object();
    }
    to.close_array();
    if (section.changes) {
      to.key("changes").open_array();
      for (auto const& c : section.changes->ranked()) {
        auto const& problem = s.problems()[c.problem];
        to.open_object().member("instance", problem.instance).member("k", problem.parts);
        to.member("algorithm", s.algorithms()[c.algorithm]).member("then", c.then).member("now", c.now);
        to.member("change", change_text(c)).close_object();
      }
      to.close_array();
    }
    to.close_object();
  }
  to.close_array();
}

}  // namespace tool
