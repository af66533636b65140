// SPDX-License-Identifier: MIT
#include "cleave/formats/nested_argument.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "support/rng.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using kind = container::kind;

token same(token const& t) { return t; }
token number(std::int64_t n) { return n; }

module_argument random_argument(testing::rng& r, std::size_t depth) {
  if (depth == 0 || r.one_in(3)) {
    switch (r.below(3)) {
      case 0:
        return {node_ref{static_cast<std::uint32_t>(r.below(9))}};
      case 1:
        return {std::monostate()};
      default:
        return {std::string("text")};
    }
  }
  kind const kinds[] = {kind::list, kind::tuple, kind::dict};
  container const c{kinds[r.below(3)], static_cast<std::uint32_t>(r.below(4))};
  module_argument a{c};
  for (std::uint32_t i = 0; i < c.size; ++i) {
    if (c.what == kind::dict) a.push_back("k" + std::to_string(i));
    auto const inside = random_argument(r, depth - 1);
    a.insert(a.end(), inside.begin(), inside.end());
  }
  return a;
}

std::string fault(module_argument const& a) {
  auto const f = find_nested_argument_fault(a);
  REQUIRE(f);
  CHECK_THROWS_WITH_AS(nested_of(a, same), ("nested argument: " + describe(*f)).c_str(),
                       nested_argument_error);
  return describe(*f);
}

}  // namespace

TEST_CASE("nested_of: converts an argument to a nested value of its constants and nodes") {
  module_argument const a{container{kind::tuple, 2}, node_ref{4}, container{kind::dict, 2},
                          std::string("x"),          node_ref{5}, std::string("n"),
                          container{kind::list, 0}};
  auto const x = nested_of(a, [](token const& t) { return std::get<node_ref>(t).node * 10; });
  CHECK(x == nested<std::uint32_t>::tuple(
                 {40u, nested<std::uint32_t>::dict({{"x", 50u}, {"n", nested<std::uint32_t>::list({})}})}));
}

TEST_CASE("argument_of: inverts nested_of on random arguments") {
  testing::rng r(9);
  for (int round = 0; round < 300; ++round) {
    auto const a = random_argument(r, 5);
    CHECK_FALSE(find_nested_argument_fault(a));
    CHECK(argument_of(nested_of(a, same), same) == a);
  }
}

TEST_CASE("nested_of: rejects slices and keys that are not texts and names the token") {
  CHECK(fault({container{kind::list, 1}, container{kind::slice, 3}, number(1), number(2),
               std::monostate()}) == "token #1 is a slice; give its bounds as a tuple");
  CHECK(fault({container{kind::dict, 1}, number(1), number(2)}) ==
        "token #1 is a key of a dict, but not text; use text keys, or a list");
}

TEST_CASE("nested_of: handles 100,000 levels on a small stack") {
  testing::on_small_stack([] {
    module_argument a(100'000, token(container{kind::list, 1}));
    a.push_back(number(1));
    CHECK(argument_of(nested_of(a, same), same) == a);
  });
}
