// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/boundary.hpp"
#include "cleave/partition/kway/detail/level.hpp"

namespace cleave::inline v0_2::detail {

/// Brings parts within the limits of several weights.
class further_balancing {
 public:
  further_balancing(weighted_view const& g, partitioned_level& p, std::vector<std::uint32_t> const& fixed,
                    boundary_nodes& active)
      : g_(g), p_(p), fixed_(fixed), active_(active), connectivity_(p.parts()) {}

  /// Moves nodes out of parts above their limits, those first that raise the cut least for what they relieve.
  /// Returns the decrease of the cut. O((n + m + moves * parts) * log n).
  std::int64_t move_nodes() {
    std::int64_t gained = 0;
    heap_.clear();
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (may_help(n)) offer(n);
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end());
      auto const [price, n] = heap_.back();
      heap_.pop_back();
      if (!may_help(n)) continue;
      auto const to = target(n);
      if (to == no_block) continue;
      auto const gain = connectivity_.to(to) - connectivity_.to(p_.of[n]);
      if (auto const now = relative(gain, n); now < price) {
        heap_.push_back({now, n});
        std::push_heap(heap_.begin(), heap_.end());
        continue;
      }
      move(n, to);
      gained += gain;
    }
    return gained;
  }

  /// Decreases the total excess where no single move does, by exchanges and by a search.
  void repair() {
    for (std::uint32_t round = 0; round < most_rounds && excess_weight(p_) > 0; ++round) {
      exchange_nodes();
      search();
    }
  }

 private:
  static constexpr std::uint32_t most_rounds = 3, most_idle_steps = 500, tenure = 20;
  static constexpr std::uint32_t most_visits = 1u << 25;               // of nodes, in a round
  static constexpr std::size_t most_leavers = 64, most_comers = 1024;  // compared at a time

  /// Exchanges pairs of nodes as long as that decreases the total excess.
  void exchange_nodes() {
    auto left = (std::max)(100u, most_visits / (std::max)(g_.nodes, 1u));
    for (std::uint32_t part = 0; part < p_.parts(); ++part)
      while (p_.is_over(part) && left > 0 && exchange_from(part)) --left;
  }

  /// Exchanges the pair of a node of the part and another node that decreases the excess most.
  bool exchange_from(std::uint32_t part) {
    std::vector<std::uint32_t> leavers, comers;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      if (!fixed_.empty() && fixed_[n] != no_block) continue;
      if (p_.of[n] != part || p_.relief(g_, n) > 0) (p_.of[n] == part ? leavers : comers).push_back(n);
    }
    thin_out(leavers, most_leavers);
    thin_out(comers, most_comers);
    std::uint32_t out = no_block, in = no_block;
    std::int64_t most = 0;
    for (auto const leaver : leavers)
      for (auto const comer : comers)
        if (auto const less = decrease_of_exchange(leaver, comer); less > most)
          out = leaver, in = comer, most = less;
    if (out == no_block) return false;
    auto const other = p_.of[in];
    move(out, other);
    move(in, part);
    return true;
  }

  std::int64_t decrease_of_exchange(std::uint32_t a, std::uint32_t b) {
    auto const of_a = p_.of[a], of_b = p_.of[b];
    auto const before = p_.excess(of_a) + p_.excess(of_b);
    shift_weight(a, of_a, of_b), shift_weight(b, of_b, of_a);
    auto const after = p_.excess(of_a) + p_.excess(of_b);
    shift_weight(a, of_b, of_a), shift_weight(b, of_a, of_b);
    return before - after;
  }

  void shift_weight(std::uint32_t n, std::uint32_t from, std::uint32_t to) {
    p_.add_weight(g_, n, from, -1);
    p_.add_weight(g_, n, to);
  }

  /// Keeps at most `most` nodes, at equal distances in the list.
  void thin_out(std::vector<std::uint32_t>& nodes, std::size_t most) {
    if (nodes.size() <= most) return;
    auto const stride = nodes.size() / most;
    auto const first = shift_++ % stride;
    for (std::size_t i = 0; i < most; ++i) nodes[i] = nodes[i * stride + first];
    nodes.resize(most);
  }

  /// Decreases the total excess by a search. Each step moves a node out of the part that exceeds its limits
  /// most, even if the excess rises; the node stays there for some steps. Returns to the best state seen.
  /// Glover, ORSA J. Comput. 1(3), 1989 (tabu search). O(n + steps * parts).
  void search() {
    std::vector<std::vector<std::uint32_t>> members(p_.parts());
    for (std::uint32_t n = 0; n < g_.nodes; ++n)
      if (fixed_.empty() || fixed_[n] == no_block) members[p_.of[n]].push_back(n);
    std::vector<std::uint32_t> free_from(g_.nodes, 0);  // the step from which a node may move again
    auto now = excess_weight(p_);
    auto best = now;
    undo_.clear();
    std::size_t visits = 0;
    for (std::uint32_t step = 1, idle = 0; now > 0 && idle < most_idle_steps && visits < most_visits;
         ++step, ++idle) {
      auto const from = heaviest_part();
      visits += members[from].size() + most_leavers * p_.parts();
      auto const [n, to] = least_harm(members[from], from, step, free_from);
      if (n == no_block) break;
      now -= decrease(n, to);
      undo_.push_back({n, from});
      move(n, to);
      members[to].push_back(n);
      free_from[n] = step + tenure;
      if (now < best) best = now, idle = 0, undo_.clear();
    }
    for (auto i = undo_.size(); i-- > 0;) move(undo_[i].first, undo_[i].second);
  }

  bool may_help(std::uint32_t n) const {
    return p_.is_over(p_.of[n]) && (fixed_.empty() || fixed_[n] == no_block) && p_.relief(g_, n) > 0;
  }

  void offer(std::uint32_t n) {
    if (auto const to = target(n); to != no_block)
      heap_.push_back({relative(connectivity_.to(to) - connectivity_.to(p_.of[n]), n), n});
  }

  double relative(std::int64_t gain, std::uint32_t n) const {
    auto const relief = static_cast<double>(p_.relief(g_, n));
    return gain > 0 ? static_cast<double>(gain) * relief : static_cast<double>(gain) / relief;
  }

  /// Returns the best part for a node, and computes the node's connectivity: of the parts that it fits, the
  /// one to which it is most connected, or the emptiest; otherwise the one with the least excess afterwards,
  /// if the total excess decreases.
  std::uint32_t target(std::uint32_t n) {
    connectivity_.count(g_, p_.of, n);
    if (auto const to = connectivity_.best_target(g_, p_, n); to != no_block) return to;
    if (auto const to = emptiest(g_, p_, n); to != p_.of[n] && p_.fits(g_, n, to)) return to;
    auto best = no_block;
    std::int64_t most = 0;
    for (std::uint32_t part = 0; part < p_.parts(); ++part) {
      if (part == p_.of[n]) continue;
      if (auto const less = decrease(n, part); less > most) best = part, most = less;
    }
    return best;
  }

  /// Returns the decrease of the total excess if a node moves.
  std::int64_t decrease(std::uint32_t n, std::uint32_t to) {
    auto const from = p_.of[n];
    auto const before = p_.excess(from) + p_.excess(to);
    shift_weight(n, from, to);
    auto const after = p_.excess(from) + p_.excess(to);
    shift_weight(n, to, from);
    return before - after;
  }

  std::uint32_t heaviest_part() const {
    std::uint32_t worst = 0;
    for (std::uint32_t part = 1; part < p_.parts(); ++part)
      if (p_.excess(part) > p_.excess(worst)) worst = part;
    return worst;
  }

  /// Returns the node of a part and its new part that decrease the total excess most, or raise it least.
  /// Compares some of the members.
  std::pair<std::uint32_t, std::uint32_t> least_harm(std::vector<std::uint32_t>& members, std::uint32_t from,
                                                     std::uint32_t step,
                                                     std::vector<std::uint32_t> const& free_from) {
    std::erase_if(members, [&](std::uint32_t n) { return p_.of[n] != from; });
    std::pair<std::uint32_t, std::uint32_t> best{no_block, no_block};
    std::int64_t most = 0;
    auto const stride = members.size() / most_leavers + 1;
    for (auto i = step % stride; i < members.size(); i += stride) {
      auto const n = members[i];
      if (free_from[n] > step || p_.relief(g_, n) <= 0) continue;
      for (std::uint32_t to = 0; to < p_.parts(); ++to) {
        if (to == from) continue;
        auto const less = decrease(n, to);
        if (best.first == no_block || less > most) best = {n, to}, most = less;
      }
    }
    return best;
  }

  void move(std::uint32_t n, std::uint32_t to) {
    move_node(g_, p_, n, to);
    active_.add(n);
    for (auto e = g_.offsets[n], stop = g_.offsets[n + 1]; e < stop; ++e) active_.add(g_.targets[e]);
  }

  weighted_view const& g_;
  partitioned_level& p_;
  std::vector<std::uint32_t> const& fixed_;
  boundary_nodes& active_;
  part_connectivity connectivity_;
  std::vector<std::pair<double, std::uint32_t>> heap_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      undo_;  // nodes moved since the best state, and from where
  std::size_t shift_ = 0;
};

}  // namespace cleave::detail
