// SPDX-License-Identifier: MIT
// Stages with copies, where a stage that is short of memory runs some layers' forward passes again instead of
// keeping what their backward passes read.
#include <cleave/place.hpp>
#include <cstdint>
#include <iostream>

int main() {
  // [cost]
  // Eight layers. A forward pass takes 1 ms, a backward pass 2 ms. A layer keeps 100 MB for each microbatch,
  // or 10 MB if it runs again.
  constexpr std::uint32_t layers = 8;
  constexpr std::uint64_t mega = 1'000'000, limit = 700 * mega;
  auto const cost = [](std::uint32_t begin, std::uint32_t end, cleave::stage_form const& form) {
    auto const count = end - begin;
    std::uint32_t again = 0;
    auto const memory = [&] {
      return (50 * count + ((count - again) * 100 + again * 10) * form.kept) * mega;
    };
    while (again < count && memory() > limit) ++again;
    return cleave::slice_cost{.time = {.forward = 1.0 * (count + again), .backward = 2.0 * count},
                              .sum_time = form.width > 1 ? 3.0 * count : 0,
                              .memory = memory()};
  };
  cleave::placement_row row;
  row.units.cost.assign(layers + 1, {0, 0, 0, 0, 0});  // the times are those of `cost`
  cleave::replication_options const options{.devices = 5, .device = {.memory = limit}, .microbatches = 48};
  auto const placed = cleave::place_replicated(row, options, cost);
  // [cost]
  for (auto const& s : placed.stages)
    std::cout << "layers " << s.begin << " to " << s.end - 1 << ": " << s.width
              << (s.width > 1 ? " copies, kept by each: " : " copy, kept: ") << s.kept << " in "
              << s.memory / mega << " MB; layers that run again: " << s.time.forward - (s.end - s.begin)
              << '\n';
  std::cout << "a microbatch every " << placed.period << " ms"
            << (placed.is_optimal() ? ", and no other plan is faster\n" : "\n");
}

// It prints:
//
//   layers 0 to 2: 2 copies, kept by each: 3 in 510 MB; layers that run again: 2
//   layers 3 to 7: 3 copies, kept by each: 1 in 660 MB; layers that run again: 1
//   a microbatch every 5.6875 ms, and no other plan is faster
