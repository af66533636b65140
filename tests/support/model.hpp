// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/model/model_parameters.hpp"

namespace cleave::testing {

using namespace detail;

/// Writes a module_graph and its parameters by hand, in program order.
struct model {
  using position = module_graph::position;
  module_graph g{};
  model_parameters parameters{};

  std::uint32_t parameter(model_parameter p) {
    parameters.list.push_back(std::move(p));
    return static_cast<std::uint32_t>(parameters.list.size() - 1);
  }
  position placeholder(std::string const& name) { return add(node_kind::placeholder, name, name, {}); }
  position placeholder(std::string const& name, std::uint32_t parameter) {
    parameters.placeholders.push_back({name, parameter});
    return placeholder(name);
  }
  position attribute(std::string const& path, std::uint32_t parameter) {
    g.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
    parameters.attributes.push_back({path, parameter});
    return add(node_kind::get_attr, path, path, {});
  }
  /// Adds a module with these parameters, named `p0`, `p1`, …
  void module(std::string const& path, std::vector<std::uint32_t> const& holds, std::string object = {}) {
    g.add_attribute({path, module_attribute::kind::module, {}, {}, {}, {}});
    parameters.modules.push_back({path, object.empty() ? path : std::move(object), {}});
    for (auto const p : holds) {
      auto& list = parameters.modules.back().holds;
      list.push_back({"p" + std::to_string(list.size()), p});
    }
  }
  position call(std::string const& path, std::vector<position> const& operands) {
    return add(node_kind::call_module, path, path, operands);
  }
  position function(std::string const& name, std::vector<position> const& operands) {
    return add(node_kind::call_function, name, name, operands);
  }
  position method(std::string const& name, std::vector<position> const& operands) {
    return add(node_kind::call_method, name, name, operands);
  }
  void give(std::vector<position> const& values) {
    module_node n;
    n.kind = node_kind::output;
    n.name = n.target = "output";
    n.args = {values.size() == 1 ? node_argument(values[0]) : tuple_argument(values)};
    g.add(std::move(n));
  }
  position add(node_kind kind, std::string const& name, std::string const& target,
               std::vector<position> const& operands) {
    module_node n;
    n.kind = kind;
    n.name = name + "." + std::to_string(g.list().size());
    if (kind == node_kind::placeholder) n.name = name;
    n.target = target;
    for (auto const v : operands) n.args.push_back(node_argument(v));
    return g.add(std::move(n));
  }
};

/// Returns `n` layers in a chain. Each is a module `layers.i` with one parameter of `bytes` bytes, followed
/// by a relu.
inline model layers(std::size_t n, std::size_t bytes) {
  model m;
  auto v = m.placeholder("x");
  for (std::size_t i = 0; i < n; ++i) {
    auto const path = "layers." + std::to_string(i);
    m.module(path, {m.parameter({.bytes = bytes})});
    v = m.function("relu", {m.call(path, {v})});
  }
  m.give({v});
  return m;
}

}  // namespace cleave::testing
