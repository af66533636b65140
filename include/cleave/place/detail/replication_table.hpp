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

/// How a table counts the microbatches that each copy keeps: as one, or by those in flight behind its stage.
enum class kept_counting : std::uint8_t { one, in_flight };

/// Whether a slice takes at least the time and the memory of each slice inside it.
enum class slice_growth : std::uint8_t { monotone, any };

/// Finds stages, their widths and the classes of their devices by dynamic programming, from the last stage to
/// the first. An entry of the table is the least number of devices of the largest class with which no load
/// exceeds a limit, and no stage the memory of its devices. There is one for each place in the row, form of
/// the stage that begins there, number of devices of each other class, and cap on the microbatches in
/// flight. `cost(begin, end, form, class)` returns what a slice takes.
///
/// After Narayanan et al., PipeDream, SOSP 2019; the caps on microbatches in flight after Tarnawski et al.,
/// Piper, NeurIPS 2021.
template <class Cost>
class replication_table {
 public:
  replication_table(placement_row const& row, replication_options const& o, replication_devices const& on,
                    Cost const& cost, slice_growth growth, kept_counting counting,
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
      strides_[c] = device_states_;
      device_states_ = bounded_product(device_states_, of(c).count + std::uint64_t{1});
    }
    auto const steps =
        bounded_product(device_states_, bounded_product(forms_.size() * forms_.size(), row_.units()));
    if (classes() > 1 && steps > most_steps)
      throw error("place: devices of " + std::to_string(classes()) +
                  " kinds have too many forms of stages with copies; make more devices and links alike, or "
                  "place without copies");
    if (counting == kept_counting::in_flight) choose_caps(most_entries);
    list_kept_forms();
    if (growth == slice_growth::any) list_loads();
    for (auto const& f : forms_)
      for (auto const& g : forms_) chains_.push_back(std::lcm(f.width, g.width));
    for (std::size_t place = 0; place <= row_.units(); ++place)
      for (std::uint32_t a = 0; a < classes(); ++a)
        for (std::uint32_t b = 0; b < classes(); ++b)
          occupied_.push_back(crossing_.occupied(on_.classes.link(a, b), on_.classes.link(b, a), place));
  }

  /// Returns whether the table has all forms of stages and counts exactly what their copies keep.
  bool is_exact() const { return has_caps() && cap_step_ == 1 && has_all_forms_; }

  /// Returns the stages of a placement whose loads are all at most `limit`, or below it if `is_strict`. Each
  /// stage is counted as `stage_price` devices more than it has. If all devices are alike, no placement with
  /// a smaller sum exists; otherwise one is found wherever there is one if the price is 0.
  /// O(units · forms² · states).
  std::optional<std::vector<replicated_stage>> find(double limit, bool is_strict, double stage_price) const {
    auto const fits = [&](double load) { return is_strict ? load < limit : load <= limit; };
    auto const all = filled(fits, stage_price);
    std::size_t state = 0, best = forms_.size();
    auto least = never;
    for (auto from = states() - caps_; from < states(); ++from)  // all devices, and any cap
      for (std::size_t f = 0; f < forms_.size(); ++f)
        if (auto const rest = without(from, f); rest && all.first[at(0, *rest, f)] < least) {
          least = all.first[at(0, *rest, f)];
          state = from;
          best = f;
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
    if (has_caps()) settle(made);
    return made;
  }

  /// Sets what each copy keeps, by the rule of the options, and what the stages then take.
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

  /// Returns the bytes that a slice takes on each device if it keeps one microbatch.
  std::uint64_t least_memory(std::uint32_t begin, std::uint32_t end, std::uint32_t shards) const {
    return cost(begin, end, {1, shards, 0}, 1).memory;
  }

 private:
  struct form {
    std::uint32_t width, shards, of;  ///< of: the class of its devices
    std::uint32_t devices() const { return width * shards; }
  };
  /// A form whose copies keep a number of microbatches. Whether a slice fits depends on nothing else.
  struct kept_form {
    form of;
    std::uint32_t kept;
  };
  /// The table, by place, by state and by the form of a stage: of the one that begins at the place or, in
  /// `behind` and `next`, of the one that ends there. A state is what is left for the stages behind: devices
  /// of all classes but the largest, and a cap on microbatches in flight.
  struct entries {
    std::vector<double> first, behind;     // devices of a stage and of all behind it; of those alone
    std::vector<std::uint32_t> end, next;  // where the stage ends; the form of the one behind it
  };
  static constexpr double never = std::numeric_limits<double>::infinity();
  static constexpr std::uint64_t most_steps = 20'000'000, most_loads = 20'000'000;
  static constexpr std::uint32_t no_cap = none<std::uint32_t>, no_end = none<std::uint32_t>;

  /// A sliding window over the ends of slices, which has the end with the least key first. Slices must be
  /// monotone.
  class end_window {
   public:
    /// Adds the end behind a place, removes ends of slices that do not fit from this place on, and returns
    /// the best of those left.
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

  bool has_caps() const { return caps_ > 1; }

  /// Chooses caps one apart. If the table would be too large, it first leaves out widths that are close to
  /// a smaller one, and then chooses caps farther apart, which are rounded down.
  void choose_caps(std::uint64_t most_entries) {
    std::uint64_t copies = 0;
    for (auto const& f : forms_) copies = (std::max<std::uint64_t>)(copies, on_.count() / f.shards);
    // Whole rounds of all stages are fewer than twice the copies.
    auto const count = [&] { return 2 * copies / cap_step_ + 2; };
    auto const is_too_large = [&] {
      auto const others = bounded_product(device_states_, forms_.size() * (row_.units() + 1));
      return bounded_product(count(), others) > most_entries;
    };
    for (auto const ratio : {1.1, 1.2, 1.4, 2.0})
      if (is_too_large()) leave_out_widths(ratio);
    while (cap_step_ <= copies && is_too_large()) cap_step_ *= 2;
    caps_ = static_cast<std::uint32_t>(count());
  }
  /// Leaves out widths that are less than `ratio` times the next smaller one of the same shards and class.
  void leave_out_widths(double ratio) {
    std::vector<form> made;
    for (auto const& f : forms_)
      if (made.empty() || f.width == 1 || f.width >= ratio * made.back().width) made.push_back(f);
    has_all_forms_ = has_all_forms_ && made.size() == forms_.size();
    forms_ = std::move(made);
  }

  /// Lists, for each form and each cap of the stages behind it, the microbatches that its copies keep; and
  /// for each cap of the stages from it on, the largest that is left for those behind it.
  void list_kept_forms() {
    kept_form_of_.resize(caps_ * forms_.size());
    bool const rounds_up = options_.kept == kept_microbatches::whole_rounds;
    for (std::uint32_t f = 0; f < forms_.size(); ++f)
      for (std::uint32_t cap = 0; cap < caps_; ++cap) {
        auto const width = forms_[f].width, in_flight = cap * cap_step_;
        auto const kept =
            has_caps() ? (std::min)(options_.microbatches / width, 1 + (in_flight + width - 1) / width) : 1;
        if (cap == 0 || kept != kept_forms_.back().kept) kept_forms_.push_back({forms_[f], kept});
        kept_form_of_[cap * forms_.size() + f] = static_cast<std::uint32_t>(kept_forms_.size() - 1);
        auto const usable = rounds_up ? in_flight / width * width : in_flight;
        left_.push_back(!has_caps() ? 0 : usable < width ? no_cap : (usable - width) / cap_step_);
      }
  }

  /// Lists the loads of all slices by kept form, beginning and end, infinite where memory is short; but none
  /// if they are too many.
  void list_loads() {
    auto const n = static_cast<std::uint32_t>(row_.units());
    if (bounded_product(kept_forms_.size(), std::uint64_t{n} * n) > most_loads) return;
    loads_.assign(kept_forms_.size() * n * n, never);
    for (std::size_t k = 0; k < kept_forms_.size(); ++k) {
      auto const& [f, kept] = kept_forms_[k];
      bool const keeps_more = kept > 1;  // than the one before, of the same form
      for (std::uint32_t begin = 0; begin < n; ++begin)
        for (auto end = begin + 1; end <= n; ++end) {
          if (keeps_more && !(loads_[load_at(k - 1, begin, end)] < never)) continue;
          auto const c = cost(begin, end, f, kept);
          if (c.memory <= of(f.of).memory) loads_[load_at(k, begin, end)] = load(c, f);
        }
    }
  }
  std::size_t load_at(std::size_t k, std::size_t begin, std::size_t end) const {
    return (k * row_.units() + begin) * row_.units() + end - 1;
  }

  /// Returns the table for the loads that fit.
  template <class Fits>
  entries filled(Fits fits, double stage_price) const {
    auto const n = row_.units(), forms = forms_.size(), width = states() * forms, size = (n + 1) * width;
    entries all{std::vector<double>(size, never), std::vector<double>(size, never),
                std::vector<std::uint32_t>(size), std::vector<std::uint32_t>(size)};
    for (std::size_t i = n * width; i < size; ++i) all.behind[i] = 0;
    std::vector<char> is_joined(forms * forms);  // at a place: of the form behind it, and the one before
    std::vector<end_window> windows(loads_.empty() ? width : 0);
    std::vector<std::vector<std::uint32_t>> earliest;
    for (auto const& k : kept_forms_)
      if (loads_.empty()) earliest.push_back(earliest_begins(k.of, k.kept, fits));
    // All go on in step, since each place needs what is behind it in every form and state.
    for (auto begin = n; begin-- > 0;) {
      auto* const first = &all.first[begin * width];
      auto* const ends = &all.end[begin * width];
      if (loads_.empty())
        for (std::size_t i = 0; i < width; ++i) {
          auto const key = [&](std::size_t place) { return all.behind[place * width + i]; };
          auto const end = windows[i].best_end(begin, earliest[kept_form_of_[i % kept_form_of_.size()]], key);
          if (end == no_end) continue;
          ends[i] = end;
          first[i] = key(end);
        }
      else
        for (auto end = n; end > begin; --end)
          take_end(first, ends, &all.behind[end * width], begin, end, fits);
      for (std::size_t i = 0; i < width; ++i) {
        auto const& f = forms_[i % forms];
        first[i] += stage_price + (is_counted(f) || stage_price > 0 ? f.devices() : 0);
      }
      if (begin > 0) join(all, begin, fits, is_joined);
    }
    return all;
  }

  /// Takes an end for the stages that begin at a place, wherever the slice fits and fewer devices follow it.
  template <class Fits>
  void take_end(double* first, std::uint32_t* ends, double const* behind, std::size_t begin, std::size_t end,
                Fits fits) const {
    std::vector<char> does_fit(kept_forms_.size());
    for (std::size_t k = 0; k < kept_forms_.size(); ++k) {
      auto const load = loads_[load_at(k, begin, end)];
      does_fit[k] = load < never && fits(load) ? 1 : 0;
    }
    if (std::ranges::find(does_fit, 1) == does_fit.end()) return;
    for (std::size_t i = 0; i < states() * forms_.size();)
      for (auto const k : kept_form_of_) {
        if (behind[i] < first[i] && does_fit[k] != 0) {
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
  std::size_t states() const { return static_cast<std::size_t>(device_states_) * caps_; }

  std::uint32_t classes() const { return static_cast<std::uint32_t>(on_.classes.size()); }
  class_costs const& of(std::uint32_t c) const { return on_.classes.of[c]; }
  form form_of(replicated_stage const& s) const { return {s.width, s.shards, on_.of(s)}; }
  bool is_counted(form f) const { return strides_[f.of] == 0; }
  /// Returns the state without a stage of a form, or nothing if it has too few devices or microbatches.
  std::optional<std::size_t> without(std::size_t state, std::size_t f) const {
    auto const left = left_[f * caps_ + state % caps_];
    if (left == no_cap) return std::nullopt;
    auto const& stage = forms_[f];
    auto devices = state / caps_;
    if (!is_counted(stage)) {
      auto const stride = static_cast<std::size_t>(strides_[stage.of]);
      if (devices / stride % (of(stage.of).count + std::size_t{1}) < stage.devices()) return std::nullopt;
      devices -= stride * stage.devices();
    }
    return devices * caps_ + left;
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
  std::uint32_t caps_ = 1;  // of microbatches in flight: 0, cap_step_, …; one alone: not told apart
  std::uint32_t cap_step_ = 1;
  bool has_all_forms_ = true;
  std::vector<form> forms_;
  std::vector<std::uint32_t> left_;          // by form and cap
  std::vector<kept_form> kept_forms_;        // of each form together, those that keep more behind
  std::vector<std::uint32_t> kept_form_of_;  // by cap and form
  std::vector<double> loads_;                // by kept form, beginning and end; empty if slices are monotone
  std::vector<std::uint32_t> chains_;        // of each pair of forms
  std::vector<double> occupied_;  // by place and the classes of two stages: the time for a microbatch there
  std::vector<std::uint64_t> strides_;  // of each class in a state; 0 for the one that entries count
  std::uint64_t device_states_ = 1;
};

}  // namespace cleave::detail
