// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/stage_interpretation.hpp"
#include "cleave/engine/trace_stages.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// A parameter of a stage, and the gradient accumulated for it, in memory of the device.
struct stage_parameter {
  std::vector<std::string> names;  ///< in the model before the cut
  tensor_view value, gradient;
};

/// An optimiser that updates the parameters of stages. Each rank has a copy.
/// - `o(f, stage, parameters, factor)`: one step with the gradients times `factor`.
template <class O, class F>
concept stage_optimiser = std::copyable<O> && requires(O& o, F& f, stage_id s,
                                                       std::span<stage_parameter const> all, double factor) {
  { o(f, s, all, factor) };
};

/// Gradient descent: subtracts `rate` times its gradient from each parameter.
struct gradient_descent {
  double rate = 0.01;

  template <tensor_memory F>
  void operator()(F& f, stage_id, std::span<stage_parameter const> parameters, double factor) const {
    for (auto const& p : parameters) f.add(f.wrap(p.gradient), p.value, -rate * factor);
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Which passes of a schedule need more than others.
struct pass_needs {
  std::vector<char> in_halves;   ///< by stage: its backward pass is split, so inputs must live longer
  std::vector<char> recomputed;  ///< by stage and microbatch: the forward pass need not save anything
};

inline pass_needs pass_needs_of(schedule const& s) {
  auto const stages = s.place.stages();
  pass_needs made{std::vector<char>(stages), std::vector<char>(std::size_t{stages} * s.microbatches)};
  for (auto const& row : s.ranks)
    each_action(row, [&](action const& a) {
      if (a.kind == action_kind::input_gradient) made.in_halves[index(a.stage)] = 1;
      if (a.kind == action_kind::recompute)
        made.recomputed[std::size_t{index(a.stage)} * s.microbatches + index(a.microbatch)] = 1;
    });
  return made;
}

/// Calls `take(i, gradient)` for each of the tensors `wanted`: if `early`, as soon as the gradient is
/// complete, if the framework can tell.
template <differentiating_framework F, class Take>
void each_gradient(F& f, std::vector<typename F::tensor> const& results,
                   std::vector<typename F::tensor> const& at_results,
                   std::vector<typename F::tensor> const& wanted, bool early, Take take) {
  if constexpr (requires { f.each_gradient(results, at_results, wanted, take); })
    if (early) return f.each_gradient(results, at_results, wanted, take);
  auto found = f.gradients(results, at_results, wanted, false);
  for (std::size_t i = 0; i < found.size(); ++i) take(i, std::move(found[i]));
}

/// The same for the parameters of a backward pass in two halves.
template <class Halves, class Take>
void each_parameter_gradient(Halves& halves, bool early, Take take) {
  if constexpr (requires { halves.each_parameter(take); })
    if (early) return halves.each_parameter(take);
  auto found = halves.parameters();
  for (std::size_t i = 0; i < found.size(); ++i) take(i, std::move(found[i]));
}

/// A backward pass in two halves for a framework that cannot cut one.
template <differentiating_framework F>
class repeated_backward {
 public:
  using tensor = typename F::tensor;
  using tensors = std::vector<tensor>;
  using found = std::vector<std::optional<tensor>>;

  repeated_backward(F& f, tensors results, tensors at_results, tensors inputs, tensors parameters)
      : framework_(&f),
        results_(std::move(results)),
        at_results_(std::move(at_results)),
        inputs_(std::move(inputs)),
        parameters_(std::move(parameters)) {}

  found inputs() { return framework_->gradients(results_, at_results_, inputs_, true); }
  found parameters() { return framework_->gradients(results_, at_results_, parameters_, false); }
  template <class Take>
  void each_parameter(Take take) {
    each_gradient(*framework_, results_, at_results_, parameters_, true, take);
  }

 private:
  F* framework_;
  tensors results_, at_results_, inputs_, parameters_;
};

/// Returns a backward pass in two halves.
template <differentiating_framework F>
auto split_backward(F& f, std::vector<typename F::tensor> results, std::vector<typename F::tensor> at_results,
                    std::vector<typename F::tensor> inputs, std::vector<typename F::tensor> parameters) {
  if constexpr (requires { f.split(results, at_results, inputs, parameters); })
    return f.split(std::move(results), std::move(at_results), std::move(inputs), std::move(parameters));
  else
    return repeated_backward<F>(f, std::move(results), std::move(at_results), std::move(inputs),
                                std::move(parameters));
}

/// The state of the random numbers of a framework, or nothing.
template <class F>
struct random_state_of {
  struct type {};
};
template <class F>
  requires requires(F& f) { f.set_random_state(f.random_state()); }
struct random_state_of<F> {
  using type = decltype(std::declval<F&>().random_state());
};

/// The kind of a split backward pass, if the framework differentiates.
template <class F>
struct split_backward_of {
  struct type {};
};
template <differentiating_framework F>
struct split_backward_of<F> {
  using list = std::vector<typename F::tensor>;
  using type = decltype(split_backward(std::declval<F&>(), list(), list(), list(), list()));
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The stages of a pipe on one rank: a `stage` for any executor, made by a `stage_engine`. It keeps
/// parameters, gradients and buffers in memory of the device.
template <tensor_framework F, device D, stage_optimiser<F> Optimiser>
class engine_stages {
 public:
  using tensor = typename F::tensor;
  using stream = typename D::stream;
  using views = std::span<tensor_view const>;

  /// Makes the stages that `has(stage)` says, with state in memory that `memory.allocate(bytes)` returns.
  /// `pipe` must outlive them. Use `stage_engine`.
  /// \throws engine_error, run_error
  template <class Initial, class Memory, std::predicate<stage_id> Has>
  engine_stages(module_pipe const& pipe, std::shared_ptr<stage_wiring const> wiring, F framework,
                Optimiser optimiser, Initial const& initial, Memory& memory, std::uint32_t microbatches,
                detail::pass_needs needs, Has has)
      : wiring_(std::move(wiring)),
        framework_(std::move(framework)),
        optimiser_(std::move(optimiser)),
        microbatches_(microbatches),
        needs_(std::move(needs)),
        stages_(wiring_->edges.stages) {
    for (std::uint32_t s = 0; s < stages_.size(); ++s)
      if (has(stage_id{s})) load(pipe, stage_id{s}, initial, memory);
  }

  engine_stages(engine_stages&&) = default;
  engine_stages& operator=(engine_stages&&) = default;
  engine_stages(engine_stages const&) = delete;
  engine_stages& operator=(engine_stages const&) = delete;

  void forward(stream& on, stage_pass const& p, views in, std::span<tensor_view> out) {
    [[maybe_unused]] auto const here = use(on);
    auto& s = at(p.stage);
    bool const recomputed = p.trains && is_recomputed(p);
    pass made;
    if constexpr (requires { framework_.set_random_state(framework_.random_state()); })
      if (p.trains) entry(s.random, p) = framework_.random_state();
    evaluate(s, made, p, in);
    require_views(p, "results", out.size(), made.results.size());
    for (std::size_t i = 0; i < out.size(); ++i) give(p.stage, made.results[i], i, s.dynamic[i] != 0, out[i]);
    if (p.trains && !recomputed) entry(s.passes, p) = std::move(made);
  }

  void recompute(stream& on, stage_pass const& p, views in) {
    [[maybe_unused]] auto const here = use(on);
    auto& s = at(p.stage);
    pass made;
    if constexpr (requires { framework_.set_random_state(framework_.random_state()); }) {
      auto const& drawn = entry(s.random, p);
      if (!drawn) throw engine_error({.what = detail::engine_fault::kind::forgotten, .stage = p.stage});
      auto const now = framework_.random_state();
      framework_.set_random_state(*drawn);
      evaluate(s, made, p, in);
      framework_.set_random_state(now);
    } else {
      evaluate(s, made, p, in);
    }
    entry(s.passes, p) = std::move(made);
  }

  void backward(stream& on, stage_pass const& p, views gradients, views in)
    requires differentiating_framework<F>
  {
    [[maybe_unused]] auto const here = use(on);
    auto& s = at(p.stage);
    auto const [results, at_results] = seeds(s, *known(s, p), p, gradients, false);
    auto const made = std::exchange(known(s, p), std::nullopt);
    auto wanted = wanted_inputs(*made, in);
    auto const inputs = wanted.size();
    for (auto const& t : trained(*made)) wanted.push_back(t);
    report_unread(s, *made, p);
    std::vector<std::optional<tensor>> at_inputs(inputs);
    detail::each_gradient(framework_, results, at_results, wanted, static_cast<bool>(p.ready),
                          [&](std::size_t i, std::optional<tensor> g) {
                            if (i < inputs)
                              at_inputs[i] = std::move(g);
                            else
                              add_gradient(s, *made, i - inputs, g, p);
                          });
    give_gradients(at_inputs, in);
  }

  void backward_input(stream& on, stage_pass const& p, views gradients, views in)
    requires differentiating_framework<F>
  {
    [[maybe_unused]] auto const here = use(on);
    auto& s = at(p.stage);
    auto& made = *known(s, p);
    auto [results, at_results] = seeds(s, made, p, gradients, true);
    made.halves.emplace(detail::split_backward(framework_, std::move(results), std::move(at_results),
                                               wanted_inputs(made, in), trained(made)));
    give_gradients(made.halves->inputs(), in);
  }

  void backward_weight(stream& on, stage_pass const& p)
    requires differentiating_framework<F>
  {
    [[maybe_unused]] auto const here = use(on);
    auto& s = at(p.stage);
    if (!known(s, p)->halves)
      throw engine_error({.what = detail::engine_fault::kind::forgotten, .stage = p.stage});
    auto made = std::exchange(known(s, p), std::nullopt);
    report_unread(s, *made, p);
    detail::each_parameter_gradient(
        *made->halves, static_cast<bool>(p.ready),
        [&](std::size_t i, std::optional<tensor> const& g) { add_gradient(s, *made, i, g, p); });
  }

  // The hooks of the whole model, if the framework has any.
  void before_forward(stream& on, stage_pass const& p)
    requires requires(F& f) { f.before_forward(p); }
  {
    [[maybe_unused]] auto const here = use(on);
    framework_.before_forward(p);
  }
  void after_forward(stream& on, stage_pass const& p)
    requires requires(F& f) { f.after_forward(p); }
  {
    [[maybe_unused]] auto const here = use(on);
    framework_.after_forward(p);
  }
  void after_backward(stream& on, stage_pass const& p)
    requires requires(F& f) { f.after_backward(p); }
  {
    [[maybe_unused]] auto const here = use(on);
    framework_.after_backward(p);
  }

  std::span<region const> gradients(stage_id i) const { return at(i).gradients; }
  std::span<region const> parameters(stage_id i) const { return at(i).parameters; }
  /// Updates the parameters of a stage with the gradients times `factor`, and sets the gradients to zero.
  void update(stream& on, stage_id i, double factor) {
    [[maybe_unused]] auto const here = use(on);
    optimiser_(framework_, i, at(i).trained, factor);
    clear_gradients(i);
  }

  bool has(stage_id i) const { return stages_[index(i)] != nullptr; }
  F& framework() { return framework_; }
  Optimiser& optimiser() { return optimiser_; }
  /// Returns the parameters of a stage, in the order of `gradients`.
  std::span<stage_parameter const> trained(stage_id i) const { return at(i).trained; }
  /// Returns all tensors of a stage's state, for a checkpoint.
  std::vector<named_tensor> state(stage_id i) const { return at(i).all; }
  void clear_gradients(stage_id i) {
    for (auto const& p : at(i).trained) framework_.fill(p.gradient, 0);
  }
  /// Forgets all passes that a failed step has left open.
  void forget() {
    for (auto& s : stages_)
      if (s)
        for (auto& p : s->passes) p.reset();
  }
  /// Returns the number of passes whose backward pass is still to come.
  std::size_t open_passes() const {
    std::size_t open = 0;
    for (auto const& s : stages_)
      if (s)
        open +=
            static_cast<std::size_t>(std::ranges::count_if(s->passes, [](auto& p) { return p.has_value(); }));
    return open;
  }

 private:
  using value = model_value<tensor>;

  /// One microbatch in one stage, from its forward pass to the end of its backward pass.
  struct pass {
    std::vector<tensor> inputs;                ///< of the stage, as leaves
    std::vector<tensor> results;               ///< all tensors that others read
    std::vector<std::optional<tensor>> state;  ///< the leaves that were read
    std::vector<std::uint32_t> parameters;     ///< numbers of the leaves with gradients, as read
    std::optional<typename detail::split_backward_of<F>::type> halves;
  };
  /// A stage with its state in memory of the device.
  struct loaded_stage {
    module_graph const* graph;
    detail::stage_state state;
    typename D::buffer memory = {};
    std::vector<named_tensor> all = {};            ///< by number of the state
    std::vector<std::uint32_t> parameter_of = {};  ///< by number: its place in `trained`, or none
    std::vector<stage_parameter> trained = {};
    std::vector<region> gradients = {}, parameters = {};
    std::vector<char> wanted = {};   ///< by input: its gradient is sent back
    std::vector<char> dynamic = {};  ///< by result: its shape is sent with it
    std::vector<std::optional<pass>> passes = {};
    std::vector<std::optional<typename detail::random_state_of<F>::type>> random = {};
    std::optional<std::uint32_t> loss = {};  ///< the result that is the loss
  };
  /// Stands for an object that puts work onto a stream.
  struct any_stream {};

  auto use(stream& on) {
    if constexpr (requires { framework_.on(on); })
      return framework_.on(on);
    else
      return any_stream();
  }

  loaded_stage& at(stage_id i) const {
    expects(has(i), "engine_stages: a stage of this rank");
    return *stages_[index(i)];
  }
  static void require_views(stage_pass const& p, char const* of, std::size_t got, std::size_t needed) {
    if (got != needed)
      throw engine_error({.what = detail::engine_fault::kind::views,
                          .stage = p.stage,
                          .got = got,
                          .allowed = needed,
                          .name = of});
  }
  bool is_recomputed(stage_pass const& p) const {
    return index(p.microbatch) < microbatches_ &&
           needs_.recomputed[std::size_t{index(p.stage)} * microbatches_ + index(p.microbatch)] != 0;
  }
  /// Returns the entry of a list by microbatch.
  template <class T>
  static T& entry(std::vector<T>& list, stage_pass const& p) {
    if (list.size() <= index(p.microbatch)) list.resize(index(p.microbatch) + std::size_t{1});
    return list[index(p.microbatch)];
  }
  static std::optional<pass>& known(loaded_stage& s, stage_pass const& p) {
    auto& made = entry(s.passes, p);
    if (!made) throw engine_error({.what = detail::engine_fault::kind::forgotten, .stage = p.stage});
    return made;
  }

  template <class Initial, class Memory>
  void load(module_pipe const& pipe, stage_id i, Initial const& initial, Memory& memory) {
    auto const& graph = pipe.stage(i);
    stages_[index(i)] = std::make_unique<loaded_stage>(loaded_stage{&graph, detail::stage_state(graph)});
    auto& s = *stages_[index(i)];
    s.passes.resize(microbatches_);
    load_state(s, initial, memory);
    for (std::size_t e = 0; e < wiring_->edges.edges.size(); ++e) {
      auto const& edge = wiring_->edges.edges[e];
      auto const& of = wiring_->layouts.edges[e];
      auto const mark = [](std::vector<char>& list, std::size_t at, bool what) {
        if (list.size() <= at) list.resize(at + 1);
        if (what) list[at] = 1;
      };
      if (edge.to == i) mark(s.wanted, edge.input, of.gradient == gradient_use::wanted);
      if (edge.from != i) continue;
      mark(s.dynamic, edge.output, of.extents == shape_kind::dynamic);
      if (edge.to == the_caller && wiring_->loss == edge.input) s.loss = edge.output;
    }
  }

  /// Puts the state into one piece of memory: each tensor, then its gradient if it is trained.
  template <class Initial, class Memory>
  void load_state(loaded_stage& s, Initial const& initial, Memory& memory) {
    constexpr std::size_t alignment = 64;
    std::vector<tensor> values;
    std::size_t bytes = 0;
    std::vector<std::size_t> offsets;
    for (auto const& t : s.state.tensors()) {
      values.push_back(detail::initial_value<tensor>(initial, t.names));
      auto const v = framework_.view(values.back());
      bool const trained = t.trained && is_floating(v.type);
      s.parameter_of.push_back(trained ? static_cast<std::uint32_t>(s.trained.size()) : none<std::uint32_t>);
      s.all.push_back({t.names, {nullptr, v.type, v.shape}});
      if (trained) s.trained.push_back({t.names, s.all.back().tensor, s.all.back().tensor});
      offsets.push_back(bytes);
      auto const room = (v.elements().bytes() + alignment - 1) / alignment * alignment;
      bytes += trained ? 2 * room : room;
    }
    s.memory = memory.allocate(bytes);
    void* const data = s.memory.data();
    auto* const start = static_cast<std::byte*>(data);
    for (std::size_t i = 0; i < values.size(); ++i) {
      auto* const at = start + offsets[i];
      auto& view = s.all[i].tensor;
      view.data = at;
      framework_.write(values[i], view);
      if (s.parameter_of[i] == none<std::uint32_t>) continue;
      auto& p = s.trained[s.parameter_of[i]];
      p.value = p.gradient = view;
      p.gradient.data = at + (view.elements().bytes() + alignment - 1) / alignment * alignment;
      framework_.fill(p.gradient, 0);
      s.parameters.push_back(p.value.elements());
      s.gradients.push_back(p.gradient.elements());
    }
  }

  void evaluate(loaded_stage& s, pass& made, stage_pass const& p, views in) {
    if constexpr (requires { framework_.begin(p); }) framework_.begin(p);
    require_views(p, "inputs", in.size(), s.wanted.size());
    auto const& forms = wiring_->forms_of(p.microbatch);
    bool const copied = p.trains && needs_.in_halves[index(p.stage)] != 0;
    for (std::size_t i = 0; i < in.size(); ++i) {
      auto t = framework_.wrap(in[i]);
      if (copied) t = framework_.copy(t);
      if constexpr (differentiating_framework<F>)
        if (p.trains && s.wanted[i]) t = framework_.leaf(t);
      made.inputs.push_back(std::move(t));
    }
    std::vector<value> given;
    auto next = made.inputs.begin();
    for (auto const& form : forms.inputs[index(p.stage)]) {
      std::vector<tensor> tensors;
      detail::each_node(form, [&](auto) { tensors.push_back(*next++); });
      given.emplace_back(form, std::move(tensors));
    }
    made.state.resize(s.all.size());
    auto const state_of = [&](std::uint32_t n) { return state_tensor(s, made, n, p.trains); };
    detail::stage_interpretation interpretation(framework_, s.state, state_of);
    auto const results = detail::evaluate_stage(*s.graph, std::move(given), interpretation);
    auto const& wanted = forms.results[index(p.stage)];
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (i >= wanted.size() || results[i].form() != wanted[i])
        throw engine_error({.what = detail::engine_fault::kind::form, .stage = p.stage, .got = i});
      made.results.insert(made.results.end(), results[i].tensors().begin(), results[i].tensors().end());
    }
  }

  /// Returns a tensor of the state, one for all reads of a pass.
  tensor state_tensor(loaded_stage& s, pass& made, std::uint32_t n, bool trains) {
    auto& known = made.state[n];
    if (!known) {
      known = framework_.wrap(s.all[n].tensor);
      if constexpr (differentiating_framework<F>)
        if (trains && s.parameter_of[n] != none<std::uint32_t>) {
          known = framework_.leaf(*known);
          made.parameters.push_back(n);
        }
    }
    return *known;
  }

  /// Copies a result to `to`.
  void give(stage_id s, tensor const& t, std::size_t i, bool dynamic, tensor_view& to) {
    auto const made = framework_.view(t);
    bool const fits = dynamic ? made.shape.count() <= to.shape.count() : made.shape == to.shape;
    if (made.type != to.type || !fits)
      throw engine_error({.what = detail::engine_fault::kind::layout,
                          .stage = s,
                          .got = i,
                          .name = layout_text(made.type, made.shape),
                          .wanted = (dynamic ? "at most " : "") + layout_text(to.type, to.shape)});
    to.shape = made.shape;
    framework_.write(t, to);
  }

  /// Returns the results that receive gradients, and these.
  std::pair<std::vector<tensor>, std::vector<tensor>> seeds(loaded_stage const& s, pass const& made,
                                                            stage_pass const& p, views gradients,
                                                            bool copied) {
    require_views(p, "results", gradients.size(), made.results.size());
    std::vector<tensor> results, at_results;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].data || !framework_.needs_gradient(made.results[i])) continue;
      results.push_back(made.results[i]);
      auto g = framework_.wrap(gradients[i]);
      at_results.push_back(copied ? framework_.copy(g) : std::move(g));
    }
    if (s.loss && framework_.needs_gradient(made.results[*s.loss])) {
      results.push_back(made.results[*s.loss]);
      at_results.push_back(framework_.filled(made.results[*s.loss], p.weight));
    }
    return {std::move(results), std::move(at_results)};
  }

  std::vector<tensor> wanted_inputs(pass const& made, views in) const {
    std::vector<tensor> wanted;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i].data) wanted.push_back(made.inputs[i]);
    return wanted;
  }
  static std::vector<tensor> trained(pass const& made) {
    std::vector<tensor> list;
    for (auto const n : made.parameters) list.push_back(*made.state[n]);
    return list;
  }

  /// Writes the gradients of the inputs that are wanted.
  void give_gradients(std::span<std::optional<tensor> const> found, views in) {
    auto next = found.begin();
    for (auto const& v : in) {
      if (!v.data) continue;
      if (*next)
        framework_.write(**next, v);
      else
        framework_.fill(v, 0);
      ++next;
    }
  }
  /// Adds the gradient of the parameter that the pass has read as number `i`, and reports it.
  void add_gradient(loaded_stage& s, pass const& made, std::size_t i, std::optional<tensor> const& g,
                    stage_pass const& p) {
    auto const n = s.parameter_of[made.parameters[i]];
    if (g) framework_.add(*g, s.trained[n].gradient, 1);
    p.ready(n);
  }
  /// Reports the gradients of parameters that the last pass of the stage has not read.
  static void report_unread(loaded_stage const& s, pass const& made, stage_pass const& p) {
    if (!p.ready) return;
    std::vector<char> read(s.trained.size());
    for (auto const n : made.parameters) read[s.parameter_of[n]] = 1;
    for (std::uint32_t n = 0; n < read.size(); ++n)
      if (!read[n]) p.ready(n);
  }

  std::shared_ptr<stage_wiring const> wiring_;
  F framework_;
  Optimiser optimiser_;
  std::uint32_t microbatches_;
  detail::pass_needs needs_;
  std::vector<std::unique_ptr<loaded_stage>> stages_;  // null for stages of other ranks
};

}  // namespace cleave
