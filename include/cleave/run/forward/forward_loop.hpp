// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/run/forward/forward_concepts.hpp"
#include "cleave/run/forward/timeline.hpp"
#include "cleave/run/model/ports.hpp"

namespace cleave::detail {

/// What one stage did, by microbatch: the record that failures and timelines are read from.
template <clocked_device D>
struct call_log {
  struct entry {
    typename D::event began, received, computed, sent;
  };
  std::vector<entry> entries;
  std::atomic<std::uint32_t> ended = 0;  ///< calls; may be read at any time
};

/// Three bars for each entry, in order: receive, forward, send. Times count from `origin`.
template <clocked_device D>
void append_intervals(D& d, call_log<D> const& log, stage_id i, typename D::event const& origin,
                      std::vector<interval>& timeline) {
  for (std::uint32_t m = 0; m < log.entries.size(); ++m) {
    auto const& e = log.entries[m];
    auto const at = [&](typename D::event const& x) {
      return std::int64_t{std::chrono::nanoseconds(d.elapsed(origin, x)).count()};
    };
    std::int64_t const began = at(e.began), received = at(e.received), computed = at(e.computed);
    timeline.push_back({i, microbatch_id{m}, activity::receive, began, received});
    timeline.push_back({i, microbatch_id{m}, activity::forward, received, computed});
    timeline.push_back({i, microbatch_id{m}, activity::send, computed, at(e.sent)});
  }
}

/// One stage's part of a forward run, on the calling thread: for each microbatch in order, receives its
/// inputs, computes, sends its results, a copy to each reader but the last. Returns when all are done, or
/// soon after the run has failed anywhere; a failure of its own it publishes first.
///
/// No order of execution deadlocks, whatever the capacity of the edges, skips included. Number the receives,
/// calls and sends of the whole run by (microbatch, position of the stage in a topological order, receive <
/// call < send). A stage does its own in this order. A receive waits for a send of the same microbatch by an
/// earlier stage; a send waits for room, so for the receive of an earlier microbatch. All waiting is for
/// smaller numbers: the smallest unfinished one can go on.
template <class Value, clocked_device D, value_communicator<D, Value> C, board B, value_stage<D, Value> S>
void forward_stage(D& d, C& c, B& b, S& st, stage_id i, stage_ports const& ports, std::uint32_t microbatches,
                   call_log<D>& log) {
  stage_call at{i, {}};
  auto const fail = [&](failure const& f) {
    b.publish(f);
    c.abort(f);
  };
  try {
    auto s = d.make_stream(0);
    std::vector<Value> in(ports.arriving.size()), out(ports.outputs);
    log.entries.reserve(microbatches);
    for (std::uint32_t m = 0; m < microbatches && !b.poll(); ++m) {
      at.microbatch = microbatch_id{m};
      auto& entry = log.entries.emplace_back(d.make_event(), d.make_event(), d.make_event(), d.make_event());

      d.record(entry.began, s);
      for (std::size_t k = 0; k < in.size(); ++k) c.recv(in[k], {ports.arriving[k], at.microbatch}, s);
      d.record(entry.received, s);

      try {
        st.forward(s, i, at.microbatch, in, out);
      } catch (...) {
        return fail(current_failure(at));
      }
      d.record(entry.computed, s);
      log.ended.fetch_add(1, std::memory_order_relaxed);

      for (auto& v : in) v = Value{};  // not kept while waiting for room
      for (std::size_t k = 0; k < ports.departing.size(); ++k) {
        auto const [output, edge] = ports.departing[k];
        bool const read_again = k + 1 < ports.departing.size() && ports.departing[k + 1].output == output;
        if constexpr (std::copyable<Value>)
          if (read_again) {
            Value copy = out[output];
            c.send(copy, {edge, at.microbatch}, s);
            continue;
          }
        c.send(out[output], {edge, at.microbatch}, s);
      }
      d.record(entry.sent, s);
    }
  } catch (run_error const& e) {
    fail(e.info);
  } catch (...) {
    fail(current_failure(at));
  }
}

}  // namespace cleave::detail
