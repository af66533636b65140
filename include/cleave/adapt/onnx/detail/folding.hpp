// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/constant.hpp"
#include "cleave/adapt/onnx/detail/flops.hpp"
#include "cleave/core/language.hpp"

namespace cleave::detail {

/// A small tensor of integers or booleans, as used in computing shapes. Some elements may be unknown.
struct onnx_integers {
  static constexpr std::int64_t unknown = (std::numeric_limits<std::int64_t>::min)();
  static constexpr std::size_t most = 1024;

  int element = ::onnx::TensorProto::INT64;  ///< `onnx::TensorProto::DataType`
  std::vector<std::int64_t> dims{};
  std::vector<std::int64_t> data{};

  bool known() const { return std::ranges::find(data, unknown) == data.end(); }
};

/// Returns the elements of a tensor if it is small and has integers or booleans.
inline std::optional<onnx_integers> onnx_integers_of(::onnx::TensorProto const& t) {
  using type = ::onnx::TensorProto;
  bool const wide = t.data_type() == type::INT64;
  if (!wide && t.data_type() != type::INT32 && t.data_type() != type::BOOL) return std::nullopt;
  std::size_t elements = 1;
  for (auto const d : t.dims()) {
    if (d < 0 || d > static_cast<std::int64_t>(onnx_integers::most)) return std::nullopt;
    elements *= static_cast<std::size_t>(d);
    if (elements > onnx_integers::most) return std::nullopt;
  }
  onnx_integers made{t.data_type(), {t.dims().begin(), t.dims().end()}, {}};
  if (t.has_raw_data()) {
    std::size_t const each = wide ? 8 : t.data_type() == type::INT32 ? 4 : 1;
    if (t.raw_data().size() != elements * each) return std::nullopt;
    for (std::size_t i = 0; i < elements; ++i) {
      auto const* at = t.raw_data().data() + i * each;
      std::int64_t x = 0;
      std::int32_t half = 0;
      if (wide)
        std::memcpy(&x, at, 8);
      else if (each == 4)
        std::memcpy(&half, at, 4), x = half;
      else
        x = *at != 0;
      made.data.push_back(x);
    }
  } else if (wide) {
    made.data.assign(t.int64_data().begin(), t.int64_data().end());
  } else {
    made.data.assign(t.int32_data().begin(), t.int32_data().end());
  }
  return made.data.size() == elements ? std::optional(std::move(made)) : std::nullopt;
}

/// Returns a Constant node with these elements.
inline ::onnx::NodeProto onnx_constant_node(std::string const& result, onnx_integers const& value) {
  ::onnx::NodeProto n;
  n.set_op_type("Constant");
  n.add_output(result);
  auto& a = *n.add_attribute();
  a.set_name("value");
  a.set_type(::onnx::AttributeProto::TENSOR);
  auto& t = *a.mutable_t();
  t.set_data_type(value.element);
  t.mutable_dims()->Assign(value.dims.begin(), value.dims.end());
  t.mutable_int64_data()->Assign(value.data.begin(), value.data.end());
  return n;
}

/// Evaluates the shape arithmetic that exporters write (Shape, Gather, Concat, Where, …), if it does not
/// depend on data of a run.
class onnx_shape_arithmetic {
 public:
  /// Returns the result of `n`, or nothing. `type_of(name)` is a value's type, or null.
  template <class TypeOf>
  std::optional<onnx_integers> operator()(::onnx::NodeProto const& n, TypeOf type_of) const {
    if (!n.domain().empty() && n.domain() != "ai.onnx") return std::nullopt;
    if (n.op_type() == "Constant") {
      auto const t = onnx_constant_tensor(n);
      return t == nullptr ? std::nullopt : onnx_integers_of(*t);
    }
    if (n.op_type() == "Shape") return n.input_size() == 1 ? shape(n, type_of(n.input(0))) : std::nullopt;
    auto const rule = std::ranges::find(rules, n.op_type(), &entry::name);
    if (rule == rules.end()) return std::nullopt;
    std::vector<onnx_integers const*> operands;
    for (auto const& name : n.input()) {
      auto const at = values_.find(name);
      if (at == values_.end()) return std::nullopt;
      operands.push_back(&at->second);
    }
    if (operands.size() < rule->least || operands.size() > rule->most) return std::nullopt;
    auto made = rule->evaluate(n, operands);
    return made && made->data.size() <= onnx_integers::most ? made : std::nullopt;
  }

  /// Records the elements of a value.
  void define(std::string const& name, onnx_integers value) {
    values_.insert_or_assign(name, std::move(value));
  }

 private:
  using integers = onnx_integers;
  using optional = std::optional<integers>;
  using list = std::vector<integers const*>;
  using node = ::onnx::NodeProto;
  struct entry {
    std::string_view name;
    std::size_t least, most;  ///< smallest and largest number of operands
    optional (*evaluate)(node const&, list const&);
  };

  static std::int64_t attribute(node const& n, std::string_view name, std::int64_t otherwise) {
    auto const* a = find_onnx_attribute(n, name);
    return a == nullptr ? otherwise : a->i();
  }

  static optional shape(node const& n, ::onnx::TypeProto const* type) {
    if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return std::nullopt;
    auto const& dims = type->tensor_type().shape().dim();
    auto const place = [&](std::int64_t i) {
      return std::clamp<std::int64_t>(i < 0 ? i + dims.size() : i, 0, dims.size());
    };
    integers made;
    for (auto i = place(attribute(n, "start", 0)), end = place(attribute(n, "end", dims.size())); i < end;
         ++i) {
      auto const& d = dims[static_cast<int>(i)];
      made.data.push_back(d.has_dim_value() && d.dim_value() >= 0 ? d.dim_value() : integers::unknown);
    }
    made.dims = {static_cast<std::int64_t>(made.data.size())};
    return made;
  }

  static optional gather(node const& n, list const& in) {
    auto const &from = *in[0], &at = *in[1];
    if (from.dims.size() != 1 || at.dims.size() > 1 || attribute(n, "axis", 0) > 0) return std::nullopt;
    auto const size = from.dims[0];
    integers made{from.element, at.dims, {}};
    for (auto const i : at.data) {
      if (i == integers::unknown || i < -size || i >= size) return std::nullopt;
      made.data.push_back(from.data[static_cast<std::size_t>(i < 0 ? i + size : i)]);
    }
    return made;
  }

  static optional concat(node const&, list const& in) {
    integers made{in[0]->element, {0}, {}};
    for (auto const* part : in) {
      if (part->dims.size() != 1) return std::nullopt;
      made.data.insert(made.data.end(), part->data.begin(), part->data.end());
    }
    made.dims[0] = static_cast<std::int64_t>(made.data.size());
    return made;
  }

  static optional slice(node const&, list const& in) {
    auto const one = [&](std::size_t i, std::int64_t otherwise) -> std::optional<std::int64_t> {
      if (i >= in.size()) return otherwise;
      return in[i]->data.size() == 1 && in[i]->known() ? std::optional(in[i]->data[0]) : std::nullopt;
    };
    auto const& from = *in[0];
    auto start = one(1, 0), end = one(2, 0), axis = one(3, 0), step = one(4, 1);
    if (from.dims.size() != 1 || !start || !end || !axis || !step || *axis > 0 || *step != 1)
      return std::nullopt;
    auto const size = from.dims[0];
    auto const place = [&](std::int64_t i) {
      return std::clamp<std::int64_t>(i < 0 ? i + size : i, 0, size);
    };
    auto const first = place(*start), last = (std::max)(first, place(*end));
    return integers{from.element, {last - first}, {from.data.begin() + first, from.data.begin() + last}};
  }

  /// Unsqueeze of a scalar; shapes need no other case.
  static optional unsqueeze(node const&, list const& in) {
    if (!in[0]->dims.empty()) return std::nullopt;
    return integers{in[0]->element, {1}, in[0]->data};
  }
  static optional squeeze(node const&, list const& in) {
    if (in[0]->data.size() != 1) return std::nullopt;
    return integers{in[0]->element, {}, in[0]->data};
  }
  static optional reshape(node const&, list const& in) {
    if (in[1]->data.size() != 1 || !in[1]->known()) return std::nullopt;
    auto const size = static_cast<std::int64_t>(in[0]->data.size());
    if (in[1]->data[0] != -1 && in[1]->data[0] != size) return std::nullopt;
    return integers{in[0]->element, {size}, in[0]->data};
  }
  static optional identity(node const&, list const& in) { return *in[0]; }

  static optional cast(node const& n, list const& in) {
    using type = ::onnx::TensorProto;
    auto made = *in[0];
    made.element = static_cast<int>(attribute(n, "to", 0));
    if (made.element == type::BOOL)
      for (auto& x : made.data) x = x == integers::unknown ? x : x != 0;
    bool const whole =
        made.element == type::INT64 || made.element == type::INT32 || made.element == type::BOOL;
    return whole ? optional(made) : std::nullopt;
  }

  static optional filled(node const& n, list const& in) {
    integers made{::onnx::TensorProto::FLOAT, in[0]->data, {}};
    std::int64_t value = 0;
    if (auto const* a = find_onnx_attribute(n, "value"); a != nullptr && a->has_t()) {
      auto const given = onnx_integers_of(a->t());
      if (!given || given->data.size() != 1) return std::nullopt;
      made.element = given->element;
      value = given->data[0];
    }
    if (made.element == ::onnx::TensorProto::FLOAT || !in[0]->known()) return std::nullopt;
    std::int64_t elements = 1;
    for (auto const d : made.dims)
      if (d < 0 || __builtin_mul_overflow(elements, d, &elements) ||
          elements > static_cast<std::int64_t>(integers::most))
        return std::nullopt;
    made.data.assign(static_cast<std::size_t>(elements), value);
    return made;
  }

  static optional range(node const&, list const& in) {
    for (auto const* x : in)
      if (x->data.size() != 1 || !x->known()) return std::nullopt;
    auto const start = in[0]->data[0], limit = in[1]->data[0], step = in[2]->data[0];
    std::int64_t span = 0;
    if (step <= 0 || __builtin_sub_overflow(limit, start, &span) ||
        span / step >= static_cast<std::int64_t>(integers::most))
      return std::nullopt;
    integers made{in[0]->element, {0}, {}};
    for (std::int64_t x = start; x < limit; x += step) made.data.push_back(x);
    made.dims[0] = static_cast<std::int64_t>(made.data.size());
    return made;
  }

  /// Applies `f` element by element; an operand with a single element is broadcast.
  template <auto f, int element = 0>
  static optional binary(node const&, list const& in) {
    auto const &a = *in[0], &b = *in[1];
    if (a.dims != b.dims && a.data.size() != 1 && b.data.size() != 1) return std::nullopt;
    auto const& larger =
        a.data.size() > b.data.size() || (a.data.size() == b.data.size() && a.dims.size() > b.dims.size())
            ? a
            : b;
    integers made{element != 0 ? element : a.element, larger.dims, {}};
    for (std::size_t i = 0; i < larger.data.size(); ++i) {
      auto const x = a.data[a.data.size() == 1 ? 0 : i], y = b.data[b.data.size() == 1 ? 0 : i];
      made.data.push_back(x == integers::unknown || y == integers::unknown ? integers::unknown : f(x, y));
    }
    return made;
  }

  static optional where(node const&, list const& in) {
    auto const &c = *in[0], &a = *in[1], &b = *in[2];
    if (c.dims != a.dims || a.dims != b.dims) return std::nullopt;
    integers made{a.element, a.dims, {}};
    for (std::size_t i = 0; i < c.data.size(); ++i)
      made.data.push_back(c.data[i] == integers::unknown ? c.data[i]
                          : c.data[i] != 0               ? a.data[i]
                                                         : b.data[i]);
    return made;
  }

  static std::int64_t add(std::int64_t x, std::int64_t y) {
    return __builtin_add_overflow(x, y, &x) ? integers::unknown : x;
  }
  static std::int64_t subtract(std::int64_t x, std::int64_t y) {
    return __builtin_sub_overflow(x, y, &x) ? integers::unknown : x;
  }
  static std::int64_t multiply(std::int64_t x, std::int64_t y) {
    return __builtin_mul_overflow(x, y, &x) ? integers::unknown : x;
  }
  static std::int64_t divide(std::int64_t x, std::int64_t y) { return y <= 0 ? integers::unknown : x / y; }
  static std::int64_t equal(std::int64_t x, std::int64_t y) { return x == y; }

  static constexpr int truth = ::onnx::TensorProto::BOOL;
  static constexpr std::array<entry, 16> rules = {{{"Gather", 2, 2, gather},
                                                   {"Concat", 1, 1000, concat},
                                                   {"Slice", 3, 5, slice},
                                                   {"Unsqueeze", 1, 2, unsqueeze},
                                                   {"Squeeze", 1, 2, squeeze},
                                                   {"Reshape", 2, 2, reshape},
                                                   {"Identity", 1, 1, identity},
                                                   {"Cast", 1, 1, cast},
                                                   {"ConstantOfShape", 1, 1, filled},
                                                   {"Range", 3, 3, range},
                                                   {"Add", 2, 2, binary<add>},
                                                   {"Sub", 2, 2, binary<subtract>},
                                                   {"Mul", 2, 2, binary<multiply>},
                                                   {"Div", 2, 2, binary<divide>},
                                                   {"Equal", 2, 2, binary<equal, truth>},
                                                   {"Where", 3, 3, where}}};

  std::unordered_map<std::string, onnx_integers> values_;
};

}  // namespace cleave::detail
