// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/patoh_hypergraph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/formats/graph_files/hmetis_hypergraph.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

std::string refused(std::string const& text) {
  return testing::error_text<graph_file_error>([&] { read_patoh_hypergraph(text); });
}

}  // namespace

TEST_CASE("read_patoh_hypergraph: reads either base and all schemes of weights") {
  auto const h = read_patoh_hypergraph("% four nets\n0 7 4 12\n0 1\n0 6 4 5\n% a comment\n\n4 5 3\n1 2 3\n");
  CHECK(h.nodes == 7);
  CHECK(h.offsets == std::vector<std::uint32_t>{0, 2, 6, 9, 12});
  CHECK(h.pins == std::vector<std::uint32_t>{0, 1, 0, 6, 4, 5, 4, 5, 3, 1, 2, 3});
  CHECK(h.node_weight.empty());
  CHECK(h.net_weight.empty());
  CHECK(read_patoh_hypergraph("1 7 4 12 0\n1 2\n1 7 5 6\n5 6 4\n2 3 4\n").pins == h.pins);
  auto const cells = read_patoh_hypergraph("1 3 1 2 1\n1 3\n5 6\n7\n");
  CHECK(cells.node_weight == std::vector<std::int64_t>{5, 6, 7});
  CHECK(cells.net_weight.empty());
  auto const nets = read_patoh_hypergraph("1 3 2 4 2\n9 1 3\n8 2 3\n");
  CHECK(nets.net_weight == std::vector<std::int64_t>{9, 8});
  CHECK(nets.pins == std::vector<std::uint32_t>{0, 2, 1, 2});
  auto const both = read_patoh_hypergraph<std::int16_t, double>("0 2 1 2 3 1\r\n0.5 0 1\r\n1.5\r\n2\r\n");
  CHECK(both.net_weight == std::vector<double>{0.5});
  CHECK(both.node_weight == std::vector<double>{1.5, 2});
  CHECK(read_patoh_hypergraph("1 0 0 0\n").nodes == 0);
}

TEST_CASE("write_patoh_hypergraph: random hypergraphs read back equal") {
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
    auto const text = write_patoh_hypergraph(h.view());
    auto const back = read_patoh_hypergraph(text);
    CHECK(back.nodes == h.nodes);
    CHECK(back.offsets == h.offsets);
    CHECK(back.pins == h.pins);
    CHECK(back.net_weight == h.net_weight);
    CHECK(back.node_weight == h.node_weight);
    CHECK(write_patoh_hypergraph(back.view()) == text);
  }
  hypergraph<std::uint32_t> const empty_net{3, {0, 0, 2}, {0, 2}, {}, {}};
  CHECK(write_patoh_hypergraph(empty_net.view()) == "1 3 1 2\n1 3\n");
}

TEST_CASE("read_patoh_hypergraph: refuses other texts and names the place") {
  CHECK(refused("").find("expected the base") != std::string::npos);
  CHECK(refused("2 3 1 2\n1 2\n").find("line 1, column 1: expected the base") == 0);
  CHECK(refused("1 3 1\n1 2\n").find("line 1, column 6: expected the number of pins: a heading is") == 0);
  CHECK(refused("1 3 1 2 4\n1 2\n").find("line 1, column 9: expected the scheme of weights") == 0);
  CHECK(refused("1 3 1 2 1 2\n1 2\n1 1 1 1 1 1\n").find("line 1, column 11: each cell has 2 weights") == 0);
  CHECK(refused("1 3 1 2 1 1 7\n1 2\n").find("line 1, column 13") == 0);
  CHECK(refused("1 3 1 2\n0 2\n").find("line 2, column 1: expected a pin, a whole number from 1 to 3") == 0);
  CHECK(refused("0 3 1 2\n0 3\n").find("line 2, column 3: expected a pin, a whole number from 0 to 2") == 0);
  CHECK(refused("0 0 1 1\n0\n").find("line 2, column 1: a net has a pin, but the heading says 0 nodes") == 0);
  CHECK(refused("1 3 1 3\n1 2\n").find("line 1, column 7: the heading says 3 pins, but the nets have 2") ==
        0);
  CHECK(refused("1 3 2 4\n1 2\n").find("the file ends after 1 nets of 2") != std::string::npos);
  CHECK(refused("1 3 1 2 1\n1 2\n5 6\n").find("the file ends after 2 weights of 3 cells") !=
        std::string::npos);
  CHECK(refused("1 2 1 2 1\n1 2\n5 6 7\n").find("line 3, column 5") == 0);
  CHECK(refused("1 2 1 2\n1 2\n1\n").find("line 3, column 1: a line after the 1 nets") == 0);
  CHECK(refused("1 2 1 2 2\n-4 1 2\n").find("line 2, column 1: the weight of a net is negative") == 0);
  CHECK(refused("1 2 1 2 1\n1 2\n1.5 1\n").find("read the file with weights of type double") !=
        std::string::npos);
  CHECK(refused("1 4000000000 1 2\n1 2\n").find("line 1, column 3: the heading says 4000000000 nodes") == 0);
  CHECK(refused("1 2 4000000000 2\n1 2\n").find("the heading says 4000000000 nets") != std::string::npos);
  CHECK(testing::error_text<graph_file_error>([] {
          read_patoh_hypergraph<std::int16_t>("1 40000 1 2\n1 2\n");
        }).find("there are more nets or nodes than indices of 16 bits can number") != std::string::npos);
}
