// SPDX-License-Identifier: MIT
#include "cleave/core/error.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace cleave;

namespace {

struct lid_fault {
  static constexpr char subject[] = "box: ";
  int lids;
};

std::string describe(lid_fault const& f) { return "there are " + std::to_string(f.lids) + " lids"; }

struct key_fault {};

std::string describe(key_fault) { return "no key fits"; }

using row_error = tagged_error<struct row_tag, int>;
using column_error = tagged_error<struct column_tag, int>;

}  // namespace

// An infeasible request and invalid data have distinct error types; both derive from `error`.
static_assert(std::is_base_of_v<error, infeasible_error> &&
              !std::is_base_of_v<infeasible_error, witness_error<int>>);
static_assert(std::is_base_of_v<error, witness_error<int>> &&
              !std::is_base_of_v<witness_error<int>, infeasible_error>);
static_assert(std::is_base_of_v<witness_error<lid_fault>, fault_error<lid_fault>>);
static_assert(std::is_base_of_v<witness_error<int>, row_error> && !std::is_same_v<row_error, column_error>);
static_assert(std::is_base_of_v<std::runtime_error, error>);
static_assert(std::is_nothrow_copy_constructible_v<error>);  // exceptions are copied when thrown

TEST_CASE("witness_error: keeps its message when caught as a base, and its witness when copied") {
  auto const message = [](auto const& caught, auto act) {
    try {
      act();
    } catch (decltype(caught) e) {
      return std::string(e.what());
    }
    return std::string();
  };
  auto const act = [] { throw witness_error("row 3 is cut", std::vector{3, 1}); };
  CHECK(message(error(""), act) == "row 3 is cut");
  CHECK(message(std::runtime_error(""), act) == "row 3 is cut");
  try {
    act();
  } catch (witness_error<std::vector<int>> const& e) {
    CHECK(e.witness == std::vector{3, 1});
    auto const copy = e;
    CHECK(copy.witness == e.witness);
    CHECK(std::string(copy.what()) == "row 3 is cut");
  }
}

TEST_CASE("witness_error: takes a witness that can only be moved") {
  witness_error const e("held", std::make_unique<int>(7));
  CHECK(*e.witness == 7);
}

TEST_CASE("fault_error: the message is the subject, if there is one, and the text of describe()") {
  fault_error<lid_fault> const lids({2});
  CHECK(lids.what() == doctest::String("box: there are 2 lids"));
  CHECK(lids.witness.lids == 2);
  CHECK(fault_error<lid_fault>("chest", {3}).what() == doctest::String("chest: there are 3 lids"));
  CHECK(fault_error<key_fault>(key_fault()).what() == doctest::String("no key fits"));
}

TEST_CASE("raise: throws the error as its own type, also one whose witness can only be moved") {
  try {
    detail::raise(witness_error("held", std::make_unique<int>(7)));
  } catch (witness_error<std::unique_ptr<int>> const& e) {
    CHECK(*e.witness == 7);
    CHECK(std::string(e.what()) == "held");
  }
  CHECK_THROWS_AS(detail::raise(infeasible_error("two parts of one node")), infeasible_error);
}
