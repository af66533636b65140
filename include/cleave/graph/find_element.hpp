// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <variant>

#include "cleave/graph/argument.hpp"

namespace cleave::detail {

/// Where the element of `a`, a list, tuple or dict, under `key` begins and ends; nothing where there is none.
/// O(size of a).
inline std::optional<std::pair<std::size_t, std::size_t>> find_element(module_argument const& a,
                                                                       token const& key) {
  auto const* c = a.empty() ? nullptr : std::get_if<container>(&a.front());
  if (!c || c->what == container::kind::slice) return std::nullopt;
  bool const dict = c->what == container::kind::dict;
  auto const* number = std::get_if<std::int64_t>(&key);
  if (!dict && !number) return std::nullopt;
  std::int64_t const wanted = dict ? 0 : *number < 0 ? *number + std::int64_t{c->size} : *number;
  std::optional<std::pair<std::size_t, std::size_t>> found;
  std::size_t at = 1;
  for (std::int64_t i = 0; i < std::int64_t{c->size}; ++i) {
    bool const here = dict ? a[at] == key : i == wanted;
    if (dict) at = subtree_end(a, at);
    auto const end = subtree_end(a, at);
    if (here) found = {at, end};  // of a key that comes twice the last counts
    at = end;
  }
  return found;
}

}  // namespace cleave::detail
