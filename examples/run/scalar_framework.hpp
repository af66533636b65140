// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/engine.hpp>
#include <cleave/modules.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

/// A framework of numbers, with two operators, and a function that adds nodes to a graph.

using tensor = cleave::host_tensor<double>;
using gradients = cleave::operand_gradients<tensor>;
using framework = cleave::taped_operators<cleave::operator_table<cleave::host_tensors<double>>>;

inline double number(tensor const& t) { return t.data[0]; }

inline framework make_framework() {
  cleave::operator_table<cleave::host_tensors<double>> table;
  table.define(
      "mul",
      [](auto const& c) { return cleave::model_value(tensor(number(c.tensor(0)) * number(c.tensor(1)))); },
      [](auto const& b) -> gradients {
        double const g = number(b.gradient());
        return {tensor(g * number(b.forward.tensor(1))), tensor(g * number(b.forward.tensor(0)))};
      });
  table.define(
      "squared_error",
      [](auto const& c) {
        double const d = number(c.tensor(0)) - number(c.tensor(1));
        return cleave::model_value(tensor(d * d));
      },
      [](auto const& b) -> gradients {
        double const d = number(b.forward.tensor(0)) - number(b.forward.tensor(1));
        return {tensor(2 * d * number(b.gradient())), {}};
      });
  return framework(table);
}

/// Adds a node that reads the nodes `reads`, and returns its position.
inline std::uint32_t add_node(cleave::module_graph& g, cleave::node_kind kind, std::string const& name,
                              std::string const& target, std::vector<std::uint32_t> const& reads = {}) {
  cleave::module_node n;
  n.kind = kind;
  n.name = name;
  n.target = target;
  for (auto const r : reads) n.args.push_back(cleave::node_argument(r));
  return g.add(std::move(n));
}
