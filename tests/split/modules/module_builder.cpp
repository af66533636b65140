// SPDX-License-Identifier: MIT
#include "cleave/split/modules/module_builder.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;
using strings = std::vector<std::string>;
using arguments = std::vector<module_argument>;

namespace {

position add(module_graph& g, node_kind kind, std::string name, std::string target,
             std::vector<position> reads = {}, std::vector<position> after = {}) {
  module_node n;
  n.kind = kind;
  n.name = std::move(name);
  n.target = std::move(target);
  for (auto const v : reads) n.args.push_back(node_argument(v));
  n.after = std::move(after);
  return g.add(std::move(n));
}

/// x and w, calls of the modules `a.b` and `a_b`, and a function that must follow both calls.
module_graph whole() {
  module_graph g;
  for (auto const* path : {"a.b", "a_b"})
    g.add_attribute({path, module_attribute::kind::module, {}, {}, {}, {}});
  g.add_attribute({"blk.w", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = add(g, node_kind::placeholder, "x", "x");
  auto const w = add(g, node_kind::get_attr, "weight", "blk.w");
  auto const m = add(g, node_kind::call_module, "first", "a.b", {x, w});
  auto const n = add(g, node_kind::call_module, "second", "a_b", {m});
  add(g, node_kind::call_function, "third", "f", {n, n}, {m, n});
  return g;
}

/// A piece with all nodes of `g`.
module_graph piece_of(module_graph const& g, module_builder_options const& options) {
  module_builder b(g, options);
  std::vector<position> copy(g.list().size());
  auto const lookup = [&](position v) { return copy[v]; };
  copy[0] = b.argument(0, source::input);
  copy[1] = b.argument(1, source::state);
  for (position v = 2; v < copy.size(); ++v) copy[v] = b.clone(v, lookup).front();
  b.result(4, copy[4]);
  return std::move(b).finish();
}

strings names(module_graph const& g) {
  strings list;
  for (auto const& n : g.list()) list.push_back(n.name);
  return list;
}
strings targets(module_graph const& g) {
  strings list;
  for (auto const& n : g.list()) list.push_back(n.target);
  return list;
}

}  // namespace

TEST_CASE("module_builder: names, inputs, paths and results follow the options") {
  auto const g = whole();
  auto const plain = piece_of(g, {});
  CHECK(names(plain) == strings{"x", "blk_w", "a_b", "a_b_1", "f", "output"});
  CHECK(targets(plain) == strings{"x", "blk.w", "a_b", "a_b_1", "f", "output"});
  CHECK(plain[5].args == arguments{node_argument(4)});

  auto const other = piece_of(g, {.nodes = node_naming::original,
                                  .inputs = input_naming::numbered,
                                  .results = result_form::tuple,
                                  .modules = module_paths::original});
  CHECK(names(other) == strings{"arg_0", "blk_w", "first", "second", "third", "output"});
  CHECK(targets(other) == strings{"arg_0", "blk.w", "a.b", "a_b", "f", "output"});
  CHECK(other[5].args == arguments{tuple_argument(std::vector<position>{4})});
}

TEST_CASE("module_builder: registers a colliding path under a new name and records the original one") {
  auto const piece = piece_of(whole(), {});
  strings paths;
  for (auto const& a : piece.attributes()) paths.push_back(a.path + " was " + a.original);
  CHECK(paths == strings{"blk.w was blk.w", "a_b was a.b", "a_b_1 was a_b"});
  CHECK(piece.find_attribute("blk.w")->what == module_attribute::kind::parameter);
}

TEST_CASE("module_builder: gives 16,384 colliding paths distinct names, and reuses them") {
  module_graph g;
  std::size_t const bits = 14;
  strings originals;
  for (std::size_t i = 0; i < std::size_t{1} << bits; ++i) {
    std::string path = "m";
    for (std::size_t b = 0; b < bits; ++b) path += i >> b & 1 ? "_m" : ".m";
    originals.push_back(path);
    g.add_attribute({path, module_attribute::kind::module, {}, {}, {}, {}});
  }
  for (int time = 0; time < 2; ++time)
    for (auto const& path : originals) add(g, node_kind::call_module, "call", path);
  module_builder b(g, {});
  for (position v = 0; v < g.list().size(); ++v) b.clone(v, [](position n) { return n; });
  auto const piece = std::move(b).finish();
  REQUIRE(piece.attributes().size() == originals.size());
  std::size_t as_they_were = 0;
  for (position v = 0; v < g.list().size(); ++v)
    as_they_were += piece.find_attribute(piece[v].target)->original == g[v].target;
  CHECK(as_they_were == g.list().size());
}

TEST_CASE("module_builder: copies record their origin, read copies and follow nodes of the same piece") {
  auto const g = whole();
  auto const piece = piece_of(g, {});
  for (position v = 0; v < 5; ++v) CHECK(piece[v].from == v);
  CHECK(piece[5].from == none<position>);
  CHECK(piece[4].after == std::vector<position>{2, 3});

  module_builder b(g, {});
  auto const second = b.argument(3, source::node);
  auto const third = b.clone(4, [&](position) { return second; }).front();
  auto const part = std::move(b).finish();
  CHECK(part[second].kind == node_kind::placeholder);
  CHECK(part[second].name == "second");
  CHECK(part[second].args.empty());
  CHECK(part[third].args == arguments{node_argument(second), node_argument(second)});
  CHECK(part[2].args == arguments{tuple_argument(std::vector<position>())});
}

TEST_CASE("module_builder: name_by_target names one node by its target while others keep their names") {
  auto const g = whole();
  module_builder b(g, {.nodes = node_naming::original});
  b.name_by_target(4);
  auto const second = b.argument(3, source::node);
  auto const lookup = [&](position) { return second; };
  b.clone(4, lookup);
  b.clone(3, lookup);
  CHECK(names(std::move(b).finish()) == strings{"second", "f", "second_1", "output"});
}

TEST_CASE("find_missing_target: returns the first call or attribute whose target is not registered") {
  auto g = whole();
  CHECK(!find_missing_target(g));
  CHECK(!find_missing_target(module_graph()));
  add(g, node_kind::call_function, "call", "nothing.of.this.name");
  CHECK(!find_missing_target(g));
  auto const lost = add(g, node_kind::call_module, "lost", "a.c");
  add(g, node_kind::get_attr, "later", "a.d");
  CHECK(find_missing_target(g) == lost);
  CHECK(std::string(missing_target_error(g, lost).what()) ==
        "node 'lost': nothing is registered under its target 'a.c'");
}
