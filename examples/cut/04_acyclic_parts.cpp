// SPDX-License-Identifier: MIT
// Cuts a network with skip connections into acyclic parts, with four goals: smallest largest load, smallest
// cut, different devices, and the shortest simulated step.
#include <algorithm>
#include <cleave/acyclic.hpp>
#include <cleave/graph.hpp>
#include <cleave/schedule.hpp>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

/// A U-shaped network: each block on the way up reads its counterpart on the way down. Every fifth block
/// sends little.
struct unet {
  static constexpr int blocks = 16;
  auto nodes() const {
    return cleave::counted(blocks, [](std::size_t n) { return static_cast<int>(n); });
  }
  std::vector<int> operands(int n) const {
    if (n < blocks / 2) return {n - 1};
    return {n - 1, blocks - 1 - n};
  }
  std::vector<int> inputs() const { return {-1}; }
  std::vector<int> outputs() const { return {blocks - 1}; }
  double weight(int n) const { return n % 3 == 0 ? 9 : 4; }
  std::size_t bytes(int v) const { return v % 5 == 2 ? 1 : 4; }
};

void show(std::string const& what, cleave::ordered_partition const& p) {
  std::cout << what << "\n ";
  for (auto const part : p.of) std::cout << ' ' << index(part);
  std::cout << "\n  largest load " << p.bottleneck << ", cut " << p.cut << '\n';
}

int main() {
  unet const g;
  // [goals]
  cleave::acyclic_options options;  // of least largest load
  show("even loads", partition_acyclic(g, 4, options));
  options.goal = cleave::acyclic_goal::cut;
  options.epsilon = 0.3;
  show("least bytes sent, 30 % from even", partition_acyclic(g, 4, options));
  // [goals]

  // [devices]
  options = {.devices = cleave::device_order::any};
  options.limits = {.speed = {1, 1, 1, 0.8},
                    .link = {1, 1, 1, 0}};  // the last is a host: slow, but no transfers
  auto const with_host = partition_acyclic(g, 4, options);
  show("three devices and a host", with_host);
  std::cout << "  the host is part " << std::ranges::find(with_host.device, 3u) - with_host.device.begin()
            << '\n';
  // [devices]

  // [step]
  auto const snapshot = cleave::snapshot_of(g);
  auto const step = [&](cleave::partition const& p) {  // of one_f_one_b with eight microbatches
    std::vector<cleave::stage_cost> costs;
    for (double const load : part_loads(snapshot, p))
      costs.push_back({.forward = load, .backward = 2 * load});
    return simulate(cleave::one_f_one_b(p.parts, 8), {.costs = costs}).makespan;
  };
  auto const shortest = partition_acyclic(snapshot, 4, {}, step);
  show("least time of a step", shortest);
  std::cout << "  which takes " << shortest.step_time << '\n';
  // [step]
}

// It prints:
//
//   even loads
//     0 0 0 0 1 1 1 1 2 2 2 2 3 3 3 3
//     largest load 43, cut 34
//   least bytes sent, 30 % from even
//     0 0 0 1 1 1 2 2 2 2 2 3 3 3 3 3
//     largest load 51, cut 26
//   three devices and a host
//     0 0 0 1 1 1 2 2 2 2 2 3 3 3 3 3
//     largest load 38, cut 26
//     the host is part 3
//   least time of a step
//     0 0 0 1 1 1 1 2 2 2 2 2 3 3 3 3
//     largest load 43, cut 30
//     which takes 1362
