// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/scopes.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::detail {

/// Puts copies of marks into stages, so that each node runs under its state wherever it is; `make_plan` is
/// its one use. One pass over the nodes in program order: a stage falls behind the state of the graph, and
/// catches up before its next node. O(V + copies log copies + stages * kinds).
template <std::unsigned_integral Index>
class scope_copier {
 public:
  scope_copier(basic_dense<Index> const& s, basic_scopes<Index> const& scopes,
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
    auto const homes = stages_by_node();
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      state_[i].set = set_;
      stages_[i].nodes.clear();
    }
    for (std::size_t n = 0; n < homes.rows(); ++n) {
      for (auto const i : homes[n]) {
        if (!is_replicable(s_, n)) catch_up(i, n);
        stages_[i].nodes.push_back(static_cast<Index>(n));
      }
      if (scopes_.is_mark(n)) pass(n, homes[n].front());
    }
    for (std::uint32_t i = 0; i < stages_.size(); ++i) {
      state_[i].ended = state_[i].entered;
      leave_ended(i);
    }
  }

  /// After `run`: the last stage that sets a kind of state sets it to what the graph leaves behind.
  void leave_behind(std::vector<stage_id> const& order) {
    for (std::size_t k = 0; k < set_.size(); ++k) {
      auto const sets = [&](stage_id i) { return state_[index(i)].set[k] != none<Index>; };
      auto const at = std::find_if(order.rbegin(), order.rend(), sets);
      if (at != order.rend() && state_[index(*at)].set[k] != set_[k])
        copy(scopes_.list[set_[k]].first, index(*at));
    }
  }

 private:
  /// How far a stage has followed the graph's state.
  struct stage_state {
    std::size_t marks = 0;       // how many it has seen
    Index scopes = 0;            // those below are either entered here or over
    std::vector<Index> entered;  // and not left here, in order
    std::vector<Index> ended;    // of these: what the graph has left
    std::vector<Index> set;      // of a kind: the scope whose setting holds here, or none
  };

  csr<std::uint32_t> stages_by_node() const {
    csr<std::uint32_t, Index> nodes;
    for (auto const& stage : stages_) {
      nodes.item.insert(nodes.item.end(), stage.nodes.begin(), stage.nodes.end());
      nodes.close();
    }
    csr<std::uint32_t> homes;
    homes.first.assign(s_.nodes() + 1, 0);
    homes.item.resize(nodes.item.size());
    for (Index const n : nodes.item) ++homes.first[n + std::size_t{1}];
    for (std::size_t n = 0; n < s_.nodes(); ++n) homes.first[n + 1] += homes.first[n];
    auto next = homes.first;
    for (std::uint32_t i = 0; i < stages_.size(); ++i)
      for (Index const n : nodes[i]) homes.item[next[n]++] = i;
    return homes;
  }

  void copy(Index n, std::uint32_t stage) { stages_[stage].nodes.push_back(n); }

  /// Brings stage i to the state that node n runs under.
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

  /// The last entered is left first.
  void leave_ended(std::uint32_t i) {
    auto& here = state_[i];
    std::ranges::sort(here.ended);
    for (std::size_t at = here.entered.size(); at-- > 0 && !here.ended.empty();) {
      Index const x = here.entered[at];
      auto const ended = std::ranges::lower_bound(here.ended, x);
      if (ended == here.ended.end() || *ended != x) continue;
      copy(scopes_.list[x].last, i);
      here.ended.erase(ended);
      here.entered.erase(here.entered.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  /// Node n, a mark of stage `home`, changes the state of the graph.
  void pass(std::size_t n, std::uint32_t home) {
    Index const x = scopes_.at[n];
    auto const& scope = scopes_.list[x];
    if (!scopes_.is_copied(scope)) return;
    ++marks_;
    if (scope.first == n) {
      hold(x, home);
      if (scope.is_set) set_[scope.kind] = x;
      if (!scope.is_set) append(x);
      state_[home].scopes = passed_ = static_cast<Index>(x + 1);
    } else {
      for (auto const i : holders_[x])
        if (i != home) state_[i].ended.push_back(x);
      std::erase(state_[home].entered, x);
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

  basic_dense<Index> const& s_;
  basic_scopes<Index> const& scopes_;
  std::vector<basic_stage<Index>>& stages_;
  std::vector<stage_state> state_;
  std::vector<std::vector<std::uint32_t>> holders_;  // of a scope: the stages that entered it
  std::vector<Index> before_, after_;                // the scopes that are open in the graph, as a list …
  Index last_ = none<Index>;                         // … and its end
  std::vector<Index> set_;                           // of a kind: the scope whose setting holds in the graph
  Index passed_ = 0;                                 // scopes that have begun
  std::size_t marks_ = 0;
};

}  // namespace cleave::detail
