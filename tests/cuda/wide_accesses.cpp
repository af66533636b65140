// SPDX-License-Identifier: MIT
// The machine code of bench/gpu/packs.cu for sm_100.
#include <doctest/doctest.h>

#include <string>

#include "support/cuda/object_code.hpp"

using namespace cleave::testing;

TEST_CASE(
    "wide_gpu_lanes: access 32 bytes at once on sm_100; other lanes, whose packs may not be aligned, do "
    "not") {
  auto const kernels = kernels_in(CLEAVE_CUDA_WIDE);
  REQUIRE(kernels.size() == 3);
  std::size_t wide = 0;
  for (auto const& k : kernels) {
    CHECK_MESSAGE(k.frame == 0, k.name);
    CHECK_MESSAGE(k.count("LDG.128") > 0, k.name);  // of bf16, half as long as f32
    if (k.count("LDG.256") == 0) {
      CHECK_MESSAGE(k.count("STG.256") == 0, k.name);
      CHECK_MESSAGE(k.count("STG.128") > 0, k.name);
      continue;
    }
    ++wide;
    CHECK_MESSAGE(k.count("STG.256") > 0, k.name);
    CHECK_MESSAGE(k.count("STG.128") == 0, k.name);
  }
  CHECK(wide == 1);
}
