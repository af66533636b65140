// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// Which stages a list uses next, in order of their next uses, at one cell after the other.
///
/// One walk back through the list moves the stages of each cell to the front of a queue and writes down where
/// they stood. The walk forward puts them back there: what is at the front is what is used next.
class next_uses {
 public:
  /// O(actions * (log(stages) + how far stages move)). Stands at the first cell that is not idle.
  explicit next_uses(std::span<action const> row) : stages_(row), use_(stages_.count(), never) {
    std::vector<std::size_t> cells;  // where each begins
    for (std::size_t i = 0; i < row.size(); i += std::size_t{1} + row[i].parts)
      if (row[i].kind != action_kind::idle) cells.push_back(i);
    moves_.reserve(row.size());
    for (std::size_t c = cells.size(); c-- > 0;) {
      auto const head = cells[c];
      if (row[head].parts == 0) move_to_front(row[head], c);
      for (std::size_t p = row[head].parts; p > 0; --p) move_to_front(row[head + p], c);
    }
  }

  rank_stages const& stages() const { return stages_; }

  /// The next `count` different stages or fewer, by their numbers, the soonest first; those of one compound
  /// all or none. O(their number).
  std::span<std::uint32_t const> next(std::size_t count) const {
    auto n = (std::min)(count, queue_.size());
    while (n > 0 && n < queue_.size() && use_[queue_[n]] == use_[queue_[n - 1]]) ++n;
    return std::span(queue_).first(n);
  }

  /// Goes on to the next cell. Whether all that `next` can say is the same there as before.
  bool pass() {
    bool same = true;
    for (auto const c = cell_++; !moves_.empty() && moves_.back().cell == c; moves_.pop_back()) {
      auto const from = moves_.back().from, use = moves_.back().use;
      auto const s = queue_.front();
      use_[s] = use;
      same = same && from == 0 && use == c + 1;
      if (use == never)
        queue_.erase(queue_.begin());
      else
        std::rotate(queue_.begin(), queue_.begin() + 1,
                    queue_.begin() + static_cast<std::ptrdiff_t>(from) + 1);
    }
    // A compound may bring another stage along with the one at the front.
    return same && (queue_.size() < 2 || use_[queue_[1]] != cell_);
  }

 private:
  static constexpr std::size_t never = (std::numeric_limits<std::size_t>::max)();
  struct move {
    std::size_t cell;
    std::size_t from;  ///< where in the queue the stage stood
    std::size_t use;   ///< the cell of its next use then
  };

  void move_to_front(action const& a, std::size_t cell) {
    if (a.stage == no_stage) return;
    auto const s = stages_.number(a.stage);
    auto at = queue_.begin();
    if (use_[s] == never)
      at = queue_.insert(queue_.end(), s);
    else
      at = std::ranges::find(queue_, s);
    moves_.push_back({cell, static_cast<std::size_t>(at - queue_.begin()), use_[s]});
    use_[s] = cell;
    std::rotate(queue_.begin(), at, at + 1);
  }

  rank_stages stages_;
  std::vector<std::size_t> use_;  ///< of a stage: the cell that uses it next
  std::vector<std::uint32_t> queue_;
  std::vector<move> moves_;  ///< the last that was made last
  std::size_t cell_ = 0;
};

}  // namespace cleave::detail
