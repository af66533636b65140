// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <string>

#include "cleave/formats/graph_files/graph_file.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

TEST_CASE("cleave instances: lists graphs and writes the named ones") {
  scratch_folder const at;
  auto const list = run_tool({"instances"});
  CHECK(list.exit == 0);
  CHECK(list.said.find("grid2d_1M") != std::string::npos);
  CHECK(list.said.find("rgg2d:100k:7") != std::string::npos);
  auto const r = run_tool({"instances", at / "new/folder", "tfm_L24_H1", "grid2d:100", "sbm:1k:2"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  CHECK(cleave::read_graph_file(at / "new/folder/grid2d_100.graph").view().directed_edges() == 360);
  CHECK(cleave::read_graph_file(at / "new/folder/sbm_1k_2.graph").view().nodes() == 992);
  CHECK(cleave::read_cost_dag(at / "new/folder/tfm_L24_H1.dag").nodes() == 583);
}

TEST_CASE("cleave instances: rejects unknown names and suggests near ones") {
  scratch_folder const at;
  auto const none = run_tool({"instances", at.path()});
  CHECK(none.exit == 2);
  CHECK(none.to_stderr.find("the names of graphs are missing") != std::string::npos);
  auto const near = run_tool({"instances", at.path(), "rgg2d_15"});
  CHECK(near.exit == 2);
  CHECK(near.to_stderr.find("unknown graph 'rgg2d_15'; nearest: 'rgg2d_14'") != std::string::npos);
  CHECK(run_tool({"instances", at.path(), "rgg2d:many"}).exit == 3);
  CHECK(run_tool({"instances", "/dev/null/x", "grid2d:9"}).exit == 3);
}
