// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/model/partition.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

namespace cleave::testing {

/// Returns a program of `nodes` operations with several results, copies, state and effects.
inline toy::program random_program(rng& random, std::size_t nodes) {
  toy::program p{{"x", "y"}, {"w"}, {}};
  std::vector<std::string> known = {"x", "y", "w"};
  for (std::size_t i = 0; i < nodes; ++i) {
    toy::op o{"op" + std::to_string(i), {}, {}, static_cast<double>(1 + random.below(9))};
    for (auto n = 1 + random.below(3); n > 0; --n) o.in.push_back(known[random.below(known.size())]);
    for (auto n = 1 + random.below(2); n > 0; --n)
      o.out.push_back("v" + std::to_string(i) + std::string(n, '\''));
    o.cheap = random.one_in(6);
    if (i > 0 && random.one_in(5)) o.follows.push_back(p.ops[random.below(i)].get());
    known.insert(known.end(), o.out.begin(), o.out.end());
    p.add(std::move(o));
  }
  p.outputs = {known.back(), "x"};
  return p;
}

/// Cuts the nodes, in order, into `parts` slices of equal length.
inline partition equal_slices(std::size_t nodes, std::uint32_t parts) {
  partition p{{}, parts};
  for (std::size_t n = 0; n < nodes; ++n)
    p.of.push_back(part_id{static_cast<std::uint32_t>(n * parts / nodes)});
  return p;
}

}  // namespace cleave::testing
