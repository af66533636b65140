// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stray_action.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/order_repair.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave {

/// An action that stands further ahead in the list of its rank than it did.
struct moved_action {
  rank_id rank;
  action what;
  std::size_t from, to;  ///< its position in the list before and after, parts counted

  bool operator==(moved_action const&) const = default;
};

/// `rank 1: '1RECV_F1' from #6 to #4`.
inline std::string describe(moved_action const& m) {
  return "rank " + std::to_string(index(m.rank)) + ": '" + action_text(m.what) + "' from #" +
         std::to_string(m.from) + " to #" + std::to_string(m.to);
}

/// A schedule that comes to its end, and what was moved to that purpose.
struct repaired_order {
  schedule order;
  std::vector<moved_action> moved;
};

}  // namespace cleave

namespace cleave::detail {

/// Writes lists with some of the moves carried out; `find_repair` is its one use.
class moved_lists {
 public:
  moved_lists(schedule const& s, std::vector<order_repair::move> moves)
      : schedule_(s), moves_(std::move(moves)), carried_out_(moves_.size(), true) {}

  std::size_t moves() const { return moves_.size(); }
  void carry_out(std::size_t move, bool whether) { carried_out_[move] = whether; }

  /// O(actions).
  repaired_order take() const {
    repaired_order result{{schedule_.place, schedule_.microbatches, {}}, {}};
    std::vector<std::vector<std::size_t>> brought(count());  // by action: moves to right before it
    std::vector<char> is_moved(count());
    for (std::size_t m = 0; m < moves_.size(); ++m)
      if (carried_out_[m]) {
        brought[moves_[m].before].push_back(m);
        is_moved[moves_[m].what] = 1;
      }
    std::size_t first = 0;
    for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r) {
      auto const& row = schedule_.ranks[r];
      auto& to = result.order.ranks.emplace_back();
      auto const bring = [&](std::size_t before) {
        for (auto const m : brought[before]) {
          auto const what = row[moves_[m].what - first];
          result.moved.push_back({rank_id{r}, what, moves_[m].what - first, to.size()});
          to.push_back(what);
        }
      };
      for (std::size_t i = 0; i < row.size(); ++i) {
        bring(first + i);
        std::size_t const parts = row[i].parts;
        bool whole = i + parts < row.size();
        for (std::size_t part = 1; part <= parts && whole; ++part)
          whole = !is_moved[first + i + part] && (part == 1 || brought[first + i + part].empty());
        if (parts > 0 && whole) {
          bring(first + i + 1);
          to.insert(to.end(), row.begin() + static_cast<std::ptrdiff_t>(i),
                    row.begin() + static_cast<std::ptrdiff_t>(i + parts + 1));
          i += parts;
        } else if (parts == 0 && !is_moved[first + i]) {
          to.push_back(row[i]);
        }
      }
      first += row.size();
    }
    return result;
  }

 private:
  std::size_t count() const {
    std::size_t actions = 0;
    for (auto const& row : schedule_.ranks) actions += row.size();
    return actions;
  }

  schedule const& schedule_;
  std::vector<order_repair::move> moves_;
  std::vector<char> carried_out_;
};

/// Puts back, last first, each action that need not have been moved.
inline repaired_order with_fewest_moves(moved_lists lists, delivery_rules const& rules) {
  verify_options const options{.delivery = rules.delivery, .buffers = rules.buffers, .groups = rules.groups};
  auto best = lists.take();
  auto const faults = schedule_faults(best.order, options).size();
  for (auto m = lists.moves(); m-- > 0;) {
    lists.carry_out(m, false);
    auto shorter = lists.take();
    if (!find_deadlock(shorter.order, rules) && schedule_faults(shorter.order, options).size() <= faults)
      best = std::move(shorter);
    else
      lists.carry_out(m, true);
  }
  return best;
}

/// How much work `find_repair` spends on putting actions back: moves times actions.
inline constexpr std::uint64_t most_repair_work = std::uint64_t{1} << 26;

}  // namespace cleave::detail

namespace cleave {

/// The schedule in an order that comes to its end by these rules, or nothing where what is waited for is
/// never done. A schedule that does so already stays as it is.
///
/// Runs the lists; when all ranks wait, brings forward what one of them waits for, with what that needs:
/// where that takes the fewest moves. Each directed pair of ranks sends in its order, receives follow it.
/// Then actions are put back where they stood, as long as all else still finishes: no move can be left out,
/// unless moves times actions exceed `most_repair_work`. A compound is dissolved where something comes
/// between its parts. A rank may keep more passes than before.
///
/// O(actions + moves · (ranks · what they wait for + actions)). \throws stray_action_error,
/// placement_error, schedule_count_error
inline std::optional<repaired_order> find_repair(schedule const& s, delivery_rules const& rules = {}) {
  detail::demand_no_stray_action(s);
  if (!find_deadlock(s, rules)) return repaired_order{s, {}};
  std::optional<std::vector<detail::order_repair::move>> moves;
  if (rules.delivery == delivery::async)
    moves = detail::order_repair(s, detail::repair_messages::begin).run();
  else if (rules.delivery == delivery::buffered && rules.buffers == any_number)
    moves = detail::order_repair(s, detail::repair_messages::are_kept).run();
  // Where messages cannot keep their order, or may hold each other up, both ends are put into a common one.
  if (!moves) moves = detail::order_repair(s, detail::repair_messages::meet).run();
  if (!moves) return std::nullopt;
  std::uint64_t const work = moves->size() * count_actions(s);
  detail::moved_lists lists(s, std::move(*moves));
  return work > detail::most_repair_work ? lists.take() : detail::with_fewest_moves(std::move(lists), rules);
}

}  // namespace cleave

namespace cleave::detail {

/// A deadlock that no order is free of. The witness: where it is.
class repair_error : public witness_error<deadlock> {
 public:
  explicit repair_error(deadlock d)
      : witness_error("repair: what is waited for is never done: " + describe(d) +
                          "; see schedule_faults for what is missing",
                      d) {}
};

}  // namespace cleave::detail

namespace cleave {

/// As `find_repair`. \throws repair_error where there is none, and as `find_repair`
inline repaired_order repair_order(schedule const& s, delivery_rules const& rules = {}) {
  if (auto repaired = find_repair(s, rules)) return *std::move(repaired);
  throw detail::repair_error(*find_deadlock(s, rules));
}

}  // namespace cleave
