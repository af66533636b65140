// SPDX-License-Identifier: MIT
#include "cleave/run/model/named_tensor.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/random_tensors.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string fault_of(std::vector<named_tensor> const& state) {
  auto const found = find_named_tensor_fault(state);
  try {
    require_named_tensors(state);
  } catch (named_tensor_error const& e) {
    REQUIRE(found);
    CHECK(e.witness == *found);
    return e.what();
  }
  CHECK(!found);
  return "accepted";
}

}  // namespace

TEST_CASE("require_named_tensors: accepts any tensors with different names") {
  testing::rng random(1);
  for (std::size_t i = 0; i < 50; ++i)
    CHECK(!find_named_tensor_fault(testing::random_tensors(random, i).tensors));
  CHECK(fault_of({}) == "accepted");
  CHECK(fault_of({{{"empty"}, {nullptr, element_type::f32, {3, 0}}}}) == "accepted");
}

TEST_CASE("require_named_tensors: rejects an invalid state and says why") {
  float x = 0;
  tensor_view const scalar{&x, element_type::f32, {}};
  CHECK(fault_of({{{"a"}, scalar}, {{}, scalar}}) ==
        "state: tensor 1 has no name, or an empty one; give it the name that it has in the model");
  CHECK(fault_of({{{"a", ""}, scalar}}) ==
        "state: tensor 0 'a' has no name, or an empty one; give it the name that it has in the model");
  CHECK(fault_of({{{"a\xff"}, scalar}}) == "state: tensor 0 'a\\xff' has a name that is not valid UTF-8");
  CHECK(fault_of({{{"a"}, scalar}, {{"b"}, scalar}, {{"c", "a"}, scalar}}) ==
        "state: tensor 2 'a' has a name that was already used; list a tensor with several names once, with "
        "all of them");
  CHECK(fault_of({{{"a", "a"}, scalar}}).starts_with("state: tensor 0 'a' has a name that was already used"));
  CHECK(fault_of({{{"a"}, {nullptr, element_type::f32, {}}}}) ==
        "state: tensor 0 'a' has elements, but its data pointer is null");
}

TEST_CASE("find_tensor_bytes: rejects negative extents and sizes above 2^63 - 1 bytes") {
  auto const most = std::numeric_limits<std::int64_t>::max();
  CHECK(!find_tensor_bytes(element_type::u8, {2, -1}));
  CHECK(!find_tensor_bytes(element_type::u8, {most, 2}));
  CHECK(find_tensor_bytes(element_type::u8, {most}) == static_cast<std::uint64_t>(most));
  CHECK(!find_tensor_bytes(element_type::i16, {most}));
  CHECK(find_tensor_bytes(element_type::f64, {2, 3}) == 48);
  CHECK(fault_of({{{"a"}, {nullptr, element_type::f32, {-1}}}}) ==
        "state: tensor 0 'a' has an invalid shape: a negative extent, or more than 2^63 - 1 bytes");
}

TEST_CASE("layout_text: writes a layout as type and extents") {
  CHECK(layout_text(element_type::bf16, {2, 3}) == "bf16[2, 3]");
  CHECK(layout_text(element_type::f32, {}) == "f32[]");
}
