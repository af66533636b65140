// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/rng.hpp"
#include "support/toy_autograd.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns a program of layers with a marker between any two. A layer may also read an earlier result, and
/// some layers share weights. The loss is the sum of squares.
inline module_graph random_model(rng& random, std::size_t layers, state_values& state) {
  module_graph g;
  auto const add = [&](node_kind kind, std::string const& target, std::vector<module_argument> args) {
    module_node n;
    n.kind = kind;
    n.name = target + "_" + std::to_string(g.list().size());
    n.target = target;
    n.args = std::move(args);
    return g.add(std::move(n));
  };
  std::vector<std::uint32_t> made{add(node_kind::placeholder, "x", {})};
  for (std::size_t i = 0; i < layers; ++i) {
    auto const path = "w" + std::to_string(random.below(layers));
    if (!g.find_attribute(path)) {
      g.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
      state[path] = tensor::filled({2, 2}, 0);
      for (double& x : state[path].data) x = (0.5 + random.unit()) * (random.one_in(2) ? 1 : -1);
    }
    auto const w = add(node_kind::get_attr, path, {});
    auto h = add(node_kind::call_function, "linear", {node_argument(made.back()), node_argument(w)});
    auto const& other = made[random.below(made.size())];
    h = add(node_kind::call_function, random.one_in(2) ? "add" : "sub",
            {node_argument(h), node_argument(other)});
    made.push_back(h);
    if (!random.one_in(3)) add(node_kind::call_function, "pipe_split", {});
  }
  auto const squares = add(node_kind::call_function, "pow", {node_argument(made.back()), {std::int64_t{2}}});
  auto const loss = add(node_kind::call_function, "sum", {node_argument(squares)});
  add(node_kind::output, "output", {node_argument(loss)});
  return g;
}

inline tape_value random_batch(rng& random, std::size_t rows) {
  auto x = tensor::filled({rows, 2}, 0);
  for (double& v : x.data) v = (0.5 + random.unit()) / 2;
  return constant_of(x);
}

/// Writes a model of `stages` stages with everything that makes pipelines hard: skip connections, values with
/// several readers, and weights that stages share or send to each other. It also has lists, token ids, values
/// without rows or with rows on their second axis, branches without influence on the loss, and results
/// besides the loss. The output for a row depends on that row alone; the loss is a sum over rows. Use
/// `random_pipe_model`.
class random_model_writer {
 public:
  explicit random_model_writer(rng& random) : random_(random) {}

  module_graph write(std::uint32_t stages, state_values& state) {
    state_ = &state;
    ids_ = add(node_kind::placeholder, "ids", {}, "i64");
    rows_.push_back(add(node_kind::placeholder, "x", {}));
    auto const target = add(node_kind::placeholder, "target", {});
    for (std::uint32_t s = 0; s < stages; ++s) {
      if (s > 0) call("pipe_split", {});
      for (auto layers = 1 + random_.below(3); layers > 0; --layers) write_layer();
      if (s + 1 < stages && random_.one_in(4)) results_.push_back(latest());
    }
    auto loss = random_.one_in(2) ? call("mse_loss", {latest(), target, {std::int64_t{2}}})
                                  : call("sum", {call("pow", {latest(), {std::int64_t{2}}})});
    if (random_.one_in(3)) loss = call("add", {loss, call("sum", {any(rows_)})});
    std::vector<module_graph::position> given;
    for (auto const& r : results_) given.push_back(std::get<node_ref>(r.front()).node);
    given.push_back(std::get<node_ref>(loss.front()).node);
    add(node_kind::output, "output", {given.size() == 1 ? loss : tuple_argument(given)});
    return std::move(g_);
  }

 private:
  using value = module_argument;

  value add(node_kind kind, std::string const& target, std::vector<value> args, char const* dtype = "f64") {
    module_node n;
    n.kind = kind;
    n.name = target + "_" + std::to_string(g_.list().size());
    n.target = target;
    n.args = std::move(args);
    n.metadata = {{"dtype", {std::string(dtype)}}};
    return node_argument(g_.add(std::move(n)));
  }
  value call(std::string const& target, std::vector<value> args) {
    return add(node_kind::call_function, target, std::move(args));
  }

  value const& any(std::vector<value> const& list) { return list[random_.below(list.size())]; }
  /// Returns the last value, or sometimes an earlier one.
  value const& latest() { return random_.one_in(5) ? any(rows_) : rows_.back(); }

  value parameter(std::string const& path, testing::toy_shape shape) {
    if (!g_.find_attribute(path)) {
      g_.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
      auto& t = (*state_)[path] = tensor::filled(std::move(shape), 0);
      for (double& x : t.data) x = (0.2 + 0.5 * random_.unit()) * (random_.one_in(2) ? 1 : -1);
    }
    return add(node_kind::get_attr, path, {});
  }
  /// Returns a parameter, or an earlier value computed from one.
  value weight() {
    if (!weights_.empty() && random_.one_in(3)) return any(weights_);
    auto const w = parameter("w" + std::to_string(random_.below(4)), {2, 2});
    if (!random_.one_in(4)) return w;
    return weights_.emplace_back(call("mul", {w, {1.5}}));
  }

  void write_layer() {
    switch (random_.below(9)) {
      case 0:
        return rows_.push_back(call(random_.one_in(2) ? "relu" : "gelu", {latest()}));
      case 1:
        return rows_.push_back(call("add", {latest(), any(rows_)}));
      case 2:
        return rows_.push_back(call("sub", {latest(), call("rowmean", {any(rows_)})}));
      case 3:
        return rows_.push_back(
            call("mul", {call("embedding", {ids_, parameter("table", {3, 2})}), latest()}));
      case 4:
        return write_list();
      case 5:
        return write_transposed();
      default:
        return rows_.push_back(call("linear", {latest(), weight(), parameter("b", {2})}));
    }
  }

  /// Makes a list whose elements other stages may take.
  void write_list() {
    if (lists_.empty() || random_.one_in(2)) {
      value list{container{container::kind::list, 2}};
      list.push_back(latest().front());
      list.push_back(parameter("b", {2}).front());
      lists_.push_back(call("broadcast_tensors", {std::move(list)}));
      rows_.push_back(call("relu", {latest()}));
    } else {
      auto const element = call("getitem", {any(lists_), {static_cast<std::int64_t>(random_.below(2))}});
      rows_.push_back(call("add", {latest(), element}));
    }
  }
  void write_transposed() {
    if (columns_.empty() || random_.one_in(2)) {
      columns_.push_back(call("transpose", {latest()}));
      rows_.push_back(call("gelu", {latest()}));
    } else {
      rows_.push_back(call("add", {latest(), call("transpose", {any(columns_)})}));
    }
  }

  rng& random_;
  module_graph g_;
  state_values* state_ = nullptr;
  value ids_;
  std::vector<value> rows_, columns_, lists_, weights_, results_;
};

/// Returns the model and fills `state` with its parameters. Its inputs are ids, a batch and a target.
inline module_graph random_pipe_model(rng& random, std::uint32_t stages, state_values& state) {
  return random_model_writer(random).write(stages, state);
}

/// Returns inputs for the model.
inline std::vector<tensor> random_model_batch(rng& random, std::size_t rows) {
  auto ids = tensor::filled({rows}, 0);
  for (double& x : ids.data) x = static_cast<double>(random.below(3));
  return {ids, random_batch(random, rows).get(), random_batch(random, rows).get()};
}

}  // namespace cleave::testing
