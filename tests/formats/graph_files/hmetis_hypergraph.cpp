// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/hmetis_hypergraph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

std::string refused(std::string const& text) {
  return testing::error_text<graph_file_error>([&] { read_hmetis_hypergraph(text); });
}

}  // namespace

TEST_CASE(
    "read_hmetis_hypergraph: reads the examples of the manual, and write_hmetis_hypergraph writes them") {
  std::string const plain = "4 7\n1 2\n1 7 5 6\n5 6 4\n2 3 4\n";
  auto const h = read_hmetis_hypergraph(plain);
  CHECK(h.nodes == 7);
  CHECK(h.offsets == std::vector<std::uint32_t>{0, 2, 6, 9, 12});
  CHECK(h.pins[3] == 6);
  CHECK(write_hmetis_hypergraph(h.view()) == plain);
  std::string const both = "4 7 11\n2 1 2\n3 1 7 5 6\n8 5 6 4\n7 2 3 4\n5\n1\n8\n7\n3\n9\n3\n";
  auto const g = read_hmetis_hypergraph("% all weights\n" + both);
  CHECK(g.net_weight == std::vector<std::int64_t>{2, 3, 8, 7});
  CHECK(g.node_weight == std::vector<std::int64_t>{5, 1, 8, 7, 3, 9, 3});
  CHECK(write_hmetis_hypergraph(g.view()) == both);
  CHECK(read_hmetis_hypergraph("0 0\n").nodes == 0);
  CHECK(read_hmetis_hypergraph<std::int16_t, double>("1 2 1\r\n0.5 1 2").net_weight[0] == 0.5);
}

TEST_CASE("write_hmetis_hypergraph: random hypergraphs read back equal") {
  testing::rng r(1);
  for (int i = 0; i < 100; ++i) {
    hypergraph<std::uint32_t> h;
    h.nodes = 1 + r.below(20);
    for (auto nets = r.below(20); nets > 0; --nets) {
      for (auto pins = 1 + r.below(5); pins > 0; --pins)
        h.pins.push_back(static_cast<std::uint32_t>(r.below(h.nodes)));
      h.offsets.push_back(static_cast<std::uint32_t>(h.pins.size()));
    }
    if (r.one_in(2))
      for (std::size_t e = 0; e + 1 < h.offsets.size(); ++e)
        h.net_weight.push_back(static_cast<std::int64_t>(r.below(9)));
    if (r.one_in(2))
      for (std::size_t n = 0; n < h.nodes; ++n)
        h.node_weight.push_back(static_cast<std::int64_t>(r.below(9)));
    auto const back = read_hmetis_hypergraph(write_hmetis_hypergraph(h.view()));
    CHECK(back.nodes == h.nodes);
    CHECK(back.offsets == h.offsets);
    CHECK(back.pins == h.pins);
    CHECK(back.net_weight == h.net_weight);
    CHECK(back.node_weight == h.node_weight);
  }
}

TEST_CASE("read_hmetis_hypergraph: refuses other texts and names the place") {
  CHECK(refused("").find("the number of nets") != std::string::npos);
  CHECK(refused("3\n").find("line 1, column 2: expected the number of nodes") == 0);
  CHECK(refused("1 2 7\n1 2\n").find("line 1, column 5: expected a format of 1, 10 or 11") == 0);
  CHECK(refused("1 2\n1 3\n").find("line 2, column 3") == 0);
  CHECK(refused("1 2\n0 1\n").find("line 2, column 1") == 0);
  CHECK(refused("2 2\n1 2\n").find("the file ends after 1 nets of 2") != std::string::npos);
  CHECK(refused("1 2\n1 2\n1\n").find("line 3, column 1: a line after the 1 nets") == 0);
  CHECK(refused("1 2 1\n5\n").find("line 2, column 2: expected the pins of a net") == 0);
  CHECK(refused("1 2 10\n1 2\n4\n").find("the file ends after 1 weights of 2 nodes") != std::string::npos);
  CHECK(refused("1 2 10\n1 2\n4 4\n4\n").find("line 3, column 3") == 0);
  CHECK(refused("1 2 1\n-4 1 2\n").find("line 2, column 1") == 0);
  CHECK(refused("1 4000000000\n1 2\n").find("line 1, column 3: the heading says 4000000000 nodes") == 0);
  CHECK(testing::error_text<graph_file_error>([] {
          read_hmetis_hypergraph<std::int16_t>("1 40000\n1 2\n");
        }).find("there are more nets or nodes than indices of 16 bits can number") != std::string::npos);
  CHECK(refused("4000000000 2\n1 2\n").find("the heading says 4000000000 nets") != std::string::npos);
}
