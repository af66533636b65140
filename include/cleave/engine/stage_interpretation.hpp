// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/model_value.hpp"
#include "cleave/engine/operator_call.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2::detail {

/// A tensor of a stage's state under all names that the stage has for it.
struct stage_tensor {
  std::string holder;              ///< equal for the copies of one tensor in all stages
  std::vector<std::string> names;  ///< in the model before the cut
  bool trained;                    ///< its gradient is wanted
};

/// Returns a text that is equal for attributes that are one tensor, also in different stages. `name` is that
/// of the attribute in the model before the cut.
inline std::string holder_of(module_attribute const& a, std::string const& name) {
  return a.storage.empty() ? "path " + name : "storage " + a.storage;
}

/// Returns true if the gradient of a tensor is wanted: for parameters and plain tensors, unless their
/// metadata says `requires_grad: false`.
inline bool is_trained(module_attribute const& a) {
  if (a.what == module_attribute::kind::buffer) return false;
  for (auto const& [key, value] : a.metadata)
    if (key == "requires_grad" && value == module_argument{false}) return false;
  return true;
}

/// The state of a stage: the tensors that its get_attr nodes and the modules that it calls read, also in the
/// graphs of modules. Keeps a reference to the graph.
class stage_state {
 public:
  /// A tensor that a called module reads, and its name in the module.
  struct module_read {
    std::string name;
    std::uint32_t tensor;
  };

  explicit stage_state(module_graph const& stage) {
    std::vector<std::pair<module_graph const*, std::string>> rest{{&stage, ""}};
    while (!rest.empty()) {
      auto const [g, prefix] = rest.back();
      rest.pop_back();
      read_all(*g, prefix);
      for (auto const& a : g->attributes()) {
        if (!a.body.empty()) rest.emplace_back(&a.body.front(), prefix + a.path + ".");
        if (a.what != module_attribute::kind::module) add_name(a, prefix);
      }
    }
  }

  std::vector<stage_tensor> const& tensors() const { return tensors_; }
  /// Returns the number of the tensor that the get_attr node `n` of `g` reads.
  std::uint32_t read_by(module_graph const& g, module_graph::position n) const { return of(g).read[n]; }
  /// Returns the tensors that the module called by node `n` of `g` reads.
  std::vector<module_read> const& reads_of_call(module_graph const& g, module_graph::position n) const {
    static std::vector<module_read> const nothing;
    auto const& calls = of(g).calls;
    auto const at = calls.find(n);
    return at == calls.end() ? nothing : at->second;
  }

 private:
  struct graph_reads {
    module_graph const* graph;
    std::vector<std::uint32_t> read;  // by node
    std::map<module_graph::position, std::vector<module_read>> calls;
  };

  graph_reads const& of(module_graph const& g) const {
    std::size_t at = 0;
    while (graphs_[at].graph != &g) ++at;
    return graphs_[at];
  }

  void read_all(module_graph const& g, std::string const& prefix) {
    auto& reads = graphs_.emplace_back(graph_reads{&g, std::vector<std::uint32_t>(g.list().size()), {}});
    for (auto const n : g.state()) {
      auto const& path = g[n].target;
      auto const* a = g.find_attribute(path);
      reads.read[n] =
          add(a ? *a : module_attribute{path, module_attribute::kind::parameter, {}, {}, {}, {}}, prefix);
    }
    for (auto const n : g.nodes()) {
      if (g[n].kind != node_kind::call_module) continue;
      auto const below = g[n].target + ".";
      for (auto const& a : g.attributes())
        if (a.what != module_attribute::kind::module && a.path.starts_with(below))
          reads.calls[n].push_back({a.path.substr(below.size()), add(a, prefix)});
    }
  }
  static std::string name_of(module_attribute const& a, std::string const& prefix) {
    return a.original.empty() ? prefix + a.path : a.original;
  }
  std::uint32_t find(std::string const& holder) const {
    auto const at = std::ranges::find(tensors_, holder, &stage_tensor::holder);
    return static_cast<std::uint32_t>(at - tensors_.begin());
  }
  std::uint32_t add(module_attribute const& a, std::string const& prefix) {
    auto const name = name_of(a, prefix), holder = holder_of(a, name);
    auto const at = find(holder);
    if (at == tensors_.size()) tensors_.push_back({holder, {}, is_trained(a)});
    add_name(a, prefix);
    return at;
  }
  /// Adds a name of a tensor that is read.
  void add_name(module_attribute const& a, std::string const& prefix) {
    auto const name = name_of(a, prefix);
    auto const at = find(holder_of(a, name));
    if (at == tensors_.size()) return;
    auto& names = tensors_[at].names;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }

  std::vector<stage_tensor> tensors_;
  std::vector<graph_reads> graphs_;  // the stage, and the graphs of modules that it calls
};

/// Evaluates a stage by a framework: an `interpretation` for `evaluate`. `state_of(number)` returns the
/// tensor of the state with that number. Elements of containers are taken without the framework.
template <tensor_framework F, class State>
class stage_interpretation {
 public:
  using value = model_value<typename F::tensor>;

  stage_interpretation(F& f, stage_state const& state, State state_of)
      : framework_(f), state_(state), state_of_(std::move(state_of)) {}

  value constant(token const& t) const { return t; }
  value collect(container const& c, std::span<value const> elements) const { return {c, elements}; }
  value attribute(module_graph const& g, module_graph::position n) {
    return value(state_of_(state_.read_by(g, n)));
  }
  value call(module_graph const& g, module_graph::position n, std::span<value const> args,
             std::span<value const> kwargs) {
    auto const& node = g[n];
    if (node.target == "getitem" && args.size() == 2)
      if (auto const* c = args[0].outer()) return element(node, *c, args[0], args[1]);
    std::vector<module_tensor<typename F::tensor>> state;
    if (node.kind == node_kind::call_module)
      for (auto const& [name, tensor] : state_.reads_of_call(g, n))
        state.push_back({name, state_of_(tensor)});
    try {
      return framework_.call({node, args, kwargs, state});
    } catch (operator_error const&) {
      throw;
    } catch (std::exception const& e) {
      throw operator_error({operator_fault::kind::failed, node.name, node.target, {}, e.what()});
    }
  }

 private:
  /// Returns element `at` of a list or tuple, or the one with key `at` of a dict.
  static value element(module_node const& node, container const& c, value const& of, value const& at) {
    auto const all = of.elements();
    if (c.what == container::kind::dict) {
      for (std::size_t i = 0; i + 1 < all.size(); i += 2)
        if (all[i].constant() && at.constant() && *all[i].constant() == *at.constant()) return all[i + 1];
    } else if (auto const* i = at.constant() ? std::get_if<std::int64_t>(at.constant()) : nullptr) {
      auto const size = std::ssize(all);
      if (*i >= -size && *i < size) return all[static_cast<std::size_t>(*i < 0 ? *i + size : *i)];
    }
    throw operator_error({operator_fault::kind::failed,
                          node.name,
                          node.target,
                          {},
                          "there is no such element in a container of " + std::to_string(c.size)});
  }

  F& framework_;
  stage_state const& state_;
  State state_of_;
};

/// Returns the results of a stage, one for each value that it outputs.
template <class Tensor, interpretation<model_value<Tensor>> I>
std::vector<model_value<Tensor>> evaluate_stage(module_graph const& stage,
                                                std::vector<model_value<Tensor>> inputs, I& i) {
  auto const result = evaluate(stage, std::move(inputs), i);
  auto const& args = stage[*stage.output()].args;
  bool const bare = args.empty() || !std::holds_alternative<container>(args.front().front());
  return bare ? std::vector{result} : result.elements();
}

}  // namespace cleave::detail
