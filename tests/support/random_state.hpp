// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/state/state_assignment.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace cleave::testing {

using namespace detail;

/// A random graph with the state of a model, cut into slices of the program. It has tied names, nested
/// modules, constants, buffers and unused state. The state of a stage is found by exhaustive search.
struct state_model {
  snapshot_arrays s;
  partition parts;
  plan p;
  basic_model_state<std::uint32_t> m;

  bool is_constant(std::uint32_t tensor) const {
    for (auto const& t : m.tensors)
      if (t.what != state_kind::constant && storage_of(t) == storage_of(tensor)) return false;
    return true;
  }
  std::string storage_of(std::uint32_t tensor) const { return storage_of(m.tensors[tensor]); }
  static std::string storage_of(model_tensor const& t) { return t.storage.empty() ? t.name : t.storage; }

  std::set<std::string> reads_by_hand(std::size_t stage) const {
    std::set<std::string> read;
    for (std::size_t n = 0; n < s.nodes(); ++n)
      for (auto const v : s.operands[n])
        if (index(parts.of[n]) == stage && m.tensor[v] != none<std::uint32_t>)
          read.insert(m.tensors[m.tensor[v]].name);
    for (std::size_t n = 0; n < s.nodes(); ++n)
      for (auto const t : m.reads[n])
        if (index(parts.of[n]) == stage) read.insert(m.tensors[t].name);
    return read;
  }

  /// Returns the stages that read a tensor under any of its names; no_part stands for the caller.
  std::set<std::uint32_t> readers_by_hand(std::uint32_t tensor) const {
    std::set<std::uint32_t> stages;
    for (std::size_t n = 0; n < s.nodes(); ++n)
      for (auto const v : s.operands[n])
        if (m.tensor[v] != none<std::uint32_t> && storage_of(m.tensor[v]) == storage_of(tensor))
          stages.insert(index(parts.of[n]));
    return stages;
  }

  /// Returns the names that the stage reads and further aliases of the same tensors. An alias counts if its
  /// owner is the root, a module of a node in the stage, the owner of a name that is read, or an ancestor of
  /// these.
  std::set<std::string> names_by_hand(std::size_t stage) const {
    auto const read = reads_by_hand(stage);
    std::set<std::string> modules = {""}, storages, names = read;
    auto const enter = [&](std::string path) {
      for (; !path.empty(); path = std::string(owner_of(path))) modules.insert(path);
    };
    for (std::size_t n = 0; n < s.nodes(); ++n)
      if (index(parts.of[n]) == stage)
        for (auto const i : m.inside[n]) enter(m.modules[i]);
    for (auto const& name : read) enter(std::string(owner_of(name)));
    for (auto const& t : m.tensors)
      if (read.contains(t.name)) storages.insert(storage_of(t));
    for (auto const& t : m.tensors)
      if (storages.contains(storage_of(t)) && modules.contains(std::string(owner_of(t.name))))
        names.insert(t.name);
    return names;
  }
};

/// Selects if nodes read tensors inside the modules that they call.
enum class called_modules : std::uint8_t { some, none };

inline state_model random_state_model(rng& random, called_modules calls = called_modules::none) {
  state_model model;
  auto& m = model.m;
  m.modules = {"a", "a.b", "a.b.c", "d", "e"};
  std::vector<std::string> const owners = {"", "a.", "a.b.", "a.b.c.", "d.", "f.", "a.g."};
  auto const tensors = 1 + random.below(9);
  for (std::size_t t = 0; t < tensors; ++t) {
    auto const storage = random.below(6);  // the first three are shared, the second of them by constants
    m.tensors.push_back({owners[random.below(owners.size())] + "t" + std::to_string(t),
                         storage < 3 ? "s" + std::to_string(storage) : "",
                         storage < 3 ? (storage == 1 ? state_kind::constant : state_kind::parameter)
                                     : static_cast<state_kind>(random.below(4))});
  }
  snapshot_builder b;
  std::vector<std::uint32_t> values = {b.input()};
  for (std::uint32_t t = 0; t < tensors; ++t)
    for (auto reads = 1 + random.below(2); reads-- > 0;) {
      values.push_back(b.state());
      m.tensor.resize(values.back(), none<std::uint32_t>);
      m.tensor.push_back(t);
    }
  auto const nodes = 1 + random.below(12);
  for (std::size_t n = 0; n < nodes; ++n) {
    std::vector<std::uint32_t> read;
    for (auto k = random.below(4); k-- > 0;) read.push_back(values[random.below(values.size())]);
    values.push_back(b.node(1, read));
    for (std::uint32_t i = 0; i < m.modules.size(); ++i)
      if (random.one_in(8)) m.inside.add(i);
    m.inside.close();
    if (calls == called_modules::some && random.one_in(4))
      m.reads.add(static_cast<std::uint32_t>(random.below(tensors)));
    m.reads.close();
  }
  b.output(values.back());
  model.s = b.build();
  m.tensor.resize(model.s.values(), none<std::uint32_t>);
  auto const stages = static_cast<std::uint32_t>(1 + random.below(std::min<std::size_t>(nodes, 4)));
  model.parts = equal_slices(nodes, stages);
  model.p = make_plan(model.s, model.parts);
  return model;
}

}  // namespace cleave::testing
