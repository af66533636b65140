// SPDX-License-Identifier: MIT
#include "cleave/partition/named/assign.hpp"

#include <doctest/doctest.h>

#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "support/snapshot_builder.hpp"
#include "support/toy_ir.hpp"

namespace {

using cleave::assign;
using cleave::part_id;

struct numbers {
  std::vector<int> all;
  std::vector<int> const& nodes() const { return all; }
  static std::vector<int> operands(int) { return {}; }
};

std::vector<part_id> parts(std::vector<std::uint32_t> const& list) {
  std::vector<part_id> p;
  for (auto const i : list) p.push_back(part_id{i});
  return p;
}

}  // namespace

TEST_CASE("assign: numbers parts by the first appearance of their label") {
  numbers const g{{10, 11, 12, 13, 14}};
  auto const p = assign(g, [](int n) { return n % 3; });
  CHECK(p.of == parts({0, 1, 2, 0, 1}));
  CHECK(p.parts == 3);
  CHECK(p.label == std::vector<int>{1, 2, 0});
}

TEST_CASE("assign: labels may be numbers, strings, enumerators or any comparable type") {
  numbers const g{{0, 1, 2, 3}};
  CHECK(assign(g, [](int n) { return n % 2 ? -7 : 1'000'000'000'000; }).of == parts({0, 1, 0, 1}));

  std::string scratch;
  auto const by_text = assign(g, [&](int n) {
    scratch = n < 2 ? "encoder" : "decoder";
    return std::string_view(scratch);  // changes after the label is returned
  });
  CHECK(by_text.of == parts({0, 0, 1, 1}));
  CHECK(by_text.label == std::vector<std::string>{"encoder", "decoder"});
  CHECK(assign(g, [](int n) { return n == 2 ? "a" : "b"; }).label == std::vector<std::string>{"b", "a"});

  enum class place { here, there };
  CHECK(assign(g, [](int n) { return n == 0 ? place::there : place::here; }).of == parts({0, 1, 1, 1}));

  struct point {
    int x, y;
    bool operator==(point const&) const = default;
  };
  CHECK(assign(g, [](int n) { return point{n / 2, 1}; }).of == parts({0, 0, 1, 1}));
  CHECK(assign(g, [](int n) { return n > 1; }).label == std::vector<bool>{false, true});
}

TEST_CASE("assign: calls the function once per node, in order") {
  numbers const g{{5, 3, 9}};
  std::vector<int> asked;
  assign(g, [&](int n) {
    asked.push_back(n);
    return 0;
  });
  CHECK(asked == g.all);
}

TEST_CASE("assign: accepts nodes that are a filtered view") {
  struct odd_numbers : numbers {
    auto nodes() const {
      return all | std::views::filter([](int n) { return n % 2 == 1; });
    }
  };
  odd_numbers const g{{{10, 11, 12, 13}}};
  CHECK(assign(g, [](int n) { return n; }).label == std::vector<int>{11, 13});
}

TEST_CASE("assign: accepts an array of part numbers with one entry per node") {
  numbers const g{{0, 1, 2}};
  CHECK(assign(g, std::vector<std::uint32_t>{2, 0, 2}) == cleave::partition{parts({2, 0, 2}), 3});
  CHECK(assign(g, std::vector<std::uint32_t>{0, index(cleave::no_part), 0}).parts == 1);
  CHECK_THROWS_WITH_AS(assign(g, std::vector<std::uint32_t>{0, 1}),
                       "the assignment has 2 entries, but none for node #2",
                       cleave::detail::assignment_size_error);
  CHECK_THROWS_WITH_AS(assign(g, std::vector<std::uint32_t>{0, 1, 0, 1}),
                       "the assignment has 4 entries, but the graph has 3 nodes",
                       cleave::detail::assignment_size_error);
}

TEST_CASE("assign_at_markers: a marker opens a part and belongs to it") {
  numbers const g{{0, 1, 2, 3, 4}};
  CHECK(cleave::assign_at_markers(g, [](int n) { return n == 2 || n == 3; }) ==
        cleave::partition{parts({0, 0, 1, 2, 2}), 3});
  CHECK(cleave::assign_at_markers(g, [](int n) { return n == 0; }) ==
        cleave::partition{parts({0, 0, 0, 0, 0}), 1});
  CHECK(cleave::assign_at_markers(g, [](int) { return false; }).parts == 1);
  CHECK(cleave::assign_at_markers(numbers{}, [](int) { return true; }).parts == 0);
}

TEST_CASE("assign: accepts a snapshot, whose nodes are positions") {
  cleave::testing::snapshot_builder b;
  for (int i = 0; i < 4; ++i) b.node(1);
  CHECK(assign(b.build(), [](std::size_t n) { return n / 2; }).of == parts({0, 0, 1, 1}));
}
