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

TEST_CASE("cleave report: names of a table reach neither the terminal nor Markdown as they are") {
  scratch_folder const out;
  std::ofstream(out / "r.csv", std::ios::binary)
      << header << "a\x1b[31m|<img>&,b\x07<i>,10,9,2,0.03,1,1,0.1,0.1,3,0,0,1.5,3,ok\n";
  auto const text = run_tool({"report", out / "r.csv"}),
             page = run_tool({"report", out / "r.csv", "--markdown"});
  for (auto const& r : {text, page}) {
    CHECK(r.exit == 0);
    CHECK(r.said.find_first_of("\x1b\x07") == std::string::npos);
  }
  CHECK(page.said.find("a\\x1b[31m\\|&lt;img>&amp;") != std::string::npos);
  CHECK(page.said.find("<i") == std::string::npos);
}

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
  CHECK(curves(page, "path") == 2 * 3);  // profiles of cuts and of times
  CHECK(curves(page, "circle") == 3);
  auto const bad = std::ranges::count_if(page, [](auto const& e) { return e.tag == "td" && e.is("bad"); });
  CHECK(bad == 3 + 3);  // counts of infeasible, late and crashed runs; their problems
  CHECK(curves(markup_reader(text_of_file(out / "p.svg")).read(), "path") == 3);
  CHECK(curves(markup_reader(text_of_file(out / "t.svg")).read(), "circle") == 3);
}

TEST_CASE("cleave report: shows small graphs beside larger ones, and says which runs do not count") {
  scratch_folder const out;
  std::ofstream(out / "r.csv", std::ios::binary)
      << runs << "metis,grid2d_100k,100000,199400,2,0.03,1,1,1,1,300,0.01,0,1.5,300,ok\n"
      << "quick,grid2d_100k,100000,199400,2,0.03,1,1,0.25,0.25,150,0.01,0,1.5,150,ok\n"
      << "metis,road_1M,1000000,1200000,2,0.03,1,1,1,1,300,0.01,0,1.5,300,ok\n"
      << "quick,road_1M,1000000,1200000,2,0.03,1,1,0.1,0.1,75,0.01,0,1.5,75,ok\n";
  auto const r = run_tool({"report", out / "r.csv", "--markdown"});
  REQUIRE(r.exit == 0);
  CHECK(r.said.starts_with("| cut / time, × metis | small | medium | large | all |\n"));
  CHECK(row_of(r.said, "| quick") ==
        "| quick | 1.260 / 0.50 (3) | 0.500 / 0.25 (1) | 0.250 / 0.10 (1) | 0.758 / 0.32 (5) |");
  std::string const sentence = "3 of 17 runs do not count: 1 broke the balance, 1 timed out, 1 crashed.";
  CHECK(r.said.find(sentence) != std::string::npos);
  CHECK(run_tool({"report", out / "r.csv"}).said.find(sentence) != std::string::npos);
  REQUIRE(run_tool({"report", out / "r.csv", "--out", out / "r.html"}).exit == 0);
  auto const page = text_of_file(out / "r.html");
  CHECK(page.find(sentence) != std::string::npos);
  CHECK(page.find(">small</th>") < page.find(">large</th>"));
  std::ofstream(out / "small.csv", std::ios::binary) << runs;
  CHECK(run_tool({"report", out / "small.csv"}).said.find("All instances are small") != std::string::npos);
}

TEST_CASE(
    "cleave report --against: shows what is worse or better than recorded, on the same graph and seed") {
  scratch_folder const out;
  std::string const now = header +
                          "a,g1,10,20,2,0.03,1,1,1,1,102,0,0,1,,ok\n"   // 100 before
                          "a,g2,10,20,2,0.03,1,1,1,1,1003,0,0,1,,ok\n"  // 1000 before
                          "a,g3,10,20,2,0.03,1,1,1,1,90,0,0,1,,ok\n"    // 100 before
                          "a,g4,10,20,2,0.03,1,1,,,,,,,,SIGSEGV\n"      // 5 before
                          "a,g5,10,20,2,0.03,1,1,1,1,7,0,0,1,,ok\n"     // equal
                          "a,g6,10,20,2,0.03,2,1,1,1,8,0,0,1,,ok\n"     // another seed
                          "a,g7,10,21,2,0.03,1,1,1,1,9,0,0,1,,ok\n"     // another graph
                          "a,g8,10,20,2,0.03,1,1,1,1,3,0,0,1,,ok\n"     // 0 before
                          "a,g9,10,20,2,0.03,1,1,1,1,3,0,0,1,,ok\n";    // infeasible before
  std::string const then = header +
                           "a,g1,10,20,2,0.03,1,1,1,1,100,0,0,1,,ok\n"
                           "a,g2,10,20,2,0.03,1,1,1,1,1000,0,0,1,,ok\n"
                           "a,g3,10,20,2,0.03,1,1,1,1,100,0,0,1,,ok\n"
                           "a,g4,10,20,2,0.03,1,1,1,1,5,0,0,1,,ok\n"
                           "a,g5,10,20,2,0.03,1,1,1,1,7,0,0,1,,ok\n"
                           "a,g6,10,20,2,0.03,1,1,1,1,7,0,0,1,,ok\n"
                           "a,g7,10,20,2,0.03,1,1,1,1,7,0,0,1,,ok\n"
                           "a,g8,10,20,2,0.03,1,1,1,1,0,0,0,1,,ok\n";
  std::ofstream(out / "now.csv", std::ios::binary) << now;
  std::ofstream(out / "then.csv", std::ios::binary) << then;
  std::ofstream(out / "more.csv", std::ios::binary) << header << "a,g9,10,20,2,0.03,1,1,1,1,3,0.5,0,1,,ok\n";
  auto const against = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"report",         out / "now.csv", "--against",
                                   out / "then.csv", "--against",     out / "more.csv"};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words);
  };
  std::string const sentence =
      "3 of 7 results are worse by more than 0.5\u00a0% than recorded, 1 by less; 2 better, 1 equal. Not "
      "recorded: 1. Recorded on another graph of the same name: 1.";
  auto const text = against({});
  CAPTURE(text.said);
  CHECK(text.exit == 0);
  CHECK(text.said.find(sentence) != std::string::npos);
  CHECK(row_of(text.said, "                   g1 ") ==
        "                   g1   2           a     100 → 102               +2.0\u00a0%");
  auto const markdown = against({"--markdown"}).said;
  CHECK(markdown.find("| g1 | 2 | a | 100 → 102 | **+2.0\u00a0%** |") != std::string::npos);
  CHECK(markdown.find("| g3 | 2 | a | 100 → 90 | −10.0\u00a0% |") != std::string::npos);
  CHECK(markdown.find("| g4 | 2 | a | 5 → – | **no longer feasible** |") != std::string::npos);
  CHECK(markdown.find("| g8 | 2 | a | 0 → 3 | **was 0** |") != std::string::npos);
  CHECK(markdown.find("| g9 | 2 | a | – → 3 | was not feasible |") != std::string::npos);
  CHECK(markdown.find(sentence) != std::string::npos);

  REQUIRE(against({"--out", out / "r.html"}).exit == 0);
  auto const page = markup_reader(text_of_file(out / "r.html")).read();
  auto const rows = [&](std::string const& kind) {
    return std::ranges::count_if(page, [&](auto const& e) { return e.tag == "tr" && e.is(kind); });
  };
  CHECK(rows("worse") == 4);
  CHECK(rows("better") == 2);
  CHECK(text_of_file(out / "r.html").find(sentence) != std::string::npos);

  CHECK(against({"--fail-if-worse", "5"}).exit == 1);  // g4 has no answer
  std::ofstream(out / "now.csv", std::ios::binary) << now.substr(0, now.find("a,g3"));
  CHECK(against({"--fail-if-worse", "2.5"}).exit == 0);
  CHECK(against({"--fail-if-worse", "1"}).exit == 1);
  CHECK(run_tool({"report", out / "now.csv", "--fail-if-worse", "1"}).exit == 2);
  CHECK(run_tool({"report", out / "now.csv", "--against", out / "none.csv"}).exit == 3);
}

TEST_CASE("cleave report: keeps graphs and hypergraphs in sections of their own") {
  scratch_folder const out;
  auto const line = [](std::string const& peer, std::string const& cut, std::string const& metric) {
    return peer + ",rows_a,10,20,2,0.03,1,1,1,1," + cut + ",0,0,1,,ok,,," + metric + "\n";
  };
  std::ofstream(out / "r.csv", std::ios::binary)
      << header.substr(0, header.size() - 1) + ",bottleneck,bound,metric\n" + line("metis", "10", "") +
             line("cleave-fast", "5", "edge-cut") + line("cleave-fast", "8", "connectivity") +
             line("mtk-default", "16", "connectivity") + line("cleave-fast", "4", "cut-nets");
  auto const r = run_tool({"report", out / "r.csv", "--markdown", "--out", out / "r.html"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  auto const graphs = r.said.find("## Graphs"), nets = r.said.find("## Hypergraphs: connectivity, λ − 1"),
             cut_nets = r.said.find("## Hypergraphs: cut nets");
  REQUIRE(graphs < nets);
  REQUIRE(nets < cut_nets);
  REQUIRE(cut_nets != std::string::npos);
  auto const of_graphs = r.said.substr(graphs, nets - graphs), of_nets = r.said.substr(nets, cut_nets - nets);
  CHECK(row_of(of_graphs, "| cleave-fast") == "| cleave-fast | 0.500 / 1.00 (1) |");
  CHECK(of_graphs.find("other graphs") != std::string::npos);
  CHECK(row_of(of_nets, "| cleave-fast") == "| cleave-fast | 0.500 / 1.00 (1) |");  // × Mt-KaHyPar
  CHECK(of_nets.find("rows of matrices") != std::string::npos);
  CHECK(of_nets.find("metis") == std::string::npos);
  auto const page = markup_reader(text_of_file(out / "r.html")).read();
  CHECK(std::ranges::count_if(page, [](auto const& e) { return e.tag == "h2" && e.is("kind"); }) == 3);
  auto const only =
      run_tool({"report", out / "r.csv", "--metric", "cut-nets", "--profile-svg", out / "p.svg"});
  CHECK(only.exit == 0);
  CHECK(only.said.find("Graphs") == std::string::npos);
  CHECK(run_tool({"report", out / "r.csv", "--metric", "nets"}).exit == 2);
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
  check_refused(
      header.substr(0, header.size() - 1) + ",metric\nmetis,g,10,9,2,0.03,1,1,0.1,1,4,0,0,1,4,ok,km1\n",
      ":2: column 'metric' has edge-cut, connectivity or cut-nets, not 'km1'");
  check_refused(header + "metis,g,10,9,2,0.03,1,2,,1,4,0,0,1,4,ok\n", ":2: column 'wall_s' is empty");
  CHECK(run_tool({"report"}).exit == 2);
}
