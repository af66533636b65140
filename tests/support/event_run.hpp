// SPDX-License-Identifier: MIT
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

/// The simplest discrete-event simulation of a schedule, as a reference for tests. It always begins the
/// action that can begin first, and looks up everything by name.
namespace cleave::testing {

using namespace detail;

class event_run {
 public:
  event_run(schedule const& s, simulate_options o)
      : s_(s), o_(std::move(o)), noise_(o_.noise, o_.seed), at_(s.ranks.size()), free_(s.ranks.size()) {
    for (auto const& row : s.ranks) {
      spans.emplace_back(row.size());
      for (action const& a : row) has_messages_ |= is_message(a.kind);
    }
    busy.resize(at_.size());
    while (run_next()) {
    }
    for (std::size_t r = 0; r < at_.size(); ++r) {
      stuck |= at_[r] < s.ranks[r].size();
      last.push_back(std::max({free_[r], engine_[{r, 0}], engine_[{r, 1}]}));
      makespan = std::max(makespan, last[r]);
    }
  }

  /// Returns the number of finished actions in the list of each rank.
  std::vector<std::size_t> const& positions() const { return at_; }
  /// Returns the blocked position of each rank that does not finish. In a compound it is the first part that
  /// cannot begin.
  std::vector<std::pair<rank_id, std::size_t>> waits() const {
    std::vector<std::pair<rank_id, std::size_t>> all;
    for (std::uint32_t r = 0; r < at_.size(); ++r) {
      auto const& row = s_.ranks[r];
      auto i = at_[r];
      if (i == row.size()) continue;
      if (together(r, i))
        for (double t = 0; wait(row[++i], t);) {
        }
      all.push_back({rank_id{r}, i});
    }
    return all;
  }

  bool stuck = false;
  double makespan = 0;
  std::vector<double> busy, last;
  std::vector<std::vector<std::pair<double, double>>> spans;

 private:
  /// A tensor made by a pass: kind F is the output of a forward pass, B that of a backward pass.
  using value = std::tuple<stage_id, microbatch_id, action_kind>;
  using message = std::tuple<stage_id, stage_id, microbatch_id, bool>;  // from, to, microbatch, is a gradient
  static constexpr double unknown = -1;

  rank_id home(stage_id s) const { return s_.place.rank_of[index(s)]; }
  double time_of(action const& a) const {
    stage_cost const plain;
    auto const& cost = o_.costs.empty()       ? plain
                       : o_.costs.size() == 1 ? o_.costs[0]
                                              : o_.costs[index(a.stage)];
    return cost.of(a.kind) * noise_.factor(a.kind, index(a.stage), a.microbatch);
  }
  /// Returns true if all parts of the compound begin at once.
  bool together(std::size_t r, std::size_t head) const {
    auto const parts = std::span(s_.ranks[r]).subspan(head + 1, s_.ranks[r][head].parts);
    bool const all = o_.compounds != compound_time::one_after_the_other || time_of_both(r, head);
    return all && !parts.empty() &&
           std::ranges::all_of(parts, [](action const& a) { return is_compute(a.kind); });
  }
  /// Returns the time of an OVERLAP_F_B of an F and a B whose stage says how long both take.
  std::optional<double> time_of_both(std::size_t r, std::size_t head) const {
    auto const& row = s_.ranks[r];
    if (row[head].parts != 2) return std::nullopt;
    for (auto const& [f, b] : {std::pair(head + 1, head + 2), {head + 2, head + 1}}) {
      if (row[f].kind != action_kind::forward || row[b].kind != action_kind::backward) continue;
      auto const s = index(row[f].stage);
      auto const known = o_.costs.empty() ? std::nullopt : o_.costs[o_.costs.size() == 1 ? 0 : s].overlapped;
      if (known) return *known * noise_.factor(action_kind::overlap, s, row[f].microbatch);
    }
    return std::nullopt;
  }

  bool run_next() {
    std::optional<std::pair<double, std::size_t>> best;
    for (std::size_t r = 0; r < at_.size(); ++r)
      if (auto const t = start(r); t && (!best || *t < best->first)) best = {*t, r};
    if (best) begin(best->second, best->first);
    return best.has_value();
  }

  std::optional<double> start(std::size_t r) const {
    auto const& row = s_.ranks[r];
    if (at_[r] == row.size()) return std::nullopt;
    action const& a = row[at_[r]];
    double t = free_[r];
    if (together(r, at_[r])) {
      for (std::size_t i = 1; i <= a.parts; ++i)
        if (!wait(row[at_[r] + i], t)) return std::nullopt;
      return t;
    }
    return a.parts > 0 || wait(a, t) ? std::optional(t) : std::nullopt;
  }

  static bool latest(std::map<value, double> const& in, value const& v, double& t) {
    auto const found = in.find(v);
    if (found != in.end()) t = std::max(t, found->second);
    return found != in.end();
  }
  /// Advances `t` to the time at which the inputs of an action are available. Returns false if they never are
  /// so far.
  bool wait(action const& a, double& t) const {
    using enum action_kind;
    bool const within = o_.messages == message_time::within;
    if (is_message(a.kind)) {
      auto const m = name(a);
      if (home(std::get<0>(m)) == home(std::get<1>(m)) || is_send(a.kind)) return true;
      if (is_receive(a.kind) && !within) return true;
      if (is_wait_send(a.kind) && within) return true;
      auto const& known = within ? sent_ : there_;
      auto const found = known.find(m);
      if (found == known.end()) return false;
      t = std::max(t, found->second);
      return true;
    }
    if (a.kind == wait_reduce_gradient) {
      if (auto const at = reduced_.find(a.stage); at != reduced_.end()) t = std::max(t, at->second);
      return true;
    }
    if (!is_compute(a.kind) && a.kind != recompute && a.kind != offload && a.kind != reload) return true;
    bool const copies = a.kind == offload || a.kind == reload;
    if (auto const at = weights_.find(a.stage); at != weights_.end() && !copies) t = std::max(t, at->second);
    if (auto const at = reloaded_.find({a.stage, a.microbatch, action_kind::forward}); at != reloaded_.end())
      t = std::max(t, at->second);
    if (a.kind == weight_gradient) return latest(made_, {a.stage, a.microbatch, input_gradient}, t);
    bool const is_forward = a.kind == action_kind::forward;
    if (!is_forward && !latest(made_, {a.stage, a.microbatch, action_kind::forward}, t)) return false;
    if (!is_forward && a.kind != action_kind::backward && a.kind != input_gradient) return true;
    for (auto const& e : s_.place.edges) {
      if ((is_forward ? e.to : e.from) != a.stage) continue;
      auto const other = is_forward ? e.from : e.to;
      auto const kind = is_forward ? action_kind::forward : action_kind::backward;
      if (home(other) == home(a.stage)) {
        if (!latest(made_, {other, a.microbatch, kind}, t)) return false;
        continue;
      }
      auto const found = there_.find({other, a.stage, a.microbatch, !is_forward});
      if (found == there_.end()) return false;
      t = std::max(t, found->second);
    }
    return true;
  }

  static message name(action const& a) {
    bool const gradient = !is_activation_message(a.kind);
    return is_receive(a.kind) ? message{a.peer, a.stage, a.microbatch, gradient}
                              : message{a.stage, a.peer, a.microbatch, gradient};
  }

  void begin(std::size_t r, double t) {
    auto const& row = s_.ranks[r];
    auto const head = at_[r];
    action const& a = row[head];
    if (together(r, head)) {
      double whole = 0;
      auto const both = time_of_both(r, head);
      for (std::size_t i = head + 1; i <= head + a.parts; ++i) {
        if (both) {
          spans[r][i] = {t, t + *both};
          whole = *both;
          continue;
        }
        bool const in_turn = o_.compounds == compound_time::in_turn;
        double const from = t + (in_turn ? whole : 0);
        spans[r][i] = {from, from + time_of(row[i])};
        whole = in_turn ? whole + time_of(row[i]) : std::max(whole, time_of(row[i]));
      }
      free_[r] = t + whole;
      busy[r] += whole;
      spans[r][head] = {t, free_[r]};
      for (std::size_t i = head + 1; i <= head + a.parts; ++i) make(row[i], t + whole);
      for (std::size_t i = head + 1; i <= head + a.parts; ++i) tell(r, row[i]);
      at_[r] += 1 + a.parts;
      return;
    }
    ++at_[r];
    if (a.parts > 0) {
      compound_[r] = {head, head + a.parts};
      if (o_.messages == message_time::within)  // a receive must not delay a send
        for (std::size_t i = head + 1; i <= head + a.parts; ++i)
          if (is_send(row[i].kind)) do_one(r, i, free_[r]);
      return;
    }
    do_one(r, head, t);
    auto const open = compound_.find(r);
    if (open == compound_.end()) return tell(r, a);
    auto const [first, end] = open->second;
    if (head < end) return;
    compound_.erase(open);
    spans[r][first] = {spans[r][first + 1].first, free_[r]};
    for (auto i = first + 1; i <= end; ++i) tell(r, row[i]);
  }

  void do_one(std::size_t r, std::size_t i, double t) {
    using enum action_kind;
    action const& a = s_.ranks[r][i];
    if (is_send(a.kind) && o_.messages == message_time::within && sent_.contains(name(a))) return;
    bool const reduces = a.kind == unshard || a.kind == reduce_gradient;
    if (reduces || a.kind == offload || a.kind == reload) {
      auto& engine = engine_[{r, reduces ? 0 : 1}];
      double const from = std::max(t, engine);
      engine = from + time_of(a);
      spans[r][i] = {from, engine};
      if (a.kind == unshard) weights_[a.stage] = engine;
      if (a.kind == reduce_gradient) reduced_[a.stage] = engine;
      if (a.kind == reload) reloaded_[{a.stage, a.microbatch, action_kind::forward}] = engine;
      return;
    }
    bool const computes = is_compute(a.kind) || a.kind == recompute;
    spans[r][i] = {computes ? t : free_[r], t + (computes ? time_of(a) : 0)};
    free_[r] = spans[r][i].second;
    if (computes) busy[r] += time_of(a);
    if (is_compute(a.kind)) make(a, free_[r]);
    if (is_send(a.kind) || is_receive(a.kind)) move(r, i, a);
  }

  void make(action const& a, double t) {
    using enum action_kind;
    bool const is_forward = a.kind == action_kind::forward;
    if (a.kind == weight_gradient) return;
    made_[{a.stage, a.microbatch, is_forward ? action_kind::forward : action_kind::backward}] = t;
    if (a.kind == input_gradient) made_[{a.stage, a.microbatch, input_gradient}] = t;
  }

  void move(std::size_t r, std::size_t i, action const& a) {
    auto const m = name(a);
    if (home(std::get<0>(m)) == home(std::get<1>(m))) return;
    if (o_.messages == message_time::within) {
      if (is_receive(a.kind)) {
        there_[m] = sent_[m];
      } else {
        sent_[m] = leave(m, free_[r]);
        spans[r][i].second = free_[r] = free_[r] + transfer(m);
      }
      return;
    }
    (is_send(a.kind) ? sent_ : awaited_)[m] = free_[r];
    if (sent_.contains(m) && awaited_.contains(m)) there_[m] = leave(m, std::max(sent_[m], awaited_[m]));
  }

  /// Delivers the result of a pass to other ranks, in a schedule without messages.
  void tell(std::size_t r, action const& a) {
    if (has_messages_ || !is_compute(a.kind) || a.kind == action_kind::weight_gradient) return;
    bool const is_forward = a.kind == action_kind::forward;
    for (auto const& e : s_.place.edges) {
      if ((is_forward ? e.from : e.to) != a.stage || home(e.from) == home(e.to)) continue;
      message const m{a.stage, is_forward ? e.to : e.from, a.microbatch, !is_forward};
      there_[m] = leave(m, free_[r]);
      if (o_.messages == message_time::within) free_[r] += transfer(m);
    }
  }

  std::size_t edge_of(message const& m) const {
    auto const [from, to, i, gradient] = m;
    for (std::size_t e = 0; e < s_.place.edges.size(); ++e)
      if (s_.place.edges[e] == (gradient ? stage_edge{to, from} : stage_edge{from, to})) return e;
    return 0;
  }
  rank_link link_of(message const& m) const {
    if (o_.links.empty()) return {};
    if (o_.links.size() == 1) return o_.links[0];
    return o_.links[index(home(std::get<0>(m))) * s_.place.ranks + index(home(std::get<1>(m)))];
  }
  double share(message const& m) const {
    auto const kind = std::get<3>(m) ? action_kind::send_gradient : action_kind::send_activation;
    return noise_.factor(kind, static_cast<std::uint32_t>(edge_of(m)), std::get<2>(m));
  }
  double transfer(message const& m) const {
    auto const size = o_.bytes.empty()       ? edge_bytes{}
                      : o_.bytes.size() == 1 ? o_.bytes[0]
                                             : o_.bytes[edge_of(m)];
    auto const bytes = static_cast<double>(std::get<3>(m) ? size.gradient : size.activation);
    return bytes / link_of(m).bandwidth * share(m);
  }
  double leave(message const& m, double t) {
    if (transfer(m) > 0) {
      auto& free = channel_[{home(std::get<0>(m)), home(std::get<1>(m))}];
      t = free = std::max(free, t) + transfer(m);
    }
    return t + (o_.base_latency + link_of(m).latency) * share(m);
  }

  schedule const& s_;
  simulate_options o_;
  noise noise_;
  bool has_messages_ = false;
  std::vector<std::size_t> at_;
  std::vector<double> free_;
  std::map<std::size_t, std::pair<std::size_t, std::size_t>> compound_;  // by rank: its head and last part
  std::map<value, double> made_, reloaded_;
  std::map<message, double> sent_, awaited_, there_;
  std::map<stage_id, double> weights_, reduced_;
  std::map<std::pair<std::size_t, int>, double> engine_;  // by rank; 0 collectives, 1 copies
  std::map<std::pair<rank_id, rank_id>, double> channel_;
};

/// Checks that these times equal those of the reference simulation.
inline void check_same_times(schedule_times const& times, event_run const& plain) {
  REQUIRE(times.makespan == doctest::Approx(plain.makespan));
  for (std::size_t r = 0; r < plain.busy.size(); ++r) {
    REQUIRE(times.busy[r] == doctest::Approx(plain.busy[r]));
    REQUIRE(times.last[r] == doctest::Approx(plain.last[r]));
    for (std::size_t i = 0; i < plain.spans[r].size(); ++i) {
      CAPTURE(i);
      REQUIRE(times.spans[r][i].begin == doctest::Approx(plain.spans[r][i].first));
      REQUIRE(times.spans[r][i].end == doctest::Approx(plain.spans[r][i].second));
    }
  }
}

}  // namespace cleave::testing
