// SPDX-License-Identifier: MIT
#include "cleave/run/model/tensor_view.hpp"

#include <doctest/doctest.h>

#include <limits>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("element_type: each type has a unique name and a size") {
  for (std::size_t t = 0; t < element_names.size(); ++t) {
    auto const type = static_cast<element_type>(t);
    CHECK(find_element_type(name_of(type)) == type);
    CHECK((size_of(type) == 1 || size_of(type) == 2 || size_of(type) == 4 || size_of(type) == 8));
  }
  CHECK_FALSE(find_element_type("f31"));
  CHECK(is_floating(element_type::bf16));
  CHECK_FALSE(is_floating(element_type::i64));
}

TEST_CASE("tensor_shape: count() is the number of elements, or nothing if that cannot be counted") {
  CHECK(tensor_shape{}.count() == 1);
  CHECK(tensor_shape{2, 3, 4}.count() == 24);
  CHECK(tensor_shape{2, 0, 4}.count() == 0);
  auto const half = std::int64_t{1} << 32;
  CHECK(tensor_shape{half, half / 2 - 1}.count() == half * (half / 2 - 1));
  CHECK_FALSE(tensor_shape{half, half}.count());
  CHECK_FALSE(tensor_shape{2, std::numeric_limits<std::int64_t>::max()}.count());
  CHECK_FALSE(tensor_shape{2, -1}.count());
  CHECK(tensor_shape{2, 3} != tensor_shape{2, 3, 1});
}

TEST_CASE("tensor_view: elements() is a region of the same size") {
  float x[6] = {};
  tensor_view const v{x, element_type::f32, {2, 3}};
  CHECK(v.elements() == region{x, 6, element_type::f32});
  CHECK(v.elements().bytes() == sizeof x);
}
