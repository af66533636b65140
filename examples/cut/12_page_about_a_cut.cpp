// SPDX-License-Identifier: MIT
// Writes a page about a cut: the balance of the stages, a picture of what they send to each other, and a
// list of their nodes that can be searched. Takes the name of the file.
#include <cleave/cleave.hpp>
#include <cleave/draw.hpp>
#include <cstddef>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

/// Twelve blocks of four layers. The last layer of each block also reads the input of the block, and that of
/// the network the result of the first block.
struct network {
  static constexpr char const* kinds[] = {"norm", "expand", "reduce", "add"};

  auto nodes() const {
    return cleave::counted(48, [](std::size_t n) { return static_cast<int>(n); });
  }
  std::vector<int> operands(int n) const {
    if (n == 47) return {n - 1, n - 4, 3};
    if (n % 4 == 3) return {n - 1, n - 4};
    return {n - 1};  // -1 is the input of the network
  }
  std::vector<int> inputs() const { return {-1}; }
  std::vector<int> outputs() const { return {47}; }
  std::string name(int n) const { return "block" + std::to_string(n / 4) + "." + kinds[n % 4]; }
  double weight(int n) const { return n % 4 == 1 || n % 4 == 2 ? 4e9 : 1e8; }  // FLOP
  std::size_t bytes(int v) const { return v >= 0 && v % 4 == 1 ? 16'000'000 : 4'000'000; }
};

int main(int count, char** words) {
  // [page]
  network const g;
  auto const cut = cleave::balance(g, 4, {.cost_per_byte = 20});  // in FLOP
  auto const stages = cleave::split(g, cut);

  auto report = cleave::report_of(stages.snapshot(), stages.plan(), cut);
  report.title = "Twelve blocks";
  report.cost_unit = "FLOP";
  auto const page = cleave::write_report(report);
  // [page]
  if (count > 1) std::ofstream(words[1]) << page;

  for (auto const& link : report.cut.links)
    std::cout << "stage " << index(link.from) << " sends " << link.values
              << (link.values == 1 ? " value" : " values") << " to stage " << index(link.to) << ", "
              << link.bytes.known / 1'000'000 << " MB\n";
  for (auto const& sent : report.transfers)
    std::cout << "  " << sent.value << " to stage " << index(sent.to) << '\n';
}

// It prints:
//
//   stage 0 sends 1 value to stage 1, 4 MB
//   stage 0 sends 1 value to stage 3, 4 MB
//   stage 1 sends 1 value to stage 2, 4 MB
//   stage 2 sends 1 value to stage 3, 4 MB
//     block2.add to stage 1
//     block5.add to stage 2
//     block8.add to stage 3
//     block0.add to stage 3
