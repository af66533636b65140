// SPDX-License-Identifier: MIT
#include "cleave/partition/model/partition.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using cleave::per_part;

namespace {

struct options {
  per_part<std::size_t> memory{};
};

}  // namespace

TEST_CASE("per_part: a single number applies to every part") {
  using namespace cleave::literals;
  options const o{.memory = 1_GiB};
  CHECK(o.memory.same());
  CHECK(o.memory.size() == 1);
  for (std::size_t const part : {0u, 1u, 1'000'000u}) CHECK(o.memory[part] == 1_GiB);
  for (std::size_t const parts : {0u, 1u, 1'000'000u}) CHECK(o.memory.covers(parts));
}

TEST_CASE("per_part: a list has one entry per part and covers exactly that many parts") {
  options const o{.memory = {16, 8, 16}};
  CHECK(!o.memory.same());
  CHECK(o.memory[1] == 8);
  CHECK(o.memory[2] == 16);
  CHECK(o.memory.covers(3));
  CHECK(!o.memory.covers(2));
  CHECK(!o.memory.covers(4));
  options const one{.memory = {16}};
  CHECK(one.memory.covers(1));
  CHECK(!one.memory.covers(2));
  options const same{.memory = std::vector<std::size_t>{16, 8, 16}};
  CHECK(same.memory[1] == 8);
  CHECK(same.memory.covers(3));
}

TEST_CASE("per_part: an unset value is empty and covers any number of parts") {
  options const o, from_list{.memory = std::vector<std::size_t>()};
  for (auto const& m : {o.memory, from_list.memory}) {
    CHECK(m.empty());
    CHECK(m.same());
    CHECK(m.size() == 0);
    CHECK(m.covers(0));
    CHECK(m.covers(7));
  }
}
