// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_hierarchy.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

using namespace cleave;

using namespace cleave::detail;
using enum container::kind;

namespace {

token number(std::int64_t i) { return i; }

}  // namespace

TEST_CASE("find_element: finds an element by position, negative position or key, the last of equal keys") {
  module_argument const a{container{tuple, 3}, number(7), container{list, 2},
                          number(8),           number(9), number(6)};
  using range = std::pair<std::size_t, std::size_t>;
  CHECK(find_element(a, number(0)) == range{1, 2});
  CHECK(find_element(a, number(1)) == range{2, 5});
  CHECK(find_element(a, number(-1)) == range{5, 6});
  CHECK(find_element(a, number(-3)) == range{1, 2});
  CHECK_FALSE(find_element(a, number(3)));
  CHECK_FALSE(find_element(a, number(-4)));
  CHECK_FALSE(find_element(a, std::string("h")));
  module_argument const d{container{dict, 3}, std::string("h"), number(1),         number(0),
                          number(2),          std::string("h"), container{list, 0}};
  CHECK(find_element(d, std::string("h")) == range{6, 7});
  CHECK(find_element(d, number(0)) == range{4, 5});
  CHECK_FALSE(find_element(d, std::string("x")));
  CHECK_FALSE(find_element({number(1)}, number(0)));
  CHECK_FALSE(find_element({container{slice, 3}, number(1), number(2), number(3)}, number(0)));
}
