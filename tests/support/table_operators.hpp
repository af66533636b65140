// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/engine/host_tensors.hpp"
#include "cleave/engine/taped_operators.hpp"
#include "cleave/graph/module_graph.hpp"
#include "support/rng.hpp"

/// A few operators with backward functions on matrices of doubles, and programs of them.
namespace cleave::testing {

using matrix = host_tensor<double>;
using matrix_table = operator_table<host_tensors<double>>;
using matrix_framework = taped_operators<matrix_table>;
using matrix_value = model_value<matrix>;

template <class F>
matrix zip_matrices(matrix a, matrix const& b, F f) {
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = f(a.data[i], b.data[i]);
  return a;
}

/// Returns a·b, with a or b transposed.
inline matrix multiply(matrix const& a, matrix const& b, bool ta = false, bool tb = false) {
  auto const rows = a.shape.extents[ta ? 1 : 0], inner = a.shape.extents[ta ? 0 : 1];
  auto const columns = b.shape.extents[tb ? 0 : 1];
  matrix p(tensor_shape{rows, columns});
  auto const at = [](matrix const& m, bool t, std::int64_t r, std::int64_t c) {
    return m.data[static_cast<std::size_t>(t ? c * m.shape.extents[1] + r : r * m.shape.extents[1] + c)];
  };
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t k = 0; k < inner; ++k)
        p.data[static_cast<std::size_t>(r * columns + c)] += at(a, ta, r, k) * at(b, tb, k, c);
  return p;
}

inline matrix_table matrix_operators() {
  using call = operator_call<matrix>;
  using back = operator_backward<matrix>;
  using gradients = operand_gradients<matrix>;
  matrix_table t;
  t.define(
      "matmul", [](call const& c) { return matrix_value(multiply(c.tensor(0), c.tensor(1))); },
      [](back const& b) -> gradients {
        gradients made(2);
        if (b.wanted[0]) made[0] = multiply(b.gradient(), b.forward.tensor(1), false, true);
        if (b.wanted[1]) made[1] = multiply(b.forward.tensor(0), b.gradient(), true, false);
        return made;
      });
  t.define(
      "add",
      [](call const& c) {
        return matrix_value(zip_matrices(c.tensor(0), c.tensor(1), [](double x, double y) { return x + y; }));
      },
      [](back const& b) -> gradients { return {b.gradient(), b.gradient()}; });
  t.define(
      "mul",
      [](call const& c) {
        return matrix_value(zip_matrices(c.tensor(0), c.tensor(1), [](double x, double y) { return x * y; }));
      },
      [](back const& b) -> gradients {
        auto const times = [](double x, double y) { return x * y; };
        return {zip_matrices(b.gradient(), b.forward.tensor(1), times),
                zip_matrices(b.gradient(), b.forward.tensor(0), times)};
      });
  t.define(
      "tanh",
      [](call const& c) {
        return matrix_value(
            zip_matrices(c.tensor(0), c.tensor(0), [](double x, double) { return std::tanh(x); }));
      },
      [](back const& b) -> gradients {
        return {zip_matrices(b.gradient(), b.results[0], [](double g, double y) { return g * (1 - y * y); })};
      });
  t.define(
      "scale",  // by a number: the keyword `by`, or 2
      [](call const& c) {
        double const by = c.number(1, "by", 2);
        return matrix_value(
            zip_matrices(c.tensor(0), c.tensor(0), [by](double x, double) { return by * x; }));
      },
      [](back const& b) -> gradients {
        double const by = b.forward.number(1, "by", 2);
        return {zip_matrices(b.gradient(), b.gradient(), [by](double g, double) { return by * g; })};
      });
  t.define(
      "both",  // a list of the operand and its double
      [](call const& c) {
        matrix_value const list[] = {
            c.tensor(0), zip_matrices(c.tensor(0), c.tensor(0), [](double x, double) { return 2 * x; })};
        return matrix_value(container{container::kind::list, 2}, list);
      },
      [](back const& b) -> gradients {
        matrix sum(b.forward.tensor(0).shape);
        for (std::size_t r = 0; r < 2; ++r)
          if (b.gradients[r])
            sum = zip_matrices(sum, *b.gradients[r],
                               [r](double s, double g) { return s + static_cast<double>(r + 1) * g; });
        return {sum};
      });
  t.define(
      "sum_squares",
      [](call const& c) {
        matrix s;
        for (double const x : c.tensor(0).data) s.data[0] += x * x;
        return matrix_value(s);
      },
      [](back const& b) -> gradients {
        double const g = b.gradient().data[0];
        return {zip_matrices(b.forward.tensor(0), b.forward.tensor(0),
                             [g](double x, double) { return 2 * g * x; })};
      });
  t.define(
      "linear_module",  // a module with a weight
      [](call const& c) { return matrix_value(multiply(c.tensor(0), *c.find_state("weight"))); },
      [](back const& b) -> gradients {
        return {multiply(b.gradient(), *b.forward.find_state("weight"), false, true),
                multiply(b.forward.tensor(0), b.gradient(), true, false)};
      });
  t.define("pipe_split", [](call const&) { return matrix_value(); });  // in runs of the whole
  t.define("detach", [](call const& c) { return matrix_value(c.tensor(0)); });
  return t;
}

/// Writes programs of these operators.
struct matrix_program {
  module_graph g;

  module_argument add(node_kind kind, std::string const& target, std::vector<module_argument> args = {},
                      std::vector<keyword_argument> kwargs = {}) {
    module_node n;
    n.kind = kind;
    n.name = target + "_" + std::to_string(g.list().size());
    for (char& c : n.name)
      if (c == '.' || c == '*') c = '_';
    n.target = target;
    n.args = std::move(args);
    n.kwargs = std::move(kwargs);
    return node_argument(g.add(std::move(n)));
  }
  module_argument call(std::string const& target, std::vector<module_argument> args,
                       std::vector<keyword_argument> kwargs = {}) {
    return add(node_kind::call_function, target, std::move(args), std::move(kwargs));
  }
  module_argument input(std::string const& name) { return add(node_kind::placeholder, name); }
  module_argument weight(std::string const& path) {
    if (!g.find_attribute(path)) g.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
    return add(node_kind::get_attr, path);
  }
  void cut() { call("pipe_split", {}); }
  void output(module_argument a) { add(node_kind::output, "output", {std::move(a)}); }
};

inline matrix random_matrix(rng& random, std::int64_t rows, std::int64_t columns) {
  matrix m(tensor_shape{rows, columns});
  for (double& x : m.data) x = random.unit() - 0.5;
  return m;
}

}  // namespace cleave::testing
