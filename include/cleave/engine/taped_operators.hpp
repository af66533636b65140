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

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/backward_phases.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/model_value.hpp"
#include "cleave/engine/operator_call.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2 {

/// A call of an operator to be differentiated: the forward call, its results and their gradients.
template <class Tensor>
struct operator_backward {
  operator_call<Tensor> const& forward;
  std::span<Tensor const> results;
  std::span<std::optional<Tensor> const> gradients;  ///< by result; nothing if none has arrived
  std::span<char const> wanted;                      ///< by tensor among the operands: its gradient is needed

  /// Returns the gradient of the first result that has one.
  Tensor const& gradient() const {
    return **std::ranges::find_if(gradients, [](auto const& g) { return g.has_value(); });
  }
};

/// The gradients of the tensors among the operands of a call, in order: those in positional arguments, in
/// keyword arguments, and of the called module. Nothing stands for a gradient that is zero or not wanted.
template <class Tensor>
using operand_gradients = std::vector<std::optional<Tensor>>;

/// Operators with backward functions, on tensors without differentiation.
/// - `o.call(c)`: as for `tensor_framework`.
/// - `o.backward(b)`: returns the gradients of the operands.
/// - `o.differentiates(node)`: returns true if `backward` knows the operator of `node`.
/// - `o.sum(x, y)`: returns the sum of two tensors of one shape.
/// - `o.filled(t, x)`: returns a tensor of the type and shape of `t`, with all elements `x`.
template <class O>
concept differentiable_operators =
    tensor_framework<O> && requires(O& o, operator_backward<typename O::tensor> const& b,
                                    module_node const& node, typename O::tensor const& t, double x) {
      { o.backward(b) } -> std::same_as<operand_gradients<typename O::tensor>>;
      { o.differentiates(node) } -> std::same_as<bool>;
      { o.sum(t, t) } -> std::same_as<typename O::tensor>;
      { o.filled(t, x) } -> std::same_as<typename O::tensor>;
    };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The calls of one forward pass, each after those that made its operands. Leaves have no call.
template <class Tensor>
struct operator_tape {
  struct place {
    std::uint32_t node = none<std::uint32_t>, result = 0;
  };
  struct entry {
    module_node const* node = nullptr;  ///< null for a leaf
    std::vector<model_value<Tensor>> args = {}, kwargs = {};
    std::vector<module_tensor<Tensor>> state = {};
    std::vector<Tensor> results = {};
    std::vector<place> operands = {};  ///< by tensor among the operands: what made it, if it needs a gradient

    operator_call<Tensor> call() const { return {*node, args, kwargs, state}; }
  };
  std::vector<entry> entries;
};

/// The gradients that have arrived at the results of the entries of a tape.
template <differentiable_operators O>
class arriving_gradients {
 public:
  using tensor = typename O::tensor;
  using tape = operator_tape<tensor>;
  using place = typename tape::place;

  arriving_gradients(O& operators, tape const& t)
      : operators_(&operators), tape_(&t), arrived_(t.entries.size()) {}

  void add(place to, tensor const& g) {
    auto& all = arrived_[to.node];
    if (all.empty()) all.resize(tape_->entries[to.node].results.size());
    auto& sum = all[to.result];
    sum = sum ? operators_->sum(*sum, g) : g;
  }
  std::optional<tensor> at(place p) const {
    auto const& all = arrived_[p.node];
    return all.empty() ? std::nullopt : all[p.result];
  }
  bool any(std::uint32_t node) const { return !arrived_[node].empty(); }
  void release(std::uint32_t node) { arrived_[node].clear(); }
  void copy(std::uint32_t node, arriving_gradients const& from) { arrived_[node] = from.arrived_[node]; }

  /// Runs one call backward, for the operands that are wanted, if a gradient has arrived there.
  void pass(std::uint32_t node, std::span<char const> wanted) {
    if (!any(node)) return;
    auto const& e = tape_->entries[node];
    auto const call = e.call();
    auto const made = operators_->backward({call, e.results, arrived_[node], wanted});
    if (made.size() != e.operands.size())
      throw operator_error({operator_fault::kind::no_results, e.node->name, e.node->target, {}, {}});
    for (std::size_t i = 0; i < made.size(); ++i)
      if (made[i] && wanted[i]) add(e.operands[i], *made[i]);
  }

 private:
  O* operators_;
  tape const* tape_;
  std::vector<std::vector<std::optional<tensor>>> arrived_;  // by entry and result; empty: none
};

/// A backward pass on a tape in two halves, cut so that the first computes only what inputs need.
template <differentiable_operators O>
class taped_halves {
 public:
  using tensor = typename O::tensor;
  using tape = operator_tape<tensor>;
  using place = typename tape::place;
  using seed = std::pair<place, tensor>;

  taped_halves(O& operators, std::shared_ptr<tape const> t, std::vector<seed> const& seeds,
               std::vector<place> inputs, std::vector<place> parameters)
      : tape_(std::move(t)),
        inputs_(std::move(inputs)),
        parameters_(std::move(parameters)),
        operators_(&operators),
        arrived_(operators, *tape_) {
    backward_arrays g;
    for (auto const& e : tape_->entries) {
      for (auto const& o : e.operands) g.next.add(gradient_edge<std::uint32_t>{o.node, o.result});
      g.next.close();
    }
    for (auto const& [at, gradient] : seeds) {
      g.outputs.push_back(at.node);
      arrived_.add(at, gradient);
    }
    for (auto const& p : inputs_) g.inputs.push_back(p.node);
    for (auto const& p : parameters_) g.parameters.push_back(p.node);
    phases_ = backward_phases_of(g);
  }

  std::vector<std::optional<tensor>> inputs() {
    run(phases_.input, arrived_);
    return taken(inputs_, arrived_);
  }
  /// Calls `take(i, gradient)` for each parameter, as soon as its gradient is known.
  template <class Take>
  void each_parameter(Take take) {
    std::vector<char> taken(parameters_.size());
    for (auto const& unit : phases_.weight) {
      arriving_gradients<O> there(*operators_, *tape_);
      for (auto const n : unit.saved) there.copy(n, arrived_);
      run(unit.steps, there);
      for (std::size_t i = 0; i < taken.size(); ++i)
        if (std::ranges::binary_search(unit.parameters, parameters_[i].node) && !std::exchange(taken[i], 1))
          take(i, there.at(parameters_[i]));
    }
    for (std::size_t i = 0; i < taken.size(); ++i)
      if (!taken[i]) take(i, std::optional<tensor>());
  }

 private:
  /// Runs steps; those of one call together.
  void run(std::vector<edge_step<std::uint32_t>> const& steps, arriving_gradients<O>& arrived) const {
    std::vector<char> wanted;
    for (std::size_t i = 0; i < steps.size();) {
      auto const node = steps[i].node;
      wanted.assign(tape_->entries[node].operands.size(), 0);
      for (; i < steps.size() && steps[i].node == node; ++i) wanted[steps[i].operand] = 1;
      arrived.pass(node, wanted);
    }
  }
  static std::vector<std::optional<tensor>> taken(std::vector<place> const& from,
                                                  arriving_gradients<O> const& arrived) {
    std::vector<std::optional<tensor>> found;
    for (auto const& p : from) found.push_back(arrived.at(p));
    return found;
  }

  std::shared_ptr<tape const> tape_;
  std::vector<place> inputs_, parameters_;
  O* operators_;
  arriving_gradients<O> arrived_;
  backward_phases phases_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Makes a differentiating framework of operators with backward functions: a tape records the calls of each
/// forward pass.
template <differentiable_operators O>
class taped_operators {
 public:
  using tape = detail::operator_tape<typename O::tensor>;
  /// A tensor, and the entry of a tape that made it if it needs a gradient.
  struct tensor {
    typename O::tensor value;
    std::shared_ptr<tape> on = {};
    typename tape::place at = {};

    tensor() = default;
    tensor(typename O::tensor t) : value(std::move(t)) {}  // NOLINT(google-explicit-constructor)
    tensor(typename O::tensor t, std::shared_ptr<tape> made_on, typename tape::place made_at)
        : value(std::move(t)), on(std::move(made_on)), at(made_at) {}
  };

  taped_operators() = default;
  explicit taped_operators(O operators) : operators_(std::move(operators)) {}
  O& operators() { return operators_; }

  // The tensors.
  tensor_view view(tensor const& t) { return operators_.view(t.value); }
  tensor wrap(tensor_view const& v) { return {operators_.wrap(v)}; }
  tensor copy(tensor const& t) { return {operators_.copy(t.value)}; }
  tensor filled(tensor const& t, double x) { return {operators_.filled(t.value, x)}; }
  void write(tensor const& t, tensor_view const& v) { operators_.write(t.value, v); }
  void add(tensor const& t, tensor_view const& v, double x) { operators_.add(t.value, v, x); }
  void fill(tensor_view const& v, double x) { operators_.fill(v, x); }

  // The passes.
  void begin(stage_pass const& p) {
    tape_ = std::make_shared<tape>();
    if constexpr (requires { operators_.begin(p); }) operators_.begin(p);
  }
  void before_forward(stage_pass const& p)
    requires requires(O& o) { o.before_forward(p); }
  {
    operators_.before_forward(p);
  }
  void after_forward(stage_pass const& p)
    requires requires(O& o) { o.after_forward(p); }
  {
    operators_.after_forward(p);
  }
  void after_backward(stage_pass const& p)
    requires requires(O& o) { o.after_backward(p); }
  {
    operators_.after_backward(p);
  }
  auto random_state()
    requires requires(O& o) { o.random_state(); }
  {
    return operators_.random_state();
  }
  template <class S>
    requires requires(O& o, S const& s) { o.set_random_state(s); }
  void set_random_state(S const& s) {
    operators_.set_random_state(s);
  }
  template <class Stream>
    requires requires(O& o, Stream& s) { o.on(s); }
  auto on(Stream& s) {
    return operators_.on(s);
  }

  model_value<tensor> call(operator_call<tensor> const& c) {
    typename tape::entry e{.node = &c.node};
    std::shared_ptr<tape> on;
    auto const plain = [&](tensor const& t) {
      e.operands.push_back(t.at);
      if (t.on) on = t.on;
      return t.value;
    };
    for (auto const& a : c.args) e.args.push_back(a.map(plain));
    for (auto const& a : c.kwargs) e.kwargs.push_back(a.map(plain));
    for (auto const& t : c.state) e.state.push_back({t.name, plain(t.tensor)});
    auto const made = operators_.call(e.call());
    if (!on) return made.map([](auto const& t) { return tensor{t}; });
    if (!operators_.differentiates(c.node))
      throw operator_error({detail::operator_fault::kind::no_backward, c.node.name, c.node.target, {}, {}});
    e.results.assign(made.tensors().begin(), made.tensors().end());
    auto const node = static_cast<std::uint32_t>(on->entries.size());
    on->entries.push_back(std::move(e));
    return made.map([&, result = std::uint32_t{0}](auto const& t) mutable {
      return is_floating(operators_.view(t).type) ? tensor{t, on, {node, result++}} : (++result, tensor{t});
    });
  }

  // The gradients.
  tensor leaf(tensor const& t) {
    if (!tape_) tape_ = std::make_shared<tape>();
    auto const node = static_cast<std::uint32_t>(tape_->entries.size());
    tape_->entries.push_back({.results = {t.value}});
    return {t.value, tape_, {node, 0}};
  }
  bool needs_gradient(tensor const& t) { return t.on != nullptr; }

  std::vector<std::optional<tensor>> gradients(std::vector<tensor> const& results,
                                               std::vector<tensor> const& at_results,
                                               std::vector<tensor> const& wanted, bool /*keep*/) {
    std::vector<std::optional<tensor>> found(wanted.size());
    each_gradient(results, at_results, wanted,
                  [&](std::size_t i, std::optional<tensor> g) { found[i] = std::move(g); });
    return found;
  }

  /// Calls `take(i, gradient)` for each of the leaves `wanted`, when the pass has gone by it.
  template <class Take>
  void each_gradient(std::vector<tensor> const& results, std::vector<tensor> const& at_results,
                     std::vector<tensor> const& wanted, Take take) {
    auto const order = from_the_end(wanted);
    auto next = order.begin();
    auto const take_down_to = [&](std::uint32_t node, detail::arriving_gradients<O> const* arrived) {
      for (; next != order.end() && wanted[*next].at.node >= node; ++next) {
        auto g = arrived ? arrived->at(wanted[*next].at) : std::nullopt;
        take(*next, g ? std::optional(tensor{*std::move(g)}) : std::nullopt);
      }
    };
    if (results.empty()) return take_down_to(0, nullptr);
    auto const& t = *results.front().on;
    detail::arriving_gradients<O> arrived(operators_, t);
    std::uint32_t last = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      arrived.add(results[i].at, at_results[i].value);
      last = (std::max)(last, results[i].at.node);
    }
    take_down_to(last + 1, nullptr);
    auto const leads = leads_to(t, wanted, last);
    std::vector<char> passed;
    for (std::uint32_t n = last + 1; n-- > 0;) {
      take_down_to(n, &arrived);
      auto const& e = t.entries[n];
      if (!e.node || !arrived.any(n)) continue;
      passed.clear();
      for (auto const& o : e.operands) passed.push_back(o.node != none<std::uint32_t> ? leads[o.node] : 0);
      if (std::ranges::find(passed, 1) != passed.end()) arrived.pass(n, passed);
      arrived.release(n);
    }
  }

  /// Cuts a backward pass at the values that inputs need, as `backward_phases_of` does.
  auto split(std::vector<tensor> const& results, std::vector<tensor> const& at_results,
             std::vector<tensor> const& inputs, std::vector<tensor> const& parameters) {
    return halves(operators_, results, at_results, inputs, parameters);
  }

 private:
  /// The halves, with gradients as tensors of this framework.
  class halves {
   public:
    halves(O& operators, std::vector<tensor> const& results, std::vector<tensor> const& at_results,
           std::vector<tensor> const& inputs, std::vector<tensor> const& parameters)
        : inputs_(inputs.size()), parameters_(parameters.size()) {
      if (results.empty()) return;
      std::vector<typename detail::taped_halves<O>::seed> seeds;
      for (std::size_t i = 0; i < results.size(); ++i) seeds.emplace_back(results[i].at, at_results[i].value);
      auto const places = [](std::vector<tensor> const& list) {
        std::vector<typename tape::place> made;
        for (auto const& t : list) made.push_back(t.at);
        return made;
      };
      cut_.emplace(operators, results.front().on, seeds, places(inputs), places(parameters));
    }
    std::vector<std::optional<tensor>> inputs() { return cut_ ? wrapped(cut_->inputs()) : none_of(inputs_); }
    std::vector<std::optional<tensor>> parameters() {
      auto found = none_of(parameters_);
      each_parameter([&](std::size_t i, std::optional<tensor> g) { found[i] = std::move(g); });
      return found;
    }
    template <class Take>
    void each_parameter(Take take) {
      if (cut_)
        return cut_->each_parameter([&](std::size_t i, std::optional<typename O::tensor> g) {
          take(i, g ? std::optional(tensor{*std::move(g)}) : std::nullopt);
        });
      for (std::size_t i = 0; i < parameters_; ++i) take(i, std::optional<tensor>());
    }

   private:
    static std::vector<std::optional<tensor>> none_of(std::size_t count) {
      return std::vector<std::optional<tensor>>(count);
    }
    static std::vector<std::optional<tensor>> wrapped(std::vector<std::optional<typename O::tensor>> list) {
      std::vector<std::optional<tensor>> made;
      for (auto& g : list) made.push_back(g ? std::optional(tensor{*std::move(g)}) : std::nullopt);
      return made;
    }

    std::size_t inputs_, parameters_;
    std::optional<detail::taped_halves<O>> cut_;
  };

  /// Returns the positions of tensors, those of the last entries of the tape first.
  static std::vector<std::size_t> from_the_end(std::vector<tensor> const& list) {
    std::vector<std::size_t> order(list.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::ranges::sort(order, std::ranges::greater{},
                      [&](std::size_t i) { return std::pair(list[i].at.node, i); });
    return order;
  }

  /// Marks the entries up to `last` from which gradients reach a wanted tensor.
  static std::vector<char> leads_to(tape const& t, std::vector<tensor> const& wanted, std::uint32_t last) {
    std::vector<char> leads(last + std::size_t{1});
    for (auto const& w : wanted)
      if (w.at.node <= last) leads[w.at.node] = 1;
    for (std::size_t n = 0; n <= last; ++n)
      for (auto const& o : t.entries[n].operands)
        if (o.node != none<std::uint32_t> && leads[o.node]) leads[n] = 1;
    return leads;
  }

  O operators_;
  std::shared_ptr<tape> tape_;  // of the current pass
};

/// Operators by name: for each, a forward function and, if gradients pass it, a backward function. `Memory`
/// has the tensors: `tensor_memory`, and `sum` and `filled` as for `differentiable_operators`.
template <tensor_memory Memory>
class operator_table : public Memory {
 public:
  using tensor = typename Memory::tensor;
  using call_type = operator_call<tensor>;
  using forward_function = model_value<tensor> (*)(call_type const&);
  using backward_function = operand_gradients<tensor> (*)(operator_backward<tensor> const&);

  operator_table() = default;
  explicit operator_table(Memory m) : Memory(std::move(m)) {}

  /// Adds an operator, or replaces it.
  operator_table& define(std::string const& name, forward_function forward,
                         backward_function back = nullptr) {
    auto const known = names_.find(name);
    if (known == none<std::uint32_t>) {
      names_.insert(name);
      functions_.emplace_back(forward, back);
    } else {
      functions_[known] = {forward, back};
    }
    return *this;
  }

  model_value<tensor> call(call_type const& c) {
    auto const known = names_.find(c.target());
    if (known == none<std::uint32_t>)
      throw operator_error({detail::operator_fault::kind::unknown,
                            c.node.name,
                            c.target(),
                            {},
                            suggestion(nearest_names(c.target(), names_.handles()))});
    return functions_[known].first(c);
  }
  operand_gradients<tensor> backward(operator_backward<tensor> const& b) {
    return functions_[names_.find(b.forward.target())].second(b);
  }
  bool differentiates(module_node const& n) const {
    auto const known = names_.find(n.target);
    return known != none<std::uint32_t> && functions_[known].second;
  }

 private:
  numbering<std::string, std::uint32_t> names_;  // parallel to …
  std::vector<std::pair<forward_function, backward_function>> functions_;
};

}  // namespace cleave
