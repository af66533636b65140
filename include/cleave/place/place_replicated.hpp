// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/place/detail/device_classes.hpp"
#include "cleave/place/device_network.hpp"
#include "cleave/place/place.hpp"
#include "cleave/place/placement.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/model/unit_row.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2 {

/// Options of `place_replicated`. All devices are alike.
struct replication_options {
  std::uint32_t devices = 1;
  device_spec device = {};                           ///< each of them
  rank_link link = {};                               ///< between any two of them
  std::uint32_t microbatches = 1;                    ///< of a step; the width of each stage divides it
  placement_goal goal = placement_goal::throughput;  ///< throughput or step
  /// Share of the resident bytes of a stage that its copies sum after a step: 0.25 for weights beside their
  /// gradients and the two moments of Adam. 0 for inference.
  double summed = 0;
  std::vector<std::uint32_t> shards = {1};  ///< allowed numbers of devices that share each pass of a stage
};

/// A stage, and the devices that run it: `width` copies, each on `shards` devices.
struct replicated_stage {
  std::uint32_t begin = 0, end = 0;     ///< its units: from `begin` to before `end`
  std::uint32_t width = 1, shards = 1;  ///< each copy runs every `width`-th microbatch
  stage_cost time = {};                 ///< the times of its passes for one microbatch
  double sum_time = 0;                  ///< of its copies' sums, once a step
  std::uint64_t memory = 0;             ///< bytes that each of its devices needs
  edge_bytes sent = {};                 ///< what moves between it and the next stage for one microbatch

  bool operator==(replicated_stage const&) const = default;
};

/// Stages with copies, and the times of a microbatch and of a step.
struct replicated_placement {
  std::vector<replicated_stage> stages = {};  ///< in the order in which data flows
  std::uint32_t unused = 0;                   ///< devices without a stage
  double period = 0;  ///< time between two microbatches once the pipeline is full, with a share of the sums
  double step = 0;    ///< of all microbatches, simulated, with the sums
  placement_goal goal = placement_goal::throughput;
  std::uint32_t microbatches = 1;
  double bound = 0;  ///< no way to slice the row and to choose widths has a smaller value

  double value() const { return goal == placement_goal::step ? step : period; }
  bool is_optimal() const { return value() <= bound; }
  /// Returns the number of chains: the least common multiple of the widths. Chain c runs the microbatches
  /// c, c + chains, …, each stage on its copy number c mod width.
  std::uint32_t chains() const {
    std::uint32_t n = 1;
    for (auto const& s : stages) n = std::lcm(n, s.width);
    return n;
  }
  /// Returns the first rank of a stage: its copy r is on the rank r behind it. A copy is one rank, whatever
  /// the number of its devices.
  std::uint32_t first_rank(std::size_t stage) const {
    std::uint32_t rank = 0;
    for (std::size_t s = 0; s < stage; ++s) rank += stages[s].width;
    return rank;
  }
};

/// Returns the ranks of the stages of all chains: stage s of chain c is stage c · stages + s.
inline stage_placement stage_placement_of(replicated_placement const& p) {
  auto const n = static_cast<std::uint32_t>(p.stages.size());
  stage_placement made{p.first_rank(n), {}, {}};
  for (std::uint32_t c = 0; c < p.chains(); ++c) {
    for (std::uint32_t s = 0; s < n; ++s)
      made.rank_of.push_back(rank_id{p.first_rank(s) + c % p.stages[s].width});
    for (auto const e : chain_edges(n, c * n)) made.edges.push_back(e);
  }
  return made;
}

/// Returns, for a stage of a placement, one stage of the schedule for each copy. Their gradients are to be
/// summed after a step. All other stages of the schedule that run there share the parameters of one of them.
inline std::vector<stage_id> copies_of(replicated_placement const& p, std::uint32_t stage) {
  std::vector<stage_id> made;
  for (std::uint32_t r = 0; r < p.stages[stage].width; ++r)
    made.push_back(stage_id{r * static_cast<std::uint32_t>(p.stages.size()) + stage});
  return made;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns whether a stage has backward passes.
inline bool is_trained(replicated_placement const& p) {
  return std::ranges::any_of(p.stages, [](auto const& s) { return s.time.backward > 0; });
}

/// Returns how many microbatches each copy of a stage keeps: those that are between it and the end of the
/// pipeline, one more for each copy of each stage.
inline std::vector<std::uint32_t> kept_of(replicated_placement const& p) {
  std::vector<std::uint32_t> kept(p.stages.size(), 1);
  if (!is_trained(p)) return kept;
  std::uint32_t in_flight = 0;
  for (auto s = p.stages.size(); s-- > 0;) {
    auto const width = p.stages[s].width;
    kept[s] = (in_flight + width + width - 1) / width;
    in_flight = kept[s] * width;
    kept[s] = (std::min)(kept[s], p.microbatches / width);
  }
  return kept;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the order in which the copies run: 1F1B, where each copy takes turns with the others of its stage,
/// or forward passes alone. Of each chain it has the microbatches divided by the number of chains.
inline schedule schedule_of(replicated_placement const& p) {
  auto const chains = p.chains(), n = static_cast<std::uint32_t>(p.stages.size());
  auto const kept = detail::kept_of(p);
  bool const is_trained = detail::is_trained(p);
  schedule made{stage_placement_of(p), p.microbatches / chains, {}};
  for (std::uint32_t s = 0; s < n; ++s)
    for (std::uint32_t copy = 0; copy < p.stages[s].width; ++copy) {
      auto const own = p.microbatches / p.stages[s].width;
      auto& row = made.ranks.emplace_back();
      auto const add = [&](action_kind what, std::uint32_t number) {
        auto const m = number * p.stages[s].width + copy;
        row.push_back(
            {.kind = what, .stage = stage_id{m % chains * n + s}, .microbatch = microbatch_id{m / chains}});
      };
      for (std::uint32_t i = 0; i < own + kept[s]; ++i) {
        if (is_trained && i >= kept[s]) add(action_kind::backward, i - kept[s]);
        if (i < own) add(action_kind::forward, i);
      }
    }
  return made;
}

/// Returns the costs, the link and the bytes of the schedule of a placement, for `simulate`. The sums of
/// copies are not among them.
inline simulate_options simulate_options_of(replicated_placement const& p, rank_link const& link) {
  simulate_options o{.links = {link}};
  for (std::uint32_t c = 0; c < p.chains(); ++c)
    for (std::size_t s = 0; s < p.stages.size(); ++s) {
      o.costs.push_back(p.stages[s].time);
      if (s + 1 < p.stages.size()) o.bytes.push_back(p.stages[s].sent);
    }
  return o;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Finds the widths of stages by dynamic programming from the last stage to the first: for each place and
/// each form of the stage that begins there, the least number of devices with which no load exceeds a limit.
/// `cost(begin, end, shards)` returns the times of a slice. In the manner of Narayanan et al., PipeDream,
/// SOSP 2019.
template <class Cost>
class replication_table {
 public:
  replication_table(placement_row const& row, replication_options const& o, Cost const& cost)
      : row_(row.units), options_(o), cost_(cost), crossing_(row.units) {
    for (auto const shards : o.shards)
      for (std::uint32_t width = 1; std::uint64_t{width} * shards <= o.devices; ++width)
        if (o.microbatches % width == 0) forms_.push_back({width, shards});
  }

  bool has_forms() const { return !forms_.empty(); }

  /// Returns the stages of a placement whose loads are all at most `limit`, or below it if `is_strict`, with
  /// memory for the activations of `kept` microbatches. Each stage is counted as `stage_price` devices more
  /// than it has; no placement with a smaller sum exists. O(units · forms²).
  std::optional<std::vector<replicated_stage>> find(double limit, bool is_strict, std::uint64_t kept,
                                                    double stage_price) const {
    auto const n = row_.units();
    auto const fits = [&](double load) { return is_strict ? load < limit : load <= limit; };
    constexpr auto never = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> first(forms_.size(),
                                           std::vector<double>(n + 1, never));  // by form, place
    std::vector<std::vector<double>> behind(forms_.size(), std::vector<double>(n + 1, never));
    std::vector<std::vector<std::uint32_t>> end(forms_.size(), std::vector<std::uint32_t>(n + 1));
    std::vector<std::vector<std::uint32_t>> next(forms_.size(), std::vector<std::uint32_t>(n + 1));
    std::vector<std::vector<std::uint32_t>> earliest;
    for (auto const& f : forms_) earliest.push_back(earliest_begins(f, kept, fits));
    for (auto& b : behind) b[n] = 0;
    // All forms go on in step, since each place needs what is behind it in every form.
    std::vector<std::vector<std::uint32_t>> window(forms_.size());
    std::vector<std::size_t> front(forms_.size());
    for (auto begin = n; begin-- > 0;) {
      for (std::size_t f = 0; f < forms_.size(); ++f) {
        auto& w = window[f];
        auto const key = behind[f][begin + 1];
        while (w.size() > front[f] && behind[f][w.back()] >= key) w.pop_back();
        w.push_back(static_cast<std::uint32_t>(begin + 1));
        while (front[f] < w.size() && earliest[f][w[front[f]]] > begin) ++front[f];
        if (front[f] == w.size()) continue;
        end[f][begin] = w[front[f]];
        first[f][begin] = behind[f][w[front[f]]] + forms_[f].devices() + stage_price;
      }
      for (std::size_t f = 0; f < forms_.size(); ++f)
        for (std::size_t g = 0; g < forms_.size(); ++g)
          if (first[g][begin] < behind[f][begin] && fits(link_load(begin, forms_[f], forms_[g]))) {
            behind[f][begin] = first[g][begin];
            next[f][begin] = static_cast<std::uint32_t>(g);
          }
    }
    std::size_t best = 0;
    for (std::size_t f = 1; f < forms_.size(); ++f)
      if (first[f][0] < first[best][0]) best = f;
    if (first[best][0] == never) return std::nullopt;
    std::vector<replicated_stage> made;
    std::uint32_t devices = 0;
    for (std::size_t at = 0; at < n;) {
      auto const stop = end[best][at];
      made.push_back(stage(at, stop, forms_[best], kept));
      devices += forms_[best].devices();
      if (stop < n) best = next[best][stop];
      at = stop;
    }
    if (devices > options_.devices) return std::nullopt;
    return made;
  }

  /// Returns the largest load of a device or a link.
  double period(std::vector<replicated_stage> const& stages) const {
    double worst = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      form const f{stages[s].width, stages[s].shards};
      worst = (std::max)(worst, load(stages[s].begin, stages[s].end, f));
      if (s > 0)
        worst = (std::max)(worst, link_load(stages[s].begin, {stages[s - 1].width, stages[s - 1].shards}, f));
    }
    return worst;
  }

  /// Returns the bytes of a device of a stage, with the activations of `kept` microbatches.
  std::uint64_t needed(std::size_t begin, std::size_t end, std::uint32_t shards, std::uint64_t kept) const {
    auto const between = [&](auto const& list, auto of) {
      return list.empty() ? std::uint64_t{0} : of(list[end]) - of(list[begin]);
    };
    auto const resident = between(row_.resident, [](std::uint64_t b) { return b; });
    auto const saved = between(row_.bytes, [](pass_bytes const& b) { return b.saved; });
    if (saved > 0 && kept > ~std::uint64_t{0} / saved) return ~std::uint64_t{0};
    auto const all = bounded_sum(resident, saved * kept);
    return all / shards + (all % shards > 0 ? 1 : 0);
  }

 private:
  struct form {
    std::uint32_t width, shards;
    std::uint32_t devices() const { return width * shards; }
  };

  /// Returns the time in which the copies of a slice sum their gradients, once a step: each sends and
  /// receives all but its own share, twice.
  double sum_time(std::size_t begin, std::size_t end, form f) const {
    if (f.width == 1 || options_.summed == 0 || row_.resident.empty()) return 0;
    auto const bytes =
        options_.summed * static_cast<double>(row_.resident[end] - row_.resident[begin]) / f.shards;
    return 2 * ((f.width - 1.0) * options_.link.latency +
                bytes * (f.width - 1.0) / f.width / options_.link.bandwidth);
  }
  double load(std::size_t begin, std::size_t end, form f) const {
    auto const c = cost_(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), f.shards);
    return (c.forward + c.backward) / f.width + sum_time(begin, end, f) / options_.microbatches;
  }
  /// Returns the load of a link between two stages: every pair of copies has one for its chains.
  double link_load(std::size_t place, form a, form b) const {
    return crossing_.occupied(options_.link, options_.link, place) / std::lcm(a.width, b.width);
  }

  template <class Fits>
  std::vector<std::uint32_t> earliest_begins(form f, std::uint64_t kept, Fits fits) const {
    std::vector<std::uint32_t> made(row_.units() + 1);
    std::uint32_t begin = 0;
    for (std::uint32_t end = 1; end < made.size(); ++end) {
      while (begin < end &&
             !(fits(load(begin, end, f)) && needed(begin, end, f.shards, kept) <= options_.device.memory))
        ++begin;
      made[end] = begin;
    }
    return made;
  }

  replicated_stage stage(std::size_t begin, std::size_t end, form f, std::uint64_t kept) const {
    auto const b = static_cast<std::uint32_t>(begin), e = static_cast<std::uint32_t>(end);
    return {b,
            e,
            f.width,
            f.shards,
            cost_(b, e, f.shards),
            sum_time(begin, end, f),
            needed(begin, end, f.shards, kept),
            end < row_.units() ? crossing_.at(end) : edge_bytes{}};
  }

  unit_row const& row_;
  replication_options const& options_;
  Cost const& cost_;
  crossing_costs crossing_;
  std::vector<form> forms_;
};

/// Finds placements and their bound, for `place_replicated`.
template <class Cost>
class replicator {
 public:
  replicator(placement_row const& row, replication_options const& o, Cost const& cost)
      : options_(o), table_(row, o, cost), units_(row.units.units()) {}

  replicated_placement run() {
    constexpr auto no_limit = std::numeric_limits<double>::infinity();
    auto const fewest = table_.find(no_limit, false, 1, 0);
    if (!fewest) throw_shortage();
    auto const best = least_period(1, *fewest);
    bool const is_step = options_.goal == placement_goal::step;
    auto const bound = table_.period(best) * (is_step ? options_.microbatches : 1);
    offer(best);
    // More stages keep more activations, and a plan for few of them may do with fewer stages.
    for (std::uint64_t count = 1; count <= (std::min<std::uint64_t>)(units_, options_.devices);
         count += (count + 3) / 4) {
      auto const kept = (std::min<std::uint64_t>)(options_.microbatches, count);
      auto const any = table_.find(no_limit, false, kept, 0);
      if (!any) break;
      auto const quickest = least_period(kept, *any);
      offer(quickest);
      if (!is_step) continue;
      for (auto const slower : {1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0})
        for (auto const price : {0.25, 1.0, 4.0, 16.0})
          if (auto const found = table_.find(slower * table_.period(quickest), false, kept, price))
            offer(*found);
    }
    if (!best_)
      throw infeasible_error(
          "place: no stages with copies were found that fit the memory of the devices; use fewer "
          "microbatches, "
          "or more memory");
    best_->bound = (std::min)(bound, best_->value());  // which rounding may have made less
    return *best_;
  }

 private:
  using stages = std::vector<replicated_stage>;

  stages least_period(std::uint64_t kept, stages best) const {
    double low = 0, high = table_.period(best);
    auto const take = [&](stages&& found) {
      best = std::move(found);
      high = table_.period(best);
    };
    while (high - low > 1e-9 * high) {
      auto const middle = (low + high) / 2;
      if (auto found = table_.find(middle, false, kept, 0))
        take(std::move(*found));
      else
        low = middle;
    }
    while (auto found = table_.find(high, true, kept, 0)) take(std::move(*found));
    return best;
  }

  /// Keeps a placement if it is the best, and fits with what its schedule keeps.
  void offer(stages const& of) {
    replicated_placement p{.stages = of, .goal = options_.goal, .microbatches = options_.microbatches};
    auto const kept = kept_of(p);
    std::uint32_t devices = 0;
    for (std::size_t i = 0; i < p.stages.size(); ++i) {
      auto& s = p.stages[i];
      s.memory = table_.needed(s.begin, s.end, s.shards, kept[i]);
      if (s.memory > options_.device.memory) return;
      devices += s.width * s.shards;
    }
    p.unused = options_.devices - devices;
    p.period = table_.period(p.stages);
    if (best_ && options_.goal == placement_goal::throughput && best_->period <= p.period) return;
    auto const times = simulate(schedule_of(p), simulate_options_of(p, options_.link));
    for (std::size_t s = 0; s < p.stages.size(); ++s)
      for (std::uint32_t r = 0; r < p.stages[s].width; ++r)
        p.step = (std::max)(p.step, times.last[p.first_rank(s) + r] + p.stages[s].sum_time);
    if (!best_ || p.value() < best_->value()) best_ = p;
  }

  [[noreturn]] void throw_shortage() const {
    throw infeasible_error(
        "place: some unit needs " + format_bytes(largest_unit()) +
        " on each device with one microbatch's activations, or all units together need more "
        "devices than " +
        std::to_string(options_.devices) + "; add devices or memory");
  }
  std::uint64_t largest_unit() const {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < units_; ++i)
      most = (std::max)(most, table_.needed(i, i + 1, (std::ranges::max)(options_.shards), 1));
    return most;
  }

  replication_options const& options_;
  replication_table<Cost> table_;
  std::size_t units_;
  std::optional<replicated_placement> best_;
};

/// Checks what is given to `place_replicated`.
inline void require_replicable(placement_row const& row, replication_options const& o) {
  require_placeable(row, {.devices = {o.device}, .links = {o.link}}, {.microbatches = o.microbatches});
  if (o.devices == 0 || o.devices > most_devices)
    throw error("place: " + std::to_string(o.devices) + " devices; give 1 to " +
                std::to_string(most_devices));
  if (o.goal == placement_goal::latency)
    throw error("place: copies of stages do not make one pass faster; choose throughput or step");
  if (!(o.summed >= 0 && o.summed <= 1)) throw error("place: the summed share must be from 0 to 1");
  if (o.shards.empty() || std::ranges::any_of(o.shards, [](auto n) { return n == 0; }))
    throw error("place: give at least one number of shards, each 1 or more");
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts a row into stages for devices that are all alike, where a stage may have several copies, each on its
/// share of the microbatches (data parallelism of single stages, as in PipeDream). The period is optimal, by
/// dynamic programming, unless memory allows no such placement. `cost(begin, end, shards)` returns the times
/// of the passes of a slice on `shards` devices that share each pass (tensor parallelism); a larger slice
/// must not take less time.
/// \throws unit_row_error, device_network_error, schedule_count_error, error
/// \throws infeasible_error if no cut fits the memory of the devices
template <class Cost>
  requires std::invocable<Cost const&, std::uint32_t, std::uint32_t, std::uint32_t>
replicated_placement place_replicated(placement_row const& row, replication_options const& o,
                                      Cost const& cost) {
  detail::require_replicable(row, o);
  return detail::replicator<Cost>(row, o, cost).run();
}

/// Does the same for passes that one device computes.
inline replicated_placement place_replicated(placement_row const& row, replication_options const& o) {
  detail::require_replicable(row, o);
  auto unshared = o;
  unshared.shards = {1};
  auto const on = detail::costs_on(row, o.device);
  auto const cost = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t) {
    auto const forward = on.forward[end] - on.forward[begin];
    return stage_cost{.forward = forward,
                      .backward = (std::max)(0.0, on.passes[end] - on.passes[begin] - forward),
                      .input_gradient = 0,
                      .weight_gradient = 0,
                      .recompute = 0};
  };
  return detail::replicator<decltype(cost)>(row, unshared, cost).run();
}

}  // namespace cleave
