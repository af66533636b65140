// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/interleaved_1f1b.hpp"

#include <doctest/doctest.h>

#include <cstdint>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("grouped_walk: visits groups, chunks and microbatches in the order of three nested loops") {
  for (std::uint32_t chunks = 1; chunks <= 3; ++chunks)
    for (std::uint32_t microbatches = 1; microbatches <= 9; ++microbatches)
      for (std::uint32_t group = 1; group <= 10; ++group) {
        grouped_walk walk(chunks, microbatches, group);
        for (std::uint32_t first = 0; first < microbatches; first += group)
          for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
            for (std::uint32_t i = first; i < first + group && i < microbatches; ++i) {
              auto const step = walk.next();
              CHECK(step.chunk == chunk);
              CHECK(step.microbatch == i);
            }
      }
}
