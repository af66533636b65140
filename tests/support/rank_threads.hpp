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

#include "cleave/run/executor.hpp"
#include "cleave/run/host_device.hpp"
#include "cleave/run/host_group.hpp"
#include "cleave/run/host_ranks.hpp"
#include "cleave/run/make_rank_program.hpp"
#include "cleave/run/step_plan.hpp"

namespace cleave::testing {

/// The ranks of a step plan as threads of this process, on any device and communicator: each step on threads
/// of its own. Without replicas and ties.
template <class Device, class Communicator, class Stages>
class rank_threads {
 public:
  /// `make_device(ranks, rank)` and `make_communicator(group, member, device)` make those of a rank.
  template <class MakeDevice, class MakeCommunicator>
  rank_threads(step_plan const& p, std::vector<Stages> stages, MakeDevice make_device,
               MakeCommunicator make_communicator, executor_options const& options = {})
      : ranks_(static_cast<std::uint32_t>(p.order().ranks.size())),
        board_{&ranks_},
        group_(ranks_, all_ranks()),
        stages_(std::move(stages)) {
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) {
      make_device(devices_, ranks_, rank_id{r});
      make_communicator(communicators_, group_, r, devices_.back());
    }
    for (std::uint32_t r = 0; r < ranks_.count(); ++r)
      executors_.push_back(std::make_unique<rank_executor>(devices_[r], communicators_[r], board_, stages_[r],
                                                           make_rank_program(p, rank_id{r}), options));
  }
  ~rank_threads() { close_streams(); }

  /// The first failure, if there is one.
  std::optional<failure> run_step(step_values const& values) {
    std::vector<std::thread> threads;
    for (std::uint32_t r = 0; r < ranks_.count(); ++r)
      threads.emplace_back([this, r, &values] {
        try {
          executors_[r]->run_step(values);
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
  struct shared_board {
    host_ranks* ranks;
    void publish(failure const& f) noexcept { ranks->publish(f); }
    std::optional<failure> poll() const { return ranks->poll(); }
  };
  using rank_executor = executor<Device, Communicator, shared_board, Stages>;

  std::vector<rank_id> all_ranks() const {
    std::vector<rank_id> all;
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) all.push_back(rank_id{r});
    return all;
  }
  void close_streams() {
    if constexpr (requires(Device& d) { d.close_streams(); })
      for (auto& d : devices_) d.close_streams();
  }

  host_ranks ranks_;
  shared_board board_;
  host_group group_;
  std::vector<Stages> stages_;
  std::deque<Device> devices_;
  std::deque<Communicator> communicators_;
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
    s.call([st = stages_.get(), p, gradients = list(gradients), in = list(in)] {
      st->backward(inline_stream(), p, gradients, in);
    });
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
    s.call([st = stages_.get(), p] { st->backward_weight(inline_stream(), p); });
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
