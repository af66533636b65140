// SPDX-License-Identifier: MIT
#include "cleave/split/modules/outline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using position = module_graph::position;
using texts = std::vector<std::string>;

/// Tied state is one value under all its names.
struct tied_interpretation : integer_interpretation {
  value attribute(module_graph const& g, position n) const {
    auto const* a = g.find_attribute(g[n].target);
    if (a && !a->storage.empty()) return value::computed(fnv("storage:" + a->storage));
    return integer_interpretation::attribute(g, n);
  }
};

integer_value value_of(module_graph const& g) {
  std::vector<integer_value> inputs;
  for (std::size_t i = 0; i < g.inputs().size(); ++i) inputs.push_back(integer_value::computed(fold(7, i)));
  tied_interpretation meaning;
  return evaluate(g, inputs, meaning);
}

module_argument calls(texts const& list) {
  module_argument a{container{container::kind::list, static_cast<std::uint32_t>(list.size())}};
  for (auto const& call : list) a.push_back(call);
  return a;
}

/// Writes a flat graph by hand.
struct flat_graph {
  module_graph g;
  position add(node_kind kind, std::string target, std::vector<position> const& reads = {},
               texts const& inside = {}) {
    module_node n;
    n.kind = kind;
    n.name = target + std::to_string(g.list().size());
    n.target = std::move(target);
    for (auto const v : reads) n.args.push_back(node_argument(v));
    if (!inside.empty()) n.metadata = {{"scope", calls(inside)}};
    return g.add(std::move(n));
  }
  position state(std::string const& path, std::string const& storage = "") {
    name(path, storage);
    return add(node_kind::get_attr, path);
  }
  void name(std::string const& path, std::string const& storage) {
    g.add_attribute({path, module_attribute::kind::parameter, storage, {}, {}, {}});
  }
};

/// The paths that a level registers.
texts paths(module_graph const& g) {
  texts list;
  for (auto const& a : g.attributes()) list.push_back(a.path);
  return list;
}
texts targets(module_graph const& g) {
  texts list;
  for (auto const& n : g.list()) list.push_back(n.target);
  return list;
}
module_graph const& body(module_graph const& g, std::string const& path) {
  auto const* a = g.find_attribute(path);
  REQUIRE(a);
  REQUIRE(a->body.size() == 1);
  return a->body.front();
}

}  // namespace

TEST_CASE("outlined: each call becomes a module that reads its own state") {
  flat_graph f;
  auto const x = f.add(node_kind::placeholder, "x"), w = f.state("a.l.weight"), b = f.state("a.l.bias");
  auto const y = f.add(node_kind::call_function, "linear", {x, w, b}, {"a", "a.l"});
  auto const z = f.add(node_kind::call_function, "relu", {y}, {"a"});
  f.add(node_kind::output, "output", {z});
  auto const tree = outlined(f.g);
  CHECK(targets(tree) == texts{"x", "a", "output"});
  CHECK(targets(body(tree, "a")) == texts{"x0", "l", "relu", "output"});
  CHECK(targets(body(body(tree, "a"), "l")) == texts{"x0", "weight", "bias", "linear", "output"});
  CHECK(body(body(tree, "a"), "l").find_attribute("weight")->original == "a.l.weight");
  CHECK(value_of(tree) == value_of(f.g));
}

TEST_CASE("outlined: a module reads tied state under its own name, and other names stay registered") {
  flat_graph f;
  auto const x = f.add(node_kind::placeholder, "x"), w = f.state("b.weight", "s"), u = f.state("c.weight");
  f.name("a.weight", "s");
  auto const y = f.add(node_kind::call_function, "linear", {x, w, u}, {"a"});
  f.add(node_kind::output, "output", {y});
  auto const tree = outlined(f.g);
  CHECK(targets(tree) == texts{"x", "c.weight", "a", "output"});  // state of another module is passed
  CHECK(paths(tree) == texts{"c.weight", "a", "b.weight"});
  CHECK(targets(body(tree, "a")) == texts{"c.weight2", "x0", "weight", "linear", "output"});
  CHECK(value_of(tree) == value_of(f.g));
}

TEST_CASE("outlined: a module that is called twice holds its state once, under its own name") {
  flat_graph f;
  auto const x = f.add(node_kind::placeholder, "x"), w = f.state("a.weight");
  auto const y = f.add(node_kind::call_function, "linear", {x, w}, {"a"});
  auto const z = f.add(node_kind::call_function, "linear", {y, w}, {"a@1"});
  f.add(node_kind::output, "output", {z});
  auto const tree = outlined(f.g);
  CHECK(targets(tree) == texts{"x", "a.weight", "a", "a@1", "output"});
  CHECK(paths(body(tree, "a")) == texts{"weight"});
  CHECK(paths(body(tree, "a@1")).empty());
  CHECK(tree.find_attribute("a@1")->original == "a");
  CHECK(value_of(tree) == value_of(f.g));
}

TEST_CASE("outlined: an interrupted call becomes two modules, and several results become a list") {
  flat_graph f;
  auto const x = f.add(node_kind::placeholder, "x");
  auto const p = f.add(node_kind::call_function, "p", {x}, {"a"});
  auto const q = f.add(node_kind::call_function, "q", {p}, {"a"});
  auto const r = f.add(node_kind::call_function, "r", {p, q});
  auto const s = f.add(node_kind::call_function, "s", {q, r}, {"a"});
  f.add(node_kind::output, "output", {s});
  auto const tree = outlined(f.g);
  CHECK(targets(tree) == texts{"x", "a", "getitem", "getitem", "r", "a@1", "output"});
  CHECK(value_of(tree) == value_of(f.g));
}

TEST_CASE("outlined: the root reads state in order of first use, or in reverse order") {
  flat_graph f;
  auto const v = f.state("v"), w = f.state("w");
  f.add(node_kind::output, "output", {f.add(node_kind::call_function, "f", {v, w})});
  CHECK(targets(outlined(f.g)) == texts{"v", "w", "f", "output"});
  CHECK(targets(outlined(f.g, {.state = root_state::upstream})) == texts{"w", "v", "f", "output"});
}

TEST_CASE("outlined: the tree computes the same as the flat graph, on random graphs") {
  rng random(9020);
  for (int round = 0; round < 400; ++round) {
    auto const plain = random_module_graph(random, 1 + random.below(25));
    module_graph flat;
    std::vector<std::pair<std::string, std::string>> inside;  // path and call, outermost first
    std::vector<std::string> begun;
    for (auto n : plain.list()) {
      while (!inside.empty() && random.one_in(3)) inside.pop_back();
      while (inside.size() < 4 && random.one_in(3)) {
        auto const path =
            (inside.empty() ? "" : inside.back().first + ".") + "m" + std::to_string(random.below(2));
        auto const number = std::ranges::count(begun, path);
        bool const again = number > 0 && random.one_in(3);  // as if the call had been interrupted
        auto const shown = again ? number - 1 : number;
        inside.emplace_back(path, shown == 0 ? path : path + "@" + std::to_string(shown));
        if (!again) begun.push_back(path);
      }
      texts list;
      for (auto const& [path, call] : inside) list.push_back(call);
      if (module_graph::is_call(n)) n.metadata = {{"scope", calls(list)}};
      flat.add(std::move(n));
    }
    for (auto const& a : plain.attributes()) flat.add_attribute(a);
    CAPTURE(round);
    auto const tree = outlined(flat);
    CHECK(value_of(tree) == value_of(flat));
    std::size_t copied = 0;
    std::vector<module_graph const*> rest{&tree};
    while (!rest.empty()) {
      auto const* g = rest.back();
      rest.pop_back();
      for (auto const n : g->nodes()) copied += !(*g)[n].metadata.empty();
      for (auto const& a : g->attributes())
        if (!a.body.empty()) rest.push_back(&a.body.front());
    }
    CHECK(copied == flat.nodes().size());
  }
}

TEST_CASE("outlined: handles 2,000 nested modules on a small stack") {
  flat_graph f;
  texts inside;
  for (int depth = 0; depth < 2000; ++depth) inside.push_back(inside.empty() ? "m" : inside.back() + ".m");
  auto const x = f.add(node_kind::placeholder, "x");
  f.add(node_kind::output, "output", {f.add(node_kind::call_function, "f", {x}, inside)});
  on_small_stack([&] { CHECK(value_of(outlined(f.g)) == value_of(f.g)); });
}
