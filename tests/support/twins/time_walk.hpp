// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/schedule/simulate/simulate.hpp"

/// How schedules were simulated before `list_runner`: a machine of its own, to compare with.
namespace cleave::testing::twins {

using namespace detail;

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
        numbers_(step_index_of(s)),
        ways_(2 * s.place.edges.size()),
        messages_(numbers_.messages()) {
    for (std::size_t e = 0; e < s.place.edges.size(); ++e) {
      auto const from = s.place.rank_of[index(s.place.edges[e].from)];
      auto const to = s.place.rank_of[index(s.place.edges[e].to)];
      auto const size = one_or_each(o.bytes).of(e);
      ways_[2 * e] = make_way(o, s.place.ranks, from, to, size.activation);
      ways_[2 * e + 1] = make_way(o, s.place.ranks, to, from, size.gradient);
    }
    number_channels();
  }

  message_state& at(message_id const& m) { return messages_[numbers_.message(m)]; }
  message_state const& at(message_id const& m) const { return messages_[numbers_.message(m)]; }
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

  static std::size_t way_of(message_id const& m) { return step_index::way(m.edge, m.flow); }
  double factor(message_id const& m) const {
    auto const kind =
        m.flow == edge_flow::activations ? action_kind::send_activation : action_kind::send_gradient;
    return jitter_.factor(kind, m.edge, m.microbatch);
  }

  static one_way make_way(simulate_options const& o, std::uint32_t ranks, rank_id from, rank_id to,
                          std::uint64_t bytes) {
    auto const link = one_or_each(o.links).of(std::size_t{index(from)} * ranks + index(to));
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
  step_index numbers_;
  std::vector<one_way> ways_;  ///< of each edge, that of activations, then that of gradients
  std::vector<message_state> messages_;
  std::vector<double> channel_free_;  ///< of a directed pair of ranks
};

/// Which passes are done, and what each action needs: passes of its own rank, or messages. Stages and
/// microbatches are in range throughout.
class pass_marks {
 public:
  /// Refers to all three.
  pass_marks(schedule const& s, schedule_needs const& needs, message_times const& messages)
      : schedule_(s),
        needs_(needs),
        messages_(messages),
        numbers_(step_index_of(s)),
        done_(numbers_.passes()) {}

  std::size_t pairs() const { return done_.size(); }
  /// The number of the stage and microbatch of an action.
  std::size_t pair_of(action const& a) const { return numbers_.pass(a.stage, a.microbatch); }
  bool is_done(std::uint32_t stage, microbatch_id m, pass_mark which) const {
    return (done_[numbers_.pass(stage, m)] & static_cast<unsigned>(which)) != 0;
  }
  void set_done(action const& a) {
    using enum action_kind;
    auto& done = done_[pair_of(a)];
    unsigned const marks = a.kind == forward ? 1 : a.kind == backward ? 2 : a.kind == input_gradient ? 6 : 0;
    done = static_cast<std::uint8_t>(done | marks);
  }

  /// `pass(stage, mark)` for each pass of the same rank that an action needs, `message(edge, flow)` for each
  /// message, until one returns false.
  template <class Pass, class Message>
  bool each_need(action const& a, Pass pass, Message message) const {
    using enum action_kind;
    auto const s = index(a.stage);
    if (a.kind == weight_gradient) return pass(s, pass_mark::half);
    auto const& edges = needs_.edges();
    auto const& all = schedule_.place.edges;
    if (a.kind == forward) {
      for (auto const e : edges.to(s))
        if (!(messages_.crosses_ranks(e) ? message(e, edge_flow::activations)
                                         : pass(index(all[e].from), pass_mark::forward)))
          return false;
      return true;
    }
    if (!pass(s, pass_mark::forward)) return false;
    if (a.kind != backward && a.kind != input_gradient) return true;
    for (auto e = edges.begin_from(s); e < edges.end_from(s); ++e)
      if (!(messages_.crosses_ranks(e) ? message(e, edge_flow::gradients)
                                       : pass(index(all[e].to), pass_mark::gradient)))
        return false;
    return true;
  }

 private:
  schedule const& schedule_;
  schedule_needs const& needs_;
  message_times const& messages_;
  step_index numbers_;
  std::vector<std::uint8_t> done_;  // of a stage and microbatch
};

/// Runs every list in order, each action as soon as its rank is free and what it needs is there. `simulate`
/// is its one use.
class time_walk {
 public:
  /// Refers to both. Precondition: the options make sense for the schedule.
  /// \throws stray_action_error, placement_error, schedule_count_error
  time_walk(schedule const& s, simulate_options const& options)
      : schedule_((demand_no_stray_action(s), s)),
        options_(options),
        needs_(s),
        jitter_(options.jitter, options.seed),
        messages_(s, options),
        marks_(s, needs_, messages_),
        weights_(s.place.stages()),
        reduced_(s.place.stages()),
        ranks_(s.ranks.size()) {
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) clocks_.emplace_back(rank_id{r}, s.ranks[r].size());
  }

  /// Whether all ranks come to their ends. O(actions).
  bool run() {
    for (auto r = static_cast<std::uint32_t>(ranks_.size()); r-- > 0;) awake_.push_back(r);
    while (!awake_.empty()) {
      auto const r = awake_.back();
      awake_.pop_back();
      while (!is_finished(r) && step(r)) {
      }
    }
    for (std::uint32_t r = 0; r < ranks_.size(); ++r)
      if (!is_finished(r)) return false;
    return true;
  }

  schedule_times take() {
    schedule_times times;
    for (auto& clock : clocks_) clock.tell(times);
    return times;
  }

  bool is_finished(std::uint32_t r) const { return ranks_[r].position == schedule_.ranks[r].size(); }
  /// In its list, where rank `r` waits.
  std::size_t position(std::uint32_t r) const { return ranks_[r].position; }
  schedule_needs const& needs() const { return needs_; }
  pass_marks const& marks() const { return marks_; }
  message_times const& messages() const { return messages_; }

 private:
  static constexpr std::uint32_t nobody = 0xffffffff;
  struct rank_state {
    std::size_t position = 0, compound_begin = 0, compound_end = 0;
    std::uint32_t next_waiter = nobody;  // for the same message
  };

  /// Whether the next action of rank `r` is done now.
  bool step(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const& row = schedule_.ranks[r];
    action const& a = row[rank.position];
    if (a.parts > 0) {
      if (options_.compounds != compound_time::one_after_the_other && is_compute(row[rank.position + 1].kind))
        return run_together(r);
      rank.compound_begin = rank.position + 1;
      rank.compound_end = rank.compound_begin + a.parts;
      if (options_.messages == message_time::within) send_first(r);
    } else if (!run_alone(r, a)) {
      return false;
    }
    ++rank.position;
    if (rank.position == rank.compound_end) end_compound(r);
    return true;
  }

  /// What is exchanged as one: nothing that is received may hold up what is sent.
  void send_first(std::uint32_t r) {
    auto const& row = schedule_.ranks[r];
    for (auto i = ranks_[r].compound_begin; i < ranks_[r].compound_end; ++i)
      if (is_send(row[i].kind)) run_message(r, i, row[i]);
  }

  void end_compound(std::uint32_t r) {
    auto& rank = ranks_[r];
    clocks_[r].close_compound(rank.compound_begin - 1);
    for (auto i = rank.compound_begin; i < rank.compound_end; ++i) publish(r, i, rank.compound_end - 1);
    rank.compound_end = 0;
  }

  bool run_alone(std::uint32_t r, action const& a) {
    using enum action_kind;
    auto const position = ranks_[r].position;
    auto& clock = clocks_[r];
    if (is_compute(a.kind) || a.kind == recompute) return run_pass(r, a);
    if (is_message(a.kind)) return run_message(r, position, a);
    switch (a.kind) {
      case unshard:
        weights_[index(a.stage)] =
            clock.go_beside(position, clock.free(), time_of(a), rank_engine::collectives);
        return true;
      case reduce_gradient:
        reduced_[index(a.stage)] =
            clock.go_beside(position, clock.free(), time_of(a), rank_engine::collectives);
        return true;
      case wait_reduce_gradient:
        clock.wait_until(position, reduced_[index(a.stage)]);
        return true;
      case offload:
      case reload:
        return move_stash(r, a);
      default:
        clock.wait_until(position, {});
        return true;
    }
  }

  bool run_pass(std::uint32_t r, action const& a) {
    auto const& rank = ranks_[r];
    auto begin = clocks_[r].free();
    if (!can_begin(r, a, begin)) return false;
    clocks_[r].compute(rank.position, begin, time_of(a));
    marks_.set_done(a);
    if (rank.compound_end == 0) publish(r, rank.position, rank.position);
    return true;
  }

  /// All parts of a compound, from when the last of them can begin.
  bool run_together(std::uint32_t r) {
    auto& rank = ranks_[r];
    auto const head = rank.position;
    auto const parts = std::span(schedule_.ranks[r]).subspan(head + 1, schedule_.ranks[r][head].parts);
    auto begin = clocks_[r].free();
    for (action const& a : parts)
      if (!can_begin(r, a, begin)) return false;
    bool const in_turn = options_.compounds == compound_time::in_turn;
    double whole = 0;
    for (action const& a : parts) {
      double const time = time_of(a), from = begin.time + (in_turn ? whole : 0);
      clocks_[r].note(++rank.position, {from, begin.by}, from + time);
      whole = in_turn ? whole + time : (std::max)(whole, time);
      marks_.set_done(a);
    }
    clocks_[r].compute(head, begin, whole);
    ++rank.position;
    for (auto i = head + 1; i < rank.position; ++i) publish(r, i, head);
    return true;
  }

  /// What other ranks need of a pass leaves for them when action `last` is done, where the schedule has no
  /// messages of its own.
  void publish(std::uint32_t r, std::size_t position, std::size_t last) {
    using enum action_kind;
    action const& a = schedule_.ranks[r][position];
    if (needs_.messages() || !is_compute(a.kind) || a.kind == weight_gradient) return;
    auto const s = index(a.stage);
    auto const& edges = needs_.edges();
    if (a.kind == action_kind::forward)
      for (auto e = edges.begin_from(s); e < edges.end_from(s); ++e)
        leave(r, last, {e, edge_flow::activations, a.microbatch});
    else
      for (auto const e : edges.to(s)) leave(r, last, {e, edge_flow::gradients, a.microbatch});
  }

  void leave(std::uint32_t r, std::size_t last, message_id const& id) {
    if (!messages_.crosses_ranks(id.edge) || messages_.at(id).where == message_place::there) return;
    messages_.leave(id, {clocks_[r].free().time, clocks_[r].place(last)});
    if (options_.messages == message_time::within) clocks_[r].lengthen(last, messages_.transfer(id));
    wake(messages_.at(id));
  }

  bool run_message(std::uint32_t r, std::size_t position, action const& a) {
    auto const edge = needs_.edge_of(a);
    if (edge == schedule_needs::none || !messages_.crosses_ranks(edge)) {
      clocks_[r].wait_until(position, {});
      return true;
    }
    auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
    message_id const id{edge, flow, a.microbatch};
    return options_.messages == message_time::within ? run_within(r, position, a, id)
                                                     : run_beside(r, position, a, id);
  }

  bool run_beside(std::uint32_t r, std::size_t position, action const& a, message_id const& id) {
    auto& message = messages_.at(id);
    auto& clock = clocks_[r];
    if (is_wait_send(a.kind)) {
      if (message.where != message_place::there) return wait_for(r, message);
      clock.wait_until(position, message.since);
      return true;
    }
    clock.wait_until(position, {});
    moment const now{clock.free().time, clock.place(position)};
    if (is_send(a.kind) ? messages_.begin_send(id, now) : messages_.begin_receive(id, now)) wake(message);
    return true;
  }

  /// What has been sent is on its way; it is there once it is received.
  bool run_within(std::uint32_t r, std::size_t position, action const& a, message_id const& id) {
    auto& message = messages_.at(id);
    auto& clock = clocks_[r];
    if (is_receive(a.kind)) {
      if (message.where == message_place::nowhere) return wait_for(r, message);
      message.where = message_place::there;
      clock.wait_until(position, message.since);
    } else if (is_wait_send(a.kind)) {
      clock.wait_until(position, {});
    } else if (message.where == message_place::nowhere) {
      messages_.leave(id, {clock.free().time, clock.place(position)});
      message.where = message_place::sent;
      clock.spend(position, messages_.transfer(id));
      wake(message);
    }
    return true;
  }

  bool move_stash(std::uint32_t r, action const& a) {
    auto begin = clocks_[r].free();
    if (!can_begin(r, a, begin)) return false;
    auto const moved = clocks_[r].go_beside(ranks_[r].position, begin, time_of(a), rank_engine::copies);
    if (a.kind != action_kind::reload) return true;
    reloaded_.resize(marks_.pairs());
    reloaded_[marks_.pair_of(a)] = moved;
    return true;
  }

  double time_of(action const& a) const {
    return one_or_each(options_.costs).of(index(a.stage)).of(a.kind) *
           jitter_.factor(a.kind, index(a.stage), a.microbatch);
  }

  /// Moves `begin` to when all is there that a pass needs; or waits for a message. What the rank itself has
  /// not done by then it never will.
  bool can_begin(std::uint32_t r, action const& a, moment& begin) {
    bool const is_ready = marks_.each_need(
        a, [&](std::uint32_t s, pass_mark which) { return marks_.is_done(s, a.microbatch, which); },
        [&](std::uint32_t edge, edge_flow flow) {
          auto& message = messages_.at({edge, flow, a.microbatch});
          if (message.where != message_place::there) return wait_for(r, message);
          begin.raise(message.since);
          return true;
        });
    if (!is_ready) return false;
    if (a.kind != action_kind::offload && a.kind != action_kind::reload)
      begin.raise(weights_[index(a.stage)]);
    if (!reloaded_.empty()) begin.raise(reloaded_[marks_.pair_of(a)]);
    return true;
  }

  bool wait_for(std::uint32_t r, message_state& message) {
    ranks_[r].next_waiter = std::exchange(message.waiter, r);
    return false;
  }
  void wake(message_state& message) {
    for (auto r = std::exchange(message.waiter, nobody); r != nobody; r = ranks_[r].next_waiter)
      awake_.push_back(r);
  }

  schedule const& schedule_;
  simulate_options const& options_;
  schedule_needs needs_;
  jitter jitter_;
  message_times messages_;
  pass_marks marks_;
  std::vector<moment> weights_, reduced_;  // of a stage
  std::vector<moment> reloaded_;           // of a stage and microbatch, once anything is
  std::vector<rank_state> ranks_;
  std::vector<rank_clock> clocks_;
  std::vector<std::uint32_t> awake_;
};

/// Finds who waits for whom, once nothing moves.
class simulated_waits {
 public:
  /// Refers to both. Precondition: the walk has run.
  simulated_waits(schedule const& s, time_walk const& walk) : schedule_(s), walk_(walk) {}

  /// O(ranks · (the longest list + ranks)).
  deadlock found() const {
    deadlock d;
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
      if (!walk_.is_finished(r)) d.waiting.push_back(wait_of(r));
    std::vector<directed_arc> edges;
    std::vector<std::size_t> edge_wait;
    for (std::size_t i = 0; i < d.waiting.size(); ++i) {
      if (!is_to_come(d.waiting[i])) continue;
      edges.push_back({index(d.waiting[i].rank), index(d.waiting[i].for_rank)});
      edge_wait.push_back(i);
    }
    for (auto const e : shortest_cycle(static_cast<std::uint32_t>(schedule_.ranks.size()), edges))
      d.circle.push_back(d.waiting[edge_wait[e]]);
    return d;
  }

 private:
  /// The first thing that the next action of rank `r` waits for. Precondition: it waits.
  waiting_action wait_of(std::uint32_t r) const {
    auto const& row = schedule_.ranks[r];
    auto const first = walk_.position(r);
    for (auto i = first; i <= first + row[first].parts; ++i) {
      action const& a = row[i];
      if (a.parts > 0) continue;
      if (action missing; !has_needs(a, missing))
        return {rank_id{r}, i, a, schedule_.place.rank_of[index(missing.stage)], missing};
    }
    return {rank_id{r}, first, row[first], rank_id{r}, row[first]};
  }

  /// Whether all is there; else `missing` becomes what would have to be done.
  bool has_needs(action const& a, action& missing) const {
    auto const has_message = [&](std::uint32_t edge, edge_flow flow) {
      auto const where = walk_.messages().at({edge, flow, a.microbatch}).where;
      if (where == message_place::there) return true;
      missing = missing_end(a, where, walk_.needs().send_done(edge, flow, a.microbatch));
      return false;
    };
    auto const has_pass = [&](std::uint32_t s, pass_mark which) {
      if (walk_.marks().is_done(s, a.microbatch, which)) return true;
      auto const kind = which == pass_mark::forward    ? action_kind::forward
                        : which == pass_mark::gradient ? action_kind::backward
                                                       : action_kind::input_gradient;
      missing = {.kind = kind, .stage = stage_id{s}, .microbatch = a.microbatch};
      return false;
    };
    if (!is_message(a.kind)) return walk_.marks().each_need(a, has_pass, has_message);
    auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
    return has_message(walk_.needs().edge_of(a), flow);
  }

  /// The end of a message that has not begun, that of the rank itself first where neither has; or the pass
  /// whose result it is, where a schedule has no messages of its own.
  action missing_end(action const& a, message_place where, std::uint32_t send) const {
    auto const sender = walk_.needs().action_of(send);
    if (!walk_.needs().messages())
      return {
          .kind = sender.kind == action_kind::send_activation ? action_kind::forward : action_kind::backward,
          .stage = sender.stage,
          .microbatch = a.microbatch};
    bool const sends = is_wait_send(a.kind);
    bool const waits_to_receive = is_receive(a.kind) || where == message_place::awaited;
    bool const for_receive = sends ? where == message_place::sent : !waits_to_receive;
    return for_receive ? walk_.needs().action_of(schedule_needs::receive_of(send)) : sender;
  }

  /// Whether its rank would do it, if it went on.
  bool is_to_come(waiting_action const& w) const {
    auto const owner = index(w.for_rank);
    auto wanted = w.for_what;
    auto const& row = schedule_.ranks[owner];
    for (auto i = walk_.position(owner); i < row.size(); ++i) {
      auto done = row[i];
      if (done.kind == action_kind::input_gradient && wanted.kind == action_kind::backward)
        done.kind = wanted.kind;
      if (done == wanted) return true;
    }
    return false;
  }

  schedule const& schedule_;
  time_walk const& walk_;
};

/// Precondition: the options make sense.
inline std::optional<deadlock> find_simulated_deadlock(schedule const& s, simulate_options const& o) {
  time_walk walk(s, o);
  if (walk.run()) return std::nullopt;
  return simulated_waits(s, walk).found();
}

/// Precondition: it comes to its end.
inline schedule_times simulate(schedule const& s, simulate_options const& o) {
  time_walk walk(s, o);
  walk.run();
  auto times = walk.take();
  times.most_kept = most_kept_passes(s);
  return times;
}

}  // namespace cleave::testing::twins
