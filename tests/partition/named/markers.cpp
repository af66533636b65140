// SPDX-License-Identifier: MIT
#include "cleave/partition/named/cut_points.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/archetype.hpp"
#include "support/snapshot_builder.hpp"
#include "support/toy_ir.hpp"

namespace {

using cleave::detail::find_marker_fault;
using cleave::detail::marker_error;
using cleave::detail::marker_fault;

bool is_cut(toy::op const* o) { return o->name == "cut"; }

toy::program marked() {
  toy::program p{{"x"}, {}, {"c"}};
  p.add({"f", {"x"}, {"a"}});
  p.add({"cut", {}, {}});
  p.add({"g", {"a"}, {"b"}});
  p.add({"cut", {}, {}});
  p.add({"h", {"b"}, {"c"}});
  return p;
}

}  // namespace

TEST_CASE("cuts_at_markers: each marker is a cut and is listed as a node to leave out") {
  auto const p = marked();
  toy::graph const g(p);
  auto const s = cleave::snapshot_of(g);
  auto const list = cuts_at_markers(g, s, is_cut);
  CHECK(list.points ==
        std::vector<cleave::cut_point>{{cleave::cut_kind::marker, 1, 1}, {cleave::cut_kind::marker, 3, 3}});
  CHECK(list.markers == std::vector<std::size_t>{1, 3});
  CHECK(cut_at(s, list).parts == 3);
}

TEST_CASE("cuts_at_markers: rejects a marker that reads values or is read, and names it") {
  auto p = marked();
  p.ops[3]->in = {"b"};
  toy::graph const reads(p);
  auto const s = cleave::snapshot_of(reads);
  CHECK_THROWS_WITH_AS(cuts_at_markers(reads, s, is_cut),
                       "marker cut (#3) reads values; markers are removed from the program, so they must "
                       "neither read nor produce values: use a policy to cut at such a node",
                       marker_error);
  p.ops[3]->in = {};
  p.ops[1]->out = {"t"};
  p.ops[4]->in = {"b", "t"};
  toy::graph const is_read(p);
  auto const again = cleave::snapshot_of(is_read);
  cleave::snapshot_arrays const& flat = again;
  CHECK(find_marker_fault(flat, [](std::size_t n) { return n == 1; }) ==
        marker_fault{marker_fault::kind::is_read, 1});
  CHECK_THROWS_AS(cuts_at_markers(is_read, again, is_cut), marker_error);
  p.ops[4]->in = {"b"};
  p.outputs.push_back("t");
  toy::graph const returned(p);
  auto const third = cleave::snapshot_of(returned);
  CHECK_THROWS_AS(cuts_at_markers(returned, third, is_cut), marker_error);
  p.outputs.pop_back();
  toy::graph const unread(p);  // an unread result is dropped with the marker
  auto const fourth = cleave::snapshot_of(unread);
  CHECK(cuts_at_markers(unread, fourth, is_cut).points.size() == 2);
}

TEST_CASE("cuts_at_markers: rejects a marker inside a body and names the node that holds it") {
  archetype::nested const g;
  auto const in_body = [](archetype::node n) { return n == archetype::node(3); };
  CHECK(cleave::detail::find_nested_marker(g, in_body) == marker_fault{marker_fault::kind::nested, 1});
  CHECK_FALSE(
      cleave::detail::find_nested_marker(g, [](archetype::node n) { return n == archetype::node(1); }));
  auto const s = cleave::snapshot_of(g);
  CHECK_THROWS_WITH_AS(cuts_at_markers(g, s, in_body),
                       "node #1 has a marker in one of its bodies; cuts must lie between nodes of the "
                       "program itself, so put the marker before or after that node",
                       marker_error);
}
