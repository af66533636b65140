// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/acyclic/acyclic_options.hpp"
#include "cleave/partition/acyclic/detail/coarsening.hpp"
#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/acyclic/problem.hpp"
#include "cleave/partition/acyclic/state.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// The moves of one refinement pass, in order, so that the last ones can be undone. Each unit moves at most
/// once.
template <std::unsigned_integral Index>
class pass_moves {
 public:
  explicit pass_moves(acyclic_state<Index>& state) : state_(state), moved_(state.level().units()) {}

  void begin() {
    std::ranges::fill(moved_, char{});
    done_.clear();
  }
  bool has(Index u) const { return moved_[u] != 0; }
  std::size_t size() const { return done_.size(); }
  void make(Index u, std::uint32_t to) {
    done_.emplace_back(u, state_.of()[u]);
    moved_[u] = 1;
    state_.move(u, to);
  }
  /// Undoes all moves except the first `kept`.
  void keep(std::size_t kept) {
    for (; done_.size() > kept; done_.pop_back()) state_.move(done_.back().first, done_.back().second);
  }

 private:
  acyclic_state<Index>& state_;
  std::vector<char> moved_;
  std::vector<std::pair<Index, std::uint32_t>> done_;  // unit and previous part
};

/// Reduces the cut by moving single units. Helper of `refine_cut`.
template <std::unsigned_integral Index>
class cut_refiner {
 public:
  explicit cut_refiner(acyclic_state<Index>& state)
      : state_(state), moves_(state), present_(state.limits().parts()) {}

  /// Runs one FM pass: each unit moves at most once, best gain first, even if the gain is negative. Then
  /// returns to the state with the smallest cut. Returns true if the cut decreased.
  bool pass(std::size_t max_fruitless_moves) {
    moves_.begin();
    heap_.clear();
    for (Index u = 0; u < state_.level().units(); ++u) consider(u);
    auto const before = state_.cut();
    auto least = before;
    std::size_t kept = 0;
    while (!heap_.empty() && moves_.size() - kept < max_fruitless_moves) {
      auto const next = pop();
      if (moves_.has(next.unit)) continue;
      auto const best = best_move(next.unit);
      if (!best || best->gain != next.gain) {  // a neighbour has moved since
        if (best && best->gain < next.gain) push(*best);
        if (!best || best->gain < next.gain) continue;
      }
      apply(*best);
      if (state_.cut() < least) {
        least = state_.cut();
        kept = moves_.size();
      }
    }
    moves_.keep(kept);
    return least < before;
  }

 private:
  static constexpr std::size_t most_pins = 128;  // a move does not update the gains of units that share only
                                                 // values with more pins

  struct candidate {
    std::int64_t gain;
    Index unit;
    std::uint32_t to;
    bool operator<(candidate const& other) const {
      return gain != other.gain ? gain < other.gain : unit > other.unit;
    }
  };

  /// Returns the best move of `u`, or nothing if `u` touches no cut value or cannot move.
  /// O(parts that its values touch).
  std::optional<candidate> best_move(Index u) {
    auto const& level = state_.level();
    auto const here = state_.of()[u];
    std::int64_t all = 0, freed = 0;
    bool border = false;
    for (Index const v : level.touched[u]) border |= state_.pins().spread(v) > 1;
    if (!border || !state_.may_leave(u)) return std::nullopt;
    auto const [first, last] = state_.range(u);
    if (first == last) return std::nullopt;
    std::fill(present_.begin() + first, present_.begin() + last + 1, 0);
    for (Index const v : level.touched[u]) {
      auto const price = level.price[0][v];
      all += price;
      if (state_.pins().count(v, here) == 1) freed += price;
      state_.pins().each_part(v, [&](std::uint32_t p) { present_[p] += price; });
    }
    std::optional<candidate> best;
    for (auto to = first; to <= last; ++to)
      if (auto const gain = freed - all + present_[to];
          to != here && (!best || gain > best->gain || (gain == best->gain && lighter(to, best->to))) &&
          state_.fits(u, to))
        best = candidate{gain, u, to};
    return best;
  }
  bool lighter(std::uint32_t a, std::uint32_t b) const { return state_.time(a) < state_.time(b); }

  void consider(Index u) {
    if (auto const best = best_move(u)) push(*best);
  }
  void push(candidate const& c) {
    heap_.push_back(c);
    std::push_heap(heap_.begin(), heap_.end());
  }
  candidate pop() {
    std::pop_heap(heap_.begin(), heap_.end());
    auto const best = heap_.back();
    heap_.pop_back();
    return best;
  }

  void apply(candidate const& c) {
    moves_.make(c.unit, c.to);
    for (Index const v : state_.level().touched[c.unit]) {
      auto const pins = state_.level().touching[v];
      if (pins.size() > most_pins) continue;
      for (Index const other : pins)
        if (!moves_.has(other)) consider(other);
    }
  }

  acyclic_state<Index>& state_;
  pass_moves<Index> moves_;
  std::vector<std::int64_t> present_;  // of each part: the price of the unit's values that the part already
                                       // touches
  std::vector<candidate> heap_;
};

/// Reduces the cut within the limits by FM passes until a pass gains nothing. Moves preserve the order of the
/// parts. Fiduccia and Mattheyses, DAC 1982. A pass takes O(pins), and a log factor for the units that move.
template <std::unsigned_integral Index>
void refine_cut(acyclic_state<Index>& state, std::size_t max_fruitless_moves = 300, std::size_t passes = 8) {
  cut_refiner<Index> refiner(state);
  while (passes-- > 0 && refiner.pass(max_fruitless_moves)) {
  }
}

/// Reduces the largest load by moving single units. Helper of `refine_load`.
template <std::unsigned_integral Index>
class load_refiner {
 public:
  explicit load_refiner(acyclic_state<Index>& state)
      : state_(state), moves_(state), listed_(state.level().units()) {
    for (Index u = 0; u < state.level().units(); ++u)
      if (on_border(u)) list(u);
  }

  /// Runs one pass: the heaviest part repeatedly gives or takes the unit that leaves both parts lightest.
  /// Each unit moves at most once. Then returns to the state with the smallest largest load. Returns true if
  /// it improved.
  bool pass(std::size_t max_fruitless_moves) {
    moves_.begin();
    auto const before = quality();
    auto best = before;
    std::size_t kept = 0;
    while (moves_.size() - kept < max_fruitless_moves) {
      auto const next = best_move(heaviest());
      if (!next) break;
      apply(*next);
      if (auto const now = quality(); now < best) {
        best = now;
        kept = moves_.size();
      }
    }
    moves_.keep(kept);
    return best < before;
  }

 private:
  struct candidate {
    std::int64_t most, sum;  // the larger load of both parts, and the sum of both
    Index unit;
    std::uint32_t to;
    bool operator<(candidate const& o) const {
      return std::pair(most, sum) != std::pair(o.most, o.sum)
                 ? std::pair(most, sum) < std::pair(o.most, o.sum)
                 : std::pair(unit, to) < std::pair(o.unit, o.to);
    }
  };

  /// Returns the largest load and the number of parts that have it.
  std::pair<std::int64_t, std::uint32_t> quality() const {
    std::pair<std::int64_t, std::uint32_t> q{0, 0};
    for (std::uint32_t p = 0; p < state_.limits().parts(); ++p) {
      auto const load = state_.load(p);
      if (load > q.first) q = {load, 0};
      if (load == q.first) ++q.second;
    }
    return q;
  }
  std::uint32_t heaviest() const {
    std::uint32_t most = 0;
    for (std::uint32_t p = 1; p < state_.limits().parts(); ++p)
      if (state_.load(p) > state_.load(most)) most = p;
    return most;
  }
  bool on_border(Index u) const {
    for (Index const v : state_.level().touched[u])
      if (state_.pins().spread(v) > 1) return true;
    auto const [first, last] = state_.range(u);
    return first != last;
  }
  void list(Index u) {
    if (std::exchange(listed_[u], 1) == 0) border_.push_back(u);
  }

  std::optional<candidate> best_move(std::uint32_t part) const {
    std::optional<candidate> best;
    auto const look = [&](Index u, std::uint32_t to) {
      if (to == state_.of()[u] || !state_.fits(u, to)) return;
      auto const [left, entered] = state_.loads_after(u, to);
      candidate const c{(std::max)(left, entered), left + entered, u, to};
      if (!best || c < *best) best = c;
    };
    for (Index const u : border_) {
      if (moves_.has(u) || !state_.may_leave(u)) continue;
      auto const here = state_.of()[u];
      if (here != part && (here > part ? here - part : part - here) > 1 && !shares(u, part)) continue;
      auto const [first, last] = state_.range(u);
      if (here != part) {
        if (part >= first && part <= last) look(u, part);
        continue;
      }
      for (auto to = first; to <= last; ++to) look(u, to);
    }
    return best;
  }
  bool shares(Index u, std::uint32_t part) const {
    for (Index const v : state_.level().touched[u])
      if (state_.pins().count(v, part) != 0) return true;
    return false;
  }

  void apply(candidate const& c) {
    moves_.make(c.unit, c.to);
    for (Index const other : state_.level().predecessors[c.unit]) list(other);
    auto const users = state_.level().successors[c.unit];
    for (Index const other : users.first(std::min<std::size_t>(users.size(), 256))) list(other);
  }

  acyclic_state<Index>& state_;
  pass_moves<Index> moves_;
  std::vector<char> listed_;
  std::vector<Index> border_;
};

/// Reduces the largest load within the limits by passes until a pass gains nothing. A pass takes
/// O(border units * moves tried).
template <std::unsigned_integral Index>
void refine_load(acyclic_state<Index>& state, std::size_t max_fruitless_moves = 30, std::size_t passes = 8) {
  load_refiner<Index> refiner(state);
  while (passes-- > 0 && refiner.pass(max_fruitless_moves)) {
  }
}

/// Constructs and improves partitions of the units of one level. All goals of `partition_acyclic` use it.
template <std::unsigned_integral Index>
class acyclic_search {
 public:
  using parts = std::vector<std::uint32_t>;

  /// A partition and its objective value, which is minimized.
  struct found {
    parts of;
    std::int64_t value = unreachable_load;
    bool operator<(found const& other) const {
      return value != other.value ? value < other.value : of < other.of;
    }
  };

  acyclic_search(acyclic_level<Index> const& finest, acyclic_limits const& limits, acyclic_goal goal,
                 std::int64_t bound)
      : finest_(finest), limits_(limits), goal_(goal), bound_(bound) {}

  std::int64_t value_of(acyclic_state<Index> const& state) const {
    return goal_ == acyclic_goal::cut ? state.cut() : state.bottleneck();
  }
  found valued(parts of) const {
    acyclic_state<Index> const state(finest_, limits_, std::move(of));
    return {state.of(), value_of(state)};
  }

  /// Returns the best slices of one order of a level's units, if any are feasible and better than `below`.
  std::optional<parts> sliced(acyclic_level<Index> const& level, std::span<Index const> order,
                              std::int64_t below = unreachable_load) const {
    return goal_ == acyclic_goal::cut ? cut_slices<Index>(level, limits_, order, limits_.most[0])
                                      : load_slices<Index>(level, limits_, order, bound_, below);
  }

  /// Builds a partition by multilevel slicing: slices several orders of the coarsest level, refines each
  /// result, and refines the best one on every level down to the finest. Returns nothing if no slices are
  /// feasible.
  std::optional<found> from_above(std::size_t orders, std::uint64_t seed) const {
    auto const h = coarsened<Index>(finest_, {.most_weight = cluster_weight(), .seed = seed});
    auto const& coarsest = h.levels.empty() ? finest_ : h.levels.back();
    std::vector<found> best;
    splitmix dice(seed);
    for (auto const how : {unit_order::given, unit_order::breadth_first, unit_order::depth_first,
                           unit_order::on_demand, unit_order::on_demand_last})
      keep_slices(coarsest, order_of(coarsest, how, dice), best);
    while (orders-- > 0) keep_slices(coarsest, order_of(coarsest, unit_order::random, dice), best);
    if (best.empty()) return std::nullopt;
    std::sort(best.begin(), best.end());
    return valued(refined_down(h, std::move(best.front().of)));
  }

  /// Runs one V-cycle: coarsens within the parts, refines on the way down, and slices the units again in the
  /// order of the parts. Never worse than `start`.
  found cycle(found start, std::uint64_t seed) const {
    auto const h = coarsened<Index>(finest_, {.part = start.of,
                                              .enough = 20 * std::size_t{limits_.parts()},
                                              .most_weight = cluster_weight(),
                                              .seed = seed});
    auto of = start.of;
    for (auto const& cluster : h.cluster) {
      parts coarse(h.levels[static_cast<std::size_t>(&cluster - h.cluster.data())].units());
      for (std::size_t u = 0; u < of.size(); ++u) coarse[cluster[u]] = of[u];
      of = std::move(coarse);
    }
    auto better = valued(refined_down(h, std::move(of)));
    if (start.value < better.value) better = std::move(start);
    return resliced(std::move(better), seed);
  }

  /// Slices an order in which the parts are contiguous. Never worse than `start`.
  found resliced(found start, std::uint64_t seed) const {
    splitmix dice(seed);
    auto const how = seed % 4 == 0   ? unit_order::given
                     : seed % 4 == 1 ? unit_order::on_demand
                     : seed % 4 == 2 ? unit_order::depth_first
                                     : unit_order::random;
    auto const order = order_of(finest_, how, dice);
    std::vector<std::size_t> next(limits_.parts() + std::size_t{1});
    for (auto const p : start.of) ++next[p + std::size_t{1}];
    std::partial_sum(next.begin(), next.end(), next.begin());
    std::vector<Index> by_part(order.size());
    for (Index const u : order) by_part[next[start.of[u]]++] = u;
    auto of = sliced(finest_, by_part, start.value);
    if (!of) return start;
    auto better = valued(std::move(*of));
    return better.value < start.value ? std::move(better) : std::move(start);
  }

  std::vector<Index> order_of(acyclic_level<Index> const& level, unit_order how, splitmix& dice) const {
    std::vector<Index> rank;
    if (how == unit_order::random) {
      rank = shuffled_ranks<Index>(level.units(), dice);
    } else {
      rank.resize(level.units());
      std::iota(rank.begin(), rank.end(), Index{});
    }
    return ordered_units<Index>(level.predecessors, level.successors, how, rank, level.window,
                                limits_.parts());
  }

 private:
  /// Returns the weight limit of a cluster: a sixteenth of an average part, so that clusters can still move.
  std::int64_t cluster_weight() const {
    auto const& weight = finest_.weight[0];
    auto const sum = std::accumulate(weight.begin(), weight.end(), std::int64_t{});
    return sum / limits_.parts() / 16;
  }

  void keep_slices(acyclic_level<Index> const& level, std::vector<Index> const& order,
                   std::vector<found>& best) const {
    if (auto of = sliced(level, order)) {
      acyclic_state<Index> state(level, limits_, std::move(*of));
      refine(state);
      best.push_back({state.of(), value_of(state)});
    }
  }

  void refine(acyclic_state<Index>& state) const {
    goal_ == acyclic_goal::cut ? refine_cut(state) : refine_load(state);
  }

  /// Projects and refines from the coarsest level, whose parts are `of`, to the finest.
  parts refined_down(acyclic_hierarchy<Index> const& h, parts of) const {
    for (auto at = h.levels.size();; --at) {
      auto const& level = at == 0 ? finest_ : h.levels[at - 1];
      acyclic_state<Index> state(level, limits_, std::move(of));
      refine(state);
      of = state.of();
      if (at == 0) return of;
      auto const& cluster = h.cluster[at - 1];
      parts fine(cluster.size());
      for (std::size_t u = 0; u < fine.size(); ++u) fine[u] = of[cluster[u]];
      of = std::move(fine);
    }
  }

  acyclic_level<Index> const& finest_;
  acyclic_limits const& limits_;
  acyclic_goal goal_;
  std::int64_t bound_;
};

/// Calls the user's step-time function for partitions of units and counts the calls. `may_ask` is false after
/// `most` calls.
template <std::unsigned_integral Index, class StepTime>
class step_timer {
 public:
  step_timer(basic_snapshot_arrays<Index> const& g, unit_graph<Index> const& units, StepTime& time,
             std::size_t most)
      : g_(g), units_(units), time_(time), left_(most) {}

  bool may_ask() const { return left_ > 0; }
  std::size_t asked() const { return asked_; }
  /// Returns the time of a step. \throws error if the function returns a negative number or NaN.
  double operator()(std::span<std::uint32_t const> of) {
    partition p{std::vector<part_id>(g_.nodes(), no_part), 0};
    for (std::size_t u = 0; u < of.size(); ++u) {
      for (Index const n : units_.members[u]) p.of[n] = part_id{of[u]};
      p.parts = (std::max)(p.parts, of[u] + 1);
    }
    ++asked_;
    left_ -= left_ > 0;
    double const seconds = time_(std::as_const(p));
    if (!(seconds >= 0))
      throw error("partition_acyclic: the time of a step is " + std::to_string(seconds) +
                  ": `step_time` must return a number of at least 0");
    return seconds;
  }

 private:
  basic_snapshot_arrays<Index> const& g_;
  unit_graph<Index> const& units_;
  StepTime& time_;
  std::size_t left_, asked_ = 0;
};

/// Moves clusters to adjacent parts as long as this shortens the step, large clusters first, until the calls
/// are used up. Returns the parts and the time of their step.
template <std::unsigned_integral Index, class Timer>
std::pair<std::vector<std::uint32_t>, double> shortened_step(acyclic_level<Index> const& finest,
                                                             acyclic_limits const& limits,
                                                             std::vector<std::uint32_t> of, double least,
                                                             Timer& timer, std::uint64_t seed) {
  for (std::size_t const enough : {8u, 64u, 512u}) {
    auto const sum_of = [](auto const& weights) {
      std::int64_t sum = 0;
      for (auto const w : weights) sum += w;
      return sum;
    };
    auto const h = coarsened<Index>(finest, {.part = of,
                                             .enough = enough * limits.parts(),
                                             .most_weight = sum_of(finest.weight[0]) / limits.parts() / 2,
                                             .seed = seed});
    auto const& level = h.levels.empty() ? finest : h.levels.back();
    std::vector<Index> cluster(finest.units());
    for (std::size_t u = 0; u < cluster.size(); ++u) {
      cluster[u] = static_cast<Index>(u);
      for (auto const& next : h.cluster) cluster[u] = next[cluster[u]];
    }
    std::vector<std::uint32_t> coarse(level.units());
    for (std::size_t u = 0; u < of.size(); ++u) coarse[cluster[u]] = of[u];
    acyclic_state<Index> state(level, limits, std::move(coarse));
    auto const fine = [&] {
      for (std::size_t u = 0; u < of.size(); ++u) of[u] = state.of()[cluster[u]];
      return std::span<std::uint32_t const>(of);
    };
    for (bool better = true; better && timer.may_ask();) {
      better = false;
      for (std::size_t u = 0; u < level.units() && timer.may_ask(); ++u) {
        auto const here = state.of()[u];
        auto const [first, last] = state.range(u);
        for (auto const to : {here + 1, here - 1}) {  // `here - 1` of part 0 wraps around and is above `last`
          if (to < first || to > last || !state.may_leave(u) || !state.fits(u, to) || !timer.may_ask())
            continue;
          state.move(u, to);
          if (double const now = timer(fine()); now < least) {
            least = now;
            better = true;
            break;
          }
          state.move(u, here);
        }
      }
    }
    fine();
  }
  return {std::move(of), least};
}

/// Partitions one graph for devices in the given order. Helper of `partition_acyclic`.
template <std::unsigned_integral Index>
class acyclic_partitioner {
 public:
  acyclic_partitioner(basic_snapshot_arrays<Index> const& g, std::uint32_t k, acyclic_options const& o,
                      unit_graph<Index> const& units)
      : g_(g), k_(k), o_(o), units_(units) {}

  ordered_partition run() {
    auto start = first_partition();
    if (units_.size() == 0) return reported(std::move(start.of), start.parts, 0);
    state_limits();
    auto const bound = o_.goal == acyclic_goal::bottleneck ? load_bound(costs_) : 0;
    auto of = parts_of_units(start);
    limit_times(of);

    acyclic_search<Index> const search(level_, limits_, o_.goal, bound);
    auto best = search.valued(std::move(of));
    for (auto& start_of : other_starts(search, best.value)) best = (std::min)(best, search.valued(start_of));
    if (o_.goal == acyclic_goal::cut && rounds() == 0 && o_.effort > 0)  // slices alone are far from a good
                                                                         // cut
      best = search.cycle(std::move(best), o_.limits.seed);
    std::size_t stale = 0;  // consecutive rounds without improvement
    for (std::size_t round = 0; round < rounds() && stale < 4 && best.value > bound; ++round, ++stale) {
      auto const seed = o_.limits.seed + 2 * round;
      auto const before = best.value;
      if (auto other = search.from_above(8, seed)) best = (std::min)(best, search.cycle(*other, seed));
      best = search.cycle(std::move(best), seed + 1);
      if (best.value < before) stale = 0;
    }
    return reported(parts_of_nodes(best.of), 0, load_bound(costs_));
  }

  /// Returns the partition with the shortest step among `starts` and the improvements of the best of them.
  /// Devices stand in the given order.
  template <class StepTime>
  ordered_partition run_timed(std::vector<ordered_partition> const& starts, StepTime& time) {
    if (units_.size() == 0) return starts.front();
    state_limits();
    step_timer<Index, StepTime> timer(g_, units_, time, questions());
    std::vector<std::uint32_t> best;
    double least = std::numeric_limits<double>::infinity();
    for (auto const& start : starts) {
      auto of = parts_of_units(start);
      if (double const now = timer(of); best.empty() || now < least) {
        least = now;
        best = std::move(of);
      }
    }
    auto shortest = shortened_step(level_, limits_, std::move(best), least, timer, o_.limits.seed);
    auto r = reported(parts_of_nodes(shortest.first), 0, load_bound(costs_));
    r.step_time = shortest.second;
    return r;
  }

 private:
  using found = typename acyclic_search<Index>::found;

  std::vector<std::uint32_t> parts_of_units(partition const& p) const {
    std::vector<std::uint32_t> of(units_.size());
    for (std::size_t u = 0; u < of.size(); ++u) of[u] = index(p.of[units_.members[u].front()]);
    return of;
  }
  std::vector<part_id> parts_of_nodes(std::vector<std::uint32_t> const& of) const {
    std::vector<part_id> part(g_.nodes(), no_part);
    for (std::size_t u = 0; u < of.size(); ++u)
      for (Index const n : units_.members[u]) part[n] = part_id{of[u]};
    return part;
  }
  std::size_t questions() const { return 1 + static_cast<std::size_t>(500 * o_.effort); }

  /// Returns slices that balance the load, or for the goal `cut` the compute time. \throws infeasible_error.
  balanced_partition first_partition() const {
    auto options = o_.limits;
    if (o_.goal == acyclic_goal::cut) {
      options.cost_per_byte = 0;
      options.random_orders = std::min<std::size_t>(options.random_orders, 8);
    }
    return balance(g_, k_, options);
  }

  void state_limits() {
    auto const& l = o_.limits;
    auto const parts =
        may_leave_gaps(l) ? k_ : static_cast<std::uint32_t>(std::min<std::size_t>(k_, units_.size()));
    costs_ = costs_of(g_, units_, parts, {l.cost_per_byte, l.speed, l.link});
    limits_.speed_of = costs_.speed_of;
    limits_.link_of = costs_.link_of;
    limits_.most.assign(parts, unreachable_load);
    limits_.may_be_empty = l.empty == empty_parts::allowed;
    for (std::uint32_t s = 0; s < parts && !l.memory.empty(); ++s) limits_.memory.push_back(l.memory[s]);

    level_.predecessors = units_.predecessors;
    level_.successors = units_.successors;
    level_.weight = costs_.weight;
    if (!l.memory.empty()) level_.memory = memory_of<Index>(g_, units_, l.node_memory);
    if (o_.goal == acyclic_goal::cut) {
      limits_.link_of.assign(parts, 0);
      auto const prices = list_cut_values(g_, units_, o_.counted, level_.touching);
      double total = 0;
      for (std::size_t v = 0; v < prices.size(); ++v)
        total += prices[v] * static_cast<double>(level_.touching[v].size());
      auto const scale = fixed_point::for_total(2 * total);
      auto& row = level_.price.emplace_back();
      for (double const price : prices) row.push_back(scale.of(price));
    } else {
      level_.touching = costs_.touching;
      level_.price = costs_.linked;
      if (level_.price.empty()) level_.price.push_back(costs_.transfer);
    }
    level_.touched = users_of(level_.touching, units_.size());
    place_fixed_nodes(parts);
  }

  void place_fixed_nodes(std::uint32_t parts) {
    std::vector<part_id> fixed(units_.size(), no_part);
    bool any = false;
    for (std::size_t n = 0; n < o_.limits.fixed.size(); ++n)
      if (o_.limits.fixed[n] != no_part && units_.of[n] != none<Index>) {
        fixed[units_.of[n]] = o_.limits.fixed[n];
        any = true;
      }
    if (!any) return;
    splitmix unused(0);
    acyclic_search<Index> const search(level_, limits_, o_.goal, 0);
    auto const order = search.order_of(level_, unit_order::breadth_first, unused);
    level_.window = reach_of_fixed<Index>(units_.predecessors, order, fixed, parts).window;
  }

  /// Limits the time of each part for the goal `cut`: an even share plus `epsilon`. If the slices `of`, which
  /// only balance the time, exceed that, their largest time is the limit.
  void limit_times(std::vector<std::uint32_t> const& of) {
    if (o_.goal != acyclic_goal::cut) return;
    double sum = 0;
    bool whole = true;
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (units_.of[n] != none<Index>) {
        sum += g_.weight[n];
        whole &= g_.weight[n] == static_cast<double>(rounded(g_.weight[n]));
      }
    auto share = sum / speed_sum();
    if (whole && o_.limits.speed.empty() && share < 0x1p52) {
      auto const units = static_cast<std::int64_t>(share);
      share = static_cast<double>(units) + (static_cast<double>(units) < share ? 1 : 0);
    }
    auto most = static_cast<std::int64_t>((1 + o_.epsilon) * share * power_of_two(costs_.scale.exponent));
    std::vector<std::int64_t> time(limits_.parts());
    for (std::size_t u = 0; u < of.size(); ++u) time[of[u]] += costs_.weight[costs_.speed_of[of[u]]][u];
    auto const least = (std::ranges::max)(time);
    balanced_ = least <= most;
    limits_.most.assign(limits_.parts(), (std::max)(most, least));
  }
  double speed_sum() const {
    double sum = 0;
    for (std::uint32_t s = 0; s < limits_.parts(); ++s)
      sum += o_.limits.speed.empty() ? 1 : o_.limits.speed[s];
    return sum;
  }

  /// Returns the number of rounds, which together visit about two million units and pins, times `effort`.
  std::size_t rounds() const {
    auto const size = static_cast<double>(units_.size() + level_.touching.item.size());
    return static_cast<std::size_t>((std::min)(32.0, o_.effort * 2e6 / size));
  }

  std::vector<std::vector<std::uint32_t>> other_starts(acyclic_search<Index> const& search,
                                                       std::int64_t below) const {
    std::vector<std::vector<std::uint32_t>> starts;
    splitmix unused(0);
    if (o_.goal != acyclic_goal::cut) return starts;
    for (auto const how : o_.limits.orders)
      if (auto of = search.sliced(level_, search.order_of(level_, how, unused), below))
        starts.push_back(std::move(*of));
    return starts;
  }

  ordered_partition reported(std::vector<part_id> of, std::uint32_t parts, std::int64_t bound) const {
    ordered_partition r;
    r.of = std::move(of);
    r.parts = parts;
    for (auto const p : r.of)
      if (p != no_part) r.parts = (std::max)(r.parts, index(p) + 1);
    std::vector<double> speed, link;
    auto const& l = o_.limits;
    for (std::uint32_t s = 0; s < r.parts; ++s) {
      speed.push_back(l.speed.empty() ? 1 : l.speed[s]);
      link.push_back(l.link.empty() ? 1 : l.link[s]);
      r.device.push_back(s);
    }
    r.loads = part_loads(g_, r, {l.cost_per_byte, speed, link});
    r.times = part_weights(g_, r);
    double sum = 0;
    for (std::size_t s = 0; s < r.times.size(); ++s) sum += r.times[s], r.times[s] /= speed[s];
    for (double const load : r.loads) r.bottleneck = (std::max)(r.bottleneck, load);
    for (double const time : r.times)
      if (sum > 0) r.imbalance = (std::max)(r.imbalance, time * speed_sum() / sum - 1);
    r.bound = (std::min)(costs_.scale.value(bound), r.bottleneck);
    r.cut = counted_cut(r);
    r.balanced = balanced_;
    return r;
  }
  double counted_cut(partition const& p) const {
    double sum = 0;
    each_crossing(g_, p, [&](Index v, part_id from, std::span<part_id const> readers) {
      double const bytes = g_.bytes.empty() ? 0 : static_cast<double>(g_.bytes[v]);
      if (o_.counted == cut_measure::received_values) sum += static_cast<double>(readers.size());
      if (o_.counted == cut_measure::received_bytes) sum += bytes * static_cast<double>(readers.size());
      if (o_.counted == cut_measure::edge_bytes)
        for (Index const user : g_.users[v])
          if (p.of[user] != from && p.of[user] != no_part && !is_replicable(g_, user)) sum += bytes;
    });
    return sum;
  }

  basic_snapshot_arrays<Index> const& g_;
  std::uint32_t k_;
  acyclic_options const& o_;
  unit_graph<Index> const& units_;
  unit_costs<Index> costs_;
  acyclic_level<Index> level_;
  acyclic_limits limits_;
  bool balanced_ = true;
};

}  // namespace cleave::detail
