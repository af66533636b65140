// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/acyclic/state.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// A pipeline whose units may move, with the cost of moves.
template <std::unsigned_integral Index>
struct stage_problem {
  acyclic_level<Index> level;
  acyclic_limits limits;  ///< while units move, parts may be empty or exceed their limits
  fixed_point scale;
  std::vector<Index> order;             ///< the units in topological order
  std::vector<std::uint32_t> previous;  ///< of each unit: its old part; no valid part if it is new
  csr<Index> members;                   ///< of each unit: its nodes
  std::vector<part_id> old;             ///< of each node: its old part
  std::vector<std::size_t> bytes;       ///< of each node: bytes that move with it
  double cost_per_moved_byte = 1;
  bool none_empty = false;  ///< true if every part must have units
};

/// The score of a partition, in lexicographic order; lower is better.
struct stage_score {
  std::size_t excess = 0;  ///< bytes above the memory limits
  std::size_t empty = 0;   ///< empty parts, if parts must not be empty
  double objective = 0;
  std::size_t moved_bytes = 0;

  auto operator<=>(stage_score const&) const = default;
};

/// Improves a partition by moves of single units and by sequences of such moves. A move takes
/// O(values of the unit + parts).
template <std::unsigned_integral Index>
class stage_moves {
 public:
  stage_moves(stage_problem<Index> const& problem, std::vector<std::uint32_t> of, std::size_t& trials)
      : p_(problem), state_(problem.level, problem.limits, std::move(of)), trials_(trials) {
    for (Index const u : p_.order) moved_bytes_ += away(u, state_.of()[u]);
    now_ = score();
  }

  stage_score const& scored() const { return now_; }
  std::vector<std::uint32_t> const& of() const { return state_.of(); }
  std::int64_t bottleneck() const { return state_.bottleneck(); }

  /// Makes each part that exceeds the load `bound` or its memory pass units on, first towards the end of the
  /// pipeline, then towards its beginning. This may worsen the score.
  void level_out(std::int64_t bound) {
    auto const parts = p_.limits.parts();
    auto const pass_on = [&](std::uint32_t from, std::uint32_t to) {
      if (!too_much(from, bound)) return;
      for (Index const u : units_towards(from, to)) {
        if (!too_much(from, bound) || trials_ == 0) break;
        if (may_go(u, to)) put(u, to);
      }
    };
    for (std::uint32_t s = 0; s + 1 < parts; ++s) pass_on(s, s + 1);
    for (auto s = parts; s-- > 1;) pass_on(s, s - 1);
    now_ = score();
  }

  /// Makes moves that improve the score until no move does, or no trials are left.
  void improve() {
    for (bool more = true; more && trials_ > 0;) {
      more = return_to_previous();
      while (relieve()) more = true;
    }
  }

 private:
  /// Returns the moved bytes of `u` if it is in part `part`.
  std::size_t away(Index u, std::uint32_t part) const {
    std::size_t bytes = 0;
    for (Index const n : p_.members[u])
      if (p_.old[n] != no_part && index(p_.old[n]) != part) bytes += p_.bytes[n];
    return bytes;
  }
  bool too_much(std::uint32_t part, std::int64_t bound) const {
    return state_.load(part) > bound || excess(part) > 0;
  }
  std::size_t excess(std::uint32_t part) const {
    if (p_.limits.memory.empty()) return 0;
    return state_.memory(part) - (std::min)(state_.memory(part), p_.limits.memory[part]);
  }
  stage_score score() const {
    stage_score s{.moved_bytes = moved_bytes_};
    for (std::uint32_t part = 0; part < p_.limits.parts(); ++part) {
      s.excess += excess(part);
      s.empty += p_.none_empty && state_.count(part) == 0 ? 1u : 0u;
    }
    s.objective =
        p_.scale.value(state_.bottleneck()) + p_.cost_per_moved_byte * static_cast<double>(moved_bytes_);
    return s;
  }

  bool may_go(Index u, std::uint32_t to) const {
    auto const [first, last] = state_.range(u);
    return to >= first && to <= last;
  }
  void put(Index u, std::uint32_t to) {
    trials_ -= trials_ > 0 ? 1 : 0;
    moved_bytes_ -= away(u, state_.of()[u]);
    moved_bytes_ += away(u, to);
    state_.move(u, to);
  }
  /// Returns the units of a part, the nearest to part `to` first.
  std::vector<Index> units_towards(std::uint32_t part, std::uint32_t to) const {
    std::vector<Index> units;
    for (Index const u : p_.order)
      if (state_.of()[u] == part) units.push_back(u);
    if (to > part) std::ranges::reverse(units);
    return units;
  }

  bool attempt(Index u, std::uint32_t to) {
    auto const here = state_.of()[u];
    if (trials_ == 0 || to == here || !may_go(u, to)) return false;
    put(u, to);
    if (auto const after = score(); after < now_) {
      now_ = after;
      return true;
    }
    put(u, here);
    return false;
  }

  /// Moves `units` in order, and keeps the prefix with the best score, even if some of its moves worsen the
  /// score. Returns true if the score improved.
  bool attempt_all(std::vector<Index> const& units, std::uint32_t to) {
    std::vector<std::pair<Index, std::uint32_t>> done;
    std::size_t kept = 0;
    for (Index const u : units) {
      if (trials_ == 0 || done.size() > 1000 + 2 * kept) break;
      if (!may_go(u, to)) continue;
      done.emplace_back(u, state_.of()[u]);
      put(u, to);
      if (auto const after = score(); after < now_) {
        now_ = after;
        kept = done.size();
      }
    }
    for (; done.size() > kept; done.pop_back()) put(done.back().first, done.back().second);
    return kept > 0;
  }

  /// Returns units to their old parts: single ones, and all that moved between the same two parts.
  bool return_to_previous() {
    bool better = false;
    std::vector<Index> out;
    for (Index const u : p_.order)
      if (p_.previous[u] < p_.limits.parts() && p_.previous[u] != state_.of()[u]) out.push_back(u);
    for (Index const u : out) better |= attempt(u, p_.previous[u]);
    for (std::size_t i = out.size(); i-- > 0;) better |= attempt(out[i], p_.previous[out[i]]);
    std::erase_if(out, [&](Index u) { return p_.previous[u] == state_.of()[u]; });
    auto const way = [&](Index u) { return std::pair(state_.of()[u], p_.previous[u]); };
    std::vector<std::pair<std::pair<std::uint32_t, std::uint32_t>, std::size_t>> by_way;
    for (std::size_t i = 0; i < out.size(); ++i)
      by_way.emplace_back(way(out[i]), way(out[i]).first < way(out[i]).second ? out.size() - i : i);
    std::ranges::sort(by_way);
    for (std::size_t i = 0, j = 0; i < by_way.size(); i = j) {
      std::vector<Index> units;
      auto const [from, to] = by_way[i].first;
      for (; j < by_way.size() && by_way[j].first == by_way[i].first; ++j)
        units.push_back(out[from < to ? out.size() - by_way[j].second : by_way[j].second]);
      better |= attempt_all(units, to);
    }
    return better;
  }

  /// Moves units of the part with the most excess or load to its neighbours, or single units anywhere.
  bool relieve() {
    std::uint32_t worst = 0;
    auto const parts = p_.limits.parts();
    for (std::uint32_t part = 1; part < parts; ++part)
      if (std::pair(excess(part), state_.load(part)) > std::pair(excess(worst), state_.load(worst)))
        worst = part;
    auto const units = units_towards(worst, parts);
    if (worst + 1 < parts && attempt_all(units, worst + 1)) return true;
    if (worst > 0 && attempt_all(units_towards(worst, 0), worst - 1)) return true;
    bool better = false;
    for (Index const u : units) {
      auto const [first, last] = state_.range(u);
      for (auto to = first; to <= last && state_.of()[u] == worst; ++to) better |= attempt(u, to);
    }
    return better;
  }

  stage_problem<Index> const& p_;
  acyclic_state<Index> state_;
  std::size_t& trials_;
  std::size_t moved_bytes_ = 0;
  stage_score now_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `repartition_stages`.
struct stage_repartition_options {
  double cost_per_moved_byte = 1;     ///< cost of moving one byte, in the unit of the weights
  std::vector<std::size_t> moving{};  ///< of each node: bytes that move with it; empty: `node_memory`, or one
                                      ///< byte each
  std::vector<char> stays{};          ///< of each node: true if it must not move; empty: all may move
  std::vector<partition> starts{};    ///< initial partitions in addition to the old one and that of `balance`
  std::size_t most_trials = 0;        ///< moves of single units tried; 0: two million, or 20 per unit if that
                                      ///< is more
  balance_options balance{};          ///< costs, memory limits, fixed nodes, co-location
};

/// Parts numbered in pipeline order, with their costs.
struct repartitioned_stages : partition {
  std::vector<double> loads{};  ///< of each part: compute time plus transfers
  double bottleneck = 0;        ///< the largest load
  std::size_t moved_bytes = 0, moved_nodes = 0;
  double objective = 0;  ///< the bottleneck plus the cost of the moved bytes
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Describes the first invalid option, or returns nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(stage_repartition_options const& o,
                                             basic_snapshot_arrays<Index> const& g, partition const& old,
                                             std::uint32_t k) {
  if (auto fault = find_option_fault(o.balance, g, k)) return fault;
  if (o.balance.relayed) return "`relayed` is supported by balance only; leave it out";
  auto const count = [](std::size_t n) { return std::to_string(n); };
  auto const all = count(g.nodes()) + " nodes";
  if (!(o.cost_per_moved_byte >= 0) || !is_finite(o.cost_per_moved_byte))
    return "cost_per_moved_byte is negative or not finite: expected a finite number of at least 0";
  if (old.of.size() != g.nodes())
    return "the old partition has " + count(old.of.size()) + " entries, but the graph has " + all;
  if (!o.moving.empty() && o.moving.size() != g.nodes())
    return "moving has " + count(o.moving.size()) + " entries, but the graph has " + all;
  if (!o.stays.empty() && o.stays.size() != g.nodes())
    return "stays has " + count(o.stays.size()) + " entries, but the graph has " + all;
  for (std::size_t n = 0; n < o.stays.size(); ++n)
    if (o.stays[n] && index(old.of[n]) >= k && !is_replicable(g, n))
      return "node " + g.label(n) + " must stay, but its old part is not one of the " + count(k) + " parts";
  return std::nullopt;
}

/// Finds a new partition for a pipeline. Helper of `repartition_stages`.
template <std::unsigned_integral Index>
class stage_repartitioner {
 public:
  stage_repartitioner(basic_snapshot_arrays<Index> const& g, partition const& old, std::uint32_t k,
                      stage_repartition_options const& o)
      : g_(g), old_(old), k_(k), o_(o), limits_(o.balance), moving_(o.moving) {
    if (moving_.empty()) moving_ = limits_.node_memory;
    if (moving_.empty()) moving_.assign(g.nodes(), 1);
    for (std::size_t n = 0; n < o.stays.size(); ++n)
      if (o.stays[n] && !is_replicable(g, n)) {
        limits_.fixed.resize(g.nodes(), no_part);
        limits_.fixed[n] = old.of[n];
      }
    units_ = units_of(g, {.together = limits_.together, .backward = limits_.backward});
    state_problem();
    trials_ = o.most_trials > 0 ? o.most_trials : std::max<std::size_t>(2'000'000, 20 * units_.size());
  }

  repartitioned_stages run() {
    std::vector<partition> starts{old_};
    starts.insert(starts.end(), o_.starts.begin(), o_.starts.end());
    std::string refusal;
    std::int64_t least = 0;  // smallest load bound that is worth an attempt
    try {
      auto balanced = balance(g_, k_, limits_);
      least = p_.scale.of(balanced.bottleneck);
      starts.push_back(std::move(balanced));
    } catch (infeasible_error const& e) {
      refusal = e.what();
    }
    for (auto const& start : starts)
      if (auto const of = settled(start)) better_from(*of, least, trials_ / starts.size());
    if (best_.empty() || score_.excess > 0) throw infeasible_error(refusal);
    return reported();
  }

 private:
  void state_problem() {
    auto const costs = costs_of(g_, units_, k_, {limits_.cost_per_byte, limits_.speed, limits_.link});
    p_.scale = costs.scale;
    p_.limits.speed_of = costs.speed_of;
    p_.limits.link_of = costs.link_of;
    p_.limits.most.assign(k_, unreachable_load);
    p_.limits.may_be_empty = true;
    for (std::uint32_t s = 0; s < k_ && !limits_.memory.empty(); ++s)
      p_.limits.memory.push_back(limits_.memory[s]);
    p_.none_empty = limits_.empty == empty_parts::forbidden;
    p_.cost_per_moved_byte = o_.cost_per_moved_byte;

    p_.level.predecessors = units_.predecessors;
    p_.level.successors = units_.successors;
    p_.level.weight = costs.weight;
    p_.level.touching = costs.touching;
    p_.level.touched = costs.touched;
    p_.level.price = costs.linked;
    if (p_.level.price.empty()) p_.level.price.push_back(costs.transfer);
    if (!limits_.memory.empty()) p_.level.memory = memory_of<Index>(g_, units_, limits_.node_memory);
    p_.members = units_.members;
    p_.old = old_.of;
    p_.bytes = moving_;
    std::vector<Index> rank(units_.size());
    std::iota(rank.begin(), rank.end(), Index{});
    p_.order = ordered_units<Index>(units_.predecessors, units_.successors, unit_order::given, rank);
    for (Index u = 0; u < units_.size(); ++u) {
      p_.previous.push_back(index(old_.of[units_.members[u].front()]));
      pin_.push_back(pin_of(u));
    }
    if (std::ranges::any_of(pin_, [](part_id p) { return p != no_part; }))
      p_.level.window = reach_of_fixed<Index>(units_.predecessors, p_.order, pin_, k_).window;
  }
  part_id pin_of(std::size_t unit) const {
    for (Index const n : units_.members[unit])
      if (!limits_.fixed.empty() && limits_.fixed[n] != no_part) return limits_.fixed[n];
    return no_part;
  }

  /// Returns the part of each unit in `p`, or nothing if `p` puts a unit into a part that it must not be in.
  /// A unit without a part gets its fixed part, or the last part of its predecessors.
  std::optional<std::vector<std::uint32_t>> settled(partition const& p) const {
    if (p.of.size() != g_.nodes()) return std::nullopt;
    std::vector<std::uint32_t> of(units_.size());
    for (Index const u : p_.order) {
      of[u] = index(p.of[units_.members[u].front()]);
      for (Index const n : units_.members[u])
        if (index(p.of[n]) != of[u]) return std::nullopt;
      std::uint32_t least = 0;
      for (Index const need : units_.predecessors[u]) least = (std::max)(least, of[need]);
      if (of[u] == index(no_part)) of[u] = pin_[u] != no_part ? index(pin_[u]) : least;
      if (of[u] < least || of[u] >= k_ || (pin_[u] != no_part && index(pin_[u]) != of[u]))
        return std::nullopt;
    }
    return of;
  }

  /// Improves `of` several times and keeps the best result: once as it is, and then after heavy parts were
  /// reduced to loads between `least` and the current bottleneck.
  void better_from(std::vector<std::uint32_t> const& of, std::int64_t least, std::size_t trials) {
    auto const attempts = std::clamp<std::size_t>(20'000'000 / (units_.size() + 1), 3, 24);
    for (std::size_t i = 0; i <= attempts; ++i) {
      auto some = trials / (attempts + 1);
      stage_moves<Index> moves(p_, of, some);
      auto const most = moves.bottleneck();
      if (i > 0 && least >= most) break;
      if (i > 0)
        moves.level_out(
            least + static_cast<std::int64_t>(static_cast<double>(most - least) * static_cast<double>(i - 1) /
                                              static_cast<double>(attempts)));
      moves.improve();
      if (!best_.empty() && !(moves.scored() < score_)) continue;
      score_ = moves.scored();
      best_ = moves.of();
    }
  }

  repartitioned_stages reported() const {
    repartitioned_stages r;
    r.parts = k_;
    r.of.assign(g_.nodes(), no_part);
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (units_.of[n] == none<Index>) continue;
      r.of[n] = part_id{best_[units_.of[n]]};
      if (old_.of[n] == no_part || old_.of[n] == r.of[n]) continue;
      r.moved_bytes += moving_[n];
      ++r.moved_nodes;
    }
    r.loads = part_loads(
        g_, r, {.cost_per_byte = limits_.cost_per_byte, .speed = limits_.speed, .link = limits_.link});
    for (double const load : r.loads) r.bottleneck = (std::max)(r.bottleneck, load);
    r.objective = r.bottleneck + o_.cost_per_moved_byte * static_cast<double>(r.moved_bytes);
    return r;
  }

  basic_snapshot_arrays<Index> const& g_;
  partition const& old_;
  std::uint32_t k_;
  stage_repartition_options const& o_;
  balance_options limits_;
  std::vector<std::size_t> moving_;
  unit_graph<Index> units_;
  std::vector<part_id> pin_;  // of each unit: the part to which it is fixed
  stage_problem<Index> p_;
  std::vector<std::uint32_t> best_;
  stage_score score_;
  std::size_t trials_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Repartitions a pipeline whose costs have changed.
///
/// The objective is the bottleneck plus the cost of the bytes that leave their old part, under the
/// constraints of `balance`. The search starts from the old parts, the parts of `balance` and `starts`, each
/// as it is or after heavy parts were reduced. Units then return to their old parts or leave the heaviest
/// part, one or several in a row, as long as the objective improves. The result is never worse than any of
/// the starting partitions, including the old one if that is still allowed. Nodes without a part in `old`
/// move at no cost.
///
/// Complexity: that of `balance`, plus O(V + E) for each of 3 to 24 attempts per start, plus
/// O(values of the unit + k) per move.
///
/// \param g        the graph
/// \param old      the old part of each node, or `no_part`
/// \param k        the number of stages
/// \param options  migration cost, nodes that stay, and the options of `balance`
/// \throws error if weights or options are invalid.
/// \throws infeasible_error if memory limits or fixed nodes cannot be satisfied, like `balance`.
template <std::unsigned_integral Index>
repartitioned_stages repartition_stages(basic_snapshot_arrays<Index> const& g, partition const& old,
                                        std::uint32_t k, stage_repartition_options const& options = {}) {
  if (auto const fault = detail::find_option_fault(options, g, old, k))
    throw error("repartition_stages: " + *fault);
  return detail::stage_repartitioner<Index>(g, old, k, options).run();
}

/// Repartitions a user's own graph. Parts are given by node position in `nodes()`.
template <std::unsigned_integral Index = std::uint32_t, weighted_graph Graph>
  requires sized_graph<Graph>
repartitioned_stages repartition_stages(Graph const& g, partition const& old, std::uint32_t k,
                                        stage_repartition_options const& options = {}) {
  return repartition_stages(snapshot_of<Index>(g), old, k, options);
}

/// Rejects graphs without weights or sizes with a readable compile-time message.
template <std::unsigned_integral Index = std::uint32_t, detail::uncosted_graph Graph>
detail::refused repartition_stages(Graph const&, partition const&, std::uint32_t,
                                   stage_repartition_options const& = {}) {
  detail::refuse_costs<Graph>();
}

}  // namespace cleave
