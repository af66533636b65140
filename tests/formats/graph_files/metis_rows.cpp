// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/metis_rows.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cleave/formats/graph_files/metis_graph.hpp"
#include "support/error_text.hpp"
#include "support/graph_texts.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Collects the rows as arrays. Arrays of weights stay empty if the file has none.
template <class Weight>
adjacency<std::uint64_t, Weight> collected(std::string const& text) {
  std::istringstream in(text);
  metis_rows<Weight> rows(in);
  adjacency<std::uint64_t, Weight> g;
  bool weighted = false;
  while (rows.next()) {
    g.targets.insert(g.targets.end(), rows.neighbours().begin(), rows.neighbours().end());
    g.edge_weight.insert(g.edge_weight.end(), rows.edge_weights().begin(), rows.edge_weights().end());
    g.node_weight.push_back(rows.node_weight());
    weighted |= rows.node_weight() != Weight{1};
    g.offsets.push_back(g.targets.size());
  }
  CHECK(!rows.next());
  if (!weighted) g.node_weight.clear();
  return g;
}

template <class Weight>
bool same_rows(adjacency<std::uint64_t, Weight> const& rows, adjacency<std::uint64_t, Weight> whole) {
  bool weighted = false;
  for (auto const w : whole.node_weight) weighted |= w != Weight{1};
  if (!weighted) whole.node_weight.clear();
  return testing::same_graph(rows, whole);
}

std::string refused(std::string const& text) {
  return testing::error_text<graph_file_error>([&] { collected<std::int64_t>(text); });
}

}  // namespace

TEST_CASE("metis_rows: reads the rows that read_metis_graph reads") {
  testing::rng dice(1);
  for (int round = 0; round < 100; ++round) {
    auto const kind = static_cast<testing::random_weights>(round % 4);
    auto const g = testing::random_adjacency<std::uint64_t, std::int64_t>(dice, 30, kind);
    CHECK(same_rows(collected<std::int64_t>(write_metis_graph(g.view())), g));
    auto const h = testing::random_adjacency<std::uint64_t, double>(dice, 30, kind);
    CHECK(same_rows(collected<double>(write_metis_graph(h.view())), h));
  }
  for (std::string const text : {"3 0\n\n\n\n", "0 0\n", "0 0", "2 1\r\n2\r\n1", "2 2\n1 2\n1\n",
                                 "% c\n\n3 2 111 1\n9 4 2 1\n% between\n8 5 1 1 3 2\n7 6 2 2\n"})
    CHECK(same_rows(collected<std::int64_t>(text), read_metis_graph<std::uint64_t>(text)));
  CHECK(collected<std::int64_t>("\xef\xbb\xbf"
                                "2 1\n2\n1\n")
            .targets == std::vector<std::uint64_t>{1, 0});
}

TEST_CASE("metis_rows: refuses what read_metis_graph refuses, at the same place") {
  testing::rng dice(2);
  std::size_t read = 0, rejected = 0;
  for (std::string const text : {"5 4 11\n7 2 1\n6 1 1 3 2\n5 2 2 4 3\n4 3 3 5 4\n3 4 4\n",
                                 "% path\n4 3\n2\n1 3\n\n% no\n2 4\n3\n", "3 2 100\n1 2\n1 1 3\n9 2\n"})
    for (int round = 0; round < 2000; ++round) {
      auto const mutant = testing::mutated(text, dice);
      std::optional<adjacency<std::uint64_t>> whole, rows;
      std::optional<text_place> whole_at, rows_at;
      bool one_sided = false, too_heavy = false;
      try {
        whole = read_metis_graph<std::uint64_t>(mutant);
      } catch (graph_file_error const& e) {
        whole_at = e.witness;
        one_sided = std::string(e.what()).find("the rows of both") != std::string::npos;
        too_heavy = std::string(e.what()).find("exceeds 2^63") != std::string::npos;
      }
      try {
        rows = collected<std::int64_t>(mutant);
      } catch (graph_file_error const& e) {
        rows_at = e.witness;
      }
      CAPTURE(mutant);
      REQUIRE(whole.has_value() == rows.has_value());
      if (whole)
        CHECK(same_rows(*rows, *whole));
      else if (!one_sided && !too_heavy)
        CHECK(*whole_at == *rows_at);
      ++(whole ? read : rejected);
    }
  CHECK(read > 100);
  CHECK(rejected > 1000);
}

TEST_CASE("metis_rows: a message names the line and the fix") {
  CHECK(refused("3 2\n2\n1 3\n") ==
        "line 4, column 1: the file ends after 2 rows of 3; a node without neighbours has an empty line");
  CHECK(refused("2 1\n2\nx\n") ==
        "line 3, column 1: expected a neighbour, a whole number from 1 to 2, got 'x'");
  CHECK(refused("2 1 1\n2 1\n1\n").find("line 3, column 2: ") == 0);
  CHECK(refused("2 1 1\n2 1\n1\n").find("the end of the line") != std::string::npos);
  CHECK(refused("12345 1\n2\n1\n").starts_with("line 1, column 1: the heading says 12345 nodes"));
  CHECK(refused("3 2\n2\n1 3\n\n")
            .starts_with(
                "line 1, column 1: some edge is in the row of one of its nodes only, or with two weights"));
  CHECK(refused("2 1 11\n9223372036854775807 2 1\n1 1 1\n")
            .starts_with("line 3, column 1: the sum of the node"));
  CHECK(refused("2 1 1\n2 9223372036854775807\n1 9223372036854775807\n")
            .starts_with("line 3, column 1: the sum of the edge weights"));
  CHECK(testing::error_text<fractional_weight_error>([] {
          collected<std::int64_t>("2 1 1\n2 0.5\n1 0.5\n");
        }).starts_with("line 2, column 3: "));
  CHECK(testing::error_text<error>([] {
          collected<std::int64_t>(
              "\xff\xfe"
              "2");
        }) == "this is UTF-16; save it as UTF-8");
}

TEST_CASE("metis_rows: totals are those of the rows, and the stream is rewound") {
  std::istringstream in("3 2 11\n4 2 5\n6 1 5 3 7 2 9\n8 2 7\n");  // node 2 has an edge to itself
  metis_rows<> rows(in);
  auto const t = rows.totals();
  CHECK(t.nodes == 3);
  CHECK(t.node_weight == 18);
  CHECK(t.edge_weight == 12);
  CHECK(rows.next());
  CHECK(rows.node_weight() == 4);
  CHECK(rows.edge_weights()[0] == 5);
  std::istringstream plain("3 2\n2\n1 3\n2\n");
  metis_rows<> unweighted(plain);
  CHECK(unweighted.totals().node_weight == 3);
  CHECK(unweighted.totals().edge_weight == 2);
}

TEST_CASE("metis_rows: reads a pipe once, but cannot rewind it") {
  struct pipe_buffer : std::stringbuf {
    using std::stringbuf::stringbuf;
    pos_type seekoff(off_type, std::ios_base::seekdir, std::ios_base::openmode) override {
      return off_type(-1);
    }
    pos_type seekpos(pos_type, std::ios_base::openmode) override { return off_type(-1); }
  };
  pipe_buffer plain("2 1\n2\n1\n");
  std::istream in(&plain);
  metis_rows<> rows(in);
  CHECK(*rows.totals().node_weight == 2);  // without weights, the heading has all totals
  CHECK(rows.next());
  CHECK(rows.next());
  CHECK(!rows.next());
  pipe_buffer weighted("2 1 1\n2 3\n1 3\n");
  std::istream twice(&weighted);
  metis_rows<> heavy(twice);
  CHECK(testing::error_text<error>([&] { heavy.totals(); }).find("cannot be rewound") != std::string::npos);
}
