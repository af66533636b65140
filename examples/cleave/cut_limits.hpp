// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "terminal.hpp"

namespace tool {

/// Reasons why more stages, or more ranks, would not make the largest load smaller.
struct cut_limits {
  std::uint32_t enough = 0;  ///< the least number of stages with the same largest load; 0 if all are needed
  std::optional<std::uint32_t> node{};  ///< position of the node that bounds the largest load
  double share = 0;                     ///< its share of the cost of all nodes
};

/// Returns the node whose cost alone is at least 95 % of the largest load, if that is above an even share.
inline std::optional<std::uint32_t> find_dominant_node(cleave::snapshot_arrays const& s, double largest_load,
                                                       std::size_t parts, double fastest) {
  if (s.weight.empty()) return std::nullopt;
  double total = 0;
  for (auto const w : s.weight) total += w;
  auto const heaviest = std::ranges::max_element(s.weight);
  bool const bounds = *heaviest > 0 && *heaviest / fastest >= 0.95 * largest_load &&
                      *heaviest * static_cast<double>(parts) > 1.05 * total;
  return bounds ? std::optional(static_cast<std::uint32_t>(heaviest - s.weight.begin())) : std::nullopt;
}

/// Returns the least number of stages whose largest load is that of `cut`, or 0 if none is below its number.
/// Limits that differ between stages are not examined. O(log k) calls of `balance`.
inline std::uint32_t find_enough_stages(cleave::snapshot_arrays const& s,
                                        cleave::balanced_partition const& cut,
                                        cleave::balance_options const& limits) {
  if (!limits.memory.same() || !limits.speed.same() || cut.parts < 2 || !(cut.bottleneck > 0)) return 0;
  double total = 0;
  for (auto const w : s.weight) total += w / (limits.speed.empty() ? 1 : limits.speed[0]);
  auto const least = std::max(1.0, std::ceil(total / cut.bottleneck * (1 - 1e-9)));
  auto low = static_cast<std::uint32_t>(std::min<double>(least, cut.parts)), high = cut.parts;
  while (low < high) {
    auto const middle = low + (high - low) / 2;
    bool reached = false;
    try {
      reached = cleave::balance(s, middle, limits).bottleneck <= cut.bottleneck * (1 + 1e-9);
    } catch (cleave::infeasible_error const&) {  // memory needs more stages
    }
    reached ? high = middle : low = middle + 1;
  }
  return high < cut.parts ? high : 0;
}

/// Writes `enough_stages` and `dominant`. `name` and `operation` are those of the dominant node.
inline void add_limits(cleave::json::writer& json, cut_limits const& l, std::string const& name,
                       std::string const& operation) {
  json.key("enough_stages");
  l.enough > 0 ? json.value(l.enough) : json.null();
  json.key("dominant");
  if (l.node)
    json.open_object()
        .member("node", name)
        .member("operation", operation)
        .member("share", l.share)
        .close_object();
  else
    json.null();
}

/// Returns a line for each reason. `name` and `operation` are those of the dominant node.
inline std::vector<std::string> remarks_on(cut_limits const& l, std::string const& name,
                                           std::string const& operation) {
  std::vector<std::string> lines;
  if (l.enough > 0)
    lines.push_back(
        "more than " + plural(l.enough, "stage") +
        (l.enough == 1 ? " gains nothing: 1 has" : " gain nothing: " + std::to_string(l.enough) + " have") +
        " no larger load");
  if (l.node)
    lines.push_back(
        "node " + cleave::quoted(name) + " (" + cleave::printable(operation, 40) + ") alone is " +
        cleave::percent_text(l.share) +
        " of the cost of all nodes, and the largest load cannot be below it; only a smaller node helps");
  return lines;
}

}  // namespace tool
