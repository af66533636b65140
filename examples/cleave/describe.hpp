// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/core/printable.hpp>
#include <cleave/draw/report.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "advice.hpp"
#include "model.hpp"

namespace tool {

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

/// Returns where shapes are lost and what to do: `the first is y float32 ?x8, which Reshape '/a/Reshape'
/// makes; set it with --shape y=Nx8`. Empty if all shapes or their upper bounds are known.
inline std::string lost_shape_text(model const& m) {
  auto const lost = cleave::onnx::first_unknown_shape(m.graph, m.types);
  if (!lost) return "";
  auto text = "the first is " + value_text(m, *lost);
  if (auto const n = m.graph.producer(*lost); n != cleave::none<cleave::onnx::graph::node>) {
    auto const& proto = m.graph.proto(n);
    text += ", which " + cleave::printable(proto.op_type(), 40) +
            (proto.name().empty() ? "" : " " + cleave::quoted(proto.name())) + " makes";
  }
  std::vector<std::string> options;
  for (auto const& open : cleave::onnx::list_open_sizes(m.graph, m.types, m.given))
    if (open.what == cleave::onnx::open_size::kind::dimension) options.push_back(option_for(open));
  if (options.empty()) {
    cleave::onnx::open_size it{.what = cleave::onnx::open_size::kind::value,
                               .name = std::string(m.graph.name_of(*lost))};
    auto const* type = m.types.priced(it.name);
    it.ranked = type != nullptr && type->has_tensor_type() && type->tensor_type().has_shape();
    if (it.ranked)
      for (auto const& d : type->tensor_type().shape().dim())
        it.shape.dims.push_back(cleave::onnx::most_of(d).value_or(-1));
    options.push_back(option_for(it));
  }
  return text + "; set more with " + first_of(options, 4, [](auto const& o) { return o; });
}

/// Returns the number of values of known shape: `all 152 known`, or how many, and where they are lost.
inline std::string shapes_text(model const& m, model_summary const& s) {
  auto text = s.unsized == 0
                  ? "all " + cleave::count_text(s.made) + " known"
                  : cleave::count_text(s.made - s.unsized) + " of " + cleave::count_text(s.made) + " known";
  if (s.bounded > 0) text += ", " + cleave::count_text(s.bounded) + " of them as an upper bound";
  return s.unsized == 0 ? text : text + "; " + lost_shape_text(m);
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
  line("shapes", shapes_text(m, s));
  line("work", work_text(s) + " a run" +
                   (s.lacking.nodes == 0 ? "" : "; " + plural(s.lacking.nodes, "node") + " of unknown cost") +
                   (m.costs.bounded == 0 ? "" : "; an upper bound for " + plural(m.costs.bounded, "node")) +
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
