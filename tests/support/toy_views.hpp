// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/toy_tape.hpp"

/// Operators that move elements or sum along axes. They share `picked`, which takes elements from one or
/// several tensors and returns gradients to the same places.
namespace cleave::testing {

using tape_values = std::vector<tape_value>;

inline std::int64_t integer_of(tape_value const& v) {
  if (auto const* i = std::get_if<std::int64_t>(&v.text); v.what == tape_value::kind::constant && i)
    return *i;
  throw tensor_shape_error("an operand that is no whole number");
}

inline tape_value composite_of(container::kind what, tape_values items) {
  tape_value v;
  v.what = tape_value::kind::composite;
  v.shape = {what, static_cast<std::uint32_t>(items.size())};
  v.items = std::make_shared<tape_values const>(std::move(items));
  return v;
}

inline tape_value whole_constant(std::size_t n) {
  return {tape_value::kind::constant, token(static_cast<std::int64_t>(n))};
}

/// Returns operand `i`, or null if there are fewer operands.
inline tape_value operand(tape_values const& v, std::size_t i) { return i < v.size() ? v[i] : tape_value(); }

inline bool is_true(tape_value const& v) {
  auto const* b = std::get_if<bool>(&v.text);
  return b && *b;
}

/// Resolves an index that may count from the end of `count` elements.
inline std::size_t place_of(std::int64_t i, std::size_t count) {
  auto const n = static_cast<std::int64_t>(count);
  if (i < -n || i >= n)
    throw tensor_shape_error("there is no place " + std::to_string(i) + " among " + std::to_string(n));
  return static_cast<std::size_t>(i < 0 ? i + n : i);
}

inline std::size_t axis_of(tape_value const& axis, toy_shape const& shape, std::int64_t usual) {
  return place_of(axis.is_null() ? usual : integer_of(axis), shape.size());
}

/// Returns integers: those of one list, or the operands from `from` on.
inline std::vector<std::int64_t> integers_of(tape_values const& v, std::size_t from) {
  tape_values list(v.begin() + static_cast<std::ptrdiff_t>(std::min(from, v.size())), v.end());
  if (!list.empty() && list[0].what == tape_value::kind::composite) list = tape_values(*list[0].items);
  std::vector<std::int64_t> numbers;
  for (auto const& n : list) numbers.push_back(integer_of(n));
  return numbers;
}

/// The source of an element: the operand and the index in it.
struct element_source {
  std::size_t operand, place;
};

/// Returns a tensor of shape `shape` whose elements come from `operands`.
inline tape_value picked(tape& t, std::string kind, tape_values const& operands, toy_shape shape,
                         std::vector<element_source> from) {
  auto made = tensor::filled(std::move(shape), 0);
  for (std::size_t i = 0; i < from.size(); ++i)
    made.data[i] = operands[from[i].operand].get().data.at(from[i].place);
  std::vector<toy_shape> shapes;
  for (auto const& o : operands) shapes.push_back(o.get().shape);
  return t.made(std::move(kind), operands, std::move(made),
                [shapes = std::move(shapes), from = std::move(from)](tensor const& g) {
                  std::vector<tensor> back;
                  for (auto const& s : shapes) back.push_back(tensor::filled(s, 0));
                  for (std::size_t i = 0; i < from.size(); ++i)
                    back[from[i].operand].data[from[i].place] += g.data[i];
                  return back;
                });
}

/// Returns the row-major strides of `shape`.
inline std::vector<std::size_t> strides_of(toy_shape const& shape) {
  std::vector<std::size_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// Returns a strided view of `x`: `first` is the offset, `step` the strides.
inline tape_value viewed(tape& t, std::string kind, tape_value const& x, toy_shape const& shape,
                         std::size_t first, std::vector<std::ptrdiff_t> const& step) {
  std::vector<element_source> from(elements_of(shape));
  for (std::size_t i = 0; i < from.size(); ++i) {
    auto place = static_cast<std::ptrdiff_t>(first);
    auto rest = i;
    for (std::size_t a = shape.size(); a-- > 0; rest /= shape[a])
      place += static_cast<std::ptrdiff_t>(rest % shape[a]) * step[a];
    from[i] = {0, static_cast<std::size_t>(place)};
  }
  return picked(t, std::move(kind), {x}, shape, std::move(from));
}

inline std::vector<std::ptrdiff_t> steps_of(toy_shape const& shape) {
  auto const strides = strides_of(shape);
  return {strides.begin(), strides.end()};
}

inline tape_value reshaped(tape& t, tape_value const& x, toy_shape const& shape) {
  if (elements_of(shape) != x.get().data.size())
    throw tensor_shape_error("shape " + text_of(x.get().shape) + " is not as large as " + text_of(shape));
  return viewed(t, "View", x, shape, 0, steps_of(shape));
}

/// Reshapes to the given extents; one of them may be -1, which is inferred.
inline tape_value reshape_of(tape& t, tape_values const& v) {
  toy_shape shape;
  std::optional<std::size_t> open;
  for (auto const n : integers_of(v, 1)) {
    if (n < 0) open = shape.size();
    shape.push_back(n < 0 ? 1 : static_cast<std::size_t>(n));
  }
  if (auto const known = elements_of(shape); open && known > 0)
    shape[*open] = v.at(0).get().data.size() / known;
  return reshaped(t, v.at(0), shape);
}

inline tape_value flatten_of(tape& t, tape_values const& v) {
  auto const& old = v.at(0).get().shape;
  if (old.empty()) return reshaped(t, v[0], {1});
  auto const from = axis_of(operand(v, 1), old, 0), to = axis_of(operand(v, 2), old, -1);
  toy_shape shape(old.begin(), old.begin() + static_cast<std::ptrdiff_t>(from + 1));
  for (std::size_t i = from + 1; i < old.size(); ++i)
    i <= to ? void(shape.back() *= old[i]) : shape.push_back(old[i]);
  return reshaped(t, v[0], shape);
}

inline tape_value unsqueezed(tape& t, tape_values const& v) {
  auto shape = v.at(0).get().shape;
  auto const at = place_of(integer_of(v.at(1)), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), 1);
  return reshaped(t, v[0], shape);
}

inline tape_value squeezed(tape& t, tape_values const& v) {
  auto shape = v.at(0).get().shape;
  if (v.size() < 2 || v[1].is_null()) {
    std::erase(shape, 1);
  } else {
    auto const at = axis_of(v[1], shape, 0);
    if (shape[at] == 1) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return reshaped(t, v[0], shape);
}

/// Permutes the axes of `x`: axis i of the result is axis `order[i]`.
inline tape_value permuted(tape& t, tape_value const& x, std::vector<std::size_t> const& order) {
  auto const& old = x.get().shape;
  auto const strides = strides_of(old);
  toy_shape shape;
  std::vector<std::ptrdiff_t> step;
  for (auto const a : order) {
    shape.push_back(old[a]);
    step.push_back(static_cast<std::ptrdiff_t>(strides[a]));
  }
  return viewed(t, "Permute", x, shape, 0, step);
}

inline tape_value permute_of(tape& t, tape_values const& v) {
  auto const axes = v.at(0).get().shape.size();
  std::vector<std::size_t> order;
  std::vector<char> met(axes);
  for (auto const a : integers_of(v, 1)) {
    order.push_back(place_of(a, axes));
    if (std::exchange(met[order.back()], 1)) throw tensor_shape_error("an axis twice");
  }
  if (order.size() != axes) throw tensor_shape_error("not an order of all axes");
  return permuted(t, v[0], order);
}

/// Returns the permutation of axes that swaps `a` and `b`.
inline std::vector<std::size_t> exchange(std::size_t axes, std::size_t a, std::size_t b) {
  std::vector<std::size_t> order(axes);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::swap(order[a], order[b]);
  return order;
}

inline tape_value expand_of(tape& t, tape_values const& v) {
  auto const& old = v.at(0).get().shape;
  auto const wanted = integers_of(v, 1);
  if (wanted.size() < old.size()) throw tensor_shape_error("fewer axes than there are");
  auto const strides = strides_of(old);
  toy_shape shape;
  std::vector<std::ptrdiff_t> step;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    bool const fresh = i < wanted.size() - old.size();
    auto const at = fresh ? 0 : i - (wanted.size() - old.size());
    auto const extent = fresh ? 1 : old[at];
    shape.push_back(wanted[i] < 0 ? extent : static_cast<std::size_t>(wanted[i]));
    if (extent != 1 && extent != shape.back())
      throw tensor_shape_error("shape " + text_of(old) + " does not spread so");
    step.push_back(extent == 1 ? 0 : static_cast<std::ptrdiff_t>(strides[at]));
  }
  return viewed(t, "Expand", v[0], shape, 0, step);
}

/// Returns `count` elements of one axis, from `first` on, with step `by`.
inline tape_value narrowed(tape& t, tape_value const& x, std::size_t axis, std::size_t first,
                           std::size_t count, std::size_t by = 1) {
  auto shape = x.get().shape;
  if (count > 0 && first + (count - 1) * by >= shape.at(axis))
    throw tensor_shape_error("shape " + text_of(shape) + " is not so long");
  auto step = steps_of(shape);
  auto const start = first * static_cast<std::size_t>(step[axis]);
  step[axis] *= static_cast<std::ptrdiff_t>(by);
  shape[axis] = count;
  return viewed(t, "Slice", x, shape, start, step);
}

/// Returns Python's slice `from:to:by` of one axis; each bound may be null.
inline tape_value sliced(tape& t, tape_value const& x, std::size_t axis, tape_value const& from,
                         tape_value const& to, tape_value const& by) {
  auto const n = static_cast<std::int64_t>(x.get().shape.at(axis));
  auto const bound = [&](tape_value const& v, std::int64_t usual) {
    auto const i = v.is_null() ? usual : integer_of(v);
    return std::clamp(i < 0 ? i + n : i, std::int64_t{0}, n);
  };
  auto const first = bound(from, 0), last = std::max(bound(to, n), first);
  auto const step = by.is_null() ? 1 : integer_of(by);
  if (step < 1) throw tensor_shape_error("a slice that does not go forward");
  return narrowed(t, x, axis, static_cast<std::size_t>(first),
                  static_cast<std::size_t>((last - first + step - 1) / step), static_cast<std::size_t>(step));
}

/// Returns the slice at index `i` of an axis, and removes that axis.
inline tape_value selected(tape& t, tape_value const& x, std::size_t axis, std::int64_t i) {
  auto shape = x.get().shape;
  auto step = steps_of(shape);
  auto const first = place_of(i, shape.at(axis)) * static_cast<std::size_t>(step[axis]);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  step.erase(step.begin() + static_cast<std::ptrdiff_t>(axis));
  return viewed(t, "Select", x, shape, first, step);
}

/// Indexes a tensor with a key: a number, a slice, null for a new axis, or a tuple of these.
inline tape_value part_of(tape& t, tape_value x, tape_value const& key) {
  bool const tuple = key.what == tape_value::kind::composite && key.shape.what == container::kind::tuple;
  std::size_t axis = 0;
  for (auto const& k : tuple ? *key.items : tape_values{key}) {
    if (k.is_null()) {
      x = unsqueezed(t, {x, whole_constant(axis++)});
    } else if (k.what == tape_value::kind::composite && k.shape.what == container::kind::slice) {
      if (axis >= x.get().shape.size()) throw tensor_shape_error("more keys than axes");
      x = sliced(t, x, axis++, k.items->at(0), k.items->at(1), k.items->at(2));
    } else {
      if (axis >= x.get().shape.size()) throw tensor_shape_error("more keys than axes");
      x = selected(t, x, axis, integer_of(k));
    }
  }
  return x;
}

/// Returns an element of a container, or indexes a tensor.
inline tape_value element_of(tape& t, tape_value const& of, tape_value const& key) {
  if (of.what == tape_value::kind::tensor) return part_of(t, of, key);
  if (of.what != tape_value::kind::composite) throw tensor_shape_error("an element of what has none");
  if (of.shape.what != container::kind::dict)
    return of.items->at(place_of(integer_of(key), of.items->size()));
  for (std::size_t i = 0; i + 1 < of.items->size(); i += 2)
    if ((*of.items)[i].text == key.text) return (*of.items)[i + 1];
  throw tensor_shape_error("a key that a dict does not have");
}

/// Concatenates tensors along an axis.
inline tape_value joined(tape& t, tape_values const& parts, std::size_t axis) {
  auto shape = parts.at(0).get().shape;
  shape.at(axis) = 0;
  for (auto const& p : parts) {
    auto other = p.get().shape;
    if (axis < other.size()) shape[axis] += std::exchange(other[axis], shape[axis]);
    if (axis >= other.size() || (other[axis] = shape[axis], other != shape))
      throw tensor_shape_error("shapes that do not join");
  }
  auto const inner = strides_of(shape)[axis];
  std::vector<element_source> from;
  for (std::size_t outer = 0; from.size() < elements_of(shape); ++outer)
    for (std::size_t p = 0; p < parts.size(); ++p) {
      auto const run = parts[p].get().shape[axis] * inner;
      for (std::size_t i = 0; i < run; ++i) from.push_back({p, outer * run + i});
    }
  return picked(t, "Cat", parts, shape, std::move(from));
}

/// Returns the tensors of a list that must not be empty.
inline tape_values const& listed(tape_value const& v) {
  if (v.what != tape_value::kind::composite || v.items->empty())
    throw tensor_shape_error("an operand that is no list of tensors");
  return *v.items;
}

inline tape_value cat_of(tape& t, tape_values const& v) {
  auto const& parts = listed(v.at(0));
  return joined(t, parts, axis_of(operand(v, 1), parts.at(0).get().shape, 0));
}

inline tape_value stack_of(tape& t, tape_values const& v) {
  tape_values parts;
  auto const& list = listed(v.at(0));
  auto const at =
      place_of(v.size() < 2 || v[1].is_null() ? 0 : integer_of(v[1]), list.at(0).get().shape.size() + 1);
  for (auto const& p : list) parts.push_back(unsqueezed(t, {p, whole_constant(at)}));
  return joined(t, parts, at);
}

/// Splits `x` along an axis into parts of these sizes.
inline tape_value parts_of(tape& t, tape_value const& x, std::vector<std::size_t> const& sizes,
                           std::size_t axis) {
  tape_values parts;
  std::size_t at = 0;
  for (auto const n : sizes) {
    parts.push_back(narrowed(t, x, axis, at, n));
    at += n;
  }
  if (at != x.get().shape.at(axis)) throw tensor_shape_error("parts that are not the whole");
  return composite_of(container::kind::tuple, std::move(parts));
}

inline tape_value parts_of_size(tape& t, tape_value const& x, std::size_t each, std::size_t axis) {
  if (each == 0) throw tensor_shape_error("parts of nothing");
  std::vector<std::size_t> sizes;
  for (auto rest = x.get().shape.at(axis); rest > 0; rest -= sizes.back())
    sizes.push_back(std::min(each, rest));
  return parts_of(t, x, sizes, axis);
}

/// Splits into parts of `v[1]` elements, or of the sizes in the list `v[1]`.
inline tape_value split_of(tape& t, tape_values const& v) {
  auto const axis = axis_of(operand(v, 2), v.at(0).get().shape, 0);
  if (v.at(1).what != tape_value::kind::composite)
    return parts_of_size(t, v[0], static_cast<std::size_t>(std::max(integer_of(v[1]), std::int64_t{0})),
                         axis);
  std::vector<std::size_t> sizes;
  for (auto const n : integers_of({v[1]}, 0)) sizes.push_back(static_cast<std::size_t>(n));
  return parts_of(t, v[0], sizes, axis);
}

inline tape_value chunk_of(tape& t, tape_values const& v) {
  auto const axis = axis_of(operand(v, 2), v.at(0).get().shape, 0);
  auto const chunks = static_cast<std::size_t>(std::max(integer_of(v.at(1)), std::int64_t{1}));
  return parts_of_size(t, v[0], (v[0].get().shape[axis] + chunks - 1) / chunks, axis);
}

inline tape_value unbind_of(tape& t, tape_values const& v) {
  auto const axis = axis_of(operand(v, 1), v.at(0).get().shape, 0);
  tape_values parts;
  for (std::size_t i = 0; i < v[0].get().shape[axis]; ++i)
    parts.push_back(selected(t, v[0], axis, static_cast<std::int64_t>(i)));
  return composite_of(container::kind::tuple, std::move(parts));
}

/// Returns the sum, or the mean if `mean`, along the axes `v[1]`. Keeps these axes with extent 1 if `v[2]`.
inline tape_value summed_along(tape& t, tape_values const& v, std::string kind, bool mean) {
  auto const& x = v.at(0).get();
  std::vector<char> gone(x.shape.size());
  for (auto const a : integers_of({v.at(1)}, 0)) gone[place_of(a, x.shape.size())] = 1;
  toy_shape narrow, kept;
  double scale = 1;
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    if (mean && gone[i]) scale /= static_cast<double>(x.shape[i]);
    narrow.push_back(gone[i] ? 1 : x.shape[i]);
    if (!gone[i] || is_true(operand(v, 2))) kept.push_back(narrow.back());
  }
  auto made = scale * summed_to(x, narrow);
  made.shape = kept;
  return t.made(std::move(kind), {v[0]}, std::move(made), [=, wide = x.shape](tensor g) {
    g.shape = narrow;
    return std::vector{scale * spread_to(g, wide)};
  });
}

/// Returns the extents of a tensor, or one of them.
inline tape_value extents_of(tape_values const& v) {
  auto const& shape = v.at(0).get().shape;
  if (v.size() > 1 && !v[1].is_null()) return whole_constant(shape[axis_of(v[1], shape, 0)]);
  tape_values extents;
  for (auto const n : shape) extents.push_back(whole_constant(n));
  return composite_of(container::kind::tuple, std::move(extents));
}

}  // namespace cleave::testing
