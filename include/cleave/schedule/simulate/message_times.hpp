// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/jitter.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_needs.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/simulate/rank_clock.hpp"

namespace cleave::detail {

/// What moves along an edge, one way or the other, for a microbatch.
struct message_id {
  std::uint32_t edge;
  edge_flow flow;
  microbatch_id microbatch;
};

/// Where a message is: `sent` and `awaited` are one end each, the other has not begun.
enum class message_place : std::uint8_t { nowhere, sent, awaited, there };

struct message_state {
  moment since;  ///< when an end began, and which; once it is there, when it can be used, and which was last
  std::uint32_t waiter = 0xffffffff;
  message_place where = message_place::nowhere;
};

/// When messages can be used. Those of a directed pair of ranks leave one after the other, as they are sent.
class message_times {
 public:
  /// Precondition: the options make sense for the schedule. O(edges log edges + messages).
  message_times(schedule const& s, simulate_options const& o)
      : jitter_(o.jitter, o.seed),
        microbatches_(s.microbatches),
        ways_(2 * s.place.edges.size()),
        messages_(ways_.size() * s.microbatches) {
    for (std::size_t e = 0; e < s.place.edges.size(); ++e) {
      auto const from = s.place.rank_of[index(s.place.edges[e].from)];
      auto const to = s.place.rank_of[index(s.place.edges[e].to)];
      auto const size = o.bytes.empty() ? edge_bytes{} : o.bytes[o.bytes.size() == 1 ? 0 : e];
      ways_[2 * e] = make_way(o, s.place.ranks, from, to, size.activation);
      ways_[2 * e + 1] = make_way(o, s.place.ranks, to, from, size.gradient);
    }
    number_channels();
  }

  message_state& at(message_id const& m) {
    return messages_[std::size_t{way_of(m)} * microbatches_ + index(m.microbatch)];
  }
  message_state const& at(message_id const& m) const {
    return messages_[std::size_t{way_of(m)} * microbatches_ + index(m.microbatch)];
  }
  bool crosses_ranks(std::uint32_t edge) const {
    return ways_[std::size_t{2} * edge].from != ways_[std::size_t{2} * edge].to;
  }

  /// How long it takes until all bytes of a message have left.
  double transfer(message_id const& m) const { return ways_[way_of(m)].transfer * factor(m); }

  /// An end begins. Whether the other has, so that the message comes; the same end again changes nothing.
  bool begin_send(message_id const& m, moment const& now) {
    return begin(m, now, message_place::sent, message_place::awaited);
  }
  bool begin_receive(message_id const& m, moment const& now) {
    return begin(m, now, message_place::awaited, message_place::sent);
  }

  /// A message leaves from `ready` on, once its channel is free; at once where leaving takes no time.
  void leave(message_id const& m, moment const& ready) {
    auto const& way = ways_[way_of(m)];
    auto const share = factor(m);
    double left = ready.time;
    if (way.transfer > 0) {
      auto& free = channel_free_[way.channel];
      left = free = (std::max)(left, free) + way.transfer * share;
    }
    auto& message = at(m);
    message.since = {left + way.latency * share, ready.by};
    message.where = message_place::there;
  }

 private:
  struct one_way {
    double latency = 0, transfer = 0;
    std::uint32_t channel = 0;
    rank_id from{}, to{};
  };

  static std::uint32_t way_of(message_id const& m) { return 2 * m.edge + static_cast<std::uint32_t>(m.flow); }
  double factor(message_id const& m) const {
    auto const kind =
        m.flow == edge_flow::activations ? action_kind::send_activation : action_kind::send_gradient;
    return jitter_.factor(kind, m.edge, m.microbatch);
  }

  static one_way make_way(simulate_options const& o, std::uint32_t ranks, rank_id from, rank_id to,
                          std::uint64_t bytes) {
    auto const number = o.links.size() == 1 ? 0 : std::size_t{index(from)} * ranks + index(to);
    auto const link = o.links.empty() ? rank_link{} : o.links[number];
    return {o.hop + link.latency, static_cast<double>(bytes) / link.bandwidth, 0, from, to};
  }

  void number_channels() {
    std::vector<std::pair<rank_id, rank_id>> all;
    for (auto const& w : ways_) all.push_back({w.from, w.to});
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    for (auto& w : ways_)
      w.channel =
          static_cast<std::uint32_t>(std::ranges::lower_bound(all, std::pair(w.from, w.to)) - all.begin());
    channel_free_.resize(all.size());
  }

  bool begin(message_id const& m, moment now, message_place here, message_place other) {
    auto& message = at(m);
    if (message.where == message_place::nowhere) {
      message.since = now;
      message.where = here;
    }
    if (message.where != other) return false;
    if (message.since.time >= now.time) now = message.since;
    leave(m, now);
    return true;
  }

  jitter jitter_;
  std::uint32_t microbatches_;
  std::vector<one_way> ways_;  ///< of each edge, that of activations, then that of gradients
  std::vector<message_state> messages_;
  std::vector<double> channel_free_;  ///< of a directed pair of ranks
};

}  // namespace cleave::detail
