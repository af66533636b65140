// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <string>

#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/formats/graph_files/hmetis_hypergraph.hpp"
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

TEST_CASE("cleave instances: writes hypergraphs") {
  scratch_folder const at;
  CHECK(run_tool({"instances"}).said.find("netlist_10k") != std::string::npos);
  auto const r =
      run_tool({"instances", at.path(), "rows_grid2d:9", "values_tfm_L24_H1", "netlist:2k:3", "nets:1k"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  CHECK(text_of_file(at / "rows_grid2d_9.hgr") ==
        "9 9\n1 2 4\n1 2 3 5\n2 3 6\n1 4 5 7\n2 4 5 6 8\n3 5 6 9\n4 7 8\n5 7 8 9\n6 8 9\n");
  auto const nodes = [&](std::string const& name) {
    return cleave::read_hmetis_hypergraph(text_of_file(at / name)).nodes;
  };
  CHECK(nodes("values_tfm_L24_H1.hgr") == 583);
  CHECK(nodes("netlist_2k_3.hgr") == 2000);
  CHECK(nodes("nets_1k.hgr") == 1000);
  auto const wrong = run_tool({"instances", at.path(), "rows_tfm_L24_H1"});
  CHECK(wrong.exit == 3);
  CHECK(wrong.to_stderr.find("rows_ stands before an undirected graph") != std::string::npos);
  CHECK(run_tool({"instances", at.path(), "netlist:many"}).to_stderr.find("write netlist:100k") !=
        std::string::npos);
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
