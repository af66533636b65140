// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/run/gradients/gradient_reducer.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/wait_on_host.hpp"

namespace cleave::detail {

/// The gradients that count on a rank when a norm is taken: of a tie, those of its first copy alone.
inline std::vector<region> counted_gradients(std::span<gradients_of_stage const> stages,
                                             std::span<tie_set const> sets) {
  std::vector<stage_gradient> again;
  for (auto const& set : sets)
    for (auto const& t : set.ties) again.insert(again.end(), t.begin() + 1, t.end());
  std::ranges::sort(again);
  std::vector<region> counted;
  for (auto const& s : stages)
    for (std::uint32_t n = 0; n < s.regions.size(); ++n)
      if (!std::ranges::binary_search(again, stage_gradient{s.stage, n})) counted.push_back(s.regions[n]);
  return counted;
}

/// By what gradients of so large a norm are multiplied, so that it becomes `most` at most: 1 where it is no
/// larger. As PyTorch's clip_grad_norm_, without its 1e-6. Precondition: the norm is finite, `most` above 0.
inline double clip_factor(double norm, double most) { return norm > most ? most / norm : 1; }

/// What became of a step of the optimiser.
struct update_report {
  double norm = 0;       ///< of all gradients, ties counted once, before they were clipped
  bool applied = false;  ///< not where the norm is infinite or not a number: then nothing has changed

  bool operator==(update_report const&) const = default;
};

struct update_options {
  double most_norm = std::numeric_limits<double>::infinity();  ///< beyond which gradients are clipped
  double factor = 1;  ///< that gradients are multiplied by first: of a loss scale, or of accumulated steps
};

/// One rank's part in what all do between steps: to start with equal copies of what is tied, and to step the
/// optimiser. What it refers to must outlive it; the calls wait until they have ended.
template <measuring_device D, communicator<D> C, updated_stage<D> S>
class parameter_updater {
 public:
  /// `here` are the stages of this rank. Communicators as of `gradient_reducer`; `pipe` has all ranks that
  /// together have every stage once. `limit`: how long a call waits; none: whoever calls sees to that.
  parameter_updater(D& d, C& pipe, S& stages, std::vector<stage_id> here, std::vector<tie_set> sets,
                    std::vector<C*> tie_communicators, std::optional<std::chrono::milliseconds> limit = {})
      : device_(d),
        pipe_(pipe),
        stages_(stages),
        here_(std::move(here)),
        sets_(std::move(sets)),
        tie_communicators_(std::move(tie_communicators)),
        limit_(limit),
        ended_(d.make_event()),
        sum_(d.allocate(sizeof(double))),
        stream_(d.make_stream(0)) {}

  /// All copies of a tied parameter become the first, the copy of the lowest stage, bit by bit.
  /// \throws run_error
  void share_ties() {
    until_ = deadline_after(limit_);
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < sets_.size(); ++i)
      for (auto const& t : sets_[i].ties) share(t, tie_communicators_[i], number++);
  }

  /// A step of the optimiser on all ranks, or, where their gradients are not finite, on none.
  /// Precondition: the gradients have been summed, on all ranks; the options are the same on all.
  /// \throws run_error
  update_report update(update_options const& o) {
    until_ = deadline_after(limit_);
    std::vector<gradients_of_stage> own;
    for (auto const s : here_) {
      std::span<region const> const g = stages_.gradients(s);
      own.push_back({s, {g.begin(), g.end()}});
    }
    squares_ = device_.sum_of_squares(counted_gradients(own, sets_));
    sum_squares_over_ranks();
    update_report done{magnitude(o.factor) * square_root(squares_), false};
    if (!is_finite(done.norm)) return done;
    for (auto const s : here_) stages_.update(stream_, s, o.factor * clip_factor(done.norm, o.most_norm));
    wait();
    done.applied = true;
    return done;
  }

 private:
  void sum_squares_over_ranks() {
    if (pipe_.size() < 2) return;
    region const r{sum_.data(), 1, element_type::f64};
    device_.copy(stream_, r.data, &squares_, sizeof squares_);
    reduce(pipe_, r, 0);
    device_.copy(stream_, &squares_, r.data, sizeof squares_);
    wait();
  }

  /// Whoever has no first copy adds zeros to its bits.
  void share(tied_gradients const& t, C* others, std::uint32_t number) {
    std::vector<region> own;
    bool first_is_here = false;
    for (std::size_t n = 0; n < t.size(); ++n)
      for (auto const s : here_)
        if (s == t[n].stage) {
          own.push_back(stages_.parameters(s)[t[n].number]);
          first_is_here |= n == 0;
        }
    if (own.empty()) return;
    region const bits{own.front().data, own.front().bytes(), element_type::u8};
    if (!first_is_here) {
      zeros_.resize((std::max)(zeros_.size(), bits.bytes()));
      device_.copy(stream_, bits.data, zeros_.data(), bits.bytes());
    }
    if (others) reduce(*others, bits, number);
    for (std::size_t n = 1; n < own.size(); ++n) device_.copy(stream_, own[n].data, bits.data, bits.bytes());
    wait();
  }

  void reduce(C& with, region const& r, std::uint32_t number) {
    with.begin_group();
    with.all_reduce(r, reduce_op::sum, number, stream_);
    with.end_group(ended_, stream_);
    device_.wait(stream_, ended_);
  }

  void wait() {
    device_.record(ended_, stream_);
    auto const check = [&] {
      if (auto f = pipe_.poll()) throw run_error(std::move(*f));
    };
    if (!wait_on_host(device_, ended_, until_, check))
      throw run_error({.code = failure_code::timeout,
                       .detail = "it may take " + std::to_string(limit_->count()) + " ms",
                       .reporter = pipe_.rank(),
                       .operation = "update of parameters"});
  }

  D& device_;
  C& pipe_;
  S& stages_;
  std::vector<stage_id> here_;
  std::vector<tie_set> sets_;
  std::vector<C*> tie_communicators_;
  std::optional<std::chrono::milliseconds> limit_;
  std::chrono::steady_clock::time_point until_ = {};
  typename D::event ended_;
  typename D::buffer sum_;
  double squares_ = 0;
  std::vector<std::byte> zeros_;
  typename D::stream stream_;  // last: what it still does uses all else
};

}  // namespace cleave::detail
