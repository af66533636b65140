// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/cost_dag.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/graph_texts.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refused(std::string const& text) {
  return testing::error_text<graph_file_error>([&] { read_dag_file(text); });
}

}  // namespace

TEST_CASE("read_dag_file: reads nodes and arcs, and write_dag_file writes the same text") {
  std::string const text = "3 2\n1.5 0.25\n2 0\n1e-05 3\n2 0 1.25\n0 1 7\n";
  auto const d = read_dag_file("# a comment\n" + text);
  CHECK(d.work == std::vector<double>{1.5, 2, 1e-5});
  CHECK(d.memory == std::vector<double>{.25, 0, 3});
  CHECK(d.arcs == std::vector<cost_dag::arc>{{2, 0, 1.25}, {0, 1, 7}});
  CHECK(write_dag_file(d) == text);
  CHECK(read_dag_file("0 0\n").nodes() == 0);
}

TEST_CASE("read_dag_file: rejects malformed files and names the place") {
  CHECK(refused("3 2\n1 1\n1 1\n").starts_with("line 1, column 1: the heading says 3 nodes and 2 arcs"));
  CHECK(refused("2 1\n1 1\n1 1\n# no arc\n") == "line 5, column 1: the file ends after 0 arcs of 1");
  CHECK(refused("2 1\n1 1\n1 1\n0 1 1\n1 0 1\n").starts_with("line 5, column 1: a line after the 1 arcs"));
  CHECK(refused("2 1\n1 1\n1 1\n0 2 1\n")
            .starts_with("line 4, column 3: expected a consumer, a whole number from 0 to 1"));
  CHECK(refused("2 1\n1 1\n1 1\n1 1 1\n") == "line 4, column 1: node 1 depends on itself");
  CHECK(refused("2 1\n1 -1\n1 1\n0 1 1\n") ==
        "line 2, column 3: the memory of a node is negative; weights must be 0 or more");
  CHECK(refused("2 1\n1 nan\n1 1\n0 1 1\n").find("a number, got 'nan'") != std::string::npos);
  CHECK(refused("2 1\n1e999 1\n1 1\n0 1 1\n").find("a number, got '1e999'") != std::string::npos);
  CHECK(refused("2 1\n1\n1 1\n0 1 1\n").find("got the end of the line") != std::string::npos);
  CHECK(refused("0 1\n1 4 2\n") == "line 1, column 1: the heading gives arcs but no nodes");
  CHECK(refused("4000000000 1\n1 1\n").find("the file has only 4 bytes below it") != std::string::npos);
}

TEST_CASE("read_dag_file: files with random changes are rejected or read back equal") {
  testing::rng dice(12);
  auto const read = testing::read_mutants("4 3\n1.5 2\n2 1\n3 .5\n1 1\n0 1 2\n2 1 .25\n1 3 1e3\n", 3000, dice,
                                          [](std::string const& t) {
                                            auto const d = read_dag_file(t);
                                            CHECK(read_dag_file(write_dag_file(d)) == d);
                                          });
  CHECK(read > 100);
}
