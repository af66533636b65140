// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/split/inline_stages.hpp"
#include "cleave/split/split.hpp"
#include "support/toy_ir.hpp"

namespace toy {

/// Runs the stages one after another in the plan's order, wired by name. `Graph` is a `graph` or derived from
/// one.
template <class Graph>
std::map<std::string, std::string> run_stages(cleave::staged_graph<Graph> const& stages,
                                              std::map<std::string, std::string> values) {
  for (cleave::stage_id const i : stages.plan().order) {
    builder b;
    emit(stages, i, b);
    std::map<std::string, std::string> given;
    for (auto const& v : b.made.inputs) given[v] = values.at(v);
    auto const made = run(b.made, given);
    for (auto const& v : b.made.outputs) values[v] = made.at(v);
  }
  for (auto const& w : stages.graph().state()) values.try_emplace(w, w);
  return values;
}

/// Returns the value of `v`; a value without a producer stands for itself.
inline std::string meaning(std::map<std::string, std::string> const& values, std::string const& v) {
  auto const known = values.find(v);
  return known == values.end() ? v : known->second;
}

/// Joins stages into one program again.
template <class Graph>
struct joiner {
  cleave::staged_graph<Graph> const& stages;
  builder b{};
  std::string argument(std::uint32_t v, cleave::source from) {
    return b.argument(stages.snapshot().value[v], from);
  }
  auto clone(std::size_t, op const* o, auto lookup) { return b.clone(o, lookup); }
  void result(std::uint32_t v, std::string const& made) { b.result(stages.snapshot().value[v], made); }
};

/// Writes every stage out and joins them again.
template <class Graph>
program joined_again(cleave::staged_graph<Graph> const& stages) {
  std::vector<program> pieces;
  for (std::uint32_t i = 0; i < stages.size(); ++i) {
    builder b;
    emit(stages, cleave::stage_id{i}, b);
    pieces.push_back(std::move(b.made));
  }
  std::vector<graph> const graphs(pieces.begin(), pieces.end());
  joiner<Graph> join{stages};
  inline_stages(stages.snapshot(), stages.plan(), graphs, join);
  return std::move(join.b.made);
}

}  // namespace toy
