// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/edge_list.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/graph_texts.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refused(std::string const& text, edge_list_options const& options = {}) {
  return testing::error_text<graph_file_error>([&] { read_edge_list(text, options); });
}

}  // namespace

TEST_CASE("read_edge_list: counts repeated edges once without weights, and adds up their weights") {
  auto const g = read_edge_list("# from the web\n% and more\n\n0 1\n1 0\n2\t1\n2 2\n");
  CHECK(g.offsets == std::vector<std::uint32_t>{0, 1, 3, 4});
  CHECK(g.targets == std::vector<std::uint32_t>{1, 0, 2, 1});
  CHECK(g.edge_weight.empty());
  CHECK(read_edge_list("0 1 2\n1 0 3\n").edge_weight == std::vector<std::int64_t>{5, 5});
  CHECK(read_edge_list("1 2\n", {.first_node = 1}).view().nodes() == 2);
  CHECK(read_edge_list("").view().nodes() == 0);
  CHECK(read_edge_list("# nodes 4 edges 1\n0 1").view().nodes() == 4);
}

TEST_CASE("write_edge_list: random graphs read back equal, with isolated nodes") {
  testing::rng dice(5);
  for (int round = 0; round < 80; ++round) {
    auto const kind = static_cast<testing::random_weights>(round % 2);
    edge_list_options const options{.first_node = static_cast<std::uint64_t>(round / 2 % 2)};
    auto const g = testing::random_adjacency(dice, 30, kind);
    CHECK(testing::same_graph(read_edge_list(write_edge_list(g.view(), options), options), g));
    auto const h = testing::random_adjacency<std::int64_t, double>(dice, 30, kind);
    CHECK(testing::same_graph(read_edge_list<std::int64_t, double>(write_edge_list(h.view())), h));
  }
}

TEST_CASE("read_edge_list: rejects malformed files and names the place") {
  CHECK(refused("0 1\n2\n") == "line 2, column 2: expected two nodes in a line, got one");
  CHECK(
      refused("0 1\n2 x\n").starts_with("line 2, column 3: expected a node, a whole number from 0, got 'x'"));
  CHECK(refused("0 1\n-2 1\n").find("got '-2'") != std::string::npos);
  CHECK(refused("0 1\n1 2 5\n")
            .starts_with("line 2, column 5: expected the end of the line after an edge; the first"));
  CHECK(
      refused("0 1 5\n1 2\n").starts_with("line 2, column 4: expected a weight, as the first edge has one"));
  CHECK(refused("0 1\n", {.first_node = 1}).find("a whole number from 1, got '0'") != std::string::npos);
  CHECK(refused("0 1\n5 99999999999\n")
            .starts_with("line 2, column 3: 99999999999 nodes in a file of 18 bytes"));
  CHECK(refused("# nodes 2 edges 2\n0 1\n# more\n")
            .find("the heading says 2 edges, the number of lines is 1") != std::string::npos);
  CHECK(refused("# nodes 2 edges 1\n0 2\n").find("a whole number from 0 to 1, got '2'") != std::string::npos);
  CHECK(refused("# nodes 0 edges 1\n0 2\n").find("found an edge, but the heading gives 0 nodes") !=
        std::string::npos);
  CHECK(refused("# nodes 99999999999 edges 1\n0 2\n").starts_with("line 1, column 9: 99999999999 nodes"));
  CHECK(refused("0 1 1.5\n").find("is not a whole number") != std::string::npos);
}

TEST_CASE("read_edge_list: files with random changes are rejected or read back equal") {
  testing::rng dice(6);
  for (std::string const text :
       {"# nodes 5 edges 4\n0 1 3\n2 1 4\n3 4 1\n1 4 2\n", "% c\n0 1\n2 1\n\n3 4\n1 4\n"}) {
    auto const read = testing::read_mutants(text, 2000, dice, [](std::string const& t) {
      auto const g = read_edge_list(t);
      CHECK(testing::same_graph(read_edge_list(write_edge_list(g.view())), g));
    });
    CHECK(read > 100);
  }
}
