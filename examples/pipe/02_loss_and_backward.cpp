// SPDX-License-Identifier: MIT
// Adds a loss to a program, cuts it into stages, and adds their backward passes as calls in the outer graph.
// A small automatic differentiation runs it and finds the derivatives of the whole program.
#include <cleave/backward.hpp>
#include <cleave/modules.hpp>
#include <cleave/pipe.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

using cleave::module_graph, cleave::node_argument;
using enum cleave::node_kind;

/// Builds graphs node by node.
struct writer {
  module_graph g;

  module_graph::position add(cleave::node_kind kind, std::string const& name, std::string const& target,
                             std::vector<module_graph::position> const& reads = {}) {
    cleave::module_node n;
    n.kind = kind;
    n.name = name;
    n.target = target;
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g.add(std::move(n));
  }
  module_graph::position weight(std::string const& name) {
    g.add_attribute({name, cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
    return add(get_attr, name, name);
  }
};

/// y = h b + h, where h = x a: h is used by the next stage and by the one after.
module_graph make_model() {
  writer w;
  auto const x = w.add(placeholder, "x", "x"), a = w.weight("a"), b = w.weight("b");
  auto const h = w.add(call_function, "h", "mul", {x, a});
  w.add(call_function, "cut", "pipe_split");
  auto const k = w.add(call_function, "k", "mul", {h, b});
  w.add(call_function, "cut_1", "pipe_split");
  w.add(output, "output", "output", {w.add(call_function, "y", "add", {k, h})});
  return std::move(w.g);
}

/// The squared error of the model.
module_graph make_loss() {
  writer w;
  auto const y = w.add(placeholder, "y", "y"), wanted = w.add(placeholder, "wanted", "wanted");
  auto const d = w.add(call_function, "d", "sub", {y, wanted});
  w.add(output, "output", "output", {w.add(call_function, "square", "mul", {d, d})});
  return std::move(w.g);
}

/// A value: null, a number (recorded on the tape or not), or a tuple.
struct value {
  std::optional<double> number{};
  std::optional<std::size_t> node{};
  std::vector<value> items{};
  bool is_tuple = false;
};

/// A tape for reverse-mode differentiation: the operands of each number, with the derivatives.
struct tape {
  struct entry {
    std::vector<std::pair<std::size_t, double>> from;
    double gradient = 0;
    bool reached = false;
  };
  std::vector<entry> entries;

  value record(double x, std::vector<std::pair<value, double>> const& parts = {}) {
    entry e;
    for (auto const& [part, slope] : parts)
      if (part.node) e.from.emplace_back(*part.node, slope);
    entries.push_back(e);
    return {x, entries.size() - 1};
  }

  // [hooks]
  value null() const { return {}; }
  bool is_null(value const& v) const { return !v.number && !v.is_tuple; }
  std::optional<std::vector<value>> elements(value const& v) const {
    return v.is_tuple ? std::optional(v.items) : std::nullopt;
  }
  std::vector<std::string> keys(value const&) const { return {}; }
  value rebuild(value const&, std::vector<value> items) const { return {{}, {}, std::move(items), true}; }
  bool needs_gradient(value const& v) const { return v.node.has_value(); }
  bool is_scalar(value const&) const { return true; }
  value one(value const&) const { return {1.0}; }
  value add(value const& x, value const& y) const { return {*x.number + *y.number}; }
  void differentiate(std::vector<value> const& outputs, std::vector<value> const& gradients) {
    for (std::size_t i = 0; i < outputs.size(); ++i) reach(*outputs[i].node, *gradients[i].number);
    for (std::size_t n = entries.size(); n-- > 0;)
      if (entries[n].reached && !entries[n].from.empty()) {
        for (auto const& [part, slope] : entries[n].from) reach(part, slope * entries[n].gradient);
        entries[n].gradient = 0;
        entries[n].reached = false;
      }
  }
  value take_gradient(value const& v) {
    if (!v.node || !std::exchange(entries[*v.node].reached, false)) return {};
    return {std::exchange(entries[*v.node].gradient, 0)};
  }
  // [hooks]

  void reach(std::size_t n, double gradient) {
    entries[n].gradient += gradient;
    entries[n].reached = true;
  }
};

/// Runs the root and its stages. Each stage works on its own copies of numbers, so that differentiation stops
/// at its boundary.
struct meaning {
  tape t;
  module_graph const& root;
  std::map<std::string, value> weights;
  std::map<std::size_t, value> detached;

  value constant(cleave::token const& c) {
    auto const* i = std::get_if<std::int64_t>(&c);
    return i ? value{static_cast<double>(*i)} : value{};
  }
  value collect(cleave::container const&, std::span<value const> items) {
    return t.rebuild({}, {items.begin(), items.end()});
  }
  value attribute(module_graph const& g, module_graph::position n) { return weights.at(g[n].target); }

  value own(value const& v) {
    if (!v.node) return v;
    auto const known = detached.find(*v.node);
    return known != detached.end() ? known->second : detached[*v.node] = t.record(*v.number);
  }

  value call(module_graph const& g, module_graph::position n, std::span<value const> args,
             std::span<value const> kwargs) {
    auto const& node = g[n];
    if (node.kind == call_module) {
      std::vector<value> given;
      for (auto const& a : args) given.push_back(own(a));
      return evaluate(root.find_attribute(node.target)->body.front(), given, *this);
    }
    double const x = args.empty() || !args[0].number ? 0 : *args[0].number;
    double const y = args.size() < 2 || !args[1].number ? 0 : *args[1].number;
    if (node.target == "mul") return t.record(x * y, {{args[0], y}, {args[1], x}});
    if (node.target == "add") return t.record(x + y, {{args[0], 1}, {args[1], 1}});
    if (node.target == "sub") return t.record(x - y, {{args[0], 1}, {args[1], -1}});
    if (node.target == "getitem") return args[0].items[static_cast<std::size_t>(y)];
    // [run]
    if (node.target == "null_coalesce_accumulate")
      return cleave::null_coalesce_accumulate(t, args[0], args[1]);
    std::vector<value> inputs;  // stage_backward
    for (auto const& v : kwargs[2].items) inputs.push_back(own(v));
    std::vector<std::size_t> selected;
    for (auto const& v : kwargs[3].items) selected.push_back(static_cast<std::size_t>(*v.number));
    auto const null =
        is_backward_of_loss(node) ? cleave::null_gradient::at_the_loss : cleave::null_gradient::nothing;
    return t.rebuild({}, cleave::stage_backward(t, kwargs[0], kwargs[1], inputs, selected, null));
    // [run]
  }
};

/// The calls of a root without the bodies of its stages.
module_graph calls_of(module_graph const& root) {
  module_graph calls;
  for (auto const& n : root.list()) calls.add(n);
  return calls;
}

void print(module_graph const& root) {
  for (auto const& n : root.list()) {
    if (n.kind == placeholder || n.kind == output) continue;
    std::cout << n.name << " = " << n.target << '(';
    for (std::size_t i = 0; i < n.args.size(); ++i)
      std::cout << (i > 0 ? ", " : "") << argument_text(root, n.args[i]);
    for (std::size_t i = 0; i < n.kwargs.size(); ++i)
      std::cout << (i > 0 ? ", " : "") << argument_text(root, n.kwargs[i].value);
    std::cout << ")\n";
  }
}

int main() {
  // [backward]
  auto const program = cleave::with_loss(make_model(), make_loss());
  auto const pipe = cleave::make_module_pipe(program);  // cuts at the markers
  auto const loss = loss_of(pipe.outer, cleave::sole_output());
  auto const root = with_backward(pipe.outer, *loss, {.inputs = cleave::input_gradients::returned});
  // [backward]
  print(root);

  meaning run{{}, root, {}, {}};
  run.weights = {{"a", run.t.record(3)}, {"b", run.t.record(0.5)}};
  auto const given = evaluate(calls_of(root), std::vector{run.t.record(2), run.t.record(8)}, run);
  std::cout << "loss " << *given.items[0].number << ", by x " << *given.items[1].items[0].number << ", by a "
            << *run.t.take_gradient(run.weights["a"]).number << ", by b "
            << *run.t.take_gradient(run.weights["b"]).number << '\n';
}

// It prints:
//
//   stage_0 = stage_0(x)
//   stage_1 = stage_1(stage_0)
//   stage_2 = stage_2(stage_1, stage_0, wanted)
//   stage_backward = stage_backward((stage_2), (null), [stage_1, stage_0, wanted], [0])
//   getitem = getitem(stage_backward, 0)
//   getitem_1 = getitem(stage_backward, 1)
//   getitem_2 = getitem(stage_backward, 2)
//   stage_backward_1 = stage_backward((stage_1), (getitem), [stage_0], [0])
//   getitem_3 = getitem(stage_backward_1, 0)
//   null_coalesce_accumulate = null_coalesce_accumulate(getitem_1, getitem_3)
//   stage_backward_2 = stage_backward((stage_0), (null_coalesce_accumulate), [x], [0])
//   getitem_4 = getitem(stage_backward_2, 0)
//   loss 1, by x 9, by a 6, by b 12
