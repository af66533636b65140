// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/arguments.hpp"
#include "cleave/adapt/onnx/detail/constant.hpp"
#include "cleave/adapt/onnx/detail/flops.hpp"
#include "cleave/adapt/onnx/detail/number_rules.hpp"
#include "cleave/adapt/onnx/detail/numbers.hpp"
#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Evaluates the shape arithmetic that exporters write (Shape, Gather, Concat, Where, …), as far as it does
/// not depend on data of a run. What this class does not know for certain stays unknown: overflows, divisions
/// by zero, wrong axes, and tensors of more than `onnx_numbers::most` elements.
class onnx_arithmetic : public onnx_number_rules {
 public:
  using optional = std::optional<onnx_numbers>;
  using operands = std::span<onnx_numbers const* const>;

  explicit onnx_arithmetic(onnx_symbols& symbols) : symbols_(symbols) {}

  /// Returns the numbers that `n` computes, for each result; nothing where they are unknown. `in` has the
  /// numbers of each operand, or null; `types` has its type, or null.
  std::vector<optional> operator()(node const& n, operands in,
                                   std::span<::onnx::TypeProto const* const> types) const {
    std::vector<optional> made(static_cast<std::size_t>(n.output_size()));
    if (made.empty() || (!n.domain().empty() && n.domain() != "ai.onnx")) return made;
    if (n.op_type() == "Constant") {
      if (auto const t = onnx_constant_tensor(n)) made[0] = onnx_numbers_of(*t);
    } else if (n.op_type() == "Shape" || n.op_type() == "Size") {
      if (n.input_size() == 1) made[0] = n.op_type() == "Shape" ? shape(n, types[0]) : size(types[0]);
    } else if (n.op_type() == "Split") {
      split(n, in, made);
    } else if (made.size() == 1) {
      auto const rule = std::ranges::find(rules, n.op_type(), &entry::name);
      if (rule == rules.end() || in.size() < rule->least || in.size() > rule->most) return made;
      for (int i = 0; i < n.input_size(); ++i)
        if (in[static_cast<std::size_t>(i)] == nullptr && (has_onnx_operand(n, i) || i < 1)) return made;
      made[0] = rule->evaluate(n, in);
    }
    return made;
  }

 private:
  struct entry {
    std::string_view name;
    std::size_t least, most;  ///< smallest and largest number of operands
    optional (*evaluate)(node const&, operands);
  };
  using dimensions = std::vector<std::int64_t>;

  // Places of elements.

  static std::vector<std::size_t> strides(dimensions const& dims) {
    std::vector<std::size_t> steps(dims.size(), 1);
    for (std::size_t i = dims.size(); i-- > 1;) steps[i - 1] = steps[i] * static_cast<std::size_t>(dims[i]);
    return steps;
  }

  /// Calls `visit` with the coordinates of each element, in order.
  template <class Visit>
  static void each_place(dimensions const& dims, Visit visit) {
    if (std::ranges::find(dims, 0) != dims.end()) return;
    dimensions at(dims.size());
    for (bool more = true; more;) {
      visit(std::as_const(at));
      more = false;
      for (std::size_t i = dims.size(); i-- > 0 && !more;) {
        more = ++at[i] < dims[i];
        if (!more) at[i] = 0;
      }
    }
  }

  static std::size_t index(dimensions const& at, std::vector<std::size_t> const& steps) {
    std::size_t i = 0;
    for (std::size_t k = 0; k < at.size(); ++k) i += static_cast<std::size_t>(at[k]) * steps[k];
    return i;
  }

  /// Returns the index in a tensor of `dims` that is broadcast to the coordinates `at`.
  static std::size_t broadcast_index(dimensions const& at, dimensions const& dims,
                                     std::vector<std::size_t> const& steps) {
    std::size_t i = 0;
    auto const skip = at.size() - dims.size();
    for (std::size_t k = 0; k < dims.size(); ++k)
      if (dims[k] != 1) i += static_cast<std::size_t>(at[k + skip]) * steps[k];
    return i;
  }

  /// Returns a tensor of elements of `from`; `source` gives the index of each from its coordinates.
  template <class Source>
  static optional picked(numbers const& from, dimensions dims, Source source) {
    if (!onnx_small_size(dims)) return std::nullopt;
    numbers made{from.element, std::move(dims), {}};
    bool is_inside = true;
    each_place(made.dims, [&](dimensions const& at) {
      std::size_t const i = source(at);
      is_inside &= i < from.data.size();
      if (is_inside) made.data.push_back(from.data[i]);
    });
    return is_inside ? optional(std::move(made)) : std::nullopt;
  }

  static optional reshaped(numbers const& from, dimensions dims) {
    auto const elements = onnx_small_size(dims);
    if (!elements || *elements != from.data.size()) return std::nullopt;
    return numbers{from.element, std::move(dims), from.data};
  }

  // Operators that read types.

  optional shape(node const& n, ::onnx::TypeProto const* type) const {
    if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return std::nullopt;
    auto const& dims = type->tensor_type().shape().dim();
    if (dims.size() > static_cast<int>(numbers::most)) return std::nullopt;
    auto const part = onnx_slice_of(dims.size(), onnx_whole_attribute(n, "start", 0),
                                    onnx_whole_attribute(n, "end", dims.size()), 1);
    numbers made;
    for (std::int64_t i = 0; i < part.count; ++i)
      made.data.push_back(symbols_.number_of(dims[static_cast<int>(part.first + i)]));
    made.dims = {part.count};
    return made;
  }

  optional size(::onnx::TypeProto const* type) const {
    auto dims = shape({}, type);
    if (!dims) return std::nullopt;
    auto product = number::of(1);
    for (auto const& d : dims->data) product = multiply({}, product, d);
    return numbers{dims->element, {}, {product}};
  }

  // Operators that move elements.

  static optional identity(node const&, operands in) { return *in[0]; }

  static optional gather(node const& n, operands in) {
    auto const &from = *in[0], &at = *in[1];
    auto const axis = onnx_axis(onnx_whole_attribute(n, "axis", 0), from.dims.size());
    auto const places = onnx_whole_list(&at);
    if (!axis || !places) return std::nullopt;
    auto const size = from.dims[*axis];
    for (auto const i : *places)
      if (i < -size || i >= size) return std::nullopt;
    dimensions dims(from.dims.begin(), from.dims.begin() + static_cast<std::ptrdiff_t>(*axis));
    dims.insert(dims.end(), at.dims.begin(), at.dims.end());
    dims.insert(dims.end(), from.dims.begin() + static_cast<std::ptrdiff_t>(*axis) + 1, from.dims.end());
    auto const steps = strides(from.dims), places_steps = strides(at.dims);
    return picked(from, std::move(dims), [&](dimensions const& to) {
      std::size_t i = 0, place = 0;
      for (std::size_t k = 0; k < *axis; ++k) i += static_cast<std::size_t>(to[k]) * steps[k];
      for (std::size_t k = 0; k < at.dims.size(); ++k)
        place += static_cast<std::size_t>(to[*axis + k]) * places_steps[k];
      auto const taken = (*places)[place];
      i += static_cast<std::size_t>(taken < 0 ? taken + size : taken) * steps[*axis];
      for (std::size_t k = *axis + 1; k < from.dims.size(); ++k)
        i += static_cast<std::size_t>(to[k - 1 + at.dims.size()]) * steps[k];
      return i;
    });
  }

  static optional gather_elements(node const& n, operands in) {
    auto const &from = *in[0], &at = *in[1];
    auto const axis = onnx_axis(onnx_whole_attribute(n, "axis", 0), from.dims.size());
    auto const places = onnx_whole_list(&at);
    if (!axis || !places || at.dims.size() != from.dims.size()) return std::nullopt;
    auto const size = from.dims[*axis];
    for (std::size_t k = 0; k < at.dims.size(); ++k)
      if (k != *axis && at.dims[k] > from.dims[k]) return std::nullopt;
    for (auto const i : *places)
      if (i < -size || i >= size) return std::nullopt;
    auto const steps = strides(from.dims);
    std::size_t next = 0;
    return picked(from, at.dims, [&](dimensions to) {
      auto const taken = (*places)[next++];
      to[*axis] = taken < 0 ? taken + size : taken;
      return index(to, steps);
    });
  }

  /// Returns for each row of indices the offset of the part of `from` that it names.
  static std::optional<std::vector<std::size_t>> rows_of(numbers const& from, numbers const& at) {
    auto const places = onnx_whole_list(&at);
    if (!places || at.dims.empty() || at.dims.back() < 0 ||
        at.dims.back() > static_cast<std::int64_t>(from.dims.size()))
      return std::nullopt;
    auto const width = static_cast<std::size_t>(at.dims.back());
    auto const steps = strides(from.dims);
    std::size_t rows = 1;
    for (std::size_t k = 0; k + 1 < at.dims.size(); ++k) rows *= static_cast<std::size_t>(at.dims[k]);
    if (rows > numbers::most) return std::nullopt;
    std::vector<std::size_t> offsets(rows);
    for (std::size_t row = 0; row < rows; ++row)
      for (std::size_t k = 0; k < width; ++k) {
        auto const i = (*places)[row * width + k], size = from.dims[k];
        if (i < -size || i >= size) return std::nullopt;
        offsets[row] += static_cast<std::size_t>(i < 0 ? i + size : i) * steps[k];
      }
    return offsets;
  }

  static optional gather_nd(node const& n, operands in) {
    auto const &from = *in[0], &at = *in[1];
    if (onnx_whole_attribute(n, "batch_dims", 0) != 0) return std::nullopt;
    auto const offsets = rows_of(from, at);
    if (!offsets) return std::nullopt;
    dimensions dims(at.dims.begin(), at.dims.end() - 1);
    dimensions const rest(from.dims.begin() + static_cast<std::ptrdiff_t>(at.dims.back()), from.dims.end());
    dims.insert(dims.end(), rest.begin(), rest.end());
    auto const block = onnx_small_size(rest).value_or(0);
    std::size_t next = 0;
    return picked(from, std::move(dims), [&](dimensions const&) {
      auto const i = next++;
      return (*offsets)[i / block] + i % block;
    });
  }

  static optional scatter_nd(node const& n, operands in) {
    auto made = *in[0];
    auto const &at = *in[1], &with = *in[2];
    auto const* reduction = find_onnx_attribute(n, "reduction");
    if ((reduction != nullptr && reduction->s() != "none") || with.element != made.element)
      return std::nullopt;
    auto const offsets = rows_of(made, at);
    if (!offsets) return std::nullopt;
    dimensions dims(at.dims.begin(), at.dims.end() - 1);
    dimensions const rest(made.dims.begin() + static_cast<std::ptrdiff_t>(at.dims.back()), made.dims.end());
    dims.insert(dims.end(), rest.begin(), rest.end());
    if (dims != with.dims) return std::nullopt;
    auto const block = onnx_small_size(rest).value_or(0);
    for (std::size_t i = 0; i < with.data.size(); ++i)
      made.data[(*offsets)[i / block] + i % block] = with.data[i];
    return made;
  }

  static optional scatter_elements(node const& n, operands in) {
    auto made = *in[0];
    auto const &at = *in[1], &with = *in[2];
    auto const* reduction = find_onnx_attribute(n, "reduction");
    if ((reduction != nullptr && reduction->s() != "none") || with.element != made.element)
      return std::nullopt;
    auto const axis = onnx_axis(onnx_whole_attribute(n, "axis", 0), made.dims.size());
    auto const places = onnx_whole_list(&at);
    if (!axis || !places || at.dims.size() != made.dims.size() || at.dims != with.dims) return std::nullopt;
    auto const size = made.dims[*axis];
    for (std::size_t k = 0; k < at.dims.size(); ++k)
      if (k != *axis && at.dims[k] > made.dims[k]) return std::nullopt;
    for (auto const i : *places)
      if (i < -size || i >= size) return std::nullopt;
    auto const steps = strides(made.dims);
    std::size_t next = 0;
    each_place(at.dims, [&](dimensions to) {
      auto const taken = (*places)[next];
      to[*axis] = taken < 0 ? taken + size : taken;
      made.data[index(to, steps)] = with.data[next++];
    });
    return made;
  }

  static optional concat(node const& n, operands in) {
    for (auto const* part : in)
      if (part == nullptr || part->element != in[0]->element || part->dims.size() != in[0]->dims.size())
        return std::nullopt;
    auto const axis = onnx_axis(onnx_whole_attribute(n, "axis", 1), in[0]->dims.size());
    if (!axis) return std::nullopt;
    numbers made{in[0]->element, in[0]->dims, {}};
    made.dims[*axis] = 0;
    for (auto const* part : in) {
      for (std::size_t k = 0; k < part->dims.size(); ++k)
        if (k != *axis && part->dims[k] != made.dims[k]) return std::nullopt;
      made.dims[*axis] += part->dims[*axis];
    }
    auto const elements = onnx_small_size(made.dims);
    if (!elements) return std::nullopt;
    std::size_t blocks = *elements == 0 ? 0 : 1;  // an empty tensor may have 2^48 blocks
    for (std::size_t k = 0; k < *axis; ++k) blocks *= static_cast<std::size_t>(made.dims[k]);
    for (std::size_t b = 0; b < blocks; ++b)
      for (auto const* part : in) {
        auto const block = part->data.size() / blocks;
        auto const from = part->data.begin() + static_cast<std::ptrdiff_t>(b * block);
        made.data.insert(made.data.end(), from, from + static_cast<std::ptrdiff_t>(block));
      }
    return made;
  }

  static optional slice(node const& n, operands in) {
    auto const& from = *in[0];
    auto const starts = onnx_list_of(n, "starts", 1, in), ends = onnx_list_of(n, "ends", 2, in);
    auto const axes = onnx_list_of(n, "axes", 3, in), steps = onnx_list_of(n, "steps", 4, in);
    if (!starts.list || !ends.list || (axes.given && !axes.list) || (steps.given && !steps.list))
      return std::nullopt;
    auto const count = starts.list->size();
    if (ends.list->size() != count || (axes.given && axes.list->size() != count) ||
        (steps.given && steps.list->size() != count) || (!axes.given && count > from.dims.size()))
      return std::nullopt;
    auto dims = from.dims;
    std::vector<onnx_slice> parts;
    for (auto const d : dims) parts.push_back({0, d});
    dimensions step(dims.size(), 1), listed(count);
    std::iota(listed.begin(), listed.end(), 0);
    if (axes.given) listed = *axes.list;
    if (!onnx_axes(listed, dims.size())) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i) {
      auto const axis = *onnx_axis(listed[i], dims.size());
      step[axis] = steps.given ? (*steps.list)[i] : 1;
      if (step[axis] == 0) return std::nullopt;
      parts[axis] = onnx_slice_of(from.dims[axis], (*starts.list)[i], (*ends.list)[i], step[axis]);
      dims[axis] = parts[axis].count;
    }
    auto const places = strides(from.dims);
    return picked(from, dims, [&](dimensions to) {
      for (std::size_t k = 0; k < to.size(); ++k)
        to[k] = parts[k].first + (parts[k].count > 1 ? to[k] * step[k] : 0);
      return index(to, places);
    });
  }

  static void split(node const& n, operands in, std::vector<optional>& made) {
    if (in.empty() || in[0] == nullptr) return;
    auto const& from = *in[0];
    auto const axis = onnx_axis(onnx_whole_attribute(n, "axis", 0), from.dims.size());
    auto sizes = onnx_list_of(n, "split", 1, in);
    if (!axis || (sizes.given && !sizes.list)) return;
    auto const parts = static_cast<std::int64_t>(made.size()), whole = from.dims[*axis];
    if (!sizes.given) {
      auto const each = (whole + parts - 1) / parts;
      sizes.list.emplace(made.size(), each);
      sizes.list->back() = whole - each * (parts - 1);
    }
    if (sizes.list->size() != made.size() ||
        std::ranges::any_of(*sizes.list, [&](auto s) { return s < 0 || s > whole; }) ||
        std::accumulate(sizes.list->begin(), sizes.list->end(), std::int64_t{}) != whole)
      return;
    auto const steps = strides(from.dims);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      auto dims = from.dims;
      dims[*axis] = (*sizes.list)[i];
      made[i] = picked(from, dims, [&](dimensions to) { return to[*axis] += first, index(to, steps); });
      first += dims[*axis];
    }
  }

  static optional transpose(node const& n, operands in) {
    auto const& from = *in[0];
    auto const rank = from.dims.size();
    dimensions order(rank);
    std::iota(order.rbegin(), order.rend(), 0);
    if (auto const* a = find_onnx_attribute(n, "perm")) order.assign(a->ints().begin(), a->ints().end());
    if (order.size() != rank || std::ranges::any_of(order, [](auto i) { return i < 0; }) ||
        !onnx_axes(order, rank))
      return std::nullopt;
    dimensions dims;
    for (auto const i : order) dims.push_back(from.dims[static_cast<std::size_t>(i)]);
    auto const steps = strides(from.dims);
    return picked(from, dims, [&](dimensions const& to) {
      std::size_t i = 0;
      for (std::size_t k = 0; k < rank; ++k)
        i += static_cast<std::size_t>(to[k]) * steps[static_cast<std::size_t>(order[k])];
      return i;
    });
  }

  static optional unsqueeze(node const& n, operands in) {
    auto const axes = onnx_list_of(n, "axes", 1, in);
    if (!axes.list) return std::nullopt;
    auto const rank = in[0]->dims.size() + axes.list->size();
    auto const is_new = onnx_axes(*axes.list, rank);
    if (!is_new) return std::nullopt;
    dimensions dims;
    for (std::size_t k = 0, from = 0; k < rank; ++k)
      dims.push_back((*is_new)[k] != 0 ? 1 : in[0]->dims[from++]);
    return reshaped(*in[0], std::move(dims));
  }

  static optional squeeze(node const& n, operands in) {
    auto const& from = in[0]->dims;
    auto const axes = onnx_list_of(n, "axes", 1, in);
    if (axes.given && !axes.list) return std::nullopt;
    std::optional<std::vector<char>> leaves(from.size());
    if (axes.given)
      leaves = onnx_axes(*axes.list, from.size());
    else
      for (std::size_t k = 0; k < from.size(); ++k) (*leaves)[k] = from[k] == 1;
    if (!leaves) return std::nullopt;
    dimensions dims;
    for (std::size_t k = 0; k < from.size(); ++k)
      if ((*leaves)[k] == 0)
        dims.push_back(from[k]);
      else if (from[k] != 1)
        return std::nullopt;
    return reshaped(*in[0], std::move(dims));
  }

  static optional flatten(node const& n, operands in) {
    auto const& from = in[0]->dims;
    auto axis = onnx_whole_attribute(n, "axis", 1);
    auto const rank = static_cast<std::int64_t>(from.size());
    if (axis < -rank || axis > rank) return std::nullopt;
    if (axis < 0) axis += rank;
    dimensions dims{1, 1};
    for (std::int64_t k = 0; k < rank; ++k) {
      auto& d = dims[k < axis ? 0 : 1];
      if (__builtin_mul_overflow(d, from[static_cast<std::size_t>(k)], &d)) return std::nullopt;
    }
    return reshaped(*in[0], std::move(dims));
  }

  static optional reshape(node const& n, operands in) {
    auto dims = onnx_whole_list(in[1]);
    if (!dims || in[1]->dims.size() != 1) return std::nullopt;
    std::optional<std::size_t> open;
    std::int64_t rest = 1;
    for (std::size_t k = 0; k < dims->size(); ++k) {
      auto& d = (*dims)[k];
      if (d == -1) {
        if (std::exchange(open, k)) return std::nullopt;
        continue;
      }
      if (d == 0 && onnx_whole_attribute(n, "allowzero", 0) == 0) {
        if (k >= in[0]->dims.size()) return std::nullopt;
        d = in[0]->dims[k];
      }
      if (d < 0 || __builtin_mul_overflow(rest, d, &rest)) return std::nullopt;
    }
    if (open) {
      if (rest == 0) return std::nullopt;
      (*dims)[*open] = static_cast<std::int64_t>(in[0]->data.size()) / rest;
    }
    return reshaped(*in[0], std::move(*dims));
  }

  static optional expand(node const&, operands in) {
    auto const to = onnx_whole_list(in[1]);
    if (!to || in[1]->dims.size() != 1) return std::nullopt;
    auto const dims = onnx_broadcast(in[0]->dims, *to);
    if (!dims) return std::nullopt;
    auto const steps = strides(in[0]->dims);
    return picked(*in[0], *dims,
                  [&](dimensions const& at) { return broadcast_index(at, in[0]->dims, steps); });
  }

  static optional tile(node const&, operands in) {
    auto const times = onnx_whole_list(in[1]);
    auto dims = in[0]->dims;
    if (!times || times->size() != dims.size()) return std::nullopt;
    for (std::size_t k = 0; k < dims.size(); ++k)
      if ((*times)[k] < 0 || __builtin_mul_overflow(dims[k], (*times)[k], &dims[k])) return std::nullopt;
    auto const steps = strides(in[0]->dims);
    return picked(*in[0], std::move(dims), [&](dimensions at) {
      for (std::size_t k = 0; k < at.size(); ++k) at[k] %= in[0]->dims[k];
      return index(at, steps);
    });
  }

  static optional where(node const&, operands in) {
    auto const &c = *in[0], &a = *in[1], &b = *in[2];
    if (a.element != b.element) return std::nullopt;
    auto dims = onnx_broadcast(a.dims, b.dims);
    if (dims) dims = onnx_broadcast(*dims, c.dims);
    if (!dims || !onnx_small_size(*dims)) return std::nullopt;
    numbers made{a.element, *dims, {}};
    auto const c_steps = strides(c.dims), a_steps = strides(a.dims), b_steps = strides(b.dims);
    each_place(made.dims, [&](dimensions const& at) {
      auto const& which = c.data[broadcast_index(at, c.dims, c_steps)];
      auto const &x = a.data[broadcast_index(at, a.dims, a_steps)],
                 &y = b.data[broadcast_index(at, b.dims, b_steps)];
      made.data.push_back(which.whole() ? (which.low != 0 ? x : y) : either(a.element, x, y));
    });
    return made;
  }

  static optional compress(node const& n, operands in) {
    auto const& from = *in[0];
    auto const keeps = onnx_whole_list(in[1]);
    auto const* a = find_onnx_attribute(n, "axis");
    if (!keeps || in[1]->dims.size() != 1 || (a == nullptr && from.dims.size() != 1)) return std::nullopt;
    auto const axis = onnx_axis(a == nullptr ? 0 : a->i(), from.dims.size());
    if (!axis || static_cast<std::int64_t>(keeps->size()) > from.dims[*axis]) return std::nullopt;
    dimensions kept;
    for (std::size_t i = 0; i < keeps->size(); ++i)
      if ((*keeps)[i] != 0) kept.push_back(static_cast<std::int64_t>(i));
    auto dims = from.dims;
    dims[*axis] = static_cast<std::int64_t>(kept.size());
    auto const steps = strides(from.dims);
    return picked(from, std::move(dims), [&](dimensions to) {
      to[*axis] = kept[static_cast<std::size_t>(to[*axis])];
      return index(to, steps);
    });
  }

  static optional non_zero(node const&, operands in) {
    auto const& from = *in[0];
    if (!from.known() || from.dims.empty()) return std::nullopt;
    std::vector<dimensions> found;
    std::size_t next = 0;
    each_place(from.dims, [&](dimensions const& at) {
      auto const& x = from.data[next++];
      if (from.real() ? x.real != 0 : x.low != 0) found.push_back(at);
    });
    if (found.size() * from.dims.size() > numbers::most) return std::nullopt;
    numbers made{::onnx::TensorProto::INT64,
                 {static_cast<std::int64_t>(from.dims.size()), static_cast<std::int64_t>(found.size())},
                 {}};
    for (std::size_t k = 0; k < from.dims.size(); ++k)
      for (auto const& at : found) made.data.push_back(number::of(at[k]));
    return made;
  }

  // Operators that make tensors.

  static optional filled(node const& n, operands in) {
    auto dims = onnx_whole_list(in[0]);
    if (!dims || in[0]->dims.size() != 1) return std::nullopt;
    numbers made{::onnx::TensorProto::FLOAT, std::move(*dims), {}};
    auto value = number::of_real(0);
    if (auto const* a = find_onnx_attribute(n, "value"); a != nullptr && a->has_t()) {
      auto const given = onnx_numbers_of(a->t());
      if (!given || given->data.size() != 1) return std::nullopt;
      made.element = given->element;
      value = given->data[0];
    }
    auto const elements = onnx_small_size(made.dims);
    if (!elements) return std::nullopt;
    made.data.assign(*elements, value);
    return made;
  }

  static optional range(node const&, operands in) {
    for (auto const* x : in)
      if (x->data.size() != 1 || !x->known() || x->real() || x->element != in[0]->element)
        return std::nullopt;
    auto const start = in[0]->data[0].low, limit = in[1]->data[0].low, step = in[2]->data[0].low;
    std::int64_t span = 0;
    if (step == 0 || step == number::lowest || __builtin_sub_overflow(limit, start, &span))
      return std::nullopt;
    numbers made{in[0]->element, {0}, {}};
    if ((span > 0) == (step > 0) && span != 0) {
      if (span == number::lowest) return std::nullopt;
      auto const last = (std::abs(span) - 1) / std::abs(step);
      if (last >= static_cast<std::int64_t>(numbers::most)) return std::nullopt;
      for (std::int64_t i = 0; i <= last; ++i) made.data.push_back(number::of(start + i * step));
    }
    made.dims[0] = static_cast<std::int64_t>(made.data.size());
    return made;
  }

  static optional cast(node const& n, operands in) {
    auto const to = static_cast<int>(onnx_whole_attribute(n, "to", 0));
    return is_onnx_counted(to) ? optional(converted(*in[0], to)) : std::nullopt;
  }
  static optional cast_like(node const&, operands in) { return converted(*in[0], in[1]->element); }

  static optional combined(whole_function f, real_function real, node const& n, numbers const& a,
                           numbers const& b, int element) {
    auto const dims = onnx_broadcast(a.dims, b.dims);
    if (!dims || !onnx_small_size(*dims) || a.element != b.element) return std::nullopt;
    numbers made{element != 0 ? element : a.element, *dims, {}};
    auto const a_steps = strides(a.dims), b_steps = strides(b.dims);
    each_place(made.dims, [&](dimensions const& at) {
      made.data.push_back(apply(f, real, n, a.element, made.element,
                                a.data[broadcast_index(at, a.dims, a_steps)],
                                b.data[broadcast_index(at, b.dims, b_steps)]));
    });
    return made;
  }

  /// Applies `f` element by element to broadcast operands, from the left if there are more than two.
  template <whole_function f, real_function real, int element = 0>
  static optional binary(node const& n, operands in) {
    if (find_onnx_attribute(n, "axis") != nullptr) return std::nullopt;  // broadcast as before version 7
    optional made = *in[0];
    for (std::size_t i = 1; i < in.size() && made; ++i) {
      if (in[i] == nullptr) return std::nullopt;
      made = combined(f, real, n, *made, *in[i], element);
    }
    return made;
  }

  static optional clip(node const& n, operands in) {
    optional made = *in[0];
    if (n.attribute_size() != 0) return std::nullopt;  // bounds as attributes, before version 11
    if (in.size() > 1 && in[1] != nullptr) made = combined(greatest, real_greatest, n, *made, *in[1], 0);
    if (made && in.size() > 2 && in[2] != nullptr) made = combined(least, real_least, n, *made, *in[2], 0);
    return made;
  }

  template <number (*f)(number const&), double (*real)(double)>
  static optional unary(node const&, operands in) {
    auto made = *in[0];
    for (auto& x : made.data)
      if (!made.real())
        x = bounded(made.element, f(x));
      else if (x.known())
        x = number::of_real(made.element == ::onnx::TensorProto::FLOAT
                                ? static_cast<double>(static_cast<float>(real(x.real)))
                                : real(x.real));
    return made;
  }
  /// Joins all elements along the axes by `f`, in order.
  template <whole_function f, real_function real>
  static optional reduced(node const& n, operands in) {
    auto const& from = *in[0];
    auto const axes = onnx_list_of(n, "axes", 1, in);
    if (axes.given && !axes.list) return std::nullopt;
    auto const rank = from.dims.size();
    std::optional<std::vector<char>> goes(std::vector<char>(rank, 1));
    if (axes.given && !axes.list->empty())
      goes = onnx_axes(*axes.list, rank);
    else if (onnx_whole_attribute(n, "noop_with_empty_axes", 0) != 0)
      return from;
    if (!goes || from.data.empty()) return std::nullopt;
    bool const keeps = onnx_whole_attribute(n, "keepdims", 1) != 0;
    auto kept = from.dims;
    for (std::size_t k = 0; k < rank; ++k)
      if ((*goes)[k] != 0) kept[k] = 1;
    auto const steps = strides(kept);
    std::vector<std::optional<number>> sums(onnx_small_size(kept).value_or(0));
    std::size_t next = 0;
    each_place(from.dims, [&](dimensions const& at) {
      auto& sum = sums[broadcast_index(at, kept, steps)];
      auto const& x = from.data[next++];
      sum = sum ? apply(f, real, n, from.element, from.element, *sum, x) : x;
    });
    numbers made{from.element, {}, {}};
    for (std::size_t k = 0; k < rank; ++k)
      if (keeps || (*goes)[k] == 0) made.dims.push_back(kept[k]);
    for (auto const& sum : sums) made.data.push_back(*sum);
    return made;
  }

  static constexpr int boolean = ::onnx::TensorProto::BOOL;
  static constexpr std::size_t any_number = 1000;
  static constexpr std::array<entry, 54> rules = {{
      {"Abs", 1, 1, unary<magnitude, real_magnitude>},
      {"Add", 2, 2, binary<add, real_add>},
      {"And", 2, 2, binary<both, nullptr, boolean>},
      {"Cast", 1, 1, cast},
      {"CastLike", 2, 2, cast_like},
      {"Ceil", 1, 1, unary<same, real_ceiling>},
      {"Clip", 1, 3, clip},
      {"Compress", 2, 2, compress},
      {"Concat", 1, any_number, concat},
      {"ConstantOfShape", 1, 1, filled},
      {"Div", 2, 2, binary<divide, real_divide>},
      {"Equal", 2, 2, binary<equal, real_equal, boolean>},
      {"Expand", 2, 2, expand},
      {"Flatten", 1, 1, flatten},
      {"Floor", 1, 1, unary<same, real_floor>},
      {"Gather", 2, 2, gather},
      {"GatherElements", 2, 2, gather_elements},
      {"GatherND", 2, 2, gather_nd},
      {"Greater", 2, 2, binary<greater, real_greater, boolean>},
      {"GreaterOrEqual", 2, 2, binary<greater_equal, real_greater_equal, boolean>},
      {"Identity", 1, 1, identity},
      {"Less", 2, 2, binary<less, real_less, boolean>},
      {"LessOrEqual", 2, 2, binary<less_equal, real_less_equal, boolean>},
      {"Max", 1, any_number, binary<greatest, real_greatest>},
      {"Min", 1, any_number, binary<least, real_least>},
      {"Mod", 2, 2, binary<modulo, nullptr>},
      {"Mul", 2, 2, binary<multiply, real_multiply>},
      {"Neg", 1, 1, unary<negative, real_negative>},
      {"NonZero", 1, 1, non_zero},
      {"Not", 1, 1, unary<opposite, real_same>},
      {"Or", 2, 2, binary<any, nullptr, boolean>},
      {"Pow", 2, 2, binary<power, nullptr>},
      {"Range", 3, 3, range},
      {"Reciprocal", 1, 1, unary<same, real_inverse>},
      {"ReduceMax", 1, 2, reduced<greatest, real_greatest>},
      {"ReduceMin", 1, 2, reduced<least, real_least>},
      {"ReduceProd", 1, 2, reduced<multiply, nullptr>},
      {"ReduceSum", 1, 2, reduced<add, nullptr>},
      {"Reshape", 2, 2, reshape},
      {"Round", 1, 1, unary<same, real_round>},
      {"Scatter", 3, 3, scatter_elements},
      {"ScatterElements", 3, 3, scatter_elements},
      {"ScatterND", 3, 3, scatter_nd},
      {"Sign", 1, 1, unary<sign, real_sign>},
      {"Slice", 1, 5, slice},
      {"Sqrt", 1, 1, unary<same, real_root>},
      {"Squeeze", 1, 2, squeeze},
      {"Sub", 2, 2, binary<subtract, real_subtract>},
      {"Sum", 1, any_number, binary<add, real_add>},
      {"Tile", 2, 2, tile},
      {"Transpose", 1, 1, transpose},
      {"Unsqueeze", 1, 2, unsqueeze},
      {"Where", 3, 3, where},
      {"Xor", 2, 2, binary<unequal, nullptr, boolean>},
  }};

  onnx_symbols& symbols_;
};

}  // namespace cleave::detail
