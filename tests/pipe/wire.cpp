// SPDX-License-Identifier: MIT
#include "cleave/pipe/pytree.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using enum container::kind;

namespace {

token const T = node_ref{0};

container of(container::kind what, std::uint32_t size) { return {what, size}; }

}  // namespace

TEST_CASE("tree_flatten: writes path and type of each leaf, and tuples alike in both forms") {
  std::vector<module_argument> const values{
      {T}, {of(tuple, 2), T, of(tuple, 2), std::int64_t{3}, token()}, {true}};
  for (auto const form : {pytree_form::exact, pytree_form::tuples}) {
    auto const m = tree_flatten(values, form);
    CHECK(m.text == "0,0|1.0,0|1.1.0,1|1.1.1,2|2,1");
    CHECK(m.leaves == std::vector<token>{T, T, std::int64_t{3}, token(), true});
  }
}

TEST_CASE("tree_flatten: the exact form also writes lists, empty tuples and dicts") {
  std::vector<module_argument> const values{
      {of(list, 1), T},
      {of(tuple, 0)},
      {of(dict, 3), std::string("h"), T, std::string("a b:%"), 2.5, std::int64_t{-4}, of(list, 0)}};
  CHECK(tree_flatten(values).text == "0,3|0.0,0|1,4|2,5:'h:'a%20b%3a%25:-4|2.0,0|2.1,1|2.2,3");
  CHECK(tree_flatten(values, pytree_form::tuples).text == "0.0,0|2.0,0|2.1,1");
  CHECK(tree_flatten({}).text.empty());
}

TEST_CASE("tree_flatten: rejects a value that cannot be sent and names its path") {
  auto const path_of = [](std::vector<module_argument> const& values, pytree_form form = pytree_form::exact) {
    auto const fault = find_pytree_fault(values, form);
    if (fault) CHECK_THROWS_AS(tree_flatten(values, form), pytree_error);
    return fault ? fault->path : "sent";
  };
  CHECK(path_of({{T}, {std::string("text")}}) == "1");
  CHECK(path_of({{of(tuple, 2), T, opaque{"dtype", "float32"}}}) == "0.1");
  CHECK(path_of({{T}, {of(slice, 3), T, T, T}}) == "1");
  CHECK(path_of({{of(dict, 1), true, T}}) == "0");
  CHECK(path_of({{of(dict, 1), of(tuple, 1), std::int64_t{1}, T}}) == "0");
  CHECK(path_of({{of(dict, 1), of(tuple, 1), std::int64_t{1}, T}}, pytree_form::tuples) == "0.");
}

TEST_CASE("itemised: names the elements of a list or tuple if one of them is a tensor") {
  module_argument const value{of(tuple, 3),
                              T,
                              of(tuple, 2),
                              std::int64_t{1},
                              std::int64_t{2},
                              of(list, 2),
                              of(dict, 1),
                              std::string("h"),
                              T,
                              T};
  std::vector<std::string> names;
  for (auto const& [name, item] : itemised(value, "s")) names.push_back(name);
  CHECK(names == std::vector<std::string>{"s", "s.0", "s.1", "s.2", "s.2.0", "s.2.1"});
  CHECK(itemised(value, "s")[4].second == module_argument{of(dict, 1), std::string("h"), T});
  CHECK(itemised({T}, "s").size() == 1);
}

TEST_CASE("tree_flatten: handles tuples nested 3,000 deep") {
  module_argument deep;
  for (int i = 0; i < 3000; ++i) deep.push_back(of(tuple, 1));
  deep.push_back(T);
  CHECK(tree_flatten({deep}).leaves.size() == 1);
}
