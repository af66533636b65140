// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/pipe_dataflow.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "support/toy_autograd.hpp"
#include "support/toy_batches.hpp"
#include "support/toy_memory.hpp"

/// The tensors that the stages of a pipe send to each other. Stages may return tuples, but messages hold
/// tensors.
namespace cleave::testing {

using namespace detail;

/// Calls `f` for each tensor in `v` at any depth, from left to right.
template <class F>
void each_tensor(tape_value const& v, F f) {
  if (v.what == tape_value::kind::tensor) f(v);
  if (v.what == tape_value::kind::composite)
    for (auto const& i : *v.items) each_tensor(i, f);
}

inline tape_values tensors_in(tape_values const& list) {
  tape_values all;
  for (auto const& v : list) each_tensor(v, [&](tape_value const& t) { all.push_back(t); });
  return all;
}

/// Returns `form` with each tensor replaced by `next()`.
template <class F>
tape_value with_tensors(tape_value const& form, F& next) {
  if (form.what == tape_value::kind::tensor) return next();
  if (form.what == tape_value::kind::constant) return form;
  tape_values items;
  for (auto const& i : *form.items) items.push_back(with_tensors(i, next));
  auto made = composite_of(form.shape.what, std::move(items));
  made.shape = form.shape;
  return made;
}

/// Returns the results of a stage, one entry per result.
inline tape_values results_of_stage(module_graph const& stage, tape_values inputs, toy_autograd& state) {
  auto const given = evaluate(stage, std::move(inputs), state);
  bool const bare = std::holds_alternative<node_ref>(stage[*stage.output()].args.front().front());
  return bare ? tape_values{given} : *given.items;
}

struct toy_wiring {
  dataflow moves;                   ///< one edge per tensor
  run_layouts layouts;              ///< of these edges
  std::vector<tape_values> inputs;  ///< by stage, with placeholders for tensors
  stage_id loss_stage = the_caller;
  std::uint32_t loss = 0;         ///< which result of that stage is the loss
  std::uint32_t loss_result = 0;  ///< which result of the caller is the loss
};

/// Runs a pipe once per microbatch to find its wiring. Use `wiring_of`.
class wiring_maker {
 public:
  wiring_maker(module_pipe const& pipe, state_values const& state)
      : pipe_(pipe), state_(state), flat_(pipe_dataflow_of(pipe)), given_(flat_.stages + 1) {}

  toy_wiring make(toy_batches const& batches) {
    for (auto const& m : batches.values) {
      run(m);
      if (shapes_.empty()) list_edges();
      note_shapes();
    }
    made_.layouts.rows = batches.rows;
    for (std::size_t e = 0; e < shapes_.size(); ++e) find_layout(made_.layouts.edges[e], shapes_[e]);
    for (std::uint32_t s = 0; s < flat_.stages; ++s) made_.inputs.push_back(given_[s]);
    find_loss();
    return std::move(made_);
  }

 private:
  std::size_t place(stage_id s) const { return s == the_caller ? flat_.stages : index(s); }

  /// Runs all stages in turn on one tape.
  void run(tape_values const& microbatch) {
    tape t;
    results_.assign(flat_.stages + 1, {});
    results_.back() = microbatch;
    for (stage_id const s : pipe_.plan.plan.order) {
      toy_autograd own(t, state_);
      take_inputs(s);
      results_[index(s)] = results_of_stage(pipe_.stage(s), given_[index(s)], own);
    }
    take_inputs(the_caller);
  }
  void take_inputs(stage_id s) {
    auto& given = given_[place(s)];
    given.clear();
    for (auto const& e : flat_.edges) {
      if (e.to != s) continue;
      if (given.size() <= e.input) given.resize(e.input + 1);
      given[e.input] = results_[place(e.from)].at(e.output);
    }
  }

  /// Returns the number of tensors before value number `at`.
  static std::uint32_t tensors_before(tape_values const& list, std::uint32_t at) {
    return static_cast<std::uint32_t>(tensors_in({list.begin(), list.begin() + at}).size());
  }

  void list_edges() {
    made_.moves.stages = flat_.stages;
    for (auto const& e : flat_.edges) {
      auto moved = e;
      moved.output = tensors_before(results_[place(e.from)], e.output);
      moved.input = tensors_before(given_[place(e.to)], e.input);
      each_tensor(results_[place(e.from)][e.output], [&](tape_value const& t) {
        auto const type = type_of(e);
        bool const returned = e.from != the_caller && e.to != the_caller && is_floating(type) && t.node;
        moved.bytes = t.get().data.size() * size_of(type);
        made_.moves.edges.push_back(moved);
        made_.layouts.edges.push_back(
            {.type = type, .gradient = returned ? gradient_use::wanted : gradient_use::none});
        shapes_.emplace_back();
        ++moved.output;
        ++moved.input;
      });
    }
  }

  /// Returns the element type in the node's metadata `dtype`, else f64.
  element_type type_of(dataflow::edge const& e) const {
    auto const& s = pipe_.program.s;
    for (auto const& [key, value] :
         pipe_.program.whole()[s.value[static_cast<std::uint32_t>(e.value)]].metadata)
      if (auto const* text = key == "dtype" ? std::get_if<std::string>(&value.front()) : nullptr)
        if (auto const type = find_element_type(*text)) return *type;
    return element_type::f64;
  }

  void note_shapes() {
    std::size_t at = 0;
    for (auto const& e : flat_.edges)
      each_tensor(results_[place(e.from)][e.output], [&](tape_value const& t) {
        auto& bytes = made_.moves.edges[at].bytes;
        bytes = std::max<std::uint64_t>(bytes, t.get().data.size() * size_of(made_.layouts.edges[at].type));
        shapes_.at(at++).push_back(shape_of(t.get()));
      });
  }

  /// Finds the shape and batch axis of an edge. If shapes of microbatches differ other than in the number of
  /// rows along one axis, the shape is dynamic.
  void find_layout(edge_layout& of, std::vector<cleave::tensor_shape> const& shapes) const {
    of.shape = shapes.front();
    for (auto const& s : shapes)
      for (std::uint32_t axis = 0; axis < s.axes; ++axis) {
        if (s.extents[axis] != shapes.front().extents[axis]) of.batch_axis = axis;
        of.shape.extents[axis] = std::max(of.shape.extents[axis], s.extents[axis]);
      }
    if (!of.batch_axis) return;
    for (std::size_t m = 0; m < shapes.size(); ++m) {
      auto by_rows = of.shape;
      by_rows.extents[*of.batch_axis] = made_.layouts.rows.at(m);
      if (by_rows != shapes[m]) of.extents = shape_kind::dynamic;
    }
    if (of.extents == shape_kind::dynamic) of.batch_axis.reset();
  }

  /// Takes the last result of the caller as the loss.
  void find_loss() {
    for (auto const& e : made_.moves.edges)
      if (e.to == the_caller && e.input >= made_.loss_result) {
        made_.loss_stage = e.from;
        made_.loss = e.output;
        made_.loss_result = e.input;
      }
  }

  module_pipe const& pipe_;
  state_values const& state_;
  dataflow flat_;                                          // the dataflow of the pipe
  std::vector<tape_values> given_;                         // inputs by stage; the caller's come last
  std::vector<tape_values> results_;                       // results by stage; the caller's inputs come last
  std::vector<std::vector<cleave::tensor_shape>> shapes_;  // by edge and microbatch
  toy_wiring made_;
};

/// Returns the wiring of `pipe`, found by running it once per microbatch. The last result is the loss.
/// Element types come from the metadata `dtype`, else `f64`. A value that depends on a parameter gets a
/// gradient.
inline toy_wiring wiring_of(module_pipe const& pipe, state_values const& state, toy_batches const& batches) {
  return wiring_maker(pipe, state).make(batches);
}

}  // namespace cleave::testing
