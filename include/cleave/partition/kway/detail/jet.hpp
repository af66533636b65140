// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::inline v0_2::detail {

/// Refines by Jet: moves many nodes at once while ignoring weight limits, then rebalances, and returns to the
/// best state seen. A node with negative gain may move if the moves of nodes with higher gain make up for it.
/// Gilbert, Madduri, Boman, Rajamanickam, SIAM J. Sci. Comput. 46(5), 2024 (Jet); Krause, Gottesbüren, Maas,
/// 2025 (rounds of falling gain temperature).
class jet_refinement {
 public:
  jet_refinement(weighted_view const& g, partitioned_level& p, std::span<std::uint32_t const> fixed,
                 thread_team const& team)
      : g_(g),
        p_(p),
        fixed_(fixed),
        team_(team),
        connectivity_(p.parts()),
        gain_(g.nodes),
        proposal_(uninitialized_array<std::uint32_t>::zeros(g.nodes)),
        locked_(uninitialized_array<std::uint8_t>::zeros(g.nodes)) {}

  /// Returns the decrease of the cut; it is negative only if limits were exceeded before. `active` contains
  /// all boundary nodes, before and after the call.
  std::int64_t refine(boundary_nodes& active, jet_options const& options) {
    save_best(0);
    best_excess_ = excess();
    std::int64_t now = 0;
    for (auto const gain_temperature : options.gain_temperatures) {
      for (std::uint32_t idle = 0; idle < options.max_fruitless_iterations; ++idle) {
        auto const moved = step(active, gain_temperature, now);
        now += rebalance(active);
        auto const over = excess();
        if (over < best_excess_ || (over == best_excess_ && now > best_gain_)) {
          if (static_cast<double>(now - best_gain_) > options.least_gain * boundary_weight_) idle = 0;
          best_excess_ = over;
          save_best(now);
        }
        if (!moved) break;
      }
      rollback_to_best(active);
      now = best_gain_;
      for (auto const n : moved_) locked_[n] = 0;
      moved_.clear();
    }
    return best_gain_;
  }

 private:
  struct undo_entry {
    std::uint32_t node, from;
  };

  std::int64_t excess() const { return excess_weight(p_); }

  void save_best(std::int64_t gain) {
    best_gain_ = gain;
    undo_log_.clear();
  }
  void rollback_to_best(boundary_nodes& active) {
    for (auto i = undo_log_.size(); i-- > 0;) {
      auto const [n, from] = undo_log_[i];
      move_node(g_, p_, n, from);
      active.add(n);
      for (auto a = g_.offsets[n], stop = g_.offsets[n + 1]; a < stop; ++a) active.add(g_.targets[a]);
    }
    undo_log_.clear();
  }

  /// Moves a node and returns the decrease of the cut.
  std::int64_t move(std::uint32_t n, std::uint32_t to, boundary_nodes& active) {
    auto const from = p_.of[n];
    std::int64_t gain = 0;
    for (auto a = g_.offsets[n], stop = g_.offsets[n + 1]; a < stop; ++a) {
      auto const part = p_.of[g_.targets[a]];
      if (part == to) gain += g_.edge_weight(a);
      if (part == from) gain -= g_.edge_weight(a);
      active.add(g_.targets[a]);
    }
    active.add(n);
    undo_log_.push_back({n, from});
    move_node(g_, p_, n, to);
    return gain;
  }

  /// \pre A move of the node is proposed.
  std::uint32_t target(std::uint32_t n) const { return proposal_[n] - 1; }
  bool is_free(std::uint32_t n) const { return fixed_.empty() || fixed_[n] == no_block; }

  /// Moves a set of nodes simultaneously. Returns true if any node moved.
  bool step(boundary_nodes& active, double gain_temperature, std::int64_t& now) {
    propose(active, gain_temperature);
    choose();
    for (auto const n : moved_) locked_[n] = 0;
    for (auto const n : chosen_) now += move(n, target(n), active), locked_[n] = 1;
    for (auto const n : proposed_) proposal_[n] = 0;
    std::swap(moved_, chosen_);
    return !moved_.empty();
  }

  /// The results of one range of nodes. They are joined in order, so that threads do not change the result.
  struct range_results {
    std::vector<std::uint32_t> kept{}, taken{};
    double boundary_weight = 0;
  };

  /// Proposes for each active node the part to which it is most connected. Drops nodes without neighbours in
  /// other parts.
  void propose(boundary_nodes& active, double gain_temperature) {
    id_ranges const ranges{static_cast<std::uint32_t>(active.list.size()), (std::max)(p_.parts(), 1u << 12)};
    std::vector<range_results> found(ranges.count());
    team_.share(ranges.count(), [&](std::size_t r) {
      part_connectivity connectivity(p_.parts());
      for (auto at = ranges.begin(r); at < ranges.end(r); ++at)
        propose_node(active.list[at], gain_temperature, active, connectivity, found[r]);
    });
    proposed_.clear();
    boundary_weight_ = 0;
    std::size_t kept = 0;
    for (auto const& f : found) {
      proposed_.insert(proposed_.end(), f.taken.begin(), f.taken.end());
      boundary_weight_ += f.boundary_weight;
      for (auto const n : f.kept) active.list[kept++] = n;
    }
    active.list.resize(kept);
  }

  void propose_node(std::uint32_t n, double gain_temperature, boundary_nodes& active,
                    part_connectivity& connectivity, range_results& found) {
    auto const own = p_.of[n];
    connectivity.count(g_, p_.of, n);
    std::uint32_t to = no_block;
    for (auto const part : connectivity.nearby())
      if (part != own && (to == no_block || connectivity.to(part) > connectivity.to(to))) to = part;
    if (to == no_block) {
      active.is[n] = 0;
      return;
    }
    found.kept.push_back(n);
    for (auto const part : connectivity.nearby())
      if (part != own) found.boundary_weight += static_cast<double>(connectivity.to(part)) / 2;
    if (locked_[n] || !is_free(n)) return;
    auto const gain = connectivity.to(to) - connectivity.to(own);
    if (gain < 0 &&
        static_cast<double>(-gain) >= gain_temperature * static_cast<double>(connectivity.to(own)))
      return;
    gain_[n] = gain;
    proposal_[n] = to + 1;
    found.taken.push_back(n);
  }

  /// Chooses the proposed moves that do not increase the cut after better ones.
  void choose() {
    id_ranges const ranges{static_cast<std::uint32_t>(proposed_.size()), 1u << 12};
    std::vector<std::vector<std::uint32_t>> found(ranges.count());
    team_.share(ranges.count(), [&](std::size_t r) {
      for (auto at = ranges.begin(r); at < ranges.end(r); ++at)
        if (gain_after_better(proposed_[at]) >= 0) found[r].push_back(proposed_[at]);
    });
    chosen_.clear();
    for (auto const& nodes : found) chosen_.insert(chosen_.end(), nodes.begin(), nodes.end());
  }

  /// Returns the gain of a proposed move, assuming that all proposed moves with higher gain are made first.
  std::int64_t gain_after_better(std::uint32_t n) const {
    std::int64_t gain = 0;
    auto const own = p_.of[n], to = target(n);
    for (auto a = g_.offsets[n], stop = g_.offsets[n + 1]; a < stop; ++a) {
      auto const other = g_.targets[a];
      bool const before =
          proposal_[other] != 0 && (gain_[other] > gain_[n] || (gain_[other] == gain_[n] && other < n));
      auto const part = before ? target(other) : p_.of[other];
      if (part == to) gain += g_.edge_weight(a);
      if (part == own) gain -= g_.edge_weight(a);
    }
    return gain;
  }

  /// Moves nodes out of parts above their limits, smallest loss per weight first. Returns the decrease of the
  /// cut.
  std::int64_t rebalance(boundary_nodes& active) {
    std::int64_t gained = 0;
    if (excess() == 0) return 0;
    heap_.clear();
    for (auto const n : active.list)
      if (p_.is_over(p_.of[n])) push_candidate(n);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      auto const [price, n] = heap_.back();
      heap_.pop_back();
      if (!p_.is_over(p_.of[n]) || p_.relief(g_, n) <= 0) continue;
      auto const to = feasible_target(n);
      if (to == no_block) continue;
      if (auto const actual = relative_gain(n, to); actual < price) {
        heap_.push_back({actual, n});
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      gained += move(n, to, active);
      for (auto a = g_.offsets[n], stop = g_.offsets[n + 1]; a < stop; ++a) {
        auto const other = g_.targets[a];
        if (p_.of[other] != p_.of[n] && p_.is_over(p_.of[other]) && !is_candidate_[other]) {
          auto const size = heap_.size();
          push_candidate(other);
          if (heap_.size() > size) std::push_heap(heap_.begin(), heap_.end());
        }
      }
    }
    for (auto const n : candidates_) is_candidate_[n] = 0;
    candidates_.clear();
    return gained;
  }

  void push_candidate(std::uint32_t n) {
    if (!is_free(n) || p_.relief(g_, n) <= 0) return;
    if (is_candidate_.empty()) is_candidate_.assign(g_.nodes, 0);
    is_candidate_[n] = 1;
    candidates_.push_back(n);
    if (auto const to = feasible_target(n); to != no_block) heap_.push_back({relative_gain(n, to), n});
  }

  /// Returns the best part with room for a node, and computes the node's connectivity.
  std::uint32_t feasible_target(std::uint32_t n) {
    connectivity_.count(g_, p_.of, n);
    return connectivity_.best_target(g_, p_, n);
  }
  double relative_gain(std::uint32_t n, std::uint32_t to) const {
    auto const gain = static_cast<double>(connectivity_.to(to) - connectivity_.to(p_.of[n]));
    auto const weight = static_cast<double>(p_.relief(g_, n));
    return gain > 0 ? gain * weight : gain / weight;
  }

  weighted_view const& g_;
  partitioned_level& p_;
  std::span<std::uint32_t const> fixed_;
  thread_team const& team_;
  part_connectivity connectivity_;
  uninitialized_array<std::int64_t> gain_;       // of the proposed move
  uninitialized_array<std::uint32_t> proposal_;  // the proposed part plus 1, or 0
  uninitialized_array<std::uint8_t> locked_;     // moved in the last step
  std::vector<std::uint8_t> is_candidate_;
  std::vector<std::uint32_t> proposed_, chosen_, moved_, candidates_;
  std::vector<std::pair<double, std::uint32_t>> heap_;
  std::vector<undo_entry> undo_log_;
  std::int64_t best_gain_ = 0, best_excess_ = 0;
  double boundary_weight_ = 0;  // the cut when moves were last proposed
};

/// Refines by Jet and returns the decrease of the cut.
inline std::int64_t refine_by_jet(weighted_view const& g, partitioned_level& p,
                                  std::span<std::uint32_t const> fixed, boundary_nodes& active,
                                  jet_options const& options, thread_team const& team = thread_team{}) {
  return jet_refinement(g, p, fixed, team).refine(active, options);
}

}  // namespace cleave::detail
