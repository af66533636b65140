// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/arguments.hpp"
#include "cleave/adapt/onnx/detail/flops.hpp"
#include "cleave/adapt/onnx/detail/numbers.hpp"
#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// The rules for the shapes of operators whose results depend on numbers, and of operators that libonnx lacks
/// or knows only in older versions. A result that a rule cannot know stays open, with an upper bound if there
/// is one.
class onnx_shape_rules {
 public:
  using number = onnx_number;
  using dimensions = std::vector<onnx_number>;
  using shape = std::optional<dimensions>;  ///< nothing: unknown rank

  explicit onnx_shape_rules(onnx_symbols& symbols) : symbols_(symbols) {}

  /// Sets the types of the results of `n`, and returns true if there is a rule. `types` and `in` have the
  /// types and numbers of the operands, or null. `version` is that of the operator set.
  bool operator()(::onnx::NodeProto const& n, std::span<::onnx::TypeProto const* const> types,
                  std::span<onnx_numbers const* const> in, std::int64_t version,
                  std::span<::onnx::TypeProto> made) const {
    if ((!n.domain().empty() && n.domain() != "ai.onnx") || made.empty()) return false;
    auto const rule = std::ranges::lower_bound(rules, std::string_view(n.op_type()), {}, &entry::name);
    if (rule == rules.end() || rule->name != n.op_type() || types.size() < rule->least) return false;
    for (std::size_t i = 0; i < rule->least; ++i)
      if (types[i] == nullptr || !types[i]->has_tensor_type()) return false;
    call c{n, types, in, version, symbols_, made};
    rule->set(c);
    return true;
  }

 private:
  /// One node with what is known of its operands.
  struct call {
    ::onnx::NodeProto const& n;
    std::span<::onnx::TypeProto const* const> types;
    std::span<onnx_numbers const* const> in;
    std::int64_t version;
    onnx_symbols& symbols;
    std::span<::onnx::TypeProto> made;

    bool has(std::size_t i) const { return has_onnx_operand(n, static_cast<int>(i)); }
    int element(std::size_t i) const {
      return i < types.size() && types[i] != nullptr ? types[i]->tensor_type().elem_type() : 0;
    }
    shape dims(std::size_t i) const {
      if (i >= types.size() || types[i] == nullptr || !types[i]->has_tensor_type() ||
          !types[i]->tensor_type().has_shape())
        return std::nullopt;
      dimensions all;
      for (auto const& d : types[i]->tensor_type().shape().dim()) all.push_back(symbols.number_of(d));
      return all;
    }
    /// Returns the numbers of an operand; null if they are unknown.
    onnx_numbers const* numbers(std::size_t i) const { return has(i) ? in[i] : nullptr; }
    /// Returns the number of elements of an operand with one dimension, if known.
    std::optional<std::size_t> length(std::size_t i) const {
      if (auto const* known = numbers(i)) return known->data.size();
      auto const d = dims(i);
      if (!d || d->size() != 1 || !(*d)[0].whole() || (*d)[0].low > 64) return std::nullopt;
      return static_cast<std::size_t>((*d)[0].low);
    }
    std::int64_t attribute(std::string_view name, std::int64_t otherwise) const {
      return onnx_whole_attribute(n, name, otherwise);
    }
    std::string_view word(std::string_view name, std::string_view otherwise) const {
      auto const* a = find_onnx_attribute(n, name);
      return a == nullptr ? otherwise : std::string_view(a->s());
    }
    onnx_list_argument list(std::string_view name, std::size_t i) const {
      return onnx_list_of(n, name, static_cast<int>(i), in);
    }
    number open(std::int64_t high = onnx_symbols::largest) const { return symbols.invent(high); }
    dimensions open_rank(std::size_t rank) const {
      dimensions all;
      for (std::size_t i = 0; i < rank; ++i) all.push_back(open());
      return all;
    }
    void result(std::size_t k, int element_type, shape const& to) const {
      if (k >= made.size()) return;
      auto& t = *made[k].mutable_tensor_type();
      t.set_elem_type(element_type);
      if (!to) return;
      t.mutable_shape();
      for (auto const& d : *to) *t.mutable_shape()->add_dim() = symbols.dimension_of(d);
    }
  };
  struct entry {
    std::string_view name;
    std::size_t least;  ///< number of operands whose types must be known
    void (*set)(call const&);
  };

  /// Returns the product as an upper bound, at most the largest size.
  static std::int64_t highest_product(std::span<number const> of) {
    std::int64_t product = 1;
    for (auto const& d : of)
      if (d.high == 0) return 0;
    for (auto const& d : of)
      if (__builtin_mul_overflow(product, d.high, &product) || product > onnx_symbols::largest)
        return onnx_symbols::largest;
    return product;
  }

  /// Returns the sum of two sizes of 0 or more.
  static number sum(call const& c, number const& a, number const& b) {
    if (a.is(0)) return b;
    if (b.is(0)) return a;
    std::int64_t low = 0, high = 0;
    if (__builtin_add_overflow(a.low, b.low, &low) || __builtin_add_overflow(a.high, b.high, &high))
      return c.open();
    return low == high ? number::of(low) : c.open(high);
  }

  static number product(call const& c, number const& a, number const& b) {
    if (a.is(1)) return b;
    if (b.is(1)) return a;
    std::int64_t exact = 0;
    if (a.whole() && b.whole() && !__builtin_mul_overflow(a.low, b.low, &exact)) return number::of(exact);
    return c.open(highest_product(std::array{a, b}));
  }

  /// Returns the size of an axis that two operands are broadcast to.
  static number broadcast(call const& c, number const& a, number const& b) {
    if (a.same(b) || b.is(1)) return a;
    if (a.is(1)) return b;
    if (a.whole() && b.whole()) return c.open();  // they do not fit
    if (a.whole()) return a;
    if (b.whole()) return b;
    return c.open((std::max)(a.high, b.high));
  }
  static shape broadcast(call const& c, shape const& a, shape const& b) {
    if (!a || !b) return std::nullopt;
    auto const &longer = a->size() >= b->size() ? *a : *b, &shorter = a->size() >= b->size() ? *b : *a;
    auto made = longer;
    for (std::size_t i = 0; i < shorter.size(); ++i) {
      auto& d = made[made.size() - 1 - i];
      d = broadcast(c, d, shorter[shorter.size() - 1 - i]);
    }
    return made;
  }

  // Results shaped like operands.

  static void like_first(call const& c) { c.result(0, c.element(0), c.dims(0)); }

  static void cast(call const& c) { c.result(0, static_cast<int>(c.attribute("to", 0)), c.dims(0)); }

  static void dropout(call const& c) {
    c.result(0, c.element(0), c.dims(0));
    c.result(1, c.version < 10 ? c.element(0) : int{::onnx::TensorProto::BOOL}, c.dims(0));
  }

  /// Element by element. Before version 7, only the later operands are broadcast.
  template <int element = 0>
  static void elementwise(call const& c) {
    auto made = c.dims(0);
    for (std::size_t i = 1; i < c.types.size(); ++i) made = broadcast(c, made, c.dims(i));
    if (c.version < 7) made = c.dims(0);
    c.result(0, element != 0 ? element : c.element(0), made);
  }

  static void where(call const& c) {
    c.result(0, c.element(1), broadcast(c, broadcast(c, c.dims(0), c.dims(1)), c.dims(2)));
  }

  // Shapes from numbers.

  /// Returns the size for -1: the product of the first list over that of the second. Equal open sizes cancel.
  static number quotient(call const& c, dimensions above, dimensions below) {
    std::erase_if(above, [&](number const& d) {
      if (d.symbol == 0) return false;
      auto const equal = std::ranges::find(below, d.symbol, &number::symbol);
      if (equal == below.end()) return false;
      below.erase(equal);
      return true;
    });
    std::int64_t over = 1, under = 1;
    for (auto* list : {&above, &below}) {
      auto& to = list == &above ? over : under;
      for (auto const& d : *list)
        if (d.whole() && __builtin_mul_overflow(to, d.low, &to)) return c.open();
      std::erase_if(*list, [](number const& d) { return d.whole(); });
    }
    if (under <= 0) return c.open();
    if (over == 0) return below.empty() ? number::of(0) : c.open();
    bool const divides = over % under == 0;
    if (above.empty() && below.empty()) return divides ? number::of(over / under) : c.open();
    if (above.size() == 1 && below.empty() && over == under) return above[0];
    above.push_back(number::of(divides ? over / under : over));
    return c.open(highest_product(above));
  }

  static void reshape(call const& c) {
    auto const from = c.dims(0);
    auto const* to = c.numbers(1);
    std::vector<number> wanted;
    if (auto const* a = find_onnx_attribute(c.n, "shape")) {
      for (auto const d : a->ints()) wanted.push_back(number::of(d));
    } else if (to != nullptr && !to->real() && to->dims.size() == 1) {
      wanted = to->data;
    } else {
      auto const rank = c.length(1);
      return c.result(0, c.element(0), rank ? shape(c.open_rank(*rank)) : std::nullopt);
    }
    bool const copies = c.attribute("allowzero", 0) == 0;
    dimensions made;
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      auto const& d = wanted[i];
      if (d.is(0) && copies && from && i < from->size()) {
        made.push_back((*from)[i]);
      } else if (d.low >= 0 && !(d.is(0) && copies)) {
        made.push_back(d);
        if (!d.whole() && d.symbol == 0) open.push_back(i);  // -1 would be rejected by low >= 0
      } else {
        made.push_back(d.is(0) ? c.open() : number{});
        open.push_back(i);
      }
    }
    // The number of elements determines a single open size, whether it is -1 or computed in the run.
    if (open.size() == 1 && from) {
      auto others = made;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(open[0]));
      auto const found = quotient(c, *from, others);
      auto const& d = made[open[0]];
      made[open[0]] = found.whole() || d.low < 0 || found.high < d.high ? found : d;
    }
    for (auto& d : made)
      if (d.low < 0) d = c.open();
    c.result(0, c.element(0), made);
  }

  static void expand(call const& c) {
    auto const* to = c.numbers(1);
    auto const from = c.dims(0);
    auto const rank = c.length(1);
    if (!from || !rank) return c.result(0, c.element(0), std::nullopt);
    dimensions wanted = to == nullptr || to->dims.size() != 1 ? c.open_rank(*rank) : to->data;
    for (auto& d : wanted)
      if (d.low < 0) d = c.open();
    c.result(0, c.element(0), broadcast(c, from, wanted));
  }

  static void tile(call const& c) {
    auto const from = c.dims(0);
    auto const* times = c.numbers(1);
    if (c.version < 6 || !from) return c.result(0, c.element(0), std::nullopt);
    if (times == nullptr || times->data.size() != from->size() || times->real())
      return c.result(0, c.element(0), c.open_rank(from->size()));
    dimensions made;
    for (std::size_t i = 0; i < from->size(); ++i)
      made.push_back(times->data[i].low < 0 ? c.open() : product(c, (*from)[i], times->data[i]));
    c.result(0, c.element(0), made);
  }

  static void pad(call const& c) {
    auto const from = c.dims(0);
    if (!from) return c.result(0, c.element(0), std::nullopt);
    auto pads = c.list(c.version < 2 ? "paddings" : "pads", 1);
    auto const axes = c.list("axes", 3);
    auto const rank = from->size();
    std::vector<std::int64_t> at;
    for (std::size_t i = 0; i < rank; ++i) at.push_back(static_cast<std::int64_t>(i));
    if (axes.given && axes.list) at = *axes.list;
    if (!pads.list || (axes.given && !axes.list) || pads.list->size() != 2 * at.size() ||
        !onnx_axes(at, rank))
      return c.result(0, c.element(0), c.open_rank(rank));
    auto made = *from;
    for (std::size_t i = 0; i < at.size(); ++i) {
      auto& d = made[*onnx_axis(at[i], rank)];
      std::int64_t more = 0, low = 0, high = 0;
      if (__builtin_add_overflow((*pads.list)[i], (*pads.list)[i + at.size()], &more) ||
          __builtin_add_overflow(d.low, more, &low) || __builtin_add_overflow(d.high, more, &high) ||
          high < 0)
        d = c.open();
      else if (more != 0)
        d = low == high ? number::of(low) : c.open(high);
    }
    c.result(0, c.element(0), made);
  }

  /// Returns the size that a Slice with a positive step leaves of an axis, if start and end are known.
  static number sliced(call const& c, number const& d, number const& start, number const& end,
                       number const& step) {
    if (!step.whole() || step.low == 0) return c.open(d.high);
    if (d.whole() && start.whole() && end.whole())
      return number::of(onnx_slice_of(d.low, start.low, end.low, step.low).count);
    if (step.low != 1 || !start.whole() || start.low < 0 || end.low < 0) return c.open(d.high);
    if (start.low == 0 && end.low >= d.high) return d;
    if (start.low == 0 && end.high <= d.low) return end;
    auto const high = (std::min)(d.high, end.high) - start.low;
    return high <= 0 ? number::of(0) : c.open(high);
  }

  static void slice(call const& c) {
    auto const from = c.dims(0);
    if (!from) return c.result(0, c.element(0), std::nullopt);
    auto const numbers_of = [&](std::string_view name, std::size_t i) -> std::optional<dimensions> {
      if (auto const* a = find_onnx_attribute(c.n, name)) {
        dimensions all;
        for (auto const x : a->ints()) all.push_back(number::of(x));
        return all;
      }
      auto const* known = c.numbers(i);
      if (known == nullptr || known->real()) return std::nullopt;
      return known->data;
    };
    auto const rank = from->size();
    auto starts = numbers_of("starts", 1), ends = numbers_of("ends", 2), steps = numbers_of("steps", 4);
    auto const axes = c.list("axes", 3);
    auto const count = starts ? starts->size()
                       : ends ? ends->size()
                              : c.length(1).value_or(axes.list ? axes.list->size() : rank);
    std::vector<std::int64_t> at;
    for (std::size_t i = 0; i < count; ++i) at.push_back(static_cast<std::int64_t>(i));
    if (axes.given && axes.list) at = *axes.list;
    if ((axes.given && !axes.list) || at.size() != count || count > rank || !onnx_axes(at, rank)) {
      auto made = *from;
      for (auto& d : made) d = c.open(d.high);
      return c.result(0, c.element(0), made);
    }
    number const unknown;
    auto made = *from;
    for (std::size_t i = 0; i < count; ++i) {
      auto const pick = [&](std::optional<dimensions> const& list, bool given, number const& otherwise) {
        return list && i < list->size() ? (*list)[i] : given ? unknown : otherwise;
      };
      auto& d = made[*onnx_axis(at[i], rank)];
      d = sliced(c, d, pick(starts, true, unknown), pick(ends, true, unknown),
                 pick(steps, c.has(4), number::of(1)));
    }
    c.result(0, c.element(0), made);
  }

  /// Returns the size scaled as onnxruntime does; open if rounding could decide.
  static number scaled(call const& c, number const& d, double scale) {
    auto const exact = [&](std::int64_t size) -> std::optional<std::int64_t> {
      double const wide = std::floor(static_cast<double>(size) * scale);
      float const narrow = std::floor(static_cast<float>(size) * static_cast<float>(scale));
      if (!(wide >= 0 && wide < static_cast<double>(onnx_symbols::largest)) || wide != narrow)
        return std::nullopt;
      return static_cast<std::int64_t>(wide);
    };
    if (scale == 1) return d;
    if (d.whole())
      if (auto const size = exact(d.low)) return number::of(*size);
    double const high = std::ceil(static_cast<double>(d.high) * scale * (1 + 1e-6));
    return high >= 0 && high < static_cast<double>(onnx_symbols::largest)
               ? c.open(static_cast<std::int64_t>(high))
               : c.open();
  }

  static void resize(call const& c) {
    auto const from = c.dims(0);
    if (!from) return c.result(0, c.element(0), std::nullopt);
    auto const rank = from->size();
    bool const is_old = c.version < 11 || c.n.op_type() == "Upsample";
    auto const* scales = c.numbers(is_old ? 1 : 2);
    auto const* sizes = is_old ? nullptr : c.numbers(3);
    std::optional<onnx_numbers> fixed;
    if (auto const* a = find_onnx_attribute(c.n, "scales"); a != nullptr && is_old) {
      fixed = onnx_numbers{::onnx::TensorProto::FLOAT, {}, {}};
      for (float const x : a->floats()) fixed->data.push_back(number::of_real(static_cast<double>(x)));
      scales = &*fixed;
    }
    std::vector<std::int64_t> at;
    for (std::size_t i = 0; i < rank; ++i) at.push_back(static_cast<std::int64_t>(i));
    if (auto const* a = find_onnx_attribute(c.n, "axes")) at.assign(a->ints().begin(), a->ints().end());
    auto made = *from;
    auto const* given = sizes != nullptr && !sizes->data.empty() ? sizes : scales;
    if (!onnx_axes(at, rank) || given == nullptr || given->data.size() != at.size() ||
        c.word("keep_aspect_ratio_policy", "stretch") != "stretch")
      return c.result(0, c.element(0), c.open_rank(rank));
    bool const crops = c.word("coordinate_transformation_mode", "") == "tf_crop_and_resize";
    for (std::size_t i = 0; i < at.size(); ++i) {
      auto& d = made[*onnx_axis(at[i], rank)];
      auto const& x = given->data[i];
      if (!given->real())
        d = x.low >= 0 ? x : c.open();
      else
        d = x.known() && !crops ? scaled(c, d, x.real) : c.open();
    }
    c.result(0, c.element(0), made);
  }

  static void filled(call const& c) {
    int element = ::onnx::TensorProto::FLOAT;
    if (auto const* a = find_onnx_attribute(c.n, "value"); a != nullptr && a->has_t())
      element = a->t().data_type();
    auto const* to = c.numbers(0);
    auto const rank = c.length(0);
    if (to == nullptr || to->real() || to->dims.size() != 1)
      return c.result(0, element, rank ? shape(c.open_rank(*rank)) : std::nullopt);
    dimensions made;
    for (auto const& d : to->data) made.push_back(d.low < 0 ? c.open() : d);
    c.result(0, element, made);
  }

  static void range(call const& c) {
    auto const single = [&](std::size_t i) -> std::optional<number> {
      auto const* known = c.numbers(i);
      return known == nullptr || known->data.size() != 1 ? std::nullopt : std::optional(known->data[0]);
    };
    auto const start = single(0), limit = single(1), step = single(2);
    auto size = c.open();
    auto const type = c.element(0);
    bool const is_real = type == ::onnx::TensorProto::FLOAT || type == ::onnx::TensorProto::DOUBLE;
    if (start && limit && step && is_real && start->known() && limit->known() && step->known()) {
      double const span = limit->real - start->real;
      double const exact = std::ceil(span / step->real);
      double const narrow = std::ceil(static_cast<double>(static_cast<float>(span)) / step->real);
      if (exact == narrow && exact < static_cast<double>(onnx_symbols::largest))
        size = number::of(exact > 0 ? static_cast<std::int64_t>(exact) : 0);
    } else if (start && limit && step && !is_real && step->whole() && step->low > 0 && start->whole()) {
      auto const count = [&](std::int64_t end) {
        std::int64_t span = 0;
        if (end <= start->low) return std::int64_t{0};
        return __builtin_sub_overflow(end, start->low, &span) ? onnx_symbols::largest
                                                              : 1 + (span - 1) / step->low;
      };
      if (start->low == 0 && step->low == 1 && limit->low >= 0 && limit->high <= onnx_symbols::largest)
        size = *limit;
      else if (auto const high = count(limit->high); high < onnx_symbols::largest)
        size = limit->whole() ? number::of(high) : c.open(high);
    } else if (start && limit && step && !is_real && step->whole() && step->low < 0 && start->whole() &&
               limit->whole() && step->low != number::lowest) {
      std::int64_t span = 0;
      if (limit->low >= start->low)
        size = number::of(0);
      else if (!__builtin_sub_overflow(start->low, limit->low, &span) && span < onnx_symbols::largest)
        size = number::of(1 + (span - 1) / -step->low);
    }
    c.result(0, type, dimensions{size});
  }

  static void top_k(call const& c) {
    auto made = c.dims(0);
    auto const axis = made ? onnx_axis(c.attribute("axis", -1), made->size()) : std::nullopt;
    if (axis) {
      auto& d = (*made)[*axis];
      auto const* k = c.numbers(1);
      number count{.low = 0, .high = onnx_symbols::largest};
      if (auto const* a = find_onnx_attribute(c.n, "k"))
        count = number::of(a->i());
      else if (k != nullptr && k->data.size() == 1 && !k->real())
        count = k->data[0];
      d = count.low >= 0 && (count.whole() || count.symbol != 0) ? count
                                                                 : c.open((std::min)(d.high, count.high));
    } else {
      made = std::nullopt;
    }
    c.result(0, c.element(0), made);
    c.result(1, ::onnx::TensorProto::INT64, made);
  }

  static void split(call const& c) {
    auto const from = c.dims(0);
    auto const parts = c.made.size();
    auto const axis = from ? onnx_axis(c.attribute("axis", 0), from->size()) : std::nullopt;
    if (!axis) {
      for (std::size_t k = 0; k < parts; ++k) c.result(k, c.element(0), std::nullopt);
      return;
    }
    auto const whole = (*from)[*axis];
    auto const* listed = c.numbers(1);
    std::optional<dimensions> sizes;
    if (auto const* a = find_onnx_attribute(c.n, "split")) {
      sizes.emplace();
      for (auto const x : a->ints()) sizes->push_back(number::of(x));
    } else if (listed != nullptr && !listed->real()) {
      sizes = listed->data;
    } else if (!c.has(1) && whole.whole()) {
      auto const count = static_cast<std::int64_t>(parts);
      auto const each = whole.low / count + (whole.low % count != 0);
      sizes.emplace(parts, number::of(each));
      sizes->back() = number::of(whole.low - (std::min)(whole.low, each * (count - 1)));
    }
    if (!sizes || sizes->size() != parts) sizes.emplace(parts, number{});
    for (std::size_t k = 0; k < parts; ++k) {
      auto made = *from;
      auto const& d = (*sizes)[k];
      made[*axis] = d.low < 0 || (!d.whole() && d.symbol == 0) ? c.open(whole.high) : d;
      c.result(k, c.element(0), made);
    }
  }

  static void one_hot(call const& c) {
    auto made = c.dims(0);
    if (made) {
      auto const axis = onnx_axis(c.attribute("axis", -1), made->size() + 1);
      auto const* depth = c.numbers(1);
      auto size = c.open();
      if (depth != nullptr && depth->data.size() == 1 && depth->known() && !depth->real() &&
          depth->data[0].low >= 0)
        size = depth->data[0];
      if (axis)
        made->insert(made->begin() + static_cast<std::ptrdiff_t>(*axis), size);
      else
        made = std::nullopt;
    }
    c.result(0, c.element(2), made);
  }

  static void unsqueeze(call const& c) {
    auto const from = c.dims(0);
    auto const axes = c.list("axes", 1);
    if (!from) return c.result(0, c.element(0), std::nullopt);
    if (!axes.list) {
      auto const count = c.length(1);
      return c.result(0, c.element(0), count ? shape(c.open_rank(from->size() + *count)) : std::nullopt);
    }
    auto const rank = from->size() + axes.list->size();
    auto const is_new = onnx_axes(*axes.list, rank);
    if (!is_new) return c.result(0, c.element(0), std::nullopt);
    dimensions made;
    for (std::size_t k = 0, next = 0; k < rank; ++k)
      made.push_back((*is_new)[k] != 0 ? number::of(1) : (*from)[next++]);
    c.result(0, c.element(0), made);
  }

  static void squeeze(call const& c) {
    auto const from = c.dims(0);
    auto const axes = c.list("axes", 1);
    if (!from) return c.result(0, c.element(0), std::nullopt);
    dimensions made;
    if (axes.given) {
      auto const goes = axes.list ? onnx_axes(*axes.list, from->size()) : std::nullopt;
      if (!goes) {
        auto const count = c.length(1);
        bool const fits = !axes.list && count && *count <= from->size();
        return c.result(0, c.element(0), fits ? shape(c.open_rank(from->size() - *count)) : std::nullopt);
      }
      for (std::size_t k = 0; k < from->size(); ++k)
        if ((*goes)[k] == 0) made.push_back((*from)[k]);
    } else {
      for (auto const& d : *from) {
        if (!d.whole() && d.low <= 1) return c.result(0, c.element(0), std::nullopt);
        if (!d.is(1)) made.push_back(d);
      }
    }
    c.result(0, c.element(0), made);
  }

  static void reduce(call const& c) {
    auto const from = c.dims(0);
    auto const axes = c.list("axes", 1);
    if (!from) return c.result(0, c.element(0), std::nullopt);
    bool const keeps = c.attribute("keepdims", 1) != 0;
    auto const rank = from->size();
    if (axes.given && !axes.list) {
      if (keeps) {
        auto made = *from;
        for (auto& d : made) d = d.is(1) ? d : c.open((std::max)(d.high, std::int64_t{1}));
        return c.result(0, c.element(0), made);
      }
      auto const count = c.length(1);
      bool const fits = count && *count > 0 && *count <= rank;
      return c.result(0, c.element(0), fits ? shape(c.open_rank(rank - *count)) : std::nullopt);
    }
    std::optional<std::vector<char>> goes(std::vector<char>(rank, 1));
    if (axes.given && !axes.list->empty())
      goes = onnx_axes(*axes.list, rank);
    else if (c.attribute("noop_with_empty_axes", 0) != 0)
      goes->assign(rank, 0);
    if (!goes) return c.result(0, c.element(0), std::nullopt);
    dimensions made;
    for (std::size_t k = 0; k < rank; ++k)
      if ((*goes)[k] == 0)
        made.push_back((*from)[k]);
      else if (keeps)
        made.push_back(number::of(1));
    c.result(0, c.element(0), made);
  }

  static void concat(call const& c) {
    auto made = c.dims(0);
    auto const axis = made ? onnx_axis(c.attribute("axis", 1), made->size()) : std::nullopt;
    if (!axis) return c.result(0, c.element(0), std::nullopt);
    for (std::size_t i = 1; i < c.types.size(); ++i) {
      auto const part = c.dims(i);
      if (part && part->size() != made->size()) return c.result(0, c.element(0), std::nullopt);
      for (std::size_t k = 0; k < made->size(); ++k) {
        auto& d = (*made)[k];
        if (k == *axis)
          d = part ? sum(c, d, (*part)[k]) : c.open();
        else if (part && (*part)[k].whole() && !d.whole())
          d = (*part)[k];
      }
    }
    c.result(0, c.element(0), made);
  }

  // Shapes that depend on data, with bounds.

  static void non_zero(call const& c) {
    auto const from = c.dims(0);
    auto const rank = from ? number::of(static_cast<std::int64_t>(from->size())) : c.open();
    c.result(0, ::onnx::TensorProto::INT64,
             dimensions{rank.is(0) ? c.open(1) : rank,
                        c.open(from ? highest_product(*from) : onnx_symbols::largest)});
  }

  static void compress(call const& c) {
    auto const from = c.dims(0), keeps = c.dims(1);
    auto const* a = find_onnx_attribute(c.n, "axis");
    auto const most = keeps && keeps->size() == 1 ? (*keeps)[0].high : onnx_symbols::largest;
    auto const* which = c.numbers(1);
    auto const kept = [&](std::int64_t high) {
      if (which == nullptr || !which->known()) return c.open((std::min)(high, most));
      return number::of(std::ranges::count_if(which->data, [](auto const& x) { return x.low != 0; }));
    };
    if (a == nullptr)
      return c.result(0, c.element(0),
                      dimensions{kept(from ? highest_product(*from) : onnx_symbols::largest)});
    auto made = from;
    auto const axis = made ? onnx_axis(a->i(), made->size()) : std::nullopt;
    if (!axis) return c.result(0, c.element(0), std::nullopt);
    (*made)[*axis] = kept((*made)[*axis].high);
    c.result(0, c.element(0), made);
  }

  /// At most `max_output_boxes_per_class` boxes of each class and batch.
  static void non_max_suppression(call const& c) {
    auto const scores = c.dims(1);
    auto most = onnx_symbols::largest;
    if (scores && scores->size() == 3) {
      auto factors = *scores;
      auto const* each = c.numbers(2);
      if (!c.has(2))
        factors[2] = number::of(0);
      else if (each != nullptr && each->data.size() == 1 && !each->real() && each->data[0].high >= 0)
        factors[2].high = (std::min)(factors[2].high, each->data[0].high);
      most = highest_product(factors);
    }
    c.result(0, ::onnx::TensorProto::INT64,
             dimensions{most == 0 ? number::of(0) : c.open(most), number::of(3)});
  }

  /// Each letter has one size; a result without `->` has the letters that occur once, sorted.
  static void einsum(call const& c) {
    std::string text(c.word("equation", ""));
    std::erase(text, ' ');
    std::map<char, number> size;
    std::map<char, int> times;
    auto const arrow = text.find("->");
    std::string_view left(text);
    left = left.substr(0, arrow);
    bool is_plain = !text.empty() && text.find('.') == std::string::npos;
    for (std::size_t i = 0; i < c.types.size() && is_plain; ++i) {
      auto const letters = left.substr(0, left.find(','));
      left.remove_prefix((std::min)(letters.size() + 1, left.size()));
      auto const from = c.dims(i);
      is_plain = !from || from->size() == letters.size();
      for (std::size_t k = 0; k < letters.size() && is_plain; ++k) {
        ++times[letters[k]];
        auto const d = from ? (*from)[k] : c.open();
        auto const [at, fresh] = size.try_emplace(letters[k], d);
        if (!fresh && !at->second.whole() && d.whole()) at->second = d;
        if (!fresh && at->second.is(1) && !d.is(1)) at->second = d;  // some engines broadcast 1
      }
    }
    if (!is_plain || !left.empty()) return c.result(0, c.element(0), std::nullopt);
    std::string letters;
    if (arrow != std::string::npos)
      letters = text.substr(arrow + 2);
    else
      for (auto const& [letter, count] : times)
        if (count == 1) letters += letter;
    dimensions made;
    for (char const letter : letters) {
      auto const at = size.find(letter);
      if (at == size.end()) return c.result(0, c.element(0), std::nullopt);
      made.push_back(at->second);
    }
    c.result(0, c.element(0), made);
  }

  static constexpr int boolean = ::onnx::TensorProto::BOOL;
  static constexpr auto rules = std::to_array<entry>({
      {"Abs", 1, like_first},
      {"Add", 2, elementwise},
      {"And", 2, elementwise<boolean>},
      {"BitwiseAnd", 2, elementwise},
      {"BitwiseNot", 1, like_first},
      {"BitwiseOr", 2, elementwise},
      {"BitwiseXor", 2, elementwise},
      {"Cast", 1, cast},
      {"Ceil", 1, like_first},
      {"Clip", 1, like_first},
      {"Compress", 1, compress},
      {"Concat", 1, concat},
      {"ConstantOfShape", 1, filled},
      {"Cos", 1, like_first},
      {"Div", 2, elementwise},
      {"Dropout", 1, dropout},
      {"Einsum", 1, einsum},
      {"Elu", 1, like_first},
      {"Equal", 2, elementwise<boolean>},
      {"Erf", 1, like_first},
      {"Exp", 1, like_first},
      {"Expand", 1, expand},
      {"Floor", 1, like_first},
      {"Gelu", 1, like_first},
      {"Greater", 2, elementwise<boolean>},
      {"GreaterOrEqual", 2, elementwise<boolean>},
      {"GroupNormalization", 1, like_first},
      {"HardSigmoid", 1, like_first},
      {"HardSwish", 1, like_first},
      {"Identity", 1, like_first},
      {"LeakyRelu", 1, like_first},
      {"Less", 2, elementwise<boolean>},
      {"LessOrEqual", 2, elementwise<boolean>},
      {"Log", 1, like_first},
      {"Max", 1, elementwise},
      {"Mean", 1, elementwise},
      {"Min", 1, elementwise},
      {"Mish", 1, like_first},
      {"Mod", 2, elementwise},
      {"Mul", 2, elementwise},
      {"Neg", 1, like_first},
      {"NonMaxSuppression", 2, non_max_suppression},
      {"NonZero", 1, non_zero},
      {"Not", 1, like_first},
      {"OneHot", 3, one_hot},
      {"Or", 2, elementwise<boolean>},
      {"Pad", 1, pad},
      {"Pow", 2, elementwise},
      {"RMSNormalization", 1, like_first},
      {"Range", 1, range},
      {"Reciprocal", 1, like_first},
      {"ReduceL1", 1, reduce},
      {"ReduceL2", 1, reduce},
      {"ReduceLogSum", 1, reduce},
      {"ReduceLogSumExp", 1, reduce},
      {"ReduceMax", 1, reduce},
      {"ReduceMean", 1, reduce},
      {"ReduceMin", 1, reduce},
      {"ReduceProd", 1, reduce},
      {"ReduceSum", 1, reduce},
      {"ReduceSumSquare", 1, reduce},
      {"Relu", 1, like_first},
      {"Reshape", 1, reshape},
      {"Resize", 1, resize},
      {"RotaryEmbedding", 1, like_first},
      {"Round", 1, like_first},
      {"Sigmoid", 1, like_first},
      {"Sign", 1, like_first},
      {"Sin", 1, like_first},
      {"Slice", 1, slice},
      {"Softplus", 1, like_first},
      {"Split", 1, split},
      {"Sqrt", 1, like_first},
      {"Squeeze", 1, squeeze},
      {"Sub", 2, elementwise},
      {"Sum", 1, elementwise},
      {"Swish", 1, like_first},
      {"Tanh", 1, like_first},
      {"Tile", 1, tile},
      {"TopK", 1, top_k},
      {"Unsqueeze", 1, unsqueeze},
      {"Upsample", 1, resize},
      {"Where", 3, where},
      {"Xor", 2, elementwise<boolean>},
  });
  static_assert(std::ranges::is_sorted(rules, {}, &entry::name));

  onnx_symbols& symbols_;
};

}  // namespace cleave::detail
