// SPDX-License-Identifier: MIT
#include "cleave/graph/bind_arguments.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

namespace {

using enum binding_fault::kind;

module_graph taking(std::vector<std::string> const& parameters,
                    std::vector<std::string> const& defaults = {}) {
  module_graph g;
  for (auto const& name : parameters) {
    module_node n;
    n.kind = node_kind::placeholder;
    n.name = n.target = name;
    if (std::ranges::find(defaults, name) != defaults.end()) n.default_value = module_argument{token()};
    g.add(n);
  }
  return g;
}

}  // namespace

TEST_CASE("bind_arguments: positional arguments come first, then names, then defaults") {
  auto const g = taking({"x", "y", "z"}, {"y"});
  CHECK(bind_arguments(g, 1, {"z"}) == argument_binding{0, std::nullopt, 1});
  CHECK(bind_arguments(g, 0, {"z", "x"}) == argument_binding{1, std::nullopt, 0});
  CHECK(bind_arguments(g, 3, {}) == argument_binding{0, 1, 2});
  CHECK(bind_arguments(taking({}), 0, {}).empty());
}

TEST_CASE("bind_arguments: all that is wrong is said at once") {
  auto const g = taking({"x", "alpha"});
  CHECK(find_binding_faults(g, 1, {"x", "alpa"}) ==
        std::vector<binding_fault>{{twice, "x"}, {unknown, "alpa"}, {missing, "alpha"}});
  CHECK_THROWS_WITH_AS(
      bind_arguments(g, 1, {"x", "alpa"}),
      "the arguments do not fit: parameter 'x' has two arguments; there is no parameter 'alpa'; "
      "nearest: 'alpha', 'x'; parameter 'alpha' has neither an argument nor a default",
      binding_error);
  CHECK(find_binding_faults(g, 0, {"x", "x", "alpha"}) == std::vector<binding_fault>{{twice, "x"}});
}

TEST_CASE("bind_arguments: more arguments than parameters are refused, or ignored where asked") {
  auto const g = taking({"x"});
  CHECK(find_binding_faults(g, 2, {}) == std::vector<binding_fault>{{too_many, ""}});
  CHECK_THROWS_WITH_AS(bind_arguments(g, 2, {}),
                       "the arguments do not fit: there are more arguments than the 1 parameters",
                       binding_error);
  CHECK(bind_arguments(g, 2, {}, surplus_arguments::ignored) == argument_binding{0});
}

TEST_CASE(
    "bind_arguments: what binds gives each parameter its own argument, and names meet their parameters") {
  testing::rng r(51);
  std::vector<std::string> const names{"a", "b", "c", "d"};
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> parameters, defaults, named;
    for (auto const& name : names) {
      if (r.one_in(2)) parameters.push_back(name);
      if (r.one_in(3)) defaults.push_back(name);
      if (r.one_in(3)) named.push_back(name);
    }
    auto const g = taking(parameters, defaults);
    auto const positional = r.below(4);
    bool fits = positional <= parameters.size();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      bool const by_name = std::ranges::find(named, parameters[i]) != named.end();
      bool const by_default = std::ranges::find(defaults, parameters[i]) != defaults.end();
      fits &= (i < positional) != by_name || (i >= positional && !by_name && by_default);
    }
    for (auto const& name : named) fits &= std::ranges::find(parameters, name) != parameters.end();
    CHECK(find_binding_faults(g, positional, named).empty() == fits);
    if (!fits) continue;
    auto const binding = bind_arguments(g, positional, named);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      if (binding[i] && *binding[i] >= positional)
        CHECK(named[*binding[i] - positional] == parameters[i]);
      else if (binding[i])
        CHECK(*binding[i] == i);
  }
}
