// SPDX-License-Identifier: MIT
#include "cleave/engine/model_value.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;
using testing::rng;

namespace {

using value = model_value<int>;

/// A nested value as a tree: the twin.
struct tree {
  std::variant<token, int, std::pair<container, std::vector<tree>>> what;
};

tree random_tree(rng& random, int depth) {
  if (depth == 0 || random.one_in(3)) {
    if (random.one_in(2)) return {static_cast<int>(random.below(100))};
    if (random.one_in(2)) return {token(static_cast<std::int64_t>(random.below(9)))};
    return {token(std::string("text"))};
  }
  container c{static_cast<container::kind>(random.below(4)), static_cast<std::uint32_t>(random.below(4))};
  if (c.what == container::kind::slice) c.size = 3;
  std::vector<tree> elements;
  for (std::size_t i = 0; i < elements_of(c); ++i) elements.push_back(random_tree(random, depth - 1));
  return {std::pair(c, std::move(elements))};
}

value value_of(tree const& t) {
  if (auto const* c = std::get_if<token>(&t.what)) return *c;
  if (auto const* i = std::get_if<int>(&t.what)) return *i;
  auto const& [c, elements] = std::get<2>(t.what);
  std::vector<value> list;
  for (auto const& e : elements) list.push_back(value_of(e));
  return {c, list};
}

void check_equal(value const& v, tree const& t, std::vector<int>& tensors) {
  if (auto const* c = std::get_if<token>(&t.what)) {
    REQUIRE(v.constant());
    CHECK(*v.constant() == *c);
    CHECK(v.elements().empty());
    return;
  }
  if (auto const* i = std::get_if<int>(&t.what)) {
    REQUIRE(v.tensor());
    CHECK(*v.tensor() == *i);
    CHECK(v.form() == module_argument{node_ref{0}});
    tensors.push_back(*i);
    return;
  }
  auto const& [c, elements] = std::get<2>(t.what);
  REQUIRE(v.outer());
  CHECK(*v.outer() == c);
  auto const list = v.elements();
  REQUIRE(list.size() == elements.size());
  for (std::size_t i = 0; i < list.size(); ++i) check_equal(list[i], elements[i], tensors);
}

}  // namespace

TEST_CASE("model_value: has the elements, tensors and form of a tree") {
  rng random(3);
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    auto const t = random_tree(random, 4);
    auto const v = value_of(t);
    std::vector<int> tensors;
    check_equal(v, t, tensors);
    CHECK(std::vector<int>(v.tensors().begin(), v.tensors().end()) == tensors);
    CHECK(complete(v.form()));

    value const again(v.form(), tensors);
    std::vector<int> same;
    check_equal(again, t, same);
    auto const doubled = v.map([](int x) { return 2.5 * x; });
    CHECK(doubled.form() == v.form());
    REQUIRE(doubled.tensors().size() == tensors.size());
    for (std::size_t k = 0; k < tensors.size(); ++k) CHECK(doubled.tensors()[k] == 2.5 * tensors[k]);
  }
}

TEST_CASE("model_value: is null by default, and deep nesting does not recurse") {
  CHECK(value().is_null());
  CHECK_FALSE(value(token(false)).is_null());
  module_argument form(200'000, container{container::kind::list, 1});
  form.emplace_back(node_ref{0});
  value const deep(std::move(form), {7});
  value copy = deep;
  CHECK(copy.tensors()[0] == 7);
  CHECK(copy.elements()[0].tensors()[0] == 7);
}
