// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "conformance_runner/read_graph.hpp"
#include "support/integer_interpretation.hpp"

/// Values of the integer interpretation in the form of the recordings.
namespace cleave::conformance {

using namespace detail;

using testing::integer_value;

inline std::string hex(std::uint64_t x) {
  static constexpr char digit[] = "0123456789abcdef";
  std::string s(16, '0');
  for (std::size_t i = 16; i-- > 0; x >>= 4) s[i] = digit[x & 15];
  return s;
}

inline json write_value(integer_value const& v) {
  if (v.what == integer_value::kind::computed) return json{{"u64", hex(v.bits)}};
  if (v.what == integer_value::kind::constant) return write_constant(v.text);
  bool const dict = v.shape.what == container::kind::dict;
  json elements = json::array();
  for (std::size_t i = 0; i < v.items->size(); ++i) {
    json element = write_value((*v.items)[i]);
    if (dict) element = json::array({std::move(element), write_value((*v.items)[++i])});
    elements.push_back(std::move(element));
  }
  for (auto const& [name, kind] : containers)
    if (kind == v.shape.what) return json{{std::string(name), std::move(elements)}};
  return nullptr;
}

/// Returns the inputs of an `eval`.
inline std::vector<integer_value> read_inputs(json const& eval) {
  std::vector<integer_value> inputs;
  for (auto const& x : eval["inputs"])
    inputs.push_back(integer_value::computed(std::stoull(x.get<std::string>(), nullptr, 16)));
  return inputs;
}

/// Returns made-up inputs for a graph: one per placeholder, all different.
inline std::vector<integer_value> own_inputs(module_graph const& g) {
  std::vector<integer_value> inputs;
  for (auto const n : g.inputs()) inputs.push_back(integer_value::computed(testing::mix(n + 1)));
  return inputs;
}

}  // namespace cleave::conformance
