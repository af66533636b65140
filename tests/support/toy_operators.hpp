// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/toy_tape.hpp"

/// Operators on a tape: what they compute, and how gradients pass. Each is one node of the tape, named as
/// PyTorch names it; only `linear` with its transposed weight is two, as there.
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

/// `op` of two operands that spread to each other, and what the gradients of both are multiplied with.
template <class Op, class Left, class Right>
tape_value pairwise(tape& t, std::string kind, tape_values const& v, Op op, Left left, Right right) {
  auto const a = as_tensor(v.at(0)), b = as_tensor(v.at(1));
  return t.made(std::move(kind), {a, b}, zipped(a.get(), b.get(), op), [=](tensor const& g) {
    return std::vector{g * zipped(a.get(), b.get(), left), g * zipped(a.get(), b.get(), right)};
  });
}

/// `f` of each element, and its derivative.
template <class F, class Slope>
tape_value each_element(tape& t, std::string kind, tape_value const& x, F f, Slope slope) {
  return t.made(std::move(kind), {x}, mapped(x.get(), f),
                [=](tensor const& g) { return std::vector{g * mapped(x.get(), slope)}; });
}

inline tape_value transpose_of(tape& t, tape_value const& x) {
  return t.made("T", {x}, transposed(x.get()), [](tensor const& g) { return std::vector{transposed(g)}; });
}

/// The gradient of `b` in the product of `a` and `b`, whose gradient is `g`.
inline tensor right_gradient(tensor const& a, tensor const& b, tensor const& g) {
  bool const one = b.shape.size() == 2;
  return one ? product(transposed(as_matrix(a)), as_matrix(g)) : product(transposed(a), g);
}

inline tape_value matmul_of(tape& t, tape_value const& a, tape_value const& b) {
  return t.made("Mm", {a, b}, product(a.get(), b.get()), [=](tensor const& g) {
    return std::vector{product(g, transposed(b.get())), right_gradient(a.get(), b.get(), g)};
  });
}

/// x·wᵀ + b; the bias may be missing.
inline tape_value linear_of(tape& t, tape_values const& v) {
  auto const x = v.at(0), w = transpose_of(t, v.at(1));
  if (v.size() < 3 || v[2].is_null()) return matmul_of(t, x, w);
  return t.made("Addmm", {v[2], x, w}, product(x.get(), w.get()) + v[2].get(), [=](tensor const& g) {
    return std::vector{g, product(g, transposed(w.get())), right_gradient(x.get(), w.get(), g)};
  });
}

inline tape_value power_of(tape& t, tape_values const& v) {
  auto const n = as_tensor(v.at(1)).get().data.at(0);
  return each_element(
      t, "Pow", v[0], [n](double x) { return std::pow(x, n); },
      [n](double x) { return n * std::pow(x, n - 1); });
}

inline tape_value spread_of(tape& t, tape_value const& x, toy_shape const& shape) {
  return t.made("Expand", {x}, spread_to(x.get(), shape), [](tensor const& g) { return std::vector{g}; });
}

/// All of a list of tensors, spread to the shape that they have together.
inline tape_value broadcast_of(tape& t, tape_value const& list) {
  toy_shape shape;
  for (auto const& x : *list.items) shape = common_shape(shape, x.get().shape);
  tape_values spread;
  for (auto const& x : *list.items) spread.push_back(spread_of(t, x, shape));
  return composite_of(container::kind::list, std::move(spread));
}

inline tape_value sum_of_all(tape& t, tape_value const& x, std::string kind, double scale) {
  return t.made(std::move(kind), {x}, scale * sum_of(x.get()),
                [shape = x.get().shape, scale](tensor const& g) {
                  return std::vector{tensor::filled(shape, scale * g.data[0])};
                });
}

/// `reduction`: 0 each element, 1 their mean, 2 their sum.
inline tape_value squared_difference(tape& t, tape_values const& v) {
  auto const reduction = v.size() < 3 ? 1 : integer_of(v[2]);
  auto const a = v.at(0), b = v.at(1);
  auto const n = static_cast<double>(a.get().data.size());
  auto const d = a.get() - b.get();
  double const scale = reduction == 1 ? 1 / n : 1;
  auto const pass = [d, scale](tensor const& g) {
    auto const left = 2 * scale * (d * g);
    return std::vector{left, -1 * left};
  };
  return t.made("MseLoss", {a, b}, reduction == 0 ? d * d : scale * sum_of(d * d), pass);
}

/// The mean of each row, which stays one wide.
inline tape_value row_mean(tape& t, tape_value const& x) {
  auto shape = x.get().shape;
  shape.back() = 1;
  double const scale = 1 / static_cast<double>(x.get().columns());
  return t.made("Mean", {x}, scale * summed_to(x.get(), shape),
                [=](tensor const& g) { return std::vector{spread_to(scale * g, x.get().shape)}; });
}

/// Element `i` along the first axis.
inline tape_value selected(tape& t, tape_value const& x, std::int64_t i) {
  auto const at = static_cast<std::size_t>(i);
  auto made = slice_of(x.get(), at, at + 1);
  made.shape.erase(made.shape.begin());
  return t.made("Select", {x}, std::move(made), [shape = x.get().shape, at](tensor const& g) {
    auto all = tensor::filled(shape, 0);
    std::ranges::copy(g.data, all.data.begin() + static_cast<std::ptrdiff_t>(at * g.data.size()));
    return std::vector{all};
  });
}

/// The element of a container, or the slice of a tensor.
inline tape_value element_of(tape& t, tape_value const& of, tape_value const& key) {
  if (of.what == tape_value::kind::tensor) return selected(t, of, integer_of(key));
  if (of.what != tape_value::kind::composite) throw tensor_shape_error("an element of what has none");
  if (of.shape.what != container::kind::dict) return of.items->at(static_cast<std::size_t>(integer_of(key)));
  for (std::size_t i = 0; i + 1 < of.items->size(); i += 2)
    if ((*of.items)[i].text == key.text) return (*of.items)[i + 1];
  throw tensor_shape_error("a key that a dict does not have");
}

/// Softmax of each row; in row r of each matrix only of its first r + 1 elements if `causal`.
inline tape_value softmax_of(tape& t, tape_value const& x, bool causal) {
  auto const columns = x.get().columns();
  auto const height = causal ? x.get().shape.at(x.get().shape.size() - 2) : 1;
  std::size_t row = 0;
  auto y = by_rows(x.get(), [&](double const* from, double* to) {
    auto const used = causal ? std::min(columns, row++ % height + 1) : columns;
    double const most = *std::max_element(from, from + used);
    double sum = 0;
    for (std::size_t i = 0; i < used; ++i) sum += to[i] = std::exp(from[i] - most);
    for (std::size_t i = 0; i < used; ++i) to[i] /= sum;
  });
  return t.made("Softmax", {x}, y, [y, columns](tensor const& g) {
    auto made = g * y;
    for (std::size_t r = 0; r < y.rows(); ++r) {
      double dot = 0;
      for (std::size_t i = r * columns; i < (r + 1) * columns; ++i) dot += made.data[i];
      for (std::size_t i = r * columns; i < (r + 1) * columns; ++i) made.data[i] -= dot * y.data[i];
    }
    return std::vector{made};
  });
}

/// x·Φ(x), with the distribution itself and no approximation.
inline tape_value gelu_of(tape& t, tape_value const& x) {
  auto const phi = [](double a) { return std::erfc(-a * std::sqrt(0.5)) / 2; };
  return each_element(
      t, "Gelu", x, [phi](double a) { return a * phi(a); },
      [phi](double a) { return phi(a) + a * std::exp(-a * a / 2) * 0.3989422804014327; });
}

/// Rows of mean 0 and variance 1, times `v[1]`, plus `v[2]`.
inline tape_value layer_norm_of(tape& t, tape_values const& v) {
  auto const x = v.at(0), w = v.at(1), b = v.at(2);
  auto const columns = x.get().columns();
  auto const n = static_cast<double>(columns);
  std::vector<double> scale;  // of a row
  auto const normal = by_rows(x.get(), [&](double const* from, double* to) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < columns; ++i) mean += from[i] / n;
    for (std::size_t i = 0; i < columns; ++i) variance += (from[i] - mean) * (from[i] - mean) / n;
    scale.push_back(1 / std::sqrt(variance + 1e-5));
    for (std::size_t i = 0; i < columns; ++i) to[i] = (from[i] - mean) * scale.back();
  });
  return t.made("LayerNorm", {x, w, b}, normal * w.get() + b.get(), [=](tensor const& g) {
    auto inner = g * w.get();
    for (std::size_t r = 0; r < normal.rows(); ++r) {
      double mean = 0, dot = 0;
      for (std::size_t i = r * columns; i < (r + 1) * columns; ++i) {
        mean += inner.data[i] / n;
        dot += inner.data[i] * normal.data[i] / n;
      }
      for (std::size_t i = r * columns; i < (r + 1) * columns; ++i)
        inner.data[i] = scale[r] * (inner.data[i] - mean - normal.data[i] * dot);
    }
    return std::vector{inner, g * normal, g};
  });
}

/// Row `ids[i]` of `w` for each i.
inline tape_value embedding_of(tape& t, tape_value const& ids, tape_value const& w) {
  auto const columns = w.get().columns();
  auto shape = ids.get().shape;
  shape.push_back(columns);
  auto made = tensor::filled(shape, 0);
  auto const row = [ids](std::size_t i) { return static_cast<std::size_t>(ids.get().data[i]); };
  for (std::size_t i = 0; i < made.data.size(); ++i)
    made.data[i] = w.get().data.at(row(i / columns) * columns + i % columns);
  return t.made("Embedding", {w}, std::move(made), [=](tensor const& g) {
    auto sum = tensor::filled(w.get().shape, 0);
    for (std::size_t i = 0; i < g.data.size(); ++i)
      sum.data[row(i / columns) * columns + i % columns] += g.data[i];
    return std::vector{sum};
  });
}

/// The mean over rows of −log softmax at the row's target.
inline tape_value cross_entropy_of(tape& t, tape_value const& logits, tape_value const& targets) {
  tape scratch;  // the softmax is no node of its own
  auto const p = softmax_of(scratch, constant_of(logits.get()), false).get();
  auto const columns = p.columns();
  double const scale = 1 / static_cast<double>(p.rows());
  auto const at = [=](std::size_t r) {
    return r * columns + static_cast<std::size_t>(targets.get().data[r]);
  };
  tensor loss;
  for (std::size_t r = 0; r < p.rows(); ++r) loss.data[0] -= scale * std::log(p.data.at(at(r)));
  return t.made("NllLoss", {logits}, loss, [=](tensor const& g) {
    auto made = p;
    for (std::size_t r = 0; r < p.rows(); ++r) made.data[at(r)] -= 1;
    return std::vector{scale * g.data[0] * made};
  });
}

using toy_operator = tape_value (*)(tape&, tape_values const&);

/// All operators by the names that graphs use.
inline std::map<std::string, toy_operator, std::less<>> const& toy_operators() {
  static std::map<std::string, toy_operator, std::less<>> const table = {
      {"linear", [](tape& t, tape_values const& v) { return linear_of(t, v); }},
      {"matmul", [](tape& t, tape_values const& v) { return matmul_of(t, v.at(0), v.at(1)); }},
      {"transpose", [](tape& t, tape_values const& v) { return transpose_of(t, v.at(0)); }},
      {"add",
       [](tape& t, tape_values const& v) {
         auto const one = [](double, double) { return 1.0; };
         return pairwise(t, "Add", v, [](double a, double b) { return a + b; }, one, one);
       }},
      {"sub",
       [](tape& t, tape_values const& v) {
         return pairwise(
             t, "Sub", v, [](double a, double b) { return a - b; }, [](double, double) { return 1.0; },
             [](double, double) { return -1.0; });
       }},
      {"mul",
       [](tape& t, tape_values const& v) {
         return pairwise(
             t, "Mul", v, [](double a, double b) { return a * b; }, [](double, double b) { return b; },
             [](double a, double) { return a; });
       }},
      {"relu",
       [](tape& t, tape_values const& v) {
         return each_element(
             t, "Relu", v.at(0), [](double x) { return x > 0 ? x : 0.0; },
             [](double x) { return x > 0 ? 1.0 : 0.0; });
       }},
      {"pow", power_of},
      {"gelu", [](tape& t, tape_values const& v) { return gelu_of(t, v.at(0)); }},
      {"softmax", [](tape& t, tape_values const& v) { return softmax_of(t, v.at(0), false); }},
      {"causal_softmax", [](tape& t, tape_values const& v) { return softmax_of(t, v.at(0), true); }},
      {"layer_norm", layer_norm_of},
      {"embedding", [](tape& t, tape_values const& v) { return embedding_of(t, v.at(0), v.at(1)); }},
      {"sum", [](tape& t, tape_values const& v) { return sum_of_all(t, v.at(0), "Sum", 1); }},
      {"mean",
       [](tape& t, tape_values const& v) {
         return sum_of_all(t, v.at(0), "Mean", 1 / static_cast<double>(v[0].get().data.size()));
       }},
      {"rowmean", [](tape& t, tape_values const& v) { return row_mean(t, v.at(0)); }},
      {"mse_loss", squared_difference},
      {"cross_entropy", [](tape& t, tape_values const& v) { return cross_entropy_of(t, v.at(0), v.at(1)); }},
      {"broadcast_tensors", [](tape& t, tape_values const& v) { return broadcast_of(t, v.at(0)); }},
      {"getitem", [](tape& t, tape_values const& v) { return element_of(t, v.at(0), v.at(1)); }},
      {"pipe_split", [](tape&, tape_values const&) { return tape_value(); }},
  };
  return table;
}

}  // namespace cleave::testing
