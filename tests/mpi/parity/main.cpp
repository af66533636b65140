// SPDX-License-Identifier: MIT
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "../ranks/rank_case.hpp"
#include "conformance_runner/outcome.hpp"

/// Runs the recorded training runs, each with all processes: every rank gets the whole result and
/// compares it with the recorded one.
namespace cleave::conformance {

outcome run_pipe_parity(test_case const& c, json const& body);

namespace {

int run_all(cleave::mpi::environment const& mpi) {
  std::ifstream file(std::filesystem::path(CLEAVE_TEST_DATA) / "conformance" / "pipe" / "parity.json");
  auto const recorded = json::parse(file);
  std::size_t same = 0;
  for (json const& body : recorded.at("cases")) {
    test_case c;
    c.area = "pipe";
    c.name = body.at("name").get<std::string>();
    auto const found = run_pipe_parity(c, body);
    for (auto const& d : found.differences)
      testing::say(c.name + ": " + d.what + ": expected " + d.expected + ", got " + d.got);
    same += found.differences.empty() ? 1 : 0;
  }
  testing::must(same == recorded.at("cases").size(), "not all cases are the same");
  if (mpi.rank() == rank_id{0}) testing::say(std::to_string(same) + " cases are the same");
  return 0;
}

}  // namespace
}  // namespace cleave::conformance

int main() {
  cleave::mpi::environment mpi;
  return mpi.run([&] { return cleave::conformance::run_all(mpi); });
}
