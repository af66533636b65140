// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/backward_plan.hpp"
#include "cleave/backward/stage_root.hpp"
#include "cleave/graph/csr.hpp"

namespace cleave::inline v0_2 {

/// Says if the gradients of the caller's inputs are dropped, or summed and returned.
enum class input_gradients : std::uint8_t { dropped, returned };

/// Options of `make_backward_plan`.
struct backward_options {
  input_gradients inputs = input_gradients::dropped;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Plans the backward pass from the loss to the first stage. Helper of `make_backward_plan`.
class backward_planner {
 public:
  backward_planner(stage_root const& root, place_tree const& places, std::uint32_t loss,
                   backward_options const& options)
      : root_(root),
        loss_(loss),
        options_(options),
        places_(places),
        live_(root.values()),
        gradient_(places.first.size(), no),
        reached_(places.first.size()),
        taken_(root.values(), no) {}

  backward_plan make() {
    mark_live();
    reach(places_.of[loss_]);
    for (auto v = loss_ + 1; v-- > 0;)
      if (live_[v] && root_.kind[v] == root_kind::stage) call(v);
    if (options_.inputs == input_gradients::returned)
      for (std::uint32_t v = 0; v < root_.values(); ++v)
        if (root_.kind[v] == root_kind::input) plan_.inputs.push_back(tree_of(places_.of[v]));
    return std::move(plan_);
  }

 private:
  static constexpr auto no = none<std::uint32_t>;

  void mark_live() {
    live_[loss_] = 1;
    for (auto v = loss_ + 1; v-- > 0;)
      if (live_[v])
        for (auto const read : root_.reads[v]) live_[read] = 1;
  }

  void call(std::uint32_t stage) {
    auto const number = static_cast<std::uint32_t>(plan_.calls.size());
    backward_call c{.stage = stage};
    list_outputs(c);
    c.first_gradient = static_cast<std::uint32_t>(plan_.gradients.size());
    for (auto const v : root_.reads[stage]) {
      if (std::exchange(taken_[v], number) == number) continue;
      auto const input = static_cast<std::uint32_t>(c.inputs.size());
      c.inputs.push_back(v);
      arrive(v, add({.value = v, .call = number, .input = input}));
    }
    plan_.calls.push_back(std::move(c));
  }

  std::uint32_t add(gradient_step g) {
    plan_.gradients.push_back(g);
    return narrow<std::uint32_t>(plan_.gradients.size() - 1);
  }

  /// Assigns gradient `g` to the place of `v`. If the place has a gradient from later stages, that is the
  /// left operand of a sum.
  void arrive(std::uint32_t v, std::uint32_t g) {
    auto const p = places_.of[v];
    auto const from = root_.kind[places_.base[p]];
    bool const kept = from == root_kind::stage ||
                      (from == root_kind::input && options_.inputs == input_gradients::returned);
    if (!kept) return;
    if (gradient_[p] != no) g = add({.value = v, .old = gradient_[p], .added = g});
    gradient_[p] = g;
    reach(p);
  }

  /// Marks that a gradient arrives at `p` or at one of its elements.
  void reach(std::uint32_t p) {
    for (; p != no && !std::exchange(reached_[p], 1); p = places_.above[p]) continue;
  }

  bool has_elements(std::uint32_t p) const { return !places_.elements[p].empty(); }

  /// Lists the outputs of a call. A stage without elements has one output. For a stage with elements all are
  /// listed; below these only elements that a gradient reaches, because a null gradient is not a zero.
  void list_outputs(backward_call& c) {
    auto const p = places_.of[c.stage];
    std::vector<gradient_place> whole;
    if (!has_elements(p)) {
      c.outputs = {{c.stage, gradient_[p], 0}};
      c.selected = {0};
      c.width = 1;
      return;
    }
    if (gradient_[p] != no) whole.push_back({c.stage, gradient_[p], 0});
    for (auto const e : places_.elements[p]) {
      auto const at = root_.element[places_.first[e]];
      for (; c.width < at; ++c.width) c.outputs.push_back({});
      if (reached_[e]) c.selected.push_back(c.width);
      reached_[e] ? append_tree(e, c.outputs, &whole) : c.outputs.push_back({places_.first[e], no, 0});
      ++c.width;
    }
    for (auto const& w : whole) {
      c.selected.push_back(c.width++);
      c.outputs.push_back(w);
    }
  }

  gradient_tree tree_of(std::uint32_t p) {
    gradient_tree tree;
    append_tree(p, tree, nullptr);
    return tree;
  }

  /// Appends the places in `p` that gradients reach, in prefix order. If a tuple with elements also has a
  /// gradient of its own, that gradient is appended to `whole`. Without `whole` it stays with the tuple.
  void append_tree(std::uint32_t p, std::vector<gradient_place>& to, std::vector<gradient_place>* whole) {
    rest_.assign(1, p);
    while (!rest_.empty()) {
      auto const q = rest_.back();
      rest_.pop_back();
      if (q == no || !reached_[q]) {
        to.push_back({});
        continue;
      }
      auto const elements = reached_elements(q);
      gradient_place place{places_.first[q], gradient_[q], 0};
      if (elements > 0) {
        if (whole && place.gradient != no) whole->push_back(place);
        if (whole) place = {};
        place.elements = elements;
        push_elements(q, elements);
      }
      to.push_back(place);
    }
  }

  /// Returns one more than the index of the last element of `p` that a gradient reaches.
  std::uint32_t reached_elements(std::uint32_t p) const {
    std::uint32_t count = 0;
    for (auto const e : places_.elements[p])
      if (reached_[e]) count = root_.element[places_.first[e]] + 1;
    return count;
  }

  void push_elements(std::uint32_t p, std::uint32_t count) {
    auto const base = rest_.size();
    rest_.resize(base + count, no);
    for (auto const e : places_.elements[p])
      if (reached_[e]) rest_[base + count - 1 - root_.element[places_.first[e]]] = e;
  }

  stage_root const& root_;
  std::uint32_t loss_;
  backward_options options_;
  place_tree const& places_;
  std::vector<char> live_;               // for each value: true if the loss depends on it
  std::vector<std::uint32_t> gradient_;  // for each place: the gradient accumulated so far
  std::vector<char> reached_;            // for each place: true if a gradient arrives at it or at an element
  std::vector<std::uint32_t> taken_;     // for each value: the last call that has it among its inputs
  std::vector<std::uint32_t> rest_;      // stack of places still to be written
  backward_plan plan_;
};

/// Returns the reason why `root` has no backward pass from `loss`, or nothing. O(V log V + E).
inline std::optional<root_fault> find_backward_fault(stage_root const& root, std::uint32_t loss) {
  if (auto const f = find_root_fault(root, loss)) return f;
  return find_tuple_loss(root, place_tree(root), loss);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Plans the backward pass of `root` from `loss`.
///
/// The plan has one call for each stage that the loss depends on, from the last to the first. A call lists
/// the outputs of the stage, their gradients, and its inputs. The plan also says where gradients are added:
/// each element is summed separately, no matter where and how often it is extracted. If no stage makes the
/// loss, the plan is empty.
///
/// \param name `name(v)` returns the name of value v in error messages
/// \throws backward_error
///
/// O(V log V + E + width of all tuples), without recursion.
template <class Name>
backward_plan make_backward_plan(stage_root const& root, std::uint32_t loss, backward_options const& options,
                                 Name name) {
  auto const refuse = [&](std::optional<detail::root_fault> const& f) {
    if (f) throw detail::backward_error(detail::root_fault_text(*f, name), *f);
  };
  refuse(detail::find_root_fault(root, loss));
  detail::place_tree const places(root);
  refuse(detail::find_tuple_loss(root, places, loss));
  return detail::backward_planner(root, places, loss, options).make();
}

/// Plans the backward pass with values named by their numbers in error messages.
/// \throws backward_error
inline backward_plan make_backward_plan(stage_root const& root, std::uint32_t loss,
                                        backward_options const& options = {}) {
  return make_backward_plan(root, loss, options,
                            [](std::uint32_t v) { return "value #" + std::to_string(v); });
}

}  // namespace cleave
