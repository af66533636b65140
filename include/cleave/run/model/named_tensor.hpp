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

namespace cleave::inline v0_2 {

/// A tensor of a model's state under its names in the model before the cut, or an optimiser's tensor under a
/// name of its own. Tied parameters are one tensor with several names.
struct named_tensor {
  std::vector<std::string> names;
  tensor_view tensor;
};

/// Formats a tensor type: `f32[1024, 4]`.
inline std::string layout_text(element_type type, tensor_shape const& shape) {
  std::string text = std::string(name_of(type)) + "[";
  for (auto const extent : shape.list()) text += (text.ends_with('[') ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a list of tensors is not a valid state.
struct named_tensor_fault {
  static constexpr char subject[] = "state: ";
  enum class kind : std::uint8_t {
    nameless,     ///< a tensor has no name, or an empty one
    text,         ///< a name is not valid UTF-8
    named_twice,  ///< a name occurs twice
    shape,        ///< a negative extent, or more than 2^63 - 1 bytes
    no_data,      ///< a tensor has elements, but its data pointer is null
  };
  kind what;
  std::size_t at;         ///< position of the tensor
  std::string name = {};  ///< the wrong name, or the first name of the tensor

  bool operator==(named_tensor_fault const&) const = default;
};

/// Describes the fault in one sentence.
inline std::string describe(named_tensor_fault const& f) {
  auto const it = "tensor " + std::to_string(f.at) + (f.name.empty() ? "" : " " + quoted(f.name));
  switch (f.what) {
    case named_tensor_fault::kind::nameless:
      return it + " has no name, or an empty one; give it the name that it has in the model";
    case named_tensor_fault::kind::text:
      return it + " has a name that is not valid UTF-8";
    case named_tensor_fault::kind::named_twice:
      return it +
             " has a name that was already used; list a tensor with several names once, with all of them";
    case named_tensor_fault::kind::shape:
      return it + " has an invalid shape: a negative extent, or more than 2^63 - 1 bytes";
    case named_tensor_fault::kind::no_data:
      return it + " has elements, but its data pointer is null";
  }
  return {};
}

/// Thrown if a state is invalid. Carries the first fault.
using named_tensor_error = fault_error<named_tensor_fault>;

/// Returns the size of a tensor in bytes, or nothing if an extent is negative or the size exceeds 2^63 - 1.
inline std::optional<std::uint64_t> find_tensor_bytes(element_type type, tensor_shape const& shape) {
  auto const list = shape.list();
  auto const count = shape.count();
  auto const size = static_cast<std::int64_t>(size_of(type));
  bool const negative = std::ranges::any_of(list, [](auto extent) { return extent < 0; });
  if (negative || !count || *count > (std::numeric_limits<std::int64_t>::max)() / size) return std::nullopt;
  return static_cast<std::uint64_t>(*count * size);
}

/// Returns why one tensor, at position `at`, cannot be part of any state, or nothing.
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

/// Returns the first fault of `state`, or nothing. O(n log n) comparisons of names.
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

/// Checks `state`.
/// \throws named_tensor_error
inline void require_named_tensors(std::span<named_tensor const> state) {
  if (auto const fault = find_named_tensor_fault(state)) throw named_tensor_error(*fault);
}

}  // namespace cleave::detail
