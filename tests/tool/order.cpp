// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

/// A grid of `side` by `side` nodes as a list of edges.
void put_grid(std::string const& file, int side) {
  std::ofstream out(file);
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      if (x + 1 < side) out << y * side + x << ' ' << y * side + x + 1 << '\n';
      if (y + 1 < side) out << y * side + x << ' ' << (y + 1) * side + x << '\n';
    }
}

}  // namespace

TEST_CASE("cleave order: writes the position of each node and reports the size of the factor") {
  scratch_folder const at;
  put_grid(at / "grid.edges", 20);
  auto const r = run_tool({"order", at / "grid.edges", "--out", at / "order"});
  CAPTURE(r.said);
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  for (std::string const said : {"400 nodes, 760 edges", "factor     ", "separators ", "written    "})
    CHECK_MESSAGE(r.said.find(said) != std::string::npos, said);
  auto const text = text_of_file(at / "order");
  std::istringstream lines(text);
  std::vector<int> positions;
  for (int p = 0; lines >> p;) positions.push_back(p);
  std::ranges::sort(positions);
  REQUIRE(positions.size() == 400);
  for (int i = 0; i < 400; ++i) CHECK(positions[static_cast<std::size_t>(i)] == i);
  CHECK(run_tool({"order", at / "grid.edges", "--out", "-"}).said == text);
  CHECK(run_tool({"order", at / "grid.edges", "--out", at / "order"}).exit == 0);  // its own file
}

TEST_CASE("cleave order: refuses missing files, missing operands and wrong options") {
  scratch_folder const at;
  put_grid(at / "grid.edges", 3);
  CHECK(run_tool({"order"}).exit == 2);
  CHECK(run_tool({"order", at / "grid.edges", at / "grid.edges"}).exit == 2);
  CHECK(run_tool({"order", at / "grid.edges", "--restarts", "0"}).exit == 2);
  CHECK(run_tool({"order", at / "absent.edges"}).exit == 3);
  std::ofstream(at / "mine") << "text\n";
  CHECK(run_tool({"order", at / "grid.edges", "--out", at / "mine"}).exit != 0);
  CHECK(text_of_file(at / "mine") == "text\n");
}
