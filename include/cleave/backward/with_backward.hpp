// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/backward_plan.hpp"
#include "cleave/backward/make_backward_plan.hpp"
#include "cleave/backward/stage_root.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"

/// Writes the backward pass of a pipe as calls in its root:
///
///     stage_backward(stage_output=(…), output_grads=(…), input_values=[…], outputs_with_grads_idxs=[…])
///         differentiates a stage and returns the gradient of each input value;
///     getitem(that, i)
///         takes one of these gradients;
///     null_coalesce_accumulate(old, new)
///         adds two gradients; null counts as zero. Tuples are added element by element;
///     element_gradient(of, key, gradient)
///         is for an input that is read by a string key or from the end. It returns a gradient of the form
///         of `of` that is null except at `key`.
///
/// `stage_output` and `output_grads` have the same form. Null stands for an unused output and for a gradient
/// that does not arrive. For the stage that makes the loss all gradients are null; there, null means one.
namespace cleave::inline v0_2::detail {

/// Writes a backward plan into a module_graph. Helper of `append_backward`.
class backward_writer {
 public:
  using position = module_graph::position;

  /// `at` has the position of each value of the plan in `to`.
  backward_writer(module_graph& to, module_names& names, std::vector<position> const& at)
      : to_(to), names_(names), at_(at) {}

  /// Writes the plan. Returns the gradients of the root's inputs that the plan contains.
  std::vector<module_argument> write(backward_plan const& planned) {
    gradients_.reserve(planned.gradients.size());
    for (std::size_t c = 0; c < planned.calls.size(); ++c) {
      auto const& call = planned.calls[c];
      auto const end =
          c + 1 < planned.calls.size() ? planned.calls[c + 1].first_gradient : planned.gradients.size();
      auto const made = write(call);
      for (std::size_t g = call.first_gradient; g < end; ++g)
        gradients_.push_back(write(planned.gradients[g], made));
    }
    std::vector<module_argument> inputs;
    for (auto const& tree : planned.inputs) inputs.push_back(write(tree));
    return inputs;
  }

 private:
  static container tuple(std::size_t size) {
    return {container::kind::tuple, static_cast<std::uint32_t>(size)};
  }

  static void append(module_argument& to, std::vector<position> const& at, std::uint32_t v) {
    if (v == none<std::uint32_t>)
      to.emplace_back();
    else
      to.emplace_back(node_ref{at[v]});
  }

  position write(backward_call const& call) {
    module_argument outputs{tuple(call.width)}, gradients{tuple(call.width)};
    for (auto const& place : call.outputs) {
      if (place.elements > 0) {
        outputs.emplace_back(tuple(place.elements));
        gradients.emplace_back(tuple(place.elements));
      } else {
        append(outputs, at_, place.value);
        append(gradients, gradients_, place.gradient);
      }
    }
    module_argument inputs{container{container::kind::list, static_cast<std::uint32_t>(call.inputs.size())}};
    for (auto const v : call.inputs) append(inputs, at_, v);
    module_argument selected{
        container{container::kind::list, static_cast<std::uint32_t>(call.selected.size())}};
    for (auto const i : call.selected) selected.emplace_back(std::int64_t{i});

    module_node n;
    n.target = "stage_backward";
    n.kwargs = {{"stage_output", std::move(outputs)},
                {"output_grads", std::move(gradients)},
                {"input_values", std::move(inputs)},
                {"outputs_with_grads_idxs", std::move(selected)}};
    return add(std::move(n));
  }

  position write(gradient_step const& g, position call) {
    module_node n;
    if (g.is_sum()) return accumulate(node_argument(gradients_[g.old]), node_argument(gradients_[g.added]));
    n.target = "getitem";
    n.args = {node_argument(call), {std::int64_t{g.input}}};
    return add(std::move(n));
  }

  position accumulate(module_argument old, module_argument added) {
    module_node n;
    n.target = "null_coalesce_accumulate";
    n.args = {std::move(old), std::move(added)};
    return add(std::move(n));
  }

  /// A place of a tree that has been written.
  struct written_place {
    std::uint32_t value;
    module_argument gradient;
  };

  /// Writes the places from last to first, so that the elements of a tuple are written before the tuple.
  module_argument write(gradient_tree const& tree) {
    std::vector<written_place> done;
    for (auto place = tree.rbegin(); place != tree.rend(); ++place) {
      module_argument a;
      if (place->elements == 0) {
        append(a, gradients_, place->gradient);
      } else {
        std::vector<written_place> elements;
        for (auto i = place->elements; i > 0; --i) {
          elements.push_back(std::move(done.back()));
          done.pop_back();
        }
        a = write(*place, elements);
      }
      done.push_back({place->value, std::move(a)});
    }
    return std::move(done.back().gradient);
  }

  /// Returns the gradient of a value whose elements are read. The elements at non-negative positions form a
  /// tuple, and the gradients of the others are added to it.
  module_argument write(gradient_place const& whole, std::vector<written_place> const& elements) {
    auto const reading = [&](written_place const& e) -> module_node const& { return to_[at_[e.value]]; };
    auto const other = [&](written_place const& e) {
      return e.value != none<std::uint32_t> && reading(e).target == "getitem" &&
             !is_place_from_the_start(reading(e).args[1].front());
    };
    auto const first_other = std::ranges::find_if(elements, other);
    auto end = first_other;
    while (end != elements.begin() && std::prev(end)->value == none<std::uint32_t>) --end;
    module_argument sum;
    auto const add_part = [&](module_argument part) {
      sum = sum.empty() ? std::move(part) : node_argument(accumulate(std::move(sum), std::move(part)));
    };
    if (whole.gradient != none<std::uint32_t>) add_part(node_argument(gradients_[whole.gradient]));
    if (end != elements.begin()) {
      module_argument row{tuple(static_cast<std::size_t>(end - elements.begin()))};
      for (auto e = elements.begin(); e != end; ++e)
        row.insert(row.end(), e->gradient.begin(), e->gradient.end());
      add_part(std::move(row));
    }
    for (auto e = first_other; e != elements.end(); ++e) {
      if (e->value == none<std::uint32_t>) continue;
      module_node n;
      n.target = "element_gradient";
      n.args = {node_argument(at_[whole.value]), reading(*e).args[1], e->gradient};
      add_part(node_argument(add(std::move(n))));
    }
    return sum;
  }

  position add(module_node n) {
    n.name = names_.take(node_kind::call_function, n.target);
    return to_.add(std::move(n));
  }

  module_graph& to_;
  module_names& names_;
  std::vector<position> const& at_;
  std::vector<position> gradients_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns true if `n` is the backward call of the stage that makes the loss: the call without output
/// gradients.
inline bool is_backward_of_loss(module_node const& n) {
  if (n.kind != node_kind::call_function || n.target != "stage_backward") return false;
  bool any = false;
  for (auto const& k : n.kwargs)
    if (k.key == "output_grads") detail::each_node(k.value, [&](auto) { any = true; });
  return !any;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Appends the calls of `planned` to `to`.
/// \param at position in `to` of each value of the plan
/// \param names names in use in `to`
/// \returns the gradient of each input for which the plan has one; null if none arrives
///
/// O(size of the plan).
inline std::vector<module_argument> append_backward(module_graph& to, module_names& names,
                                                    std::vector<module_graph::position> const& at,
                                                    backward_plan const& planned) {
  return backward_writer(to, names, at).write(planned);
}

/// Returns the new output of a root: the pair of the old output and the tuple of gradients.
inline module_argument with_gradients(module_argument const& given,
                                      std::vector<module_argument> const& gradients) {
  module_argument both{container{container::kind::tuple, 2}};
  both.insert(both.end(), given.begin(), given.end());
  both.emplace_back(container{container::kind::tuple, static_cast<std::uint32_t>(gradients.size())});
  for (auto const& g : gradients) both.insert(both.end(), g.begin(), g.end());
  return both;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `root` with its backward pass from `loss` inserted before the output. If gradients of inputs are
/// returned, the new output is a pair: the old output and a tuple with one gradient for each placeholder.
/// Existing nodes keep their names and order. O(V log V + E + size of all attributes).
/// \throws backward_error
inline module_graph with_backward(module_graph const& root, module_graph::position loss,
                                  backward_options const& options = {}) {
  auto const planned = make_backward_plan(stage_root_of(root), loss, options,
                                          [&](auto v) { return "node " + quoted(root[v].name); });
  module_graph made;
  auto const made_size = root.list().size() + planned.calls.size() + planned.gradients.size();
  made.reserve(made_size);
  detail::module_names names;
  names.reserve(made_size);
  std::vector<module_graph::position> at(root.list().size());
  auto const copy = [&](module_node n) {
    auto const moved = [&](auto v) { return at[v]; };
    for (auto& a : n.args) a = detail::map_nodes(std::move(a), moved);
    for (auto& k : n.kwargs) k.value = detail::map_nodes(std::move(k.value), moved);
    for (auto& m : n.after) m = at[m];
    return n;
  };
  auto const output = root.output();
  for (module_graph::position n = 0; n < root.list().size(); ++n) {
    names.take(root[n].name);
    if (n != output) at[n] = made.add(copy(root[n]));
  }
  auto const gradients = detail::append_backward(made, names, at, planned);
  if (output) {
    auto last = copy(root[*output]);
    if (last.args.empty()) last.args.push_back({token()});
    if (options.inputs == input_gradients::returned)
      last.args.front() = detail::with_gradients(last.args.front(), gradients);
    made.add(std::move(last));
  }
  for (auto const& a : root.attributes()) made.add_attribute(a);
  made.metadata = root.metadata;
  return made;
}

}  // namespace cleave
