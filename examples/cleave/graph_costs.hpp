// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/adapt/onnx/cost.hpp>
#include <cleave/core/error.hpp>
#include <cleave/formats/timed_schedule.hpp>
#include <cleave/formats/units.hpp>
#include <cleave/graph/costed_module_graph.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "cut.hpp"
#include "options.hpp"

namespace tool {

/// Returns the text that the metadata of a graph has under `key`, or an empty text if the key is missing.
/// \throws cleave::error if the entry is not a text
inline std::string graph_text(cleave::module_graph const& g, std::string_view key) {
  for (auto const& entry : g.metadata)
    if (entry.key == key) {
      auto const* text = entry.value.size() == 1 ? std::get_if<std::string>(&entry.value.front()) : nullptr;
      if (text == nullptr)
        throw cleave::error("the graph's meta '" + std::string(key) + "' must be a text, such as \"" +
                            (key == "cost_unit" ? "us" : "measured") + "\"");
      return *text;
    }
  return "";
}

/// Returns whether an entry in the metadata of a graph says what its costs are.
inline bool is_about_costs(cleave::keyword_argument const& entry) {
  return entry.key == "cost_unit" || entry.key == "cost_origin";
}

/// The unit of a graph's costs: its meta `cost_unit`.
struct graph_unit {
  std::string name;    ///< as reports write it; empty if the graph gives none
  double of_name = 1;  ///< factor from costs of the graph to the unit of `name`: 1e-6 from `us` to `s`
  double second = 0;   ///< the cost of a second of work; 0 if unknown
  double flop = 0;     ///< the cost of an operation; 0 if unknown
};

/// Returns the unit of a graph's costs. \throws cleave::error if its meta `cost_unit` is not a text
inline graph_unit unit_of(cleave::module_graph const& g) {
  auto const name = graph_text(g, "cost_unit");
  constexpr cleave::onnx::rates rates;
  if (double const seconds = cleave::detail::seconds_in(name); seconds > 0)
    return {"s", seconds, 1 / seconds, 1 / seconds / rates.flops};
  if (name == "flop" || name == "FLOP") return {"FLOP", 1, rates.flops, 1};
  return {cleave::printable(name, 40)};
}

/// Returns an amount of costs with its unit: `12.5 ms`.
inline std::string cost_text(double cost, graph_unit const& unit) {
  return cleave::amount_text(cost * unit.of_name, unit.name);
}

/// Returns the cost of moving a byte. By default it is that of models, if the unit of the costs is known, and
/// 0 otherwise. \throws usage_error if the unit does not allow --bandwidth
inline double cost_per_byte_of(cut_options const& options, graph_unit const& unit) {
  if (options.bandwidth && unit.second == 0)
    throw usage_error(
        "--bandwidth needs the unit of the costs: give the graph \"meta\": {\"cost_unit\": \"us\"} (s, ms, "
        "us, "
        "ns or flop), or use --flops-per-byte, in the unit of the costs");
  if (options.bandwidth || (!options.flops_per_byte && unit.second > 0))
    return cost_per_byte_of(options, unit.second, unit.flop);
  return options.flops_per_byte.value_or(0);
}

/// Returns the origin of the costs of a graph: its meta `cost_origin`, or `given in the file`.
inline std::string cost_origin_of(cleave::module_graph const& g) {
  auto const said = graph_text(g, "cost_origin");
  return said.empty() ? "given in the file" : said;
}

}  // namespace tool
