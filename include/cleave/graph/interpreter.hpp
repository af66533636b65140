// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2 {

/// The meaning of the constants, containers and calls of a module_graph, on values of the user's type.
/// - `i.constant(t)`  the value of a token that is neither a node nor a container,
/// - `i.collect(c, elements)`  the value of a list, tuple, dict or slice; for a dict, keys and values
///   alternate,
/// - `i.attribute(g, n)`  the value that the get_attr node `n` of `g` reads,
/// - `i.call(g, n, args, kwargs)`  the result of the call `n` of `g`; `kwargs` is parallel to `g[n].kwargs`.
///
/// A call of a module whose inside is a graph is not passed to `call`: the interpreter evaluates that graph.
template <class I, class Value>
concept interpretation =
    std::copyable<Value> && requires(I& i, token const& t, container const& c, std::span<Value const> values,
                                     module_graph const& g, module_graph::position n) {
      { i.constant(t) } -> std::convertible_to<Value>;
      { i.collect(c, values) } -> std::convertible_to<Value>;
      { i.attribute(g, n) } -> std::convertible_to<Value>;
      { i.call(g, n, values, values) } -> std::convertible_to<Value>;
    };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a graph cannot be called with certain arguments.
struct argument_fault {
  static constexpr char subject[] = "evaluate: ";
  enum class kind : std::uint8_t { too_many, unknown_keyword, missing };
  kind what;
  std::string name;  ///< the keyword, or the parameter that has no value; empty for `too_many`

  bool operator==(argument_fault const&) const = default;
};

/// Returns a sentence such as `placeholder 'x' has neither an argument nor a default`.
inline std::string describe(argument_fault const& f) {
  if (f.what == argument_fault::kind::too_many) return "more arguments than placeholders";
  if (f.what == argument_fault::kind::missing)
    return "placeholder '" + f.name + "' has neither an argument nor a default";
  return "no placeholder is left for keyword '" + f.name + "'";
}

using argument_error = fault_error<argument_fault>;

/// Returns the reason why `g` cannot be called with `positional` positional arguments and these keywords, or
/// nothing. A keyword is the target of a placeholder. O(placeholders * keywords).
inline std::optional<argument_fault> find_argument_fault(module_graph const& g, std::size_t positional,
                                                         std::vector<std::string> const& keywords) {
  using enum argument_fault::kind;
  auto const inputs = g.inputs();
  if (positional > inputs.size()) return argument_fault{too_many, ""};
  auto const by_keyword = inputs.subspan(positional);
  auto const target = [&](module_graph::position n) -> std::string const& { return g[n].target; };
  for (auto const& key : keywords)
    if (std::ranges::find(by_keyword, key, target) == by_keyword.end())
      return argument_fault{unknown_keyword, key};
  for (auto const n : by_keyword)
    if (!g[n].default_value && std::ranges::find(keywords, target(n)) == keywords.end())
      return argument_fault{missing, target(n)};
  return std::nullopt;
}

/// Evaluates a graph and the graphs that it calls, for `evaluate`.
template <class Value, interpretation<Value> I>
class interpreter {
 public:
  explicit interpreter(I& i) : i_(i) {}

  Value run(module_graph const& g, std::vector<Value> inputs) {
    enter(g, std::move(inputs), {}, {});
    for (;;) {
      frame& top = calls_.back();
      if (top.next == top.graph->list().size()) {
        Value result = top.result ? *std::move(top.result) : Value(i_.constant(token()));
        calls_.pop_back();
        if (calls_.empty()) return result;
        frame& caller = calls_.back();
        caller.values[caller.next++] = std::move(result);
      } else if (std::optional<Value> v = step(top)) {
        top.values[top.next++] = std::move(v);
      }
    }
  }

 private:
  struct frame {
    module_graph const* graph;
    std::vector<Value> positional;
    std::vector<std::string> keys;  // parallel to …
    std::vector<Value> keywords;
    std::vector<std::optional<Value>> values{};  // by node
    module_graph::position next = 0;             // the next node to evaluate
    std::size_t taken = 0;                       // number of placeholders evaluated so far
    std::optional<Value> result{};
  };

  void enter(module_graph const& g, std::vector<Value> positional, std::vector<std::string> keys,
             std::vector<Value> keywords) {
    if (auto fault = detail::find_argument_fault(g, positional.size(), keys))
      throw detail::argument_error(*std::move(fault));
    calls_.push_back({&g, std::move(positional), std::move(keys), std::move(keywords)});
    calls_.back().values.resize(g.list().size());
  }

  /// Returns the value of the next node of `f`. If the node calls a graph, enters that graph and returns
  /// nothing.
  std::optional<Value> step(frame& f) {
    module_graph const& g = *f.graph;
    module_node const& n = g[f.next];
    switch (n.kind) {
      case node_kind::placeholder:
        return placeholder(f, n);
      case node_kind::get_attr:
        return i_.attribute(g, f.next);
      case node_kind::output: {
        auto given = values_of(f, n.args);
        f.result = given.empty() ? Value(i_.constant(token())) : std::move(given.front());
        return f.result;
      }
      default:
        break;
    }
    auto args = values_of(f, n.args);
    std::vector<Value> kwargs;
    for (auto const& k : n.kwargs) kwargs.push_back(value_of(f, k.value));
    module_attribute const* const callee =
        n.kind == node_kind::call_module ? g.find_attribute(n.target) : nullptr;
    if (!callee || callee->body.empty()) return i_.call(g, f.next, args, kwargs);

    std::vector<std::string> keys;
    for (auto const& k : n.kwargs) keys.push_back(k.key);
    enter(callee->body.front(), std::move(args), std::move(keys), std::move(kwargs));
    return std::nullopt;
  }

  Value placeholder(frame& f, module_node const& n) {
    std::size_t const at = f.taken++;
    if (at < f.positional.size()) return f.positional[at];
    auto const key = std::ranges::find(f.keys, n.target);
    if (key == f.keys.end()) return value_of(f, *n.default_value);
    return f.keywords[static_cast<std::size_t>(key - f.keys.begin())];
  }

  std::vector<Value> values_of(frame const& f, std::vector<module_argument> const& list) {
    std::vector<Value> values;
    for (auto const& a : list) values.push_back(value_of(f, a));
    return values;
  }

  /// Evaluates the tokens from last to first, so that the elements of a container are on the stack when the
  /// container is reached.
  Value value_of(frame const& f, module_argument const& a) {
    std::vector<Value> stack, elements;
    for (auto t = a.rbegin(); t != a.rend(); ++t) {
      if (auto const* ref = std::get_if<node_ref>(&*t)) {
        stack.push_back(*f.values[ref->node]);
      } else if (auto const* c = std::get_if<container>(&*t)) {
        elements.clear();
        for (std::size_t missing = elements_of(*c); missing > 0; --missing) {
          elements.push_back(std::move(stack.back()));
          stack.pop_back();
        }
        stack.push_back(i_.collect(*c, elements));
      } else {
        stack.push_back(i_.constant(*t));
      }
    }
    return std::move(stack.back());
  }

  I& i_;
  std::vector<frame> calls_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the result of `g` for `inputs`, one value for each placeholder. Placeholders at the end that have
/// a default may be left out. A graph without an output node returns the value of the null constant. Keeps
/// O(size of all evaluated graphs) values, and does not recurse.
/// \throws argument_error if the arguments of `g`, or of a graph that it calls, do not fit
template <class Value, interpretation<Value> I>
Value evaluate(module_graph const& g, std::vector<Value> inputs, I& i) {
  return detail::interpreter<Value, I>(i).run(g, std::move(inputs));
}

}  // namespace cleave
