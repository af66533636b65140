// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2::detail {

/// A placement that is invalid. `at` is the index of the stage or edge at fault.
struct stage_placement_fault {
  static constexpr char subject[] = "placement: ";
  enum class kind : std::uint8_t {
    unknown_rank,   ///< a stage is on a rank out of range
    unknown_stage,  ///< an edge names a stage out of range
    edge_order,     ///< an edge is not greater than its predecessor in the list
  };
  kind what;
  std::size_t at;

  bool operator==(stage_placement_fault const&) const = default;
};

/// Returns the first fault of a placement, or nothing. O(stages + edges).
inline std::optional<stage_placement_fault> find_stage_placement_fault(stage_placement const& p) {
  using enum stage_placement_fault::kind;
  for (std::size_t s = 0; s < p.rank_of.size(); ++s)
    if (index(p.rank_of[s]) >= p.ranks) return stage_placement_fault{unknown_rank, s};
  for (std::size_t e = 0; e < p.edges.size(); ++e) {
    if (index(p.edges[e].from) >= p.stages() || index(p.edges[e].to) >= p.stages())
      return stage_placement_fault{unknown_stage, e};
    if (e > 0 && !(p.edges[e - 1] < p.edges[e])) return stage_placement_fault{edge_order, e};
  }
  return std::nullopt;
}

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(stage_placement_fault const& f) {
  auto const at = std::to_string(f.at);
  switch (f.what) {
    case stage_placement_fault::kind::unknown_rank:
      return "stage " + at + " is on a rank that does not exist; number the ranks from 0";
    case stage_placement_fault::kind::unknown_stage:
      return "edge #" + at + " names a stage that does not exist; number the stages from 0";
    case stage_placement_fault::kind::edge_order:
      return "edge #" + at + " is not greater than the one before it; sort the edges, each once";
  }
  return {};
}

using stage_placement_error = fault_error<stage_placement_fault>;

/// Looks up the edges of a placement by the stages at their ends. Edges are indices into
/// `stage_placement::edges`.
class edge_numbers {
 public:
  /// Keeps a reference to the placement. O(stages + edges). \throws stage_placement_error
  explicit edge_numbers(stage_placement const& p)
      : edges_(p.edges), first_from_(p.rank_of.size() + 1), first_to_(p.rank_of.size() + 1) {
    if (auto const f = find_stage_placement_fault(p)) throw stage_placement_error(*f);
    for (auto const& e : p.edges) ++first_from_[index(e.from) + 1], ++first_to_[index(e.to) + 1];
    for (std::size_t s = 1; s < first_to_.size(); ++s) {
      first_from_[s] += first_from_[s - 1];
      first_to_[s] += first_to_[s - 1];
    }
    to_.resize(p.edges.size());
    auto next = first_to_;
    for (std::uint32_t e = 0; e < p.edges.size(); ++e) to_[next[index(p.edges[e].to)]++] = e;
  }

  /// Returns the edges that end at stage `s`, ascending.
  std::span<std::uint32_t const> to(std::uint32_t s) const {
    return std::span(to_).subspan(first_to_[s], first_to_[s + 1] - first_to_[s]);
  }
  /// Edges from stage `s` have the indices [begin_from(s), end_from(s)).
  std::uint32_t begin_from(std::uint32_t s) const { return first_from_[s]; }
  std::uint32_t end_from(std::uint32_t s) const { return first_from_[s + 1]; }

  /// Returns the edge between two stages, or nothing. O(log edges of `from`).
  std::optional<std::uint32_t> find(std::uint32_t from, std::uint32_t to) const {
    auto const all = edges_.subspan(first_from_[from], first_from_[from + 1] - first_from_[from]);
    auto const at = std::ranges::lower_bound(all, stage_edge{stage_id{from}, stage_id{to}});
    if (at == all.end() || at->to != stage_id{to}) return std::nullopt;
    return first_from_[from] + static_cast<std::uint32_t>(at - all.begin());
  }

 private:
  std::span<stage_edge const> edges_;
  std::vector<std::uint32_t> first_from_, first_to_, to_;
};

/// Returns true if any message is listed. If so, every value that crosses ranks needs one. O(actions).
inline bool has_messages(schedule const& s) {
  for (auto const& row : s.ranks)
    for (action const& a : row)
      if (is_message(a.kind)) return true;
  return false;
}

/// A completed pass of a stage for a microbatch: F; B or I; I.
enum class pass_mark : std::uint8_t { forward = 1, gradient = 2, half = 4 };

/// Visits the direct dependencies of an action until a call returns false. Calls `pass(stage, mark)` for a
/// pass of the action's own stage, and `along(edge, flow)` for each edge that delivers a value to it. Actions
/// that are not passes depend on the forward pass of their stage.
template <class Pass, class Along>
bool each_dependency_of(action const& a, edge_numbers const& edges, Pass pass, Along along) {
  using enum action_kind;
  auto const s = index(a.stage);
  if (a.kind == weight_gradient) return pass(s, pass_mark::half);
  if (a.kind == action_kind::forward) {
    for (auto const e : edges.to(s))
      if (!along(e, edge_flow::activations)) return false;
    return true;
  }
  if (!pass(s, pass_mark::forward)) return false;
  if (a.kind != action_kind::backward && a.kind != input_gradient) return true;
  for (auto e = edges.begin_from(s); e < edges.end_from(s); ++e)
    if (!along(e, edge_flow::gradients)) return false;
  return true;
}

/// Numbers the events of a running schedule and finds the events on which each action depends. An event is
/// the completion of a pass of a stage for a microbatch, or of one end of a message.
class schedule_dependencies {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  /// Keeps a reference to the schedule.
  /// \throws stage_placement_error, and schedule_count_error if there are far fewer actions than the counts
  ///   require (`fits` returns false)
  explicit schedule_dependencies(schedule const& s)
      : place_(s.place),
        edges_(s.place),
        numbers_(step_index_of(s)),
        messages_(has_messages(s)),
        microbatches_(s.microbatches) {
    if (!fits(s))
      throw schedule_count_error("schedule: " + std::to_string(s.place.stages()) + " stages, " +
                                     std::to_string(s.place.edges.size()) + " edges and " +
                                     std::to_string(s.microbatches) +
                                     " microbatches need far more actions than the lists have",
                                 s.microbatches);
    pairs_ = static_cast<std::uint32_t>(numbers_.passes());
    first_end_ = 3 * pairs_ + pairs_ % 2;
    events_ = first_end_ + 2 * static_cast<std::uint32_t>(numbers_.messages());
  }

  /// Returns true if a table of all events is not much larger than the lists: at most 64 entries per action,
  /// plus 2^20. O(ranks).
  static bool fits(schedule const& s) {
    std::uint64_t actions = 0;
    for (auto const& row : s.ranks) actions += row.size();
    std::uint64_t const kinds = 3 * std::uint64_t{s.place.stages()} + 4 * s.place.edges.size();
    std::uint64_t const room = (std::min)(64 * actions + (std::uint64_t{1} << 20), std::uint64_t{none} - 2);
    return s.microbatches == 0 || kinds <= room / s.microbatches;
  }

  edge_numbers const& edges() const { return edges_; }
  bool messages() const { return messages_; }
  std::uint32_t events() const { return events_; }
  /// Returns the number of (stage, microbatch) pairs.
  std::uint32_t pairs() const { return pairs_; }

  /// Returns true if stage and microbatch exist.
  bool in_range(action const& a) const {
    return index(a.stage) < place_.stages() && index(a.microbatch) < microbatches_;
  }
  std::uint32_t forward_done(std::uint32_t s, microbatch_id m) const {
    return static_cast<std::uint32_t>(numbers_.pass(s, m));
  }
  /// The event of B or I.
  std::uint32_t gradient_done(std::uint32_t s, microbatch_id m) const { return pairs_ + forward_done(s, m); }
  std::uint32_t half_done(std::uint32_t s, microbatch_id m) const { return 2 * pairs_ + forward_done(s, m); }

  /// The event of the sending end of a message along an edge. The receiving end is the next number.
  std::uint32_t send_done(std::uint32_t edge, edge_flow flow, microbatch_id m) const {
    return first_end_ + 2 * static_cast<std::uint32_t>(numbers_.message(edge, flow, m));
  }
  /// The event of the pass that produces the value of a send, or that consumes the value of a receive.
  std::uint32_t pass_of(action const& message) const {
    return is_activation_message(message.kind) ? forward_done(index(message.stage), message.microbatch)
                                               : gradient_done(index(message.stage), message.microbatch);
  }
  /// Returns the rank that does a pass.
  rank_id rank_of(std::uint32_t pass) const {
    return place_.rank_of[index(numbers_.pass_at(pass % pairs_).stage)];
  }
  bool is_end_of_message(std::uint32_t event) const { return event >= first_end_; }
  static constexpr std::uint32_t receive_of(std::uint32_t send) { return send + 1; }
  /// Returns the other end of a message. Sending ends have even numbers.
  static constexpr std::uint32_t other_end(std::uint32_t event) { return event ^ 1; }

  /// Returns the edge along which a message moves, in either direction, or `none` if its stages have no edge.
  std::uint32_t edge_of(action const& a) const {
    if (index(a.peer) >= place_.stages() || index(a.stage) >= place_.stages()) return none;
    bool const here_first = is_activation_message(a.kind) != is_receive(a.kind);
    auto const e =
        here_first ? edges_.find(index(a.stage), index(a.peer)) : edges_.find(index(a.peer), index(a.stage));
    return e.value_or(none);
  }
  bool crosses_ranks(std::uint32_t edge) const {
    auto const& e = place_.edges[edge];
    return place_.rank_of[index(e.from)] != place_.rank_of[index(e.to)];
  }
  /// Returns the event of the end of the message to which a send, its wait or a receive belongs. Returns
  /// `none` if its stages are on one rank or have no edge.
  std::uint32_t message_end(action const& a) const {
    if (!in_range(a)) return none;
    auto const e = edge_of(a);
    if (e == none || !crosses_ranks(e)) return none;
    auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
    auto const send = send_done(e, flow, a.microbatch);
    return is_receive(a.kind) ? receive_of(send) : send;
  }

  /// Calls `f(event)` for each event on which a pass depends, until a call returns false. For a value from
  /// another rank these are both ends of the message. In a schedule without messages it is the pass that
  /// produces the value.
  template <class F>
  bool each_dependency(action const& a, F f) const {
    return each_dependency_of(
        a, edges_,
        [&](std::uint32_t s, pass_mark which) {
          return f(which == pass_mark::half ? half_done(s, a.microbatch) : forward_done(s, a.microbatch));
        },
        [&](std::uint32_t edge, edge_flow flow) { return dependency_along(edge, flow, a.microbatch, f); });
  }

  /// Calls `f(event)` for each event that a pass triggers.
  template <class F>
  void each_effect(action const& a, F f) const {
    using enum action_kind;
    std::uint32_t const s = index(a.stage);
    if (a.kind == action_kind::forward) f(forward_done(s, a.microbatch));
    if (a.kind == action_kind::backward || a.kind == input_gradient) f(gradient_done(s, a.microbatch));
    if (a.kind == input_gradient) f(half_done(s, a.microbatch));
  }

  /// Returns the action that triggers an event. For B and I the result is B.
  action action_of(std::uint32_t event) const {
    using enum action_kind;
    if (!is_end_of_message(event)) {
      auto const kind = event < pairs_       ? action_kind::forward
                        : event < 2 * pairs_ ? action_kind::backward
                                             : input_gradient;
      auto const [stage, m] = numbers_.pass_at(event % pairs_);
      return {.kind = kind, .stage = stage, .microbatch = m};
    }
    auto const end = event - first_end_;
    auto const m = numbers_.message_at(end / 2);
    auto const& e = place_.edges[m.edge];
    bool const gradient = m.flow == edge_flow::gradients, receives = end % 2 == 1;
    auto const [here, there] = gradient != receives ? std::pair(e.to, e.from) : std::pair(e.from, e.to);
    auto const kind = receives ? (gradient ? receive_gradient : receive_activation)
                               : (gradient ? send_gradient : send_activation);
    return {.kind = kind, .stage = here, .microbatch = m.microbatch, .peer = there};
  }

 private:
  template <class F>
  bool dependency_along(std::uint32_t edge, edge_flow flow, microbatch_id m, F& f) const {
    auto const& e = place_.edges[edge];
    if (!messages_ || !crosses_ranks(edge))
      return f(flow == edge_flow::gradients ? gradient_done(index(e.to), m) : forward_done(index(e.from), m));
    auto const send = send_done(edge, flow, m);
    return f(receive_of(send)) && f(send);
  }

  stage_placement const& place_;
  edge_numbers edges_;
  step_index numbers_;
  bool messages_;
  std::uint32_t microbatches_, pairs_ = 0, first_end_ = 0, events_ = 0;
};

/// The predecessors and successors of each stage, as plain numbers.
class stage_neighbours {
 public:
  /// Precondition: both stages of every edge exist. O(stages + edges).
  explicit stage_neighbours(stage_placement const& p)
      : before_first_(std::size_t{p.stages()} + 2),
        after_first_(before_first_),
        before_(p.edges.size()),
        after_(p.edges.size()) {
    for (auto const& e : p.edges) {
      expects(index(e.from) < p.stages() && index(e.to) < p.stages(),
              "edges between stages of the placement");
      ++before_first_[index(e.to) + 2], ++after_first_[index(e.from) + 2];
    }
    for (std::size_t s = 2; s < before_first_.size(); ++s) {
      before_first_[s] += before_first_[s - 1];
      after_first_[s] += after_first_[s - 1];
    }
    for (auto const& e : p.edges) {
      before_[before_first_[index(e.to) + 1]++] = index(e.from);
      after_[after_first_[index(e.from) + 1]++] = index(e.to);
    }
  }

  std::size_t stages() const { return before_first_.size() - 2; }
  /// Returns the stages that feed stage `s`, in edge order.
  std::span<std::uint32_t const> before(std::uint32_t s) const {
    return std::span(before_).subspan(before_first_[s], before_first_[s + 1] - before_first_[s]);
  }
  /// Returns the stages that stage `s` feeds, in edge order.
  std::span<std::uint32_t const> after(std::uint32_t s) const {
    return std::span(after_).subspan(after_first_[s], after_first_[s + 1] - after_first_[s]);
  }

  /// Returns the depth of each stage: the number of edges on the longest path that ends there.
  /// O(stages + edges).
  /// \throws infeasible_error if the stages form a cycle
  std::vector<std::uint32_t> depths() const {
    std::vector<std::uint32_t> depth(stages()), missing(stages()), ready;
    for (std::uint32_t s = 0; s < stages(); ++s) {
      missing[s] = static_cast<std::uint32_t>(before(s).size());
      if (missing[s] == 0) ready.push_back(s);
    }
    for (std::size_t done = 0; done < ready.size(); ++done) {
      auto const s = ready[done];
      for (auto const next : after(s)) {
        depth[next] = (std::max)(depth[next], depth[s] + 1);
        if (--missing[next] == 0) ready.push_back(next);
      }
    }
    if (ready.size() < stages()) throw infeasible_error("placement: the edges between stages form a cycle");
    return depth;
  }

 private:
  std::vector<std::size_t> before_first_, after_first_;
  std::vector<std::uint32_t> before_, after_;
};

}  // namespace cleave::detail
