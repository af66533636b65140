// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"

/// Why a module_graph cannot be cut as a callback asks.
namespace cleave::detail {

/// A node for which the callback has no answer. The witness: the node.
class unassigned_node_error : public witness_error<module_graph::position> {
 public:
  unassigned_node_error(module_graph const& g, module_graph::position n)
      : witness_error("no part was given for node " + quoted(g[n].name) + " (" + printable(g[n].target) + ")",
                      n) {}
};

/// A callback that is asked repeatedly gives a node another answer. The witness: the node.
class unstable_answer_error : public witness_error<module_graph::position> {
 public:
  unstable_answer_error(module_graph const& g, module_graph::position n)
      : witness_error("node " + quoted(g[n].name) +
                          " is given another part when asked for again; an answer must depend on the node "
                          "alone",
                      n) {}
};

/// Numbers of parts are asked for that do not decrease along the graph. The witness: the node whose does.
class part_number_error : public witness_error<module_graph::position> {
 public:
  part_number_error(module_graph const& g, module_graph::position n, std::string const& label,
                    std::string const& highest)
      : witness_error("node " + quoted(g[n].name) + " is given part " + quoted(label) +
                          "; in a graph with scopes this order asks for numbers, none below an earlier one, "
                          "and here the highest is " +
                          highest,
                      n) {}
};

/// Parts in order of first appearance would run `consumer` before `producer`. The witness: the two nodes.
class stage_order_error : public witness_error<std::pair<module_graph::position, module_graph::position>> {
 public:
  stage_order_error(module_graph const& g, module_graph::position producer, module_graph::position consumer)
      : witness_error("node " + quoted(g[consumer].name) + " needs " + quoted(g[producer].name) +
                          ", whose part appears later: the parts have no order of first appearance",
                      {producer, consumer}) {}
};

/// A value crosses into a piece, and nothing binds a symbol of its shape. The witness: the value and the node
/// that reads it.
class unbound_symbol_error : public witness_error<std::pair<module_graph::position, module_graph::position>> {
 public:
  unbound_symbol_error(module_graph const& g, std::string name, module_graph::position value,
                       module_graph::position user)
      : witness_error("symbol " + quoted(name) + " in the shape of " + quoted(g[value].name) + ", which " +
                          quoted(g[user].name) + " reads in another part, is bound by no node",
                      {value, user}),
        symbol(std::move(name)) {}
  std::string symbol;
};

}  // namespace cleave::detail
