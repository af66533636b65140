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

/// A path of `nodes` nodes as METIS writes graphs.
std::string path_graph(int nodes) {
  std::ostringstream text;
  text << nodes << ' ' << nodes - 1 << '\n';
  for (int n = 1; n <= nodes; ++n) {
    if (n > 1) text << n - 1 << ' ';
    if (n < nodes) text << n + 1;
    text << '\n';
  }
  return text.str();
}

std::vector<std::vector<std::string>> cells_of(std::string const& table) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream cells(line + ",");
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

bool has_metis() { return run_tool({"bench", "--list"}).said.find("METIS, k-way") != std::string::npos; }

}  // namespace

TEST_CASE("cleave bench: runs each algorithm on each instance, k and seed, and writes the parts") {
  std::vector<std::string> algorithms{"cleave-fast", "cleave-standard"};
  if (has_metis()) algorithms.push_back("metis");
  scratch_folder const out;
  std::ofstream(out / "a.graph") << path_graph(64);
  std::ofstream(out / "b.graph") << path_graph(300);
  auto const r =
      run_tool({"bench", out.path(), "--algos", has_metis() ? "fast,standard,metis" : "fast,standard", "-k",
                "2,4", "--seeds", "2", "--out", out / "r.csv", "--parts", out / "parts"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  auto const rows = cells_of(text_of_file(out / "r.csv"));
  REQUIRE(rows.size() == 1 + 2 * 2 * 2 * algorithms.size());
  CHECK(rows[0][0] == "peer");
  for (std::size_t i = 1; i < rows.size(); ++i) {
    REQUIRE(rows[i].size() == 19);
    CHECK(rows[i][0] == algorithms[(i - 1) % algorithms.size()]);
    CHECK(rows[i][10] == (rows[i][4] == "2" ? "1" : "3"));  // a path in k parts
    CHECK(rows[i][14] == rows[i][10]);
    CHECK(rows[i][15] == "ok");
    CHECK(rows[i][18] == "edge-cut");
  }
  auto const parts = text_of_file(out / "parts/b.cleave-fast.k4.eps0.03.seed2.threads1.part");
  CHECK(std::ranges::count(parts, '\n') == 300);
  auto const more =
      run_tool({"bench", out / "a.graph", "--algos", "fast", "-k", "2", "--append", "--out", out / "r.csv"});
  CHECK(more.exit == 0);
  CHECK(cells_of(text_of_file(out / "r.csv")).size() == rows.size() + 1);
  CHECK(run_tool({"report", out / "r.csv"}).exit == 0);
}

TEST_CASE("cleave bench: gives directed instances only to algorithms that leave no cycle of parts") {
  scratch_folder const out;
  std::ofstream(out / "a.dag") << "4 4\n1 1\n2 1\n2 1\n1 1\n0 1 1\n0 2 1\n1 3 1\n2 3 1\n";
  std::ofstream(out / "b.graph") << path_graph(64);
  auto const r = run_tool({"bench", out / "a.dag", out / "b.graph", "--algos", "fast,slices", "-k", "2"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  auto const rows = cells_of(r.said);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1][0] == "cleave-slices");
  CHECK(rows[1][1] == "a");
  CHECK(rows[1][10] == "2");  // arcs between {0, 1} and {2, 3}
  CHECK(rows[1][15] == "ok");
  CHECK(rows[1][16] == "5");  // 3 of work, one value out and one in
  CHECK(rows[2][0] == "cleave-fast");
}

TEST_CASE("cleave bench: cuts hypergraphs beside graphs, for each goal, and recounts the nets") {
  scratch_folder const out;
  std::ofstream(out / "a.hgr") << "4 6\n1 2 3\n4 5 6\n3 4\n1 3\n";  // the net 3 4 joins two halves
  std::ofstream(out / "b.graph") << path_graph(64);
  std::ofstream(out / "c.u") << "% PaToH\n0 4 2 5 2\n7 0 1\n5 1 2 3\n";
  auto const r = run_tool({"bench", out.path(), "--algos", "fast,standard", "--goal", "connectivity,cut-nets",
                           "-k", "2,3", "--eps", "0", "--out", out / "r.csv", "--parts", out / "parts"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  auto const rows = cells_of(text_of_file(out / "r.csv"));
  REQUIRE(rows.size() == 1 + 8 + 4 + 8);
  CHECK(rows[0][18] == "metric");
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CAPTURE(i);
    auto const& row = rows[i];
    CHECK(row[0] == (i % 2 == 1 ? "cleave-fast" : "cleave-standard"));
    CHECK(row[15] == "ok");
    CHECK(row[14] == row[10]);
    if (row[1] == "b") {
      CHECK(row[18] == "edge-cut");
      continue;
    }
    CHECK(row[3] == (row[1] == "a" ? "4" : "2"));  // nets
    CHECK(row[18] == ((i - 1) % 12 < 4 ? "connectivity" : "cut-nets"));
    if (row[1] == "a" && row[4] == "2") CHECK(row[10] == "1");
  }
  CHECK(r.said.find("Hypergraphs: connectivity, λ − 1") != std::string::npos);
  CHECK(r.said.find("Hypergraphs: cut nets") != std::string::npos);
  for (std::string const goal : {"", ".cut-nets"}) {
    auto const parts = text_of_file(out / ("parts/a.cleave-fast.k2.eps0.seed1.threads1" + goal + ".part"));
    CHECK((parts == "0\n0\n0\n1\n1\n1\n" || parts == "1\n1\n1\n0\n0\n0\n"));
  }
}

TEST_CASE("cleave bench: leaves algorithms out that cut no hypergraphs, and says so once") {
  scratch_folder const out;
  std::ofstream(out / "a.hgr") << "2 4\n1 2\n3 4\n";
  std::ofstream(out / "b.hgr") << "2 4\n1 3\n2 4\n";
  auto const r = run_tool({"bench", out.path(), "--algos", "fast,fm,labels", "-k", "2"});
  CHECK(r.exit == 0);
  CHECK(cells_of(r.said).size() == 3);
  std::string const note = "left out for hypergraphs, which they do not cut: fm, labels";
  auto const at = r.to_stderr.find(note);
  REQUIRE(at != std::string::npos);
  CHECK(r.to_stderr.find(note, at + 1) == std::string::npos);
  auto const none = run_tool({"bench", out / "a.hgr", "--algos", "fm", "-k", "2"});
  CHECK(none.exit == 3);
  CHECK(none.to_stderr.find("a: skipped, since none of the chosen algorithms cuts hypergraphs") !=
        std::string::npos);
  auto const wrong = run_tool({"bench", out / "a.hgr", "--goal", "nets"});
  CHECK(wrong.exit == 2);
  CHECK(wrong.to_stderr.find("--goal takes connectivity, cut-nets or both, not 'nets'") != std::string::npos);
  std::ofstream(out / "c.hgr") << "1 4\n1 5\n";
  CHECK(run_tool({"bench", out / "c.hgr"}).to_stderr.find("c.hgr: line 2, column 3: expected a pin") !=
        std::string::npos);
}

TEST_CASE("cleave bench: makes graphs by name, or by family and size") {
  auto const r = run_tool({"bench", "sbm:2k", "unet_6x4", "--algos", "fast,slices", "-k", "2"});
  REQUIRE(r.exit == 0);
  auto const rows = cells_of(r.said);
  REQUIRE(rows.size() == 3);
  CHECK(rows[1][1] == "sbm:2k");
  CHECK(rows[1][2] == "2000");
  CHECK(rows[2][1] == "unet_6x4");
  CHECK(run_tool({"bench", "--list"}).said.find("rgg2d_18") != std::string::npos);
  auto const wrong = run_tool({"bench", "rgg2:1k"});
  CHECK(wrong.exit == 3);
  CHECK(wrong.to_stderr.find("no family of graphs is called 'rgg2'") != std::string::npos);
}

TEST_CASE("cleave bench: survives timeouts and crashes of an algorithm") {
  scratch_folder const out;
  std::ofstream(out / "a.graph") << path_graph(100'000);
  auto const late =
      run_tool({"bench", out / "a.graph", "--algos", "quality", "-k", "64", "--time-limit", "0.001"});
  CHECK(late.exit == 0);
  CHECK(cells_of(late.said).at(1).at(15) == "no answer in 0.001 s");
  if (!has_metis()) return;
  auto const crash = run_tool({"bench", out / "a.graph", "--algos", "metis", "-k", "1"});
  CHECK(crash.exit == 0);
  auto const status = cells_of(crash.said).at(1).at(15);
  CHECK((status == "SIGFPE" || status == "ok"));  // 5.1 divides by zero
}

TEST_CASE("cleave bench: rejects missing instances, wrong options, unknown algorithms and bad files") {
  scratch_folder const out;
  std::ofstream(out / "bad.graph") << "3 1\n2\n1 9\n\n";
  auto const refusal = [](std::vector<std::string> words, int code) {
    words.insert(words.begin(), "bench");
    auto const r = run_tool(words);
    CHECK(r.exit == code);
    return r.to_stderr;
  };
  CHECK(refusal({}, 2).find("an instance is missing") != std::string::npos);
  CHECK(refusal({out.path(), "-k", "2,x"}, 2).find("-k takes whole numbers") != std::string::npos);
  CHECK(refusal({out.path(), "--algos", "no-such"}, 2).find("unknown algorithm no-such") !=
        std::string::npos);
  CHECK(refusal({out / "none.graph"}, 3).find("no such file, folder") != std::string::npos);
  CHECK(refusal({out / "bad.graph"}, 3).find("bad.graph") != std::string::npos);
  auto const nothing = refusal({out.path()}, 3);
  CHECK(nothing.find("; skipped") != std::string::npos);
  CHECK(nothing.find("nothing was run") != std::string::npos);
}

TEST_CASE("cleave bench: balances several weights, and leaves out algorithms that balance one") {
  scratch_folder const at;
  run_tool({"instances", at.path(), "rgg2d:2k+phases3"});
  auto const file = at / "rgg2d_2k+phases3.graph", table = at / "t.csv";
  auto const r =
      run_tool({"bench", file, "rgg2d:2k+random2", "--algos", "fast,growing", "-k", "4", "--out", table});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 0);
  auto const rows = text_of_file(table);
  CHECK(rows.find("cleave-fast,rgg2d_2k+phases3") != std::string::npos);
  CHECK(rows.find("cleave-fast,rgg2d:2k+random2") != std::string::npos);
  CHECK(rows.find("growing") == std::string::npos);
  CHECK(r.to_stderr.find("left out for nodes with several weights, since they balance only one: growing") !=
        std::string::npos);
  auto const none = run_tool({"bench", "rgg2d:2k+random2", "--algos", "growing"});
  CHECK(none.to_stderr.find("none of the chosen algorithms balances several weights") != std::string::npos);
  auto const wrong = run_tool({"bench", "rgg2d:2k+random9", "--algos", "fast"});
  CHECK(wrong.exit == 3);
  CHECK(wrong.to_stderr.find("write +random3 behind the name of an undirected one") != std::string::npos);
}
