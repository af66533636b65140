// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench_changes.hpp"
#include "bench_row.hpp"
#include "bench_summary.hpp"
#include "bench_tables.hpp"
#include "terminal.hpp"

namespace tool {

/// The runs of one metric, which are compared with each other, and their changes since a recorded run.
struct bench_section {
  bench_metric metric = bench_metric::edge_cut;
  std::vector<bench_row> rows;
  bench_summary summary;
  std::optional<bench_changes> changes{};
};

/// Returns the heading of a section.
inline std::string_view heading_of(bench_metric m) {
  switch (m) {
    case bench_metric::edge_cut:
      return "Graphs";
    case bench_metric::connectivity:
      return "Hypergraphs: connectivity, λ − 1";
    case bench_metric::cut_nets:
      return "Hypergraphs: cut nets";
  }
  return "";
}

/// Returns the baselines of a section: those of the algorithms asked for that it has; else METIS and, for
/// DAGs, cleave-slices, or Mt-KaHyPar for hypergraphs; else the first algorithm.
inline std::vector<std::size_t> baselines_of(bench_section const& section,
                                             std::vector<std::string> const& asked) {
  auto const known = section.metric == bench_metric::edge_cut
                         ? std::vector<std::string>{"metis", "cleave-slices"}
                         : std::vector<std::string>{"mtk-default"};
  std::vector<std::size_t> found;
  for (auto const* const names : {&asked, &known}) {
    if (!found.empty()) break;
    for (auto const& name : *names)
      if (auto const at = section.summary.find_algorithm(name)) found.push_back(*at);
  }
  return found.empty() ? std::vector<std::size_t>{0} : found;
}

/// Returns a section for each metric of the rows, graphs first, each compared with its baselines.
inline std::vector<bench_section> sections_of(std::span<bench_row const> rows,
                                              std::vector<std::string> const& baselines = {}) {
  std::vector<bench_section> sections;
  for (auto const metric : {bench_metric::edge_cut, bench_metric::connectivity, bench_metric::cut_nets}) {
    std::vector<bench_row> of_metric;
    std::ranges::copy_if(rows, std::back_inserter(of_metric),
                         [&](bench_row const& r) { return r.metric == metric; });
    if (of_metric.empty()) continue;
    bench_summary summary(of_metric);
    sections.push_back({metric, std::move(of_metric), std::move(summary)});
    sections.back().summary.compare_with(baselines_of(sections.back(), baselines));
  }
  return sections;
}

inline std::vector<bench_changes> changes_of(std::span<bench_section const> sections) {
  std::vector<bench_changes> all;
  for (auto const& s : sections)
    if (s.changes) all.push_back(*s.changes);
  return all;
}

/// Returns the tables of all sections, for a terminal or as Markdown.
inline std::string text_of(std::span<bench_section const> sections, bool as_markdown) {
  std::string text;
  for (auto const& s : sections) {
    auto const heading = std::string(heading_of(s.metric));
    if (!text.empty()) text += "\n";
    if (sections.size() > 1) text += (as_markdown ? "## " + heading : bold(heading)) + "\n\n";
    auto const* const changes = s.changes ? &*s.changes : nullptr;
    if (as_markdown) {
      text += markdown_of(s.summary, changes);
      continue;
    }
    text += terminal_table(s.summary);
    auto const worse = changes != nullptr ? terminal_changes(s.summary, *changes) : "";
    if (!worse.empty()) text += "\n" + worse;
  }
  auto const changes = changes_of(sections);
  if (!changes.empty()) text += (as_markdown ? "\n" : "\n  ") + changes_sentence(changes) + "\n";
  return text;
}

}  // namespace tool
