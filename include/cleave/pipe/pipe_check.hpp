// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/backward/check_backward.hpp"
#include "cleave/backward/make_backward_plan.hpp"
#include "cleave/backward/stage_root.hpp"
#include "cleave/core/dataflow.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/pipe/pipe_plan.hpp"
#include "cleave/split/check_plan.hpp"
#include "cleave/split/state/check_state.hpp"
#include "cleave/split/state/state_assignment.hpp"

/// Checks of a pipe that report all faults in one list.
namespace cleave::inline v0_2 {

/// One fault of a pipe. Fields for places that the fault does not concern keep their defaults.
struct pipe_finding {
  std::string code;                                 ///< for programs; stable between versions
  std::string message;                              ///< the fault and its place, in the names of the graph
  stage_id stage = the_caller, other = the_caller;  ///< stages that the fault concerns; `the_caller` if none
  std::size_t node = none<std::size_t>, value = none<std::size_t>;  ///< positions in the snapshot

  bool operator==(pipe_finding const&) const = default;
};

using pipe_findings = std::vector<pipe_finding>;

/// Nodes that may belong to no stage or to several.
template <std::unsigned_integral Index>
struct pipe_marks {
  std::vector<std::size_t> cuts = {};  ///< markers, ascending; they belong to no stage
  basic_scopes<Index> scopes = {};     ///< scopes whose marks may be in any number of stages
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reports faults in the structure of a pipe. Helper of `findings_in_plan`.
template <std::unsigned_integral Index>
class structure_reporter {
 public:
  structure_reporter(basic_snapshot_arrays<Index> const& s, basic_pipe_plan<Index> const& p,
                     pipe_marks<Index> const& m)
      : s_(s), p_(p), marks_(m) {}

  pipe_findings report() {
    auto const is_mark = [&](std::size_t n) { return marks_.scopes.is_mark(n); };
    for (auto const& f : plan_faults(s_, p_.plan, is_mark, passing::allowed))
      if (f.what != plan_fault::kind::missing_node || !is_cut(f.node))
        add(std::string(code_of(f.what)), plan_fault_text(s_, f), f.stage, f.other, f.node, f.value);
    auto const sound_numbers = std::ranges::none_of(found_, [](pipe_finding const& f) {
      return f.code == "stage-order" || f.code.ends_with("-unknown");
    });
    check_stages();
    if (sound_numbers) check_cycle();
    if (sound_numbers) check_edges();
    return std::move(found_);
  }

 private:
  void add(std::string code, std::string message, stage_id stage = the_caller, stage_id other = the_caller,
           std::size_t node = none<std::size_t>, std::size_t value = none<std::size_t>) {
    found_.push_back({std::move(code), std::move(message), stage, other, node, value});
  }

  bool is_cut(std::size_t n) const { return std::ranges::binary_search(marks_.cuts, n); }

  void check_stages() {
    auto const& stages = p_.plan.stages;
    for (std::uint32_t i = 0; i < stages.size(); ++i) {
      stage_id const stage{i};
      if (stages[i].nodes.empty()) add("stage-empty", stage_text(stage) + " has no nodes; remove it", stage);
      for (Index const n : stages[i].nodes)
        if (is_cut(n))
          add("marker-left",
              stage_text(stage) + " has marker " + s_.label(n) + "; markers must not be in a stage", stage,
              the_caller, n);
      if (i < p_.plan.order.size() && p_.plan.order[i] != stage)
        add("stage-unordered",
            stage_text(p_.plan.order[i]) + " runs at position " + std::to_string(i) +
                "; number stages in the order in which they run",
            p_.plan.order[i]);
    }
    if (p_.number.size() != stages.size())
      add("cut-numbers",
          std::to_string(p_.number.size()) + " cut numbers for " + std::to_string(stages.size()) + " stages");
    std::vector<std::pair<std::uint32_t, std::uint32_t>> numbers;  // and their stages
    for (std::uint32_t i = 0; i < p_.number.size(); ++i) numbers.emplace_back(p_.number[i], i);
    std::ranges::sort(numbers);
    for (std::size_t i = 1; i < numbers.size(); ++i)
      if (numbers[i].first == numbers[i - 1].first)
        add("cut-repeated",
            "stages " + std::to_string(numbers[i - 1].second) + " and " + std::to_string(numbers[i].second) +
                " have the same cut number",
            stage_id{numbers[i - 1].second}, stage_id{numbers[i].second});
  }

  void check_cycle() {
    dataflow t{static_cast<std::uint32_t>(p_.plan.stages.size()), {}};
    for (auto const& x : p_.plan.transfers) t.edges.push_back({x.from, 0, x.to, 0});
    if (auto const cycle = find_stage_cycle(t)) {
      std::string text = "stages wait for each other:";
      for (stage_id const i : *cycle) text += " " + std::to_string(index(i)) + " ->";
      add("stage-cycle", text + " " + std::to_string(index(cycle->front())), cycle->front(), cycle->back());
    }
  }

  /// Compares the listed edges with the edges of the plan.
  void check_edges() {
    using edge = std::tuple<Index, stage_id, stage_id>;
    auto const ends = [](std::vector<basic_pipe_edge<Index>> const& list) {
      std::vector<edge> all;
      for (auto const& e : list)
        for (stage_id const to : e.to) all.emplace_back(e.value, e.from, to);
      std::ranges::sort(all);
      return all;
    };
    auto const due = ends(pipe_edges_of(s_, p_.plan)), listed = ends(p_.edges);
    auto const add_finding = [&](edge const& e, std::string const& code, std::string const& what) {
      auto const [v, from, to] = e;
      add(code, what + " " + value_label(s_, v) + " from " + stage_text(from) + " to " + stage_text(to), from,
          to, none<std::size_t>, v);
    };
    for (auto const& e : due)
      if (!std::ranges::binary_search(listed, e)) add_finding(e, "edge-missing", "an edge is missing:");
    for (auto const& e : listed)
      if (!std::ranges::binary_search(due, e)) add_finding(e, "edge-unneeded", "an edge is not in the plan:");
    for (std::size_t i = 1; i < listed.size(); ++i)
      if (listed[i] == listed[i - 1]) add_finding(listed[i], "edge-repeated", "an edge is repeated:");
  }

  basic_snapshot_arrays<Index> const& s_;
  basic_pipe_plan<Index> const& p_;
  pipe_marks<Index> const& marks_;
  pipe_findings found_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns all faults in the structure of `p`, a pipe of `s`. Relays are allowed.
///
/// Reported are: nodes in no stage or in two; values that are not sent, or sent without a reader; transfers
/// and edges that are missing, superfluous or backward; cycles of stages; empty stages; stages out of order;
/// markers in a stage. If stages or values have invalid numbers, checks that depend on them are skipped. O(V
/// + E + T log T) for T transfers.
template <std::unsigned_integral Index>
pipe_findings findings_in_plan(basic_snapshot_arrays<Index> const& s, basic_pipe_plan<Index> const& p,
                               pipe_marks<Index> const& marks = {}) {
  return detail::structure_reporter<Index>(s, p, marks).report();
}

/// Returns all faults of the state that the stages of `p` hold: state in two stages without a tie, missing
/// state, lost state, unused state.
/// \pre `findings_in_plan` reports no `…-unknown` and no `stage-order`
template <std::unsigned_integral Index>
pipe_findings findings_in_state(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                                basic_model_state<Index> const& m, state_assignment const& placed) {
  if (placed.stages.size() != p.stages.size())
    return {{"state-stages", "state is placed in " + std::to_string(placed.stages.size()) + " stages of " +
                                 std::to_string(p.stages.size())}};
  for (std::uint32_t i = 0; i < placed.stages.size(); ++i)
    for (auto const& h : placed.stages[i])
      if (h.tensor >= m.tensors.size())
        return {{"state-unknown",
                 stage_text(stage_id{i}) + " holds tensor #" + std::to_string(h.tensor) +
                     ", which is not in the model",
                 stage_id{i}}};
  pipe_findings found;
  for (auto const& f : state_faults(s, p, m, placed))
    found.push_back({std::string(code_of(f.what)), describe(f), f.stage, f.other});
  return found;
}

/// Returns a code for programs. Codes are stable between versions.
constexpr std::string_view code_of(backward_plan_fault::kind what) {
  constexpr std::string_view codes[] = {"backward-missing",   "backward-unneeded", "backward-inputs",
                                        "backward-width",     "gradient-step",     "gradient-early",
                                        "gradient-misplaced", "gradient-lost",     "gradient-repeated",
                                        "gradient-missing",   "loss-unused"};
  return codes[static_cast<std::size_t>(what)];
}

/// Returns the first fault of the backward pass from `loss`, a value of the graph. Faults are: no stage makes
/// the loss; a gradient is lost, counted twice, or used before it is made. If `planned` is not given, the
/// plan of `make_backward_plan` is checked. O(V log V + E).
/// \pre as for `findings_in_state`
template <std::unsigned_integral Index>
pipe_findings findings_in_backward(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                                   std::size_t loss, std::optional<backward_plan> const& planned = {}) {
  auto const made = planned_root_of(s, p);
  auto const at = loss < made.made_at.size() ? made.made_at[loss] : none<std::uint32_t>;
  if (at == none<std::uint32_t> || made.root.kind[at] == root_kind::input)
    return {{"loss-missing", "the loss, " + detail::value_label(s, loss) + ", is not an output of any stage",
             the_caller, the_caller, none<std::size_t>, loss}};
  auto const name = [](std::uint32_t v) { return "value #" + std::to_string(v) + " of the root"; };
  if (auto const f = detail::find_root_fault(made.root, at))
    return {{"backward-root", detail::root_fault_text(*f, name)}};
  auto const pass = planned ? *planned : make_backward_plan(made.root, at);
  if (auto const f = find_backward_plan_fault(made.root, at, pass))
    return {{std::string(code_of(f->what)), "backward: " + detail::backward_plan_fault_text(*f)}};
  return {};
}

/// Reports edges between stages with unknown layouts. A receiver must know the size of a value. O(edges).
inline pipe_findings findings_in_layouts(dataflow const& t) {
  pipe_findings found;
  for (auto const& e : t.edges)
    if (e.from != the_caller && e.to != the_caller && e.layout >= t.layouts.size())
      found.push_back({"layout-unknown",
                       "value #" + std::to_string(e.value) + " goes from " + stage_text(e.from) + " to " +
                           stage_text(e.to) + " but its shape is unknown",
                       e.from, e.to, none<std::size_t>, static_cast<std::size_t>(e.value)});
  return found;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns one line for each finding: its code and its message.
inline std::string pipe_findings_text(pipe_findings const& found) {
  std::string text;
  for (auto const& f : found) text += f.code + ": " + f.message + "\n";
  return text;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the faults in the structure and the state of a pipe. If `loss` is given, the backward pass from
/// that value of the snapshot is checked too. An empty list means that the pipe is correct.
///
/// `Pipe` is any type with the members `program` (a `module_program`), `plan`, `model` and `state` of a
/// `module_pipe`. Unused state is reported (`state-unused`) although it is not a mistake of the cut.
template <class Pipe>
pipe_findings findings_in_pipe(Pipe const& p, std::optional<std::size_t> loss = {}) {
  basic_snapshot_arrays<std::uint32_t> const& s = p.program.s;
  auto found =
      findings_in_plan<std::uint32_t>(s, p.plan, {cuts_at_markers(p.program).markers, p.program.scopes});
  if (std::ranges::any_of(found, [](pipe_finding const& f) {
        return f.code == "stage-order" || f.code.ends_with("-unknown");
      }))
    return found;
  auto const join = [&](pipe_findings const& more) { found.insert(found.end(), more.begin(), more.end()); };
  join(findings_in_state(s, p.plan.plan, p.model, p.state));
  if (loss) join(findings_in_backward(s, p.plan.plan, *loss));
  return found;
}

}  // namespace cleave
