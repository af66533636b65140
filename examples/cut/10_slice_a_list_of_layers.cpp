// SPDX-License-Identifier: MIT
// Cuts a list of layer times, without a graph. `slice_weights` makes slices with the smallest possible
// largest sum. The usual rule, an equal number of layers in each slice, is worse.
#include <cleave/classic.hpp>
#include <cleave/exact.hpp>
#include <cstddef>
#include <iostream>
#include <numeric>
#include <vector>

int main() {
  std::vector<int> const times{4, 1, 1, 1, 1, 1, 1, 6, 2, 2, 2, 9};  // milliseconds
  auto const show = [&](std::vector<std::size_t> const& at) {
    for (std::size_t s = 0; s + 1 < at.size(); ++s) {
      auto const first = times.begin() + static_cast<std::ptrdiff_t>(at[s]);
      auto const last = times.begin() + static_cast<std::ptrdiff_t>(at[s + 1]);
      std::cout << "  layers " << at[s] << " to " << at[s + 1] - 1 << " take "
                << std::accumulate(first, last, 0) << " ms\n";
    }
  };

  // [slices]
  auto const best = cleave::slice_weights<int>(times, 3);
  std::cout << "the slowest slice takes " << best.largest << " ms, and no three slices are better\n";
  show(best.at);  // where each slice begins, and the end of the last
  // [slices]
  std::cout << "an equal number of layers in each\n";
  show(cleave::deepspeed_uniform(times.size(), 3));

  // [partition]
  auto const parts = cleave::partition_of(best.at);  // for `split`, where the layers are the nodes of a graph
  std::cout << "layer 7 is in part " << index(parts.of[7]) << '\n';
  // [partition]
}

// It prints:
//
//   the slowest slice takes 11 ms, and no three slices are better
//     layers 0 to 6 take 10 ms
//     layers 7 to 9 take 10 ms
//     layers 10 to 11 take 11 ms
//   an equal number of layers in each
//     layers 0 to 3 take 7 ms
//     layers 4 to 7 take 9 ms
//     layers 8 to 11 take 15 ms
//   layer 7 is in part 1
