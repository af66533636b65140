// SPDX-License-Identifier: MIT
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Arrays that come from Python are read in place, and those that go there are handed over without a copy.
namespace binding {

/// A list of numbers of any type, in memory of the host.
using array = nanobind::ndarray<nanobind::ro, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using maybe_array = std::optional<array>;

template <class T>
std::span<T const> span_of(array const& a) {
  return {static_cast<T const*>(a.data()), a.size()};
}

template <class T>
bool has_type(array const& a) {
  return a.dtype() == nanobind::dtype<T>();
}

/// A type as an argument.
template <class T>
struct type_tag {
  using type = T;
};

/// Calls `f` with the array as a span of 32-bit or 64-bit integers. \throws nanobind::type_error
template <class F>
auto with_integers(array const& a, char const* name, F f) {
  if (has_type<std::int32_t>(a)) return f(span_of<std::int32_t>(a));
  if (has_type<std::int64_t>(a)) return f(span_of<std::int64_t>(a));
  throw nanobind::type_error((std::string(name) + " must be an array of int32 or int64").c_str());
}

/// Calls `f` with the weights as a span of int64 or double, which is empty without an array.
/// \throws nanobind::type_error
template <class F>
auto with_weights(maybe_array const& a, char const* name, F f) {
  if (!a) return f(std::span<std::int64_t const>());
  if (has_type<std::int64_t>(*a)) return f(span_of<std::int64_t>(*a));
  if (has_type<double>(*a)) return f(span_of<double>(*a));
  throw nanobind::type_error((std::string(name) + " must be an array of int64 or float64").c_str());
}

/// Returns the numbers of an array of one type. \throws nanobind::type_error
template <class T>
std::span<T const> numbers_of(array const& a, char const* name) {
  if (!has_type<T>(a)) throw nanobind::type_error((std::string(name) + " has the wrong type").c_str());
  return span_of<T>(a);
}

/// Hands a vector over to NumPy as an array of `T`, which has the size of the elements.
template <class T, class Element>
nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>> to_numpy(std::vector<Element> values) {
  static_assert(sizeof(T) == sizeof(Element));
  auto* const kept = new std::vector<Element>(std::move(values));
  nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Element>*>(p); });
  return nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>(kept->data(), {kept->size()}, owner);
}

/// As `to_numpy`, but None for an empty vector.
template <class T, class Element>
nanobind::object to_numpy_or_none(std::vector<Element> values) {
  if (values.empty()) return nanobind::none();
  return nanobind::cast(to_numpy<T>(std::move(values)));
}

}  // namespace binding
