// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/action_text.hpp"

namespace cleave {

struct grid_options {
  std::vector<rank_id> ranks = {};           ///< whose lists they are; else 0, 1, …
  std::optional<std::size_t> marked_step{};  ///< this line ends with ` <-- ERROR HERE`
};

/// Lists side by side for people: a line a step, a column a rank, a cell an action, as PyTorch prints them.
/// O(steps * ranks * widest cell).
inline std::string grid_text(std::span<std::vector<action> const> rows, grid_options const& options = {}) {
  std::vector<std::vector<std::string>> columns;
  std::size_t steps = 0;
  for (auto const& row : rows) {
    auto& cells = columns.emplace_back();
    each_cell(std::span(row),
              [&](action const& a, std::span<action const> parts) { cells.push_back(cell_text(a, parts)); });
    steps = (std::max)(steps, cells.size());
  }
  auto const step_digits = std::to_string(steps == 0 ? 0 : steps - 1).size();
  std::string const margin(step_digits + 6, ' ');  // "Step ", the number, ":"

  std::vector<std::size_t> widths;
  std::string text = margin;
  for (std::size_t r = 0; r < columns.size(); ++r) {
    auto const rank = r < options.ranks.size() ? index(options.ranks[r]) : r;
    auto const label = "Rank " + std::to_string(rank);
    auto& width = widths.emplace_back((std::max)(step_digits + 5, label.size()));
    for (auto const& cell : columns[r]) width = (std::max)(width, cell.size());
    text += ' ' + label + std::string(width - label.size(), ' ');
  }
  text += '\n';
  for (std::size_t step = 0; step < steps; ++step) {
    auto const number = std::to_string(step);
    text += "Step " + std::string(step_digits - number.size(), '0') + number + ':';
    for (std::size_t r = 0; r < columns.size(); ++r) {
      auto const cell = step < columns[r].size() ? columns[r][step] : std::string();
      text += ' ' + cell + std::string(widths[r] - cell.size(), ' ');
    }
    text += step == options.marked_step ? " <-- ERROR HERE\n" : "\n";
  }
  return text;
}

}  // namespace cleave

