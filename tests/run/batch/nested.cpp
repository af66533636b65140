// SPDX-License-Identifier: MIT
#include "cleave/run/batch/nested.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using numbers = nested<int>;

std::vector<std::string> places(numbers const& x) {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < x.shape().size(); ++i) all.push_back(place_text(x.shape(), i, "x"));
  return all;
}

}  // namespace

TEST_CASE("nested: leaves keep the order in which they are written") {
  auto const x = numbers::tuple({1, numbers::dict({{"b", 2}, {"a", numbers::list({3, 4})}}), 5});
  CHECK(x.leaves() == std::vector{1, 2, 3, 4, 5});
  CHECK(x.shape()[3].key == "b");
  CHECK(x.shape()[0].size == 3);
}

TEST_CASE("place_text: names each entry as a user would index it") {
  auto const x = numbers::tuple(
      {1, numbers::list({}), numbers::dict({{"a", 2}, {"it's", numbers::list({numbers::tuple({}), 4})}}), 5});
  CHECK(places(x) == std::vector<std::string>{"x", "x[0]", "x[1]", "x[2]", "x[2]['a']", "x[2]['it's']",
                                              "x[2]['it's'][0]", "x[2]['it's'][1]", "x[3]"});
  CHECK(leaf_place_text(x.shape(), 2, "x") == "x[2]['it's'][1]");
  CHECK(places(7) == std::vector<std::string>{"x"});
}

TEST_CASE("nested_builder: builds the same values as list(), tuple() and dict()") {
  nested_builder<int> b;
  b.open(nesting::tuple);
  b.leaf(1);
  b.open(nesting::dict);
  b.leaf(2, "a");
  b.open(nesting::list, "b");
  b.close();
  b.close();
  b.close();
  auto const made = std::move(b).take();
  CHECK(made == numbers::tuple({1, numbers::dict({{"a", 2}, {"b", numbers::list({})}})}));
}

TEST_CASE("nested: a root entry has no key, whatever it contains") {
  auto const inside = numbers::dict({{"a", 1}});
  CHECK(numbers::list({inside}) == numbers::list({numbers::dict({{"a", 1}})}));
  CHECK(numbers::dict({{"z", inside}}).shape()[0].key.empty());
}

TEST_CASE("nested: map_leaves() keeps the nesting") {
  auto const x = numbers::list({1, numbers::dict({{"a", 2}})});
  auto const texts = x.map_leaves(std::vector<std::string>{"one", "two"});
  CHECK(texts.shape() == x.shape());
  CHECK(texts.leaves()[1] == "two");
}

TEST_CASE("nested: handles 200,000 levels on a small stack, and place_text() abbreviates the place") {
  testing::on_small_stack([] {
    nested_builder<int> b;
    for (int i = 0; i < 200'000; ++i) b.open(nesting::list);
    b.leaf(1);
    for (int i = 0; i < 200'000; ++i) b.close();
    auto const x = std::move(b).take();
    CHECK(x.leaves().size() == 1);
    auto const copy = x;
    CHECK(copy == x);
    CHECK(place_text(x.shape(), x.shape().size() - 1, "x") ==
          "x[0][0][0][0][0][0][0][0][…][0][0][0][0][0][0][0][0]");
  });
}
