// SPDX-License-Identifier: MIT
// Proves how good stages are: first a lower bound without a search, then optimal stages with a proof.
#include <cleave/exact.hpp>
#include <iostream>
#include <string>
#include <vector>

// [graph]
/// Two towers of layers that meet at the end, as models of pictures and texts have them.
struct towers {
  static constexpr int layers = 6;

  std::vector<int> nodes() const {
    std::vector<int> all;
    for (int n = 0; n < 2 * layers + 1; ++n) all.push_back(n);
    return all;
  }
  std::vector<int> operands(int n) const {
    if (n == 2 * layers) return {layers - 1, 2 * layers - 1};
    if (n % layers == 0) return {};
    return {n - 1};
  }
  std::vector<int> results(int n) const { return {n}; }
  double weight(int n) const { return n < layers ? 3 : 2; }      // milliseconds
  std::size_t bytes(int n) const { return n < layers ? 4 : 1; }  // a byte takes one, too
};
// [graph]

int main() {
  cleave::balance_options const slices{.orders = {cleave::unit_order::breadth_first}, .random_orders = 0};
  auto const first = cleave::balance(towers{}, 3, slices);
  std::cout << "slices of one order: " << first.bottleneck << ", at least " << first.bound << '\n';

  // [certify]
  auto const c = cleave::certify(towers{}, 3, slices, first.bottleneck);
  std::cout << "no stages are below " << c.bound << ": the slices may be " << 100 * c.gap(first.bottleneck)
            << " % too slow\n";
  // [certify]

  // [exact]
  auto const best = cleave::partition_exact(towers{}, 3, {.balance = slices, .seconds = 10});
  std::cout << "the best stages: " << best.bottleneck << (best.proved ? ", proved" : best.unproved) << '\n';
  // [exact]

  // [spare]
  cleave::exact_balance_options with_host{.balance = slices, .devices = cleave::device_order::any};
  with_host.balance.empty = cleave::empty_parts::allowed;
  auto& host = with_host.spare.emplace_back();  // eight times as slow, and it pays for no transfers
  for (int const n : towers{}.nodes()) host.weight.push_back(8 * towers{}.weight(n));
  auto const helped = cleave::partition_exact(towers{}, 2, with_host);
  std::cout << "on two devices and a host: " << helped.bottleneck << ", in " << helped.parts << " stages\n";
  // [spare]
}

// It prints:
//
//   slices of one order: 18, at least 11
//   no stages are below 16: the slices may be 12.5 % too slow
//   the best stages: 16, proved
//   on two devices and a host: 20, in 3 stages
