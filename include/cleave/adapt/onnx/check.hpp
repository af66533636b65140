// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cleave/adapt/onnx/detail/constant.hpp"
#include "cleave/adapt/onnx/detail/functions.hpp"
#include "cleave/adapt/onnx/detail/read_scopes.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "cleave/graph/order.hpp"

namespace cleave::inline v0_2::detail {

/// The domains that a model or function imports. ONNX's own domain is the empty text.
using onnx_domains = std::set<std::string, std::less<>>;

/// Returns a domain as in `onnx_domains`: `ai.onnx` is another spelling of the empty domain.
inline std::string_view onnx_domain_of(std::string_view written) {
  return written == "ai.onnx" ? std::string_view() : written;
}

/// Returns the first fault of an attribute, including its tensors, or nothing. `node` is the node's name in
/// messages.
inline std::optional<onnx::fault> find_onnx_attribute_fault(::onnx::AttributeProto const& a,
                                                            std::string const& node) {
  using kind = onnx::fault_kind;
  using proto = ::onnx::AttributeProto;
  auto const what = "attribute " + quoted(a.name()) + " of " + node;
  auto const fault = [&](char const* why) { return onnx::fault{kind::attribute, what + why, {a.name()}}; };
  if (a.name().empty()) return onnx::fault{kind::attribute, node + " has an attribute without a name", {""}};

  struct message_field {
    proto::AttributeType type;
    bool present;
  };
  message_field const fields[] = {{proto::TENSOR, a.has_t()},
                                  {proto::GRAPH, a.has_g()},
                                  {proto::SPARSE_TENSOR, a.has_sparse_tensor()},
                                  {proto::TYPE_PROTO, a.has_tp()},
                                  {proto::TENSORS, !a.tensors().empty()},
                                  {proto::GRAPHS, !a.graphs().empty()},
                                  {proto::SPARSE_TENSORS, !a.sparse_tensors().empty()},
                                  {proto::TYPE_PROTOS, !a.type_protos().empty()}};
  std::size_t present = 0;
  for (auto const& f : fields) {
    present += f.present;
    bool const list = f.type == proto::TENSORS || f.type == proto::GRAPHS ||
                      f.type == proto::SPARSE_TENSORS || f.type == proto::TYPE_PROTOS;
    bool const promised = a.type() == f.type;
    if (promised && !f.present && !list && a.ref_attr_name().empty())
      return fault(" has no value of its declared type; export the model again");
    if (f.present && !promised && a.type() != proto::UNDEFINED)
      return fault(" has a value that is not of its declared type; export the model again");
  }
  if (present > 1) return fault(" has several values; export the model again");
  auto const tensor_fault = [&](auto const& t, std::string const& name) {
    auto f = find_onnx_tensor_fault(t, "the tensor in " + what, name);
    if (f) f->names.push_back(a.name());
    return f;
  };
  if (a.has_t())
    if (auto f = tensor_fault(a.t(), a.t().name())) return f;
  for (auto const& t : a.tensors())
    if (auto f = tensor_fault(t, t.name())) return f;
  if (a.has_sparse_tensor())
    if (auto f = tensor_fault(a.sparse_tensor(), a.sparse_tensor().values().name())) return f;
  for (auto const& t : a.sparse_tensors())
    if (auto f = tensor_fault(t, t.values().name())) return f;
  return std::nullopt;
}

/// Returns true if the operator of `n` must have bodies.
inline bool needs_onnx_body(::onnx::NodeProto const& n) {
  return is_onnx_operator(n, "If") || is_onnx_operator(n, "Loop") || is_onnx_operator(n, "Scan") ||
         is_onnx_operator(n, "SequenceMap");
}

/// Returns the first fault of the bodies of a node whose operator needs some: one is missing, or has a
/// different number of inputs or outputs than the node.
inline std::optional<onnx::fault> find_onnx_body_fault(::onnx::NodeProto const& n, std::string const& node) {
  auto const fault = [&](std::string const& why) {
    std::vector<std::string> names(n.output().begin(), n.output().end());
    names.push_back(n.name());
    return onnx::fault{onnx::fault_kind::subgraph, node + why, names};
  };
  auto const body = [&](std::string_view name) -> ::onnx::GraphProto const* {
    for (auto const& a : n.attribute())
      if (a.name() == name && a.has_g()) return &a.g();
    return nullptr;
  };
  if (!needs_onnx_body(n)) return std::nullopt;
  for (auto const& a : n.attribute())
    if (!a.ref_attr_name().empty()) return std::nullopt;  // the caller of a function provides it
  if (is_onnx_operator(n, "If")) {
    for (auto const* name : {"then_branch", "else_branch"}) {
      auto const* b = body(name);
      if (b == nullptr) return fault(std::string(" has no ") + name + "; an If needs both branches");
      if (b->input_size() != 0 || b->output_size() != n.output_size())
        return fault(std::string(": its ") + name + " takes " + std::to_string(b->input_size()) +
                     " and returns " + std::to_string(b->output_size()) + " values, the node needs 0 and " +
                     std::to_string(n.output_size()));
    }
    if (n.input_size() != 1)
      return fault(" has " + std::to_string(n.input_size()) + " inputs; an If must have one");
  } else if (is_onnx_operator(n, "Loop")) {
    auto const* b = body("body");
    if (b == nullptr) return fault(" has no body; a Loop needs one");
    if (n.input_size() < 2 || b->input_size() != n.input_size() || b->output_size() != n.output_size() + 1)
      return fault(": its body takes " + std::to_string(b->input_size()) + " and returns " +
                   std::to_string(b->output_size()) + " values, the node has " +
                   std::to_string(n.input_size()) + " and " + std::to_string(n.output_size()) +
                   "; a Loop's body must take as many values as the node (two or more) and return one more");
  } else if (body("body") == nullptr) {
    return fault(" has no body; a " + n.op_type() + " needs one");
  }
  return std::nullopt;
}

/// Returns the first fault of a node in isolation, or nothing. `in_function` allows attributes that the
/// caller of a function provides.
inline std::optional<onnx::fault> find_onnx_node_fault(::onnx::NodeProto const& n, std::string const& node,
                                                       onnx_domains const& imported, bool in_function) {
  using kind = onnx::fault_kind;
  auto const made = [&] { return std::vector<std::string>(n.output().begin(), n.output().end()); };
  if (n.op_type().empty())
    return onnx::fault{kind::node, node + " has no operator; export the model again", made()};
  if (!imported.contains(onnx_domain_of(n.domain())))
    return onnx::fault{kind::operation,
                       node + " is of domain " + quoted(n.domain()) +
                           ", which the model does not import; add it to opset_import",
                       {n.domain(), n.op_type()}};
  std::set<std::string_view> seen;
  for (auto const& a : n.attribute()) {
    if (auto f = find_onnx_attribute_fault(a, node)) return f;
    if (!seen.insert(a.name()).second)
      return onnx::fault{
          kind::attribute, node + " has two attributes " + quoted(a.name()) + "; keep one", {a.name()}};
    if (!a.ref_attr_name().empty() && !in_function)
      return onnx::fault{kind::attribute,
                         "attribute " + quoted(a.name()) + " of " + node +
                             " refers to an argument of a function, but is not in a function",
                         {a.name()}};
  }
  return find_onnx_body_fault(n, node);
}

/// Adds the domains of a list of imports to `imported`. Returns a fault if a domain has no version, or two.
template <class Imports>
std::optional<onnx::fault> import_onnx_domains(Imports const& imports, std::string const& who,
                                               onnx_domains& imported) {
  std::map<std::string, std::int64_t> versions;
  for (auto const& i : imports) {
    auto const domain = std::string(onnx_domain_of(i.domain()));
    auto const [at, fresh] = versions.emplace(domain, i.version());
    if (i.version() < 1 || at->second != i.version())
      return onnx::fault{
          onnx::fault_kind::version,
          who + " imports domain " + quoted(i.domain()) + " in version " + std::to_string(i.version()) +
              (fresh ? "; versions begin at 1" : " and in version " + std::to_string(at->second)),
          {i.domain()}};
    imported.insert(domain);
  }
  return std::nullopt;
}

/// Returns the first fault of the nodes, tensors and types of a graph or function whose names are valid.
inline std::optional<onnx::fault> find_onnx_content_fault(onnx_scopes const& s,
                                                          onnx_domains const& imported) {
  bool const in_function = s.scopes.front().graph == nullptr;
  for (onnx_scopes::index n = 0; n < s.nodes.size(); ++n) {
    auto const& p = *s.nodes[n];
    bool const plain = p.attribute().empty() && !needs_onnx_body(p) && !p.op_type().empty() &&
                       imported.contains(onnx_domain_of(p.domain()));
    if (plain) continue;  // making a label costs more than the checks
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

/// Returns a fault if functions call each other in a cycle, or calls expand to too many nodes.
inline std::optional<onnx::fault> find_onnx_call_fault(::onnx::ModelProto const& model,
                                                       onnx::limits const& limits) {
  if (model.functions().empty()) return std::nullopt;
  std::unordered_map<std::string, std::size_t> number;
  for (auto const& f : model.functions()) {
    if (f.name().empty() || onnx_domain_of(f.domain()).empty())
      return onnx::fault{
          onnx::fault_kind::function,
          "function " + quoted(f.name()) + " has no name, or no domain of its own; give it both",
          {f.name()}};
    if (!number.emplace(onnx_function_key(f.domain(), f.name()), number.size()).second)
      return onnx::fault{onnx::fault_kind::function,
                         "function " + quoted(f.name()) + " is defined twice; remove one",
                         {f.name()}};
  }
  dependency_table calls;
  for (auto const& f : model.functions()) {
    each_nested_onnx_node(f.node(), [&](::onnx::NodeProto const& n) {
      auto const callee = number.find(onnx_function_key(n.domain(), n.op_type()));
      if (callee != number.end()) calls.predecessors.add(callee->second);
    });
    calls.predecessors.close();
  }
  calls.successors = transposed(calls.predecessors);
  if (auto const order = ready_order(calls); order.size() < number.size()) {
    auto const cycle = cycle_outside(calls, order);
    onnx::fault f{onnx::fault_kind::function, "functions call each other in a cycle: ", {}};
    for (auto const i : cycle) {
      auto const& name = model.functions(static_cast<int>(i)).name();
      if (f.names.size() < 8) f.message += quoted(name) + " calls ";
      f.names.push_back(name);
    }
    f.message += quoted(f.names.front()) + "; a function must not call itself";
    return f;
  }
  if (!onnx_functions_unfold(model, static_cast<double>(limits.max_inlined_nodes),
                             static_cast<int>(limits.max_call_depth)))
    return onnx::fault{onnx::fault_kind::function,
                       "calls of functions expand to more than " + std::to_string(limits.max_inlined_nodes) +
                           " nodes, or nest more than " + std::to_string(limits.max_call_depth) + " deep",
                       {}};
  return std::nullopt;
}

/// Returns the first fault of a model by this library's own rules, or nothing. libonnx's checker is not used:
/// it accepts outputs that no node makes, tensors of the wrong size, and paths out of the model's folder.
///
/// Rejected are all faults of `onnx::fault_kind`, anywhere in the model, including bodies, functions and
/// attributes. Accepted are:
/// - nodes of the graph itself in any order (`onnx::graph` sorts them),
/// - nodes without results or with a missing operand (checking structure needs no operator definitions),
/// - unknown operators and opset versions of imported domains,
/// - names that are not UTF-8,
/// - negative dimensions, which mean unknown,
/// - shapes that contradict each other,
/// - external data that does not exist.
///
/// Training information is ignored. O(size log size), without recursion. No number in the file determines an
/// allocation.
inline std::optional<onnx::fault> find_onnx_fault(::onnx::ModelProto const& model,
                                                  onnx::limits const& limits = {}) {
  using kind = onnx::fault_kind;
  if (!model.has_graph()) return onnx::fault{kind::empty, "the model has no graph; export it again", {}};
  if (model.ir_version() < 3)
    return onnx::fault{
        kind::version,
        "IR version " + std::to_string(model.ir_version()) +
            " is missing or older than 2017; the oldest supported version is 3, convert the model",
        {}};
  onnx_domains imported;
  if (auto f = import_onnx_domains(model.opset_import(), "the model", imported)) return f;
  if (imported.empty())
    return onnx::fault{kind::version,
                       "the model imports no operator set; add opset_import with the version it was made for",
                       {}};

  auto const scopes = read_onnx_scopes(model.graph(), limits);
  if (scopes.fault) return scopes.fault;
  if (auto f = find_onnx_content_fault(scopes, imported)) return f;
  if (auto f = find_onnx_call_fault(model, limits)) return f;
  for (auto const& function : model.functions()) {
    auto const inside = [&](std::optional<onnx::fault> f) {
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

namespace cleave::inline v0_2::onnx {

/// Checks a model. \throws onnx::error if `find_onnx_fault` finds a fault
inline void check(::onnx::ModelProto const& model, onnx::limits const& limits = {}) {
  if (auto const fault = detail::find_onnx_fault(model, limits)) throw error(*fault);
}

}  // namespace cleave::onnx
