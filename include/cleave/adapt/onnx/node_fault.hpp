// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/adapt/onnx/constant.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/tensor_fault.hpp"

namespace cleave::detail {

/// The domains that a model or function imports; ONNX's own is the empty one.
using onnx_domains = std::set<std::string, std::less<>>;

/// A domain as `onnx_domains` has it: `ai.onnx` is another spelling of the empty one.
inline std::string_view onnx_domain_of(std::string_view written) {
  return written == "ai.onnx" ? std::string_view() : written;
}

/// What is wrong with an attribute, tensors included; `node` is how messages call its node.
inline std::optional<onnx_fault> find_onnx_attribute_fault(onnx::AttributeProto const& a,
                                                           std::string const& node) {
  using kind = onnx_fault_kind;
  using proto = onnx::AttributeProto;
  auto const what = "attribute " + quoted(a.name()) + " of " + node;
  auto const fault = [&](char const* why) { return onnx_fault{kind::attribute, what + why, {a.name()}}; };
  if (a.name().empty()) return onnx_fault{kind::attribute, node + " has an attribute without a name", {""}};

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
      return fault(" has no value of the type that it claims; export the model again");
    if (f.present && !promised && a.type() != proto::UNDEFINED)
      return fault(" has a value that is not of the type it claims; export the model again");
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

/// Whether `n` is of an operator that must have bodies.
inline bool needs_onnx_body(onnx::NodeProto const& n) {
  return is_onnx_operator(n, "If") || is_onnx_operator(n, "Loop") || is_onnx_operator(n, "Scan") ||
         is_onnx_operator(n, "SequenceMap");
}

/// What is wrong with the bodies of an operator that must have some: that one is missing, or takes or returns
/// another number of values than its node.
inline std::optional<onnx_fault> find_onnx_body_fault(onnx::NodeProto const& n, std::string const& node) {
  auto const fault = [&](std::string const& why) {
    std::vector<std::string> names(n.output().begin(), n.output().end());
    names.push_back(n.name());
    return onnx_fault{onnx_fault_kind::subgraph, node + why, names};
  };
  auto const body = [&](std::string_view name) -> onnx::GraphProto const* {
    for (auto const& a : n.attribute())
      if (a.name() == name && a.has_g()) return &a.g();
    return nullptr;
  };
  if (!needs_onnx_body(n)) return std::nullopt;
  for (auto const& a : n.attribute())
    if (!a.ref_attr_name().empty()) return std::nullopt;  // the caller of a function gives it
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
      return fault(" has " + std::to_string(n.input_size()) + " inputs; an If has one");
  } else if (is_onnx_operator(n, "Loop")) {
    auto const* b = body("body");
    if (b == nullptr) return fault(" has no body");
    if (n.input_size() < 2 || b->input_size() != n.input_size() || b->output_size() != n.output_size() + 1)
      return fault(": its body takes " + std::to_string(b->input_size()) + " and returns " +
                   std::to_string(b->output_size()) + " values, the node has " +
                   std::to_string(n.input_size()) + " and " + std::to_string(n.output_size()) +
                   "; a Loop's body takes as many (two or more) and returns one more");
  } else if (body("body") == nullptr) {
    return fault(" has no body");
  }
  return std::nullopt;
}

/// What is wrong with a node taken by itself. `in_function` allows attributes that the caller of a function
/// gives.
inline std::optional<onnx_fault> find_onnx_node_fault(onnx::NodeProto const& n, std::string const& node,
                                                      onnx_domains const& imported, bool in_function) {
  using kind = onnx_fault_kind;
  auto const made = [&] { return std::vector<std::string>(n.output().begin(), n.output().end()); };
  if (n.op_type().empty())
    return onnx_fault{kind::node, node + " has no operator; export the model again", made()};
  if (!imported.contains(onnx_domain_of(n.domain())))
    return onnx_fault{kind::operation,
                      node + " is of domain " + quoted(n.domain()) +
                          ", which the model does not import; add it to opset_import",
                      {n.domain(), n.op_type()}};
  std::set<std::string_view> seen;
  for (auto const& a : n.attribute()) {
    if (auto f = find_onnx_attribute_fault(a, node)) return f;
    if (!seen.insert(a.name()).second)
      return onnx_fault{
          kind::attribute, node + " has two attributes " + quoted(a.name()) + "; keep one", {a.name()}};
    if (!a.ref_attr_name().empty() && !in_function)
      return onnx_fault{kind::attribute,
                        "attribute " + quoted(a.name()) + " of " + node +
                            " refers to an argument of a function, but is in none",
                        {a.name()}};
  }
  return find_onnx_body_fault(n, node);
}

}  // namespace cleave::detail
