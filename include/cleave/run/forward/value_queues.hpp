// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/transport.hpp"
#include "cleave/run/forward/bounded_queue.hpp"
#include "cleave/run/forward/forward_concepts.hpp"
#include "cleave/run/forward/host_clock.hpp"
#include "cleave/run/model/ports.hpp"

namespace cleave::detail {

/// Transfers between threads of one process, each stage on its own: a queue of `capacity` values for each
/// edge between stages. What the caller gives is taken from, and what it gets is put to, where it lies,
/// without waiting.
template <stage_value Value>
class value_queues {
 public:
  /// `microbatches[m]` are the caller's inputs for microbatch m; those with one reader are moved from.
  /// Precondition: the transport has no fault, every microbatch has the inputs that it names, capacity > 0;
  /// where `Value` cannot be copied, no shared edge.
  value_queues(transport t, std::vector<std::vector<Value>> microbatches, std::size_t capacity)
      : t_(std::move(t)), shared_(shared_edges(t_)), given_(std::move(microbatches)), made_(given_.size()) {
    std::size_t results = 0;
    for (auto const& e : t_.edges) {
      bool const queued = e.from != the_caller && e.to != the_caller;
      queues_.push_back(queued ? std::make_unique<bounded_queue<item>>(capacity) : nullptr);
      results += e.to == the_caller;
    }
    for (auto& row : made_) row.resize(results);
  }

  void send(Value& v, envelope const& which, host_clock::stream&) {
    auto const& e = edge(which);
    if (e.to == the_caller) {
      made_[index(which.microbatch)][e.input] = std::move(v);
      return;
    }
    item packed{which.microbatch, std::move(v)};
    if (!queues_[which.edge]->push(packed)) throw run_error(reason());
  }

  void recv(Value& v, envelope const& which, host_clock::stream&) {
    auto const& e = edge(which);
    if (e.from == the_caller) {
      take(v, which);
      return;
    }
    item packed;
    if (!queues_[which.edge]->pop(packed)) throw run_error(reason());
    if (packed.microbatch != which.microbatch)
      throw run_error({failure_code::mismatch, stage_call{e.to, which.microbatch},
                       stage_text(e.from) + " sent microbatch " + std::to_string(index(packed.microbatch)) +
                           " on edge #" + std::to_string(which.edge)});
    v = std::move(packed.value);
  }

  void abort(failure const& f) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (!reason_) try {
          reason_ = f;
        } catch (...) {
          reason_ = failure{f.code, f.at, {}, f.cause};  // no memory for the words
        }
    }
    for (auto& q : queues_)
      if (q) q->close();
  }

  /// What the caller gets, by microbatch. Precondition: every transfer has ended.
  std::vector<std::vector<Value>> take_results() {
    for (std::uint32_t i = 0; i < t_.edges.size(); ++i) {
      auto const& e = t_.edges[i];
      if (e.from != the_caller || e.to != the_caller) continue;
      for (std::uint32_t m = 0; m < given_.size(); ++m) take(made_[m][e.input], {i, microbatch_id{m}});
    }
    return std::move(made_);
  }

  /// The most values that waited on each edge at a time; 0 on the caller's.
  std::vector<std::size_t> most_queued() const {
    std::vector<std::size_t> most;
    for (auto const& q : queues_) most.push_back(q ? q->most() : 0);
    return most;
  }

 private:
  struct item {
    microbatch_id microbatch = {};
    Value value = {};
  };

  transport::edge const& edge(envelope const& which) const {
    expects(which.edge < t_.edges.size() && index(which.microbatch) < given_.size(),
            "value_queues: an edge and a microbatch of this run");
    return t_.edges[which.edge];
  }

  /// Several stages may copy one value of the caller at a time, which reads it only.
  void take(Value& v, envelope const& which) {
    auto& given = given_[index(which.microbatch)][t_.edges[which.edge].output];
    if constexpr (std::copyable<Value>)
      if (shared_[which.edge]) {
        v = std::as_const(given);
        return;
      }
    v = std::move(given);
  }

  failure reason() const {
    std::lock_guard lock(mutex_);
    return *reason_;
  }

  transport t_;
  std::vector<char> shared_;
  std::vector<std::vector<Value>> given_, made_;
  std::vector<std::unique_ptr<bounded_queue<item>>> queues_;  // by edge; none on the caller's
  mutable std::mutex mutex_;
  std::optional<failure> reason_;
};

}  // namespace cleave::detail
