// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/run/executor/detail/executor.hpp"
#include "cleave/run/gradients/gradient_buckets.hpp"
#include "cleave/run/gradients/gradient_reducer.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_group.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"

namespace cleave::testing {

using namespace detail;

struct rank_threads_options {
  executor_options executor = {};
  std::uint32_t replicas = 1;
  std::vector<tied_gradients> ties = {};
  std::vector<gradient_bucket> buckets = {};
  std::size_t bucket_bytes = 64;
};

/// Runs the ranks of a step plan as threads of this process, on any device and communicator. Each step starts
/// new threads.
template <class Device, class Communicator, class Stages>
class rank_threads {
 public:
  /// `stages` has one entry per rank, those of the first replica first. `make_device(to, ranks, rank)` and
  /// `make_communicator(to, group, member, device)` append the device or communicator of a rank to `to`.
  template <class MakeDevice, class MakeCommunicator>
  rank_threads(step_plan const& p, std::vector<Stages> stages, MakeDevice make_device,
               MakeCommunicator make_communicator, rank_threads_options const& options = {})
      : in_each_(static_cast<std::uint32_t>(p.order().ranks.size())),
        ranks_(in_each_ * options.replicas),
        stages_(std::move(stages)) {
    auto const sets = tie_sets_of(options.ties);
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) make_device(devices_, ranks_, rank_id{r});
    std::vector<Communicator*> pipes(ranks_.count()), replicas(ranks_.count());
    std::vector<std::vector<Communicator*>> ties(ranks_.count(), std::vector<Communicator*>(sets.size()));
    auto const join = [&](std::vector<rank_id> const& members, auto take) {
      auto& group = groups_.emplace_back(ranks_, members);
      for (std::uint32_t m = 0; m < members.size(); ++m) {
        make_communicator(communicators_, group, m, devices_[index(members[m])]);
        take(index(members[m]), &communicators_.back());
      }
    };
    for (std::uint32_t d = 0; d < options.replicas; ++d) {
      join(ranks_from(d * in_each_, 1, in_each_), [&](std::uint32_t r, Communicator* c) { pipes[r] = c; });
      for (std::size_t i = 0; i < sets.size(); ++i) {
        auto members = ranks_of(sets[i], p.order().place.rank_of);
        for (auto& m : members) m = rank_id{d * in_each_ + index(m)};
        if (members.size() > 1) join(members, [&](std::uint32_t r, Communicator* c) { ties[r][i] = c; });
      }
    }
    for (std::uint32_t r = 0; r < in_each_ && options.replicas > 1; ++r)
      join(ranks_from(r, in_each_, options.replicas),
           [&](std::uint32_t k, Communicator* c) { replicas[k] = c; });
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) {
      std::vector<gradients_of_stage> own;
      for (std::uint32_t s = 0; s < p.order().place.stages(); ++s)
        if (index(p.rank_of(stage_id{s})) == r % in_each_) {
          std::span<region const> const g = stages_[r].gradients(stage_id{s});
          own.push_back({stage_id{s}, {g.begin(), g.end()}});
        }
      reducers_.emplace_back(devices_[r], own, replicas[r], sets, ties[r],
                             bucket_rules{options.buckets, options.bucket_bytes});
      executors_.push_back(std::make_unique<rank_executor>(
          devices_[r], *pipes[r], ranks_, stages_[r], make_rank_program(p, rank_id{r % in_each_}),
          options.executor, options.replicas > 1 || !sets.empty() ? &reducers_.back() : nullptr));
    }
  }
  ~rank_threads() { close_streams(); }

  /// Returns the first failure, if any.
  std::optional<failure> run_step(step_values const& values) { return run_step(std::vector{values}); }
  /// Runs a step with separate values for each replica.
  std::optional<failure> run_step(std::vector<step_values> const& values) {
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks_.count(); ++r)
      threads.emplace_back([this, r, &values] {
        try {
          executors_[r]->run_step(values[r / in_each_]);
        } catch (run_error const& e) {
          ranks_.publish(e.info);
        }
      });
    for (auto& t : threads) t.join();
    if (ranks_.failed()) close_streams();
    return ranks_.poll();
  }

  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number) const {
    for (auto const& e : executors_)
      if (auto const v = e->result(m, number)) return v;
    return std::nullopt;
  }
  std::optional<tensor_view> result_of(rank_id r, microbatch_id m, std::uint32_t number) const {
    return executors_[index(r)]->result(m, number);
  }
  Stages& stages_of(rank_id r) { return stages_[index(r)]; }
  host_ranks& ranks() { return ranks_; }
  Device& device_of(rank_id r) { return devices_[index(r)]; }

 private:
  using rank_executor = executor<Device, Communicator, host_ranks, Stages>;

  static std::vector<rank_id> ranks_from(std::uint32_t first, std::uint32_t step, std::uint32_t count) {
    std::vector<rank_id> all;
    for (std::uint32_t i = 0; i < count; ++i) all.push_back(rank_id{first + i * step});
    return all;
  }
  void close_streams() {
    if constexpr (requires(Device& d) { d.close_streams(); })
      for (auto& d : devices_) d.close_streams();
  }

  std::uint32_t in_each_;
  host_ranks ranks_;
  std::deque<host_group> groups_;
  std::vector<Stages> stages_;
  std::deque<Device> devices_;
  std::deque<Communicator> communicators_;
  std::deque<gradient_reducer<Device, Communicator>> reducers_;
  std::vector<std::unique_ptr<rank_executor>> executors_;
};

/// Stages that compute as they are called, issued to a stream that is a thread.
template <class Stages>
class issued_stages {
 public:
  explicit issued_stages(Stages s) : stages_(std::make_unique<Stages>(std::move(s))) {}

  template <class Stream>
  void forward(Stream& s, stage_pass const& p, std::span<tensor_view const> in, std::span<tensor_view> out) {
    s.call([st = stages_.get(), p, in = list(in), out = list(out)]() mutable {
      st->forward(inline_stream(), p, in, out);
    });
  }
  template <class Stream>
  void backward(Stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    s.call([st = stages_.get(), later = without_reports(p), gradients = list(gradients), in = list(in)] {
      st->backward(inline_stream(), later, gradients, in);
    });
    report_all(p);
  }
  template <class Stream>
  void backward_input(Stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    s.call([st = stages_.get(), p, gradients = list(gradients), in = list(in)] {
      st->backward_input(inline_stream(), p, gradients, in);
    });
  }
  template <class Stream>
  void backward_weight(Stream& s, stage_pass const& p) {
    s.call([st = stages_.get(), later = without_reports(p)] { st->backward_weight(inline_stream(), later); });
    report_all(p);
  }
  template <class Stream>
  void recompute(Stream& s, stage_pass const& p, std::span<tensor_view const> in) {
    s.call([st = stages_.get(), p, in = list(in)] { st->recompute(inline_stream(), p, in); });
  }
  template <class Stream>
  void offload(Stream& s, stage_pass const& p) {
    s.call([st = stages_.get(), p] { st->offload(inline_stream(), p); });
  }
  template <class Stream>
  void reload(Stream& s, stage_pass const& p) {
    s.call([st = stages_.get(), p] { st->reload(inline_stream(), p); });
  }
  std::span<region const> gradients(stage_id i) { return stages_->gradients(i); }
  Stages& here() { return *stages_; }

 private:
  /// A pass that computes later, when nothing can be reported any more.
  static stage_pass without_reports(stage_pass p) {
    p.ready = {};
    return p;
  }
  void report_all(stage_pass const& p) {
    for (auto n = static_cast<std::uint32_t>(stages_->gradients(p.stage).size()); n-- > 0;) p.ready(n);
  }
  static host_device::stream& inline_stream() {
    static host_device::stream s;
    return s;
  }
  template <class T>
  static std::vector<std::remove_const_t<T>> list(std::span<T> s) {
    return {s.begin(), s.end()};
  }
  std::unique_ptr<Stages> stages_;
};

}  // namespace cleave::testing
