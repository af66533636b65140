// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/place/detail/device_classes.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/place/replicated_placement.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/model/unit_row.hpp"

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

/// The largest numbers of microbatches in flight behind a place that a table tells apart: 0, `step`, 2 ·
/// `step`, … One alone tells none apart, and each copy counts as keeping one.
struct flight_levels {
  std::uint32_t count = 1, step = 1;

  bool are_counted() const { return count > 1; }
};

/// What a table takes each copy to keep: one microbatch, or what those in flight make it keep.
enum class counted_activations : std::uint8_t { one_microbatch, in_flight };

/// Whether a slice that contains another always takes at least as much of time and memory.
enum class slice_growth : std::uint8_t { monotone, any };

/// Returns a · b, or the largest number if it is more.
inline std::uint64_t product_or_most(std::uint64_t a, std::uint64_t b) {
  return b > 0 && a > ~std::uint64_t{0} / b ? ~std::uint64_t{0} : a * b;
}

/// Finds the widths and classes of stages by dynamic programming from the last stage to the first: for each
/// place, each form of the stage that begins there, each number of devices of all classes but one that are
/// used from there on, and each number of microbatches in flight, the least number of devices of that one
/// with which no load exceeds a limit and no memory that of its device. `cost(begin, end, form, class)`
/// returns what a slice takes. In the manner of Narayanan et al., PipeDream, SOSP 2019, and of Tarnawski et
/// al., Piper, NeurIPS 2021, whose table has the microbatches in flight.
template <class Cost>
class replication_table {
 public:
  replication_table(placement_row const& row, replication_options const& o, replication_devices const& on,
                    Cost const& cost, slice_growth growth, counted_activations counted,
                    std::uint64_t most_entries = 12'000'000)
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
      strides_[c] = uses_;
      uses_ = product_or_most(uses_, of(c).count + std::uint64_t{1});
    }
    auto const steps = product_or_most(uses_, product_or_most(forms_.size() * forms_.size(), row_.units()));
    if (classes() > 1 && steps > most_steps)
      throw error("place: devices of " + std::to_string(classes()) +
                  " kinds have too many forms of stages with copies; make more devices and links alike, or "
                  "place without copies");
    if (counted == counted_activations::in_flight) choose_levels(most_entries);
    list_keeping();
    if (growth == slice_growth::any) list_loads();
    for (auto const& f : forms_)
      for (auto const& g : forms_) chains_.push_back(std::lcm(f.width, g.width));
    for (std::size_t place = 0; place <= row_.units(); ++place)
      for (std::uint32_t a = 0; a < classes(); ++a)
        for (std::uint32_t b = 0; b < classes(); ++b)
          occupied_.push_back(crossing_.occupied(on_.classes.link(a, b), on_.classes.link(b, a), place));
  }

  /// Returns whether the table has all forms and counts exactly what copies keep.
  bool is_exact() const { return flights_.are_counted() && flights_.step == 1 && !is_thinned_; }

  /// Returns the stages of a placement whose loads are all at most `limit`, or below it if `is_strict`. Each
  /// stage is counted as `stage_price` devices more than it has. If all devices are alike, no placement with
  /// a smaller sum exists; otherwise one is found wherever there is one if the price is 0.
  /// O(units · forms² · states).
  std::optional<std::vector<replicated_stage>> find(double limit, bool is_strict, double stage_price) const {
    auto const fits = [&](double load) { return is_strict ? load < limit : load <= limit; };
    auto const all = filled(fits, stage_price);
    std::size_t state = 0, best = forms_.size();
    auto least = never;
    for (std::uint32_t level = 0; level < flights_.count; ++level)
      for (std::size_t f = 0; f < forms_.size(); ++f) {
        auto const from = (uses() - 1) * flights_.count + level;  // all devices
        if (auto const rest = without(from, f); rest && all.first[at(0, *rest, f)] < least) {
          least = all.first[at(0, *rest, f)];
          state = from;
          best = f;
        }
      }
    if (best == forms_.size()) return std::nullopt;
    std::vector<replicated_stage> made;
    std::vector<std::uint32_t> used(classes());
    for (std::size_t begin = 0; begin < row_.units();) {
      auto const& f = forms_[best];
      state = *without(state, best);
      auto const end = all.end[at(begin, state, best)];
      used[f.of] += f.devices();
      if (used[f.of] > of(f.of).count) return std::nullopt;
      made.push_back({.begin = static_cast<std::uint32_t>(begin),
                      .end = end,
                      .width = f.width,
                      .shards = f.shards,
                      .time = {},
                      .sent = end < row_.units() ? crossing_.at(end) : edge_bytes{}});
      for (auto d = used[f.of] - f.devices(); d < used[f.of] && !on_.members.empty(); ++d)
        made.back().devices.push_back(on_.members[f.of][d]);
      if (end < row_.units()) best = all.next[at(end, state, best)];
      begin = end;
    }
    for (auto& s : made) set_kept(s, 1);
    if (flights_.are_counted()) settle(made);
    return made;
  }

  /// Sets what each copy keeps by the rule of the options, and what the stages take with that.
  void settle(std::vector<replicated_stage>& stages) const {
    auto const kept = kept_by(options_.kept, stages, options_.microbatches);
    for (std::size_t s = 0; s < stages.size(); ++s)
      if (stages[s].kept != kept[s]) set_kept(stages[s], kept[s]);
  }

  /// Returns the largest load of a device or a link.
  double period(std::vector<replicated_stage> const& stages) const {
    double worst = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      auto const f = form_of(stages[s]);
      worst = (std::max)(worst, load(cost(stages[s].begin, stages[s].end, f, stages[s].kept), f));
      if (s == 0) continue;
      auto const before = form_of(stages[s - 1]);
      worst = (std::max)(worst, link_load(stages[s].begin, before, f, std::lcm(before.width, f.width)));
    }
    return worst;
  }

  /// Returns the bytes of a device for a slice, with the activations of one microbatch.
  std::uint64_t least_memory(std::uint32_t begin, std::uint32_t end, std::uint32_t shards) const {
    return cost(begin, end, {1, shards, 0}, 1).memory;
  }

 private:
  struct form {
    std::uint32_t width, shards, of;  ///< of: the class of its devices
    std::uint32_t devices() const { return width * shards; }
  };
  /// What decides which slices fit.
  struct keeping_form {
    form of;
    std::uint32_t kept;
  };
  /// The table, by place, by the state that is left for the stages behind and by the form of a stage: of the
  /// one that begins there or, in `behind` and `next`, of the one that ends there. A state is the devices of
  /// all classes but one, and the level of microbatches in flight.
  struct entries {
    std::vector<double> first, behind;     // devices of a stage and of all behind it; of those alone
    std::vector<std::uint32_t> end, next;  // where the stage ends; the form of the one behind it
  };
  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr std::uint64_t most_steps = 20'000'000, most_loads = 20'000'000;
  static constexpr std::uint32_t no_level = none<std::uint32_t>, no_end = none<std::uint32_t>;

  /// The ends of slices that fit from a place on, of which those are left out that cost no less than one that
  /// is nearer. Right for slices that fit only if all slices in them do.
  class window {
   public:
    /// Adds the end behind a place, drops those that do not fit with it, and returns the best one left.
    template <class Key>
    std::uint32_t best_end(std::size_t begin, std::vector<std::uint32_t> const& earliest, Key key) {
      while (ends_.size() > front_ && key(ends_.back()) >= key(begin + 1)) ends_.pop_back();
      ends_.push_back(static_cast<std::uint32_t>(begin + 1));
      while (front_ < ends_.size() && earliest[ends_[front_]] > begin) ++front_;
      return front_ == ends_.size() ? no_end : ends_[front_];
    }

   private:
    std::vector<std::uint32_t> ends_;
    std::size_t front_ = 0;
  };

  /// Chooses levels one apart. If the table would be too large, it first leaves out widths that are close to
  /// a smaller one, and then chooses levels farther apart.
  void choose_levels(std::uint64_t most_entries) {
    std::uint64_t copies = 0;
    for (auto const& f : forms_) copies = (std::max<std::uint64_t>)(copies, on_.count() / f.shards);
    std::uint64_t step = 1;
    auto const count = [&] { return 2 * copies / step + 2; };  // whole rounds are less than twice the copies
    auto const is_too_large = [&] {
      auto const others = product_or_most(uses_, forms_.size() * (row_.units() + 1));
      return product_or_most(count(), others) > most_entries;
    };
    for (auto const ratio : {1.1, 1.2, 1.4, 2.0})
      if (is_too_large()) leave_out_widths(ratio);
    while (step <= copies && is_too_large()) step *= 2;
    flights_ = {static_cast<std::uint32_t>(count()), static_cast<std::uint32_t>(step)};
  }
  /// Leaves out widths that are less than `ratio` times the next smaller one of the same shards and class.
  void leave_out_widths(double ratio) {
    std::vector<form> kept;
    for (auto const& f : forms_)
      if (kept.empty() || f.width == 1 || f.width >= ratio * kept.back().width) kept.push_back(f);
    is_thinned_ = is_thinned_ || kept.size() < forms_.size();
    forms_ = std::move(kept);
  }

  /// Lists, for each form and each level of the stages behind it, the microbatches that it keeps; and for
  /// each level with it, the highest that this leaves for the stages behind.
  void list_keeping() {
    auto const rounds = options_.kept == kept_microbatches::whole_rounds;
    for (auto const& f : forms_)
      for (std::uint32_t level = 0; level < flights_.count; ++level) {
        if (!flights_.are_counted()) {
          kept_.push_back(1);
          left_.push_back(0);
          continue;
        }
        auto const flying = level * flights_.step;
        kept_.push_back((std::min)(options_.microbatches / f.width, 1 + (flying + f.width - 1) / f.width));
        auto const left = rounds ? flying / f.width * f.width : flying;
        left_.push_back(left < f.width ? no_level : (left - f.width) / flights_.step);
      }
    keeping_of_.resize(kept_.size());
    for (std::size_t i = 0; i < kept_.size(); ++i) {  // of a form, what is kept does not fall
      auto const f = i / flights_.count;
      if (i % flights_.count == 0 || kept_[i] != kept_[i - 1]) keeping_.push_back({forms_[f], kept_[i]});
      keeping_of_[i % flights_.count * forms_.size() + f] = static_cast<std::uint32_t>(keeping_.size() - 1);
    }
  }

  /// Lists the loads of all slices by what decides whether they fit, beginning and end, unless they are too
  /// many; infinite where memory is short.
  void list_loads() {
    auto const n = static_cast<std::uint32_t>(row_.units());
    if (product_or_most(keeping_.size(), std::uint64_t{n} * n) > most_loads) return;
    loads_.assign(keeping_.size() * n * n, never);
    for (std::size_t k = 0; k < keeping_.size(); ++k) {
      auto const& f = keeping_[k].of;
      bool const keeps_more =
          k > 0 && keeping_[k].kept > keeping_[k - 1].kept;  // than the one before, of the same form
      for (std::uint32_t begin = 0; begin < n; ++begin)
        for (auto end = begin + 1; end <= n; ++end) {
          auto const at = (k * n + begin) * n + end - 1;
          if (keeps_more && !(loads_[at - std::size_t{n} * n] < never)) continue;
          auto const c = cost(begin, end, f, keeping_[k].kept);
          if (c.memory <= of(f.of).memory) loads_[at] = load(c, f);
        }
    }
  }

  template <class Fits>
  entries filled(Fits fits, double stage_price) const {
    auto const n = row_.units(), forms = forms_.size(), width = states() * forms, size = (n + 1) * width;
    entries all{std::vector<double>(size, never), std::vector<double>(size, never),
                std::vector<std::uint32_t>(size), std::vector<std::uint32_t>(size)};
    for (std::size_t i = n * width; i < size; ++i) all.behind[i] = 0;
    std::vector<char> is_joined(forms * forms);  // at a place: of the form behind it, and the one before
    std::vector<window> windows(loads_.empty() ? width : 0);
    std::vector<std::vector<std::uint32_t>> earliest;
    for (auto const& k : keeping_)
      if (loads_.empty()) earliest.push_back(earliest_begins(k.of, k.kept, fits));
    // All go on in step, since each place needs what is behind it in every form and state.
    for (auto begin = n; begin-- > 0;) {
      auto* const first = &all.first[begin * width];
      auto* const ends = &all.end[begin * width];
      if (loads_.empty())
        for (std::size_t i = 0; i < width; ++i) {
          auto const key = [&](std::size_t place) { return all.behind[place * width + i]; };
          auto const end = windows[i].best_end(begin, earliest[keeping_at(i)], key);
          if (end == no_end) continue;
          ends[i] = end;
          first[i] = key(end);
        }
      else
        for (auto end = n; end > begin; --end)
          offer_end(first, ends, &all.behind[end * width], begin, end, fits);
      for (std::size_t i = 0; i < width; ++i) {
        auto const& f = forms_[i % forms];
        first[i] += stage_price + (is_counted(f) || stage_price > 0 ? f.devices() : 0);
      }
      if (begin > 0) join(all, begin, fits, is_joined);
    }
    return all;
  }

  /// Takes an end for the stages that begin at a place, wherever the slice fits and what is behind it is
  /// less.
  template <class Fits>
  void offer_end(double* first, std::uint32_t* ends, double const* behind, std::size_t begin, std::size_t end,
                 Fits fits) const {
    auto const n = row_.units();
    std::vector<char> is_allowed(keeping_.size());
    bool is_any = false;
    for (std::size_t k = 0; k < keeping_.size(); ++k) {
      auto const all = loads_[(k * n + begin) * n + end - 1];
      is_allowed[k] = all < never && fits(all) ? 1 : 0;
      is_any = is_any || is_allowed[k] != 0;
    }
    if (!is_any) return;
    for (std::size_t i = 0; i < states() * forms_.size();)
      for (auto const k : keeping_of_) {
        if (behind[i] < first[i] && is_allowed[k] != 0) {
          first[i] = behind[i];
          ends[i] = static_cast<std::uint32_t>(end);
        }
        ++i;
      }
  }

  /// Fills `behind` and `next` at a place from the stages that begin there.
  template <class Fits>
  void join(entries& all, std::size_t place, Fits fits, std::vector<char>& is_joined) const {
    auto const forms = forms_.size();
    bool are_all_joined = true;
    for (std::size_t g = 0; g < forms; ++g)
      for (std::size_t f = 0; f < forms; ++f) {
        bool const is = fits(link_load(place, forms_[f], forms_[g], chains_[g * forms + f]));
        is_joined[g * forms + f] = is ? 1 : 0;
        are_all_joined = are_all_joined && is;
      }
    for (std::size_t state = 0; state < states(); ++state) {
      auto* const behind = &all.behind[at(place, state, 0)];
      auto* const next = &all.next[at(place, state, 0)];
      for (std::size_t g = 0; g < forms; ++g) {
        auto const rest = without(state, g);
        auto const value = rest ? all.first[at(place, *rest, g)] : never;
        if (value == never) continue;
        auto const last = are_all_joined ? std::size_t{1} : forms;  // what holds for one form holds for all
        for (std::size_t f = 0; f < last; ++f)
          if (value < behind[f] && is_joined[g * forms + f]) {
            behind[f] = value;
            next[f] = static_cast<std::uint32_t>(g);
          }
      }
      if (!are_all_joined) continue;
      std::fill(behind + 1, behind + forms, behind[0]);
      std::fill(next + 1, next + forms, next[0]);
    }
  }
  std::size_t at(std::size_t place, std::size_t state, std::size_t f) const {
    return (place * states() + state) * forms_.size() + f;
  }
  /// Returns what decides whether the slices of an entry of a place fit.
  std::size_t keeping_at(std::size_t i) const { return keeping_of_[i % keeping_of_.size()]; }
  std::size_t uses() const { return static_cast<std::size_t>(uses_); }
  std::size_t states() const { return uses() * flights_.count; }

  std::uint32_t classes() const { return static_cast<std::uint32_t>(on_.classes.size()); }
  class_costs const& of(std::uint32_t c) const { return on_.classes.of[c]; }
  form form_of(replicated_stage const& s) const { return {s.width, s.shards, on_.of(s)}; }
  bool is_counted(form f) const { return strides_[f.of] == 0; }
  /// Returns the state without a stage of a form, or nothing if it has too few devices or microbatches.
  std::optional<std::size_t> without(std::size_t state, std::size_t f) const {
    auto use = state / flights_.count;
    auto const level = left_[f * flights_.count + state % flights_.count];
    if (level == no_level) return std::nullopt;
    if (auto const& stage = forms_[f]; !is_counted(stage)) {
      auto const left = use / strides_[stage.of] % (of(stage.of).count + std::size_t{1});
      if (left < stage.devices()) return std::nullopt;
      use -= static_cast<std::size_t>(strides_[stage.of]) * stage.devices();
    }
    return use * flights_.count + level;
  }

  slice_cost cost(std::size_t begin, std::size_t end, form f, std::uint32_t kept) const {
    return cost_(static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end),
                 stage_form{f.width, f.shards, kept}, f.of);
  }
  double load(slice_cost const& c, form f) const {
    return (c.time.forward + c.time.backward) / f.width + c.sum_time / options_.microbatches;
  }
  /// Returns the load of a link between two stages: every pair of copies has one for its chains.
  double link_load(std::size_t place, form a, form b, std::uint32_t chains) const {
    return occupied_[(place * classes() + a.of) * classes() + b.of] / chains;
  }

  template <class Fits>
  std::vector<std::uint32_t> earliest_begins(form f, std::uint32_t kept, Fits fits) const {
    std::vector<std::uint32_t> made(row_.units() + 1);
    auto const is_allowed = [&](std::uint32_t begin, std::uint32_t end) {
      auto const c = cost(begin, end, f, kept);
      auto const all = load(c, f);
      return all < never && fits(all) && c.memory <= of(f.of).memory;
    };
    std::uint32_t begin = 0;
    for (std::uint32_t end = 1; end < made.size(); ++end) {
      while (begin < end && !is_allowed(begin, end)) ++begin;
      made[end] = begin;
    }
    return made;
  }

  void set_kept(replicated_stage& s, std::uint32_t kept) const {
    auto const c = cost(s.begin, s.end, form_of(s), kept);
    s.kept = kept;
    s.time = c.time;
    s.sum_time = c.sum_time;
    s.memory = c.memory;
  }

  unit_row const& row_;
  replication_options const& options_;
  replication_devices const& on_;
  Cost const& cost_;
  crossing_costs crossing_;
  flight_levels flights_;
  bool is_thinned_ = false;
  std::vector<form> forms_;
  std::vector<std::uint32_t> kept_, left_;  // by form and level
  std::vector<keeping_form> keeping_;
  std::vector<std::uint32_t> keeping_of_;  // by level and form
  std::vector<double> loads_;          // by `keeping_`, beginning and end; empty where slices are monotone
  std::vector<std::uint32_t> chains_;  // of each pair of forms
  std::vector<double> occupied_;  // by place and the classes of two stages: the time for a microbatch there
  std::vector<std::uint64_t> strides_;  // of each class in a state; 0 for the one that entries count
  std::uint64_t uses_ = 1;
};

}  // namespace cleave::detail
