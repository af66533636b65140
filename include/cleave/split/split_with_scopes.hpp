// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/split.hpp"

namespace cleave::inline v0_2::detail {

/// Copies marks into stages, so that each node runs under its state wherever it is. Used by `make_plan`. It
/// passes over the nodes once, in program order. A stage falls behind the state of the graph and catches up
/// before its next node. O(V + copies log copies + stages * kinds).
template <std::unsigned_integral Index>
class scope_copier {
 public:
  scope_copier(basic_snapshot_arrays<Index> const& s, basic_scopes<Index> const& scopes,
               std::vector<basic_stage<Index>>& stages)
      : s_(s),
        scopes_(scopes),
        stages_(stages),
        state_(stages.size()),
        holders_(scopes.list.size()),
        before_(scopes.list.size(), none<Index>),
        after_(scopes.list.size(), none<Index>),
        set_(scopes.kinds.size(), none<Index>) {}

  void run() {
    auto const stages_of_node = stages_by_node();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      state_[i].set = set_;
      stages_[i].nodes.clear();
    }
    for (std::size_t n = 0; n < stages_of_node.rows(); ++n) {
      for (auto const i : stages_of_node[n]) {
        if (!is_replicable(s_, n)) catch_up(i, n);
        stages_[i].nodes.push_back(static_cast<Index>(n));
      }
      if (scopes_.is_mark(n)) pass(n, stages_of_node[n].front());
    }
    for (std::uint32_t i = 0; i < stages_.size(); ++i) {
      state_[i].ended = state_[i].entered;
      leave_ended(i);
    }
  }

  /// To be called after `run`. The last stage that sets a kind of state then sets it to the value that the
  /// graph leaves behind.
  void leave_behind(std::vector<stage_id> const& order) {
    for (std::size_t k = 0; k < set_.size(); ++k) {
      auto const sets = [&](stage_id i) { return state_[index(i)].set[k] != none<Index>; };
      auto last = order.size();  // one past the last stage that sets it
      while (last > 0 && !sets(order[last - 1])) --last;
      if (last > 0 && state_[index(order[last - 1])].set[k] != set_[k])
        copy(scopes_.list[set_[k]].first, index(order[last - 1]));
    }
  }

 private:
  /// The state of a stage, which may lag behind that of the graph.
  struct stage_state {
    std::size_t marks = 0;       // number of marks of the graph that the stage has followed
    Index scopes = 0;            // scopes with smaller numbers are either entered here or over
    std::vector<Index> entered;  // scopes entered and not left here, in order
    std::vector<Index> ended;    // those of `entered` that the graph has left
    std::vector<Index> set;      // by kind: the scope whose setting is in force here, or none
  };

  csr<std::uint32_t> stages_by_node() const {
    csr<std::uint32_t, Index> nodes;
    for (auto const& stage : stages_) {
      nodes.item.insert(nodes.item.end(), stage.nodes.begin(), stage.nodes.end());
      nodes.close();
    }
    csr<std::uint32_t> stages_of_node;
    stages_of_node.first.assign(s_.nodes() + 1, 0);
    stages_of_node.item.resize(nodes.item.size());
    for (Index const n : nodes.item) ++stages_of_node.first[n + std::size_t{1}];
    for (std::size_t n = 0; n < s_.nodes(); ++n) stages_of_node.first[n + 1] += stages_of_node.first[n];
    auto next = stages_of_node.first;
    for (std::uint32_t i = 0; i < stages_.size(); ++i)
      for (Index const n : nodes[i]) stages_of_node.item[next[n]++] = i;
    return stages_of_node;
  }

  void copy(Index n, std::uint32_t stage) { stages_[stage].nodes.push_back(n); }

  /// Brings stage i to the state under which node n runs.
  void catch_up(std::uint32_t i, std::size_t n) {
    auto& here = state_[i];
    if (std::exchange(here.marks, marks_) == marks_) return;
    leave_ended(i);
    std::vector<Index> missing;
    for (Index x = last_; x != none<Index> && x >= here.scopes; x = before_[x]) missing.push_back(x);
    here.scopes = passed_;
    bool const mark = scopes_.is_mark(n);
    for (std::uint32_t k = 0; k < set_.size(); ++k) {
      auto const& own = mark ? scopes_.list[scopes_.at[n]] : basic_scope<Index>{};
      bool const sets_anew = mark && own.is_set && own.kind == k;
      if (set_[k] != none<Index> && here.set[k] != set_[k] && !sets_anew) missing.push_back(set_[k]);
    }
    std::ranges::sort(missing, {}, [&](Index x) { return std::pair(scopes_.list[x].kind, x); });
    for (Index const x : missing) {
      copy(scopes_.list[x].first, i);
      hold(x, i);
    }
  }

  void hold(Index x, std::uint32_t stage) {
    auto const& scope = scopes_.list[x];
    if (scope.is_set) {
      state_[stage].set[scope.kind] = x;
    } else {
      state_[stage].entered.push_back(x);
      holders_[x].push_back(stage);
    }
  }

  /// Leaves the scopes that the graph has left, the last entered first.
  void leave_ended(std::uint32_t i) {
    auto& here = state_[i];
    std::sort(here.ended.begin(), here.ended.end());
    for (std::size_t at = here.entered.size(); at-- > 0 && !here.ended.empty();) {
      Index const x = here.entered[at];
      auto const ended = std::ranges::lower_bound(here.ended, x);
      if (ended == here.ended.end() || *ended != x) continue;
      copy(scopes_.list[x].last, i);
      here.ended.erase(ended);
      here.entered.erase(here.entered.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  /// Changes the state of the graph as node n does, a mark in stage `stage`.
  void pass(std::size_t n, std::uint32_t stage) {
    Index const x = scopes_.at[n];
    auto const& scope = scopes_.list[x];
    if (!scopes_.is_copied(scope)) return;
    ++marks_;
    if (scope.first == n) {
      hold(x, stage);
      if (scope.is_set) set_[scope.kind] = x;
      if (!scope.is_set) append(x);
      state_[stage].scopes = passed_ = static_cast<Index>(x + 1);
    } else {
      for (auto const i : holders_[x])
        if (i != stage) state_[i].ended.push_back(x);
      std::erase(state_[stage].entered, x);
      remove(x);
    }
  }

  void append(Index x) {
    before_[x] = last_;
    if (last_ != none<Index>) after_[last_] = x;
    last_ = x;
  }
  void remove(Index x) {
    (after_[x] == none<Index> ? last_ : before_[after_[x]]) = before_[x];
    if (before_[x] != none<Index>) after_[before_[x]] = after_[x];
  }

  basic_snapshot_arrays<Index> const& s_;
  basic_scopes<Index> const& scopes_;
  std::vector<basic_stage<Index>>& stages_;
  std::vector<stage_state> state_;
  std::vector<std::vector<std::uint32_t>> holders_;  // by scope: the stages that entered it
  std::vector<Index> before_, after_;  // the scopes that are open in the graph, as a linked list …
  Index last_ = none<Index>;           // … and its last element
  std::vector<Index> set_;             // by kind: the scope whose setting is in force in the graph
  Index passed_ = 0;                   // number of scopes that have begun
  std::size_t marks_ = 0;
};

/// Two nodes in different parts, under a scope that must not be cut.
struct cut_scope {
  std::size_t scope;
  std::size_t first, second;
};

/// Returns the first scope with policy `forbid` whose nodes have different parts, or nothing. O(V + scopes).
template <std::unsigned_integral Index>
std::optional<cut_scope> find_cut_scope(basic_snapshot_arrays<Index> const& s, partition const& p,
                                        basic_scopes<Index> const& scopes) {
  std::size_t done = 0;  // nodes with smaller numbers have been compared
  for (std::size_t i = 0; i < scopes.list.size(); ++i) {
    auto const& x = scopes.list[i];
    if (scopes.policy(x) != scope_policy::forbid) continue;
    done = std::max<std::size_t>(done, x.first + std::size_t{1});
    for (; done < (std::min)(p.of.size(), s.nodes()) && is_under(x, done); ++done)
      if (!is_replicable(s, done) && p.of[done] != p.of[x.first]) return cut_scope{i, x.first, done};
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if a scope that must not be cut is cut. The witness is two of its nodes.
using scope_cut_error = tagged_error<struct scope_cut_tag, std::pair<std::size_t, std::size_t>>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A state that would be set too early: `early` runs before the state is first set and `late` after, but the
/// part of `late` comes first. No stage can undo a setting.
struct late_start {
  std::uint32_t kind;
  std::size_t early, late;
};

/// Thrown if the dependencies of parts make a node run under a state that is set after it. The witness is
/// that node and one that needs the state set.
using scope_order_error = tagged_error<struct scope_order_tag, std::pair<std::size_t, std::size_t>>;

/// Orders parts so that nodes from before the first setting of a state do not run after it. Used by
/// `scoped_order`. A part *starts before* a setting if it has a node before it. A part *sets* the state if it
/// has a node at or after the first setting.
template <std::unsigned_integral Index>
class state_order {
 public:
  state_order(basic_snapshot_arrays<Index> const& s, partition const& p, basic_scopes<Index> const& scopes)
      : first_(p.parts, s.nodes()), last_(p.parts, s.nodes()), setting_(scopes.kinds.size(), s.nodes()) {
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      if (is_replicable(s, n)) continue;
      last_[index(p.of[n])] = n;
      if (auto& first = first_[index(p.of[n])]; first == s.nodes() && !scopes.is_mark(n)) first = n;
    }
    for (auto& last : last_)
      if (last == s.nodes()) last = 0;  // an empty part; if node 0 sets a state, no part starts before that
    for (auto const& x : scopes.list)
      if (x.is_set && scopes.is_copied(x) && setting_[x.kind] == s.nodes()) setting_[x.kind] = x.first;
  }

  std::optional<late_start> find_late_start(std::vector<stage_id> const& order) const {
    for (std::uint32_t k = 0; k < setting_.size(); ++k) {
      std::optional<std::uint32_t> set;  // the first part that sets the state
      for (stage_id const i : order) {
        if (set && starts_before(k, index(i))) return late_start{k, first_[index(i)], last_[*set]};
        if (!set && sets(k, index(i))) set = index(i);
      }
    }
    return std::nullopt;
  }

  /// Returns `parts` with two more, empty parts for each kind, which act as barriers. The first lies between
  /// the parts that only start before the setting and all parts that set the state. The second lies between a
  /// part that does both and the parts that only set.
  part_graph gated(part_graph const& parts) const {
    auto const count = static_cast<std::uint32_t>(first_.size());
    part_graph more;
    more.first_node = parts.first_node;
    more.first_node.resize(count + 2 * setting_.size(), 0);
    for (std::uint32_t i = 0; i < count; ++i) {
      for (auto const to : parts.dependents[i]) more.dependents.add(to);
      for (std::uint32_t k = 0; k < setting_.size(); ++k)
        if (starts_before(k, i)) more.dependents.add(count + 2 * k + (sets(k, i) ? 1 : 0));
      more.dependents.close();
    }
    for (std::uint32_t k = 0; k < setting_.size(); ++k)
      for (bool const both : {false, true}) {
        for (std::uint32_t i = 0; i < count; ++i)
          if (sets(k, i) && !(both && starts_before(k, i))) more.dependents.add(i);
        more.dependents.close();
      }
    return more;
  }

 private:
  bool starts_before(std::uint32_t k, std::uint32_t part) const { return first_[part] < setting_[k]; }
  bool sets(std::uint32_t k, std::uint32_t part) const { return last_[part] >= setting_[k]; }

  std::vector<std::size_t> first_, last_;  // by part: its first node that is not a mark, its last node
  std::vector<std::size_t> setting_;       // by kind: the first node that sets it
};

/// Returns the order that the policy gives. If a node would then run under a state that is set after it,
/// returns another order that the policy allows, unless late settings are accepted. `s` and `p` have passed
/// `check_partition`, and `parts` is their part_graph. O(V + E + parts log parts).
/// \throws scope_order_error if no such order is found
template <std::unsigned_integral Index>
std::vector<stage_id> scoped_order(basic_snapshot_arrays<Index> const& s, partition const& p,
                                   part_graph const& parts, basic_scopes<Index> const& scopes,
                                   plan_options const& options) {
  auto order = emission_order(parts, options.stages, options.priority);
  if (options.settings == late_settings::accepted) return order;
  state_order<Index> const states(s, p, scopes);
  auto const late = states.find_late_start(order);
  if (!late) return order;
  order = emission_order(states.gated(parts), options.stages, options.priority);
  std::erase_if(order, [&](stage_id i) { return index(i) >= p.parts; });
  auto const still = order.size() < p.parts ? late : states.find_late_start(order);
  if (still)
    raise(scope_order_error(
        "scope " + quoted(scopes.kinds[still->kind].name) + ": node " + s.label(still->early) + " in part " +
            std::to_string(index(p.of[still->early])) + " runs before the state is first set, but part " +
            std::to_string(index(p.of[still->late])) + ", where node " + s.label(still->late) +
            " needs it set, cannot run after it; cut elsewhere",
        {still->early, still->late}));
  return order;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Plans a graph with scopes, so that each node runs under the same state as in the graph. `s` is the
/// snapshot that `add_scopes` returns.
///
/// The node lists of stages contain copies of the nodes that enter, leave or set a scope. Copies stand where
/// they are first needed, sorted by kind and then by program order. A copied exit stands before the next node
/// that is not under its scope; the scope entered last is left first. Unless late settings are accepted, the
/// last stage that sets a state sets it to the value that the graph leaves behind.
/// \throws scope_cut_error if a scope with policy `forbid` is cut, scope_order_error if no order of stages
/// keeps a state, and partition_error as the other `make_plan`
template <std::unsigned_integral Index>
basic_plan<Index> make_plan(basic_snapshot_arrays<Index> const& s, partition const& p,
                            basic_scopes<Index> const& scopes, plan_options const& options = {}) {
  if (auto const cut = detail::find_cut_scope(s, p, scopes))
    detail::raise(scope_cut_error("scope " + quoted(scopes.kinds[scopes.list[cut->scope].kind].name) +
                                      " must not be cut: node " + s.label(cut->first) + " is in part " +
                                      std::to_string(index(p.of[cut->first])) + ", node " +
                                      s.label(cut->second) + " in part " +
                                      std::to_string(index(p.of[cut->second])) + "; put both into one part",
                                  {cut->first, cut->second}));
  if (scopes.list.empty()) return make_plan(s, p, options);
  detail::check_assignment(s, p);
  auto const parts = detail::part_graph_of(s, p);
  if (detail::emission_order(parts, options.stages).size() < p.parts)
    check_partition(s, p);  // names the cycle
  auto order = detail::scoped_order(s, p, parts, scopes, options);
  auto const copy_marks = [&](auto& stages, auto const& in_order) {
    detail::scope_copier<Index> copier(s, scopes, stages);
    copier.run();
    if (options.settings == late_settings::refused) copier.leave_behind(in_order);
  };
  return detail::plan_maker<Index>(s, p).make(std::move(order), options.outputs, options.inputs, copy_marks);
}

/// Splits a graph with scopes. Each stage keeps the state under which its nodes run. `mark(node)` returns the
/// effect of a node on the state of one of the `kinds`, as an optional `scope_mark` of nodes.
/// \throws the errors of snapshot_of, scopes_of, add_scopes and make_plan
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph, class F>
  requires std::invocable<F&, node_t<Graph>>
staged_graph<Graph, Index> split_with_scopes(Graph const& g, partition const& p,
                                             std::vector<scope_kind> kinds, F mark,
                                             plan_options const& options = {}) {
  auto s = snapshot_of<Index>(g);
  auto const scopes = detail::scopes_of(s, std::move(kinds), std::move(mark));
  s = detail::add_scopes(std::move(s), scopes);
  auto cut = make_plan(s, p, scopes, options);
  return {g, std::move(s), std::move(cut)};
}
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph, class F>
  requires std::invocable<F&, node_t<Graph>>
staged_graph<Graph, Index> split_with_scopes(
    Graph const&& /* is gone when emit asks it: give it a name first */, partition const&,
    std::vector<scope_kind>, F, plan_options const& = {}) = delete;
}  // namespace cleave
