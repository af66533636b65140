// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2 {

/// A dense row-major tensor in host memory.
template <class T>
struct host_tensor {
  tensor_shape shape = {};
  std::vector<T> data = std::vector<T>(1);

  host_tensor() = default;
  /// Makes a number.
  explicit host_tensor(T x) : data{x} {}
  /// Makes a tensor of zeros. \pre the elements can be counted
  explicit host_tensor(tensor_shape const& s) : shape(s), data(static_cast<std::size_t>(*s.count())) {}
  /// \throws error if there are more or fewer elements than the shape has
  host_tensor(tensor_shape const& s, std::vector<T> elements) : shape(s), data(std::move(elements)) {
    auto const count = s.count();
    if (!count || static_cast<std::size_t>(*count) != data.size())
      throw error("host_tensor: " + std::to_string(data.size()) + " elements for a shape of " +
                  std::to_string(count.value_or(-1)) + "; give one for each");
  }

  bool operator==(host_tensor const&) const = default;
};

/// The memory of `host_tensor`s for a stage engine: models `tensor_memory`, and has what `operator_table`
/// needs for tapes. Operators get copies of the elements. `T` is float or double.
template <class T>
class host_tensors {
 public:
  using tensor = host_tensor<T>;
  static constexpr element_type type = sizeof(T) == 4 ? element_type::f32 : element_type::f64;

  tensor_view view(tensor const& t) {
    return {const_cast<T*>(t.data.data()), type, t.shape};  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  }
  tensor wrap(tensor_view const& v) {
    auto const* const from = elements(v);
    return {v.shape, {from, from + v.elements().count}};
  }
  tensor copy(tensor const& t) { return t; }
  tensor filled(tensor t, double x) {
    std::ranges::fill(t.data, static_cast<T>(x));
    return t;
  }
  tensor sum(tensor x, tensor const& y) {
    for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] += y.data[i];
    return x;
  }
  void write(tensor const& t, tensor_view const& v) { std::ranges::copy(t.data, elements(v)); }
  void add(tensor const& t, tensor_view const& v, double factor) {
    auto* const to = elements(v);
    for (std::size_t i = 0; i < t.data.size(); ++i) to[i] += static_cast<T>(factor) * t.data[i];
  }
  void fill(tensor_view const& v, double x) {
    std::fill_n(elements(v), v.elements().count, static_cast<T>(x));
  }

 private:
  /// \throws error if the elements have another type
  static T* elements(tensor_view const& v) {
    if (v.type != type)
      throw error("host_tensors: the value is " + layout_text(v.type, v.shape) + ", but tensors here have " +
                  std::string(name_of(type)));
    return static_cast<T*>(v.data);
  }
};

}  // namespace cleave
