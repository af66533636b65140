// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/layer_layout.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string_view>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

parts_fault fault_of(std::string_view text) {
  try {
    read_deepspeed_parts(text);
  } catch (parts_error const& e) {
    return e.witness;
  }
  FAIL("no error for " << text);
  return {};
}

}  // namespace

TEST_CASE("read_deepspeed_parts: reads bounds with or without brackets, and they can be written back") {
  std::vector<std::uint32_t> const bounds{0, 3, 3, 10};
  CHECK(read_deepspeed_parts("[0, 3, 3, 10]") == bounds);
  CHECK(read_deepspeed_parts(" 0,3,3,10\n") == bounds);
  CHECK(deepspeed_parts_text(bounds) == "[0, 3, 3, 10]");
}

TEST_CASE("read_deepspeed_parts: names each fault with its place") {
  using enum parts_fault::kind;
  for (auto const* text : {"", "[]", "[0, ]", "[0, x]", "[0, -1]", "[0, 3", "0, 99999999999"})
    CHECK(fault_of(text).what == not_a_number);
  CHECK(fault_of("[0, x]") == parts_fault{not_a_number, 1});
  CHECK(fault_of("[1, 2]") == parts_fault{not_from_zero, 0});
  CHECK(fault_of("[0, 5, 4]") == parts_fault{descending, 2});
  CHECK(fault_of("[0]") == parts_fault{too_short, 0});
}
