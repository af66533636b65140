// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/graph/argument.hpp"

namespace cleave::testing {

/// Returns a tuple, or another sequence, of `elements`.
inline module_argument row(std::vector<module_argument> const& elements,
                           container::kind what = container::kind::tuple) {
  module_argument a{container{what, static_cast<std::uint32_t>(elements.size())}};
  for (auto const& e : elements) a.insert(a.end(), e.begin(), e.end());
  return a;
}

/// Returns a dict of key-value `pairs`, in order.
inline module_argument dict(std::vector<std::pair<module_argument, module_argument>> const& pairs) {
  module_argument a{container{container::kind::dict, static_cast<std::uint32_t>(pairs.size())}};
  for (auto const& [key, value] : pairs) {
    a.insert(a.end(), key.begin(), key.end());
    a.insert(a.end(), value.begin(), value.end());
  }
  return a;
}

}  // namespace cleave::testing
