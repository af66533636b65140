// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/simulate/step_walk.hpp"

/// The simplest stepwise run of a schedule, as a reference for tests. In each step every rank is polled
/// twice.
namespace cleave::testing {

using namespace detail;

class step_run {
 public:
  explicit step_run(schedule const& s)
      : s_(s), at_(s.ranks.size()), part_(s.ranks.size()), rows_(s.ranks.size()) {
    for (auto const& row : s.ranks)
      each_action(row, [&](action const& a) {
        listed_.insert(key(a));
        messages_ |= is_message(a.kind);
      });
  }

  /// Returns the first pass or message end that is listed twice.
  std::optional<step_place> repeated() const {
    std::set<action_key> before;
    for (std::uint32_t r = 0; r < s_.ranks.size(); ++r)
      for (std::size_t i = 0; i < s_.ranks[r].size(); ++i) {
        action const& a = s_.ranks[r][i];
        bool const once = is_compute(a.kind) || is_send(a.kind) || is_receive(a.kind);
        if (once && !before.insert(key(a)).second) return step_place{rank_id{r}, i, a};
      }
    return std::nullopt;
  }

  /// Runs until a step changes nothing. Returns the position of each blocked rank; empty if all finish.
  std::vector<step_place> run() {
    for (bool more = true; more;) {
      more = false;
      std::size_t const before = done_.size() + others_;
      take_step();
      for (std::size_t r = 0; r < at_.size(); ++r) more |= skip_idle(r);
      if (more && before == done_.size() + others_) return waits();
    }
    return {};
  }

  /// Returns the lists with an idle step wherever a rank waits.
  std::vector<std::string> rows() const {
    std::vector<std::string> text;
    for (auto const& row : rows_) text.push_back(row_text(row));
    return text;
  }

 private:
  using action_key = std::tuple<action_kind, stage_id, microbatch_id, stage_id>;
  static action_key key(action const& a) { return {a.kind, a.stage, a.microbatch, a.peer}; }
  using enum action_kind;

  void take_step() {
    std::vector<char> acted(at_.size()), blank(at_.size());
    for (int turn = 0; turn < 2; ++turn)
      for (std::size_t r = 0; r < at_.size(); ++r) {
        if (acted[r] || !skip_idle(r)) continue;
        auto const cell = std::span(s_.ranks[r]).subspan(at_[r], std::size_t{1} + s_.ranks[r][at_[r]].parts);
        auto const parts = cell.size() == 1 ? cell : cell.subspan(1);
        while (part_[r] < parts.size() && is_ready(parts[part_[r]])) finish(parts[part_[r]++]);
        acted[r] = part_[r] == parts.size();
        if (acted[r]) {
          if (blank[r]) rows_[r].pop_back();
          rows_[r].insert(rows_[r].end(), cell.begin(), cell.end());
          at_[r] += cell.size();
          part_[r] = 0;
        } else if (turn == 0) {
          blank[r] = 1;
          rows_[r].emplace_back();
        }
      }
  }

  /// Returns true if any action is left.
  bool skip_idle(std::size_t r) {
    while (at_[r] < s_.ranks[r].size() && s_.ranks[r][at_[r]].kind == action_kind::idle) ++at_[r];
    return at_[r] < s_.ranks[r].size();
  }

  std::vector<step_place> waits() const {
    std::vector<step_place> all;
    for (std::uint32_t r = 0; r < at_.size(); ++r) {
      auto const& row = s_.ranks[r];
      if (at_[r] == row.size()) continue;
      auto const position = at_[r] + (row[at_[r]].parts > 0 ? 1 + part_[r] : 0);
      all.push_back({rank_id{r}, position, row[position]});
    }
    return all;
  }

  bool has(action_kind k, stage_id s, microbatch_id m, stage_id peer = no_stage) const {
    return done_.count({k, s, m, peer}) > 0;
  }
  bool has_gradient(stage_id s, microbatch_id m) const {
    return has(action_kind::backward, s, m) || has(input_gradient, s, m);
  }
  bool is_there_if_listed(action_kind k, action const& a) const {
    return listed_.count({k, a.stage, a.microbatch, no_stage}) == 0 || has(k, a.stage, a.microbatch);
  }

  bool is_ready(action const& a) const {
    auto const m = a.microbatch;
    switch (a.kind) {
      case action_kind::forward:
        for (auto const& e : s_.place.edges)
          if (e.to == a.stage && !(received(e) ? has(receive_activation, e.to, m, e.from)
                                               : has(action_kind::forward, e.from, m)))
            return false;
        return true;
      case action_kind::backward:
      case input_gradient:
        for (auto const& e : s_.place.edges)
          if (e.from == a.stage &&
              !(received(e) ? has(receive_gradient, e.from, m, e.to) : has_gradient(e.to, m)))
            return false;
        return is_there_if_listed(action_kind::forward, a);
      case weight_gradient:
        return is_there_if_listed(input_gradient, a);
      case send_activation:
        return has(action_kind::forward, a.stage, m);
      case send_gradient:
        return has_gradient(a.stage, m);
      case receive_activation:
        return has(send_activation, a.peer, m, a.stage);
      case receive_gradient:
        return has(send_gradient, a.peer, m, a.stage);
      case wait_send_activation:
        return has(send_activation, a.stage, m, a.peer) && has(receive_activation, a.peer, m, a.stage);
      case wait_send_gradient:
        return has(send_gradient, a.stage, m, a.peer) && has(receive_gradient, a.peer, m, a.stage);
      default:
        return true;
    }
  }
  bool received(stage_edge const& e) const {
    return messages_ && s_.place.rank_of[index(e.from)] != s_.place.rank_of[index(e.to)];
  }
  void finish(action const& a) {
    if (!done_.insert(key(a)).second) ++others_;
  }

  schedule const& s_;
  std::set<action_key> listed_, done_;
  std::size_t others_ = 0;  // actions that may be repeated
  bool messages_ = false;
  std::vector<std::size_t> at_, part_;
  std::vector<std::vector<action>> rows_;
};

}  // namespace cleave::testing
