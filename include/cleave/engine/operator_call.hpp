// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/engine/model_value.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2::detail {

/// The reason why a call of an operator cannot be computed.
struct operator_fault {
  enum class kind : std::uint8_t {
    unknown,      ///< there is no such operator
    no_backward,  ///< the operator has no backward function, but a gradient must pass it
    no_operand,   ///< operand `operand` is missing
    no_tensor,    ///< operand `operand` is not a tensor
    no_number,    ///< operand `operand` is not a number, or not a whole one
    no_results,   ///< the backward function returns other than one gradient for each tensor operand
    failed,       ///< the operator threw an exception, whose text is `text`
  };
  kind what;
  std::string node, target;
  std::string operand = {};  ///< its position or keyword
  std::string text = {};     ///< for `unknown`, similar names

  bool operator==(operator_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(operator_fault const& f) {
  using enum operator_fault::kind;
  auto const node = "node " + quoted(f.node), call = node + ": operator " + quoted(f.target);
  switch (f.what) {
    case unknown:
      return node + ": there is no operator " + quoted(f.target) + f.text + "; add it";
    case no_backward:
      return call + " has no backward function, but a parameter needs a gradient through it; add one";
    case no_operand:
      return call + " lacks operand " + f.operand;
    case no_tensor:
      return call + ": operand " + f.operand + " is not a tensor";
    case no_number:
      return call + ": operand " + f.operand + " is not a number of the kind that is needed";
    case no_results:
      return call + ": its backward function must return one gradient for each operand that is a tensor";
    case failed:
      return call + " failed: " + f.text;
  }
  return {};
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if a call of an operator cannot be computed. Carries the node and the reason.
using operator_error = fault_error<detail::operator_fault>;

/// A parameter or buffer of a module that is called as one operator.
template <class Tensor>
struct module_tensor {
  std::string name;  ///< in the module, such as `weight`
  Tensor tensor;
};

/// A call of an operator in a run of a model: the node, and the values of its arguments. Operands are found
/// by position or by keyword.
template <class Tensor>
struct operator_call {
  module_node const& node;
  std::span<model_value<Tensor> const> args;          ///< parallel to `node.args`
  std::span<model_value<Tensor> const> kwargs;        ///< parallel to `node.kwargs`
  std::span<module_tensor<Tensor> const> state = {};  ///< of a module (`node_kind::call_module`): its tensors

  std::string const& target() const { return node.target; }

  /// Returns operand number `at`, or the one with that keyword, or null if both are missing.
  model_value<Tensor> const* find(std::size_t at, std::string_view keyword = {}) const {
    if (at < args.size()) return &args[at];
    for (std::size_t i = 0; i < kwargs.size(); ++i)
      if (node.kwargs[i].key == keyword) return &kwargs[i];
    return nullptr;
  }
  /// As `find`. \throws operator_error if the operand is missing
  model_value<Tensor> const& operand(std::size_t at, std::string_view keyword = {}) const {
    auto const* found = find(at, keyword);
    if (!found) fail(detail::operator_fault::kind::no_operand, at, keyword);
    return *found;
  }
  /// Returns an operand that is a tensor. \throws operator_error if it is not
  Tensor const& tensor(std::size_t at, std::string_view keyword = {}) const {
    auto const* found = operand(at, keyword).tensor();
    if (!found) fail(detail::operator_fault::kind::no_tensor, at, keyword);
    return *found;
  }
  /// Returns a tensor of the called module by its name there, or null.
  Tensor const* find_state(std::string_view name) const {
    for (auto const& t : state)
      if (t.name == name) return &t.tensor;
    return nullptr;
  }
  /// Returns an operand that is a whole number, or `otherwise` if it is missing or null.
  /// \throws operator_error if it is another value, or missing without `otherwise`
  std::int64_t integer(std::size_t at, std::string_view keyword = {},
                       std::optional<std::int64_t> otherwise = {}) const {
    auto const* found = find(at, keyword);
    if (otherwise && (!found || found->is_null())) return *otherwise;
    auto const* c = operand(at, keyword).constant();
    if (auto const* i = c ? std::get_if<std::int64_t>(c) : nullptr) return *i;
    if (auto const* b = c ? std::get_if<bool>(c) : nullptr) return *b ? 1 : 0;
    fail(detail::operator_fault::kind::no_number, at, keyword);
  }
  /// Returns an operand that is a number, as for `integer`.
  double number(std::size_t at, std::string_view keyword = {}, std::optional<double> otherwise = {}) const {
    auto const* found = find(at, keyword);
    if (otherwise && (!found || found->is_null())) return *otherwise;
    auto const* c = operand(at, keyword).constant();
    if (auto const* d = c ? std::get_if<double>(c) : nullptr) return *d;
    return static_cast<double>(integer(at, keyword));
  }

 private:
  [[noreturn]] void fail(detail::operator_fault::kind what, std::size_t at, std::string_view keyword) const {
    auto const place = "#" + std::to_string(at);
    throw operator_error({what,
                          node.name,
                          node.target,
                          keyword.empty() ? place : place + " (" + std::string(keyword) + ")",
                          {}});
  }
};

}  // namespace cleave
