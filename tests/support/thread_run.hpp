// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "support/rng.hpp"
#include "support/thread_monitor.hpp"

namespace cleave::testing {

using namespace detail;

/// All delivery modes, with zero, one and many buffers.
inline constexpr delivery_rules all_deliveries[] = {
    {.delivery = delivery::buffered, .buffers = 0},
    {.delivery = delivery::buffered, .buffers = 1},
    {.delivery = delivery::buffered, .buffers = 2, .groups = message_groups::adjacent},
    {.delivery = delivery::buffered},
    {.delivery = delivery::rendezvous},
    serial_device,
    {.delivery = delivery::async},
    {.delivery = delivery::pair_stream},
    {.delivery = delivery::pair_stream, .groups = message_groups::adjacent},
    {.delivery = delivery::one_queue},
    {.delivery = delivery::one_queue, .groups = message_groups::adjacent},
    {.delivery = delivery::two_queues},
    {.delivery = delivery::two_queues, .groups = message_groups::adjacent},
};

/// Makes compounds of some adjacent messages of a list.
inline void mark_some_groups(rng& random, schedule& s) {
  for (auto& row : s.ranks)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) {
      auto const is_end = [&](std::size_t at) { return is_send(row[at].kind) || is_receive(row[at].kind); };
      if (!is_end(i) || !is_end(i + 1) || random.one_in(2)) continue;
      row.insert(row.begin() + static_cast<std::ptrdiff_t>(i), {.kind = action_kind::exchange, .parts = 2});
      i += 2;
    }
}

/// A message: source stage, target stage, is a gradient, microbatch.
using message_name = std::tuple<stage_id, stage_id, bool, microbatch_id>;

/// A one-way queue of messages between two ranks. A sender puts its message in and blocks while the queue
/// holds more than its capacity. A receiver blocks until its message is there. Repeating a message changes
/// nothing.
class blocking_queue {
 public:
  explicit blocking_queue(std::size_t capacity) : capacity_(capacity) {}

  void put(message_name const& m) {
    if (!put_.insert(m).second) return;
    if (auto const w = std::ranges::find(wanted_, m); w != wanted_.end()) {
      wanted_.erase(w);
      taken_.insert(m);
    } else {
      lying_.push_back(m);
    }
  }
  void want(message_name const& m) {
    if (!asked_.insert(m).second) return;
    if (auto const l = std::ranges::find(lying_, m); l != lying_.end()) {
      lying_.erase(l);
      taken_.insert(m);
    } else {
      wanted_.push_back(m);
    }
  }
  bool has_room() const { return lying_.size() <= capacity_; }
  bool is_taken(message_name const& m) const { return taken_.contains(m); }

 private:
  std::size_t capacity_;
  std::list<message_name> lying_, wanted_;
  std::set<message_name> taken_, put_, asked_;  // since the beginning
};

/// Runs a schedule with threads: one per rank, and one per message queue of a rank. They meet in blocking
/// queues.
class thread_run {
 public:
  thread_run(schedule const& s, delivery_rules const& rules) : s_(s), rules_(rules) {}

  /// Returns `finishes`, or the position at which each blocked rank waits.
  std::string verdict() {
    make_lists();
    std::vector<std::function<void()>> bodies;
    for (auto& l : lists_) bodies.push_back([this, &l] { run(l); });
    bool const all = monitor_.run(bodies);
    std::string text;
    for (auto& l : lists_) {
      if (l.begun_from_list || l.is_finished()) continue;
      auto const& group = l.groups[l.at];
      auto const unmet = std::ranges::find_if(group, [&](action const& a) { return !may_go_on(l, a); });
      text += (text.empty() ? "deadlock: rank " : ", rank ") + std::to_string(l.rank) + " at " +
              action_text(unmet == group.end() ? group.front() : *unmet);
    }
    if (all != text.empty() && !has_streams()) return "threads and lists do not agree";
    return text.empty() ? "finishes" : text;
  }

 private:
  using joint = std::vector<action>;
  struct list {
    std::uint32_t rank = 0;
    bool is_queue = false;
    list* begun_from_list = nullptr;  ///< of a stream: the list that hands it groups
    std::vector<joint> groups = {};
    std::size_t at = 0;
    bool begun = false;
    bool is_finished() const { return at == groups.size(); }
  };

  bool has_streams() const { return rules_.delivery == delivery::pair_stream; }
  bool has_queues() const {
    return rules_.delivery == delivery::one_queue || rules_.delivery == delivery::two_queues;
  }
  static bool is_end(action const& a) { return is_send(a.kind) || is_receive(a.kind); }
  std::uint32_t rank_of(stage_id s) const { return index(s_.place.rank_of[index(s)]); }

  /// Returns true if the message exists.
  bool is_known(action const& a) const {
    auto const stages = s_.place.stages();
    if (index(a.stage) >= stages || index(a.peer) >= stages || index(a.microbatch) >= s_.microbatches)
      return false;
    auto const [from, to, gradient, m] = name_of_message(a);
    stage_edge const e = gradient ? stage_edge{to, from} : stage_edge{from, to};
    return rank_of(from) != rank_of(to) && std::ranges::binary_search(s_.place.edges, e);
  }
  static message_name name_of_message(action const& a) {
    bool const gradient = !is_activation_message(a.kind);
    return is_receive(a.kind) ? message_name{a.peer, a.stage, gradient, a.microbatch}
                              : message_name{a.stage, a.peer, gradient, a.microbatch};
  }

  void make_lists() {
    for (std::uint32_t r = 0; r < s_.ranks.size(); ++r) {
      auto& row = lists_.emplace_back(list{r});
      std::vector<list*> queues;
      for (int q = 0; q < (rules_.delivery == delivery::two_queues ? 2 : has_queues() ? 1 : 0); ++q)
        queues.push_back(&lists_.emplace_back(list{r, true}));
      for (auto& g : groups_of(s_.ranks[r])) {
        if (queues.empty() || !is_end(g.back())) {
          row.groups.push_back(g);
          continue;
        }
        for (std::size_t q = 0; q < queues.size(); ++q) {
          joint part;
          for (auto const& a : g)
            if (is_end(a) && (queues.size() == 1 || is_activation_message(a.kind) == (q == 0)))
              part.push_back(a);
          if (!part.empty()) queues[q]->groups.push_back(part);
        }
      }
      if (!has_streams()) continue;
      for (std::uint32_t peer = 0; peer < s_.ranks.size(); ++peer)
        streams_[{r, peer}] = &lists_.emplace_back(list{r, true, &row});
    }
  }

  /// Returns the actions that begin together. Each action is alone, except messages in a compound or next to
  /// each other.
  std::vector<joint> groups_of(std::vector<action> const& row) const {
    std::vector<joint> groups;
    bool open = false;
    each_cell(std::span(row), [&](action const& head, std::span<action const> parts) {
      bool const messages = !parts.empty() && is_end(parts[0]);
      if (messages || (parts.empty() && is_end(head))) {
        if (!open) groups.emplace_back();
        if (messages)
          groups.back().insert(groups.back().end(), parts.begin(), parts.end());
        else
          groups.back().push_back(head);
        open = rules_.groups == message_groups::adjacent;
        return;
      }
      open = false;
      if (parts.empty()) groups.push_back({head});
      for (auto const& a : parts) groups.push_back({a});
    });
    return groups;
  }

  void run(list& l) {
    if (l.begun_from_list) return run_stream(l);
    for (; !l.is_finished(); ++l.at, l.begun = false) {
      auto const& group = l.groups[l.at];
      if (l.is_queue) wait_for(l, group);
      begin(l, group);
      wait_for(l, group);
      end(l, group);
    }
  }

  /// Runs the stream's messages as its rank begins them, until the rank has finished.
  void run_stream(list& l) {
    for (;; ++l.at) {
      monitor_.wait_until([&] { return !l.is_finished() || l.begun_from_list->is_finished(); });
      if (l.is_finished()) return;
      auto const group = l.groups[l.at];
      for (auto const& a : group) put_or_want(a);
      l.begun = true;
      monitor_.changed();
      wait_for(l, group);
      for (auto const& a : group) ended_.insert({name_of_message(a), is_receive(a.kind)});
      monitor_.changed();
    }
  }

  void wait_for(list const& l, joint const& g) {
    monitor_.wait_until(
        [&] { return std::ranges::all_of(g, [&](action const& a) { return may_go_on(l, a); }); });
  }

  void begin(list& l, joint const& g) {
    l.begun = true;
    for (auto const& a : g) {
      if (!is_end(a) || !is_known(a)) continue;
      if (rules_.delivery == delivery::async)
        ended_.insert({name_of_message(a), is_receive(a.kind)});
      else if (!has_streams())
        put_or_want(a);
    }
    if (has_streams()) local_transfer(l, g);
    monitor_.changed();
  }

  /// Gives each stream its part of a group.
  void local_transfer(list const& l, joint const& g) {
    std::map<std::uint32_t, joint> parts;
    for (auto const& a : g)
      if (is_end(a) && is_known(a)) parts[rank_of(a.peer)].push_back(a);
    for (auto& [peer, part] : parts) streams_.at({l.rank, peer})->groups.push_back(part);
  }

  void put_or_want(action const& a) {
    auto& queue = queue_of(a);
    auto const m = name_of_message(a);
    is_receive(a.kind) ? queue.want(m) : queue.put(m);
  }
  blocking_queue& queue_of(action const& a) {
    auto const [from, to, gradient, m] = name_of_message(a);
    std::pair const key{rank_of(from), rank_of(to)};
    std::size_t const capacity = rules_.delivery == delivery::buffered ? rules_.buffers : 0;
    return queues_.try_emplace(key, blocking_queue(capacity)).first->second;
  }

  void end(list const& l, joint const& g) {
    for (auto const& a : g) {
      if (is_compute(a.kind)) {
        passes_.insert({a.kind, a.stage, a.microbatch});
      } else if (is_end(a) && is_known(a) && rules_.delivery != delivery::async && !has_streams()) {
        ended_.insert({name_of_message(a), is_receive(a.kind)});
      }
    }
    static_cast<void>(l);
    monitor_.changed();
  }

  bool may_go_on(list const& l, action const& a) {
    if (is_compute(a.kind)) return may_compute(a);
    if (!is_message(a.kind) || !is_known(a)) return true;
    auto const m = name_of_message(a);
    if (is_wait_send(a.kind)) {
      if (rules_.delivery <= delivery::rendezvous) return true;
      return ended_.contains({m, rules_.delivery == delivery::async});
    }
    if (l.is_queue && !l.begun)
      return is_receive(a.kind) ||
             (is_activation_message(a.kind) ? is_done(action_kind::forward, a) : has_gradient(a));
    if (!l.is_queue && rules_.delivery > delivery::rendezvous) return true;
    auto const& queue = queue_of(a);
    if (is_receive(a.kind)) return queue.is_taken(m);
    return rules_.delivery == delivery::buffered ? queue.has_room() : queue.is_taken(m);
  }

  bool is_done(action_kind k, action const& a) const { return passes_.contains({k, a.stage, a.microbatch}); }
  bool has_gradient(action const& a) const {
    return is_done(action_kind::backward, a) || is_done(action_kind::input_gradient, a);
  }

  bool may_compute(action const& a) const {
    using enum action_kind;
    if (index(a.stage) >= s_.place.stages() || index(a.microbatch) >= s_.microbatches) return true;
    if (a.kind == weight_gradient) return is_done(input_gradient, a);
    bool const is_forward = a.kind == action_kind::forward;
    if (!is_forward && !is_done(action_kind::forward, a)) return false;
    for (auto const& e : s_.place.edges) {
      auto const mine = is_forward ? e.to : e.from, other = is_forward ? e.from : e.to;
      if (mine == a.stage && !has_input(other, a, !is_forward)) return false;
    }
    return true;
  }

  /// Returns true if the pass has its input from another stage.
  bool has_input(stage_id from, action const& a, bool gradient) const {
    action const there{.stage = from, .microbatch = a.microbatch};
    if (!has_messages_ || rank_of(from) == rank_of(a.stage))
      return gradient ? has_gradient(there) : is_done(action_kind::forward, there);
    message_name const m{from, a.stage, gradient, a.microbatch};
    if (!ended_.contains({m, true})) return false;
    return rules_.delivery != delivery::async || ended_.contains({m, false});
  }

  bool find_messages() const {
    for (auto const& row : s_.ranks)
      for (auto const& a : row)
        if (is_message(a.kind)) return true;
    return false;
  }

  schedule const& s_;
  delivery_rules rules_;
  bool has_messages_ = find_messages();
  thread_monitor monitor_;
  std::list<list> lists_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, list*> streams_;  // by rank and peer
  std::map<std::pair<std::uint32_t, std::uint32_t>, blocking_queue> queues_;
  std::set<std::tuple<action_kind, stage_id, microbatch_id>> passes_;  // finished passes
  std::set<std::pair<message_name, bool>> ended_;                      // finished sends and receives
};

}  // namespace cleave::testing
