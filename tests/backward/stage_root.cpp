// SPDX-License-Identifier: MIT
#include "cleave/backward/stage_root.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

using namespace cleave;

using namespace cleave::detail;

namespace {

using enum root_fault::kind;

TEST_CASE("root_fault_text: names the value or number that a fault is about") {
  stage_root root;
  root.add(root_kind::input);
  root.add(root_kind::element, {0}, 5);
  auto const name = [](std::uint32_t v) { return "v" + std::to_string(v); };
  auto const text = [&](root_fault const& f) { return root_fault_text(f, name); };
  CHECK(find_root_fault(root, 1) == std::nullopt);
  CHECK(find_root_fault(root, 2) == root_fault{unknown_loss, 2});
  for (auto const what : {work_between_stages, malformed_element, unordered, loss_is_tuple})
    CHECK(text({what, 3, 4}).find("v3") != std::string::npos);
  CHECK(text({wide_element, 3, 70'000}).find("70000") != std::string::npos);
  CHECK(text({unknown_loss, 9}).find("#9") != std::string::npos);
}

}  // namespace
