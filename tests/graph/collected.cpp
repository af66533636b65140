// SPDX-License-Identifier: MIT
#include "cleave/graph/collected.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace cleave;

namespace {

struct op {
  int kind;
  op* next = nullptr;
};

/// A list as IRs have it: its iterators have no more than what a range-based `for` calls.
struct op_list {
  struct iterator {
    op* at;
    op& operator*() const { return *at; }
    iterator& operator++() {
      at = at->next;
      return *this;
    }
    bool operator!=(iterator const& other) const { return at != other.at; }
  };
  iterator begin() const { return {first}; }
  iterator end() const { return {nullptr}; }
  op* first;
};

}  // namespace

TEST_CASE("collected: lists pointers to what f keeps, in order") {
  op c{1}, b{2, &c}, a{1, &b};
  CHECK(collected(op_list{&a}, [](op& o) { return &o; }) == std::vector{&a, &b, &c});
  CHECK(collected(op_list{&a}, [](op& o) { return o.kind == 1 ? &o : nullptr; }) == std::vector{&a, &c});
  CHECK(collected(op_list{nullptr}, [](op& o) { return &o; }).empty());
}

TEST_CASE("collected: takes arrays, lists of pointers with gaps, and temporaries") {
  op a{1}, b{2};
  op* const sources[] = {&a, nullptr, &b};
  CHECK(collected(sources, [](op* o) { return o; }) == std::vector{&a, &b});
  auto const handles = collected(std::vector{&b, &a}, [](op* o) -> void* { return o; });
  CHECK(handles == std::vector<void*>{&b, &a});
}
