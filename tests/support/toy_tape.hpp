// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/graph/argument.hpp"
#include "support/toy_tensor.hpp"

namespace cleave::testing {

/// The value of a node of a graph: a tensor, a constant, or a container of such values.
struct tape_value {
  enum class kind : std::uint8_t { constant, tensor, composite };

  kind what = kind::constant;
  token text{};                                 ///< of a constant
  std::shared_ptr<testing::tensor const> of{};  ///< of a tensor
  std::optional<std::uint32_t> node{};          ///< the tape node that receives its gradient, if any
  container shape{container::kind::list, 0};    ///< of a container
  std::shared_ptr<std::vector<tape_value> const> items{};  ///< its elements; keys and values alternate

  testing::tensor const& get() const {
    expects(what == kind::tensor, "a value that is a tensor");
    return *of;
  }
  bool is_null() const { return what == kind::constant && std::holds_alternative<std::monostate>(text); }
};

inline tape_value constant_of(tensor t) {
  tape_value v;
  v.what = tape_value::kind::tensor;
  v.of = std::make_shared<tensor const>(std::move(t));
  return v;
}

/// Returns the tensor, or a number as a tensor without axes.
inline tape_value as_tensor(tape_value const& v) {
  if (v.what == tape_value::kind::tensor) return v;
  if (auto const* i = std::get_if<std::int64_t>(&v.text)) return constant_of({{}, {static_cast<double>(*i)}});
  if (auto const* d = std::get_if<double>(&v.text)) return constant_of({{}, {*d}});
  throw tensor_shape_error("an operand that is neither tensor nor number");
}

/// A node of the tape, which maps the gradient of a result to those of its operands. A leaf has no operands
/// and accumulates its gradient.
struct gradient_node {
  std::string kind;                                ///< "Mm"; of a leaf "leaf " and its name
  std::vector<std::optional<std::uint32_t>> next;  ///< by operand; nullopt if it needs no gradient
  toy_shape shape;
  std::function<std::vector<tensor>(tensor const&)> pass{};  ///< the gradients of all operands
  std::optional<tensor> gradient{};                          ///< of a leaf

  bool is_leaf() const { return !pass; }
};

/// The gradients that arrive at nodes of a tape, summed per node.
using arriving_gradients = std::map<std::uint32_t, tensor, std::greater<>>;
/// Initial gradients: node and value.
using gradient_seeds = std::vector<std::pair<std::uint32_t, tensor>>;

inline void add_gradient(arriving_gradients& to, std::uint32_t node, tensor const& g) {
  auto const [at, fresh] = to.try_emplace(node, g);
  if (!fresh) at->second = at->second + g;
}

/// A tape for reverse mode: all computed nodes, each after its operands. Gradients run over it from the end.
class tape {
 public:
  std::span<gradient_node const> nodes() const { return nodes_; }

  /// Adds an input whose gradient is wanted.
  tape_value leaf(std::string const& name, tensor t) { return record("leaf " + name, {}, std::move(t), {}); }

  /// Records `result` as made from `operands`. Records nothing if none of these needs a gradient.
  template <class F>
  tape_value made(std::string kind, std::vector<tape_value> const& operands, tensor result, F pass) {
    std::vector<std::optional<std::uint32_t>> next;
    bool needed = false;
    for (auto const& o : operands) needed |= next.emplace_back(o.node).has_value();
    if (!needed) return constant_of(std::move(result));
    return record(std::move(kind), std::move(next), std::move(result), pass);
  }

  /// Returns the gradients that arrive at each node if they pass only along edges with `follow(from, to)`.
  template <class F>
  arriving_gradients flow(gradient_seeds const& seeds, F follow) const {
    arriving_gradients open, done;
    for (auto const& [n, g] : seeds) add_gradient(open, n, g);
    while (!open.empty()) {
      auto taken = open.extract(open.begin());
      auto const at = taken.key();
      auto const& n = nodes_[at];
      if (!n.is_leaf()) {
        auto const sent = n.pass(taken.mapped());
        for (std::size_t i = 0; i < n.next.size(); ++i)
          if (n.next[i] && follow(at, *n.next[i]))
            add_gradient(open, *n.next[i], summed_to(sent[i], nodes_[*n.next[i]].shape));
      }
      done.emplace(at, std::move(taken.mapped()));
    }
    return done;
  }

  /// Runs the whole backward pass and accumulates the gradients at leaves.
  void backward(gradient_seeds const& seeds) {
    keep(flow(seeds, [](auto, auto) { return true; }));
  }

  /// Adds the gradients that arrived at leaves to those accumulated there.
  void keep(arriving_gradients const& arrived) {
    for (auto const& [n, g] : arrived)
      if (nodes_[n].is_leaf()) nodes_[n].gradient = nodes_[n].gradient ? *nodes_[n].gradient + g : g;
  }

  std::optional<tensor>& gradient(std::uint32_t leaf) {
    expects(nodes_[leaf].is_leaf(), "a leaf of this tape");
    return nodes_[leaf].gradient;
  }
  /// Returns the gradient accumulated in the leaf of `v`, or nullopt if `v` needs no gradient.
  std::optional<tensor> gradient_of(tape_value const& v) const {
    return v.node ? nodes_[*v.node].gradient : std::nullopt;
  }

 private:
  tape_value record(std::string kind, std::vector<std::optional<std::uint32_t>> next, tensor result,
                    std::function<std::vector<tensor>(tensor const&)> pass) {
    nodes_.push_back({std::move(kind), std::move(next), result.shape, std::move(pass)});
    auto v = constant_of(std::move(result));
    v.node = static_cast<std::uint32_t>(nodes_.size() - 1);
    return v;
  }

  std::vector<gradient_node> nodes_;
};

/// Returns the nodes that gradients of `outputs` can reach, breadth first, each once. O(nodes + edges).
inline std::vector<std::uint32_t> reached_from(tape const& t, std::vector<std::uint32_t> const& outputs) {
  std::vector<bool> seen(t.nodes().size());
  std::vector<std::uint32_t> order;
  auto const meet = [&](std::uint32_t n) {
    if (!seen[n]) order.push_back(n);
    seen[n] = true;
  };
  for (auto const n : outputs) meet(n);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (auto const& n : t.nodes()[order[i]].next)
      if (n) meet(*n);
  return order;
}

}  // namespace cleave::testing
