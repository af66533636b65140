// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// A number that a model computes, as far as it is known before a run. A whole number or truth value lies
/// between `low` and `high`.
struct onnx_number {
  static constexpr std::int64_t lowest = (std::numeric_limits<std::int64_t>::min)();
  static constexpr std::int64_t highest = (std::numeric_limits<std::int64_t>::max)();

  std::int64_t low = lowest, high = highest;
  double real = std::numeric_limits<double>::quiet_NaN();  ///< for floating point; NaN: unknown
  std::uint32_t symbol = 0;  ///< 0, or the number of the dimension that it equals, see `onnx_symbols`

  static constexpr onnx_number of(std::int64_t x) { return {.low = x, .high = x}; }
  static constexpr onnx_number of_real(double x) { return {.real = x}; }

  bool whole() const { return low == high; }
  bool is(std::int64_t x) const { return low == x && high == x; }
  bool known() const { return whole() || real == real; }

  /// Returns true if both are the same number in every run.
  bool same(onnx_number const& other) const {
    return (whole() && other.whole() && low == other.low) || (symbol != 0 && symbol == other.symbol);
  }
};

/// A small tensor of numbers, as models compute shapes with. Its dimensions are known.
struct onnx_numbers {
  static constexpr std::size_t most = 1024;     ///< elements
  static constexpr std::size_t most_rank = 64;  ///< a chain of Gather doubles the rank in each node

  int element = ::onnx::TensorProto::INT64;  ///< `onnx::TensorProto::DataType`
  std::vector<std::int64_t> dims{};
  std::vector<onnx_number> data{};

  bool real() const {
    return element == ::onnx::TensorProto::FLOAT || element == ::onnx::TensorProto::DOUBLE;
  }
  bool known() const { return std::ranges::all_of(data, &onnx_number::known); }
};

/// Returns true for the element types that `onnx_numbers` can hold.
constexpr bool is_onnx_counted(int element) {
  using type = ::onnx::TensorProto;
  return element == type::INT64 || element == type::INT32 || element == type::BOOL ||
         element == type::FLOAT || element == type::DOUBLE;
}

/// Returns the number of elements of a tensor with these dimensions, if it is at most `onnx_numbers::most`
/// and the rank at most `onnx_numbers::most_rank`.
inline std::optional<std::size_t> onnx_small_size(std::span<std::int64_t const> dims) {
  if (dims.size() > onnx_numbers::most_rank) return std::nullopt;
  std::size_t elements = 1;
  bool const is_empty = std::ranges::find(dims, 0) != dims.end();
  for (auto const d : dims) {
    if (d < 0 || d > std::int64_t{1} << 48) return std::nullopt;  // sums of these do not overflow
    if (is_empty) continue;
    if (d > static_cast<std::int64_t>(onnx_numbers::most)) return std::nullopt;
    elements *= static_cast<std::size_t>(d);
    if (elements > onnx_numbers::most) return std::nullopt;
  }
  return is_empty ? 0 : elements;
}

/// Returns the elements of a tensor, if it is small and of a type that shapes are computed with.
inline std::optional<onnx_numbers> onnx_numbers_of(::onnx::TensorProto const& t) {
  using type = ::onnx::TensorProto;
  auto const kind = t.data_type();
  if (!is_onnx_counted(kind) || t.data_location() == type::EXTERNAL) return std::nullopt;
  onnx_numbers made{kind, {t.dims().begin(), t.dims().end()}, {}};
  auto const elements = onnx_small_size(made.dims);
  if (!elements) return std::nullopt;
  auto const read = [&]<class T>(auto const& list, T x) {
    if (t.has_raw_data()) {
      if (t.raw_data().size() != *elements * sizeof(T)) return;
      for (std::size_t i = 0; i < *elements; ++i) {
        std::memcpy(&x, t.raw_data().data() + i * sizeof(T), sizeof(T));
        made.data.push_back(made.real() ? onnx_number::of_real(static_cast<double>(x))
                                        : onnx_number::of(static_cast<std::int64_t>(x)));
      }
    } else {
      for (auto const each : list)
        made.data.push_back(made.real() ? onnx_number::of_real(static_cast<double>(each))
                                        : onnx_number::of(static_cast<std::int64_t>(each)));
    }
  };
  if (kind == type::INT64)
    read(t.int64_data(), std::int64_t{});
  else if (kind == type::INT32)
    read(t.int32_data(), std::int32_t{});
  else if (kind == type::BOOL)
    read(t.int32_data(), std::int8_t{});
  else if (kind == type::FLOAT)
    read(t.float_data(), float{});
  else
    read(t.double_data(), double{});
  if (kind == type::BOOL)
    for (auto& x : made.data) x = onnx_number::of(x.low != 0);
  return made.data.size() == *elements ? std::optional(std::move(made)) : std::nullopt;
}

/// Returns a tensor with these elements. Precondition: all are known.
inline ::onnx::TensorProto onnx_tensor_of(onnx_numbers const& value) {
  using type = ::onnx::TensorProto;
  type t;
  t.set_data_type(value.element);
  t.mutable_dims()->Assign(value.dims.begin(), value.dims.end());
  for (auto const& x : value.data)
    if (value.element == type::INT64)
      t.add_int64_data(x.low);
    else if (value.element == type::FLOAT)
      t.add_float_data(static_cast<float>(x.real));
    else if (value.element == type::DOUBLE)
      t.add_double_data(x.real);
    else
      t.add_int32_data(static_cast<std::int32_t>(x.low));
  return t;
}

/// The dimensions whose size is open. Equal numbers mean equal sizes in every run.
class onnx_symbols {
 public:
  /// No dimension is larger: no memory holds so many elements.
  static constexpr std::int64_t largest = std::int64_t{1} << 48;

  /// Returns a dimension as a number from 0 to the largest known size.
  onnx_number number_of(::onnx::TensorShapeProto::Dimension const& d) {
    if (d.has_dim_value() && d.dim_value() >= 0) return onnx_number::of(d.dim_value());
    if (d.dim_param().empty()) return invent(largest);
    auto const [at, fresh] = by_name_.try_emplace(d.dim_param(), static_cast<std::uint32_t>(names_.size()));
    if (fresh) add(d.dim_param(), largest);
    return number(at->second);
  }

  /// Returns a number as a dimension. A negative one, which no run can have, becomes an open one.
  ::onnx::TensorShapeProto::Dimension dimension_of(onnx_number const& n) {
    ::onnx::TensorShapeProto::Dimension d;
    if (n.whole() && n.low >= 0)
      d.set_dim_value(n.low);
    else
      d.set_dim_param(names_[n.symbol != 0 ? n.symbol : invent(n.high < 0 ? largest : n.high).symbol]);
    return d;
  }

  /// Returns a new open dimension of at most `high`.
  onnx_number invent(std::int64_t high) {
    auto const id = static_cast<std::uint32_t>(names_.size());
    std::string name = mark + std::to_string(id);
    by_name_.emplace(name, id);
    add(std::move(name), std::clamp<std::int64_t>(high, 0, largest));
    return number(id);
  }

  /// Records that a dimension of the file is at most `high`.
  void limit_to(std::string const& name, std::int64_t high) {
    if (auto const at = by_name_.find(name); at != by_name_.end())
      high_[at->second] = (std::min)(high_[at->second], high);
  }

  std::size_t count() const { return names_.size(); }

  /// Returns true for a name made by `invent`.
  static bool invented(std::string_view name) { return name.starts_with(mark); }

  /// Returns the largest size of the dimension that `invent` named so; nothing if there is no limit.
  std::optional<std::int64_t> limit(std::string const& name) const {
    auto const at = by_name_.find(name);
    return at == by_name_.end() || high_[at->second] >= largest ? std::nullopt
                                                                : std::optional(high_[at->second]);
  }

 private:
  static constexpr char const* mark = "\x01";  // begins no name that a file has: those are removed

  onnx_number number(std::uint32_t id) const { return {.low = 0, .high = high_[id], .symbol = id}; }
  void add(std::string name, std::int64_t high) {
    names_.push_back(std::move(name));
    high_.push_back(high);
  }

  std::vector<std::string> names_{""};
  std::vector<std::int64_t> high_{0};
  std::unordered_map<std::string, std::uint32_t> by_name_;
};

}  // namespace cleave::detail
