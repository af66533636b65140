// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/utf8.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave {

/// A tensor of a model's state under the names that it has in the model before the cut, or one of an
/// optimiser under a name of its own. A tie has several names: it is one tensor.
struct named_tensor {
  std::vector<std::string> names;
  tensor_view tensor;
};

/// `f32[1024, 4]`.
inline std::string layout_text(element_type type, tensor_shape const& shape) {
  std::string text = std::string(name_of(type)) + "[";
  for (auto const extent : shape.list()) text += (text.ends_with('[') ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

}  // namespace cleave

namespace cleave::detail {

/// Why tensors are no state.
struct named_tensor_fault {
  static constexpr char subject[] = "state: ";
  enum class kind : std::uint8_t {
    nameless,     ///< a tensor has no name, or an empty one
    text,         ///< a name is no UTF-8
    named_twice,  ///< a name is given twice
    shape,        ///< an extent is below 0, or there are more bytes than a number can say
    no_data,      ///< a tensor has elements, but no memory
  };
  kind what;
  std::size_t at;         ///< which tensor
  std::string name = {};  ///< the one that is wrong, or the first one of the tensor

  bool operator==(named_tensor_fault const&) const = default;
};

/// One sentence.
inline std::string describe(named_tensor_fault const& f) {
  auto const it = "tensor " + std::to_string(f.at) + (f.name.empty() ? "" : " " + quoted(f.name));
  switch (f.what) {
    case named_tensor_fault::kind::nameless:
      return it + " has no name, or an empty one; give it the name that it has in the model";
    case named_tensor_fault::kind::text:
      return it + " has a name that is no UTF-8";
    case named_tensor_fault::kind::named_twice:
      return it + " has a name that is given before; a tensor with several names is given once, with all";
    case named_tensor_fault::kind::shape:
      return it + " has a shape that no tensor has: an extent below 0, or more than 2^63 - 1 bytes";
    case named_tensor_fault::kind::no_data:
      return it + " has elements, but no memory";
  }
  return {};
}

/// State that is refused. The witness: the first fault.
using named_tensor_error = fault_error<named_tensor_fault>;

/// How many bytes a tensor takes; nothing where an extent is below 0 or they are above 2^63 - 1.
inline std::optional<std::uint64_t> find_tensor_bytes(element_type type, tensor_shape const& shape) {
  auto const list = shape.list();
  auto const count = shape.count();
  auto const size = static_cast<std::int64_t>(size_of(type));
  bool const negative = std::ranges::any_of(list, [](auto extent) { return extent < 0; });
  if (negative || !count || *count > (std::numeric_limits<std::int64_t>::max)() / size) return std::nullopt;
  return static_cast<std::uint64_t>(*count * size);
}

/// Why the tensor of number `at` cannot be one of a state, whatever the others are, or nothing.
inline std::optional<named_tensor_fault> find_named_tensor_fault(named_tensor const& one, std::size_t at) {
  using enum named_tensor_fault::kind;
  auto const& [names, tensor] = one;
  if (names.empty()) return named_tensor_fault{nameless, at};
  for (auto const& name : names) {
    if (name.empty()) return named_tensor_fault{nameless, at, names.front()};
    if (!is_utf8(name)) return named_tensor_fault{text, at, name};
  }
  auto const bytes = find_tensor_bytes(tensor.type, tensor.shape);
  if (!bytes) return named_tensor_fault{shape, at, names.front()};
  if (*bytes > 0 && tensor.data == nullptr) return named_tensor_fault{no_data, at, names.front()};
  return std::nullopt;
}

/// Why `state` is none, or nothing. O(n log n) comparisons of names.
inline std::optional<named_tensor_fault> find_named_tensor_fault(std::span<named_tensor const> state) {
  std::vector<std::pair<std::string_view, std::size_t>> all;
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (auto fault = find_named_tensor_fault(state[i], i)) return fault;
    for (auto const& name : state[i].names) all.emplace_back(name, i);
  }
  std::ranges::sort(all);
  auto const same_name = [](auto const& a, auto const& b) { return a.first == b.first; };
  auto const twice = std::ranges::adjacent_find(all, same_name);
  if (twice == all.end()) return std::nullopt;
  return named_tensor_fault{named_tensor_fault::kind::named_twice, twice[1].second,
                            std::string(twice->first)};
}

/// \throws named_tensor_error
inline void require_named_tensors(std::span<named_tensor const> state) {
  if (auto const fault = find_named_tensor_fault(state)) throw named_tensor_error(*fault);
}

}  // namespace cleave::detail
