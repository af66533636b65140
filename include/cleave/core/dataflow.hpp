// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/stage_text.hpp"

namespace cleave {

/// How a value lies in memory. An extent is a number, or an expression in symbols.
struct value_layout {
  std::string dtype;
  std::vector<std::variant<std::int64_t, std::string>> shape;

  bool operator==(value_layout const&) const = default;
};

/// What moves between stages for each microbatch: where the graph's side of the library and the side that
/// runs stages meet. Plain data.
struct dataflow {
  /// One value on its way to one reader. A value with several readers has an edge for each.
  struct edge {
    stage_id from;            ///< the stage that makes it, or `the_caller`
    std::uint32_t output;     ///< which of the results of `from`, or of the caller's inputs
    stage_id to;              ///< the stage that reads it, or `the_caller`
    std::uint32_t input;      ///< which of the inputs of `to`, or of the results that the caller gets
    std::uint64_t value = 0;  ///< its number in the graph, for people
    std::uint64_t bytes = 0;  ///< of one microbatch; 0 where nobody knows
    std::uint32_t layout = 0xffffffff;  ///< which of `layouts`; none where nobody knows

    bool operator==(edge const&) const = default;
  };

  std::uint32_t stages = 0;
  std::vector<edge> edges;
  std::vector<value_layout> layouts = {};  ///< of values, each once

  bool operator==(dataflow const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// What is wrong with a transport, and where.
struct dataflow_fault {
  static constexpr char subject[] = "transport: ";
  enum class kind : std::uint8_t {
    unknown_stage,    ///< edge `edge` names a stage that there is not
    filled_twice,     ///< a second edge, `edge`, brings input `position` of `stage`
    nothing_arrives,  ///< no edge brings input `position` of `stage`, though one brings a later input
    nobody_reads,     ///< no edge takes result `position` of `stage`, though one takes a later result
    cycle,            ///< each stage of `path` waits for the one before it, the first for the last
  };
  kind what;
  stage_id stage = the_caller;
  std::uint32_t position = 0;
  std::size_t edge = 0;
  std::vector<stage_id> path = {};

  bool operator==(dataflow_fault const&) const = default;
};

/// What, where and how to mend it.
inline std::string describe(dataflow_fault const& f) {
  using enum dataflow_fault::kind;
  std::string const position = std::to_string(f.position), edge = "edge #" + std::to_string(f.edge);
  switch (f.what) {
    case unknown_stage:
      return edge + " names " + stage_text(f.stage) + ", which does not exist; stages are numbered from 0";
    case filled_twice:
      return edge + " brings input #" + position + " of " + stage_text(f.stage) +
             " once more; number the inputs of a stage without repetition";
    case nothing_arrives:
      return "nothing brings input #" + position + " of " + stage_text(f.stage) +
             "; number the inputs of a stage from 0 without a gap";
    case nobody_reads:
      return "nobody reads result #" + position + " of " + stage_text(f.stage) +
             "; number the results that are read from 0 without a gap";
    case cycle: {
      std::string stages;
      for (stage_id const s : f.path) stages += stage_text(s) + " -> ";
      return "stages wait for each other: " + stages + stage_text(f.path.front());
    }
  }
  return {};
}

using dataflow_error = fault_error<dataflow_fault>;

/// Stages that wait for each other, each followed by one that reads from it; not always the shortest such
/// cycle. Precondition: every edge names stages that there are. O(stages + edges).
inline std::optional<std::vector<stage_id>> find_stage_cycle(dataflow const& t) {
  std::vector<directed_arc> arcs;
  for (auto const& e : t.edges)
    if (e.from != the_caller && e.to != the_caller) arcs.push_back({index(e.from), index(e.to)});
  auto const order = order_of_arcs(t.stages, arc_rows(t.stages, arcs));
  if (order.size() == t.stages) return std::nullopt;
  std::vector<stage_id> cycle;
  for (auto const s : some_cycle(t.stages, arcs, order)) cycle.push_back(stage_id{s});
  return cycle;
}

/// Which positions of each stage, and last of the caller, edges have named.
class named_positions {
 public:
  explicit named_positions(std::uint32_t stages) : caller_(stages), first_(std::size_t{stages} + 2) {}

  /// First every edge is counted, then the counting ends, then every edge is named.
  void count(stage_id s) { ++first_[place(s) + 1]; }
  void end_count() {
    for (std::size_t p = 1; p < first_.size(); ++p) first_[p] += first_[p - 1];
    named_.resize(first_.back());
    last_.resize(first_.size() - 1);
  }
  /// Whether it is the first time.
  bool name(stage_id s, std::uint32_t position) {
    std::size_t const p = place(s);
    last_[p] = (std::max)(last_[p], position);
    // n edges name at most n positions, so a larger number leaves a gap below it.
    return position >= first_[p + 1] - first_[p] || !std::exchange(named_[first_[p] + position], true);
  }
  /// The first position that is not named although a later one is.
  std::optional<std::uint32_t> find_gap(stage_id s) const {
    std::size_t const p = place(s);
    std::uint32_t position = 0;
    while (first_[p] + position < first_[p + 1] && named_[first_[p] + position]) ++position;
    return position < last_[p] ? std::optional(position) : std::nullopt;
  }

 private:
  std::size_t place(stage_id s) const { return s == the_caller ? caller_ : index(s); }

  std::size_t caller_;
  std::vector<std::size_t> first_;
  std::vector<char> named_;
  std::vector<std::uint32_t> last_;
};

/// The first thing that keeps a transport from being carried out, or nothing. Inputs of the caller may go
/// unread. O(stages + edges).
inline std::optional<dataflow_fault> find_dataflow_fault(dataflow const& t) {
  using enum dataflow_fault::kind;
  for (std::size_t i = 0; i < t.edges.size(); ++i)
    for (stage_id const s : {t.edges[i].from, t.edges[i].to})
      if (s != the_caller && index(s) >= t.stages) return dataflow_fault{unknown_stage, s, 0, i};

  named_positions inputs(t.stages), outputs(t.stages);
  for (auto const& e : t.edges) inputs.count(e.to), outputs.count(e.from);
  inputs.end_count();
  outputs.end_count();
  for (std::size_t i = 0; auto const& e : t.edges) {
    if (!inputs.name(e.to, e.input)) return dataflow_fault{filled_twice, e.to, e.input, i};
    outputs.name(e.from, e.output);
    ++i;
  }
  for (std::uint32_t s = 0; s < t.stages; ++s) {
    if (auto const p = inputs.find_gap(stage_id{s})) return dataflow_fault{nothing_arrives, stage_id{s}, *p};
    if (auto const p = outputs.find_gap(stage_id{s})) return dataflow_fault{nobody_reads, stage_id{s}, *p};
  }
  if (auto const p = inputs.find_gap(the_caller)) return dataflow_fault{nothing_arrives, the_caller, *p};

  if (auto c = find_stage_cycle(t)) return dataflow_fault{cycle, c->front(), 0, 0, *c};
  return std::nullopt;
}

}  // namespace cleave::detail
