// SPDX-License-Identifier: MIT
#include "cleave/run/model/dataflow_layouts.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

using fault = edge_layout_fault;

constexpr stage_id s0{0}, s1{1}, s2{2};

/// Both later stages read the result of the first; edges 1 and 2 carry one value.
dataflow forked() {
  return {.stages = 3,
          .edges = {{the_caller, 0, s0, 0}, {s0, 0, s1, 0}, {s0, 0, s2, 0}, {s1, 0, the_caller, 0}}};
}

run_layouts rows_of(dataflow const& t) {
  run_layouts l{.edges = {}, .rows = {2, 3}};
  for (std::size_t e = 0; e < t.edges.size(); ++e) l.edges.push_back({.shape = {3, 5}, .batch_axis = 0});
  return l;
}

std::optional<fault> fault_of(run_layouts const& l) { return find_edge_layout_fault(forked(), l, 2); }

std::string words_of(run_layouts const& l) {
  auto const f = fault_of(l);
  REQUIRE(f);
  return describe(*f);
}

std::optional<std::int64_t> nobody_knows(std::string_view) { return std::nullopt; }

}  // namespace

TEST_CASE("find_edge_layout_fault: requires a layout for each edge, and rows for every microbatch or none") {
  auto l = rows_of(forked());
  l.edges.pop_back();
  CHECK(fault_of(l) == fault{fault::kind::edge_count, 0, 3, 4});
  CHECK(words_of(l) == "3 layouts for 4 edges; give each edge one");
  l = rows_of(forked());
  l.rows.push_back(1);
  CHECK(fault_of(l) == fault{fault::kind::row_count, 0, 3, 2});
  CHECK(words_of(l) ==
        "rows of 3 microbatches, but there are 2; give one row count per microbatch, or leave `rows` empty");
  l.rows.clear();
  CHECK_FALSE(fault_of(l));
}

TEST_CASE("find_edge_layout_fault: requires rows between 0 and the extent of the shape") {
  auto l = rows_of(forked());
  l.rows = {0, 3};
  CHECK_FALSE(fault_of(l));
  l.rows = {3, 4};
  CHECK(fault_of(l) == fault{fault::kind::rows, 0, 4, 3, 1});
  CHECK(words_of(l) ==
        "microbatch 1 has 4 rows, but the shape of edge #0 has 3; row counts must be from 0 to the extent of "
        "the batch axis");
  l.rows = {-1, 3};
  CHECK(fault_of(l) == fault{fault::kind::rows, 0, -1, 3, 0});
  for (auto& e : l.edges) e.batch_axis.reset();
  CHECK_FALSE(fault_of(l));
}

TEST_CASE("find_edge_layout_fault: requires a countable shape and an existing batch axis") {
  auto l = rows_of(forked());
  l.edges[3].shape = {std::int64_t{1} << 40, std::int64_t{1} << 40};
  CHECK(fault_of(l) == fault{fault::kind::too_large, 3});
  CHECK(words_of(l) == "edge #3 has a shape whose elements cannot be counted");
  l.edges[3].shape = {3, std::int64_t{1} << 48};
  CHECK(fault_of(l) == fault{fault::kind::too_large, 3});
  l.edges[3].shape = {3, 0};
  CHECK_FALSE(fault_of(l));
  l.edges[3].shape.extents[1] = -1;
  CHECK(fault_of(l) == fault{fault::kind::too_large, 3});
  l.edges[3] = {.shape = {3, 1}, .batch_axis = 2};
  CHECK(fault_of(l) == fault{fault::kind::batch_axis, 3, 2, 2});
  CHECK(words_of(l) == "edge #3 has batch axis 2 of 2 axes");
}

TEST_CASE("find_edge_layout_fault: rejects gradients of integers") {
  for (auto const type : {element_type::i64, element_type::u8, element_type::boolean}) {
    auto l = rows_of(forked());
    l.edges[3].type = type;
    CHECK(fault_of(l) == fault{fault::kind::integer_gradient, 3});
    CHECK(words_of(l) == "edge #3 wants a gradient, but its elements are integers; set gradient_use::none");
    l.edges[3].gradient = gradient_use::none;
    CHECK_FALSE(fault_of(l));
  }
}

TEST_CASE("find_edge_layout_fault: readers of one value must agree on all but its gradient") {
  auto l = rows_of(forked());
  l.edges[1].gradient = gradient_use::none;
  CHECK_FALSE(fault_of(l));
  for (auto const& other : {edge_layout{.type = element_type::f64, .shape = {3, 5}, .batch_axis = 0},
                            edge_layout{.shape = {3, 4}, .batch_axis = 0}, edge_layout{.shape = {3, 5}},
                            edge_layout{.shape = {3, 5}, .batch_axis = 0, .extents = shape_kind::dynamic}}) {
    l.edges[2] = other;
    CHECK(fault_of(l) == fault{fault::kind::unequal_readers, 2});
    CHECK(words_of(l) == "edge #2 carries a value that another edge carries with another type or shape");
  }
}

TEST_CASE("find_edge_layout_fault: a packed gradient is of any type, and of a value with one reader") {
  auto l = rows_of(forked());
  l.edges[3] = {.type = element_type::u8, .shape = {12}, .gradient = gradient_use::packed};
  CHECK_FALSE(fault_of(l));
  l.edges[1].gradient = gradient_use::packed;
  CHECK(fault_of(l) == fault{fault::kind::shared_packed, 2});
  l.edges[2].gradient = gradient_use::packed;
  CHECK(fault_of(l) == fault{fault::kind::shared_packed, 2});
  CHECK(words_of(l).find("packed gradients cannot be added") != std::string::npos);
  l.edges[2].gradient = gradient_use::none;
  CHECK_FALSE(fault_of(l));
}

TEST_CASE("layouts_of: takes the dataflow's layouts and binds their symbols") {
  auto t = forked();
  t.layouts = {{"f32", {std::string("batch"), std::int64_t{4}}}, {"i64", {}}};
  for (std::size_t e = 0; e < t.edges.size(); ++e) t.edges[e].layout = e == 3 ? 1 : 0;
  auto const l = layouts_of(t, [](std::string_view symbol) {
    return symbol == "batch" ? std::optional<std::int64_t>(7) : std::nullopt;
  });
  edge_layout const values{.shape = {7, 4}};
  auto given = values;
  given.gradient = gradient_use::none;
  CHECK(l == run_layouts{{given, values, values, {.type = element_type::i64, .gradient = gradient_use::none}},
                         {}});
}

TEST_CASE("layouts_of: wants gradients only of floating-point values between stages") {
  auto t = forked();
  t.layouts = {{"i32", {std::int64_t{4}}}, {"bf16", {}}};
  for (auto& e : t.edges) e.layout = 0;
  t.edges[2].layout = 1;
  auto const l = layouts_of(t, nobody_knows);
  CHECK(l.edges[1].gradient == gradient_use::none);
  CHECK(l.edges[2].gradient == gradient_use::wanted);
}

TEST_CASE("layouts_of: names the edge whose layout is missing or invalid") {
  auto t = forked();
  auto const refused = [&](char const* sentence) {
    CHECK_THROWS_WITH_AS(layouts_of(t, nobody_knows), sentence, edge_layout_error);
  };
  refused("layouts: edge #0 has no layout; give its element type and shape");
  for (auto& e : t.edges) e.layout = 0;
  t.layouts = {{"f32", {}}, {"complex64", {}}};
  t.edges[2].layout = 1;
  refused("layouts: edge #2 has elements of type 'complex64', which is not a known element type");
  t.edges[2].layout = 0;
  t.layouts[0].shape = {std::int64_t{2}, std::string("seq\n")};
  refused(R"(layouts: edge #0 has the extent 'seq\x0a'; give a number for this symbol)");
  t.layouts[0].shape.assign(most_axes + 1, std::int64_t{1});
  refused("layouts: edge #0 has a shape whose elements cannot be counted");
}
