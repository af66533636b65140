// SPDX-License-Identifier: MIT
#include "cleave/run/model/stable_list.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Cannot be moved, and notes its destruction.
struct guest {
  guest(int n, std::vector<int>& left) : number(n), gone(left) {
    if (n < 0) throw std::runtime_error("below 0");
  }
  guest(guest&&) = delete;
  ~guest() { gone.push_back(number); }
  int number;
  std::vector<int>& gone;
};

}  // namespace

TEST_CASE("stable_list: elements keep their addresses and are destroyed in order") {
  std::vector<int> gone;
  {
    stable_list<guest> all;
    std::vector<guest*> made;
    for (int n = 0; n < 100; ++n) made.push_back(&all.emplace(n, gone));
    CHECK(all.size() == 100);
    for (std::size_t i = 0; i < made.size(); ++i) CHECK(made[i] == &all[i]);
    all.keep_first(3);
    CHECK(all.size() == 3);
    CHECK(gone.size() == 97);
    CHECK(gone.front() == 3);
    gone.clear();
  }
  CHECK(gone == std::vector<int>{0, 1, 2});
}

TEST_CASE("stable_list: an element whose constructor throws leaves nothing behind") {
  std::vector<int> gone;
  stable_list<guest> all;
  all.emplace(1, gone);
  CHECK_THROWS_AS(all.emplace(-1, gone), std::runtime_error);
  CHECK(all.size() == 1);
  CHECK(all.emplace(2, gone).number == 2);
  CHECK(all[1].number == 2);
}
