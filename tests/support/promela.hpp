// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/detail/rank_channels.hpp"

namespace cleave::testing {

using namespace detail;

/// Writes the model of a schedule. Use `promela_text`.
class promela_writer {
 public:
  promela_writer(schedule const& s, delivery_rules const& rules)
      : schedule_(s), rules_(rules), dependencies_(s), lists_(s, rules), channels_(s.place) {
    for (std::uint32_t l = 0; l < lists_.count(); ++l)
      for (std::size_t i = 0; i < lists_[l].size(); i = lists_.end_of_group(l, i))
        has_groups_ |= ends_of(l, i).size() > 1;
    require_size();
  }

  std::string text() {
    declare();
    for (std::uint32_t l = 0; l < lists_.count(); ++l) write_list(l);
    if (has_streams())
      for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
        for (std::uint32_t peer = 0; peer < schedule_.ranks.size(); ++peer) write_stream(r, peer);
    return std::move(text_);
  }

 private:
  static constexpr std::uint32_t most_in_spin = 255;  // processes, and channels

  bool has_streams() const { return rules_.delivery == delivery::pair_stream; }
  bool has_limit() const { return rules_.delivery == delivery::buffered && rules_.buffers != any_number; }
  /// Returns true if messages go through Promela channels. Messages that begin together cannot.
  bool has_channels() const { return rules_.delivery != delivery::async && !has_groups_; }

  void require_size() const {
    auto most = lists_.count() + (has_streams() ? channels_.count() : 0);
    if (has_channels()) most = (std::max)({most, channels_.count(), capacity()});
    if (most > most_in_spin)
      throw schedule_count_error(
          "promela: " + std::to_string(most) +
              " processes, channels or messages in a channel are more than the 255 that spin takes",
          most);
  }

  std::vector<action> ends_of(std::uint32_t l, std::size_t i) const {
    std::vector<action> ends;
    for (auto const& a : lists_[l].subspan(i, lists_.end_of_group(l, i) - i))
      if ((is_send(a.kind) || is_receive(a.kind)) &&
          dependencies_.message_end(a) != schedule_dependencies::none)
        ends.push_back(a);
    return ends;
  }

  void declare() {
    auto const events = std::to_string((std::max)(dependencies_.events(), 1u));
    text_ += "/* A schedule as a model for spin: it gets stuck where spin finds an invalid end state. */\n";
    for (auto const* what : {"made", "begun", "there", "ended"})
      text_ += std::string("bit ") + what + "[" + events + "];\n";
    auto const count = std::to_string((std::max)(channels_.count(), 1u));
    if (has_channels())
      text_ += "chan to[" + count + "] = [" + std::to_string(capacity()) + "] of { int };\n";
    if (has_limit() && !has_channels()) text_ += "int on_their_way[" + count + "];\n";
  }
  std::uint32_t capacity() const {
    if (rules_.delivery != delivery::buffered) return 0;
    auto const most = schedule_.microbatches * static_cast<std::uint32_t>(schedule_.place.edges.size());
    return (std::min)(rules_.buffers, most);
  }

  void write_list(std::uint32_t l) {
    static constexpr char const* queues[] = {"", "_queue", "_queue_of_gradients"};
    text_ += "active proctype rank_" + std::to_string(index(lists_.rank_of(l))) +
             queues[lists_.queue_number(l)] + "() {\n";
    for (std::size_t i = 0; i < lists_[l].size(); i = lists_.end_of_group(l, i)) {
      action const& a = lists_[l][i];
      if (is_compute(a.kind))
        write_pass(a);
      else if (is_wait_send(a.kind))
        write_wait(a);
      else
        write_group(l, ends_of(l, i));
    }
    text_ += "  skip\n}\n";
  }

  void line(std::string const& statement, std::span<action const> what) {
    // Messages left in a stream when its rank has ended do not block anything.
    text_ += in_stream_ ? "  end_" + std::to_string(labels_++) + ": " : "  ";
    text_ += statement + ";  /*";
    for (auto const& a : what) text_ += " " + action_text(a);
    text_ += " */\n";
  }
  void line(std::string const& statement, action const& a) { line(statement, std::span(&a, 1)); }

  static std::string bit(char const* array, std::uint32_t event) {
    return std::string(array) + "[" + std::to_string(event) + "]";
  }

  void write_pass(action const& a) {
    if (!dependencies_.in_range(a)) return;
    std::string guard = "(1", effects;
    dependencies_.each_dependency(a, [&](std::uint32_t event) {
      if (!dependencies_.is_end_of_message(event))
        guard += " && " + bit("made", event);
      else if (rules_.delivery == delivery::async)
        guard += " && " + bit("begun", event);
      else if (event % 2 == 1)
        guard += " && " + bit("ended", event);
      return true;
    });
    dependencies_.each_effect(a, [&](std::uint32_t event) { effects += "; " + bit("made", event) + " = 1"; });
    line("atomic { " + guard + ")" + effects + " }", a);
  }

  void write_wait(action const& a) {
    auto const end = dependencies_.message_end(a);
    if (end == schedule_dependencies::none || rules_.delivery <= delivery::rendezvous) return;
    bool const async = rules_.delivery == delivery::async;
    line("(" + (async ? bit("begun", schedule_dependencies::other_end(end)) : bit("ended", end)) + ")", a);
  }

  /// Messages that begin together and run in the list itself.
  void write_group(std::uint32_t l, std::vector<action> const& ends) {
    if (ends.empty()) return;
    if (rules_.delivery == delivery::async || has_streams()) {
      std::string statement = "atomic { skip";
      for (auto const& a : ends) statement += "; " + bit("begun", dependencies_.message_end(a)) + " = 1";
      return line(statement + " }", ends);
    }
    if (lists_.is_queue(l)) {
      std::string guard = "(1";
      for (auto const& a : ends)
        if (is_send(a.kind)) guard += " && " + bit("made", dependencies_.pass_of(a));
      line(guard + ")", ends);
    }
    write_meeting(ends);
  }

  /// Writes a rendezvous of both ends of each message, or a send that does not wait.
  void write_meeting(std::vector<action> const& ends) {
    std::string ended;
    for (auto const& a : ends) ended += "; " + bit("ended", dependencies_.message_end(a)) + " = 1";
    if (has_channels()) {
      action const& a = ends.front();
      auto const number = std::to_string(dependencies_.message_end(a) / 2);
      char const* how = is_send(a.kind) ? "!" : capacity() > 0 ? "??" : "?";
      return line("atomic { to[" + std::to_string(channel_of(a)) + "]" + how + number + ended + " }", a);
    }
    std::string begin = "atomic { skip", guard = "(1";
    for (auto const& a : ends) {
      auto const end = dependencies_.message_end(a), other = schedule_dependencies::other_end(end);
      auto const way = "on_their_way[" + std::to_string(channel_of(a)) + "]";
      begin.append("; ").append(bit("there", end)).append(" = 1");
      if (has_limit()) {
        begin.append("; ").append(way).append(" = ").append(way);
        begin.append(is_send(a.kind) ? " + 1 - " : " - ").append(bit("there", other));
      }
      if (is_send(a.kind) && rules_.delivery == delivery::buffered)
        guard += has_limit() ? " && " + way + " <= " + std::to_string(rules_.buffers) : "";
      else
        guard += " && " + bit("there", other);
    }
    line(begin + " }", ends);
    line("atomic { " + guard + ")" + ended + " }", ends);
  }

  /// Writes the stream between a rank and a peer, which runs what the rank has begun.
  void write_stream(std::uint32_t r, std::uint32_t peer) {
    std::string body;
    std::swap(body, text_);
    in_stream_ = true;
    for (std::size_t i = 0; i < lists_[r].size(); i = lists_.end_of_group(r, i)) {
      auto ends = ends_of(r, i);
      std::erase_if(ends,
                    [&](action const& a) { return index(schedule_.place.rank_of[index(a.peer)]) != peer; });
      if (ends.empty()) continue;
      line("(" + bit("begun", dependencies_.message_end(ends.back())) + ")", ends);
      write_meeting(ends);
    }
    in_stream_ = false;
    std::swap(body, text_);
    if (body.empty()) return;
    text_ += "active proctype rank_" + std::to_string(r) + "_to_" + std::to_string(peer) + "() {\n" + body +
             "  skip\n}\n";
  }

  std::uint32_t channel_of(action const& a) const {
    return channels_.of(dependencies_.edge_of(a), flow_of(a));
  }

  schedule const& schedule_;
  delivery_rules rules_;
  schedule_dependencies dependencies_;
  order_lists lists_;
  rank_channels channels_;
  bool has_groups_ = false, in_stream_ = false;
  std::size_t labels_ = 0;
  std::string text_;
};

/// Returns the schedule as a Promela model with a process for each list. spin checks by itself for deadlocks,
/// and reports one as an invalid end state.
///
///     spin -a model.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan
///
/// Agrees with `find_deadlock` if each message has both ends and each directed pair of ranks keeps its order.
/// Source: Holzmann, The SPIN model checker, 2003. O(actions).
/// \throws stage_placement_error, schedule_count_error if spin's limit of 255 processes or channels is
/// exceeded
inline std::string promela_text(schedule const& s, delivery_rules const& rules) {
  return promela_writer(s, rules).text();
}

}  // namespace cleave::testing
