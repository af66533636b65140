// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/printable.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model.hpp"

namespace tool {

/// Lists the first `most` of `items`, formatted by `show`: `a, b, c and 4 more`.
template <class Items, class Show>
std::string first_of(Items const& items, std::size_t most, Show show) {
  std::string text;
  std::size_t shown = 0;
  for (auto const& item : items) {
    if (shown == most) break;
    text += (shown++ > 0 ? ", " : "") + show(item);
  }
  auto const rest = static_cast<std::size_t>(std::ranges::distance(items)) - shown;
  return text + (rest > 0 ? " and " + std::to_string(rest) + " more" : "");
}

/// Lists counts, the most frequent first: `57 Conv, 57 Relu, 13 MaxPool and 4 more`.
inline std::string frequencies_text(std::map<std::string, std::size_t> const& counts, std::size_t most) {
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](auto const& a, auto const& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  return first_of(sorted, most, [](auto const& s) {
    return std::to_string(s.second) + " " + cleave::printable(s.first, 40);
  });
}

/// Returns name and type of a value: `image float32 1x3x64x64`.
inline std::string value_text(model const& m, cleave::onnx::graph::value v) {
  auto const* type = m.types.priced(m.graph.name_of(v));
  return cleave::printable(m.graph.name_of(v), 40) + " " +
         (type == nullptr ? "of unknown type" : cleave::printable(cleave::onnx::spelling(*type)));
}

/// Returns the symbolic dimensions of the inputs without a given size.
inline std::set<std::string> open_dimensions(model const& m) {
  std::set<std::string> names;
  for (auto const v : m.graph.inputs())
    if (auto const* type = m.types.priced(m.graph.name_of(v)); type != nullptr)
      for (auto const& d : type->tensor_type().shape().dim())
        if (!d.has_dim_value() && !d.dim_param().empty()) names.insert(d.dim_param());
  return names;
}

/// Returns the work of a run: `3.1 GFLOP`; `at least 3.1 GFLOP` if costs of nodes are unknown.
inline std::string work_text(model_summary const& s) {
  return (s.lacking.nodes > 0 ? "at least " : "") + cleave::amount_text(s.flops, "FLOP");
}

/// Describes a model in a few lines.
inline std::string description_of(model const& m) {
  auto const s = summary_of(m);
  auto const& p = *m.proto;
  std::string text;
  auto const line = [&](std::string const& label, std::string const& rest) {
    text += "  " + label + std::string(10 - label.size(), ' ') + rest + "\n";
  };
  auto const values = [&](auto const& list) {
    return first_of(list, 4, [&](auto v) { return value_text(m, v); });
  };
  auto const opset = [](auto const& o) {
    return (o.domain().empty() ? "" : cleave::printable(o.domain(), 40) + " ") + std::to_string(o.version());
  };
  auto const producer = p.producer_name() + (p.producer_version().empty() ? "" : " " + p.producer_version());
  line("file", cleave::bytes_text(m.file_bytes) + ", opset " + first_of(p.opset_import(), 4, opset) +
                   ", IR version " + std::to_string(p.ir_version()) +
                   (producer.empty() ? "" : ", from " + cleave::printable(producer, 60)));
  line("nodes", cleave::count_text(m.graph.file_nodes()) +
                    (s.operators.empty() ? "" : ": " + frequencies_text(s.operators, 5)));
  if (m.nodes_to_place() < m.graph.file_nodes())
    line("to place",
         plural(m.nodes_to_place(), "node") + "; the others are constants or reach no output" +
             (s.at_load == 0 ? "" : ", or depend on weights alone (" + cleave::count_text(s.at_load) + ")"));
  line("weights", plural(s.parameters, "parameter") + " in " + plural(s.weights, "tensor") + ", " +
                      cleave::bytes_text(s.weight_bytes));
  line("inputs", values(m.graph.inputs()));
  line("outputs", values(m.graph.outputs()));
  auto const open = open_dimensions(m);
  line("shapes", s.unsized == 0
                     ? "all " + cleave::count_text(s.made) + " known"
                     : cleave::count_text(s.made - s.unsized) + " of " + cleave::count_text(s.made) +
                           " known" +
                           (open.empty() ? "" : "; set more with " + first_of(open, 4, [](auto const& name) {
                                                  return "--dim " + cleave::printable(name, 40) + "=N";
                                                })));
  line("work", work_text(s) + " a run" +
                   (s.lacking.nodes == 0 ? "" : "; " + plural(s.lacking.nodes, "node") + " of unknown cost") +
                   (m.costs.fallbacks.empty()
                        ? ""
                        : "; cost estimated from bytes alone: " + frequencies_text(m.costs.fallbacks, 4)));
  return text;
}

/// Describes a model for the head of a report.
inline std::vector<cleave::report::fact> facts_of(model const& m) {
  auto const s = summary_of(m);
  std::vector<cleave::report::fact> facts = {{"Nodes", cleave::count_text(m.graph.file_nodes())},
                                             {"Parameters", cleave::count_text(s.parameters)},
                                             {"Weights", cleave::bytes_text(s.weight_bytes)},
                                             {"Work of a run", work_text(s)},
                                             {"File", cleave::bytes_text(m.file_bytes)}};
  for (auto const& o : m.proto->opset_import())
    if (o.domain().empty()) facts.push_back({"Opset", std::to_string(o.version())});
  return facts;
}

}  // namespace tool
