// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/list/backward_choice.hpp"
#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/pass_timer.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// Options of `improve_passes`.
struct improve_options {
  std::uint64_t seed = 1;
  std::uint64_t effort = 10'000'000;  ///< number of passes timed, at 10 to 20 ns each
  backward_choice form = backward_choice::either;
  double slack =
      0.4;  ///< initial tolerance for a worse makespan, as a fraction of a mean pass; decreases over time
};

struct improved_lists {
  pass_lists lists;
  double makespan = no_end;
  std::uint64_t effort = 0;  ///< effort spent
};

/// Moves passes within the lists of their ranks, for `improve_passes`.
class pass_improver {
 public:
  pass_improver(placed_step const& step, pass_lists lists, improve_options const& options)
      : step_(step), options_(options), timer_(step), random_(options.seed), lists_(std::move(lists)) {
    value_ = time();
    best_ = lists_;
    best_value_ = value_;
    path_ = timer_.critical_passes(lists_);
  }

  /// Runs until the effort is spent or the makespan is at most `good_enough`.
  improved_lists run(double good_enough) {
    double const first_slack = options_.slack * mean_pass();
    while (!path_.empty() && best_value_ > good_enough && spent_ + 3 * count_ <= options_.effort) {
      double const share = static_cast<double>(spent_) / static_cast<double>(options_.effort);
      try_move(value_ + first_slack * (1 - share));
      if (share > restart_at_) restart();
    }
    return {std::move(best_), best_value_, spent_};
  }

 private:
  double time() {
    count_ = 1;
    for (auto const& list : lists_) count_ += list.size();
    spent_ += count_;
    return timer_.makespan(lists_);
  }

  double mean_pass() const {
    double sum = 0;
    for (auto const& list : lists_)
      for (auto const& p : list) sum += step_.stages[p.stage].cost.of(p.kind);
    return sum / static_cast<double>(count_);
  }

  /// Makes one random change at a pass on the critical path; keeps it if the makespan is at most `most`.
  void try_move(double most) {
    auto const at = path_[random_.below(path_.size())];
    auto& list = lists_[at.rank];
    auto const from = static_cast<std::ptrdiff_t>(at.position);
    auto const last = static_cast<std::ptrdiff_t>(list.size()) - 1;
    if (options_.form == backward_choice::either && list[at.position].kind == action_kind::backward &&
        random_.below(2) == 0)
      return try_halves(at, most);
    auto const distance = static_cast<std::ptrdiff_t>(random_.below(2) == 0 ? 1 : 1 + random_.below(8));
    auto const to =
        std::clamp<std::ptrdiff_t>(random_.below(3) == 0 ? from + distance : from - distance, 0, last);
    spent_ += 1;
    if (to == from || list[static_cast<std::size_t>(to)] == list[at.position]) return;
    move(list, from, to);
    if (!keep(at.rank, most)) move(list, to, from);
  }

  /// Splits B into I and W, so that gradients are sent earlier.
  void try_halves(pass_timer::place at, double most) {
    auto& list = lists_[at.rank];
    auto const here = list.begin() + static_cast<std::ptrdiff_t>(at.position);
    auto const stage = here->stage;
    here->kind = action_kind::input_gradient;
    list.insert(here + 1, {stage, action_kind::weight_gradient});
    if (keep(at.rank, most)) return;
    auto const again = list.begin() + static_cast<std::ptrdiff_t>(at.position);
    again->kind = action_kind::backward;
    list.erase(again + 1);
  }

  static void move(std::vector<listed_pass>& list, std::ptrdiff_t from, std::ptrdiff_t to) {
    auto const begin = list.begin();
    if (from < to)
      std::rotate(begin + from, begin + from + 1, begin + to + 1);
    else
      std::rotate(begin + to, begin + from, begin + from + 1);
  }

  bool keep(std::uint32_t rank, double most) {
    spent_ += lists_[rank].size() / 4;
    if (most_kept(step_, lists_[rank]) > step_.room(rank)) return false;
    auto const value = time();
    if (value > most) return false;
    value_ = value;
    path_ = timer_.critical_passes(lists_);
    if (value < best_value_) {
      best_value_ = value;
      best_ = lists_;
    }
    return true;
  }

  void restart() {
    restart_at_ += 0.25;
    lists_ = best_;
    value_ = time();
    path_ = timer_.critical_passes(lists_);
  }

  placed_step const& step_;
  improve_options const& options_;
  pass_timer timer_;
  splitmix random_;
  pass_lists lists_, best_;
  double value_ = no_end, best_value_ = no_end, restart_at_ = 0.5;
  std::vector<pass_timer::place> path_;
  std::uint64_t count_ = 0, spent_ = 0;
};

/// Improves lists by moving passes of the critical path, with threshold accepting: slightly worse lists are
/// accepted at first, and less and less so later. Dueck and Scheuer, J. Comput. Phys. 90 (1990). The
/// neighbourhood is that of job shops: van Laarhoven et al., Oper. Res. 40 (1992). The result is never worse
/// than `lists`, and fits into memory if they do. Equal seeds give equal results. O(effort). Precondition:
/// the lists can run.
inline improved_lists improve_passes(placed_step const& step, pass_lists lists,
                                     improve_options const& options = {}, double good_enough = 0) {
  return pass_improver(step, std::move(lists), options).run(good_enough);
}

}  // namespace cleave::detail
