// SPDX-License-Identifier: MIT
#include "cleave/graph/interpreter.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/cases.hpp"
#include "support/integer_interpretation.hpp"
#include "support/module_nodes.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::node;

namespace {

/// An interpretation whose values are texts that show how they were computed.
struct telling {
  std::string constant(token const& t) const {
    if (auto const* i = std::get_if<std::int64_t>(&t)) return std::to_string(*i);
    return "null";
  }
  std::string collect(container const& c, std::span<std::string const> elements) const {
    std::string text(1, c.what == container::kind::dict ? '{' : '[');
    for (auto const& e : elements) text += e + ",";
    return text + (c.what == container::kind::dict ? '}' : ']');
  }
  std::string attribute(module_graph const& g, module_graph::position n) const { return "$" + g[n].target; }
  std::string call(module_graph const& g, module_graph::position n, std::span<std::string const> args,
                   std::span<std::string const> kwargs) const {
    std::string text = g[n].target + "(";
    for (auto const& a : args) text += a + ",";
    for (std::size_t i = 0; i < kwargs.size(); ++i) text += g[n].kwargs[i].key + "=" + kwargs[i] + ",";
    return text + ")";
  }
};

std::string told(module_graph const& g, std::vector<std::string> inputs) {
  telling t;
  return evaluate(g, std::move(inputs), t);
}

/// f(a, b=7)
module_graph body() {
  module_graph g;
  auto const a = g.add(node(node_kind::placeholder, "a"));
  auto b = node(node_kind::placeholder, "b");
  b.default_value = module_argument{std::int64_t{7}};
  auto const at = g.add(b);
  auto const f = g.add(node(node_kind::call_function, "f", {node_argument(a), node_argument(at)}));
  g.add(node(node_kind::output, "output", {node_argument(f)}));
  return g;
}

}  // namespace

TEST_CASE("evaluate: computes constants, containers, attributes and calls in the order written") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const w = g.add(node(node_kind::get_attr, "w"));
  module_argument nested{container{container::kind::list, 3},
                         node_ref{w},
                         container{container::kind::dict, 1},
                         std::int64_t{1},
                         node_ref{x},
                         token()};
  auto f = node(node_kind::call_function, "f", {nested});
  f.kwargs = {{"k", node_argument(x)}, {"a", {std::int64_t{2}}}};
  auto const at = g.add(f);
  g.add(node(node_kind::output, "output", {tuple_argument({at, x})}));
  CHECK(told(g, {"X"}) == "[f([$w,{1,X,},null,],k=X,a=2,),X,]");
}

TEST_CASE("evaluate: enters a module that has a graph, and binds keywords and defaults") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  g.add_attribute({"m", module_attribute::kind::module, {}, {body()}, {}, {}});
  auto const one = g.add(node(node_kind::call_module, "m", {node_argument(x)}));
  auto by_keyword = node(node_kind::call_module, "m");
  by_keyword.kwargs = {{"b", node_argument(x)}, {"a", node_argument(one)}};
  auto const two = g.add(by_keyword);
  g.add(node(node_kind::output, "output", {node_argument(two)}));
  CHECK(told(g, {"X"}) == "f(f(X,7,),X,)");
}

TEST_CASE("find_argument_fault: finds arguments that do not fit, and evaluate names the parameter") {
  auto const g = body();
  using enum argument_fault::kind;
  CHECK(find_argument_fault(g, 0, {}) == argument_fault{missing, "a"});
  CHECK(find_argument_fault(g, 3, {}) == argument_fault{too_many, ""});
  CHECK(find_argument_fault(g, 1, {"c"}) == argument_fault{unknown_keyword, "c"});
  CHECK(find_argument_fault(g, 1, {"a"}) == argument_fault{unknown_keyword, "a"});
  CHECK(find_argument_fault(g, 1, {"b"}) == std::nullopt);
  CHECK(find_argument_fault(g, 0, {"a"}) == std::nullopt);
  CHECK_THROWS_WITH_AS(told(g, {}), "evaluate: placeholder 'a' has neither an argument nor a default",
                       argument_error);
  CHECK_THROWS_AS(told(g, {"1", "2", "3"}), argument_error);
}

TEST_CASE("evaluate: returns null for a graph without an output") {
  CHECK(told(module_graph(), {}) == "null");
}

TEST_CASE("evaluate: handles long chains, deep bodies and deep arguments without recursion") {
  auto const depth = testing::cases(25'000, 100'000);
  auto nested = body();
  for (std::size_t i = 0; i < depth; ++i) {
    module_graph g;
    auto const x = g.add(node(node_kind::placeholder, "a"));
    module_attribute m{"m", module_attribute::kind::module, {}, {}, {}, {}};
    m.body.push_back(std::move(nested));
    g.add_attribute(std::move(m));
    auto const call = g.add(node(node_kind::call_module, "m", {node_argument(x)}));
    g.add(node(node_kind::output, "output", {node_argument(call)}));
    nested = std::move(g);
  }
  auto const copy = nested;
  CHECK(told(nested, {"X"}) == "f(X,7,)");
  CHECK(told(copy, {"X"}) == "f(X,7,)");

  module_graph chain;
  auto last = chain.add(node(node_kind::placeholder, "x"));
  for (std::size_t i = 0; i < depth; ++i)
    last = chain.add(node(node_kind::call_function, "f", {node_argument(last)}));
  module_argument deep(depth, container{container::kind::list, 1});
  deep.push_back(node_ref{last});
  chain.add(node(node_kind::output, "output", {deep}));
  testing::integer_interpretation meaning;
  auto v = evaluate(chain, std::vector{testing::integer_value::computed(1)}, meaning);
  CHECK(v.what == testing::integer_value::kind::composite);
  while (v.items) v = std::vector(*v.items).front();
  CHECK(v.what == testing::integer_value::kind::computed);
}

TEST_CASE("integer_interpretation: takes tuples apart and identifies a module by its original path") {
  testing::integer_interpretation meaning;
  auto const x = testing::integer_value::computed(42);
  auto const value_of = [&](std::string const& path, std::string const& original) {
    module_graph g;
    auto const in = g.add(node(node_kind::placeholder, "x"));
    g.add_attribute({path, module_attribute::kind::module, {}, {}, original, {}});
    g.add(node(node_kind::output, "output",
               {node_argument(g.add(node(node_kind::call_module, path, {node_argument(in)})))}));
    return evaluate(g, std::vector{x}, meaning);
  };
  CHECK(value_of("layer.0", "") == value_of("layer_0", "layer.0"));
  CHECK(value_of("layer.0", "") != value_of("layer_0", ""));

  module_graph g;
  auto const in = g.add(node(node_kind::placeholder, "x"));
  auto const pair = g.add(node(node_kind::call_function, "tup2", {node_argument(in)}));
  auto second = node(node_kind::call_function, "getitem", {node_argument(pair), {std::int64_t{1}}});
  g.add(node(node_kind::output, "output", {node_argument(g.add(second))}));
  CHECK(evaluate(g, std::vector{x}, meaning).bits ==
        testing::fold(
            testing::fold(testing::fold(testing::fold(testing::fnv("call_function:tup2"), 1), x.digest), 0),
            1));
}
