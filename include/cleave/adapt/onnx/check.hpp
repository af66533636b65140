// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/functions.hpp"
#include "cleave/adapt/onnx/node_fault.hpp"
#include "cleave/adapt/onnx/read_scopes.hpp"
#include "cleave/adapt/onnx/tensor_fault.hpp"
#include "cleave/graph/order.hpp"

namespace cleave::detail {

/// The domains of a list of imports, added to `imported`; or a fault, where one has no version or two.
template <class Imports>
std::optional<onnx_fault> import_onnx_domains(Imports const& imports, std::string const& who,
                                              onnx_domains& imported) {
  std::map<std::string, std::int64_t> versions;
  for (auto const& i : imports) {
    auto const domain = std::string(onnx_domain_of(i.domain()));
    auto const [at, fresh] = versions.emplace(domain, i.version());
    if (i.version() < 1 || at->second != i.version())
      return onnx_fault{
          onnx_fault_kind::version,
          who + " imports domain " + quoted(i.domain()) + " in version " + std::to_string(i.version()) +
              (fresh ? "; versions begin at 1" : " and in version " + std::to_string(at->second)),
          {i.domain()}};
    imported.insert(domain);
  }
  return std::nullopt;
}

/// What is wrong with the nodes, tensors and types of a graph or function whose names are right.
inline std::optional<onnx_fault> find_onnx_content_fault(onnx_scopes const& s, onnx_domains const& imported) {
  bool const in_function = s.scopes.front().graph == nullptr;
  for (onnx_scopes::index n = 0; n < s.nodes.size(); ++n) {
    auto const& p = *s.nodes[n];
    bool const plain = p.attribute().empty() && !needs_onnx_body(p) && !p.op_type().empty() &&
                       imported.contains(onnx_domain_of(p.domain()));
    if (plain) continue;  // labels cost more than checks
    if (auto f = find_onnx_node_fault(p, s.label(n), imported, in_function)) return f;
  }
  for (auto const& scope : s.scopes) {
    if (scope.graph == nullptr) continue;
    for (auto const& t : scope.graph->initializer())
      if (auto f = find_onnx_tensor_fault(t, "initializer " + quoted(t.name()), t.name())) return f;
    for (auto const& t : scope.graph->sparse_initializer())
      if (auto f = find_onnx_tensor_fault(t, "initializer " + quoted(t.values().name()), t.values().name()))
        return f;
    for (auto const* list : {&scope.graph->input(), &scope.graph->output(), &scope.graph->value_info()})
      for (auto const& v : *list)
        if (auto f = find_onnx_type_fault(v.type(), v.name())) return f;
  }
  return std::nullopt;
}

/// A cycle of functions that call each other, or too much that calls stand for.
inline std::optional<onnx_fault> find_onnx_call_fault(onnx::ModelProto const& model,
                                                      onnx_limits const& limits) {
  if (model.functions().empty()) return std::nullopt;
  std::unordered_map<std::string, std::size_t> number;
  for (auto const& f : model.functions()) {
    if (f.name().empty() || onnx_domain_of(f.domain()).empty())
      return onnx_fault{
          onnx_fault_kind::function,
          "function " + quoted(f.name()) + " has no name, or no domain of its own; give it both",
          {f.name()}};
    if (!number.emplace(onnx_function_key(f.domain(), f.name()), number.size()).second)
      return onnx_fault{onnx_fault_kind::function,
                        "function " + quoted(f.name()) + " is there twice; remove one",
                        {f.name()}};
  }
  need_table calls;
  for (auto const& f : model.functions()) {
    each_nested_onnx_node(f.node(), [&](onnx::NodeProto const& n) {
      auto const callee = number.find(onnx_function_key(n.domain(), n.op_type()));
      if (callee != number.end()) calls.needs.add(callee->second);
    });
    calls.needs.close();
  }
  calls.needed_by = transposed(calls.needs);
  if (auto const order = ready_order(calls); order.size() < number.size()) {
    auto const cycle = cycle_outside(calls, order);
    onnx_fault f{onnx_fault_kind::function, "functions call each other for ever: ", {}};
    for (auto const i : cycle) {
      auto const& name = model.functions(static_cast<int>(i)).name();
      if (f.names.size() < 8) f.message += quoted(name) + " for ";
      f.names.push_back(name);
    }
    f.message += quoted(f.names.front()) + "; a function may not need itself";
    return f;
  }
  if (!onnx_functions_unfold(model, static_cast<double>(limits.max_inlined_nodes),
                             static_cast<int>(limits.max_call_depth)))
    return onnx_fault{onnx_fault_kind::function,
                      "calls of functions stand for more than " + std::to_string(limits.max_inlined_nodes) +
                          " nodes, or nest more than " + std::to_string(limits.max_call_depth) + " deep",
                      {}};
  return std::nullopt;
}

/// The first thing that is wrong with a model, by this library's own rules: libonnx's checker is not asked,
/// for it accepts outputs that nobody makes, tensors of the wrong size and paths out of the model's folder.
///
/// Refused: what `onnx_fault_kind` lists, anywhere in the model: bodies, functions and attributes included.
/// Accepted, though odd: nodes in any order in the graph itself (`onnx_graph` sorts them); nodes that make
/// nothing or lack an operand (structure needs no operator's definition); unknown operators and opset
/// versions of imported domains; names that are no UTF-8; negative dimensions (unknown); shapes that
/// contradict each other; external data that is not there. Training information is not looked at. O(size log
/// size); no recursion; no allocation follows a number in the file.
inline std::optional<onnx_fault> find_onnx_fault(onnx::ModelProto const& model,
                                                 onnx_limits const& limits = {}) {
  using kind = onnx_fault_kind;
  if (!model.has_graph()) return onnx_fault{kind::empty, "the model has no graph; export it again", {}};
  if (model.ir_version() < 3)
    return onnx_fault{kind::version,
                      "IR version " + std::to_string(model.ir_version()) +
                          " is missing or from before 2017; versions from 3 are read, convert the model",
                      {}};
  onnx_domains imported;
  if (auto f = import_onnx_domains(model.opset_import(), "the model", imported)) return f;
  if (imported.empty())
    return onnx_fault{kind::version,
                      "the model imports no operator set; add opset_import with the version it was made for",
                      {}};

  auto const scopes = read_onnx_scopes(model.graph(), limits);
  if (scopes.fault) return scopes.fault;
  if (auto f = find_onnx_content_fault(scopes, imported)) return f;
  if (auto f = find_onnx_call_fault(model, limits)) return f;
  for (auto const& function : model.functions()) {
    auto const inside = [&](std::optional<onnx_fault> f) {
      if (f) f->message = "function " + quoted(function.name()) + ": " + f->message;
      return f;
    };
    auto domains = imported;
    if (auto f = inside(import_onnx_domains(function.opset_import(), "the function", domains))) return f;
    auto const body = read_onnx_scopes(function, limits);
    if (auto f = inside(body.fault)) return f;
    if (auto f = inside(find_onnx_content_fault(body, domains))) return f;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// \throws onnx_error where `find_onnx_fault` finds a fault.
inline void check_onnx(onnx::ModelProto const& model, onnx_limits const& limits = {}) {
  if (auto const fault = detail::find_onnx_fault(model, limits)) throw onnx_error(*fault);
}

}  // namespace cleave
