// SPDX-License-Identifier: MIT
// Part of a program that was compiled with one version of the library. ANSWER is the name of its function.
#include <cleave/cleave.hpp>
#include <cleave/kway.hpp>
#include <cstdint>

std::uint64_t ANSWER() {
  cleave::adjacency<std::uint32_t> ring;
  for (std::uint32_t n = 0; n < 1000; ++n) {
    ring.targets.push_back((n + 1) % 1000);
    ring.targets.push_back((n + 999) % 1000);
    ring.offsets.push_back(static_cast<std::uint32_t>(ring.targets.size()));
  }
  std::uint64_t digest = 0;
  for (auto const part : cleave::partition_kway(ring.view(), 7, {.seed = 1}).of)
    digest = digest * 31 + index(part);
  return digest;
}
