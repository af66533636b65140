// SPDX-License-Identifier: MIT
#include "cleave/partition/named/hierarchical_cut.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/module_nodes.hpp"
#include "support/random_module_tree.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::node;
using kind = module_cut_fault::kind;

namespace {

module_attribute module_of(std::string const& path, module_graph const* body = nullptr) {
  module_attribute a{path, module_attribute::kind::module, {}, {}, {}, {}};
  if (body) a.body.push_back(*body);
  return a;
}

module_graph row(std::vector<module_attribute> const& modules) {
  module_graph g;
  auto last = g.add(node(node_kind::placeholder, "x"));
  for (auto const& m : modules) {
    last = g.add(node(node_kind::call_module, m.path, {node_argument(last)}));
    if (!g.find_attribute(m.path)) g.add_attribute(m);
  }
  g.add(node(node_kind::output, "output", {node_argument(last)}));
  return g;
}

module_graph model() {
  auto const block = row({module_of("attention"), module_of("mlp")});
  auto const encoder = row({module_of("block.0", &block), module_of("block.1", &block), module_of("norm")});
  auto g = row({module_of("embed"), module_of("encoder", &encoder), module_of("head")});
  g.add_attribute(module_of("spare"));
  return g;
}

}  // namespace

TEST_CASE("cut_modules: returns the levels with cuts, outer ones first, and the calls to cut") {
  auto const g = model();
  auto const cut = cut_modules(g, {"encoder.block.1.attention", "embed", "encoder.block.0"});
  REQUIRE(cut.levels.size() == 3);
  CHECK(cut.levels[0].path.empty());
  CHECK(cut.levels[0].ends == std::vector<module_graph::position>{1});
  CHECK(cut.levels[1].path == "encoder");
  CHECK(cut.levels[1].ends == std::vector<module_graph::position>{1});
  CHECK(cut.levels[2].path == "encoder.block.1");
  CHECK(cut.levels[1].opened == std::vector<std::pair<module_graph::position, std::uint32_t>>{{2, 2}});
  CHECK(cut.levels[1].first_cut == 0);
}

TEST_CASE("cut_modules: cuts any called path of a random tree and enters only levels above a cut") {
  testing::rng random(21);
  for (int round = 0; round < 300; ++round) {
    testing::random_module_tree tree(random, 5, 4);
    auto const cuts = tree.cuts();
    auto const cut = cut_modules(tree.root, cuts);
    std::size_t ends = 0;
    for (auto const& level : cut.levels) {
      bool above = level.path.empty();
      for (auto const& c : cuts) above = above || c.starts_with(level.path + ".");
      CHECK(above);
      CHECK((level.path.empty() || !level.ends.empty() || !level.opened.empty()));
      for (auto const n : level.ends) {
        auto const path = joined_path(level.path, (*level.graph)[n].target);
        CHECK(std::ranges::find(cuts, path) != cuts.end());
        ++ends;
      }
    }
    CHECK(ends > 0);
  }
}

TEST_CASE("find_module_cut_fault: reports each kind of invalid path with its witness") {
  auto const g = model();
  auto const fault = [&](std::vector<std::string> const& cuts) {
    auto const f = find_module_cut_fault(g, cuts);
    REQUIRE(f);
    CHECK_THROWS_AS(cut_modules(g, cuts), module_cut_error);
    return *f;
  };
  CHECK(fault({}).what == kind::no_cuts);
  CHECK(fault({"embed", ""}).what == kind::whole_graph);
  CHECK(fault({"spare"}).what == kind::never_called);

  auto const typo = fault({"embed", "encodr"});
  CHECK(typo.what == kind::unknown);
  CHECK(typo.path == "encodr");
  CHECK(typo.nearest.front() == "encoder");
  CHECK(describe(typo) ==
        "cut 'encodr' does not name a module of the graph; nearest: 'encoder', 'embed', 'head'");
  auto const deep = fault({"encoder.block.7"});
  CHECK(deep.nearest == std::vector<std::string>{"encoder.block.0", "encoder.block.1", "encoder.norm"});
  CHECK(fault({"encoder.block"}).what == kind::unknown);
  CHECK(fault({"encoder.block.0."}).what == kind::unknown);
  CHECK(fault({".embed"}).what == kind::unknown);

  auto const inside = fault({"embed.weight"});
  CHECK(inside.what == kind::inside_opaque);
  CHECK(inside.at == "embed");
  CHECK(fault({"encoder.norm.scale"}).at == "encoder.norm");
}

TEST_CASE("find_module_cut_fault: can refuse cuts inside a module that runs twice") {
  auto const body = row({module_of("a"), module_of("b")});
  auto const g = row({module_of("body", &body), module_of("body", &body)});
  hierarchy_options const strict{.repeated = repeated_runs::refused};
  CHECK_FALSE(find_module_cut_fault(g, {"body.a"}));
  CHECK_FALSE(find_module_cut_fault(g, {"body"}, strict));
  auto const f = find_module_cut_fault(g, {"body", "body.a"}, strict);
  REQUIRE(f);
  CHECK(f->what == kind::repeated);
  CHECK(f->at == "body");
  CHECK(f->path == "body.a");
}

TEST_CASE("find_module_cut_fault: refuses modules called twice at each of 100 levels") {
  auto g = row({module_of("a"), module_of("b")});
  std::string path = "a";
  for (int depth = 0; depth < 100; ++depth) {
    g = row({module_of("m", &g)});
    module_graph twice;
    auto last = twice.add(node(node_kind::placeholder, "x"));
    for (auto const* name : {"m", "m2"}) {
      auto n = node(node_kind::call_module, name, {node_argument(last)});
      n.target = "m";
      last = twice.add(std::move(n));
    }
    twice.add(node(node_kind::output, "output", {node_argument(last)}));
    twice.add_attribute(module_of("m", &g.find_attribute("m")->body.front()));
    g = std::move(twice);
    path = "m." + path;
  }
  auto const f = find_module_cut_fault(g, {path});
  REQUIRE(f);
  CHECK(f->what == kind::too_large);
}
