// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/utf8.hpp"
#include "cleave/formats/bytes/registry.hpp"
#include "cleave/graph/module_graph.hpp"
#include "support/nasty_names.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns a constant of any kind: NaN, empty and hostile texts, deep nesting.
inline module_argument any_constant(rng& random) {
  using reals = std::numeric_limits<double>;
  static double const odd[] = {0.0,
                               -0.0,
                               0.1,
                               -1e300,
                               reals::infinity(),
                               -reals::infinity(),
                               reals::quiet_NaN(),
                               -reals::quiet_NaN(),
                               reals::denorm_min()};
  static std::int64_t const whole[] = {0, -1, std::numeric_limits<std::int64_t>::min(),
                                       std::numeric_limits<std::int64_t>::max()};
  static auto const names = nasty_names();
  auto const text = [&] {
    auto const& name = names[random.below(names.size())];
    return is_utf8(name) ? name : std::string();
  };
  module_argument a;
  for (std::size_t missing = 1; missing > 0;) {
    --missing;
    auto const kind = random.below(a.size() < 20 ? 10 : 6);
    if (kind == 0) a.emplace_back();
    if (kind == 1) a.emplace_back(random.one_in(2));
    if (kind == 2) a.emplace_back(whole[random.below(4)]);
    if (kind == 3) a.emplace_back(odd[random.below(9)]);
    if (kind == 4) a.emplace_back(text());
    if (kind == 5) a.emplace_back(opaque{text(), text()});
    if (kind < 6) continue;
    auto const what = static_cast<container::kind>(kind - 6);
    container const c{what, what == container::kind::slice ? 3 : static_cast<std::uint32_t>(random.below(4))};
    a.emplace_back(c);
    missing += elements_of(c);
  }
  return a;
}

inline std::vector<keyword_argument> any_metadata(rng& random) {
  std::vector<keyword_argument> list;
  while (random.one_in(2)) list.push_back({"key " + std::to_string(list.size()), any_constant(random)});
  return list;
}

/// Returns a random_module_graph with every feature of a module_graph: shapes, defaults, orders, metadata,
/// state that shares memory, and bodies nested up to `deepest`.
inline module_graph rich_module_graph(rng& random, std::size_t calls, std::size_t deepest) {
  auto const plain = random_module_graph(random, calls, random.below(3));
  module_graph g;
  for (auto n : plain.list()) {
    auto const at = static_cast<std::uint32_t>(g.list().size());
    if (random.one_in(8)) n.name = any_constant(random).size() > 1 ? "" : "naïve 層";
    if (n.kind == node_kind::placeholder && random.one_in(2)) n.default_value = any_constant(random);
    if (random.one_in(3)) n.shape.emplace();
    while (n.shape && random.one_in(2))
      n.shape->push_back(random.one_in(2) ? dimension(std::int64_t{-1}) : dimension("2*s0"));
    if (random.one_in(6)) n.expression = "s0 + 1";
    for (auto m : g.nodes())
      if (module_graph::is_call(n) && random.one_in(8)) n.after.push_back(m);
    if (random.one_in(3)) n.from = static_cast<std::uint32_t>(random.below(100));
    n.metadata = any_metadata(random);
    if (at > 0 && random.one_in(4)) n.metadata.push_back({"like", node_argument(at - 1)});
    if (module_graph::is_call(n) && random.one_in(4)) n.kwargs.push_back({"constant", any_constant(random)});
    g.add(std::move(n));
  }
  for (auto a : plain.attributes()) {
    if (a.what == module_attribute::kind::tensor)
      a.what = static_cast<module_attribute::kind>(random.below(3));
    if (random.one_in(3)) a.storage = "memory " + std::to_string(random.below(2));
    if (random.one_in(3)) a.original = "whole." + a.path;
    a.metadata = any_metadata(random);
    if (deepest > 0 && a.what == module_attribute::kind::module && random.one_in(3))
      a.body.push_back(rich_module_graph(random, random.below(6), deepest - 1));
    g.add_attribute(std::move(a));
  }
  g.metadata = any_metadata(random);
  return g;
}

/// Returns a registry of all targets that `g` and its bodies call.
inline registry<int> operators_of(module_graph const& g) {
  registry<int> known({"call_function", "call_method", "call_module"});
  std::vector<module_graph const*> rest{&g};
  while (!rest.empty()) {
    auto const& inner = *rest.back();
    rest.pop_back();
    for (auto const& n : inner.list()) {
      auto const kind = std::string(node_kind_names[static_cast<std::size_t>(n.kind)]);
      if (module_graph::is_call(n) && known.find_fault(kind, n.target)) known.add(kind, n.target, 0);
    }
    for (auto const& a : inner.attributes())
      for (auto const& body : a.body) rest.push_back(&body);
  }
  return known;
}

/// Returns a registry that accepts every operator.
inline registry<int> any_operators() {
  registry<int> known({"call_function", "call_method", "call_module"});
  for (auto const* kind : {"call_function", "call_method", "call_module"}) known.add(kind, "", 0);
  return known;
}

}  // namespace cleave::testing
