// SPDX-License-Identifier: MIT
#include "cleave/core/name_digest.hpp"

#include <doctest/doctest.h>

using cleave::name_digest;

TEST_CASE("name_digest: depends on the names, their order and the boundaries between them") {
  CHECK(name_digest().text() == "cbf29ce484222325");
  CHECK(name_digest().add("a").add("b").text() == name_digest().add("a").add("b").text());
  CHECK(name_digest().add("a").add("b").text() != name_digest().add("b").add("a").text());
  CHECK(name_digest().add("a").add("b").text() != name_digest().add("ab").text());
  CHECK(name_digest().add("").text() != name_digest().text());
  CHECK(name_digest().add("\xc3\xbc").text().size() == 16);
}
