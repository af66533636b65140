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

namespace cleave::inline v0_2 {

/// The element type and the shape of a value. Each extent is a number, or an expression in symbols.
struct value_layout {
  std::string dtype;  ///< the name of the element type, such as `f32`
  std::vector<std::variant<std::int64_t, std::string>> shape;

  bool operator==(value_layout const&) const = default;
};

/// The values that move between stages for each microbatch, as plain data. The side of the library that cuts
/// graphs makes it; the side that runs stages reads it.
struct dataflow {
  /// A value on its way from the stage that makes it to one reader. A value with several readers has one edge
  /// per reader.
  struct edge {
    stage_id from;         ///< the stage that makes it, or `the_caller`
    std::uint32_t output;  ///< its index among the results of `from`, or among the caller's inputs
    stage_id to;           ///< the stage that reads it, or `the_caller`
    std::uint32_t input;   ///< its index among the inputs of `to`, or among the results that the caller gets
    std::uint64_t value = 0;            ///< the value's number in the graph, for display only
    std::uint64_t bytes = 0;            ///< bytes per microbatch; 0 if unknown
    std::uint32_t layout = 0xffffffff;  ///< index into `layouts`; 0xffffffff if unknown

    bool operator==(edge const&) const = default;
  };

  std::uint32_t stages = 0;  ///< the number of stages
  std::vector<edge> edges;
  std::vector<value_layout> layouts = {};  ///< the distinct layouts of the values

  bool operator==(dataflow const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A fault of a dataflow and its place.
struct dataflow_fault {
  static constexpr char subject[] = "dataflow: ";
  enum class kind : std::uint8_t {
    unknown_stage,    ///< edge `edge` names a stage that does not exist
    filled_twice,     ///< edge `edge` is the second one that fills input `position` of `stage`
    nothing_arrives,  ///< no edge fills input `position` of `stage`, but an edge fills a later input
    unread_result,    ///< no edge reads result `position` of `stage`, but an edge reads a later result
    cycle,            ///< each stage of `path` waits for the previous one, the first for the last
  };
  kind what;
  stage_id stage = the_caller;
  std::uint32_t position = 0;
  std::size_t edge = 0;
  std::vector<stage_id> path = {};

  bool operator==(dataflow_fault const&) const = default;
};

/// Returns a sentence that says what is wrong, where, and how to fix it.
inline std::string describe(dataflow_fault const& f) {
  using enum dataflow_fault::kind;
  std::string const position = std::to_string(f.position), edge = "edge #" + std::to_string(f.edge);
  switch (f.what) {
    case unknown_stage:
      return edge + " names " + stage_text(f.stage) + ", which does not exist; stages are numbered from 0";
    case filled_twice:
      return edge + " fills input #" + position + " of " + stage_text(f.stage) +
             " a second time; give each input of a stage one edge";
    case nothing_arrives:
      return "no edge fills input #" + position + " of " + stage_text(f.stage) +
             "; number the inputs of a stage from 0 without a gap";
    case unread_result:
      return "no edge reads result #" + position + " of " + stage_text(f.stage) +
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

/// Returns a cycle of stages that wait for each other, or nothing. Each stage of the cycle is followed by one
/// that reads from it. The cycle need not be the shortest. Precondition: every edge names existing stages.
/// O(stages + edges).
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

/// The positions that edges have named, for each stage and for the caller, which comes last. Call `count` for
/// every edge, then `end_count` once, then `name` for every edge.
class named_positions {
 public:
  explicit named_positions(std::uint32_t stages) : caller_(stages), first_(std::size_t{stages} + 2) {}

  /// Counts an edge of `s`.
  void count(stage_id s) { ++first_[place(s) + 1]; }
  void end_count() {
    for (std::size_t p = 1; p < first_.size(); ++p) first_[p] += first_[p - 1];
    named_.resize(first_.back());
    last_.resize(first_.size() - 1);
  }
  /// Records that an edge names `position`. Returns false if an earlier edge named the same position.
  /// Positions at or above the number of edges are not recorded, because they leave a gap anyway.
  bool name(stage_id s, std::uint32_t position) {
    std::size_t const p = place(s);
    last_[p] = (std::max)(last_[p], position);
    // n edges name at most n positions, so a larger number leaves a gap below it.
    return position >= first_[p + 1] - first_[p] || !std::exchange(named_[first_[p] + position], true);
  }
  /// Returns the first position that is not named although a later one is, or nothing.
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

/// Returns the first fault that prevents a dataflow from being executed, or nothing. Inputs of the caller may
/// be unread. O(stages + edges).
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
    if (auto const p = outputs.find_gap(stage_id{s})) return dataflow_fault{unread_result, stage_id{s}, *p};
  }
  if (auto const p = inputs.find_gap(the_caller)) return dataflow_fault{nothing_arrives, the_caller, *p};

  if (auto c = find_stage_cycle(t)) return dataflow_fault{cycle, c->front(), 0, 0, *c};
  return std::nullopt;
}

}  // namespace cleave::detail
