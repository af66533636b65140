// SPDX-License-Identifier: MIT
#include "cleave/draw/graph_svg.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "cleave/graph/snapshot.hpp"
#include "cleave/split/make_plan.hpp"
#include "support/markup.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

namespace {

std::size_t count_of(std::string const& text, std::string const& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE(
    "write_graph_svg: draws one dot for each node and one line for each edge within and between parts") {
  testing::rng random(5);
  for (int round = 0; round < 40; ++round) {
    auto program = testing::random_program(random, 2 + random.below(40));
    for (auto& o : program.ops) o->cheap = false;
    auto const g = snapshot_of(toy::graph(program));
    auto const p = testing::equal_slices(g.nodes(), 3);
    auto const svg = write_graph_svg(g, p, "a & b");
    CHECK_NOTHROW(testing::read_markup(svg));
    CHECK(count_of(svg, "<circle") == g.nodes() + p.parts);  // and the legend
    std::size_t cut = 0, inner = 0;
    for (std::size_t n = 0; n < g.nodes(); ++n)
      for (auto const v : g.operands[n])
        if (auto const from = g.producer[v]; from != none<std::uint32_t>)
          ++(p.of[from] == p.of[n] ? inner : cut);
    auto const path = [&](std::string const& kind) {
      auto const begin = svg.find("<path class=\"" + kind);
      return begin == std::string::npos ? std::string() : svg.substr(begin, svg.find("/>", begin) - begin);
    };
    CHECK(count_of(path("cut"), "M") == cut);
    CHECK(count_of(path("edge"), "M") == inner);
  }
}

TEST_CASE("write_graph_svg: an empty graph gives well-formed SVG") {
  CHECK_NOTHROW(testing::read_markup(write_graph_svg(basic_snapshot_arrays<std::uint32_t>{}, {})));
}
