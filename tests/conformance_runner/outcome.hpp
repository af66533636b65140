// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "conformance_runner/json.hpp"
#include "conformance_runner/read_case.hpp"

namespace cleave::conformance {

using namespace detail;

/// One place where the result differs from the expected one.
struct difference {
  std::string what, expected, got;
};

/// The outcome of one case.
struct outcome {
  std::vector<difference> differences;  ///< empty: passed, unless skipped
  std::string skipped;                  ///< the reason for skipping, if any
};

inline std::string shortened(json const& j) {
  auto const text = j.dump();
  return text.size() > 160 ? text.substr(0, 157) + "..." : text;
}

/// Appends the differences between `got` and `expected`, per leaf, at most a handful. Keys that only one of
/// them has count too.
inline void compare(json const& expected, json const& got, std::string const& what,
                    std::vector<difference>& to) {
  if (expected.type() != got.type() || (!expected.is_object() && !expected.is_array())) {
    if (expected.dump() != got.dump()) to.push_back({what, shortened(expected), shortened(got)});
  } else if (expected.is_array()) {
    if (expected.size() != got.size()) {
      to.push_back({what, shortened(expected), shortened(got)});
      return;
    }
    for (std::size_t i = 0; i < expected.size() && to.size() < 5; ++i)
      compare(expected[i], got[i], what + "[" + std::to_string(i) + "]", to);
  } else {
    for (auto const& [key, value] : expected.items()) {
      if (to.size() >= 5) return;
      auto const at = got.find(key);
      if (at == got.end())
        to.push_back({what + "." + key, shortened(value), "nothing"});
      else
        compare(value, *at, what + "." + key, to);
    }
    for (auto const& [key, value] : got.items())
      if (!expected.contains(key)) to.push_back({what + "." + key, "nothing", shortened(value)});
  }
}

/// Runs a case of an area. `body` is the body of the case, or a copy with one expected leaf altered.
using area_runner = outcome (*)(test_case const& c, json const& body);

/// Returns the runner of an area, or null if the area is not supported yet.
area_runner find_runner(std::string const& area);

}  // namespace cleave::conformance
