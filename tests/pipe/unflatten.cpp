// SPDX-License-Identifier: MIT
#include "cleave/pipe/pytree.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using enum container::kind;

namespace {

token const T = node_ref{0};

/// A random value. With `only_tuples`, the tuple form can restore it exactly.
module_argument random_value(testing::rng& random, std::size_t depth, bool only_tuples) {
  std::uint32_t tensors = 0;
  module_argument a;
  auto const add = [&](auto self, std::size_t left) -> void {
    auto const what = random.below(left == 0 ? 4 : 7);
    if (what == 0) a.push_back(static_cast<std::int64_t>(random.below(9)) - 4);
    if (what == 1) a.push_back(token());
    if (what == 2) a.push_back(random.one_in(2) ? token(true) : token(0.5));
    if (what == 3) a.push_back(node_ref{tensors++});
    if (what < 4) return;
    auto const kind = only_tuples ? tuple : static_cast<container::kind>(what - 4);
    auto const size = static_cast<std::uint32_t>(random.below(4) + (only_tuples ? 1 : 0));
    a.push_back(container{kind, size});
    for (std::uint32_t i = 0; i < size; ++i) {
      if (kind == dict)
        a.push_back(random.one_in(3)
                        ? token(static_cast<std::int64_t>(random.next()))
                        : token(std::string(random.below(4), static_cast<char>(random.below(256)))));
      self(self, left - 1);
    }
  };
  add(add, depth);
  return a;
}

module_argument tuple_of(std::vector<module_argument> const& values) {
  module_argument whole{container{tuple, static_cast<std::uint32_t>(values.size())}};
  for (auto const& v : values) whole.insert(whole.end(), v.begin(), v.end());
  return whole;
}

}  // namespace

TEST_CASE("tree_unflatten: restores every random value that tree_flatten wrote") {
  testing::rng random(71);
  for (int round = 0; round < 3000; ++round) {
    std::vector<module_argument> values;
    for (auto n = random.below(5); n-- > 0;) values.push_back(random_value(random, 3, false));
    CHECK(tree_unflatten(tree_flatten(values)) == tuple_of(values));
  }
}

TEST_CASE("tree_unflatten: restores nonempty tuples from the tuple form") {
  testing::rng random(72);
  for (int round = 0; round < 1000; ++round) {
    std::vector<module_argument> values;
    for (auto n = random.below(5); n-- > 0;) values.push_back(random_value(random, 3, true));
    CHECK(tree_unflatten(tree_flatten(values, pytree_form::tuples), pytree_form::tuples) == tuple_of(values));
  }
}

TEST_CASE("tree_unflatten: the tuple form turns lists into tuples and gaps into empty tuples") {
  std::vector<module_argument> const values{{container{list, 1}, T}, {container{tuple, 0}}, {T}};
  CHECK(tree_unflatten(tree_flatten(values, pytree_form::tuples), pytree_form::tuples) ==
        module_argument{container{tuple, 3}, container{tuple, 1}, T, container{tuple, 0}, T});
}

TEST_CASE("tree_unflatten: rejects malformed text and text that does not fit the leaves") {
  auto const refused = [](std::string const& text, std::vector<token> const& leaves = {T}) {
    CHECK_THROWS_AS(tree_unflatten({leaves, text}), pytree_error);
    CHECK(find_pytree_fault(pytree_message{leaves, text}));
  };
  for (auto const* text : {"0",         "0,",           ",0",         "x,0",          "0.,0",
                           ".0,0",      "0..1,0",       "0,6",        "0,00",         "0,0|",
                           "|0,0",      "-1,0",         "0,1",        "0,2",          "1,0",
                           "0,0|0,0",   "0,3",          "0,0|0.1,0",  "0,5:'h|0.1,0", "0,5:x|0.0,0",
                           "0,5|0.0,0", "0,3:'h|0.0,0", "0,5:|0.0,0", "0.0,0|0,3"})
    refused(text);
  refused("0,0", {});
  refused("0,0", {T, T});
  refused("0,0", {token()});
  refused("999999999999999999999,0");
  refused("99999999,0");
  refused("9999999.9999999,0");
  refused("0,5:9223372036854775808|0.0,0");
  CHECK(tree_unflatten({{T}, "0,5:-9223372036854775808|0.0,0"}).size() == 4);
}

TEST_CASE(
    "tree_unflatten: a text with one changed character is rejected or produces a value that is used with as "
    "many leaves") {
  std::vector<module_argument> const values{{container{list, 2}, T, std::int64_t{1}},
                                            {container{dict, 1}, std::string("h"), T}};
  auto const m = tree_flatten(values);
  for (std::size_t at = 0; at < m.text.size(); ++at)
    for (char const c : std::string("0123456789,.|:'%ah\n-")) {
      auto changed = m;
      changed.text[at] = c;
      try {
        auto const back = tree_unflatten(changed);
        std::size_t leaves = 0;
        for (std::size_t i = 0; i < back.size(); ++i) leaves += std::holds_alternative<node_ref>(back[i]);
        CHECK(leaves == 2);
      } catch (pytree_error const&) {
      }
    }
}
