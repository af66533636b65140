// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/module_buckets.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "support/model.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using testing::model;
using enum parameter_counting;

/// `node:name=bytes …` of all counted parameters.
std::string told(model const& m, parameter_counting rule) {
  auto const at = module_parameter_counter(m.g, m.parameters).count(rule);
  std::string all;
  for (module_graph::position n = 0; n < at.size(); ++n)
    for (auto const& c : at[n])
      all += (all.empty() ? "" : " ") + m.g[n].target + ":" + c.name + "=" + std::to_string(c.bytes);
  return all;
}

}  // namespace

TEST_CASE("module_parameter_counter: counts a module called twice at its first or last call, or twice") {
  model m;
  m.module("lin", {m.parameter({.bytes = 10}), m.parameter({.bytes = 2})});
  auto const x = m.placeholder("x");
  m.give({m.call("lin", {m.function("f", {m.call("lin", {x})})})});
  CHECK(told(m, each_once) == "lin:lin_p0=10 lin:lin_p1=2");
  CHECK(told(m, torch_2_15) == "lin:lin_p0=10 lin:lin_p1=2");
  CHECK(told(m, torch_2_3) == "lin:lin_p0=10 lin:lin_p1=2 lin:lin_p0=10 lin:lin_p1=2");
  module_parameter_counter first(m.g, m.parameters), last(m.g, m.parameters);
  CHECK(first.count(each_once)[1].size() == 2);
  CHECK(last.count(torch_2_15)[3].size() == 2);
}

TEST_CASE("module_parameter_counter: counts a tied weight at its first use, or at every use") {
  model m;
  auto const w = m.parameter({.bytes = 100});
  m.module("emb", {w});
  m.module("head", {w});
  m.give({m.call("head", {m.call("emb", {m.placeholder("x")})})});
  CHECK(told(m, each_once) == "emb:emb_p0=100");
  CHECK(told(m, torch_2_15) == "emb:emb_p0=100 head:head_p0=100");
}

TEST_CASE(
    "module_parameter_counter: counts shared memory once or per parameter, a view by bytes or storage") {
  model m;
  m.module("a", {m.parameter({.bytes = 100, .storage = "s"})});
  m.module("b", {m.parameter({.bytes = 100, .storage = "s"})});
  m.module("view", {m.parameter({.bytes = 10, .storage_bytes = 4000})});
  auto const x = m.placeholder("x");
  m.give({m.call("view", {m.call("b", {m.call("a", {x})})})});
  CHECK(told(m, each_once) == "a:a_p0=100 view:view_p0=10");
  CHECK(told(m, torch_2_15) == "a:a_p0=100 b:b_p0=100 view:view_p0=4000");
}

TEST_CASE(
    "module_parameter_counter: skips frozen and ignored parameters; only torch_2_3 counts plain tensors") {
  model m;
  m.module("lin", {m.parameter({.bytes = 1, .trained = false}), m.parameter({.bytes = 2, .ignored = true}),
                   m.parameter({.bytes = 4})});
  auto const c = m.attribute("c", m.parameter({.bytes = 8, .plain = true}));
  m.give({m.function("f", {m.call("lin", {m.placeholder("x")}), c})});
  CHECK(told(m, each_once) == "lin:lin_p2=4");
  CHECK(told(m, torch_2_15) == "lin:lin_p2=4");
  CHECK(told(m, torch_2_3) == "c:c=8 lin:lin_p2=4");
}

TEST_CASE("module_parameter_counter: inputs count in any argument, but only in direct ones for torch_2_15") {
  model m;
  auto const x = m.placeholder("x");
  auto const w = m.placeholder("w", m.parameter({.bytes = 10}));
  auto const b = m.placeholder("b", m.parameter({.bytes = 20}));
  auto const k = m.placeholder("k", m.parameter({.bytes = 40}));
  module_node n;
  n.name = "n";
  n.target = "linear";
  n.args = {node_argument(x), node_argument(w), node_argument(w), tuple_argument({b})};
  n.kwargs = {{"key", node_argument(k)}};
  auto const linear = m.g.add(std::move(n));
  m.give({m.method("add", {linear, w})});
  CHECK(told(m, each_once) == "linear:w=10 linear:b=20 linear:k=40");
  CHECK(told(m, torch_2_15) == "linear:w=10 linear:w=10");
  CHECK(told(m, torch_2_3).empty());
}

TEST_CASE(
    "module_parameter_counter: attributes count at their first reader, or in place for PyTorch's rules") {
  model m;
  auto const w = m.attribute("blk.w", m.parameter({.bytes = 10}));
  auto const x = m.placeholder("x");
  m.give({m.function("mm", {m.function("f", {x}), w})});
  CHECK(told(m, each_once) == "mm:blk.w=10");
  CHECK(told(m, torch_2_15) == "blk.w:blk.w=10");
  CHECK(told(m, torch_2_3) == "blk.w:blk.w=10");
}

TEST_CASE("module_parameter_counter: the receiver of a method counts as a module only for torch_2_15") {
  model m;
  m.module("lin", {m.parameter({.bytes = 10})});
  m.give({m.method("abs", {m.call("lin", {m.placeholder("x")})})});
  CHECK(told(m, each_once) == "lin:lin_p0=10");
  CHECK(told(m, torch_2_15) == "abs:abs_p0=10");
}

TEST_CASE("module_parameter_counter: each_once counts a higher-order body at the call that runs it") {
  model m;
  m.module("body", {m.parameter({.bytes = 10})});
  auto const x = m.placeholder("x");
  auto const body = m.add(node_kind::get_attr, "body", "body", {});
  m.give({m.function("cond", {body, x})});
  CHECK(told(m, each_once) == "cond:body_p0=10");
  CHECK(told(m, torch_2_15).empty());
  CHECK(find_higher_order_body(m.g) == body);
  CHECK(!find_higher_order_body(testing::layers(2, 1).g));
}

TEST_CASE("module_parameter_counter: each_once counts each parameter once, and memory at most its size") {
  testing::rng random(1);
  for (int round = 0; round < 200; ++round) {
    auto const g = testing::random_module_graph(random, random.below(20));
    model_parameters p;
    for (std::size_t i = 0; i < 8; ++i)
      p.list.push_back({.bytes = random.below(10),
                        .storage = random.one_in(2) ? "" : std::to_string(random.below(2)),
                        .ignored = random.one_in(5)});
    auto const any = [&] { return static_cast<std::uint32_t>(random.below(8)); };
    for (auto const& a : g.attributes())
      if (a.what == module_attribute::kind::module)
        p.modules.push_back({a.path, a.path, {{"w", any()}, {"b", any()}}});
      else
        p.attributes.push_back({a.path, any()});
    for (auto const n : g.inputs())
      if (random.one_in(2)) p.placeholders.push_back({g[n].name, any()});

    std::set<std::uint32_t> read;  // by a scan of all nodes
    for (auto const n : g.nodes()) {
      for (auto const& m : p.modules)
        if (g[n].kind == node_kind::call_module && m.path == g[n].target)
          for (auto const& h : m.holds) read.insert(h.parameter);
      for (auto const v : g.operands(n)) {
        for (auto const& m : p.modules)
          if (g[v].kind == node_kind::get_attr && m.path == g[v].target)
            for (auto const& h : m.holds) read.insert(h.parameter);
        for (auto const& a : p.attributes)
          if (g[v].kind == node_kind::get_attr && a.path == g[v].target) read.insert(a.parameter);
        for (auto const& i : p.placeholders)
          if (g[v].kind == node_kind::placeholder && i.path == g[v].name) read.insert(i.parameter);
      }
    }
    std::map<std::string, std::size_t> memory, wanted, counted;
    auto const key = [&](std::uint32_t i) {
      return p.list[i].storage.empty() ? "own " + std::to_string(i) : "s" + p.list[i].storage;
    };
    for (std::uint32_t i = 0; i < 8; ++i) memory[key(i)] = std::max(memory[key(i)], p.list[i].bytes);
    for (auto const i : read)
      if (!p.list[i].ignored) wanted[key(i)] += p.list[i].bytes;
    std::set<std::uint32_t> met;
    for (auto const& list : module_parameter_counter(g, p).count(each_once))
      for (auto const& c : list) {
        CHECK(met.insert(c.parameter).second);
        CHECK(read.contains(c.parameter));
        counted[key(c.parameter)] += c.bytes;
      }
    for (auto const& [name, bytes] : wanted) CHECK(counted[name] == std::min(bytes, memory[name]));
  }
}
