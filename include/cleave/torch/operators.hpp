// SPDX-License-Identifier: MIT
#pragma once
#include <ATen/core/stack.h>
#include <torch/csrc/jit/runtime/operator.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/engine/model_value.hpp"
#include "cleave/engine/operator_call.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::detail {

/// In the order of `element_type`.
inline constexpr std::array torch_element_types = {
    ::torch::kFloat32, ::torch::kFloat64, ::torch::kFloat16, ::torch::kBFloat16, ::torch::kInt64,
    ::torch::kInt32,   ::torch::kInt16,   ::torch::kInt8,    ::torch::kUInt8,    ::torch::kBool};

/// Returns the type that `text` names, such as `torch.float32` or `float`, or nothing.
inline std::optional<::torch::ScalarType> find_torch_type(std::string text) {
  if (text.starts_with("torch.")) text.erase(0, 6);
  static constexpr std::pair<char const*, ::torch::ScalarType> names[] = {
      {"float32", ::torch::kFloat32},   {"float", ::torch::kFloat32},   {"float64", ::torch::kFloat64},
      {"double", ::torch::kFloat64},    {"float16", ::torch::kFloat16}, {"half", ::torch::kFloat16},
      {"bfloat16", ::torch::kBFloat16}, {"int64", ::torch::kInt64},     {"long", ::torch::kInt64},
      {"int32", ::torch::kInt32},       {"int", ::torch::kInt32},       {"int16", ::torch::kInt16},
      {"short", ::torch::kInt16},       {"int8", ::torch::kInt8},       {"uint8", ::torch::kUInt8},
      {"bool", ::torch::kBool}};
  for (auto const& [name, type] : names)
    if (text == name) return type;
  return std::nullopt;
}

/// The name of an operator of PyTorch, and of one of its overloads, if the target of a node says it.
struct torch_operator_name {
  std::string name, overload;
};

/// Returns the operator that a node calls. `torch.ops.aten.add.Tensor`, `aten.add.Tensor`,
/// `aten::add.Tensor`, `torch.add`, `operator.add` and `add` are the same one.
inline torch_operator_name torch_operator_of(module_node const& n) {
  std::string text = n.target;
  for (std::string_view const prefix : {"torch.ops.", "aten::", "aten.", "torch.nn.functional.",
                                        "torch._C._nn.", "torch.", "_operator.", "operator.", "math."})
    if (text.starts_with(prefix)) text.erase(0, prefix.size());
  torch_operator_name made{text, {}};
  if (auto const dot = text.find('.'); dot != std::string::npos) {
    made.name = text.substr(0, dot);
    made.overload = text.substr(dot + 1);
    if (made.overload == "default") made.overload.clear();
  }
  static constexpr std::pair<char const*, char const*> others[] = {{"truediv", "div"},
                                                                   {"iadd", "add"},
                                                                   {"isub", "sub"},
                                                                   {"imul", "mul"},
                                                                   {"itruediv", "div"},
                                                                   {"invert", "bitwise_not"},
                                                                   {"cross_entropy", "cross_entropy_loss"},
                                                                   {"getitem", "select"}};
  for (auto const& [theirs, ours] : others)
    if (made.name == theirs) made.name = ours;
  return made;
}

using torch_value = model_value<::torch::Tensor>;

/// Converts a value to the type that a parameter of an operator has. Returns nothing if it has another one.
class torch_converter {
 public:
  std::optional<c10::IValue> convert(torch_value const& v, c10::TypePtr const& type,
                                     c10::Argument const& to) const {
    using c10::TypeKind;
    switch (type->kind()) {
      case TypeKind::OptionalType:
        if (v.is_null()) return c10::IValue();
        return convert(v, type->castRaw<c10::OptionalType>()->getElementType(), to);
      case TypeKind::TensorType:
        return v.tensor() ? std::optional<c10::IValue>(*v.tensor()) : std::nullopt;
      case TypeKind::ListType:
        return list(v, type->castRaw<c10::ListType>()->getElementType(), to);
      case TypeKind::NumberType:
        return number(v);
      case TypeKind::IntType:
        return integer(v, to);
      case TypeKind::FloatType:
        if (auto const* d = constant<double>(v)) return c10::IValue(*d);
        if (auto const* i = constant<std::int64_t>(v)) return c10::IValue(static_cast<double>(*i));
        return std::nullopt;
      case TypeKind::BoolType:
        if (auto const* b = constant<bool>(v)) return c10::IValue(*b);
        return std::nullopt;
      case TypeKind::StringType:
        if (auto const* s = constant<std::string>(v)) return c10::IValue(*s);
        return std::nullopt;
      case TypeKind::DeviceObjType:
        if (auto const* o = constant<opaque>(v)) return c10::IValue(c10::Device(o->text));
        if (auto const* s = constant<std::string>(v)) return c10::IValue(c10::Device(*s));
        return std::nullopt;
      default:
        return other(v, type);
    }
  }

 private:
  template <class T>
  static T const* constant(torch_value const& v) {
    return v.constant() ? std::get_if<T>(v.constant()) : nullptr;
  }
  static std::optional<c10::IValue> number(torch_value const& v) {
    if (auto const* d = constant<double>(v)) return c10::IValue(*d);
    if (auto const* i = constant<std::int64_t>(v)) return c10::IValue(*i);
    if (auto const* b = constant<bool>(v)) return c10::IValue(*b);
    return std::nullopt;
  }
  /// Types of elements, layouts and reductions are numbers too.
  static std::optional<c10::IValue> integer(torch_value const& v, c10::Argument const& to) {
    if (auto const* i = constant<std::int64_t>(v)) return c10::IValue(*i);
    auto const* o = constant<opaque>(v);
    auto const* s = constant<std::string>(v);
    if (!o && !s) return std::nullopt;
    auto const& text = o ? o->text : *s;
    if (auto const type = find_torch_type(text)) return c10::IValue(static_cast<std::int64_t>(*type));
    if (to.name() == "reduction")
      return c10::IValue(std::int64_t{text == "none" ? 0 : text == "mean" ? 1 : 2});
    if (text.ends_with("strided") || text.ends_with("contiguous_format")) return c10::IValue(std::int64_t{0});
    return std::nullopt;
  }
  std::optional<c10::IValue> list(torch_value const& v, c10::TypePtr const& element,
                                  c10::Argument const& to) const {
    c10::impl::GenericList made(element);
    auto const* c = v.outer();
    if (!c) {  // one number for all axes: `int[2] stride=1`
      auto const one = to.N() ? convert(v, element, to) : std::nullopt;
      if (!one) return std::nullopt;
      for (int i = 0; i < *to.N(); ++i) made.push_back(*one);
      return c10::IValue(made);
    }
    if (c->what != container::kind::list && c->what != container::kind::tuple) return std::nullopt;
    for (auto const& e : v.elements()) {
      auto const one = convert(e, element, to);
      if (!one) return std::nullopt;
      made.push_back(*one);
    }
    return c10::IValue(made);
  }
  /// Symbolic integers, and kinds of types that only some versions of PyTorch have.
  static std::optional<c10::IValue> other(torch_value const& v, c10::TypePtr const& type) {
    auto const text = type->str();
    if (text == "SymInt" || text == "int") {
      if (auto const* i = constant<std::int64_t>(v)) return c10::IValue(*i);
    }
    if (text == "ScalarType" || text == "Layout" || text == "MemoryFormat") {
      auto const* o = constant<opaque>(v);
      auto const known = o ? find_torch_type(o->text) : std::nullopt;
      if (known) return c10::IValue(static_cast<std::int64_t>(*known));
    }
    return std::nullopt;
  }
};

/// Returns what an operator returned.
inline torch_value from_torch(c10::IValue const& v) {
  if (v.isTensor()) return v.toTensor();
  if (v.isInt()) return token(v.toInt());
  if (v.isDouble()) return token(v.toDouble());
  if (v.isBool()) return token(v.toBool());
  if (v.isString()) return token(v.toStringRef());
  std::vector<torch_value> elements;
  if (v.isTuple())
    for (auto const& e : v.toTupleRef().elements()) elements.push_back(from_torch(e));
  else if (v.isList())
    for (auto const& e : v.toListRef()) elements.push_back(from_torch(e));
  else
    return {};
  auto const what = v.isTuple() ? container::kind::tuple : container::kind::list;
  return {container{what, static_cast<std::uint32_t>(elements.size())}, elements};
}

/// Finds and calls operators of PyTorch by their names and the types of their operands, as Python does.
class torch_operators {
 public:
  using call_type = operator_call<::torch::Tensor>;

  /// \throws operator_error if there is no operator for these operands, or if it fails
  torch_value call(call_type const& c) {
    auto& known = known_[&c.node];
    if (known)
      if (auto stack = bound(*known, c)) return run(*known, *std::move(stack), c);
    auto const name = torch_operator_of(c.node);
    auto const& all = ::torch::jit::getAllOperatorsFor(c10::Symbol::fromQualString("aten::" + name.name));
    for (bool const exactly : {true, false})
      for (auto const& o : all) {
        if ((o->schema().overload_name() == name.overload) != exactly) continue;
        if (auto stack = bound(*o, c)) {
          known = o;
          return run(*o, *std::move(stack), c);
        }
      }
    if (all.empty())
      throw operator_error({operator_fault::kind::unknown, c.node.name, c.node.target, {}, {}});
    std::string list;
    for (auto const& o : all) list += "\n  " + ::torch::jit::canonicalSchemaString(o->schema());
    throw operator_error({operator_fault::kind::failed,
                          c.node.name,
                          c.node.target,
                          {},
                          "the operands fit none of its forms:" + list});
  }

 private:
  using operation = ::torch::jit::Operator;

  /// \throws operator_error with the first line of what libtorch says
  static torch_value run(operation const& o, c10::Stack stack, call_type const& c) {
    try {
      o.getOperation()(stack);
    } catch (c10::Error const& e) {
      std::string const text = e.what_without_backtrace();
      throw operator_error(
          {operator_fault::kind::failed, c.node.name, c.node.target, {}, text.substr(0, text.find('\n'))});
    }
    if (stack.size() == 1) return from_torch(stack.front());
    std::vector<torch_value> results;
    for (auto const& v : stack) results.push_back(from_torch(v));
    return {container{container::kind::tuple, static_cast<std::uint32_t>(results.size())}, results};
  }

  /// Returns the arguments as an operator takes them, or nothing if they do not fit.
  static std::optional<c10::Stack> bound(operation const& o, call_type const& c) {
    static constexpr std::pair<char const*, char const*> keywords[] = {
        {"input", "self"}, {"training", "train"}, {"axis", "dim"}, {"keepdims", "keepdim"}, {"dim", "dims"}};
    auto const& parameters = o.schema().arguments();
    std::vector<torch_value const*> taken(parameters.size());
    std::size_t position = 0;
    for (auto const& a : c.args) {
      if (position == taken.size() || parameters[position].kwarg_only()) return std::nullopt;
      taken[position++] = &a;
    }
    for (std::size_t k = 0; k < c.kwargs.size(); ++k) {
      auto const named = [&](std::string_view name) {
        return std::ranges::find(parameters, name, [](c10::Argument const& p) { return p.name(); });
      };
      auto at = named(c.node.kwargs[k].key);
      for (auto const& [theirs, ours] : keywords)
        if (at == parameters.end() && c.node.kwargs[k].key == theirs) at = named(ours);
      if (at == parameters.end()) return std::nullopt;
      auto& place = taken[static_cast<std::size_t>(at - parameters.begin())];
      if (place) return std::nullopt;
      place = &c.kwargs[k];
    }
    c10::Stack stack;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      auto const& p = parameters[i];
      if (!taken[i]) {
        if (!p.default_value()) return std::nullopt;
        stack.push_back(*p.default_value());
        continue;
      }
      auto made = torch_converter().convert(*taken[i], p.type(), p);
      if (!made) return std::nullopt;
      stack.push_back(*std::move(made));
    }
    return stack;
  }

  std::map<module_node const*, std::shared_ptr<operation>> known_;  // by node: the operator that fitted last
};

}  // namespace cleave::detail
