// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "support/toy_tape.hpp"
#include "support/toy_views.hpp"

/// Operators on a tape, with their gradients. Each is one tape node, named as in PyTorch. Only `linear` is
/// two nodes, because of its transposed weight, as in PyTorch. Operators along another axis than the last are
/// run along the last.
namespace cleave::testing {

using namespace detail;

/// Records the elementwise `op` of two broadcast operands. `left` and `right` are the factors of their
/// gradients.
template <class Op, class Left, class Right>
tape_value pairwise(tape& t, std::string kind, tape_values const& v, Op op, Left left, Right right) {
  auto const a = as_tensor(v.at(0)), b = as_tensor(v.at(1));
  return t.made(std::move(kind), {a, b}, zipped(a.get(), b.get(), op), [=](tensor const& g) {
    return std::vector{g * zipped(a.get(), b.get(), left), g * zipped(a.get(), b.get(), right)};
  });
}

/// Records `f` of each element, with its derivative `slope`.
template <class F, class Slope>
tape_value each_element(tape& t, std::string kind, tape_value const& x, F f, Slope slope) {
  return t.made(std::move(kind), {x}, mapped(x.get(), f),
                [=](tensor const& g) { return std::vector{g * mapped(x.get(), slope)}; });
}

inline tape_value transpose_of(tape& t, tape_value const& x) {
  return t.made("T", {x}, transposed(x.get()), [](tensor const& g) { return std::vector{transposed(g)}; });
}

/// Returns the gradient of `b` in the product of `a` and `b`, given the product's gradient `g`.
inline tensor right_gradient(tensor const& a, tensor const& b, tensor const& g) {
  bool const one = b.shape.size() == 2;
  return one ? product(transposed(as_matrix(a)), as_matrix(g)) : product(transposed(a), g);
}

inline tape_value matmul_of(tape& t, tape_value const& a, tape_value const& b) {
  return t.made("Mm", {a, b}, product(a.get(), b.get()), [=](tensor const& g) {
    return std::vector{product(g, transposed(b.get())), right_gradient(a.get(), b.get(), g)};
  });
}

/// Returns x·wᵀ + b; the bias is optional.
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

/// Broadcasts a list of tensors to their common shape.
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

/// Returns the reduction, by number or name: 0 none, 1 mean, 2 sum.
inline std::int64_t reduction_of(tape_value const& v) {
  auto const* name = std::get_if<std::string>(&v.text);
  if (!name) return integer_of(v);
  return *name == "none" ? 0 : *name == "mean" ? 1 : 2;
}

inline tape_value squared_difference(tape& t, tape_values const& v) {
  auto const reduction = v.size() < 3 || v[2].is_null() ? 1 : reduction_of(v[2]);
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

/// Returns the mean of each row, as a column of width 1.
inline tape_value row_mean(tape& t, tape_value const& x) {
  auto shape = x.get().shape;
  shape.back() = 1;
  double const scale = 1 / static_cast<double>(x.get().columns());
  return t.made("Mean", {x}, scale * summed_to(x.get(), shape),
                [=](tensor const& g) { return std::vector{spread_to(scale * g, x.get().shape)}; });
}

/// Returns the softmax of each row. If `causal`, row r of each matrix uses only its first r + 1 elements.
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

/// Runs `f`, which works along the last axis, along `axis`.
template <class F>
tape_value along(tape& t, tape_value const& x, tape_value const& axis, F f) {
  auto const axes = x.get().shape.size();
  auto const at = axis_of(axis, x.get().shape, -1);
  if (at + 1 == axes) return f(x);
  auto const order = exchange(axes, at, axes - 1);
  return permuted(t, f(permuted(t, x, order)), order);
}

/// Returns the log softmax of each row.
inline tape_value log_softmax_of(tape& t, tape_value const& x) {
  auto const columns = x.get().columns();
  auto const y = by_rows(x.get(), [&](double const* from, double* to) {
    double const most = *std::max_element(from, from + columns);
    double sum = 0;
    for (std::size_t i = 0; i < columns; ++i) sum += std::exp(from[i] - most);
    for (std::size_t i = 0; i < columns; ++i) to[i] = from[i] - most - std::log(sum);
  });
  return t.made("LogSoftmax", {x}, y, [y, columns](tensor const& g) {
    auto made = g;
    for (std::size_t r = 0; r < y.rows(); ++r) {
      double sum = 0;
      for (std::size_t i = r * columns; i < (r + 1) * columns; ++i) sum += g.data[i];
      for (std::size_t i = r * columns; i < (r + 1) * columns; ++i) made.data[i] -= sum * std::exp(y.data[i]);
    }
    return std::vector{made};
  });
}

/// Returns x·Φ(x), with the exact normal distribution function.
inline tape_value gelu_of(tape& t, tape_value const& x) {
  auto const phi = [](double a) { return std::erfc(-a * std::sqrt(0.5)) / 2; };
  return each_element(
      t, "Gelu", x, [phi](double a) { return a * phi(a); },
      [phi](double a) { return phi(a) + a * std::exp(-a * a / 2) * 0.3989422804014327; });
}

/// Normalizes rows to mean 0 and variance 1, times `v[1]`, plus `v[2]`. PyTorch's form is accepted too: shape
/// `v[1]`, factor `v[2]`, addend `v[3]`, and `v[4]` added to the variance; all but the shape are optional.
inline tape_value layer_norm_of(tape& t, tape_values v) {
  double epsilon = 1e-5;
  if (v.at(1).what != tape_value::kind::tensor) {
    if (integers_of({v[1]}, 0).size() != 1) throw tensor_shape_error("layer_norm of several axes");
    if (auto const e = operand(v, 4); !e.is_null()) epsilon = as_tensor(e).get().data[0];
    auto const row = [&](std::size_t i, double usual) {
      auto const given = operand(v, i);
      return given.is_null() ? constant_of(tensor::filled({v[0].get().columns()}, usual)) : given;
    };
    v = {v[0], row(2, 1), row(3, 0)};
  }
  auto const x = v.at(0), w = v.at(1), b = v.at(2);
  auto const columns = x.get().columns();
  auto const n = static_cast<double>(columns);
  std::vector<double> scale;  // by row
  auto const normal = by_rows(x.get(), [&](double const* from, double* to) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < columns; ++i) mean += from[i] / n;
    for (std::size_t i = 0; i < columns; ++i) variance += (from[i] - mean) * (from[i] - mean) / n;
    scale.push_back(1 / std::sqrt(variance + epsilon));
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

/// Returns row `ids[i]` of `w` for each i.
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

/// Returns the mean over rows of −log softmax at the row's target.
inline tape_value cross_entropy_of(tape& t, tape_value const& logits, tape_value const& targets) {
  tape scratch;  // the softmax gets no node of its own
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

/// Returns the names of the parameters after the first, by position, for calls with keywords.
inline std::vector<std::string> keyword_places(std::string_view name) {
  static std::map<std::string, std::vector<std::string>, std::less<>> const table = {
      {"cat", {"dim"}},
      {"stack", {"dim"}},
      {"unbind", {"dim"}},
      {"softmax", {"dim"}},
      {"log_softmax", {"dim"}},
      {"unsqueeze", {"dim"}},
      {"squeeze", {"dim"}},
      {"size", {"dim"}},
      {"split", {"split_size_or_sections", "dim"}},
      {"split_with_sizes", {"split_sizes", "dim"}},
      {"chunk", {"chunks", "dim"}},
      {"slice", {"dim", "start", "end", "step"}},
      {"select", {"dim", "index"}},
      {"narrow", {"dim", "start", "length"}},
      {"transpose", {"dim0", "dim1"}},
      {"permute", {"dims"}},
      {"reshape", {"shape"}},
      {"flatten", {"start_dim", "end_dim"}},
      {"sum", {"dim", "keepdim"}},
      {"mean", {"dim", "keepdim"}},
      {"linear", {"weight", "bias"}},
      {"layer_norm", {"normalized_shape", "weight", "bias", "eps"}},
      {"mse_loss", {"target", "reduction"}},
  };
  auto const known = table.find(name);
  return known == table.end() ? std::vector<std::string>() : known->second;
}

/// Returns all operators by their name in graphs.
inline std::map<std::string, toy_operator, std::less<>> const& toy_operators() {
  static std::map<std::string, toy_operator, std::less<>> const table = {
      {"linear", [](tape& t, tape_values const& v) { return linear_of(t, v); }},
      {"matmul", [](tape& t, tape_values const& v) { return matmul_of(t, v.at(0), v.at(1)); }},
      {"mm", [](tape& t, tape_values const& v) { return matmul_of(t, v.at(0), v.at(1)); }},
      {"bmm", [](tape& t, tape_values const& v) { return matmul_of(t, v.at(0), v.at(1)); }},
      {"addmm",
       [](tape& t, tape_values const& v) {
         return toy_operators().at("add")(t, {v.at(0), matmul_of(t, v.at(1), v.at(2))});
       }},
      {"transpose",
       [](tape& t, tape_values const& v) {
         if (v.size() < 2) return transpose_of(t, v.at(0));
         auto const& shape = v[0].get().shape;
         return permuted(t, v[0], exchange(shape.size(), axis_of(v[1], shape, 0), axis_of(v.at(2), shape, 0)));
       }},
      {"t", [](tape& t, tape_values const& v) { return transpose_of(t, v.at(0)); }},
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
      {"div",
       [](tape& t, tape_values const& v) {
         return pairwise(
             t, "Div", v, [](double a, double b) { return a / b; }, [](double, double b) { return 1 / b; },
             [](double a, double b) { return -a / (b * b); });
       }},
      {"neg",
       [](tape& t, tape_values const& v) {
         return each_element(t, "Neg", v.at(0), [](double x) { return -x; }, [](double) { return -1.0; });
       }},
      {"exp",
       [](tape& t, tape_values const& v) {
         auto const f = [](double x) { return std::exp(x); };
         return each_element(t, "Exp", v.at(0), f, f);
       }},
      {"log",
       [](tape& t, tape_values const& v) {
         return each_element(
             t, "Log", v.at(0), [](double x) { return std::log(x); }, [](double x) { return 1 / x; });
       }},
      {"sqrt",
       [](tape& t, tape_values const& v) {
         return each_element(
             t, "Sqrt", v.at(0), [](double x) { return std::sqrt(x); },
             [](double x) { return 0.5 / std::sqrt(x); });
       }},
      {"rsqrt",
       [](tape& t, tape_values const& v) {
         return each_element(
             t, "Rsqrt", v.at(0), [](double x) { return 1 / std::sqrt(x); },
             [](double x) { return -0.5 / (x * std::sqrt(x)); });
       }},
      {"abs",
       [](tape& t, tape_values const& v) {
         return each_element(
             t, "Abs", v.at(0), [](double x) { return std::abs(x); },
             [](double x) { return x < 0 ? -1.0 : 1.0; });
       }},
      {"tanh",
       [](tape& t, tape_values const& v) {
         return each_element(
             t, "Tanh", v.at(0), [](double x) { return std::tanh(x); },
             [](double x) { return 1 - std::tanh(x) * std::tanh(x); });
       }},
      {"sigmoid",
       [](tape& t, tape_values const& v) {
         auto const f = [](double x) { return 1 / (1 + std::exp(-x)); };
         return each_element(t, "Sigmoid", v.at(0), f, [f](double x) { return f(x) * (1 - f(x)); });
       }},
      {"silu",
       [](tape& t, tape_values const& v) {
         auto const f = [](double x) { return 1 / (1 + std::exp(-x)); };
         return each_element(
             t, "Silu", v.at(0), [f](double x) { return x * f(x); },
             [f](double x) { return f(x) * (1 + x * (1 - f(x))); });
       }},
      {"relu",
       [](tape& t, tape_values const& v) {
         return each_element(
             t, "Relu", v.at(0), [](double x) { return x > 0 ? x : 0.0; },
             [](double x) { return x > 0 ? 1.0 : 0.0; });
       }},
      {"pow", power_of},
      {"gelu", [](tape& t, tape_values const& v) { return gelu_of(t, v.at(0)); }},
      {"softmax",
       [](tape& t, tape_values const& v) {
         return along(t, v.at(0), operand(v, 1), [&](auto const& x) { return softmax_of(t, x, false); });
       }},
      {"log_softmax",
       [](tape& t, tape_values const& v) {
         return along(t, v.at(0), operand(v, 1), [&](auto const& x) { return log_softmax_of(t, x); });
       }},
      {"causal_softmax", [](tape& t, tape_values const& v) { return softmax_of(t, v.at(0), true); }},
      {"layer_norm", [](tape& t, tape_values const& v) { return layer_norm_of(t, v); }},
      {"embedding", [](tape& t, tape_values const& v) { return embedding_of(t, v.at(0), v.at(1)); }},
      {"sum",
       [](tape& t, tape_values const& v) {
         if (!operand(v, 1).is_null()) return summed_along(t, v, "Sum", false);
         return sum_of_all(t, v.at(0), "Sum", 1);
       }},
      {"mean",
       [](tape& t, tape_values const& v) {
         if (!operand(v, 1).is_null()) return summed_along(t, v, "Mean", true);
         return sum_of_all(t, v.at(0), "Mean", 1 / static_cast<double>(v[0].get().data.size()));
       }},
      {"rowmean", [](tape& t, tape_values const& v) { return row_mean(t, v.at(0)); }},
      {"mse_loss", squared_difference},
      {"cross_entropy", [](tape& t, tape_values const& v) { return cross_entropy_of(t, v.at(0), v.at(1)); }},
      {"broadcast_tensors", [](tape& t, tape_values const& v) { return broadcast_of(t, v.at(0)); }},
      {"getitem", [](tape& t, tape_values const& v) { return element_of(t, v.at(0), v.at(1)); }},
      {"cat", cat_of},
      {"stack", stack_of},
      {"split", split_of},
      {"split_with_sizes", split_of},
      {"chunk", chunk_of},
      {"unbind", unbind_of},
      {"slice",
       [](tape& t, tape_values const& v) {
         return sliced(t, v.at(0), axis_of(operand(v, 1), v[0].get().shape, 0), operand(v, 2), operand(v, 3),
                       operand(v, 4));
       }},
      {"select",
       [](tape& t, tape_values const& v) {
         return selected(t, v.at(0), axis_of(v.at(1), v[0].get().shape, 0), integer_of(v.at(2)));
       }},
      {"narrow",
       [](tape& t, tape_values const& v) {
         auto const& shape = v.at(0).get().shape;
         auto const axis = axis_of(v.at(1), shape, 0);
         return narrowed(t, v[0], axis, place_of(integer_of(v.at(2)), shape[axis]),
                         static_cast<std::size_t>(integer_of(v.at(3))));
       }},
      {"permute", permute_of},
      {"reshape", reshape_of},
      {"view", reshape_of},
      {"flatten", flatten_of},
      {"unsqueeze", unsqueezed},
      {"squeeze", squeezed},
      {"expand", expand_of},
      {"contiguous", [](tape&, tape_values const& v) { return v.at(0); }},
      {"size", [](tape&, tape_values const& v) { return extents_of(v); }},
      {"pipe_split", [](tape&, tape_values const&) { return tape_value(); }},
  };
  return table;
}

}  // namespace cleave::testing
