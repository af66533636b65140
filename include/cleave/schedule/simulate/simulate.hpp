// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/list_runner.hpp"
#include "cleave/schedule/model/pass_marks.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/verify/wait_report.hpp"

namespace cleave::inline v0_2::detail {

/// A time from which something can be used, and the action that determines it.
struct time_point {
  double time = 0;
  action_place by = no_action;

  void raise(time_point const& other) {
    if (other.time > time) *this = other;
  }
};

/// The units of a rank that run concurrently with its passes. Each runs its actions in order.
enum class rank_engine : std::uint8_t { collectives, copies };

/// The clock of one rank, and the times of its actions.
class rank_clock {
 public:
  rank_clock(rank_id r, std::size_t actions) : rank_(r), spans_(actions), causes_(actions) {}

  /// Returns the time from which the rank can run its next action.
  time_point const& free() const { return free_; }
  action_place place(std::size_t position) const { return {rank_, static_cast<std::uint32_t>(position)}; }

  /// Runs an action that computes, from `begin` on.
  void compute(std::size_t position, time_point const& begin, double time) {
    if (time > 0 && !std::exchange(has_begun_, true)) first_ = begin.time;
    busy_ += time;
    note(position, begin, begin.time + time);
    free_ = {begin.time + time, place(position)};
  }
  /// Runs an action without a duration that blocks the rank until `ready`.
  void wait_until(std::size_t position, time_point const& ready) {
    auto end = free_;
    end.raise(ready);
    causes_[position] = end.by;
    spans_[position] = {free_.time, end.time};
    if (end.time > free_.time) free_ = {end.time, place(position)};
  }
  /// Runs an action that occupies the rank without computing.
  void spend(std::size_t position, double time) {
    note(position, free_, free_.time + time);
    if (time > 0) free_ = {free_.time + time, place(position)};
  }
  /// Occupies the rank for more time after an action whose span is already recorded.
  void lengthen(std::size_t position, double time) { free_ = {free_.time + time, place(position)}; }

  /// Runs an action on an engine, concurrently with the actions after it, from `begin` on. Returns the time
  /// at which it is done.
  time_point go_beside(std::size_t position, time_point begin, double time, rank_engine e) {
    auto& engine = engines_[static_cast<std::size_t>(e)];
    begin.raise(engine);
    engine = {begin.time + time, place(position)};
    note(position, begin, engine.time);
    return engine;
  }

  /// Records the time of an action. A part of a compound runs from `begin` on.
  void note(std::size_t position, time_point const& begin, double end) {
    spans_[position] = {begin.time, end};
    causes_[position] = begin.by;
  }
  /// Records the time of a compound: from the start of its first part, which is the next action, until now.
  void close_compound(std::size_t head) {
    spans_[head] = {spans_[head + 1].begin, free_.time};
    causes_[head] = causes_[head + 1];
  }

  /// Appends the results of the rank.
  void append_to(schedule_times& to) {
    to.busy.push_back(busy_);
    to.first.push_back(first_);
    to.last.push_back((std::max)({free_.time, engines_[0].time, engines_[1].time}));
    to.makespan = (std::max)(to.makespan, to.last.back());
    to.spans.push_back(std::move(spans_));
    to.causes.push_back(std::move(causes_));
  }

 private:
  rank_id rank_;
  time_point free_;
  time_point engines_[2];
  double busy_ = 0, first_ = 0;
  bool has_begun_ = false;  // to compute
  std::vector<time_span> spans_;
  std::vector<action_place> causes_;
};

/// The state of a message: with `sent` or `awaited`, only that end has begun; with `there`, both have begun.
enum class message_place : std::uint8_t { nowhere, sent, awaited, leaving, there };

struct message_state {
  /// The time at which an end began or, for `there`, at which the message can be used, and the action that
  /// determines it.
  time_point since;
  message_place where = message_place::nowhere;
};

/// The times at which messages can be used. Messages of a directed pair of ranks leave one after the other,
/// in the order in which they are sent.
class message_times {
 public:
  /// Precondition: the options are valid for the schedule. O(edges log edges + messages).
  message_times(schedule const& s, simulate_options const& o)
      : noise_(o.noise, o.seed),
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
    find_uplinks(o, s.place);
  }

  step_index const& numbers() const { return numbers_; }
  message_state& at(message_id const& m) { return messages_[numbers_.message(m)]; }
  message_state const& at(message_id const& m) const { return messages_[numbers_.message(m)]; }
  bool crosses_ranks(std::uint32_t edge) const {
    return ways_[std::size_t{2} * edge].from != ways_[std::size_t{2} * edge].to;
  }

  /// Returns the time in which all bytes of a message leave.
  double transfer(message_id const& m) const { return ways_[way_of(m)].transfer * factor(m); }

  /// Begins one end of a message. Returns true if the other end has begun, so that the message arrives.
  /// Repeating an end changes nothing.
  bool begin_send(message_id const& m, time_point const& now) {
    return begin(m, now, message_place::sent, message_place::awaited);
  }
  bool begin_receive(message_id const& m, time_point const& now) {
    return begin(m, now, message_place::awaited, message_place::sent);
  }

  /// Lets a message leave from `ready` on, once its channels are free, or at once if leaving takes no time.
  /// Returns false if it leaves with `leave_next`: uplinks are free for messages in the order of time.
  bool leave(message_id const& m, time_point const& ready) {
    if (uplinks_.empty()) {
      depart(m, ready);
      return true;
    }
    at(m).where = message_place::leaving;
    leaving_.push_back({ready, m, leaving_since_++});
    std::ranges::push_heap(leaving_, later{});
    return false;
  }
  /// Lets the message leave that is ready first. Returns it, or nothing if there is none. Precondition: no
  /// rank can continue without it, so that no other message is ready before.
  std::optional<message_id> leave_next() {
    if (leaving_.empty()) return std::nullopt;
    std::ranges::pop_heap(leaving_, later{});
    auto const next = leaving_.back();
    leaving_.pop_back();
    depart(next.what, next.ready);
    return next.what;
  }

 private:
  struct one_way {
    double latency = 0, transfer = 0;
    std::uint32_t channel = 0;
    rank_id from{}, to{};
  };
  /// A direction of an uplink.
  struct uplink_use {
    double transfer;
    std::uint32_t channel;
  };
  struct ready_message {
    time_point ready;
    message_id what;
    std::uint64_t order;  ///< among messages that are ready at the same time
  };
  struct later {
    bool operator()(ready_message const& a, ready_message const& b) const {
      return a.ready.time != b.ready.time ? a.ready.time > b.ready.time : a.order > b.order;
    }
  };

  void depart(message_id const& m, time_point const& ready) {
    auto const w = way_of(m);
    auto const& way = ways_[w];
    auto const share = factor(m);
    double left = ready.time;
    auto const uses = uplinks_.empty() ? std::span<uplink_use const>() : uplinks_[w];
    if (way.transfer > 0 || !uses.empty()) {
      left = (std::max)(left, channel_free_[way.channel]);
      for (auto const& u : uses) left = (std::max)(left, channel_free_[u.channel]);
      double last = left + way.transfer * share;
      for (auto const& u : uses) {
        channel_free_[u.channel] = left + u.transfer * share;
        last = (std::max)(last, channel_free_[u.channel]);
      }
      left = channel_free_[way.channel] = last;
    }
    auto& message = at(m);
    message.since = {left + way.latency * share, ready.by};
    message.where = message_place::there;
  }

  static std::size_t way_of(message_id const& m) { return step_index::way(m.edge, m.flow); }
  double factor(message_id const& m) const {
    auto const kind =
        m.flow == edge_flow::activations ? action_kind::send_activation : action_kind::send_gradient;
    return noise_.factor(kind, m.edge, m.microbatch);
  }

  static one_way make_way(simulate_options const& o, std::uint32_t ranks, rank_id from, rank_id to,
                          std::uint64_t bytes) {
    auto const link = one_or_each(o.links).of(std::size_t{index(from)} * ranks + index(to));
    return {o.base_latency + link.latency, static_cast<double>(bytes) / link.bandwidth, 0, from, to};
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

  /// Finds the uplinks on each way: those that only one end belongs to. O(uplinks · (ranks + edges)).
  void find_uplinks(simulate_options const& o, stage_placement const& p) {
    if (o.uplinks.empty()) return;
    uplinks_.resize(ways_.size());
    for (auto const& group : o.uplinks) {
      std::vector<char> is_inside(p.ranks);
      for (auto const r : group.ranks) is_inside[index(r)] = 1;
      auto const out = static_cast<std::uint32_t>(channel_free_.size());
      channel_free_.resize(out + std::size_t{2});
      for (std::size_t w = 0; w < ways_.size(); ++w) {
        bool const from = is_inside[index(ways_[w].from)], to = is_inside[index(ways_[w].to)];
        auto const size = one_or_each(o.bytes).of(w / 2);
        auto const bytes = static_cast<double>(w % 2 == 0 ? size.activation : size.gradient);
        if (from == to || bytes == 0) continue;
        uplinks_[w].push_back({bytes / group.bandwidth, from ? out : out + 1});
      }
    }
  }

  bool begin(message_id const& m, time_point now, message_place here, message_place other) {
    auto& message = at(m);
    if (message.where == message_place::nowhere) {
      message.since = now;
      message.where = here;
    }
    if (message.where != other) return false;
    if (message.since.time >= now.time) now = message.since;
    return leave(m, now);
  }

  noise noise_;
  step_index numbers_;
  std::vector<one_way> ways_;  ///< two per edge: activations, then gradients
  std::vector<message_state> messages_;
  std::vector<std::vector<uplink_use>> uplinks_;  ///< by way; empty if there are no uplinks
  std::vector<double> channel_free_;              ///< by directed pair of ranks, then by direction of uplinks
  std::vector<ready_message> leaving_;            ///< a heap, with uplinks only
  std::uint64_t leaving_since_ = 0;
};

/// Runs every list in order, each action as soon as its rank is free and its dependencies are met, for
/// `simulate`.
class time_walk {
 public:
  /// Keeps references to both. Precondition: the options are valid for the schedule.
  /// \throws invalid_action_error, stage_placement_error, schedule_count_error
  time_walk(schedule const& s, simulate_options const& options)
      : schedule_((require_valid_actions(s), s)),
        options_(options),
        dependencies_(s),
        noise_(options.noise, options.seed),
        messages_(s, options),
        marks_(step_index_of(s)),
        weights_(s.place.stages()),
        reduced_(s.place.stages()),
        compounds_(s.ranks.size()),
        runner_(lengths_of(s.ranks), messages_.numbers().messages()) {
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) clocks_.emplace_back(rank_id{r}, s.ranks[r].size());
  }

  /// Runs the lists. Returns true if all ranks finish. O(actions).
  bool run() {
    return runner_.run([this](std::uint32_t r) { return step(r); },
                       [this] {
                         auto const left = messages_.leave_next();
                         if (left) wake(*left);
                         return left.has_value();
                       });
  }

  schedule_times take() {
    schedule_times times;
    for (auto& clock : clocks_) clock.append_to(times);
    return times;
  }

  /// Returns the position of each rank in its list.
  list_runner const& progress() const { return runner_; }
  /// Visits the dependencies of an action until a call returns false. Calls `pass(stage, mark)` for passes of
  /// the same rank, and `message(edge, flow)` for messages.
  template <class Pass, class Message>
  bool each_dependency(action const& a, Pass pass, Message message) const {
    return each_dependency_of(a, dependencies_.edges(), pass, [&](std::uint32_t e, edge_flow flow) {
      if (messages_.crosses_ranks(e)) return message(e, flow);
      auto const& edge = schedule_.place.edges[e];
      return flow == edge_flow::activations ? pass(index(edge.from), pass_mark::forward)
                                            : pass(index(edge.to), pass_mark::gradient);
    });
  }
  schedule_dependencies const& dependencies() const { return dependencies_; }
  pass_marks const& marks() const { return marks_; }
  message_times const& messages() const { return messages_; }

 private:
  /// The compound whose parts a rank is running; none if `end` is 0.
  struct compound {
    std::size_t begin = 0, end = 0;
  };

  /// Does the next action of rank `r` if it can be done now. Returns true if so.
  bool step(std::uint32_t r) {
    auto const position = runner_.position(r);
    auto const& row = schedule_.ranks[r];
    action const& a = row[position];
    if (a.parts > 0) {
      auto const parts =
          std::span(row).subspan(position + 1, (std::min)(std::size_t{a.parts}, row.size() - position - 1));
      bool const all_compute =
          std::all_of(parts.begin(), parts.end(), [](action const& part) { return is_compute(part.kind); });
      if (options_.compounds != compound_time::one_after_the_other && all_compute) return run_together(r);
      if (time_of_pair(parts)) return run_together(r);
      compounds_[r] = {position + 1, position + 1 + a.parts};
      if (options_.messages == message_time::within) send_first(r);
    } else if (!run_alone(r, a)) {
      return false;
    }
    runner_.pass(r);
    if (runner_.position(r) == compounds_[r].end) end_compound(r);
    return true;
  }

  /// Runs the sends of a compound first, since no receive may delay a send of the same exchange.
  void send_first(std::uint32_t r) {
    auto const& row = schedule_.ranks[r];
    for (auto i = compounds_[r].begin; i < compounds_[r].end; ++i)
      if (is_send(row[i].kind)) run_message(r, i, row[i]);
  }

  void end_compound(std::uint32_t r) {
    auto const [begin, end] = std::exchange(compounds_[r], {});
    clocks_[r].close_compound(begin - 1);
    for (auto i = begin; i < end; ++i) publish(r, i, end - 1);
  }

  bool run_alone(std::uint32_t r, action const& a) {
    using enum action_kind;
    auto const position = runner_.position(r);
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
        return move_saved(r, a);
      default:
        clock.wait_until(position, {});
        return true;
    }
  }

  bool run_pass(std::uint32_t r, action const& a) {
    auto const position = runner_.position(r);
    auto begin = clocks_[r].free();
    if (!can_begin(r, a, begin)) return false;
    clocks_[r].compute(position, begin, time_of(a));
    marks_.set_done(a);
    if (compounds_[r].end == 0) publish(r, position, position);
    return true;
  }

  /// Runs all parts of a compound, from the time at which the last of them can begin.
  bool run_together(std::uint32_t r) {
    auto const head = runner_.position(r);
    auto const parts = std::span(schedule_.ranks[r]).subspan(head + 1, schedule_.ranks[r][head].parts);
    auto begin = clocks_[r].free();
    for (action const& a : parts)
      if (!can_begin(r, a, begin)) return false;
    auto const pair = time_of_pair(parts);
    bool const in_turn = !pair && options_.compounds == compound_time::in_turn;
    double whole = 0;
    auto last = head;
    for (action const& a : parts) {
      double const time = pair ? *pair : time_of(a), from = begin.time + (in_turn ? whole : 0);
      clocks_[r].note(++last, {from, begin.by}, from + time);
      whole = in_turn ? whole + time : (std::max)(whole, time);
      marks_.set_done(a);
    }
    clocks_[r].compute(head, begin, whole);
    runner_.pass(r, 1 + parts.size());
    for (auto i = head + 1; i <= last; ++i) publish(r, i, head);
    return true;
  }

  /// Sends the results of a pass to other ranks when action `last` is done, in a schedule without messages of
  /// its own.
  void publish(std::uint32_t r, std::size_t position, std::size_t last) {
    using enum action_kind;
    action const& a = schedule_.ranks[r][position];
    if (dependencies_.messages() || !is_compute(a.kind) || a.kind == weight_gradient) return;
    auto const s = index(a.stage);
    auto const& edges = dependencies_.edges();
    if (a.kind == action_kind::forward)
      for (auto e = edges.begin_from(s); e < edges.end_from(s); ++e)
        leave(r, last, {e, edge_flow::activations, a.microbatch});
    else
      for (auto const e : edges.to(s)) leave(r, last, {e, edge_flow::gradients, a.microbatch});
  }

  void leave(std::uint32_t r, std::size_t last, message_id const& id) {
    auto const where = messages_.at(id).where;
    if (!messages_.crosses_ranks(id.edge) || where == message_place::there || where == message_place::leaving)
      return;
    if (!messages_.leave(id, {clocks_[r].free().time, clocks_[r].place(last)})) return;
    if (options_.messages == message_time::within) clocks_[r].lengthen(last, messages_.transfer(id));
    wake(id);
  }

  bool run_message(std::uint32_t r, std::size_t position, action const& a) {
    auto const edge = dependencies_.edge_of(a);
    if (edge == schedule_dependencies::none || !messages_.crosses_ranks(edge)) {
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
      if (message.where != message_place::there) return wait_for(r, id);
      clock.wait_until(position, message.since);
      return true;
    }
    clock.wait_until(position, {});
    time_point const now{clock.free().time, clock.place(position)};
    if (is_send(a.kind) ? messages_.begin_send(id, now) : messages_.begin_receive(id, now)) wake(id);
    return true;
  }

  /// Runs a message that occupies the rank. Here `sent` means in flight, and `there` received.
  bool run_within(std::uint32_t r, std::size_t position, action const& a, message_id const& id) {
    auto& message = messages_.at(id);
    auto& clock = clocks_[r];
    if (is_receive(a.kind)) {
      if (message.where == message_place::nowhere) return wait_for(r, id);
      message.where = message_place::there;
      clock.wait_until(position, message.since);
    } else if (is_wait_send(a.kind)) {
      clock.wait_until(position, {});
    } else if (message.where == message_place::nowhere) {
      messages_.leave(id, {clock.free().time, clock.place(position)});
      message.where = message_place::sent;
      clock.spend(position, messages_.transfer(id));
      wake(id);
    }
    return true;
  }

  bool move_saved(std::uint32_t r, action const& a) {
    auto begin = clocks_[r].free();
    if (!can_begin(r, a, begin)) return false;
    auto const moved = clocks_[r].go_beside(runner_.position(r), begin, time_of(a), rank_engine::copies);
    if (a.kind != action_kind::reload) return true;
    reloaded_.resize(marks_.pairs());
    reloaded_[marks_.pair_of(a)] = moved;
    return true;
  }

  double time_of(action const& a) const {
    return one_or_each(options_.costs).of(index(a.stage)).of(a.kind) *
           noise_.factor(a.kind, index(a.stage), a.microbatch);
  }

  /// Returns the duration of an overlapped pair of passes, if their stage has one.
  std::optional<double> time_of_pair(std::span<action const> parts) const {
    auto const* const forward = overlapped_forward(parts);
    if (!forward || !one_or_each(options_.costs).of(index(forward->stage)).overlapped) return std::nullopt;
    return time_of(
        {.kind = action_kind::overlap, .stage = forward->stage, .microbatch = forward->microbatch});
  }

  /// Moves `begin` to the time at which all dependencies of a pass are met, or waits for a message. Returns
  /// false if it cannot begin; a missing pass of the same rank never comes.
  bool can_begin(std::uint32_t r, action const& a, time_point& begin) {
    bool const is_ready = each_dependency(
        a, [&](std::uint32_t s, pass_mark which) { return marks_.is_done(s, a.microbatch, which); },
        [&](std::uint32_t edge, edge_flow flow) {
          message_id const id{edge, flow, a.microbatch};
          auto const& message = messages_.at(id);
          if (message.where != message_place::there) return wait_for(r, id);
          begin.raise(message.since);
          return true;
        });
    if (!is_ready) return false;
    if (a.kind != action_kind::offload && a.kind != action_kind::reload)
      begin.raise(weights_[index(a.stage)]);
    if (!reloaded_.empty()) begin.raise(reloaded_[marks_.pair_of(a)]);
    return true;
  }

  bool wait_for(std::uint32_t r, message_id const& id) {
    return !runner_.waits_for(r, messages_.numbers().message(id));
  }
  void wake(message_id const& id) { runner_.wake(messages_.numbers().message(id)); }

  schedule const& schedule_;
  simulate_options const& options_;
  schedule_dependencies dependencies_;
  noise noise_;
  message_times messages_;
  pass_marks marks_;
  std::vector<time_point> weights_, reduced_;  // by stage
  std::vector<time_point> reloaded_;           // by stage and microbatch, empty until the first reload
  std::vector<compound> compounds_;
  std::vector<rank_clock> clocks_;
  list_runner runner_;
};

/// Finds the actions that wait for each other once no rank can continue.
class simulated_waits {
 public:
  /// Keeps references to both. Precondition: the walk has run.
  simulated_waits(schedule const& s, time_walk const& walk) : schedule_(s), walk_(walk) {}

  /// O(ranks · (the longest list + ranks)).
  deadlock found() const {
    std::vector<list_wait> waits;
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      if (walk_.progress().is_finished(r)) continue;
      auto const w = wait_of(r);
      waits.push_back({w, r, is_to_come(w) ? index(w.for_rank) : list_wait::no_list});
    }
    return report_waits(waits, walk_.progress());
  }

 private:
  /// Returns the first thing that the next action of rank `r` waits for. Precondition: it waits.
  waiting_action wait_of(std::uint32_t r) const {
    auto const& row = schedule_.ranks[r];
    auto const first = walk_.progress().position(r);
    for (auto i = first; i <= first + row[first].parts; ++i) {
      action const& a = row[i];
      if (a.parts > 0) continue;
      if (action missing; !has_dependencies(a, missing))
        return {rank_id{r}, i, a, schedule_.place.rank_of[index(missing.stage)], missing};
    }
    return {rank_id{r}, first, row[first], rank_id{r}, row[first]};
  }

  /// Returns true if all dependencies are met. Otherwise `missing` is the action that has to be done.
  bool has_dependencies(action const& a, action& missing) const {
    auto const has_message = [&](std::uint32_t edge, edge_flow flow) {
      auto const where = walk_.messages().at({edge, flow, a.microbatch}).where;
      if (where == message_place::there) return true;
      missing = missing_end(a, where, walk_.dependencies().send_done(edge, flow, a.microbatch));
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
    if (!is_message(a.kind)) return walk_.each_dependency(a, has_pass, has_message);
    auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
    return has_message(walk_.dependencies().edge_of(a), flow);
  }

  /// Returns the end of a message that has not begun. If neither has, it is the end of the waiting rank. In a
  /// schedule without messages it is the pass that makes the value.
  action missing_end(action const& a, message_place where, std::uint32_t send) const {
    auto const sender = walk_.dependencies().action_of(send);
    if (!walk_.dependencies().messages())
      return {
          .kind = sender.kind == action_kind::send_activation ? action_kind::forward : action_kind::backward,
          .stage = sender.stage,
          .microbatch = a.microbatch};
    bool const sends = is_wait_send(a.kind);
    bool const waits_to_receive = is_receive(a.kind) || where == message_place::awaited;
    bool const for_receive = sends ? where == message_place::sent : !waits_to_receive;
    return for_receive ? walk_.dependencies().action_of(schedule_dependencies::receive_of(send)) : sender;
  }

  /// Returns true if the awaited action is still ahead in the list of its rank.
  bool is_to_come(waiting_action const& w) const {
    auto const owner = index(w.for_rank);
    auto wanted = w.for_what;
    auto const& row = schedule_.ranks[owner];
    for (auto i = walk_.progress().position(owner); i < row.size(); ++i) {
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

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if a schedule deadlocks. The witness is the deadlock.
using deadlock_error = tagged_error<struct deadlock_tag, deadlock>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Checks the options. \throws stage_cost_error, simulate_option_error
inline void require_simulate_options(simulate_options const& o, stage_placement const& p) {
  if (auto const f = find_stage_cost_fault(o.costs)) throw stage_cost_error(*f);
  if (auto const f = find_simulate_option_fault(o, p)) throw simulate_option_error(*f);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns where ranks deadlock when a schedule is simulated, or nothing if all ranks finish.
///
/// The result agrees with `find_deadlock` for `delivery::async`, and for `delivery::buffered` with
/// `message_time::within`. There is one exception: a compound whose parts begin together also waits for
/// actions of its own. O(actions), and O(ranks · (the longest list + ranks)) for a deadlock.
/// \throws as `simulate`, but no deadlock_error
inline std::optional<deadlock> find_simulated_deadlock(schedule const& s, simulate_options const& o = {}) {
  detail::require_simulate_options(o, s.place);
  detail::time_walk walk(s, o);
  if (walk.run()) return std::nullopt;
  return detail::simulated_waits(s, walk).found();
}

/// Returns the time of every action of a schedule, with or without messages. Every rank runs its list in
/// order, each action as soon as the rank is free and its dependencies are met.
///
/// Gathered weights, reductions of gradients and offloaded activations move concurrently with the passes of a
/// rank. Messages move as the options say. Equal options give equal times. O(actions).
/// \throws stage_cost_error, simulate_option_error, invalid_action_error, stage_placement_error,
///   schedule_count_error, deadlock_error
inline schedule_times simulate(schedule const& s, simulate_options const& o = {}) {
  detail::require_simulate_options(o, s.place);
  detail::time_walk walk(s, o);
  if (!walk.run()) {
    auto const d = detail::simulated_waits(s, walk).found();
    throw deadlock_error(
        "simulate: ranks wait forever: " + describe(d) + "; reorder the actions that they wait for", d);
  }
  auto times = walk.take();
  times.most_kept = detail::most_kept_passes(s);
  return times;
}

}  // namespace cleave
