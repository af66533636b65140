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

/// Options of `place_replicated`. The first three describe devices that are all alike; a network takes their
/// place.
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
  std::uint32_t begin = 0, end = 0;         ///< its units: from `begin` to before `end`
  std::uint32_t width = 1, shards = 1;      ///< each copy runs every `width`-th microbatch
  stage_cost time = {};                     ///< the times of its passes for one microbatch
  double sum_time = 0;                      ///< of its copies' sums, once a step
  std::uint64_t memory = 0;                 ///< bytes that each of its devices needs
  edge_bytes sent = {};                     ///< what moves between it and the next stage for one microbatch
  std::vector<std::uint32_t> devices = {};  ///< of a network: the position of each copy's device

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

/// Does the same for the links between the devices of the network that it was placed on.
inline simulate_options simulate_options_of(replicated_placement const& p, device_network const& net) {
  auto o = simulate_options_of(p, rank_link{});
  o.links = net.links;
  if (net.links.size() <= 1) return o;
  o.links.clear();
  std::vector<std::uint32_t> device_of;  // of each rank
  for (auto const& s : p.stages) device_of.insert(device_of.end(), s.devices.begin(), s.devices.end());
  for (auto const from : device_of)
    for (auto const to : device_of) o.links.push_back(from == to ? rank_link{} : net.link(from, to));
  return o;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The devices that stages with copies are placed on. Those of a class are alike.
struct replication_devices {
  device_classes classes = {};
  std::vector<std::vector<std::uint32_t>> members =
      {};                                    ///< of each class: its devices; empty without a network
  std::vector<std::uint32_t> class_of = {};  ///< of each device; empty without a network
  device_network const* net = nullptr;

  std::uint32_t count() const {
    std::uint32_t sum = 0;
    for (auto const& c : classes.of) sum += c.count;
    return sum;
  }
  /// Returns the class of the devices of a stage.
  std::uint32_t of(replicated_stage const& s) const {
    return class_of.empty() ? 0 : class_of[s.devices.front()];
  }
  simulate_options timing(replicated_placement const& p) const {
    return net != nullptr ? simulate_options_of(p, *net) : simulate_options_of(p, classes.links[0]);
  }
};

/// Finds the widths and classes of stages by dynamic programming from the last stage to the first: for each
/// place, each form of the stage that begins there and each number of devices of all classes but one that are
/// used from there on, the least number of devices of that one with which no load exceeds a limit.
/// `cost(begin, end, shards, class)` returns the times of a slice. In the manner of Narayanan et al.,
/// PipeDream, SOSP 2019.
template <class Cost>
class replication_table {
 public:
  replication_table(placement_row const& row, replication_options const& o, replication_devices const& on,
                    Cost const& cost)
      : row_(row.units), options_(o), on_(on), cost_(cost), crossing_(row.units), strides_(classes()) {
    std::uint32_t most = 0;
    for (std::uint32_t c = 0; c < classes(); ++c) {
      if (of(c).count > of(most).count) most = c;
      for (auto const shards : o.shards)
        for (std::uint32_t width = 1; std::uint64_t{width} * shards <= of(c).count; ++width)
          if (o.microbatches % width == 0) forms_.push_back({width, shards, c});
    }
    for (std::uint32_t c = 0; c < classes(); ++c) {
      if (c == most) continue;  // its devices are counted by the entries of the table
      strides_[c] = states_;
      states_ = times_bounded(states_, of(c).count + std::uint64_t{1});
    }
    auto const steps = times_bounded(states_, times_bounded(forms_.size() * forms_.size(), row_.units()));
    if (classes() > 1 && steps > most_steps)
      throw error("place: devices of " + std::to_string(classes()) +
                  " kinds have too many forms of stages with copies; make more devices and links alike, or "
                  "place without copies");
    for (auto const& f : forms_)
      for (auto const& g : forms_) chains_.push_back(std::lcm(f.width, g.width));
    for (std::size_t place = 0; place <= row_.units(); ++place)
      for (std::uint32_t a = 0; a < classes(); ++a)
        for (std::uint32_t b = 0; b < classes(); ++b)
          occupied_.push_back(crossing_.occupied(on_.classes.link(a, b), on_.classes.link(b, a), place));
  }

  /// Returns the stages of a placement whose loads are all at most `limit`, or below it if `is_strict`, with
  /// memory for the activations of `kept` microbatches. Each stage is counted as `stage_price` devices more
  /// than it has. If all devices are alike, no placement with a smaller sum exists; otherwise one is found
  /// wherever there is one if the price is 0. O(units · forms² · states).
  std::optional<std::vector<replicated_stage>> find(double limit, bool is_strict, std::uint64_t kept,
                                                    double stage_price) const {
    auto const fits = [&](double load) { return is_strict ? load < limit : load <= limit; };
    auto const all = filled(fits, kept, stage_price);
    auto state = states() - 1;  // all devices
    auto best = forms_.size();
    auto least = never;
    for (std::size_t f = 0; f < forms_.size(); ++f)
      if (auto const rest = without(state, forms_[f]); rest && all.first[at(0, *rest, f)] < least) {
        least = all.first[at(0, *rest, f)];
        best = f;
      }
    if (best == forms_.size()) return std::nullopt;
    std::vector<replicated_stage> made;
    std::vector<std::uint32_t> used(classes());
    for (std::size_t begin = 0; begin < row_.units();) {
      auto const& f = forms_[best];
      state = *without(state, f);
      auto const end = all.end[at(begin, state, best)];
      used[f.of] += f.devices();
      if (used[f.of] > of(f.of).count) return std::nullopt;
      made.push_back(stage(begin, end, f, kept));
      for (auto d = used[f.of] - f.devices(); d < used[f.of] && !on_.members.empty(); ++d)
        made.back().devices.push_back(on_.members[f.of][d]);
      if (end < row_.units()) best = all.next[at(end, state, best)];
      begin = end;
    }
    return made;
  }

  /// Returns the largest load of a device or a link.
  double period(std::vector<replicated_stage> const& stages) const {
    double worst = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      auto const f = form_of(stages[s]);
      worst = (std::max)(worst, load(stages[s].begin, stages[s].end, f));
      if (s == 0) continue;
      auto const before = form_of(stages[s - 1]);
      worst = (std::max)(worst, link_load(stages[s].begin, before, f, std::lcm(before.width, f.width)));
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
    std::uint32_t width, shards, of;  ///< of: the class of its devices
    std::uint32_t devices() const { return width * shards; }
  };
  /// The table, by place, by the state that is left for the stages behind and by the form of a stage: of the
  /// one that begins there or, in `behind` and `next`, of the one that ends there.
  struct entries {
    std::vector<double> first, behind;     // devices of a stage and of all behind it; of those alone
    std::vector<std::uint32_t> end, next;  // where the stage ends; the form of the one behind it
  };
  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr std::uint64_t most_steps = 20'000'000;

  template <class Fits>
  entries filled(Fits fits, std::uint64_t kept, double stage_price) const {
    auto const n = row_.units(), forms = forms_.size(), width = states() * forms, size = (n + 1) * width;
    entries all{std::vector<double>(size, never), std::vector<double>(size, never),
                std::vector<std::uint32_t>(size), std::vector<std::uint32_t>(size)};
    std::vector<std::vector<std::uint32_t>> earliest;
    for (auto const& f : forms_) earliest.push_back(earliest_begins(f, kept, fits));
    for (std::size_t i = n * width; i < size; ++i) all.behind[i] = 0;
    // All go on in step, since each place needs what is behind it in every form and state.
    std::vector<std::vector<std::uint32_t>> window(width);
    std::vector<std::size_t> front(width);
    std::vector<char> is_joined(forms * forms);  // at a place: of the form behind it, and the one before
    for (auto begin = n; begin-- > 0;) {
      auto* const first = &all.first[begin * width];
      for (std::size_t i = 0; i < width; ++i) {
        auto& w = window[i];
        auto const& begins = earliest[i % forms];
        auto const key = [&](std::size_t place) { return all.behind[place * width + i]; };
        while (w.size() > front[i] && key(w.back()) >= key(begin + 1)) w.pop_back();
        w.push_back(static_cast<std::uint32_t>(begin + 1));
        while (front[i] < w.size() && begins[w[front[i]]] > begin) ++front[i];
        if (front[i] == w.size()) continue;
        auto const& f = forms_[i % forms];
        all.end[begin * width + i] = w[front[i]];
        first[i] = key(w[front[i]]) + stage_price + (is_counted(f) || stage_price > 0 ? f.devices() : 0);
      }
      for (std::size_t g = 0; g < forms; ++g)
        for (std::size_t f = 0; f < forms; ++f)
          is_joined[g * forms + f] =
              fits(link_load(begin, forms_[f], forms_[g], chains_[g * forms + f])) ? 1 : 0;
      for (std::size_t state = 0; state < states(); ++state) {
        auto* const behind = &all.behind[begin * width + state * forms];
        auto* const next = &all.next[begin * width + state * forms];
        for (std::size_t g = 0; g < forms; ++g) {
          auto const rest = without(state, forms_[g]);
          auto const value = rest ? first[*rest * forms + g] : never;
          if (value == never) continue;
          for (std::size_t f = 0; f < forms; ++f)
            if (value < behind[f] && is_joined[g * forms + f]) {
              behind[f] = value;
              next[f] = static_cast<std::uint32_t>(g);
            }
        }
      }
    }
    return all;
  }
  std::size_t at(std::size_t place, std::size_t state, std::size_t f) const {
    return (place * states() + state) * forms_.size() + f;
  }
  std::size_t states() const { return static_cast<std::size_t>(states_); }

  static std::uint64_t times_bounded(std::uint64_t a, std::uint64_t b) {
    return b > 0 && a > ~std::uint64_t{0} / b ? ~std::uint64_t{0} : a * b;
  }
  std::uint32_t classes() const { return static_cast<std::uint32_t>(on_.classes.size()); }
  class_costs const& of(std::uint32_t c) const { return on_.classes.of[c]; }
  form form_of(replicated_stage const& s) const { return {s.width, s.shards, on_.of(s)}; }
  bool is_counted(form f) const { return strides_[f.of] == 0; }
  /// Returns the state without the devices of a form, or nothing if it has too few.
  std::optional<std::size_t> without(std::size_t state, form f) const {
    if (is_counted(f)) return state;
    auto const left = state / strides_[f.of] % (of(f.of).count + std::size_t{1});
    if (left < f.devices()) return std::nullopt;
    return state - static_cast<std::size_t>(strides_[f.of]) * f.devices();
  }

  /// Returns the time in which the copies of a slice sum their gradients, once a step: each sends and
  /// receives all but its own share, twice.
  double sum_time(std::size_t begin, std::size_t end, form f) const {
    if (f.width == 1 || options_.summed == 0 || row_.resident.empty()) return 0;
    auto const bytes =
        options_.summed * static_cast<double>(row_.resident[end] - row_.resident[begin]) / f.shards;
    auto const& link = on_.classes.link(f.of, f.of);
    return 2 * ((f.width - 1.0) * link.latency + bytes * (f.width - 1.0) / f.width / link.bandwidth);
  }
  double load(std::size_t begin, std::size_t end, form f) const {
    auto const c = cost_(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end), f.shards, f.of);
    return (c.forward + c.backward) / f.width + sum_time(begin, end, f) / options_.microbatches;
  }
  /// Returns the load of a link between two stages: every pair of copies has one for its chains.
  double link_load(std::size_t place, form a, form b, std::uint32_t chains) const {
    return occupied_[(place * classes() + a.of) * classes() + b.of] / chains;
  }

  template <class Fits>
  std::vector<std::uint32_t> earliest_begins(form f, std::uint64_t kept, Fits fits) const {
    std::vector<std::uint32_t> made(row_.units() + 1);
    std::uint32_t begin = 0;
    for (std::uint32_t end = 1; end < made.size(); ++end) {
      while (begin < end &&
             !(fits(load(begin, end, f)) && needed(begin, end, f.shards, kept) <= of(f.of).memory))
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
            cost_(b, e, f.shards, f.of),
            sum_time(begin, end, f),
            needed(begin, end, f.shards, kept),
            end < row_.units() ? crossing_.at(end) : edge_bytes{},
            {}};
  }

  unit_row const& row_;
  replication_options const& options_;
  replication_devices const& on_;
  Cost const& cost_;
  crossing_costs crossing_;
  std::vector<form> forms_;
  std::vector<std::uint32_t> chains_;  // of each pair of forms
  std::vector<double> occupied_;  // by place and the classes of two stages: the time for a microbatch there
  std::vector<std::uint64_t> strides_;  // of each class in a state; 0 for the one that entries count
  std::uint64_t states_ = 1;
};

/// Finds placements and their bound, for `place_replicated`.
template <class Cost>
class replicator {
 public:
  replicator(placement_row const& row, replication_options const& o, replication_devices const& on,
             Cost const& cost)
      : options_(o), on_(on), table_(row, o, on, cost), units_(row.units.units()) {}

  replicated_placement run() {
    constexpr auto no_limit = std::numeric_limits<double>::infinity();
    auto const fewest = table_.find(no_limit, false, 1, 0);
    if (!fewest) throw_shortage();
    auto quickest = least_period(1, *fewest);
    bool const is_step = options_.goal == placement_goal::step;
    auto const bound = table_.period(quickest) * (is_step ? options_.microbatches : 1);
    // More stages keep more activations, and a plan for few of them may do with fewer stages.
    for (std::uint64_t count = 1;;) {
      auto const kept = kept_by(count);
      bool fit = offer(quickest);
      if (is_step)
        for (auto const slower : {1.0, 1.05, 1.1, 1.17, 1.25, 1.37, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 5.0})
          for (auto const price : {0.25, 1.0, 4.0, 16.0})
            if (auto const found = table_.find(slower * table_.period(quickest), false, kept, price))
              fit = offer(*found) && fit;
      count += (count + 3) / 4;
      if (fit || count > (std::min<std::uint64_t>)(units_, on_.count())) break;
      auto const any = table_.find(no_limit, false, kept_by(count), 0);
      if (!any) break;
      quickest = least_period(kept_by(count), *any);
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

  std::uint64_t kept_by(std::uint64_t count) const {
    return (std::min<std::uint64_t>)(options_.microbatches, count);
  }

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

  /// Keeps a placement if it is the best, and fits with what its schedule keeps. Returns whether it fits.
  bool offer(stages const& of) {
    replicated_placement p{.stages = of, .goal = options_.goal, .microbatches = options_.microbatches};
    auto const kept = kept_of(p);
    std::uint32_t devices = 0;
    for (std::size_t i = 0; i < p.stages.size(); ++i) {
      auto& s = p.stages[i];
      s.memory = table_.needed(s.begin, s.end, s.shards, kept[i]);
      if (s.memory > on_.classes.of[on_.of(s)].memory) return false;
      devices += s.width * s.shards;
    }
    p.unused = on_.count() - devices;
    p.period = table_.period(p.stages);
    if (best_ && options_.goal == placement_goal::throughput && best_->period <= p.period) return true;
    auto const times = simulate(schedule_of(p), on_.timing(p));
    for (std::size_t s = 0; s < p.stages.size(); ++s)
      for (std::uint32_t r = 0; r < p.stages[s].width; ++r)
        p.step = (std::max)(p.step, times.last[p.first_rank(s) + r] + p.stages[s].sum_time);
    if (!best_ || p.value() < best_->value()) best_ = p;
    return true;
  }

  [[noreturn]] void throw_shortage() const {
    throw infeasible_error(
        "place: some unit needs " + format_bytes(largest_unit()) +
        " on each device with one microbatch's activations, or all units together need more "
        "devices than " +
        std::to_string(on_.count()) + "; add devices or memory");
  }
  std::uint64_t largest_unit() const {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < units_; ++i)
      most = (std::max)(most, table_.needed(i, i + 1, (std::ranges::max)(options_.shards), 1));
    return most;
  }

  replication_options const& options_;
  replication_devices const& on_;
  replication_table<Cost> table_;
  std::size_t units_;
  std::optional<replicated_placement> best_;
};

/// Checks the options of `place_replicated`.
inline void require_replication(replication_options const& o) {
  if (o.goal == placement_goal::latency)
    throw error("place: copies of stages do not make one pass faster; choose throughput or step");
  if (!(o.summed >= 0 && o.summed <= 1)) throw error("place: the summed share must be from 0 to 1");
  if (o.shards.empty() || std::ranges::any_of(o.shards, [](auto n) { return n == 0; }))
    throw error("place: give at least one number of shards, each 1 or more");
}

/// Checks what is given to `place_replicated`, and returns the devices of its options.
inline replication_devices alike_devices(placement_row const& row, replication_options const& o) {
  require_placeable(row, {.devices = {o.device}, .links = {o.link}}, {.microbatches = o.microbatches});
  if (o.devices == 0 || o.devices > most_devices)
    throw error("place: " + std::to_string(o.devices) + " devices; give 1 to " +
                std::to_string(most_devices));
  require_replication(o);
  auto costs = costs_on(row, o.device);
  costs.count = o.devices;
  return {.classes = {{std::move(costs)}, {o.link}}};
}

/// Does the same for the devices of a network.
inline replication_devices devices_of(placement_row const& row, device_network const& net,
                                      replication_options const& o) {
  require_placeable(row, net, {.microbatches = o.microbatches});
  if (!net.uplinks.empty())
    throw error("place: stages with copies know no uplinks that devices share, such as that of '" +
                net.uplinks[0].name + "'; place without copies");
  require_replication(o);
  auto alike = classify(row, net);
  replication_devices made{std::move(alike.classes), std::move(alike.members),
                           std::vector<std::uint32_t>(net.devices.size()), &net};
  for (std::uint32_t c = 0; c < made.members.size(); ++c)
    for (auto const d : made.members[c]) made.class_of[d] = c;
  return made;
}

/// Places a row whose passes are each computed by one device.
inline replicated_placement replicate(placement_row const& row, replication_options o,
                                      replication_devices const& on) {
  o.shards = {1};
  auto const cost = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t, std::uint32_t of) {
    auto const& c = on.classes.of[of];
    auto const forward = c.forward[end] - c.forward[begin];
    return stage_cost{.forward = forward,
                      .backward = (std::max)(0.0, c.passes[end] - c.passes[begin] - forward),
                      .input_gradient = 0,
                      .weight_gradient = 0,
                      .recompute = 0};
  };
  return replicator<decltype(cost)>(row, o, on, cost).run();
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
  auto const on = detail::alike_devices(row, o);
  auto const same = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t shards, std::uint32_t) {
    return cost(begin, end, shards);
  };
  return detail::replicator<decltype(same)>(row, o, on, same).run();
}

/// Does the same for passes that one device computes.
inline replicated_placement place_replicated(placement_row const& row, replication_options const& o) {
  return detail::replicate(row, o, detail::alike_devices(row, o));
}

/// Does the same for devices that fall into few classes of speed, memory and links. All copies of a stage are
/// on devices of one class. The period is optimal for such stages in the order of the row, as above.
/// \throws error also if devices share uplinks, or if the classes, their devices and the widths are too many
inline replicated_placement place_replicated(placement_row const& row, device_network const& net,
                                             replication_options const& o) {
  return detail::replicate(row, o, detail::devices_of(row, net, o));
}

}  // namespace cleave
