// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/graph_file.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/error_text.hpp"
#include "support/graph_texts.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

void put(std::string const& file, std::string const& text) { std::ofstream(file, std::ios::binary) << text; }

std::string refusal_of(std::string const& file) {
  return testing::error_text<error>([&] { read_graph_file(file); });
}

}  // namespace

TEST_CASE("read_graph_file: reads the same path graph from every format") {
  testing::scratch_folder const at;
  put(at / "a.graph", "3 2\n2\n1 3\n2\n");
  put(at / "a.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n");
  put(at / "a.edges", "0 1\n1 2\n");
  put(at / "a.txt", "0 1\n1 2\n");
  put(at / "a.dimacs", "p edge 3 2\ne 1 2\ne 2 3\n");
  put(at / "b", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n");
  put(at / "c", "c by its first word\np edge 3 2\ne 1 2\ne 2 3\n");
  for (auto const* name : {"a.graph", "a.mtx", "a.edges", "a.txt", "a.dimacs", "b", "c"}) {
    CAPTURE(name);
    auto const g = read_graph_file(at / name);
    CHECK(g.targets == std::vector<std::uint32_t>{1, 0, 2, 1});
    CHECK(g.node_weight.empty());
    CHECK(g.edge_weight.empty());
  }
  put(at / "a.dag", "3 2\n1 0\n2 0\n1 0\n0 1 4\n1 2 5\n");
  put(at / "a.json",
      R"({"format": "cleave graph 1", "nodes": [{"name": "a", "cost": 1, "bytes": 4},
          {"name": "b", "operands": ["a"], "cost": 2, "bytes": 5}, {"name": "c", "operands": ["b"], "cost": 1}]})");
  for (auto const* name : {"a.dag", "a.json"}) {
    CAPTURE(name);
    auto const g = read_graph_file<std::int32_t>(at / name);
    CHECK(g.targets == std::vector<std::int32_t>{1, 0, 2, 1});
    CHECK(g.node_weight == std::vector<std::int64_t>{1, 2, 1});
    CHECK(g.edge_weight == std::vector<std::int64_t>{4, 4, 5, 5});
    CHECK(read_cost_dag(at / name).arcs == std::vector<cost_dag::arc>{{0, 1, 4}, {1, 2, 5}});
  }
  put(at / "d.json",
      R"({"format": "cleave graph 1", "nodes": [{"name": "a"}, {"name": "b", "operands": ["a"]}]})");
  CHECK(read_graph_file(at / "d.json").node_weight == std::vector<std::int64_t>{1, 1});
  CHECK(read_graph_file(at / "d.json").edge_weight == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("read_graph_file: error messages name the file") {
  testing::scratch_folder const at;
  CHECK(refusal_of(at / "no.graph").find("no.graph: cannot be opened: No such file") != std::string::npos);
  CHECK(refusal_of(at.path()).find("this is a folder") != std::string::npos);
  put(at / "a.foo", "3 2\n");
  CHECK(refusal_of(at / "a.foo").find("known suffixes are .graph, .metis, .mtx") != std::string::npos);
  put(at / "a.graph.gz", "\x1f\x8b");
  CHECK(refusal_of(at / "a.graph.gz").find("decompress it first") != std::string::npos);
  put(at / "a.graph", "3 2\n2\n1 x\n2\n");
  CHECK(refusal_of(at / "a.graph").find("a.graph: line 3, column 3: expected a neighbour") !=
        std::string::npos);
  put(at / "a.json", "{");
  CHECK(refusal_of(at / "a.json").find("a.json: line 1, column 2") != std::string::npos);
  put(at / "half.dag", "2 1\n.5 1\n1 1\n0 1 1\n");
  CHECK_THROWS_AS(read_graph_file(at / "half.dag"), fractional_weight_error);
  CHECK(read_graph_file<std::uint32_t, double>(at / "half.dag").node_weight == std::vector<double>{.5, 1});
  put(at / "heavy.edges", "0 1 5000000000000000000\n");
  CHECK(
      refusal_of(at / "heavy.edges")
          .find("heavy.edges: graph: the sum of the edge weights, counted at both ends, exceeds 2^63 - 1") !=
      std::string::npos);
  CHECK(testing::error_text<error>([&] {
          read_cost_dag(at / "a.graph");
        }).find("no direction in this format; use .dag or .json") != std::string::npos);
}

TEST_CASE("read_graph_file: refuses a file above its limit, and one that is no text") {
  testing::scratch_folder const at;
  put(at / "a.graph", "3 2\n2\n1 3\n2\n");
  CHECK(read_graph_file(at / "a.graph", {.max_bytes = 12}).targets.size() == 4);
  CHECK(testing::error_text<error>([&] {
          read_graph_file(at / "a.graph", {.max_bytes = 11});
        }).ends_with("a.graph: it has more bytes than the limit of 11 B; max_bytes raises it"));
  put(at / "a.dag", "3 2\n1 0\n2 0\n1 0\n0 1 4\n1 2 5\n");
  CHECK(testing::error_text<error>([&] {
          read_cost_dag(at / "a.dag", 0, {.max_bytes = 11, .raised_by = "--more"});
        }).ends_with("a.dag: it has more bytes than the limit of 11 B; --more raises it"));
  put(at / "b.graph", std::string("3 2\n2\n1 3\n2\0", 13));
  CHECK(refusal_of(at / "b.graph").find("b.graph: line 4, column 2: a zero byte") != std::string::npos);
  put(at / "c.graph", "\x1f\x8b\x08");
  CHECK(refusal_of(at / "c.graph").ends_with("c.graph: this file is compressed; decompress it first"));
}

TEST_CASE("read_graph_file: accepts CRLF and a byte order mark of UTF-8, and rejects UTF-16") {
  testing::scratch_folder const at;
  std::vector<std::pair<std::string, std::string>> const files{
      {"a.graph", "% c\n3 2\n2\n1 3\n2\n"},
      {"a.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n% c\n3 3 2\n2 1\n3 2\n"},
      {"a.edges", "# c\n0 1\n1 2\n"},
      {"a.dimacs", "c x\np edge 3 2\ne 1 2\ne 2 3\n"},
      {"a.dag", "# c\n3 2\n1 0\n2 0\n1 0\n0 1 4\n1 2 5\n"},
      {"a.json",
       "{\"format\": \"cleave graph 1\",\n\"nodes\": [{\"name\": \"a\"}, {\"name\": \"b\",\n"
       "\"operands\": [\"a\"]}, {\"name\": \"c\", \"operands\": [\"b\"]}]}\n"}};
  for (auto const& [name, text] : files) {
    CAPTURE(name);
    std::string other;
    for (char const c : text) other += c == '\n' ? std::string("\r\n") : std::string(1, c);
    for (auto const& variant : {other, "\xef\xbb\xbf" + text, "\xef\xbb\xbf" + other}) {
      put(at / name, variant);
      CHECK(read_graph_file(at / name).targets == std::vector<std::uint32_t>{1, 0, 2, 1});
    }
    put(at / name, "\xff\xfe" + text);
    CHECK(refusal_of(at / name).ends_with(": this is UTF-16; save it as UTF-8"));
  }
}

TEST_CASE("read_graph_file: rejects malformed files with the place and the expected content") {
  testing::scratch_folder const at;
  std::string const matrix = "%%MatrixMarket matrix coordinate integer general\n";
  auto const check = [&](std::string const& name, std::string const& text, std::string const& refusal) {
    CAPTURE(text);
    put(at / name, text);
    auto const said = refusal_of(at / name);
    CHECK_MESSAGE(said.find(name + ": " + refusal) != std::string::npos, said);
  };
  // Stated sizes are compared with the size of the file.
  check("a.graph", "4000000000 10\n1 2\n",
        "line 1, column 1: the heading says 4000000000 nodes, but the file has only 4");
  check("a.graph", "2 4000000000\n2\n1\n",
        "line 1, column 3: the heading says 4000000000 edges, but the file has only 4");
  check("a.mtx", matrix + "4000000000 4000000000 1\n1 2 1\n",
        "line 2, column 1: 4000000000 nodes in a file of");
  check("a.mtx", matrix + "3 3 4000000000\n1 2 1\n", "line 2, column 1: 4000000000 edges are stated");
  check("a.edges", "# nodes 4000000000 edges 1\n0 1\n", "line 1, column 9: 4000000000 nodes in a file of 31");
  check("a.edges", "0 4000000000\n", "line 1, column 3: 4000000000 nodes in a file of 13");
  check("a.dimacs", "p edge 4000000000 1\ne 1 2\n", "line 1, column 8: 4000000000 nodes in a file of 26");
  check("a.dimacs", "p edge 3 4000000000\ne 1 2\n", "line 1, column 8: 4000000000 edges are stated");
  check("a.dag", "4000000000 1\n1 1\n", "line 1, column 1: the heading says 4000000000 nodes and 1 arcs");
  check("a.dag", "2 4000000000\n1 1\n1 1\n",
        "line 1, column 1: the heading says 2 nodes and 4000000000 arcs");
  // Truncated and empty files.
  check("a.graph", "",
        "line 1, column 1: expected the number of nodes, a whole number from 0, got the end of the file");
  check("a.graph", "3 2\n2\n1 3\n", "line 4, column 1: the file ends after 2 rows of 3");
  check("a.mtx", "", "line 1, column 1: expected %%MatrixMarket");
  check("a.mtx", matrix, "line 2, column 1: expected the number of rows");
  check("a.dimacs", "", "line 1, column 1: expected a line p edge N M or p sp N M");
  check("a.dag", "2 1\n1 1\n1 1\n", "line 4, column 1: the file ends after 0 arcs of 1");
  check("a.json", "", "line 1, column 1: expected a value, got the end of the text");
  check("a.json", "{\"nodes\": [{\"id\": 1, \"fpgaLat", "line 1, column 30: a text without a closing quote");
  // Invalid weights.
  check("a.graph", "2 1 001\n2 -1\n1 -1\n", "line 2, column 3: the weight of an edge is negative");
  check("a.graph", "2 1 001\n2 nan\n1 nan\n",
        "line 2, column 3: expected the weight of an edge, a whole number");
  check("a.graph", "2 1 001\n2 99999999999999999999\n1 1\n",
        "line 2, column 3: expected the weight of an edge");
  check("a.mtx", matrix + "3 3 1\n1 2 -5\n", "line 3, column 5: the weight of an edge is negative");
  check("a.edges", "0 1 nan\n", "line 1, column 5: expected the weight of an edge");
  check("a.edges", "0 1 9000000000000000000\n1 0 9000000000000000000\n",
        "the sum of the edge weights exceeds 2^63 - 1");
  check("a.dimacs", "p sp 3 1\na 1 2 -4\n", "line 2, column 7: the weight of an arc is negative");
  check("a.dag", "2 1\n1e999 1\n1 1\n0 1 1\n", "line 2, column 1: expected the work of a node, a number");
  check("a.dag", "2 1\n1 -1\n1 1\n0 1 1\n", "line 2, column 3: the memory of a node is negative");
  check("a.json", "{\"nodes\": [{\"id\": 1, \"fpgaLatency\": NaN}]}",
        "line 1, column 37: expected a value; JSON has no NaN");
  check("a.json", R"({"nodes": [{"id": 1, "fpgaLatency": 1e999}], "edges": []})",
        "line 1, column 37, $.nodes[0].fpgaLatency: the number is out of range for a double: 1e999");
  // Invalid nodes, rows that contradict each other, and files in other formats.
  check("a.graph", "3 2\n2\n1 4\n2\n",
        "line 3, column 3: expected a neighbour, a whole number from 1 to 3, got '4'");
  check("a.graph", "3 2\n2\n1 3\n\n",
        "line 3, column 3: the row of node 2 lists node 3, the row of node 3 (line 4)");
  check("a.mtx", matrix + "3 3 1\n1 7 1\n",
        "line 3, column 3: expected a column, a whole number from 1 to 3");
  check("a.dimacs", "p edge 3 1\ne 0 1\n", "line 2, column 3: expected a node, a whole number from 1 to 3");
  check("a.dag", "2 1\n1 1\n1 1\n0 2 1\n",
        "line 4, column 3: expected a consumer, a whole number from 0 to 1");
  check("a.edges", "0,1\n1,2\n", "line 1, column 1: expected two nodes separated by blanks, got '0,1'");
  check("a.edges", "alice bob\n", "line 1, column 1: expected a node, a whole number from 0, got 'alice'");
  check("a.json", R"({"nodes": [{"id": 0}], "links": []})",
        "line 1, column 12, $.nodes[0]: lacks the key 'fpgaLatency', its time on an accelerator; a file "
        "without");
  std::string binary;
  for (int i = 0; i < 5000; ++i) binary += static_cast<char>(static_cast<unsigned char>(i * 7));
  for (std::string const name : {"a.graph", "a.mtx", "a.edges", "a.dimacs", "a.dag", "a.json"}) {
    check(name, binary, "line 1, column ");
    CHECK(refusal_of(at / name).size() < 300 + at.path().size());
  }
}

TEST_CASE("read_graph_text: random texts are read or rejected in each format") {
  testing::rng dice(14);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    static constexpr std::string_view bytes = "0012 \n\n3pec%#.-{";
    for (auto length = dice.below(40); length > 0; --length) text += bytes[dice.below(bytes.size())];
    for (auto const format : {graph_format::metis, graph_format::matrix_market, graph_format::edge_list,
                              graph_format::dimacs, graph_format::dag, graph_format::json})
      try {
        auto const g = read_graph_text<std::uint32_t, double>(text, format);
        CHECK(!find_adjacency_fault(g.view()));
      } catch (error const& e) {
        CHECK(std::string(e.what()).size() < 500);
      }
  }
}
