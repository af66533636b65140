// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/matrix_market.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/graph_texts.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string const head = "%%MatrixMarket matrix coordinate ";

std::string refused(std::string const& text) {
  return testing::error_text<graph_file_error>([&] { read_matrix_market(text); });
}

}  // namespace

TEST_CASE("read_matrix_market: one half or both, with or without a diagonal, give the same graph") {
  auto const half = read_matrix_market(head + "pattern symmetric\n% made by hand\n3 3 3\n2 1\n3 2\n3 3\n");
  auto const both =
      read_matrix_market("%%matrixmarket MATRIX Coordinate Pattern General\n3 3 4\n1 2\n2 1\n3 2\n2 3\n");
  auto const above = read_matrix_market(head + "real general\n3 3 2\n1 2 -1.5\n2 3 1e9\n");
  for (auto const* g : {&half, &both, &above}) {
    CHECK(g->offsets == std::vector<std::uint32_t>{0, 1, 3, 4});
    CHECK(g->targets == std::vector<std::uint32_t>{1, 0, 2, 1});
    CHECK(g->edge_weight.empty());
  }
}

TEST_CASE("read_matrix_market: integers are weights, and reals are weights only on request") {
  auto const text = head + "integer general\n2 2 3\n1 2 3\n2 1 4\n1 1 -7\n";
  CHECK(read_matrix_market(text).edge_weight == std::vector<std::int64_t>{4, 4});
  CHECK(read_matrix_market(text, matrix_values::ignored).edge_weight.empty());
  auto const real = head + "real symmetric\n2 2 1\n2 1 0.25\n";
  CHECK(read_matrix_market(real).edge_weight.empty());
  auto const g = read_matrix_market<std::uint32_t, double>(real, matrix_values::weights);
  CHECK(g.edge_weight == std::vector<double>{0.25, 0.25});
  CHECK_THROWS_AS(read_matrix_market(real, matrix_values::weights), fractional_weight_error);
}

TEST_CASE("write_matrix_market: random graphs read back equal, and weights of nodes are rejected") {
  testing::rng dice(2);
  for (int round = 0; round < 60; ++round) {
    auto const kind = static_cast<testing::random_weights>(round % 2);
    auto const g = testing::random_adjacency(dice, 30, kind);
    CHECK(testing::same_graph(read_matrix_market(write_matrix_market(g.view())), g));
    auto const h = testing::random_adjacency<std::uint64_t, double>(dice, 30, kind);
    CHECK(testing::same_graph(
        read_matrix_market<std::uint64_t, double>(write_matrix_market(h.view()), matrix_values::weights), h));
  }
  auto const g = testing::random_adjacency(dice, 9, testing::random_weights::nodes);
  CHECK(testing::error_text<error>([&] { write_matrix_market(g.view()); }).find("cannot hold node weights") !=
        std::string::npos);
}

TEST_CASE("read_matrix_market: rejects malformed and unsupported files and names the place") {
  CHECK(refused("3 3 1\n1 2\n").starts_with("line 1, column 1: expected %%MatrixMarket matrix"));
  CHECK(refused("%%MatrixMarket matrix array real general\n")
            .starts_with("line 1, column 23: expected one of: coordinate; got 'array'"));
  CHECK(refused(head + "complex general\n").find("pattern integer real; got 'complex'") != std::string::npos);
  CHECK(refused(head + "real hermitian\n").find("general symmetric; got 'hermitian'") != std::string::npos);
  CHECK(refused(head + "pattern general\n3 4 1\n1 2\n")
            .starts_with("line 2, column 1: a matrix of 3 rows and 4"));
  CHECK(refused(head + "pattern general\n3 3 2\n1 2\n% more\n")
            .find("line 5, column 1: the file ends after 1 entries of 2") != std::string::npos);
  CHECK(refused(head + "pattern general\n3 3 1\n1 2\n1 3\n")
            .starts_with("line 4, column 1: an entry after the 1"));
  CHECK(refused(head + "pattern general\n3 3 1\n4 2\n").find("a row, a whole number from 1 to 3") !=
        std::string::npos);
  CHECK(
      refused(head + "pattern general\n3 3 1\n1 2 9\n").find("expected the end of the line after an entry") !=
      std::string::npos);
  CHECK(refused(head + "pattern general\n9999999999999 9999999999999 1\n1 2\n").find("nodes in a file of") !=
        std::string::npos);
  CHECK(refused(head + "pattern general\n3 3 99999999999999\n1 2\n")
            .find("edges are stated, but there are only 4 bytes below") != std::string::npos);
  CHECK(refused(head + "integer general\n3 3 1\n1 2 -4\n")
            .find("line 3, column 5: the weight of an edge is negative") != std::string::npos);
}

TEST_CASE("read_matrix_market: files with random changes are rejected or read back equal") {
  testing::rng dice(4);
  auto const text = head + "integer symmetric\n% c\n5 5 5\n2 1 3\n3 1 4\n3 2 1\n4 3 2\n5 4 9\n";
  auto const read = testing::read_mutants(text, 3000, dice, [](std::string const& t) {
    auto const g = read_matrix_market(t);
    CHECK(testing::same_graph(read_matrix_market(write_matrix_market(g.view())), g));
  });
  CHECK(read > 10);
}
