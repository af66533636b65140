// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "support/markup.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

std::string const header =
    "peer,graph,n,m,k,eps,seed,threads,wall_s,cpu_s,cut,imbalance,empty,memory_csr,claimed_cut,status\n";

/// Two algorithms and a baseline on four problems: `quick` cuts half and twice as much in half the time;
/// `late` answers once, breaks the balance once, times out once and is missing once.
std::string const runs = header +
                         "metis,grid2d_1k,1000,1900,2,0.03,1,1,0.1,0.1,100,0.01,0,1.5,100,ok\n"
                         "metis,grid2d_1k,1000,1900,2,0.03,2,1,0.1,0.1,100,0.01,0,1.5,100,ok\n"
                         "metis,rmat_10,1000,9000,2,0.03,1,1,0.2,0.2,400,0.01,0,1.5,400,ok\n"
                         "metis,rmat_10,1000,9000,8,0.03,1,1,0.4,0.4,800,0.01,0,1.5,800,ok\n"
                         "metis,mine,10,9,2,0.03,1,1,0.4,0.4,3,0,0,1.5,3,ok\n"
                         "quick,grid2d_1k,1000,1900,2,0.03,1,1,0.05,0.05,40,0.01,0,1.5,,ok\n"
                         "quick,grid2d_1k,1000,1900,2,0.03,2,1,0.05,0.05,60,0.01,0,1.5,,ok\n"
                         "quick,rmat_10,1000,9000,2,0.03,1,1,0.1,0.1,800,0.01,0,1.5,,ok\n"
                         "quick,rmat_10,1000,9000,8,0.03,1,1,0.2,0.2,1600,0.01,0,1.5,,ok\n"
                         "late,grid2d_1k,1000,1900,2,0.03,1,1,1,1,10,0.25,0,1.5,,ok\n"
                         "late,rmat_10,1000,9000,2,0.03,1,1,,,,,,,,no answer in 60 s\n"
                         "late,mine,10,9,2,0.03,1,1,,,,,,,,SIGFPE\n"
                         "late,rmat_10,1000,9000,8,0.03,1,1,4,4,400,0.01,0,1.5,,ok\n";

std::string row_of(std::string const& text, std::string const& begin) {
  auto const at = text.find("\n" + begin);
  return at == text.npos ? "" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

void check_refused(std::string const& table, std::string const& said) {
  scratch_folder const out;
  std::ofstream(out / "r.csv", std::ios::binary) << table;
  auto const r = run_tool({"report", out / "r.csv"});
  CAPTURE(r.to_stderr);
  CHECK(r.exit == 3);
  CHECK(r.to_stderr.find("r.csv" + said) != std::string::npos);
}

}  // namespace

TEST_CASE("cleave report: means are geometric, over problems that both solved within the balance") {
  scratch_folder const out;
  std::ofstream(out / "r.csv", std::ios::binary) << runs;
  auto const r = run_tool({"report", out / "r.csv", "--markdown"});
  REQUIRE(r.exit == 0);
  CHECK(r.said.starts_with("| cut / time, × metis | grids and roads | power law | other graphs | all |\n"));
  CHECK(row_of(r.said, "| quick") ==
        "| quick | 0.500 / 0.50 (1) | 2.000 / 0.50 (2) | – | 1.260 / 0.50 (3) |");
  CHECK(row_of(r.said, "| late") == "| late | – | 0.500 / 10.00 (1) | – | 0.500 / 10.00 (1) |");
  CHECK(row_of(r.said, "| grid2d_1k | 2") ==
        "| grid2d_1k | 2 | cut 100, 0.1 s | **0.500 / 0.50** | infeasible (25.0\u00a0%) |");
  CHECK(row_of(r.said, "| rmat_10 | 2") == "| rmat_10 | 2 | **cut 400, 0.2 s** | 2.000 / 0.50 | timed out |");
  CHECK(row_of(r.said, "| rmat_10 | 8") ==
        "| rmat_10 | 8 | cut 800, 0.4 s | 2.000 / 0.50 | **0.500 / 10.00** |");
  CHECK(row_of(r.said, "| mine | 2") == "| mine | 2 | **cut 3, 0.4 s** | – | crashed: SIGFPE |");
}

TEST_CASE("cleave report: joins tables and compares with the named baseline") {
  scratch_folder const out;
  std::ofstream(out / "a.csv", std::ios::binary) << runs.substr(0, runs.find("quick"));
  std::ofstream(out / "b.csv", std::ios::binary)
      << header + "quick,rmat_10,1000,9000,2,0.03,1,1,0.1,0.1,800,0.01,0,1.5,,ok\r\n" + header +
             "quick,rmat_10,1000,9000,2,0.03,1,2,0.05,0.1,800,0.01,0,1.5,,ok\n";
  auto const r = run_tool({"report", out / "a.csv", out / "b.csv", "--baseline", "quick", "--markdown"});
  REQUIRE(r.exit == 0);
  CHECK(row_of(r.said, "| metis").find("| 0.500 / 2.00 (1) |") != std::string::npos);
  CHECK(row_of(r.said, "| quick (2 threads)").find("| 1.000 / 0.50 (1) |") != std::string::npos);
  auto const wrong = run_tool({"report", out / "a.csv", "--baseline", "mets"});
  CHECK(wrong.exit == 2);
  CHECK(wrong.to_stderr.find("did you mean metis") != std::string::npos);
}

TEST_CASE("cleave report: writes a page with both pictures, and each picture alone") {
  scratch_folder const out;
  std::ofstream(out / "r.csv", std::ios::binary) << runs;
  auto const r = run_tool({"report", out / "r.csv", "--out", out / "r.html", "--profile-svg", out / "p.svg",
                           "--times-svg", out / "t.svg"});
  REQUIRE(r.exit == 0);
  auto const page = markup_reader(text_of_file(out / "r.html")).read();
  auto const curves = [](auto const& elements, std::string const& tag) {
    return std::ranges::count_if(
        elements, [&](auto const& e) { return e.tag == tag && e.attributes.contains("data-algorithm"); });
  };
  CHECK(curves(page, "path") == 3);
  CHECK(curves(page, "circle") == 3);
  auto const bad = std::ranges::count_if(page, [](auto const& e) { return e.tag == "td" && e.is("bad"); });
  CHECK(bad == 3 + 3);  // counts of infeasible, late and crashed runs; their problems
  CHECK(curves(markup_reader(text_of_file(out / "p.svg")).read(), "path") == 3);
  CHECK(curves(markup_reader(text_of_file(out / "t.svg")).read(), "circle") == 3);
}

TEST_CASE("cleave report: rejects a wrong table and names the line") {
  check_refused("", ":1: the table is empty");
  check_refused(header, ": the table has a header but no rows");
  check_refused("peer,graph,k\nmetis,g,2\n", ":1: no column 'eps'");
  check_refused(header + "metis,g,10,9,2\n", ":2: 5 cells, but the header has 16");
  check_refused(header + "\nmetis,g,10,9,two,0.03,1,1,,,,,,,,ok\n", ":3: column 'k' has no whole number");
  check_refused(header + "metis,g,10,9,2,0.03,1,1,0.1,nan,4,0,0,1,4,ok\n",
                ":2: column 'cpu_s' has no number");
  check_refused(header + "metis,g,10,9,2,0.03,1,1,0.1,,4,0,0,1,4,ok\n", ":2: column 'cpu_s' is empty");
  check_refused(header + "metis,g,10,9,2,0.03,1,1,0.1,1,-4,0,0,1,4,ok\n", ":2: column 'cut' has no number");
  check_refused(header + ",g,10,9,2,0.03,1,1,0.1,1,4,0,0,1,4,ok\n", ":2: a row needs a peer and a graph");
  CHECK(run_tool({"report"}).exit == 2);
}
