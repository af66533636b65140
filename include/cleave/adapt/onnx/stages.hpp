// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/builder.hpp"
#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "cleave/split/split.hpp"

namespace cleave {

using onnx_staged = staged_graph<onnx_graph>;

/// Gives the graph its costs: seconds for a node, bytes for a value.
/// \throws onnx_error if a value's size does not fit.
inline void price_onnx(onnx_graph& g, onnx_types const& types, onnx_costs const& costs,
                       onnx_rates const& rates = {}) {
  std::vector<double> weight;
  for (auto const& work : costs.of) weight.push_back(rates.seconds(work));
  std::vector<std::size_t> bytes(g.values());
  auto const& whole = g.scopes().scopes.front();
  for (auto v = whole.first_value; v < whole.end_value; ++v) bytes[v] = types.bytes(g.name_of(v));
  g.price(std::move(weight), std::move(bytes));
}

/// The stages that become files, in the order in which they run: those that give something.
inline std::vector<stage_id> live_onnx_stages(onnx_staged const& stages) {
  std::vector<stage_id> live;
  for (stage_id const i : stages.plan().order)
    if (!stages.plan().stages[index(i)].outputs.empty()) live.push_back(i);
  return live;
}

}  // namespace cleave

namespace cleave::detail {

/// A value that one stage sends to another and of which not even the type is known, with both its ends.
inline std::optional<onnx_fault> find_untyped_onnx_boundary(onnx_staged const& stages,
                                                            onnx_types const& types) {
  auto const& g = stages.graph();
  for (auto const& t : stages.plan().transfers) {
    auto const v = stages.snapshot().value[t.value];
    auto const name = g.name_of(v);
    if (types.declaration(name) != nullptr) continue;
    return onnx_fault{onnx_fault_kind::type,
                      "value " + quoted(name) + ", which " + g.scopes().label(g.producer(v)) +
                          " makes, goes from stage " + std::to_string(index(t.from)) + " to stage " +
                          std::to_string(index(t.to)) +
                          ", but its type is not known; give its shape and type (as in --shape "
                          "NAME=float32:1x3x?) or cut elsewhere",
                      {std::string(name)}};
  }
  return std::nullopt;
}

/// Stage i as an ONNX model, the `place`-th of `count` that run.
inline onnx::ModelProto onnx_stage(onnx_staged const& stages, onnx_emission& all, stage_id i,
                                   std::size_t place, std::size_t count) {
  onnx_builder b(all);
  emit(stages, i, b);
  return b.finish(place, count);
}

}  // namespace cleave::detail

namespace cleave {

/// All live stages as ONNX models, in the order in which they run: each reads the model's inputs and what
/// earlier ones give, by name.
/// \throws onnx_error with what `find_untyped_onnx_boundary` finds.
inline std::vector<onnx::ModelProto> onnx_stages(onnx_staged const& stages, onnx_types const& types) {
  if (auto const fault = detail::find_untyped_onnx_boundary(stages, types)) throw onnx_error(*fault);
  detail::onnx_emission all(stages.graph(), types);
  auto const live = live_onnx_stages(stages);
  std::vector<onnx::ModelProto> models;
  for (stage_id const i : live)
    models.push_back(detail::onnx_stage(stages, all, i, models.size(), live.size()));
  return models;
}

/// What a cut means beyond its stages.
struct onnx_notes {
  using value = onnx_graph::value;

  /// One initializer that several stages hold, under one name or several: training must keep the copies
  /// equal.
  struct tie {
    value storage;
    std::vector<stage_id> stages;
  };

  std::vector<tie> ties;
  std::vector<value> passed;           ///< outputs of the model that no stage makes: inputs, initializers
  std::vector<value> unsized;          ///< sent from stage to stage, bytes unknown
  std::vector<onnx_graph::node> dead;  ///< of the file: reach no output, in no stage
  std::vector<stage_id> dead_stages;   ///< give nothing, become no file
  std::vector<std::string> external;   ///< files of data that must lie beside the stages
};

/// What there is to know of `stages` beside what they compute. O(V + E).
inline onnx_notes onnx_notes_of(onnx_staged const& stages) {
  auto const& g = stages.graph();
  auto const& s = stages.snapshot();
  onnx_notes notes;

  std::set<std::string> external;
  std::vector<std::vector<stage_id>> holders(g.values());
  for (std::size_t i = 0; i < stages.size(); ++i)
    for (auto const v : stages.plan().stages[i].state) {
      auto const handle = s.value[v];
      auto& held = holders[g.storage(handle)];
      if (held.empty() || index(held.back()) != i) held.push_back(stage_id{static_cast<std::uint32_t>(i)});
      if (auto const* t = g.tensor(handle); t != nullptr && t->data_location() == onnx::TensorProto::EXTERNAL)
        for (auto const& entry : t->external_data())
          if (entry.key() == "location") external.insert(entry.value());
    }
  for (std::size_t v = 0; v < holders.size(); ++v) {
    bool const is_weight = g.scopes().values[v].producer == none<onnx_graph::node>;  // not made by a Constant
    if (is_weight && holders[v].size() > 1)
      notes.ties.push_back({static_cast<onnx_notes::value>(v), holders[v]});
  }
  notes.external.assign(external.begin(), external.end());

  for (auto const v : g.outputs())
    if (g.producer(v) == none<onnx_graph::node>) notes.passed.push_back(v);
  std::vector<char> seen(s.values());
  for (auto const& t : stages.plan().transfers)
    if (s.bytes[t.value] == 0 && !std::exchange(seen[t.value], 1)) notes.unsized.push_back(s.value[t.value]);

  std::vector<char> lives(g.file_nodes());
  for (auto const n : g.nodes()) lives[n] = 1;
  for (onnx_graph::node n = 0; n < lives.size(); ++n) {
    auto const made = g.results(n);
    bool const constant = made.size() == 1 && g.is_state(made[0]);
    if (!lives[n] && !constant) notes.dead.push_back(n);
  }
  for (std::size_t i = 0; i < stages.size(); ++i)
    if (stages.plan().stages[i].outputs.empty())
      notes.dead_stages.push_back(stage_id{static_cast<std::uint32_t>(i)});
  return notes;
}

}  // namespace cleave
