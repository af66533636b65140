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

using namespace cleave::detail;

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

TEST_CASE("bind_arguments: binds positional arguments first, then names, then defaults") {
  auto const g = taking({"x", "y", "z"}, {"y"});
  CHECK(bind_arguments(g, 1, {"z"}) == argument_binding{{0}, {}, {1}});
  CHECK(bind_arguments(g, 0, {"z", "x"}) == argument_binding{{1}, {}, {0}});
  CHECK(bind_arguments(g, 3, {}) == argument_binding{{0}, {1}, {2}});
  CHECK(bind_arguments(taking({}), 0, {}).empty());
}

TEST_CASE("bind_arguments: reports all binding faults at once") {
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

TEST_CASE("bind_arguments: rejects surplus arguments, or ignores them if asked to") {
  auto const g = taking({"x"});
  CHECK(find_binding_faults(g, 2, {}) == std::vector<binding_fault>{{too_many, ""}});
  CHECK_THROWS_WITH_AS(bind_arguments(g, 2, {}),
                       "the arguments do not fit: there are more arguments than the 1 parameters",
                       binding_error);
  CHECK(bind_arguments(g, 2, {}, surplus_arguments::ignored) == argument_binding{{0}});
}

TEST_CASE("bind_arguments: binds each positional argument by position and each named one by name") {
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
      if (!binding[i].empty() && binding[i][0] >= positional)
        CHECK(named[binding[i][0] - positional] == parameters[i]);
      else if (!binding[i].empty())
        CHECK(binding[i][0] == i);
  }
}

TEST_CASE("bind_arguments: *args takes the remaining positional arguments, **kwargs the remaining names") {
  auto const g = taking({"x", "*args", "y", "**kwargs"}, {"y"});
  CHECK(bind_arguments(g, 3, {"b", "y", "a"}) == argument_binding{{0}, {1, 2}, {4}, {3, 5}});
  CHECK(bind_arguments(g, 1, {}) == argument_binding{{0}, {}, {}, {}});
  CHECK(bind_arguments(g, 0, {"x"}) == argument_binding{{0}, {}, {}, {}});
  // `args` and `kwargs` themselves are not parameter names.
  CHECK(bind_arguments(g, 1, {"args", "kwargs"}) == argument_binding{{0}, {}, {}, {1, 2}});
  CHECK(find_binding_faults(g, 0, {}) == std::vector<binding_fault>{{missing, "x"}});
  CHECK(find_binding_faults(g, 1, {"x"}) == std::vector<binding_fault>{{twice, "x"}});
  CHECK(find_binding_faults(g, 1, {"z", "z"}) == std::vector<binding_fault>{{twice, "z"}});

  CHECK(find_binding_faults(taking({"*args", "y"}), 2, {}) == std::vector<binding_fault>{{missing, "y"}});
  CHECK(find_binding_faults(taking({"*args"}), 0, {"*args"}) ==
        std::vector<binding_fault>{{unknown, "*args"}});
  CHECK(find_binding_faults(taking({"x", "**kwargs"}), 2, {}) == std::vector<binding_fault>{{too_many, ""}});
  CHECK(bind_arguments(taking({"x", "**kwargs"}), 2, {}, surplus_arguments::ignored) ==
        argument_binding{{0}, {}});
}

namespace {

struct call_of_words {
  std::size_t positional;
  std::vector<std::string> named;
};

/// Binds as Python does: first each positional argument takes a parameter, then each named one.
std::optional<argument_binding> bound_literally(std::vector<std::string> const& parameters,
                                                std::vector<std::string> const& defaults,
                                                call_of_words const& call) {
  argument_binding to(parameters.size());
  std::vector<std::string> passed;  // names
  for (std::size_t i = 0; i < call.positional; ++i) {
    std::size_t at = 0;
    while (at < parameters.size() && !parameters[at].starts_with("*") && !to[at].empty()) ++at;
    if (at == parameters.size() || parameters[at].starts_with("**")) return std::nullopt;
    to[at].push_back(i);
  }
  for (std::size_t i = 0; i < call.named.size(); ++i) {
    if (std::ranges::find(passed, call.named[i]) != passed.end()) return std::nullopt;
    passed.push_back(call.named[i]);
    auto at = std::ranges::find(parameters, call.named[i]);
    if (at == parameters.end())
      at = std::ranges::find_if(parameters, [](auto const& p) { return p.starts_with("**"); });
    else if (!to[static_cast<std::size_t>(at - parameters.begin())].empty())
      return std::nullopt;
    if (at == parameters.end()) return std::nullopt;
    to[static_cast<std::size_t>(at - parameters.begin())].push_back(call.positional + i);
  }
  for (std::size_t i = 0; i < to.size(); ++i)
    if (to[i].empty() && !parameters[i].starts_with("*") &&
        std::ranges::find(defaults, parameters[i]) == defaults.end())
      return std::nullopt;
  return to;
}

}  // namespace

TEST_CASE("bind_arguments: binds random calls as Python does") {
  testing::rng r(52);
  std::size_t bound = 0;
  for (int round = 0; round < 4000; ++round) {
    std::vector<std::string> parameters, defaults;
    call_of_words call{r.below(5), {}};
    for (auto const* name : {"a", "b", "*args", "c", "d", "**kwargs"})
      if (r.one_in(2)) parameters.emplace_back(name);
    for (auto const* name : {"a", "b", "c", "d"})
      if (r.one_in(2)) defaults.emplace_back(name);
    for (auto n = r.below(4); n > 0; --n)
      call.named.push_back(std::vector<std::string>{"a", "b", "c", "d", "e", "args"}[r.below(6)]);
    auto const g = taking(parameters, defaults);
    auto const expected = bound_literally(parameters, defaults, call);
    CHECK(find_binding_faults(g, call.positional, call.named).empty() == expected.has_value());
    if (!expected) continue;
    CHECK(bind_arguments(g, call.positional, call.named) == *expected);
    ++bound;
  }
  CHECK(bound > 500);
}
