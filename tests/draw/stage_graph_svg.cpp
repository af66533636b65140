// SPDX-License-Identifier: MIT
#include "cleave/draw/stage_graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/cases.hpp"
#include "support/markup.hpp"
#include "support/rng.hpp"

using namespace cleave;
using testing::element;

namespace {

quotient random_quotient(testing::rng& random, std::uint32_t stages, std::size_t sparseness) {
  quotient q;
  for (std::uint32_t s = 0; s < stages; ++s) {
    q.stages.push_back({1 + random.below(3000), random.unit() * 1e9, {random.below(1u << 30), 0}, {}, {}});
    for (std::uint32_t t = s + 1; t < stages; ++t)
      if (t == s + 1 || random.one_in(sparseness))
        q.links.push_back({stage_id{s},
                           stage_id{t},
                           1 + random.below(9),
                           {random.below(1u << random.below(28)), random.below(2)}});
  }
  return q;
}

std::vector<element> picture(quotient const& q) {
  markup_writer to;
  write_stage_graph(to, q, "FLOP");
  return testing::read_markup(to.str());
}

struct rectangle {
  double left, top, right, bottom;
  bool overlaps(rectangle const& r) const {
    return left < r.right - 0.01 && r.left < right - 0.01 && top < r.bottom - 0.01 && r.top < bottom - 0.01;
  }
};

std::size_t overlapping(std::vector<rectangle> const& a, std::vector<rectangle> const& b) {
  std::size_t count = 0;
  for (auto const& r : a)
    for (auto const& s : b) count += &r != &s && r.overlaps(s);
  return count;
}

/// The area of a text in a wide font: 0.6 em per character. Fonts have 11 pixels, except names and details.
rectangle covered(element const& e) {
  double const size = e.is("name") ? 19 : e.is("detail") ? 11.5 : 11;
  auto const characters = std::ranges::count_if(e.text, [](char c) { return (c & 0xc0) != 0x80; });
  double const width = 0.6 * size * static_cast<double>(characters), x = e.number("x"), y = e.number("y");
  double const left = e.at("text-anchor") == "start" ? x
                      : e.at("text-anchor") == "end" ? x - width
                                                     : x - width / 2;
  return {left, y - 0.75 * size, left + width, y + 0.1 * size};
}

}  // namespace

TEST_CASE("write_stage_graph: boxes and labels do not overlap with 1 to 40 stages") {
  testing::rng random(21);
  for (std::uint32_t k = 1; k <= 40; ++k)
    for (std::uint32_t which = 0; which < 3; ++which) {
      if (k % 3 != which && !testing::all_cases()) continue;
      std::size_t const sparseness = which == 0 ? 2 : which == 1 ? 6 : 30;
      CAPTURE(k);
      CAPTURE(sparseness);
      auto const elements = picture(random_quotient(random, k, sparseness));
      double const width = elements[0].number("width"), height = elements[0].number("height");
      std::vector<rectangle> boxes, labels;
      for (auto const& e : elements) {
        if (e.tag == "rect" && e.is("frame"))
          boxes.push_back({e.number("x"), e.number("y"), e.number("x") + e.number("width"),
                           e.number("y") + e.number("height")});
        if (e.is("size")) labels.push_back(covered(e));
      }
      CHECK(boxes.size() == k);
      CHECK(overlapping(boxes, boxes) == 0);
      CHECK(overlapping(labels, labels) == 0);
      CHECK(overlapping(labels, boxes) == 0);
      for (auto const& r : labels)
        if (r.left < -0.01 || r.top < -0.01 || r.right > width + 0.01 || r.bottom > height + 0.01)
          FAIL_CHECK("a label leaves the picture");
    }
}

TEST_CASE("write_stage_graph: fill shows cost and line width shows bytes") {
  quotient q;
  q.stages = {{3, 100, {}, {}, {}}, {1, 50, {}, {}, {}}, {1, 0, {}, {}, {}}};
  q.links = {{stage_id{0}, stage_id{1}, 1, {8000, 0}},
             {stage_id{0}, stage_id{2}, 1, {4000, 0}},
             {stage_id{1}, stage_id{2}, 1, {0, 1}}};
  std::vector<double> fill, line;
  for (auto const& e : picture(q)) {
    if (e.is("fill")) fill.push_back(e.number("height"));
    if (e.is("line")) line.push_back(e.number("stroke-width"));
  }
  REQUIRE(fill.size() == 3);
  REQUIRE(line.size() == 3);
  CHECK(fill[1] == doctest::Approx(fill[0] / 2));
  CHECK(fill[2] == 0);
  CHECK(line[1] == doctest::Approx(line[0] / 2));
  CHECK(line[2] < line[1] / 2);
}

TEST_CASE("layout_of: each link leaves its sender once and enters its receiver once, in any rows") {
  testing::rng random(22);
  for (std::uint32_t const k : {2u, 7u, 9u, 20u, 33u}) {
    auto const q = random_quotient(random, k, 5);
    auto const at = layout_of(q);
    std::vector<int> ends(q.links.size()), begins(q.links.size());
    for (auto const& p : at.pieces) {
      begins[p.link] += p.leaves_box;
      ends[p.link] += p.enters_box;
      auto const& from = at.boxes[index(q.links[p.link].from)];
      auto const& to = at.boxes[index(q.links[p.link].to)];
      if (p.leaves_box)
        CHECK((p.from_x > from.x && p.from_x <= from.x + at.box_width + 0.01 && p.box_y == from.y));
      if (p.enters_box) CHECK((p.to_x >= to.x - 0.01 && p.to_x < to.x + at.box_width && p.box_y == to.y));
      CHECK(p.from_x < p.to_x);
    }
    for (std::size_t i = 0; i < ends.size(); ++i) CHECK((begins[i] == 1 && ends[i] == 1));
  }
}

TEST_CASE("layout_of: lines of two stages never overlap in a lane") {
  testing::rng random(23);
  auto const q = random_quotient(random, 24, 3);
  auto const at = layout_of(q);
  for (auto const& a : at.pieces)
    for (auto const& b : at.pieces) {
      if (q.links[a.link].from == q.links[b.link].from || a.straight || b.straight || a.box_y != b.box_y)
        continue;
      if (a.from_x < b.to_x && b.from_x < a.to_x)
        CHECK(std::abs(a.lane_y - b.lane_y) > (a.lane_width + b.lane_width) / 2 + 11);
    }
}

TEST_CASE("layout_of: places stages after those they receive from, and rejects a cycle") {
  quotient q;
  q.stages.resize(4);
  q.links = {{stage_id{3}, stage_id{0}, 1, {9, 0}},
             {stage_id{0}, stage_id{1}, 1, {9, 0}},
             {stage_id{3}, stage_id{2}, 1, {9, 0}}};
  auto const at = layout_of(q);
  CHECK(at.boxes[3].x < at.boxes[0].x);
  CHECK(at.boxes[0].x < at.boxes[1].x);
  CHECK(at.boxes[3].x < at.boxes[2].x);
  q.links.push_back({stage_id{1}, stage_id{3}, 1, {9, 0}});
  CHECK_THROWS_AS(layout_of(q), error);
}
