// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/backward/stage_backward.hpp"
#include "cleave/backward/with_backward.hpp"
#include "cleave/graph/interpreter.hpp"
#include "support/linear_stages.hpp"

namespace cleave::testing {

using namespace detail;

/// A value in a root with a backward pass. It is null, a place in the output of a stage or in an input, the
/// gradient of a number, a tuple or dict, or a key.
struct linear_value {
  enum class kind : std::uint8_t { null, place, number, tuple, key };

  kind what = kind::null;
  whole_number bits = 0;
  std::uint32_t base = 0;
  value_shape const* shape = nullptr;  ///< of a tuple of gradients: the shape of their value
  std::vector<linear_value> items{};
  std::string text{};
};

/// The meaning of a root with a backward pass if stages are linear: an interpretation and the autograd that
/// it calls. Only a loss, which is a single number, may have no output gradient.
class linear_gradients {
 public:
  linear_gradients(linear_stages const& stages, std::uint32_t loss) : stages_(stages), loss_(loss) {}

  /// By differentiated stage: the gradients of its numbers.
  std::map<std::uint32_t, std::vector<whole_number>> received;
  /// A node of the root whose gradient is dropped. `dropped_any` is true if it had one.
  module_graph::position dropped = none<module_graph::position>;
  bool dropped_any = false;
  /// The shapes that are dicts; their keys are k0, k1, …
  std::set<value_shape const*> dicts;

  linear_value null() const { return {}; }
  bool is_null(linear_value const& v) const { return v.what == linear_value::kind::null; }
  std::optional<std::vector<linear_value>> elements(linear_value const& v) const {
    if (v.what == linear_value::kind::tuple) return v.items;
    if (v.what != linear_value::kind::place || v.shape->elements.empty()) return std::nullopt;
    std::vector<linear_value> places;
    for (auto const& e : v.shape->elements) places.push_back(place(v.base, e));
    return places;
  }
  std::vector<std::string> keys(linear_value const& v) const {
    std::vector<std::string> list;
    for (std::size_t i = 0; dicts.contains(v.shape) && i < v.shape->elements.size(); ++i)
      list.push_back("k" + std::to_string(i));
    return list;
  }
  linear_value rebuild(linear_value const& like, std::vector<linear_value> items) const {
    return {linear_value::kind::tuple, 0, 0, like.shape, std::move(items)};
  }
  bool needs_gradient(linear_value const& v) const { return v.what == linear_value::kind::place; }
  bool is_scalar(linear_value const& v) const {
    return v.base == stages_.base(loss_) && v.shape == &stages_.shape(loss_);
  }
  linear_value one(linear_value const&) const { return number(1); }
  linear_value add(linear_value const& x, linear_value const& y) const { return number(x.bits + y.bits); }

  void differentiate(std::vector<linear_value> const& outputs, std::vector<linear_value> const& gradients) {
    auto const stage = outputs.front().base;
    auto& given = received[stage];
    if (!given.empty()) throw std::logic_error("a stage is differentiated twice");
    given.assign(stages_.shape(stage).count, 0);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].base != stage) throw std::logic_error("outputs of two stages in one call");
      given[outputs[i].shape->first] += gradients[i].bits;
    }
    auto const reads = stages_.root().reads[stage];
    for (std::size_t k = 0; k < reads.size(); ++k)
      for (std::size_t i = 0; i < stages_.shape(reads[k]).count; ++i)
        held_[{stages_.base(reads[k]), stages_.shape(reads[k]).first + i}] +=
            linear_stages::part(stage, given, k, i);
  }
  linear_value take_gradient(linear_value const& v) {
    if (v.what != linear_value::kind::place) return {};
    auto const held = held_.extract({v.base, v.shape->first});
    return held.empty() ? linear_value{} : number(held.mapped());
  }

  linear_value constant(token const& t) const {
    auto const* i = std::get_if<std::int64_t>(&t);
    if (auto const* key = std::get_if<std::string>(&t))
      return {linear_value::kind::key, 0, 0, nullptr, {}, *key};
    return i ? number(static_cast<whole_number>(*i)) : linear_value{};
  }
  linear_value collect(container const&, std::span<linear_value const> items) const {
    return rebuild({}, {items.begin(), items.end()});
  }
  linear_value attribute(module_graph const&, module_graph::position) const { return {}; }
  linear_value call(module_graph const& g, module_graph::position n, std::span<linear_value const> args,
                    std::span<linear_value const> kwargs) {
    auto made = value_of(g, n, args, kwargs);
    if (n == dropped) dropped_any = has_number(std::exchange(made, {}));
    return made;
  }

  /// Returns the input that belongs to placeholder `v`.
  linear_value input(std::uint32_t v) const { return place(v, stages_.shape(v)); }

  /// Appends the numbers of a gradient of shape `shape` to `to`; null counts as zeros.
  static void flatten(linear_value const& v, value_shape const& shape, std::vector<whole_number>& to) {
    if (shape.elements.empty()) {
      to.push_back(v.bits);
    } else {
      for (std::size_t i = 0; i < shape.elements.size(); ++i)
        flatten(i < v.items.size() ? v.items[i] : linear_value{}, shape.elements[i], to);
    }
  }

 private:
  linear_value value_of(module_graph const& g, module_graph::position n, std::span<linear_value const> args,
                        std::span<linear_value const> kwargs) {
    auto const& node = g[n];
    if (node.kind == node_kind::call_module) return place(n, stages_.shape(n));
    if (node.target == "getitem") {  // of a place: the root says which element
      bool const of_place = args[0].what == linear_value::kind::place;
      return elements(args[0]).value().at(of_place ? stages_.root().element[n] : args[1].bits);
    }
    if (node.target == "element_gradient") {
      element_key key = static_cast<std::int64_t>(args[1].bits);
      if (args[1].what == linear_value::kind::key) key = args[1].text;
      return element_gradient(*this, args[0], key, args[2]);
    }
    if (node.target == "null_coalesce_accumulate") return null_coalesce_accumulate(*this, args[0], args[1]);
    if (node.target != "stage_backward") throw std::logic_error("a call of " + node.target);
    std::vector<std::size_t> selected;
    for (auto const& i : kwargs[3].items) selected.push_back(i.bits);
    auto const null = is_backward_of_loss(node) ? null_gradient::at_the_loss : null_gradient::nothing;
    return rebuild({}, stage_backward(*this, kwargs[0], kwargs[1], kwargs[2].items, selected, null));
  }

  static bool has_number(linear_value const& v) {
    return v.what == linear_value::kind::number || std::ranges::any_of(v.items, has_number);
  }
  static linear_value number(whole_number bits) { return {linear_value::kind::number, bits, 0, nullptr, {}}; }
  static linear_value place(std::uint32_t base, value_shape const& shape) {
    return {linear_value::kind::place, 0, base, &shape, {}};
  }

  linear_stages const& stages_;
  std::uint32_t loss_;
  std::map<std::pair<std::uint32_t, std::size_t>, whole_number> held_;
};

}  // namespace cleave::testing
