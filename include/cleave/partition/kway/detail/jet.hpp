// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/effort.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"

namespace cleave::detail {

/// Moves many nodes at once, as if limits did not exist, then brings the parts back into their limits;
/// returns to the best state seen. A node that would lose takes part if the moves of nodes that gain more
/// make up for it. Gilbert, Madduri, Boman, Rajamanickam, SIAM J. Sci. Comput. 46(5), 2024 (Jet); rounds of
/// falling boldness: Krause, Gottesbüren, Maas, 2025.
class jet_refinement {
 public:
  jet_refinement(weighted_view const& g, level_parts& p, std::span<std::uint32_t const> fixed)
      : g_(g),
        p_(p),
        fixed_(fixed),
        links_(p.parts()),
        gain_(g.nodes),
        target_(g.nodes, free_node),
        locked_(g.nodes) {}

  /// By how much the cut fell; below 0 only if limits were broken before. `active` holds all nodes with
  /// neighbours in other parts, and does so afterwards.
  std::int64_t refine(active_nodes& active, jet_options const& options) {
    keep_best(0);
    best_excess_ = excess();
    std::int64_t now = 0;
    for (auto const boldness : options.boldness) {
      for (std::uint32_t idle = 0; idle < options.patience; ++idle) {
        auto const moved = step(active, boldness, now);
        now += rebalance(active);
        auto const over = excess();
        if (over < best_excess_ || (over == best_excess_ && now > best_gain_)) {
          if (now - best_gain_ > 0) idle = 0;
          best_excess_ = over;
          keep_best(now);
        }
        if (!moved) break;
      }
      restore_best(active);
      now = best_gain_;
      std::fill(locked_.begin(), locked_.end(), std::uint8_t{0});
      moved_.clear();
    }
    return best_gain_;
  }

 private:
  struct step_back {
    std::uint32_t node, from;
  };

  std::int64_t excess() const {
    std::int64_t sum = 0;
    for (std::uint32_t part = 0; part < p_.parts(); ++part) sum += std::max<std::int64_t>(0, -p_.room(part));
    return sum;
  }

  void keep_best(std::int64_t gain) {
    best_gain_ = gain;
    since_best_.clear();
  }
  void restore_best(active_nodes& active) {
    for (auto i = since_best_.size(); i-- > 0;) {
      auto const [n, from] = since_best_[i];
      move_node(g_, p_, n, from);
      active.add(n);
      for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) active.add(g_.head[a]);
    }
    since_best_.clear();
  }

  /// Moves a node; by how much the cut falls.
  std::int64_t move(std::uint32_t n, std::uint32_t to, active_nodes& active) {
    auto const from = p_.of[n];
    std::int64_t gain = 0;
    for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) {
      auto const part = p_.of[g_.head[a]];
      if (part == to) gain += g_.arc_weight(a);
      if (part == from) gain -= g_.arc_weight(a);
      active.add(g_.head[a]);
    }
    active.add(n);
    since_best_.push_back({n, from});
    move_node(g_, p_, n, to);
    return gain;
  }

  bool is_free(std::uint32_t n) const { return fixed_.empty() || fixed_[n] == free_node; }

  /// One simultaneous move. Whether there was any.
  bool step(active_nodes& active, double boldness, std::int64_t& now) {
    propose(active, boldness);
    chosen_.clear();
    for (auto const n : proposed_)
      if (gain_after_better(n) >= 0) chosen_.push_back(n);
    for (auto const n : moved_) locked_[n] = 0;
    for (auto const n : chosen_) now += move(n, target_[n], active), locked_[n] = 1;
    for (auto const n : proposed_) target_[n] = free_node;
    std::swap(moved_, chosen_);
    return !moved_.empty();
  }

  /// Finds for each active node the part it is tied to most, and drops those without neighbours elsewhere.
  void propose(active_nodes& active, double boldness) {
    proposed_.clear();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < active.list.size(); ++i) {
      auto const n = active.list[i];
      auto const own = p_.of[n];
      links_.count(g_, p_.of, n);
      std::uint32_t to = free_node;
      for (auto const part : links_.nearby())
        if (part != own && (to == free_node || links_.to(part) > links_.to(to))) to = part;
      if (to == free_node) {
        active.is[n] = 0;
        continue;
      }
      active.list[kept++] = n;
      if (locked_[n] || !is_free(n)) continue;
      auto const gain = links_.to(to) - links_.to(own);
      if (gain < 0 && static_cast<double>(-gain) >= boldness * static_cast<double>(links_.to(own))) continue;
      gain_[n] = gain;
      target_[n] = to;
      proposed_.push_back(n);
    }
    active.list.resize(kept);
  }

  /// The gain of a proposed move after all proposed ones that gain more.
  std::int64_t gain_after_better(std::uint32_t n) const {
    std::int64_t gain = 0;
    auto const own = p_.of[n], to = target_[n];
    for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) {
      auto const other = g_.head[a];
      bool const before =
          target_[other] != free_node && (gain_[other] > gain_[n] || (gain_[other] == gain_[n] && other < n));
      auto const part = before ? target_[other] : p_.of[other];
      if (part == to) gain += g_.arc_weight(a);
      if (part == own) gain -= g_.arc_weight(a);
    }
    return gain;
  }

  /// Moves nodes out of parts that break their limits, those first that lose least for their weight. By how
  /// much the cut fell.
  std::int64_t rebalance(active_nodes& active) {
    std::int64_t gained = 0;
    if (excess() == 0) return 0;
    heap_.clear();
    for (auto const n : active.list)
      if (p_.room(p_.of[n]) < 0) offer(n);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      auto const [price, n] = heap_.back();
      heap_.pop_back();
      if (p_.room(p_.of[n]) >= 0) continue;
      auto const to = way_out(n);
      if (to == free_node) continue;
      if (auto const actual = worth(n, to); actual < price) {
        heap_.push_back({actual, n});
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      gained += move(n, to, active);
      for (auto a = g_.first[n], stop = g_.first[n + 1]; a < stop; ++a) {
        auto const other = g_.head[a];
        if (p_.of[other] != p_.of[n] && p_.room(p_.of[other]) < 0 && !offered_[other]) {
          auto const size = heap_.size();
          offer(other);
          if (heap_.size() > size) std::push_heap(heap_.begin(), heap_.end());
        }
      }
    }
    for (auto const n : offers_) offered_[n] = 0;
    offers_.clear();
    return gained;
  }

  void offer(std::uint32_t n) {
    if (!is_free(n) || g_.weight(n) <= 0) return;
    if (offered_.empty()) offered_.assign(g_.nodes, 0);
    offered_[n] = 1;
    offers_.push_back(n);
    if (auto const to = way_out(n); to != free_node) heap_.push_back({worth(n, to), n});
  }

  /// Where a node may go from a part that is too heavy; counts its links.
  std::uint32_t way_out(std::uint32_t n) {
    links_.count(g_, p_.of, n);
    return links_.best_target(p_, p_.of[n], g_.weight(n));
  }
  double worth(std::uint32_t n, std::uint32_t to) const {
    auto const gain = static_cast<double>(links_.to(to) - links_.to(p_.of[n]));
    auto const weight = static_cast<double>(g_.weight(n));
    return gain > 0 ? gain * weight : gain / weight;
  }

  weighted_view const& g_;
  level_parts& p_;
  std::span<std::uint32_t const> fixed_;
  part_links links_;
  std::vector<std::int64_t> gain_;
  std::vector<std::uint32_t> target_;  // of what is proposed
  std::vector<std::uint8_t> locked_;   // moved in the last step
  std::vector<std::uint8_t> offered_;
  std::vector<std::uint32_t> proposed_, chosen_, moved_, offers_;
  std::vector<std::pair<double, std::uint32_t>> heap_;
  std::vector<step_back> since_best_;
  std::int64_t best_gain_ = 0, best_excess_ = 0;
};

/// Refines by moves without limits; the decrease of the cut.
inline std::int64_t refine_by_jet(weighted_view const& g, level_parts& p,
                                  std::span<std::uint32_t const> fixed, active_nodes& active,
                                  jet_options const& options) {
  return jet_refinement(g, p, fixed).refine(active, options);
}

}  // namespace cleave::detail
