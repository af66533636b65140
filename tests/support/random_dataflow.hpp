// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

/// Returns an acyclic dataflow of `stages` stages, numbered in no particular order. It has skip connections,
/// values with several readers, stages without inputs or results, and inputs that are also results. There are
/// three inputs.
inline dataflow random_dataflow(rng& random, std::uint32_t stages) {
  dataflow t{.stages = stages, .edges = {}};
  std::vector<stage_id> order;
  for (std::uint32_t s = 0; s < stages; ++s) order.push_back(stage_id{s});
  random.shuffle(order);

  std::vector<std::pair<stage_id, std::uint32_t>> values{{the_caller, 0}, {the_caller, 1}, {the_caller, 2}};
  std::uint32_t results = 0;
  for (stage_id const s : order) {
    std::vector<std::pair<stage_id, std::uint32_t>> made;
    auto const inputs = static_cast<std::uint32_t>(random.below(4));
    for (std::uint32_t i = 0; i < inputs; ++i) {
      auto const [from, output] = values[random.below(values.size())];
      t.edges.push_back({from, output, s, i});
    }
    auto const outputs = static_cast<std::uint32_t>(random.below(4));
    for (std::uint32_t o = 0; o < outputs; ++o) made.emplace_back(s, o);
    values.insert(values.end(), made.begin(), made.end());
    // Every result gets a reader, in addition to those chosen at random.
    for (auto const& [from, output] : made) t.edges.push_back({from, output, the_caller, results++});
  }
  if (random.one_in(4)) t.edges.push_back({the_caller, 1, the_caller, results++});
  random.shuffle(t.edges);
  return t;
}

/// Returns the output of stage `s` for `in` in microbatch `m`: numbers that depend on all inputs.
inline std::vector<std::uint64_t> mixed(std::uint32_t s, std::uint32_t m,
                                        std::vector<std::uint64_t> const& in, std::size_t outputs) {
  std::uint64_t state = 1000003u * s + m;
  for (std::uint64_t const x : in) state = rng(state ^ x).next() + 1;
  std::vector<std::uint64_t> out;
  for (std::size_t o = 0; o < outputs; ++o) out.push_back(rng(state + o).next());
  return out;
}

/// The reference: computes the caller's results of one microbatch on this thread, following each edge back.
class sequential {
 public:
  sequential(dataflow const& t, std::uint32_t m, std::vector<std::uint64_t> given)
      : t_(t), m_(m), given_(std::move(given)) {}

  std::vector<std::uint64_t> results() { return inputs_of(the_caller); }

 private:
  std::vector<std::uint64_t> inputs_of(stage_id s) {
    std::map<std::uint32_t, std::uint64_t> in;
    for (auto const& e : t_.edges)
      if (e.to == s) in[e.input] = value(e.from, e.output);
    std::vector<std::uint64_t> list;
    for (auto const& [position, v] : in) list.push_back(v);
    return list;
  }
  std::uint64_t value(stage_id s, std::uint32_t output) {
    if (s == the_caller) return given_[output];
    if (!made_.contains(s)) made_[s] = mixed(index(s), m_, inputs_of(s), 4);
    return made_[s][output];
  }

  dataflow const& t_;
  std::uint32_t m_;
  std::vector<std::uint64_t> given_;
  std::map<stage_id, std::vector<std::uint64_t>> made_;
};

}  // namespace cleave::testing
