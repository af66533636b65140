// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/check_rungs.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/repartition/stage_moves.hpp"
#include "cleave/partition/repartition/stage_options.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/unit_costs.hpp"
#include "cleave/partition/units/unit_memory.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::detail {

/// Finds new parts for a pipeline; `repartition_stages` is its one use.
template <std::unsigned_integral Index>
class stage_repartitioner {
 public:
  stage_repartitioner(basic_dense<Index> const& g, partition const& old, std::uint32_t k,
                      stage_repartition_options const& o)
      : g_(g), old_(old), k_(k), o_(o), limits_(o.balance), moving_(o.moving) {
    if (moving_.empty()) moving_ = limits_.node_memory;
    if (moving_.empty()) moving_.assign(g.nodes(), 1);
    for (std::size_t n = 0; n < o.stays.size(); ++n)
      if (o.stays[n] && !is_replicable(g, n)) {
        limits_.pinned.resize(g.nodes(), no_part);
        limits_.pinned[n] = old.of[n];
      }
    units_ = units_of(g, {.together = limits_.together, .backward = limits_.backward});
    state_problem();
    trials_ = o.most_trials > 0 ? o.most_trials : std::max<std::size_t>(2'000'000, 20 * units_.size());
  }

  repartitioned_stages run() {
    std::vector<partition> starts{old_};
    starts.insert(starts.end(), o_.starts.begin(), o_.starts.end());
    std::string refusal;
    std::int64_t least = 0;  // that is worth an attempt
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

    p_.level.needs = units_.needs;
    p_.level.needed_by = units_.needed_by;
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
    p_.order = ordered_units<Index>(units_.needs, units_.needed_by, unit_order::given, rank);
    for (Index u = 0; u < units_.size(); ++u) {
      p_.home.push_back(index(old_.of[units_.members[u].front()]));
      pin_.push_back(pin_of(u));
    }
    if (std::ranges::any_of(pin_, [](part_id p) { return p != no_part; }))
      p_.level.window = reach_of_pins<Index>(units_.needs, p_.order, pin_, k_).window;
  }
  part_id pin_of(std::size_t unit) const {
    for (Index const n : units_.members[unit])
      if (!limits_.pinned.empty() && limits_.pinned[n] != no_part) return limits_.pinned[n];
    return no_part;
  }

  /// Of each unit its part in `p`, where it has none that of what it needs, if all of them may be there.
  std::optional<std::vector<std::uint32_t>> settled(partition const& p) const {
    if (p.of.size() != g_.nodes()) return std::nullopt;
    std::vector<std::uint32_t> of(units_.size());
    for (Index const u : p_.order) {
      of[u] = index(p.of[units_.members[u].front()]);
      for (Index const n : units_.members[u])
        if (index(p.of[n]) != of[u]) return std::nullopt;
      std::uint32_t least = 0;
      for (Index const need : units_.needs[u]) least = (std::max)(least, of[need]);
      if (of[u] == index(no_part)) of[u] = pin_[u] != no_part ? index(pin_[u]) : least;
      if (of[u] < least || of[u] >= k_ || (pin_[u] != no_part && index(pin_[u]) != of[u]))
        return std::nullopt;
    }
    return of;
  }

  /// Keeps the best of what moves make of `of`, at once and after heavy parts were cut down to some loads
  /// between `least` and what they have.
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

  basic_dense<Index> const& g_;
  partition const& old_;
  std::uint32_t k_;
  stage_repartition_options const& o_;
  balance_options limits_;
  std::vector<std::size_t> moving_;
  unit_graph<Index> units_;
  std::vector<part_id> pin_;  // of a unit
  stage_problem<Index> p_;
  std::vector<std::uint32_t> best_;
  stage_score score_;
  std::size_t trials_;
};

}  // namespace cleave::detail

namespace cleave {

/// New parts for a pipeline whose costs have changed: the bottleneck and the cost of the bytes that move from
/// the part where they are are small together, and all holds that `balance` holds. From the old parts, from
/// those of `balance` and from `starts`, as they are or with heavy parts cut down first, units return home or
/// leave the part that pays most, one or several in a row, as long as that betters the sum: never worse than
/// any of them, the old ones included if they are still allowed. What has no part in `old` is new and moves
/// for nothing. What `balance` takes, O(V + E) for some attempts from each start (3 to 24), and for each move
/// what its unit touches and O(k).
/// \throws error, infeasible_error as `balance` does.
template <std::unsigned_integral Index>
repartitioned_stages repartition_stages(basic_dense<Index> const& g, partition const& old, std::uint32_t k,
                                        stage_repartition_options const& options = {}) {
  if (auto const fault = detail::find_option_fault(options, g, old, k)) throw error("repartition: " + *fault);
  return detail::stage_repartitioner<Index>(g, old, k, options).run();
}

template <weighted_graph Graph>
  requires sized_graph<Graph>
repartitioned_stages repartition_stages(Graph const& g, partition const& old, std::uint32_t k,
                                        stage_repartition_options const& options = {}) {
  return detail::with_snapshot(g, [&](auto const& s) { return repartition_stages(s, old, k, options); });
}

template <detail::uncosted_graph Graph>
detail::refused repartition_stages(Graph const&, partition const&, std::uint32_t,
                           stage_repartition_options const& = {}) {
  detail::refuse_costs<Graph>();
}

}  // namespace cleave
