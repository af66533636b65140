// SPDX-License-Identifier: MIT
#pragma once
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// Returns `f(x)` for each element x of `range`, in order, without those that are null. `f` returns a
/// pointer, which is the handle of a node or a value, or null for what an adapter leaves out.
///
/// All that is required of `range` is that a range-based `for` takes it. The lists of many IRs are no more
/// than that, and cannot be viewed.
template <class Range, class F>
auto collected(Range&& range, F f) {
  auto const collect = [&f](auto first, auto const last) {
    using pointer = std::remove_cvref_t<decltype(f(*first))>;
    static_assert(std::is_pointer_v<pointer>, "collected(range, f): f must return a pointer");
    std::vector<pointer> list;
    for (; first != last; ++first)
      if (pointer const p = f(*first)) list.push_back(p);
    return list;
  };
  using std::begin, std::end;
  return collect(begin(range), end(range));
}

}  // namespace cleave
