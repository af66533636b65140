// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/shape.hpp"

namespace cleave::detail {

/// The product of dimensions and of the bytes of an element, where it fits into 63 bits; negative dimensions
/// count as unknown, that is as 1.
template <class Dims>
std::optional<std::uint64_t> bytes_of_dims(Dims const& dims, std::uint64_t each) {
  std::uint64_t size = each;
  bool overflow = false, empty = false;
  for (std::int64_t const d : dims) {
    empty |= d == 0;
    if (d > 0) overflow |= __builtin_mul_overflow(size, static_cast<std::uint64_t>(d), &size);
  }
  if (empty) return 0;
  return overflow || size > std::uint64_t{1} << 62 ? std::nullopt : std::optional(size);
}

/// Whether external data at `location` stays in the model's folder: a relative path without `..`, on any
/// system.
constexpr bool stays_in_folder(std::string_view location) {
  if (location.empty() || location[0] == '/' || location[0] == '\\') return false;
  if (location.find('\0') != std::string_view::npos) return false;
  if (location.size() > 1 && location[1] == ':') return false;  // a drive
  while (!location.empty()) {
    auto const end = (std::min)(location.find_first_of("/\\"), location.size());
    if (location.substr(0, end) == "..") return false;
    location.remove_prefix((std::min)(end + 1, location.size()));
  }
  return true;
}

/// What of a tensor's data says how many elements it has, field by field.
struct onnx_tensor_payload {
  std::size_t fields = 0;      ///< that hold anything
  bool fits_type = true;       ///< whether the field is the one for the element type
  std::uint64_t elements = 0;  ///< that the field holds; of raw data, bytes
};

/// Counts what the fields of `t` hold; data are not read. O(1).
inline onnx_tensor_payload onnx_payload_of(onnx::TensorProto const& t) {
  using tensor = onnx::TensorProto;
  onnx_tensor_payload p;
  auto const field = [&](auto const& list, std::initializer_list<int> types,
                         std::initializer_list<int> pairs) {
    if (list.empty()) return;
    ++p.fields;
    auto const among = [&](auto const& of) { return std::ranges::find(of, t.data_type()) != of.end(); };
    p.fits_type = among(types) || among(pairs);
    p.elements = static_cast<std::uint64_t>(list.size()) / (among(pairs) ? 2 : 1);
    if (among(pairs) && list.size() % 2 != 0) p.fits_type = false;
  };
  field(t.float_data(), {tensor::FLOAT}, {tensor::COMPLEX64});
  field(t.int32_data(),
        {tensor::INT32, tensor::INT16, tensor::INT8, tensor::UINT16, tensor::UINT8, tensor::BOOL,
         tensor::FLOAT16, tensor::BFLOAT16},
        {});
  field(t.int64_data(), {tensor::INT64}, {});
  field(t.double_data(), {tensor::DOUBLE}, {tensor::COMPLEX128});
  field(t.uint64_data(), {tensor::UINT32, tensor::UINT64}, {});
  field(t.string_data(), {tensor::STRING}, {});
  if (!t.raw_data().empty()) {
    ++p.fields;
    p.fits_type = t.data_type() != tensor::STRING;
    p.elements = t.raw_data().size();
  }
  return p;
}

/// What is wrong with the place of external data, which is never opened.
inline std::optional<onnx_fault> find_onnx_external_fault(onnx::TensorProto const& t, std::string const& what,
                                                          std::string const& name) {
  using kind = onnx_fault_kind;
  std::string location;
  bool placed = false;
  for (auto const& entry : t.external_data()) {
    if (entry.key() == "location") {
      if (std::exchange(placed, true))
        return onnx_fault{kind::external, what + " has external data at two places; keep one", {name}};
      location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      bool const digits = !entry.value().empty() && entry.value().size() < 19 &&
                          std::ranges::all_of(entry.value(), [](char c) { return c >= '0' && c <= '9'; });
      if (!digits)
        return onnx_fault{kind::external,
                          what + ": the " + entry.key() + " of its external data, " + quoted(entry.value()) +
                              ", is no number of bytes",
                          {name}};
    }
  }
  if (!stays_in_folder(location))
    return onnx_fault{kind::external,
                      what + " has external data at " + quoted(location) +
                          ", outside the model's folder; use a relative path without '..'",
                      {name}};
  return std::nullopt;
}

/// What is wrong with a tensor; `what` is how messages call it. Its data is counted, never read or allocated.
inline std::optional<onnx_fault> find_onnx_tensor_fault(onnx::TensorProto const& t, std::string const& what,
                                                        std::string const& name) {
  using kind = onnx_fault_kind;
  auto const known = [&](auto const& e) { return e.type == t.data_type(); };
  if (std::ranges::none_of(onnx_element_table, known))
    return onnx_fault{kind::type,
                      what + " has element type " + std::to_string(t.data_type()) +
                          ", which does not exist or is newer than this reader; convert it",
                      {name}};
  for (auto const d : t.dims())
    if (d < 0)
      return onnx_fault{
          kind::shape, what + " has a dimension of " + std::to_string(d) + "; a tensor's are from 0", {name}};

  std::uint64_t const each = onnx_element_size(t.data_type());
  auto const elements = bytes_of_dims(t.dims(), 1);
  auto const bytes = bytes_of_dims(t.dims(), std::max<std::uint64_t>(each, 1));
  if (!elements || !bytes) return onnx_fault{kind::size, what + ": its size does not fit in 64 bits", {name}};

  auto const payload = onnx_payload_of(t);
  if (t.data_location() == onnx::TensorProto::EXTERNAL) {
    if (payload.fields > 0)
      return onnx_fault{kind::size, what + " has data in the file and outside; keep one of them", {name}};
    return find_onnx_external_fault(t, what, name);
  }
  if (payload.fields > 1)
    return onnx_fault{kind::size, what + " has its data in several fields; keep one of them", {name}};
  bool const raw = !t.raw_data().empty();
  auto const wanted = raw ? *bytes : *elements;
  if (!payload.fits_type)
    return onnx_fault{
        kind::type, what + " has data in a field that its element type does not use; store it again", {name}};
  if (payload.elements != wanted)
    return onnx_fault{kind::size,
                      what + " claims " + std::to_string(wanted) + (raw ? " bytes" : " elements") +
                          " and carries " + std::to_string(payload.elements) +
                          "; its dimensions or its data are wrong",
                      {name}};
  return std::nullopt;
}

/// What is wrong with a sparse tensor: its two tensors, or how they fit together.
inline std::optional<onnx_fault> find_onnx_tensor_fault(onnx::SparseTensorProto const& t,
                                                        std::string const& what, std::string const& name) {
  using kind = onnx_fault_kind;
  if (auto f = find_onnx_tensor_fault(t.values(), "the values of " + what, name)) return f;
  if (auto f = find_onnx_tensor_fault(t.indices(), "the indices of " + what, name)) return f;
  if (t.indices().data_type() != onnx::TensorProto::INT64)
    return onnx_fault{kind::type, what + ": its indices are not int64", {name}};
  bool const negative = std::ranges::any_of(t.dims(), [](auto d) { return d < 0; });
  auto const& at = t.indices().dims();
  bool const rows = t.values().dims_size() == 1 && !at.empty() && at[0] == t.values().dims(0);
  bool const columns = at.size() == 1 || (at.size() == 2 && at[1] == t.dims_size());
  if (negative || !rows || !columns || !bytes_of_dims(t.dims(), 16))
    return onnx_fault{kind::shape, what + ": its values, indices and dimensions do not fit together", {name}};
  return std::nullopt;
}

/// What is wrong with the declared type of a value. A negative dimension is how older exporters wrote
/// unknown, and is read so; a size that does not fit into 64 bits is refused, for no sum of such could be
/// right.
inline std::optional<onnx_fault> find_onnx_type_fault(onnx::TypeProto const& declared,
                                                      std::string const& name) {
  using kind = onnx_fault_kind;
  auto const* t = &declared;
  for (bool inside = true; inside;) {
    inside = false;
    if (t->has_sequence_type() || t->has_optional_type() || t->has_map_type()) {
      inside = true;
      t = t->has_sequence_type()   ? &t->sequence_type().elem_type()
          : t->has_optional_type() ? &t->optional_type().elem_type()
                                   : &t->map_type().value_type();
    }
  }
  auto const fault = [&](int element, onnx::TensorShapeProto const& dims) -> std::optional<onnx_fault> {
    auto const known = [&](auto const& e) { return e.type == element; };
    if (element != 0 && std::ranges::none_of(onnx_element_table, known))
      return onnx_fault{kind::type,
                        "value " + quoted(name) + " has element type " + std::to_string(element) +
                            ", which does not exist or is newer than this reader",
                        {name}};
    std::vector<std::int64_t> sizes;
    for (auto const& d : dims.dim()) sizes.push_back(d.has_dim_value() ? d.dim_value() : -1);
    if (!bytes_of_dims(sizes, std::max<std::uint64_t>(onnx_element_size(element), 1)))
      return onnx_fault{kind::shape,
                        "value " + quoted(name) + ": its size does not fit in 64 bits; mend its dimensions",
                        {name}};
    return std::nullopt;
  };
  if (t->has_tensor_type()) return fault(t->tensor_type().elem_type(), t->tensor_type().shape());
  if (t->has_sparse_tensor_type())
    return fault(t->sparse_tensor_type().elem_type(), t->sparse_tensor_type().shape());
  return std::nullopt;
}

}  // namespace cleave::detail
