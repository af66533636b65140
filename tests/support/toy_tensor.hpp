// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Dense row-major tensors of doubles, as simple as possible. They serve to compare a run in stages with a
/// run of the whole, which needs no speed.
namespace cleave::testing {

/// Tensors whose shapes do not fit an operation.
class tensor_shape_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using toy_shape = std::vector<std::size_t>;

inline std::string text_of(toy_shape const& shape) {
  std::string text = "[";
  for (auto const n : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
  return text + "]";
}

inline std::size_t elements_of(toy_shape const& shape) {
  std::size_t n = 1;
  for (auto const extent : shape) n *= extent;
  return n;
}

/// A tensor; without axes it is one number.
struct tensor {
  toy_shape shape;
  std::vector<double> data{0.0};

  static tensor filled(toy_shape shape, double with) {
    auto const n = elements_of(shape);
    return {std::move(shape), std::vector<double>(n, with)};
  }
  std::size_t columns() const { return shape.empty() ? 1 : shape.back(); }
  std::size_t rows() const { return columns() == 0 ? 0 : data.size() / columns(); }
  bool operator==(tensor const&) const = default;
};

/// Returns the largest elementwise difference; infinite if the shapes differ or an element is not a number.
inline double largest_difference(tensor const& a, tensor const& b) {
  if (a.shape != b.shape || a.data.size() != b.data.size()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    double const d = std::abs(a.data[i] - b.data[i]);
    if (!(d <= most)) most = std::isnan(d) ? HUGE_VAL : d;
  }
  return most;
}

template <class F>
tensor mapped(tensor a, F f) {
  for (double& x : a.data) x = f(x);
  return a;
}

/// Returns the broadcast shape. Axes are aligned at the last one; an axis may be 1 or missing in one operand.
inline toy_shape common_shape(toy_shape const& a, toy_shape const& b) {
  toy_shape both(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= both.size(); ++i) {
    auto const x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw tensor_shape_error("shapes " + text_of(a) + " and " + text_of(b) + " do not go together");
    both[both.size() - i] = x == 1 ? y : x;
  }
  return both;
}

/// Returns the index in a tensor of shape `narrow` of element `at` of its broadcast to shape `wide`.
inline std::size_t spread_from(std::size_t at, toy_shape const& wide, toy_shape const& narrow) {
  std::size_t place = 0, step = 1;
  for (std::size_t i = 1; i <= wide.size(); ++i) {
    auto const extent = wide[wide.size() - i], along = at % extent;
    at /= extent;
    if (i > narrow.size()) continue;
    if (narrow[narrow.size() - i] != 1) place += along * step;
    step *= narrow[narrow.size() - i];
  }
  return place;
}

/// Applies `f` to each pair of elements.
template <class F>
tensor zipped(tensor const& a, tensor const& b, F f) {
  auto made = tensor::filled(common_shape(a.shape, b.shape), 0);
  for (std::size_t i = 0; i < made.data.size(); ++i)
    made.data[i] =
        f(a.data[spread_from(i, made.shape, a.shape)], b.data[spread_from(i, made.shape, b.shape)]);
  return made;
}

inline tensor operator+(tensor const& a, tensor const& b) {
  return zipped(a, b, [](double x, double y) { return x + y; });
}
inline tensor operator-(tensor const& a, tensor const& b) {
  return zipped(a, b, [](double x, double y) { return x - y; });
}
inline tensor operator*(tensor const& a, tensor const& b) {
  return zipped(a, b, [](double x, double y) { return x * y; });
}
inline tensor operator*(double x, tensor a) {
  return mapped(std::move(a), [x](double y) { return x * y; });
}

/// Broadcasts `a` to `shape`; `summed_to` does the reverse for gradients.
inline tensor spread_to(tensor const& a, toy_shape const& shape) {
  if (common_shape(a.shape, shape) != shape)
    throw tensor_shape_error("shape " + text_of(a.shape) + " does not spread to " + text_of(shape));
  auto made = tensor::filled(shape, 0);
  for (std::size_t i = 0; i < made.data.size(); ++i) made.data[i] = a.data[spread_from(i, shape, a.shape)];
  return made;
}
inline tensor summed_to(tensor const& a, toy_shape const& shape) {
  if (a.shape == shape) return a;
  auto made = tensor::filled(shape, 0);
  for (std::size_t i = 0; i < a.data.size(); ++i) made.data[spread_from(i, a.shape, shape)] += a.data[i];
  return made;
}

inline tensor sum_of(tensor const& a) {
  tensor sum;
  for (double const x : a.data) sum.data[0] += x;
  return sum;
}

/// Swaps the last two axes.
inline tensor transposed(tensor const& a) {
  if (a.shape.size() < 2)
    throw tensor_shape_error("shape " + text_of(a.shape) + " has no two axes to exchange");
  auto shape = a.shape;
  auto const rows = shape[shape.size() - 2], columns = shape.back();
  std::swap(shape[shape.size() - 2], shape.back());
  auto made = tensor::filled(shape, 0);
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    auto const matrix = i / (rows * columns), at = i % (rows * columns);
    made.data[matrix * rows * columns + at % columns * rows + at / columns] = a.data[i];
  }
  return made;
}

/// Multiplies each matrix of `a` with the matching one of `b`, or with the only one of `b`.
inline tensor product(tensor const& a, tensor const& b) {
  auto const& x = a.shape;
  auto const& y = b.shape;
  bool const one = y.size() == 2;
  bool const fit = x.size() >= 2 && y.size() >= 2 && x.back() == y[y.size() - 2] &&
                   (one || (x.size() == y.size() && std::equal(x.begin(), x.end() - 2, y.begin())));
  if (!fit) throw tensor_shape_error("no product of shapes " + text_of(x) + " and " + text_of(y));
  auto shape = x;
  shape.back() = y.back();
  auto made = tensor::filled(shape, 0);
  auto const rows = x[x.size() - 2], inner = x.back(), columns = y.back();
  for (std::size_t r = 0; r < a.rows(); ++r)
    for (std::size_t k = 0; k < inner; ++k)
      for (std::size_t c = 0; c < columns; ++c)
        made.data[r * columns + c] +=
            a.data[r * inner + k] * b.data[(one ? 0 : r / rows) * inner * columns + k * columns + c];
  return made;
}

/// Merges all axes but the last.
inline tensor as_matrix(tensor a) {
  a.shape = {a.rows(), a.columns()};
  return a;
}

/// Calls `f(row, result)` for each row along the last axis, with two ranges of equal length.
template <class F>
tensor by_rows(tensor const& a, F f) {
  auto made = tensor::filled(a.shape, 0);
  auto const columns = a.columns();
  for (std::size_t r = 0; r < a.rows(); ++r) f(&a.data[r * columns], &made.data[r * columns]);
  return made;
}

/// Returns rows `from` to `to` of the first axis.
inline tensor slice_of(tensor const& a, std::size_t from, std::size_t to) {
  if (a.shape.empty() || from > to || to > a.shape[0])
    throw tensor_shape_error("shape " + text_of(a.shape) + " has no rows " + std::to_string(from) + " to " +
                             std::to_string(to));
  auto shape = a.shape;
  auto const row = a.shape[0] == 0 ? 0 : a.data.size() / a.shape[0];
  shape[0] = to - from;
  auto const at = [&](std::size_t r) { return a.data.begin() + static_cast<std::ptrdiff_t>(r * row); };
  return {std::move(shape), {at(from), at(to)}};
}

}  // namespace cleave::testing
