// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "cleave/run/model/tensor_view.hpp"
#include "support/toy_tensor.hpp"

/// The toys' tensors in the memory layout of the executor.
namespace cleave::testing {

using namespace detail;

/// Calls `f` with a pointer to the elements of `v`, in their type.
template <class F>
void with_elements(tensor_view const& v, F f) {
  switch (v.type) {
    case element_type::f32:
      return f(static_cast<float*>(v.data));
    case element_type::f64:
      return f(static_cast<double*>(v.data));
    case element_type::i64:
      return f(static_cast<std::int64_t*>(v.data));
    case element_type::i32:
      return f(static_cast<std::int32_t*>(v.data));
    default:
      throw std::runtime_error("the toys have no elements of type " + std::string(name_of(v.type)));
  }
}

inline cleave::tensor_shape shape_of(tensor const& t) {
  std::vector<std::int64_t> extents;
  for (auto const n : t.shape) extents.push_back(static_cast<std::int64_t>(n));
  return std::span<std::int64_t const>(extents);
}

inline tensor read_elements(tensor_view const& v) {
  tensor t{{}, {}};
  for (auto const n : v.shape.list()) t.shape.push_back(static_cast<std::size_t>(n));
  t.data.resize(v.elements().count);
  with_elements(v, [&](auto const* from) {
    for (std::size_t i = 0; i < t.data.size(); ++i) t.data[i] = static_cast<double>(from[i]);
  });
  return t;
}

/// \throws std::runtime_error if `v` has another shape
inline void write_elements(tensor const& t, tensor_view const& v) {
  if (v.shape != shape_of(t))
    throw std::runtime_error("a tensor of shape " + text_of(t.shape) + " has memory for another");
  with_elements(v, [&](auto* to) {
    using element = std::remove_reference_t<decltype(*to)>;
    for (std::size_t i = 0; i < t.data.size(); ++i) to[i] = static_cast<element>(t.data[i]);
  });
}

/// A tensor that owns its memory.
struct owned_tensor {
  std::vector<std::byte> bytes;
  tensor_view view;
};

/// Returns memory filled with meaningless data.
inline owned_tensor unused(cleave::tensor_shape const& shape, element_type type) {
  owned_tensor made{{}, {nullptr, type, shape}};
  made.bytes.assign(made.view.elements().bytes(), std::byte{0x99});
  made.view.data = made.bytes.data();
  return made;
}

inline owned_tensor owned(tensor const& t, element_type type) {
  auto made = unused(shape_of(t), type);
  write_elements(t, made.view);
  return made;
}

}  // namespace cleave::testing
