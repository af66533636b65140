// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/outline.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/adapt/onnx/shape.hpp"

namespace cleave::inline v0_2::onnx {

/// The type and shape of each value of a model: inferred, then as declared in the file, then as given by the
/// user. Inference also computes the numbers that shapes are made of.
///
/// There are two views, because the user's sizes price one run and must not restrict all runs. `declaration`
/// holds in every run and may be written into a stage. Symbolic dimensions stay symbolic there, and the
/// user's shape is used only if nothing else gives a rank. Of types that follow from it, the element type is.
/// `priced` and `bytes` use the user's sizes; where only an upper bound is known, as behind
/// NonMaxSuppression, its symbol is `<=N`, see `onnx::most_of`.
class types {
 public:
  /// Infers types. If inference fails, less is known (see `complaint`).
  /// \throws onnx::error if an option names a dimension or value that the model lacks, or contradicts what is
  ///   known
  explicit types(::onnx::ModelProto const& m, onnx::type_options const& options = {})
      : inference_(options.inference), bounded_(infer(m, [](auto&) {}, {})) {
    declared_ = bounded_;
    if (has_bounds(*bounded_)) {
      declared_ = std::make_shared<::onnx::ModelProto>(*bounded_);
      forget_bounds(*declared_);
    }
    by_name_ = table(*declared_);
    put_in(m, options);
  }

  /// Returns the types of the same model `m` with other user sizes. Infers once.
  /// \throws onnx::error as the constructor
  onnx::types with(::onnx::ModelProto const& m, onnx::type_options const& options) const {
    auto other = *this;
    other.complaint_.clear();
    other.by_name_ = table(*declared_);
    other.put_in(m, options);
    return other;
  }

  /// Returns the type that a stage may declare for a value, or null if not even its element type is known.
  ::onnx::TypeProto const* declaration(std::string_view value) const { return look_up(*by_name_, value); }

  /// Returns the type of a value with the user's sizes.
  ::onnx::TypeProto const* priced(std::string_view value) const { return look_up(*priced_by_name_, value); }

  /// Returns the model without large payloads, with the user's sizes. Values inside bodies have types too.
  ::onnx::ModelProto const& priced_model() const { return *priced_; }

  /// Returns the bytes of a value, or their upper bound; 0 if a dimension or the element type is unknown.
  /// \throws onnx::error if the size does not fit in 64 bits
  std::size_t bytes(std::string_view value) const { return detail::onnx_bytes(priced(value), value); }

  /// Returns the process in which inference ran.
  onnx::inference inference() const { return inference_; }

  /// Returns the reason why inference gave less than it could, or an empty text.
  std::string const& complaint() const { return complaint_; }

 private:
  using names = std::unordered_map<std::string_view, ::onnx::TypeProto const*>;

  void put_in(::onnx::ModelProto const& m, onnx::type_options const& options) {
    if (options.dims.empty() && options.shapes.empty()) {
      priced_ = bounded_;
    } else {
      auto const user = user_types(options);
      auto const edit = [&](::onnx::ModelProto& copy) {
        set_dimensions(copy, options);
        for (auto const& [name, type] : user) set_type(*copy.mutable_graph(), name, type);
      };
      std::unordered_set<std::string> fixed;
      for (auto const& [name, type] : user) fixed.insert(name);
      priced_ = infer(m, edit, std::move(fixed));
      for (auto const& [name, type] : user) set_type(*priced_->mutable_graph(), name, type);
    }
    priced_by_name_ = priced_ == declared_ ? by_name_ : table(*priced_);
    for (auto const& [name, shape] : options.shapes)
      if (auto const* known = declaration(name); known == nullptr || !has_rank(*known))
        (*by_name_)[priced_by_name_->find(name)->first] = priced(name);
    if (!options.shapes.empty()) add_followed_types();
  }

  /// Declares the element types that only follow from the user's types. Their sizes may differ in other runs.
  void add_followed_types() {
    followed_ = std::make_shared<std::deque<::onnx::TypeProto>>();
    for (auto const& [name, type] : *priced_by_name_) {
      if (!type->has_tensor_type()) continue;
      auto const [at, fresh] = by_name_->try_emplace(name, nullptr);
      if (!fresh) continue;
      auto& made = followed_->emplace_back();
      made.mutable_tensor_type()->set_elem_type(type->tensor_type().elem_type());
      at->second = &made;
    }
  }

  static ::onnx::TypeProto const* look_up(names const& by, std::string_view value) {
    auto const at = by.find(value);
    return at == by.end() ? nullptr : at->second;
  }

  static bool has_rank(::onnx::TypeProto const& t) {
    return !t.has_tensor_type() || t.tensor_type().has_shape();
  }

  static std::shared_ptr<names> table(::onnx::ModelProto const& m) {
    auto const made = std::make_shared<names>();
    auto& by = *made;
    auto const see = [&](std::string const& name, ::onnx::TypeProto const& t) {
      bool const typed = t.value_case() != ::onnx::TypeProto::VALUE_NOT_SET &&
                         !(t.has_tensor_type() && t.tensor_type().elem_type() == 0);
      if (!typed) return;
      auto const [at, fresh] = by.try_emplace(name, &t);
      if (!fresh && !has_rank(*at->second) && has_rank(t)) at->second = &t;
    };
    auto const& g = m.graph();
    for (auto const* list : {&g.input(), &g.output(), &g.value_info()})
      for (auto const& v : *list) see(v.name(), v.type());
    return made;
  }

  /// Returns an edited copy of `m` with inferred types.
  template <class Edit>
  std::shared_ptr<::onnx::ModelProto> infer(::onnx::ModelProto const& m, Edit edit,
                                            std::unordered_set<std::string> fixed) {
    auto copy = std::make_shared<::onnx::ModelProto>(detail::onnx_outline(m));
    auto const order = detail::onnx_inference_order(m.graph());
    std::vector<std::uint32_t> back(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) back[order[i]] = i;
    edit(*copy);
    detail::onnx_reorder(*copy->mutable_graph(), order);
    auto why = detail::onnx_infer(*copy, inference_, std::move(fixed));
    detail::onnx_reorder(*copy->mutable_graph(), back);
    if (!why.empty()) complaint_ = std::move(why);
    return copy;
  }

  static bool has_bounds(::onnx::ModelProto const& m) {
    for (auto const* list : {&m.graph().output(), &m.graph().value_info()})
      for (auto const& v : *list)
        for (auto const& d : v.type().tensor_type().shape().dim())
          if (!d.has_dim_value() && onnx::most_of(d)) return true;
    return false;
  }

  /// Removes upper bounds, which depend on the sizes of one run and mean nothing in another file.
  static void forget_bounds(::onnx::ModelProto& m) {
    for (auto* list : {m.mutable_graph()->mutable_output(), m.mutable_graph()->mutable_value_info()})
      for (auto& v : *list)
        if (v.type().has_tensor_type() && v.type().tensor_type().has_shape())
          for (auto& d : *v.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim())
            if (!d.has_dim_value() && onnx::most_of(d)) {
              auto const name = d.dim_param().find(' ');
              name == std::string::npos ? d.clear_dim_param()
                                        : d.set_dim_param(d.dim_param().substr(name + 1));
            }
  }

  /// Returns the user's shapes as types. The element type is the inferred one, or else the user's.
  std::vector<std::pair<std::string, ::onnx::TypeProto>> user_types(onnx::type_options const& options) const {
    std::unordered_set<std::string_view> values;
    for (auto const& v : declared_->graph().input()) values.insert(v.name());
    for (auto const& n : declared_->graph().node()) values.insert(n.output().begin(), n.output().end());
    std::vector<std::pair<std::string, ::onnx::TypeProto>> given;
    for (auto const& [name, shape] : options.shapes) {
      if (name.empty() || !values.contains(name))
        throw detail::bad_onnx_option(name, "a shape is given, but the model has no value with this name");
      auto const* known = declaration(name);
      ::onnx::TypeProto type;
      auto& t = *type.mutable_tensor_type();
      t.set_elem_type(known != nullptr ? known->tensor_type().elem_type() : shape.element);
      if (t.elem_type() == 0) t.set_elem_type(::onnx::TensorProto::FLOAT);
      t.mutable_shape();
      for (auto const d : shape.dims) {
        auto& to = *t.mutable_shape()->add_dim();
        if (d >= 0) to.set_dim_value(d);
      }
      if (known != nullptr && contradicts(*known, type, shape.element))
        throw detail::bad_onnx_option(name,
                                      "shape given as " + spelling(type) + ", but it is " + spelling(*known));
      given.emplace_back(name, std::move(type));
    }
    return given;
  }

  static bool contradicts(::onnx::TypeProto const& known, ::onnx::TypeProto const& user, int element) {
    if (!known.has_tensor_type()) return true;
    if (element != 0 && element != known.tensor_type().elem_type()) return true;
    if (!known.tensor_type().has_shape()) return false;
    auto const& a = known.tensor_type().shape().dim();
    auto const& b = user.tensor_type().shape().dim();
    return !std::ranges::equal(a, b, [](auto const& x, auto const& y) {
      return !x.has_dim_value() || x.dim_value() < 0 || !y.has_dim_value() || x.dim_value() == y.dim_value();
    });
  }

  static void set_type(::onnx::GraphProto& g, std::string const& name, ::onnx::TypeProto const& type) {
    bool found = false;
    for (auto* list : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
      for (auto& v : *list)
        if (v.name() == name) {
          *v.mutable_type() = type;
          found = true;
        }
    if (found) return;
    auto& v = *g.add_value_info();
    v.set_name(name);
    *v.mutable_type() = type;
  }

  static void set_dimensions(::onnx::ModelProto& m, onnx::type_options const& options) {
    std::unordered_set<std::string> seen;
    auto const in_graph = [&](::onnx::GraphProto& g) {
      for (auto* list : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
        for (auto& v : *list) {
          if (!v.type().has_tensor_type() || !v.type().tensor_type().has_shape()) continue;
          for (auto& d : *v.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
            if (!d.has_dim_param()) continue;
            seen.insert(d.dim_param());
            if (auto const at = options.dims.find(d.dim_param()); at != options.dims.end())
              d.set_dim_value(at->second);
          }
        }
    };
    std::vector<::onnx::GraphProto*> open{m.mutable_graph()};
    while (!open.empty()) {
      auto& g = *open.back();
      open.pop_back();
      in_graph(g);
      for (auto& n : *g.mutable_node())
        for (auto* const body : detail::onnx_bodies(n)) open.push_back(body);
    }
    for (auto const& [name, size] : options.dims) {
      if (size < 0)
        throw detail::bad_onnx_option(
            name, "dimension given as " + std::to_string(size) + "; a size must be 0 or more");
      if (!seen.contains(name))
        throw detail::bad_onnx_option(name, "a size is given, but the model has " + list_of(seen));
    }
  }

  static std::string list_of(std::unordered_set<std::string> const& names_of) {
    if (names_of.empty()) return "no symbolic dimension";
    std::vector<std::string> sorted(names_of.begin(), names_of.end());
    std::ranges::sort(sorted);
    std::string text = "only";
    for (auto const& n : sorted) text += " " + quoted(n);
    return text;
  }

  onnx::inference inference_;
  std::string complaint_;  // declared before the members that inference initializes
  std::shared_ptr<::onnx::ModelProto> bounded_, declared_, priced_;  // one model if nothing sets them apart
  std::shared_ptr<std::deque<::onnx::TypeProto>> followed_;
  std::shared_ptr<names> by_name_, priced_by_name_;  // one table if `declared_` and `priced_` are one
};
}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Returns the product of dimensions and element size `each`, if it fits into 63 bits. Negative dimensions
/// are unknown and count as 1.
template <class Dims>
std::optional<std::uint64_t> bytes_of_dims(Dims const& dims, std::uint64_t each) {
  std::uint64_t size = each;
  bool overflow = false, empty = false;
  for (std::int64_t const d : dims) {
    empty |= d == 0;
    if (d > 0) overflow |= __builtin_mul_overflow(size, static_cast<std::uint64_t>(d), &size);
  }
  if (empty) return 0;
  return overflow || size > most_value_bytes ? std::nullopt : std::optional(size);
}

/// Returns true if external data at `location` stays in the model's folder: a relative path without `..`, on
/// any system.
constexpr bool stays_in_folder(std::string_view location) {
  if (location.empty() || location[0] == '/' || location[0] == '\\') return false;
  if (location.find('\0') != std::string_view::npos) return false;
  if (location.size() > 1 && location[1] == ':') return false;  // a drive letter
  while (!location.empty()) {
    auto const end = (std::min)(location.find_first_of("/\\"), location.size());
    if (location.substr(0, end) == "..") return false;
    location.remove_prefix((std::min)(end + 1, location.size()));
  }
  return true;
}

/// The number of elements in a tensor's data fields.
struct onnx_tensor_payload {
  std::size_t fields = 0;      ///< number of non-empty fields
  bool fits_type = true;       ///< true if the field is the one for the element type
  std::uint64_t elements = 0;  ///< elements in the field; for raw data, bytes
};

/// Counts the elements in the fields of `t` without reading the data. O(1).
inline onnx_tensor_payload onnx_payload_of(::onnx::TensorProto const& t) {
  using tensor = ::onnx::TensorProto;
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

/// Returns the first fault of the location of external data, which is never opened; or nothing.
inline std::optional<onnx::fault> find_onnx_external_fault(::onnx::TensorProto const& t,
                                                           std::string const& what, std::string const& name) {
  using kind = onnx::fault_kind;
  std::string location;
  auto const repeated = [&](auto const& entry) {
    return std::ranges::count(t.external_data(), entry.key(),
                              [](auto const& e) -> auto const& { return e.key(); }) > 1;
  };
  for (auto const& entry : t.external_data()) {
    if (entry.key() == "location") {
      if (repeated(entry))
        return onnx::fault{kind::external, what + " has external data at two places; keep one", {name}};
      location = entry.value();
    } else if (entry.key() == "offset" || entry.key() == "length") {
      if (repeated(entry))
        return onnx::fault{kind::external,
                           what + " has external data with two entries " + quoted(entry.key()) + "; keep one",
                           {name}};
      bool const digits = !entry.value().empty() && entry.value().size() < 19 &&
                          std::ranges::all_of(entry.value(), [](char c) { return c >= '0' && c <= '9'; });
      if (!digits)
        return onnx::fault{kind::external,
                           what + ": the " + entry.key() + " of its external data, " + quoted(entry.value()) +
                               ", is not a number of bytes",
                           {name}};
    }
  }
  if (!stays_in_folder(location))
    return onnx::fault{kind::external,
                       what + " has external data at " + quoted(location) +
                           ", outside the model's folder; use a relative path without '..'",
                       {name}};
  return std::nullopt;
}

/// Returns the first fault of a tensor, or nothing; `what` is its name in messages. Data is counted, never
/// read or allocated.
inline std::optional<onnx::fault> find_onnx_tensor_fault(::onnx::TensorProto const& t,
                                                         std::string const& what, std::string const& name) {
  using kind = onnx::fault_kind;
  auto const known = [&](auto const& e) { return e.type == t.data_type(); };
  if (std::ranges::none_of(onnx::element_table, known))
    return onnx::fault{kind::type,
                       what + " has element type " + std::to_string(t.data_type()) +
                           ", which does not exist or is newer than this reader; convert it",
                       {name}};
  for (auto const d : t.dims())
    if (d < 0)
      return onnx::fault{
          kind::shape,
          what + " has a dimension of " + std::to_string(d) + "; a tensor's dimensions must be 0 or more",
          {name}};

  std::uint64_t const each = onnx::element_size(t.data_type());
  auto const elements = bytes_of_dims(t.dims(), 1);
  auto const bytes = bytes_of_dims(t.dims(), std::max<std::uint64_t>(each, 1));
  if (!elements || !bytes)
    return onnx::fault{
        kind::size, what + ": its size does not fit in 64 bits; correct its dimensions", {name}};

  auto const payload = onnx_payload_of(t);
  if (t.data_location() == ::onnx::TensorProto::EXTERNAL) {
    if (payload.fields > 0)
      return onnx::fault{
          kind::size, what + " has data both in the file and in an external file; keep one of them", {name}};
    return find_onnx_external_fault(t, what, name);
  }
  if (payload.fields > 1)
    return onnx::fault{kind::size, what + " has its data in several fields; keep one of them", {name}};
  bool const raw = !t.raw_data().empty();
  auto const wanted = raw ? *bytes : *elements;
  if (!payload.fits_type)
    return onnx::fault{
        kind::type, what + " has data in a field that its element type does not use; store it again", {name}};
  if (payload.elements != wanted)
    return onnx::fault{kind::size,
                       what + " claims " + std::to_string(wanted) + (raw ? " bytes" : " elements") +
                           ", but has " + std::to_string(payload.elements) +
                           "; its dimensions or its data are wrong",
                       {name}};
  return std::nullopt;
}

/// Returns the first fault of a sparse tensor: in its two tensors, or in how they match.
inline std::optional<onnx::fault> find_onnx_tensor_fault(::onnx::SparseTensorProto const& t,
                                                         std::string const& what, std::string const& name) {
  using kind = onnx::fault_kind;
  if (auto f = find_onnx_tensor_fault(t.values(), "the values of " + what, name)) return f;
  if (auto f = find_onnx_tensor_fault(t.indices(), "the indices of " + what, name)) return f;
  if (t.indices().data_type() != ::onnx::TensorProto::INT64)
    return onnx::fault{kind::type, what + ": its indices are not int64", {name}};
  bool const negative = std::ranges::any_of(t.dims(), [](auto d) { return d < 0; });
  auto const& at = t.indices().dims();
  bool const rows = t.values().dims_size() == 1 && !at.empty() && at[0] == t.values().dims(0);
  bool const columns = at.size() == 1 || (at.size() == 2 && at[1] == t.dims_size());
  if (negative || !rows || !columns || !bytes_of_dims(t.dims(), 16))
    return onnx::fault{kind::shape, what + ": its values, indices and dimensions do not match", {name}};
  return std::nullopt;
}

/// Returns the first fault of the declared type of a value, or nothing. A negative dimension means unknown,
/// as older exporters wrote it. A size that does not fit into 64 bits is rejected, since sums of such sizes
/// would be wrong.
inline std::optional<onnx::fault> find_onnx_type_fault(::onnx::TypeProto const& declared,
                                                       std::string const& name) {
  using kind = onnx::fault_kind;
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
  auto const fault = [&](int element, ::onnx::TensorShapeProto const& dims) -> std::optional<onnx::fault> {
    auto const known = [&](auto const& e) { return e.type == element; };
    if (element != 0 && std::ranges::none_of(onnx::element_table, known))
      return onnx::fault{kind::type,
                         "value " + quoted(name) + " has element type " + std::to_string(element) +
                             ", which does not exist or is newer than this reader",
                         {name}};
    std::vector<std::int64_t> sizes;
    for (auto const& d : dims.dim()) sizes.push_back(d.has_dim_value() ? d.dim_value() : -1);
    if (!bytes_of_dims(sizes, std::max<std::uint64_t>(onnx::element_size(element), 1)))
      return onnx::fault{
          kind::shape,
          "value " + quoted(name) + ": its size does not fit in 64 bits; correct its dimensions",
          {name}};
    return std::nullopt;
  };
  if (t->has_tensor_type()) return fault(t->tensor_type().elem_type(), t->tensor_type().shape());
  if (t->has_sparse_tensor_type())
    return fault(t->sparse_tensor_type().elem_type(), t->sparse_tensor_type().shape());
  return std::nullopt;
}

}  // namespace cleave::detail
