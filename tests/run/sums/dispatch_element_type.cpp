// SPDX-License-Identifier: MIT
#include "cleave/run/sums/sum_in_order.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr element_type type_number(std::size_t t) { return static_cast<element_type>(t); }

template <class T>
bool holds(element_type t) {
  bool same = false;
  dispatch_element_type(t, [&](auto zero) { same = std::is_same_v<decltype(zero), T>; });
  return same;
}

}  // namespace

TEST_CASE("dispatch_element_type: calls once with the type that holds the element") {
  CHECK(holds<float>(element_type::f32));
  CHECK(holds<double>(element_type::f64));
  CHECK(holds<float16_bits>(element_type::f16));
  CHECK(holds<bfloat16_bits>(element_type::bf16));
  CHECK(holds<std::int64_t>(element_type::i64));
  CHECK(holds<std::int32_t>(element_type::i32));
  CHECK(holds<std::int16_t>(element_type::i16));
  CHECK(holds<std::int8_t>(element_type::i8));
  CHECK(holds<std::uint8_t>(element_type::u8));
  CHECK(holds<std::uint8_t>(element_type::boolean));
  for (std::size_t t = 0; t < element_names.size(); ++t) {
    int calls = 0;
    dispatch_element_type(type_number(t),
                          [&](auto zero) { calls += sizeof zero == size_of(type_number(t)) ? 1 : 2; });
    CHECK(calls == 1);
  }
}

TEST_CASE("dispatch_floating_type: gives the type that dispatch_element_type gives, never an integer") {
  for (std::size_t t = 0; is_floating(type_number(t)); ++t) {
    int calls = 0;
    dispatch_floating_type(type_number(t), [&](auto zero) {
      static_assert(!std::is_integral_v<decltype(zero)>);
      dispatch_element_type(type_number(t), [&](auto other) {
        calls += std::is_same_v<decltype(zero), decltype(other)> ? 1 : 2;
      });
    });
    CHECK(calls == 1);
  }
}
