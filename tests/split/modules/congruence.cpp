// SPDX-License-Identifier: MIT
#include "cleave/split/modules/compile_pieces.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/split/modules/split_buckets.hpp"
#include "support/model.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using testing::layers;
using ids = std::vector<std::uint32_t>;

/// Modules are equal if their paths without the last number are.
struct by_class : piece_keys {
  std::string attribute(module_attribute const& a) const {
    auto const& path = a.original.empty() ? a.path : a.original;
    return path.substr(0, path.rfind('.'));
  }
};

split_module_result layer_pieces(testing::model const& m, std::size_t bytes) {
  return *split_at_buckets(m.g, m.parameters, {.caps = {.cap = bytes}}).split;
}

split_module_result pieces_of(module_graph const& g, std::map<std::string, std::string> const& part) {
  return split_module(g, [&](module_node const& n) { return part.at(n.name); });
}

/// Returns whether two graphs are equal node by node up to names, with attributes in one-to-one
/// correspondence.
bool same(module_graph const& a, module_graph const& b) {
  if (a.list().size() != b.list().size()) return false;
  std::map<std::string, std::string> there, back;
  for (module_graph::position n = 0; n < a.list().size(); ++n) {
    auto const &x = a[n], &y = b[n];
    if (x.kind != y.kind || x.args != y.args || x.kwargs != y.kwargs || x.shape != y.shape ||
        x.binds != y.binds || x.expression != y.expression || x.metadata != y.metadata || x.after != y.after)
      return false;
    bool const named = x.kind == node_kind::call_module || x.kind == node_kind::get_attr;
    bool const call = x.kind == node_kind::call_function || x.kind == node_kind::call_method;
    if (call && x.target != y.target) return false;
    if (!named) continue;
    auto const *p = a.find_attribute(x.target), *q = b.find_attribute(y.target);
    if (p->what != q->what || piece_keys().attribute(*p) != piece_keys().attribute(*q)) return false;
    if (there.emplace(x.target, y.target).first->second != y.target) return false;
    if (back.emplace(y.target, x.target).first->second != x.target) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("isomorphic_pieces: puts equal layers into one class, whatever the names of their weights") {
  auto const m = layers(5, 10);
  auto const pieces = layer_pieces(m, 10);
  auto const found = isomorphic_pieces(pieces, by_class());
  CHECK(found.like == ids{0, 0, 0, 0, 0});
  CHECK(found.classes == 1);
  CHECK(found.holds[3] == std::vector<std::string>{"layers.3"});
}

TEST_CASE("isomorphic_pieces: a module without a graph equals only itself, unless its key says otherwise") {
  auto const m = layers(3, 10);
  CHECK(isomorphic_pieces(layer_pieces(m, 10)).classes == 3);
  testing::model twice;
  twice.module("lin", {});
  auto const x = twice.placeholder("x");
  auto const a = twice.call("lin", {x}), b = twice.call("lin", {a});
  twice.give({b});
  auto const pieces = pieces_of(twice.g, {{twice.g[a].name, "0"}, {twice.g[b].name, "1"}});
  CHECK(isomorphic_pieces(pieces).like == ids{0, 0});
}

TEST_CASE("isomorphic_pieces: compares module bodies at every depth") {
  auto const body = [](std::string const& function) {
    testing::model inner;
    inner.give({inner.function(function, {inner.placeholder("v")})});
    testing::model outer;
    outer.g.add_attribute({"in", module_attribute::kind::module, {}, {inner.g}, {}, {}});
    outer.give({outer.call("in", {outer.placeholder("u")})});
    return outer.g;
  };
  module_graph g;
  std::vector<std::string> const inside{"relu", "relu", "gelu"};
  module_node n;
  n.kind = node_kind::placeholder;
  n.name = n.target = "x";
  auto v = g.add(n);
  std::map<std::string, std::string> part;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    auto const path = "m" + std::to_string(i);
    g.add_attribute({path, module_attribute::kind::module, {}, {body(inside[i])}, {}, {}});
    n.kind = node_kind::call_module;
    n.name = n.target = path;
    n.args = {node_argument(v)};
    v = g.add(n);
    part[path] = std::to_string(i);
  }
  n.kind = node_kind::output;
  n.name = n.target = "output";
  n.args = {node_argument(v)};
  g.add(n);
  CHECK(isomorphic_pieces(pieces_of(g, part)).like == ids{0, 0, 2});
}

TEST_CASE("isomorphic_pieces: distinguishes shapes, operands, keywords, constants, targets and metadata") {
  auto const like_of = [](auto change) {
    testing::model m;
    auto const x = m.placeholder("x"), y = m.placeholder("y");
    std::map<std::string, std::string> part;
    std::vector<module_graph::position> given;
    for (int i = 0; i < 2; ++i) {
      module_node f;
      f.target = "f";
      f.name = "f" + std::to_string(i);
      f.args = {node_argument(x), node_argument(y), {std::int64_t{3}}};
      f.kwargs = {{"k", {1.5}}};
      f.shape = std::vector<dimension>{2, "s"};
      if (i == 1) change(f);
      part[f.name] = std::to_string(i);
      given.push_back(m.g.add(f));
    }
    m.give(given);
    return isomorphic_pieces(pieces_of(m.g, part)).like;
  };
  CHECK(like_of([](module_node&) {}) == ids{0, 0});
  CHECK(like_of([](module_node& n) { std::swap(n.args[0], n.args[1]); }) == ids{0, 0});  // still two inputs
  CHECK(like_of([](module_node& n) { n.args[1] = n.args[0]; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.args[2] = {std::int64_t{4}}; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.args[2] = {3.0}; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.kwargs[0].key = "l"; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.shape->front() = std::int64_t{3}; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.shape->back() = "t"; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.target = "g"; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.kind = node_kind::call_method; }) == ids{0, 1});
  CHECK(like_of([](module_node& n) { n.metadata = {{"dtype", {std::string("f16")}}}; }) == ids{0, 1});
}

TEST_CASE("isomorphic_pieces: two pieces are isomorphic exactly if they are equal node by node") {
  testing::rng random(1);
  std::size_t alike = 0;
  for (int round = 0; round < 300; ++round) {
    testing::model m;  // few choices, so that pieces repeat
    m.module("a", {});
    m.module("b", {});
    std::vector<module_graph::position> values{m.placeholder("x"), m.placeholder("y")};
    std::map<std::string, std::string> part;
    for (auto calls = 4 + random.below(16); calls-- > 0;) {
      auto const recent = [&] { return values[values.size() - 1 - random.below(2)]; };
      std::vector<module_graph::position> operands{recent()};
      if (random.one_in(2)) operands.push_back(recent());
      auto const at = random.one_in(3)   ? m.call(random.one_in(2) ? "a" : "b", operands)
                      : random.one_in(3) ? m.method("f", operands)
                                         : m.function(random.one_in(2) ? "f" : "g", operands);
      part[m.g[at].name] = std::to_string((values.size() - 2) / (round % 2 == 0 ? 1 : 2));
      values.push_back(at);
    }
    m.give({values.back()});
    auto const& g = m.g;
    auto const pieces = pieces_of(g, part);
    auto const found = isomorphic_pieces(pieces);
    for (std::uint32_t i = 0; i < pieces.pieces.size(); ++i) {
      std::uint32_t first = 0;
      while (!same(pieces.graph(pieces.pieces[first]), pieces.graph(pieces.pieces[i]))) ++first;
      CHECK(found.like[i] == first);
      alike += first < i ? 1 : 0;
    }
  }
  CHECK(alike > 100);
}

TEST_CASE("isomorphic_stages: groups stages of any graph that are equal up to renumbering") {
  // three stages x -> a -> b; the last one reads its input twice
  testing::snapshot_builder b;
  auto v = b.input(4);
  for (int i = 0; i < 3; ++i) {
    auto const w = b.state(8);
    auto const a = b.node(1, {v, w}, 4);
    v = i < 2 ? b.node(2, {a, v}, 4) : b.node(2, {a, a}, 4);
  }
  b.output(v);
  auto const s = b.build();
  partition p{{}, 3};
  for (std::uint32_t n = 0; n < 6; ++n) p.of.push_back(part_id{n / 2});
  auto const plan = make_plan(s, p);
  auto const by_weight = [&](std::uint32_t n) { return s.weight[n]; };
  auto const by_bytes = [&](std::uint32_t value) { return s.bytes[value]; };
  auto const found = isomorphic_stages(s, plan, by_weight, by_bytes);
  CHECK(found.like == ids{0, 0, 2});
  CHECK(found.classes == 2);
  auto const all_differ = isomorphic_stages(s, plan, [](std::uint32_t n) { return n; }, by_bytes);
  CHECK(all_differ.classes == 3);
  auto const by_value = isomorphic_stages(s, plan, by_weight, [](std::uint32_t value) { return value; });
  CHECK(by_value.classes == 3);
}

TEST_CASE("class_finder: keeps 2,000 distinct parts apart and matches each with its repetition") {
  class_finder f;  // 2,000 distinct parts, each added twice
  for (int round = 0; round < 2; ++round)
    for (std::uint64_t i = 0; i < 2000; ++i) f.add({i % 7, i * 0x9e3779b97f4a7c15u, i});
  auto const found = std::move(f).finish();
  CHECK(found.classes == 2000);
  for (std::uint32_t i = 0; i < 2000; ++i) CHECK(found.like[2000 + i] == i);
}
