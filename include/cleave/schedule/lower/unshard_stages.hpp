// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/lower/next_uses.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"

namespace cleave::detail {

/// How many stages of a rank have their weights gathered at a time.
struct unshard_window {
  std::uint32_t active = 3;     ///< how many next stages keep theirs
  std::uint32_t lookahead = 3;  ///< how many next stages get theirs
};

/// A compound that needs more stages at once than may be active.
struct window_fault {
  std::string compound;
  std::uint32_t needed = 0, active = 0;

  bool operator==(window_fault const&) const = default;
};

class window_error : public witness_error<window_fault> {
 public:
  explicit window_error(window_fault f)
      : witness_error("unshard: " + f.compound + " runs " + std::to_string(f.needed) +
                          " stages as one, but only " + std::to_string(f.active) +
                          " may be active; allow more active stages, or split the compound",
                      f) {}
};

/// The first compound that needs more stages than may be active, or nothing. O(actions log(parts)).
inline std::optional<window_fault> find_window_fault(std::span<action const> row, std::uint32_t active) {
  std::optional<window_fault> fault;
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    if (fault || parts.size() <= active) return;
    auto const needed = rank_stages(parts).count();
    if (needed > active) fault = window_fault{cell_text(head, parts), needed, active};
  });
  return fault;
}

/// Adds UNSHARD and RESHARD to one list; `unshard_stages` is its one use.
class unsharder {
 public:
  unsharder(std::span<action const> row, unshard_window w) : uses_(row), window_(w), row_(row) {}

  std::vector<action> take() {
    active_.assign(uses_.stages().count(), false);
    resident_.assign(uses_.stages().count(), 0);
    added_.reserve(row_.size() + row_.size() / 4);
    bool same_window = false;  // as at the action before, so that nothing changes
    each_cell(row_, [&](action const& head, std::span<action const> parts) {
      if (head.kind == action_kind::idle) return;
      if (!same_window) open_window();
      added_.push_back(head);
      added_.insert(added_.end(), parts.begin(), parts.end());
      same_window = uses_.pass() && window_.lookahead <= window_.active;
    });
    for (auto const s : in_order_) add(action_kind::reshard, s);
    return std::move(added_);
  }

 private:
  void add(action_kind kind, std::uint32_t stage) {
    added_.push_back({kind, 0, uses_.stages()[stage], no_microbatch, no_stage});
  }

  /// Lets go what is not needed soon, then gathers what is. What was active is not gathered again, even if it
  /// has just been let go.
  void open_window() {
    auto const resident = uses_.next(window_.active), wanted = uses_.next(window_.lookahead);
    ++window_number_;
    for (auto const s : resident) resident_[s] = window_number_;
    to_gather_.clear();
    for (auto const s : wanted)
      if (!active_[s]) to_gather_.push_back(s);
    std::erase_if(in_order_, [&](std::uint32_t s) {
      if (resident_[s] == window_number_) return false;
      active_[s] = false;
      add(action_kind::reshard, s);
      return true;
    });
    for (auto const s : to_gather_) {
      active_[s] = true;
      in_order_.push_back(s);
      add(action_kind::unshard, s);
    }
  }

  next_uses uses_;
  unshard_window window_;
  std::span<action const> row_;
  std::vector<char> active_;
  std::vector<std::size_t> resident_;  ///< of a stage: the last window that kept it
  std::vector<std::uint32_t> in_order_, to_gather_;
  std::vector<action> added_;
  std::size_t window_number_ = 0;
};

/// A list that gathers the weights of each stage before it is needed and lets them go when others are. At
/// every action the next `active` different stages from there on keep theirs, the next `lookahead` get
/// theirs; the stages of a compound come together, even beyond these counts. Idle steps are dropped.
/// O(actions * stages that change between actions). \throws window_error
inline std::vector<action> unshard_stages(std::span<action const> row, unshard_window window = {}) {
  expects(window.active > 0 && window.lookahead > 0, "a window of one stage at least");
  if (auto fault = find_window_fault(row, window.active)) throw window_error(*std::move(fault));
  return unsharder(row, window).take();
}

}  // namespace cleave::detail
