// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/functions.hpp"
#include "cleave/adapt/onnx/detail/outline.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "cleave/adapt/onnx/work.hpp"

namespace cleave::inline v0_2::onnx {

/// The speed of a machine, per second. The defaults are for one core of an ordinary server. Only the ratios
/// of the rates affect how stages are balanced.
struct rates {
  double flops = 5e10;  ///< floating-point operations
  double bytes = 1e10;  ///< bytes read and written in memory
  double nodes = 5e5;   ///< operators started by an engine
  double link = 1e10;   ///< bytes sent between stages

  /// Returns the seconds for some work: the slower of computing and moving data, plus the start of operators.
  /// This is the roofline model, Williams et al., CACM 2009.
  double seconds(onnx::work const& w) const {
    return w.nodes / nodes + (std::max)(w.flops / flops, w.bytes / bytes);
  }
};

/// The cost of each node of a model, and its reliability.
struct costs {
  std::vector<onnx::work> of;  ///< indexed by the node's position in the file
  std::map<std::string, std::size_t>
      fallbacks;            ///< operators priced by bytes alone, and the number of their nodes
  std::size_t unknown = 0;  ///< number of nodes with an unknown shape
  std::size_t bounded = 0;  ///< number of other nodes whose cost is an upper bound
};

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Visits a model's nodes, its bodies and the functions they call, for `onnx::costs_of`.
class onnx_cost_walk {
 public:
  onnx_cost_walk(onnx::types const& types, onnx::costs& to)
      : model_(types.priced_model()),
        functions_(onnx_functions(model_)),
        inference_(types.inference()),
        costs_(to) {
    auto const& g = model_.graph();
    scopes_.push_back({{}, nullptr});
    add_types(g, scopes_.back().types);
    costs_.of.resize(static_cast<std::size_t>(g.node_size()));
    for (int i = 0; i < g.node_size(); ++i) {
      item_ = static_cast<std::size_t>(i);
      price(g.node(i), scopes_.front());
      while (!open_.empty()) {
        auto const [node, in] = open_.back();
        open_.pop_back();
        price(*node, *in);
      }
      scopes_.resize(1);
      calls_.clear();
      auto const& w = costs_.of[item_];
      ++(w.unknown ? costs_.unknown : w.bounded ? costs_.bounded : exact_);
    }
  }

 private:
  struct scope {
    std::unordered_map<std::string_view, ::onnx::TypeProto const*> types;
    scope const* outer;
  };

  static void add_types(::onnx::GraphProto const& g,
                        std::unordered_map<std::string_view, ::onnx::TypeProto const*>& to) {
    for (auto const* list : {&g.value_info(), &g.input(), &g.output()})
      for (auto const& v : *list) to.emplace(v.name(), &v.type());
  }

  static ::onnx::TypeProto const* type_of(std::string_view name, scope const& in) {
    for (auto const* s = &in; s != nullptr; s = s->outer)
      if (auto const at = s->types.find(name); at != s->types.end()) return at->second;
    return nullptr;
  }

  void price(::onnx::NodeProto const& n, scope const& in) {
    auto const f = functions_.find(onnx_function_key(n.domain(), n.op_type()));
    if (f != functions_.end()) return enter(*f->second, n, in);
    auto const work = onnx_node_work(n, [&](std::string const& name) { return type_of(name, in); })();
    auto const* line = find_onnx_operator_cost(n);
    if (line == nullptr)
      ++costs_.fallbacks[n.domain().empty() ? n.op_type() : n.domain() + "." + n.op_type()];
    costs_.of[item_] += work;
    for (auto const& a : n.attribute()) {
      if (a.has_g()) enter(a.g(), in);
      for (auto const& g : a.graphs()) enter(g, in);
    }
  }

  void enter(::onnx::GraphProto const& body, scope const& in) {
    auto& s = scopes_.emplace_back(scope{{}, &in});
    add_types(body, s.types);
    for (auto const& n : body.node()) open_.push_back({&n, &s});
  }

  /// Types in a called function are inferred separately, from the types of its arguments.
  void enter(::onnx::FunctionProto const& f, ::onnx::NodeProto const& call, scope const& in) {
    auto& m = calls_.emplace_back();
    m.set_ir_version(model_.ir_version());
    *m.mutable_opset_import() = f.opset_import();
    *m.mutable_graph() = onnx_function_body(f, call);
    for (auto const* g : onnx_reached_functions(functions_, f.node())) *m.add_functions() = *g;
    for (int i = 0; i < (std::min)(f.input_size(), call.input_size()); ++i)
      if (auto const* type = type_of(call.input(i), in)) {
        auto& v = *m.mutable_graph()->add_input();
        v.set_name(f.input(i));
        *v.mutable_type() = *type;
      }
    onnx_infer(m, inference_);
    auto& s = scopes_.emplace_back(scope{{}, nullptr});  // a function does not see names outside
    add_types(m.graph(), s.types);
    for (auto const& n : m.graph().node()) open_.push_back({&n, &s});
  }

  ::onnx::ModelProto const& model_;
  onnx_function_table functions_;
  onnx::inference inference_;
  onnx::costs& costs_;
  std::size_t exact_ = 0;  // nodes of known cost
  std::size_t item_ = 0;   // the node of the graph that is being priced
  std::vector<std::pair<::onnx::NodeProto const*, scope const*>> open_;
  std::deque<scope> scopes_;
  std::deque<::onnx::ModelProto> calls_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Returns the cost of each node by the table in flops.hpp. Nodes with bodies and calls of functions cost the
/// sum of what they contain.
inline onnx::costs costs_of(onnx::types const& types) {
  onnx::costs costs;
  detail::onnx_cost_walk const all(types, costs);
  return costs;
}

}  // namespace cleave::onnx
