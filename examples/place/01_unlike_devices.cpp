// SPDX-License-Identifier: MIT
// Cuts a decoder into stages for three unlike machines: which machine runs which layers, and what limits it.
#include <cleave/formats.hpp>
#include <cleave/place.hpp>
#include <cstddef>
#include <iostream>
#include <ranges>
#include <string>
#include <vector>

/// A decoder of 24 layers in a chain. Layer n makes value n and reads its weights, which are value 100 + n.
/// Costs are in operations, sizes in bytes.
struct decoder {
  static constexpr int layers = 24;

  auto nodes() const { return std::views::iota(0, layers); }
  std::vector<int> inputs() const { return {}; }
  std::vector<int> outputs() const { return {layers - 1}; }
  auto state() const { return std::views::iota(100, 100 + layers); }
  std::vector<int> operands(int n) const { return n == 0 ? std::vector{100} : std::vector{n - 1, 100 + n}; }
  double weight(int n) const { return n + 1 == layers ? 40e9 : 10e9; }  // the last has the vocabulary
  std::size_t bytes(int value) const { return value >= 100 ? 400'000'000 : 2'000'000; }
};

int main() {
  // [devices]
  auto const network = cleave::read_devices(R"({
    "format": "cleave devices 1",
    "devices": [
      {"name": "desktop", "speed": 8e12, "memory": "6GiB"},
      {"name": "laptop", "speed": 3e12, "memory": "4GiB"},
      {"name": "phone", "speed": 2e11, "memory": "1GiB"}],
    "link": {"latency": 0.001, "bandwidth": 1e8},
    "links": [{"between": ["desktop", "laptop"], "latency": 0.0002, "bandwidth": 1e9}]})");
  // [devices]

  // [place]
  auto const placed = cleave::place(decoder{}, network, {.goal = cleave::placement_goal::throughput});
  for (auto const& s : placed.stages)
    std::cout << network.devices[s.device].name << ": layers " << s.begin << " to " << s.end - 1 << ", "
              << s.time.forward * 1000 << " ms, " << s.memory / 1'000'000 << " MB\n";
  std::cout << "a microbatch every " << placed.period * 1000 << " ms"
            << (placed.is_optimal() ? ", the optimum" : "") << "; one takes " << placed.latency * 1000
            << " ms\n";
  for (auto const d : placed.unused) std::cout << "not used: " << network.devices[d].name << '\n';
  // [place]

  // [compare]
  // Two other ways on the same machines: equal layers, and layers in proportion to memory.
  auto const row = cleave::placement_row_of(decoder{});
  auto const equal = cleave::time_placement(row, network, {{0, 0, 8}, {1, 8, 16}, {2, 16, 24}});
  auto const by_memory = cleave::time_placement(row, network, {{0, 0, 13}, {1, 13, 22}, {2, 22, 24}});
  std::cout << "equal layers: " << equal.period * 1000 << " ms, by memory: " << by_memory.period * 1000
            << " ms\n";
  // [compare]
}

// It prints:
//
//   laptop: layers 0 to 7, 26.6667 ms, 3200 MB
//   desktop: layers 8 to 23, 23.75 ms, 6400 MB
//   a microbatch every 26.6667 ms, the optimum; one takes 52.6167 ms
//   not used: phone
//   equal layers: 550 ms, by memory: 250 ms
