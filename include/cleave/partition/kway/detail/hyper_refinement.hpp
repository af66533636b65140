// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/kway/detail/hyper_level.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/hypergraph_options.hpp"

namespace cleave::inline v0_2::detail {

/// The number of pins that each net has in each part. A net with fewer pins than parts lists only the parts
/// that it has, so the memory is at most twice that of the pins.
class net_pin_counts {
 public:
  net_pin_counts(hyper_level const& h, std::vector<std::uint32_t> const& of, std::uint32_t parts)
      : h_(h), parts_(parts), first_(h.nets() + std::size_t{1}, 0), spread_(h.nets(), 0) {
    for (std::uint32_t e = 0; e < h.nets(); ++e)
      first_[e + std::size_t{1}] = first_[e] + (std::min)(h.size_of(e), parts);
    entry_.resize(first_.back());
    for (std::uint32_t e = 0; e < h.nets(); ++e) {
      if (dense(e))
        for (std::uint32_t part = 0; part < parts; ++part) entry_[first_[e] + part] = {part, 0};
      for (auto at = h.net_first[e]; at < h.net_first[e + 1]; ++at) add(e, of[h.pin[at]]);
    }
  }

  /// Returns the number of pins of net `e` in a part.
  std::uint32_t of(std::uint32_t e, std::uint32_t part) const {
    if (dense(e)) return entry_[first_[e] + part].pins;
    for (std::size_t i = first_[e], stop = first_[e] + spread_[e]; i < stop; ++i)
      if (entry_[i].part == part) return entry_[i].pins;
    return 0;
  }

  /// Returns the number of parts in which net `e` has pins.
  std::uint32_t spread(std::uint32_t e) const { return spread_[e]; }

  /// Calls `visit(part, pins)` for each part in which net `e` has pins.
  template <class Visit>
  void each_part(std::uint32_t e, Visit const& visit) const {
    auto const count = dense(e) ? parts_ : spread_[e];
    for (std::size_t i = first_[e], stop = first_[e] + count; i < stop; ++i)
      if (entry_[i].pins > 0) visit(entry_[i].part, entry_[i].pins);
  }

  void move(std::uint32_t e, std::uint32_t from, std::uint32_t to) {
    remove(e, from);
    add(e, to);
  }

 private:
  struct entry {
    std::uint32_t part, pins;
  };

  bool dense(std::uint32_t e) const { return h_.size_of(e) >= parts_; }

  void add(std::uint32_t e, std::uint32_t part) {
    auto const begin = first_[e];
    if (dense(e)) {
      spread_[e] += entry_[begin + part].pins++ == 0;
      return;
    }
    for (std::size_t i = begin; i < begin + spread_[e]; ++i)
      if (entry_[i].part == part) {
        ++entry_[i].pins;
        return;
      }
    entry_[begin + spread_[e]++] = {part, 1};
  }

  void remove(std::uint32_t e, std::uint32_t part) {
    auto const begin = first_[e];
    if (dense(e)) {
      spread_[e] -= --entry_[begin + part].pins == 0;
      return;
    }
    for (std::size_t i = begin; i < begin + spread_[e]; ++i) {
      if (entry_[i].part != part) continue;
      if (--entry_[i].pins == 0) entry_[i] = entry_[begin + --spread_[e]];
      return;
    }
  }

  hyper_level const& h_;
  std::uint32_t parts_;
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> spread_;
  std::vector<entry> entry_;
};

/// Keeps what single moves gain in connectivity, for nodes with many nets: at least `least_nets`. Each of
/// them has a row with an entry for each part. If `least_nets` is the number of parts or more, the rows take
/// no more memory than the pins.
class hyper_gain_table {
 public:
  hyper_gain_table(hyper_level const& h, std::vector<std::uint32_t> const& of, net_pin_counts const& pins,
                   std::uint32_t parts, std::uint32_t least_nets)
      : h_(h), of_(of), pins_(pins), parts_(parts), row_(h.nodes(), no_row) {
    std::uint32_t rows = 0;
    for (std::uint32_t n = 0; n < h.nodes(); ++n)
      if (h.node_first[n + 1] - h.node_first[n] >= least_nets) row_[n] = rows++;
    shared_.resize(std::size_t{rows} * parts, 0);
    loss_.resize(rows, 0);
    for (std::uint32_t n = 0; n < h.nodes(); ++n) {
      if (!has(n)) continue;
      for (auto at = h.node_first[n]; at < h.node_first[n + 1]; ++at) {
        auto const e = h.net[at];
        pins.each_part(e, [&](std::uint32_t part, std::uint32_t) { entry(n, part) += h.net_weight[e]; });
      }
      loss_[row_[n]] = loss_now(n);
    }
  }

  bool has(std::uint32_t n) const { return row_[n] != no_row; }
  /// Returns the weight of the nets of a node that have pins in a part.
  std::int64_t shared(std::uint32_t n, std::uint32_t part) const {
    return shared_[std::size_t{row_[n]} * parts_ + part];
  }
  /// Returns the weight of the nets of a node that have other pins in its part.
  std::int64_t loss(std::uint32_t n) const { return loss_[row_[n]]; }

  /// Updates the pins of net `e` after its pin `moved` has changed part.
  void net_changed(std::uint32_t e, std::uint32_t moved, std::uint32_t from, std::uint32_t to) {
    if (loss_.empty()) return;
    auto const left = pins_.of(e, from), there = pins_.of(e, to);
    if (left > 1 && there > 2) return;
    auto const w = h_.net_weight[e];
    for (auto at = h_.net_first[e]; at < h_.net_first[e + 1]; ++at) {
      auto const n = h_.pin[at];
      if (!has(n)) continue;
      if (left == 0) entry(n, from) -= w;
      if (there == 1) entry(n, to) += w;
      if (n == moved) continue;
      if (left == 1 && of_[n] == from) loss_[row_[n]] -= w;
      if (there == 2 && of_[n] == to) loss_[row_[n]] += w;
    }
  }
  /// Updates a node that has changed part, after `net_changed` for each of its nets.
  void moved(std::uint32_t n) {
    if (has(n)) loss_[row_[n]] = loss_now(n);
  }

 private:
  static constexpr std::uint32_t no_row = 0xffffffff;

  std::int64_t& entry(std::uint32_t n, std::uint32_t part) {
    return shared_[std::size_t{row_[n]} * parts_ + part];
  }
  std::int64_t loss_now(std::uint32_t n) const {
    std::int64_t loss = 0;
    for (auto at = h_.node_first[n]; at < h_.node_first[n + 1]; ++at)
      if (pins_.of(h_.net[at], of_[n]) > 1) loss += h_.net_weight[h_.net[at]];
    return loss;
  }

  hyper_level const& h_;
  std::vector<std::uint32_t> const& of_;
  net_pin_counts const& pins_;
  std::uint32_t parts_;
  std::vector<std::uint32_t> row_;
  std::vector<std::int64_t> shared_, loss_;
};

/// Refines a partition of a hypergraph by single moves: label propagation, FM passes, and rebalancing.
/// Fiduccia, Mattheyses, DAC 1982; Sanchis, IEEE Trans. Comput. 38(1), 1989 (k parts).
class hyper_refinement {
 public:
  hyper_refinement(hyper_level const& h, partitioned_level& p, hypergraph_objective objective)
      : h_(h),
        p_(p),
        objective_(objective),
        pins_(h, p.of, p.parts()),
        gains_(h, p.of, pins_, p.parts(),
               objective == hypergraph_objective::connectivity ? p.parts() : none<std::uint32_t>),
        towards_(p.parts(), 0),
        open_(h.nodes()),
        locked_(h.nodes(), 0) {}

  /// Brings parts within their limits if single moves can. The move with the least loss is made first.
  void rebalance() {
    if (excess_weight(p_) == 0) return;
    for (std::uint32_t n = 0; n < h_.nodes(); ++n)
      if (p_.room(p_.of[n]) < 0 && !h_.is_fixed(n) && h_.node_weight[n] > 0)
        open_.put(n, best_move(n, any_part).gain);
    while (!open_.empty()) {
      auto const n = open_.pop();
      if (p_.room(p_.of[n]) >= 0) continue;
      auto const m = best_move(n, any_part);
      if (m.to == no_block) continue;
      if (!open_.empty() && gain_buckets::bucket_of(m.gain) < open_.highest()) {
        open_.put(n, m.gain);
        continue;
      }
      move(n, m.to);
    }
  }

  /// Moves each node to its best part, in random order, if that reduces the objective, or improves the
  /// balance at the same objective.
  void propagate_labels(std::uint32_t rounds, splitmix& random) {
    std::vector<std::uint32_t> order(h_.nodes());
    for (std::uint32_t n = 0; n < h_.nodes(); ++n) order[n] = n;
    random.shuffle(order);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      std::size_t moved = 0;
      for (auto const n : order) {
        if (h_.is_fixed(n) || !on_boundary(n)) continue;
        auto const m = best_move(n, near_part);
        if (m.to == no_block || m.gain < 0) continue;
        if (m.gain == 0 && p_.room(m.to) - h_.node_weight[n] <= p_.room(p_.of[n])) continue;
        move(n, m.to);
        ++moved;
      }
      if (moved * 200 <= order.size()) break;
    }
  }

  /// Makes FM passes until one gains nothing. A pass moves each node at most once, best gain first, and
  /// returns to the best state seen.
  void refine_by_fm(std::uint32_t passes, std::size_t max_fruitless_moves) {
    for (std::uint32_t pass = 0; pass < passes; ++pass)
      if (!improve(max_fruitless_moves)) break;
  }

 private:
  struct candidate_move {
    std::uint32_t to = no_block;
    std::int64_t gain = 0;
  };
  struct step {
    std::uint32_t node, from;
  };
  enum target_parts : std::uint8_t { near_part, any_part };
  static constexpr std::uint32_t large_net = 100;  // the gains of its pins are computed when they are popped

  bool on_boundary(std::uint32_t n) const {
    for (auto at = h_.node_first[n]; at < h_.node_first[n + 1]; ++at)
      if (pins_.spread(h_.net[at]) > 1) return true;
    return false;
  }

  /// Returns the best part with room for a node, other than its own, and the decrease of the objective.
  candidate_move best_move(std::uint32_t n, target_parts which) {
    auto const own = p_.of[n];
    std::int64_t loss = 0;  // of leaving, if no net has pins in the new part
    near_.clear();
    if (gains_.has(n)) {
      loss = gains_.loss(n);
      for (std::uint32_t part = 0; part < p_.parts(); ++part)
        if (part != own && gains_.shared(n, part) > 0)
          near_.push_back(part), towards_[part] = gains_.shared(n, part);
      return best_of_near(n, loss, which);
    }
    for (auto at = h_.node_first[n]; at < h_.node_first[n + 1]; ++at) {
      auto const e = h_.net[at];
      auto const w = h_.net_weight[e];
      auto const gain = [&](std::uint32_t part, std::int64_t amount) {
        if (towards_[part] == 0) near_.push_back(part);
        towards_[part] += amount;
      };
      if (objective_ == hypergraph_objective::connectivity) {
        bool last = false;
        pins_.each_part(e, [&](std::uint32_t part, std::uint32_t pins) {
          if (part == own)
            last = pins == 1;
          else
            gain(part, w);
        });
        if (!last) loss += w;
      } else if (pins_.spread(e) == 1) {
        loss += w;
      } else {
        bool const last = pins_.spread(e) == 2 && pins_.of(e, own) == 1;
        pins_.each_part(e, [&](std::uint32_t part, std::uint32_t) {
          if (part != own) gain(part, last ? w : 0);
        });
      }
    }
    return best_of_near(n, loss, which);
  }

  /// Returns the best of the parts in `near_`, which gain `towards_` and lose `loss`.
  candidate_move best_of_near(std::uint32_t n, std::int64_t loss, target_parts which) {
    candidate_move best;
    auto const w = h_.node_weight[n];
    for (auto const part : near_) {
      auto const gain = std::exchange(towards_[part], 0) - loss;
      if (p_.weight[part] + w > p_.limit[part]) continue;
      if (best.to != no_block &&
          (gain < best.gain || (gain == best.gain && p_.room(part) <= p_.room(best.to))))
        continue;
      best = {part, gain};
    }
    if (which == any_part && best.to == no_block) {
      auto const away = roomiest(p_);
      if (away != p_.of[n] && p_.room(away) >= w) best = {away, -loss};
    }
    return best;
  }

  void move(std::uint32_t n, std::uint32_t to) {
    auto const from = p_.of[n];
    p_.of[n] = to;
    for (auto at = h_.node_first[n]; at < h_.node_first[n + 1]; ++at) {
      pins_.move(h_.net[at], from, to);
      gains_.net_changed(h_.net[at], n, from, to);
    }
    gains_.moved(n);
    p_.weight[from] -= h_.node_weight[n];
    p_.weight[to] += h_.node_weight[n];
  }

  bool improve(std::size_t max_fruitless_moves) {
    for (std::uint32_t n = 0; n < h_.nodes(); ++n)
      if (!h_.is_fixed(n) && on_boundary(n)) queue(n);
    std::int64_t now = 0, best = 0;
    std::size_t best_moves = 0;
    steps_.clear();
    while (!open_.empty() && steps_.size() - best_moves <= max_fruitless_moves) {
      auto const n = open_.pop();
      auto const m = best_move(n, near_part);
      if (m.to == no_block) continue;
      if (!open_.empty() && gain_buckets::bucket_of(m.gain) < open_.highest()) {
        open_.put(n, m.gain);
        continue;
      }
      steps_.push_back({n, p_.of[n]});
      locked_[n] = 1;
      auto const from = p_.of[n];
      move(n, m.to);
      now += m.gain;
      if (now > best) best = now, best_moves = steps_.size();
      update_neighbours(n, from, m.to);
    }
    open_.clear();
    for (auto const& s : steps_) locked_[s.node] = 0;
    while (steps_.size() > best_moves) {
      move(steps_.back().node, steps_.back().from);
      steps_.pop_back();
    }
    return best > 0;
  }

  void queue(std::uint32_t n) {
    if (auto const m = best_move(n, near_part); m.to != no_block) open_.put(n, m.gain);
  }

  /// Queues again the pins of nets whose gains the move has changed.
  void update_neighbours(std::uint32_t n, std::uint32_t from, std::uint32_t to) {
    touched_.clear();
    for (auto at = h_.node_first[n]; at < h_.node_first[n + 1]; ++at) {
      auto const e = h_.net[at];
      if (h_.size_of(e) > large_net) continue;
      auto const left = pins_.of(e, from), there = pins_.of(e, to);
      if (left > 1 && there > 2) continue;  // nothing depends on such a net
      for (auto i = h_.net_first[e]; i < h_.net_first[e + 1]; ++i) {
        auto const other = h_.pin[i];
        if (locked_[other] || h_.is_fixed(other)) continue;
        locked_[other] = 2;
        touched_.push_back(other);
      }
    }
    for (auto const other : touched_) {
      locked_[other] = 0;
      queue(other);
    }
  }

  hyper_level const& h_;
  partitioned_level& p_;
  hypergraph_objective objective_;
  net_pin_counts pins_;
  hyper_gain_table gains_;
  std::vector<std::int64_t> towards_;
  std::vector<std::uint32_t> near_, touched_;
  gain_buckets open_;
  std::vector<std::uint8_t> locked_;
  std::vector<step> steps_;
};

}  // namespace cleave::detail
