// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/transport.hpp"
#include "cleave/run/ports.hpp"
#include "cleave/run/step_values.hpp"
#include "cleave/run/tensor_view.hpp"
#include "cleave/schedule/schedule.hpp"
#include "support/linear_engine.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

/// Linear stages, connected and on ranks as a schedule has them, and random whole numbers for them.
struct linear_chain {
  transport t;
  std::vector<linear_stage> stages;
  std::vector<std::int64_t> rows;
  std::vector<std::vector<double>> numbers;
  std::vector<tensor_view> inputs;
  std::uint32_t results = 0;

  linear_chain(schedule const& s, rng& random) {
    t.stages = s.place.stages();
    std::vector<char> fed(t.stages), read(t.stages);
    for (auto const& e : s.place.edges) {
      t.edges.push_back({e.from, 0, e.to, 0});
      read[index(e.from)] = fed[index(e.to)] = 1;
    }
    for (std::uint32_t i = 0; i < t.stages; ++i) {
      if (!fed[i]) t.edges.push_back({the_caller, 0, stage_id{i}, 0});
      if (!read[i]) t.edges.push_back({stage_id{i}, 0, the_caller, results++});
    }
    while (stages.size() < t.stages) stages.push_back({1, static_cast<double>(random.below(3)) - 1});
    for (std::uint32_t m = 0; m < s.microbatches; ++m) {
      rows.push_back(static_cast<std::int64_t>(1 + random.below(3)));
      auto& x = numbers.emplace_back(static_cast<std::size_t>(rows.back()));
      for (auto& v : x) v = static_cast<double>(random.below(5)) - 2;
    }
    for (std::size_t m = 0; m < numbers.size(); ++m)
      inputs.push_back({numbers[m].data(), element_type::f64, {rows[m]}});
  }
  step_values values() const { return {inputs, 1, {}}; }
};

}  // namespace cleave::testing
