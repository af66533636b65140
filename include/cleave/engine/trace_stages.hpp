// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/stage_text.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/model_value.hpp"
#include "cleave/engine/stage_interpretation.hpp"
#include "cleave/graph/bind_arguments.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/pipe_dataflow.hpp"
#include "cleave/run/batch/nested.hpp"
#include "cleave/run/batch/split_batch.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2 {

/// The arguments of a model for one microbatch: tensors and constants, by position and by name, in any
/// nesting.
template <class Tensor>
using model_inputs = batch_values<model_value<Tensor>>;

/// Returns the arguments of a model that are passed by position.
template <class Tensor, class... Values>
model_inputs<Tensor> positional_inputs(Values&&... values) {
  using value = model_value<Tensor>;
  auto const as_value = []<class V>(V&& v) {
    if constexpr (std::constructible_from<Tensor, V>)
      return value(Tensor(std::forward<V>(v)));
    else
      return value(std::forward<V>(v));
  };
  return {.arguments = nested<value>::tuple({nested<value>(as_value(std::forward<Values>(values)))...})};
}

/// How the stages of a model are connected, tensor by tensor. Stages may send containers; messages have
/// tensors.
struct stage_wiring {
  dataflow edges;                     ///< one edge for each tensor and reader
  run_layouts layouts;                ///< of these edges
  std::optional<std::uint32_t> loss;  ///< the number of the loss among the tensors that the caller gets
  /// The parameters of each stage, in the order of their gradients: texts that are equal for copies of one.
  std::vector<std::vector<std::string>> parameters;

  /// The forms of the values of one microbatch, with a reference for each tensor. Entries are by stage; the
  /// last one is the caller's.
  struct forms {
    std::vector<std::vector<module_argument>> inputs;  ///< of each stage; of the caller, the model's results
    std::vector<std::vector<module_argument>>
        results;  ///< of each stage; of the caller, the model's arguments

    bool operator==(forms const&) const = default;
  };
  std::vector<forms> by_microbatch;  ///< one entry if all microbatches have the same forms

  forms const& forms_of(microbatch_id m) const {
    return by_microbatch[std::min<std::size_t>(index(m), by_microbatch.size() - 1)];
  }
};

/// Options of `trace_stages`.
struct trace_options {
  /// The number of the loss among the tensors that the model returns. Empty: the last one.
  std::optional<std::uint32_t> loss = {};
  /// With `dynamic`, values between stages may have other extents than in the trace, up to as many elements.
  shape_kind extents = shape_kind::fixed;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why the stages of a model cannot be traced or run.
struct engine_fault {
  static constexpr char subject[] = "engine: ";
  enum class kind : std::uint8_t {
    no_microbatch,  ///< there is no microbatch to trace
    no_value,       ///< parameter or buffer `name` has no value
    no_loss,        ///< result `got` is to be the loss, but the model returns `allowed` tensors
    axes,           ///< a value of `stage` has `got` axes, more than `allowed`
    form,           ///< value `got` that `stage` makes or gets does not have the form of the trace
    layout,         ///< tensor `got` that `stage` makes or gets has layout `name` instead of `wanted`
    results,        ///< `stage` makes `got` values instead of `allowed`
    views,          ///< `stage` gets `got` views of its `allowed` inputs, results or gradients (`name`)
    memory,         ///< input `got` of the model is not at one address in row-major order
    microbatches,   ///< `got` microbatches are given instead of `allowed`
    no_parameter,   ///< bucket `got` names `name`, which is not a parameter with a gradient
    forgotten,      ///< `stage` begins a backward pass or a recomputation without a forward pass
  };
  kind what;
  stage_id stage = the_caller;
  std::size_t got = 0, allowed = 0;
  std::string name = {}, wanted = {};

  bool operator==(engine_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(engine_fault const& f) {
  using enum engine_fault::kind;
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  bool const given = f.stage == the_caller;
  auto const value =
      given ? "input #" + got + " of the model" : "result #" + got + " of " + stage_text(f.stage);
  switch (f.what) {
    case no_microbatch:
      return "there is no microbatch to trace; give the arguments of at least one";
    case no_value:
      return "parameter or buffer " + quoted(f.name) + " has no value" + f.wanted;
    case no_loss:
      return "result #" + got + " is to be the loss, but the model returns " + allowed + " tensors";
    case axes:
      return "a tensor of " + stage_text(f.stage) + " has " + got + " axes; at most " + allowed +
             " are possible";
    case form:
      return value +
             " does not have the form that it had in the trace: constants and nesting must be those of "
             "the same microbatch there";
    case layout:
      return value + " is " + f.name + ", but " + f.wanted +
             " in the trace; trace with the largest microbatches, and with shape_kind::dynamic if extents "
             "change";
    case results:
      return stage_text(f.stage) + " makes " + got + " values, but " + allowed + " are read";
    case views:
      return stage_text(f.stage) + " has " + allowed + " " + f.name + ", but gets " + got + " views of them";
    case memory:
      return value + " is not at one address in row-major order; copy it";
    case microbatches:
      return got + " microbatches are given, but the schedule has " + allowed;
    case no_parameter:
      return "bucket #" + got + " has " + quoted(f.name) + ", which is not a parameter that gets gradients" +
             f.wanted;
    case forgotten:
      return stage_text(f.stage) + " begins a backward pass or a recomputation without its forward pass";
  }
  return {};
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if the stages of a model cannot be traced or run. Carries the place and the reason.
using engine_error = fault_error<detail::engine_fault>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the value of a parameter or buffer by its names in the model. `initial` is a map, or is called
/// with the name.
/// \throws engine_error if a map has none of the names
template <class Tensor, class Initial>
Tensor initial_value(Initial const& initial, std::vector<std::string> const& names) {
  if constexpr (requires { Tensor(initial(names.front())); }) {
    return initial(names.front());
  } else {
    for (auto const& name : names)
      if (auto const at = initial.find(name); at != initial.end()) return at->second;
    std::vector<std::string> known;
    for (auto const& [name, value] : initial) known.push_back(name);
    throw engine_error({.what = engine_fault::kind::no_value,
                        .name = names.front(),
                        .wanted = suggestion(nearest_names(names.front(), known))});
  }
}

/// Returns a nested value as one value.
template <class Tensor>
model_value<Tensor> as_one_value(nested<model_value<Tensor>> const& n) {
  module_argument form;
  std::vector<Tensor> tensors;
  auto leaf = n.leaves().begin();
  std::vector<std::pair<nesting, std::size_t>>
      around;  // containers, and their elements that are still to come
  for (auto const& e : n.shape()) {
    while (!around.empty() && around.back().second == 0) around.pop_back();
    if (!around.empty()) {
      if (around.back().first == nesting::dict) form.emplace_back(e.key);
      --around.back().second;
    }
    if (e.what != nesting::leaf) {
      around.emplace_back(e.what, e.size);
      constexpr container::kind kinds[] = {
          {}, container::kind::list, container::kind::tuple, container::kind::dict};
      form.emplace_back(
          container{kinds[static_cast<std::size_t>(e.what)], static_cast<std::uint32_t>(e.size)});
      continue;
    }
    auto const more = leaf->form();
    form.insert(form.end(), more.begin(), more.end());
    tensors.insert(tensors.end(), leaf->tensors().begin(), leaf->tensors().end());
    ++leaf;
  }
  return {std::move(form), std::move(tensors)};
}

/// Returns the arguments of a model by placeholder: bound by position and by name, with defaults, and with
/// the rest for `*args` and `**kwargs`.
/// \throws binding_error if they do not fit
template <class Tensor>
std::vector<model_value<Tensor>> bound_inputs(module_graph const& g, model_inputs<Tensor> const& given) {
  using value = model_value<Tensor>;
  auto const args = as_one_value(given.arguments).elements();
  auto const pairs = as_one_value(given.keywords).elements();
  auto all = args;
  std::vector<std::string> names;
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    names.push_back(std::get<std::string>(*pairs[i].constant()));
    all.push_back(pairs[i + 1]);
  }
  auto const binding = bind_arguments(g, args.size(), names);
  std::vector<value> made;
  for (std::size_t p = 0; p < binding.size(); ++p) {
    auto const& node = g[g.inputs()[p]];
    std::vector<value> taken;
    switch (parameter_kind_of(node)) {
      case parameter_kind::one:
        made.push_back(binding[p].empty() ? value(*node.default_value, {}) : all[binding[p].front()]);
        break;
      case parameter_kind::positional:
        for (auto const i : binding[p]) taken.push_back(all[i]);
        made.emplace_back(container{container::kind::tuple, static_cast<std::uint32_t>(taken.size())}, taken);
        break;
      case parameter_kind::named:
        for (auto const i : binding[p]) {
          taken.emplace_back(token(names[i - args.size()]));
          taken.push_back(all[i]);
        }
        made.emplace_back(container{container::kind::dict, static_cast<std::uint32_t>(taken.size() / 2)},
                          taken);
        break;
    }
  }
  return made;
}

/// Runs the stages of a pipe one after another to find their wiring. Use `trace_stages`.
template <tensor_framework F, class Initial>
class stage_tracer {
 public:
  using tensor = typename F::tensor;
  using values = std::vector<model_value<tensor>>;

  stage_tracer(module_pipe const& pipe, F& f, Initial const& initial, trace_options const& o)
      : pipe_(pipe), framework_(f), initial_(initial), options_(o), flat_(pipe_dataflow_of(pipe)) {
    for (std::uint32_t s = 0; s < flat_.stages; ++s) states_.emplace_back(pipe.stage(stage_id{s}));
  }

  stage_wiring trace(std::span<model_inputs<tensor> const> microbatches) {
    if (microbatches.empty()) throw engine_error({.what = engine_fault::kind::no_microbatch});
    for (auto const& state : states_) {
      auto& trained = made_.parameters.emplace_back();
      for (auto const& t : state.tensors())
        if (t.trained && is_floating(framework_.view(initial_value<tensor>(initial_, t.names)).type))
          trained.push_back(t.holder);
    }
    for (auto const& m : microbatches) {
      run(bound_inputs(pipe_.program.whole(), m));
      if (layouts_.empty()) list_edges();
      note_layouts();
      made_.by_microbatch.push_back(take_forms());
    }
    auto const& all = made_.by_microbatch;
    if (std::ranges::all_of(all, [&](auto const& f) { return f == all.front(); }))
      made_.by_microbatch.resize(1);
    for (std::size_t e = 0; e < layouts_.size(); ++e) find_layout(e);
    find_rows(microbatches.size());
    find_loss();
    return std::move(made_);
  }

 private:
  std::size_t place(stage_id s) const { return s == the_caller ? flat_.stages : index(s); }

  /// Runs all stages in turn. Values are detached at the borders.
  void run(values inputs) {
    results_.assign(flat_.stages + std::size_t{1}, {});
    given_.assign(flat_.stages + std::size_t{1}, {});
    results_.back() = std::move(inputs);
    for (stage_id const s : pipe_.plan.plan.order) {
      take_inputs(s);
      auto made = run_stage(s);
      begin_pass(s);  // so that the framework need not keep what the stage has computed
      for (auto& v : made) v = v.map([&](tensor const& t) { return detached(t); });
      results_[index(s)] = std::move(made);
    }
    take_inputs(the_caller);
  }
  values run_stage(stage_id s) {
    auto const& state = states_[index(s)];
    begin_pass(s);
    auto given = given_[index(s)];
    // A tensor of another pass cannot be differentiated in this one.
    for (auto& v : given) v = v.map([&](tensor const& t) { return detached(t); });
    std::vector<std::optional<tensor>> leaves(state.tensors().size());
    auto const state_of = [&](std::uint32_t at) {
      auto& known = leaves[at];
      if (!known) {
        known = initial_value<tensor>(initial_, state.tensors()[at].names);
        if constexpr (differentiating_framework<F>)
          if (state.tensors()[at].trained && is_floating(framework_.view(*known).type))
            known = framework_.leaf(*known);
      }
      return *known;
    };
    stage_interpretation interpretation(framework_, state, state_of);
    return evaluate_stage(pipe_.stage(s), std::move(given), interpretation);
  }
  void begin_pass(stage_id s) {
    if constexpr (requires { framework_.begin(stage_pass{}); })
      framework_.begin(stage_pass{.stage = s, .microbatch = microbatch_id{0}});
  }
  tensor detached(tensor const& t) {
    if constexpr (differentiating_framework<F>)
      return framework_.needs_gradient(t) ? framework_.leaf(t) : t;
    else
      return t;
  }
  bool needs_gradient(tensor const& t) {
    if constexpr (differentiating_framework<F>)
      return framework_.needs_gradient(t);
    else
      return false;
  }

  void take_inputs(stage_id s) {
    auto& given = given_[place(s)];
    for (auto const& e : flat_.edges) {
      if (e.to != s) continue;
      if (given.size() <= e.input) given.resize(e.input + std::size_t{1});
      auto const& from = results_[place(e.from)];
      if (e.output >= from.size())
        throw engine_error({engine_fault::kind::results, e.from, from.size(), e.output + std::size_t{1}});
      given[e.input] = from[e.output];
    }
  }

  /// Returns the number of tensors before value number `at`.
  static std::uint32_t tensors_before(values const& list, std::uint32_t at) {
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < at; ++i) count += list[i].tensors().size();
    return static_cast<std::uint32_t>(count);
  }

  void list_edges() {
    made_.edges.stages = flat_.stages;
    for (auto const& e : flat_.edges) {
      auto moved = e;
      moved.layout = dataflow::edge().layout;
      moved.output = tensors_before(results_[place(e.from)], e.output);
      moved.input = tensors_before(given_[place(e.to)], e.input);
      for (auto const& t : results_[place(e.from)][e.output].tensors()) {
        auto const type = framework_.view(t).type;
        bool const returned =
            e.from != the_caller && e.to != the_caller && is_floating(type) && needs_gradient(t);
        made_.edges.edges.push_back(moved);
        made_.layouts.edges.push_back(
            {.type = type, .gradient = returned ? gradient_use::wanted : gradient_use::none});
        layouts_.emplace_back();
        ++moved.output;
        ++moved.input;
      }
    }
  }

  void note_layouts() {
    std::size_t at = 0;
    for (auto const& e : flat_.edges)
      for (auto const& t : results_[place(e.from)][e.output].tensors()) {
        auto const v = framework_.view(t);
        auto& layout = made_.layouts.edges.at(at);
        if (v.type != layout.type)
          throw engine_error({.what = engine_fault::kind::layout,
                              .stage = e.from,
                              .got = e.output,
                              .name = layout_text(v.type, v.shape),
                              .wanted = layout_text(layout.type, layouts_[at].front())});
        auto& bytes = made_.edges.edges[at].bytes;
        bytes = (std::max)(bytes, std::uint64_t{v.elements().bytes()});
        layouts_[at++].push_back(v.shape);
      }
  }

  stage_wiring::forms take_forms() const {
    stage_wiring::forms all;
    auto const forms = [](values const& list) {
      std::vector<module_argument> made;
      for (auto const& v : list) made.push_back(v.form());
      return made;
    };
    for (std::size_t s = 0; s < results_.size(); ++s) {
      all.inputs.push_back(forms(given_[s]));
      all.results.push_back(forms(results_[s]));
    }
    return all;
  }

  /// Finds the shape of an edge, and the axis along which microbatches differ. If they differ along several
  /// axes, the shape is dynamic.
  void find_layout(std::size_t e) {
    auto& of = made_.layouts.edges[e];
    auto const& edge = made_.edges.edges[e];
    of.shape = layouts_[e].front();
    bool several = false;
    for (auto const& s : layouts_[e]) {
      several = several || s.axes != of.shape.axes;
      for (std::uint32_t axis = 0; axis < s.axes && !several; ++axis) {
        if (s.extents[axis] != layouts_[e].front().extents[axis]) {
          several = of.batch_axis && of.batch_axis != axis;
          of.batch_axis = axis;
        }
        of.shape.extents[axis] = (std::max)(of.shape.extents[axis], s.extents[axis]);
      }
    }
    bool const between = edge.from != the_caller && edge.to != the_caller;
    if (several || (options_.extents == shape_kind::dynamic && between)) make_dynamic(e);
  }
  void make_dynamic(std::size_t e) {
    auto& of = made_.layouts.edges[e];
    of.extents = shape_kind::dynamic;
    of.batch_axis.reset();
    // The declared shape bounds the number of elements.
    auto const most = (std::ranges::max)(layouts_[e], {}, [](tensor_shape const& s) { return *s.count(); });
    if (auto const n = of.shape.count(); !n || *n < *most.count() || of.shape.axes != most.axes)
      of.shape = most;
  }

  /// Takes as rows of the microbatches the extents of the first value that differs between them. Values with
  /// other extents are dynamic.
  void find_rows(std::size_t microbatches) {
    auto const& edges = made_.layouts.edges;
    auto const first =
        std::ranges::find_if(edges, [](edge_layout const& l) { return l.batch_axis.has_value(); });
    if (first == edges.end()) return;
    auto const& of = layouts_[static_cast<std::size_t>(first - edges.begin())];
    for (std::size_t m = 0; m < microbatches; ++m)
      made_.layouts.rows.push_back(of[m].extents[*first->batch_axis]);
    for (std::size_t e = 0; e < edges.size(); ++e)
      for (std::size_t m = 0; m < microbatches && edges[e].batch_axis; ++m)
        if (layouts_[e][m].extents[*edges[e].batch_axis] != made_.layouts.rows[m]) make_dynamic(e);
  }

  void find_loss() {
    std::uint32_t results = 0;
    for (auto const& e : made_.edges.edges)
      if (e.to == the_caller) results = (std::max)(results, e.input + 1);
    if (options_.loss && *options_.loss >= results)
      throw engine_error({.what = engine_fault::kind::no_loss, .got = *options_.loss, .allowed = results});
    if (results > 0) made_.loss = options_.loss.value_or(results - 1);
  }

  module_pipe const& pipe_;
  F& framework_;
  Initial const& initial_;
  trace_options options_;
  dataflow flat_;                                   // one edge for each value and reader
  std::vector<stage_state> states_;                 // by stage
  std::vector<values> given_;                       // inputs by stage; the caller's come last
  std::vector<values> results_;                     // results by stage; the model's arguments come last
  std::vector<std::vector<tensor_shape>> layouts_;  // shapes by edge and microbatch
  stage_wiring made_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Runs the stages of `pipe` for each of `microbatches` and returns how they are connected. The stages get
/// gradients of the values that depend on parameters. `initial` has the values of parameters and buffers by
/// their names in the model: a map, or a function of the name. The tensors may have any elements; only types
/// and shapes count. Microbatches may differ in rows.
/// \throws engine_error, operator_error, binding_error
template <tensor_framework F, class Initial>
stage_wiring trace_stages(module_pipe const& pipe, F f, Initial const& initial,
                          std::span<model_inputs<typename F::tensor> const> microbatches,
                          trace_options const& options = {}) {
  return detail::stage_tracer<F, Initial>(pipe, f, initial, options).trace(microbatches);
}

}  // namespace cleave
