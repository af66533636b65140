// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_by_tags.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "support/integer_interpretation.hpp"
#include "support/module_nodes.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::node;
using position = module_graph::position;
using strings = std::vector<std::string>;

namespace {

/// f(x, w), then g(w, f); f, g and w are returned.
module_graph shared_attribute() {
  module_graph g;
  g.add_attribute({"blk.w", module_attribute::kind::tensor, {}, {}, {}, {}});
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto attribute = node(node_kind::get_attr, "w");
  attribute.target = "blk.w";
  auto const w = g.add(attribute);
  auto const f = g.add(node(node_kind::call_function, "f", {node_argument(x), node_argument(w)}));
  auto const h = g.add(node(node_kind::call_function, "g", {node_argument(w), node_argument(f)}));
  g.add(node(node_kind::output, "output", {tuple_argument({f, h, w})}));
  return g;
}

auto by_name(std::map<std::string, std::string> tags) {
  return [tags](module_node const& n) -> std::optional<std::string> {
    auto const found = tags.find(n.name);
    return found == tags.end() ? std::nullopt : std::optional(found->second);
  };
}

strings names(module_graph const& g) {
  strings list;
  for (auto const& n : g.list()) list.push_back(n.name);
  return list;
}

testing::integer_value value_of(module_graph const& g) {
  std::vector<testing::integer_value> given;
  for (auto const n : g.inputs()) given.push_back(testing::integer_value::computed(testing::mix(n + 1)));
  testing::integer_interpretation meaning;
  return evaluate(g, given, meaning);
}

}  // namespace

TEST_CASE("split_by_tags: each piece has its own copy of an attribute, placed at its first use") {
  auto const g = shared_attribute();
  auto const r = split_by_tags(g, by_name({{"f", "p"}, {"g", "q"}}), {"p", "q"});
  CHECK(names(r.graph(r.pieces[0])) == strings{"x", "blk_w", "f", "output"});
  CHECK(names(r.graph(r.pieces[1])) == strings{"blk_w", "f", "g", "output"});
  CHECK(names(r.outer) == strings{"x", "w", "p", "q", "output"});
  CHECK(r.outer.find_attribute("w")->original == "blk.w");
  CHECK(r.pieces[1].dependencies == std::vector<std::uint32_t>{0});
  CHECK(r.qualified_names ==
        std::vector<std::pair<std::string, std::string>>{{"p.blk.w", "blk.w"}, {"q.blk.w", "blk.w"}});
  CHECK(value_of(r.outer) == value_of(g));
}

TEST_CASE("split_by_tags: renames a returned attribute that has the name of a tag") {
  auto const g = shared_attribute();
  auto const r = split_by_tags(g, by_name({{"f", "w"}, {"g", "w"}}), {"w"});
  CHECK(r.outer.find_attribute("w")->what == module_attribute::kind::module);
  CHECK(r.outer.find_attribute("w_")->original == "blk.w");
  CHECK(value_of(r.outer) == value_of(g));
}

TEST_CASE("split_by_tags: orders pieces by the list of tags, and makes an empty piece for an unused tag") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const f = g.add(node(node_kind::call_function, "f", {node_argument(x)}));
  auto const h = g.add(node(node_kind::call_function, "h", {node_argument(x)}));
  g.add(node(node_kind::output, "output", {tuple_argument({f, h})}));
  auto const r = split_by_tags(g, by_name({{"f", "b"}, {"h", "a"}}), {"a", "none", "b"}, result_form::tuple);
  CHECK(r.order == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(names(r.outer) == strings{"x", "a", "getitem", "none", "b", "getitem_1", "output"});
  CHECK(r.graph(r.pieces[1]).list().front().args.front() == tuple_argument({}));
  CHECK(value_of(r.outer) == value_of(g));
}

TEST_CASE("split_by_tags: names a tag that is missing, unlisted, listed twice or listed too late") {
  auto const g = shared_attribute();
  CHECK_THROWS_WITH_AS(split_by_tags(g, by_name({{"f", "p"}}), {"p"}),
                       "the callback returned no part for node 'g' (g)", unassigned_node_error);
  CHECK_THROWS_WITH_AS(
      split_by_tags(g, by_name({{"f", "p"}, {"g", "q"}}), {"p"}),
      "node 'g' has tag 'q', which is not in the list of tags; add it where the node may run", tag_error);
  CHECK_THROWS_WITH_AS(split_by_tags(g, by_name({{"f", "p"}, {"g", "p"}}), {"p", "p"}),
                       "tag 'p' is twice in the list of tags", tag_error);
  try {
    split_by_tags(g, by_name({{"f", "p"}, {"g", "q"}}), {"q", "p"});
    FAIL("no error");
  } catch (tag_order_error const& e) {
    CHECK(e.witness == std::pair<position, position>{2, 3});
    CHECK(std::string(e.what()) == "node 'g' (tag 'q') needs 'f' (tag 'p'), whose tag is listed later");
  }
  module_graph lost;
  lost.add(node(node_kind::get_attr, "nowhere"));
  CHECK_THROWS_AS(split_by_tags(lost, by_name({}), {}), missing_target_error);
}

TEST_CASE("split_by_tags: the order of tags must respect effects that have no value") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const f = g.add(node(node_kind::call_function, "f", {node_argument(x)}));
  auto late = node(node_kind::call_function, "h", {node_argument(x)});
  late.after = {f};
  g.add(late);
  CHECK_THROWS_AS(split_by_tags(g, by_name({{"f", "p"}, {"h", "q"}}), {"q", "p"}), tag_order_error);
  CHECK(split_by_tags(g, by_name({{"f", "p"}, {"h", "q"}}), {"p", "q"}).pieces.size() == 2);
}

TEST_CASE(
    "split_by_tags: the split computes the same as the graph, or names a node whose tag comes too late") {
  testing::rng random(11);
  std::size_t cuts = 0, refused = 0;
  for (int round = 0; round < 2000; ++round) {
    auto const g = testing::random_module_graph(random, 1 + random.below(15));
    strings tags;
    for (auto count = 1 + random.below(5); count-- > 0;) tags.push_back("t" + std::to_string(count));
    std::size_t latest = 0;
    bool const climb = random.one_in(2);
    std::map<std::string, std::string> tag;
    for (auto const n : g.nodes()) {
      auto const at = climb ? latest + random.below(tags.size() - latest) : random.below(tags.size());
      if (climb && random.one_in(3)) latest = at;
      tag[g[n].name] = tags[climb ? latest : at];
    }
    auto const place = [&](position n) { return std::ranges::find(tags, tag[g[n].name]) - tags.begin(); };
    bool legal = true;
    for (auto const n : g.nodes())
      for (auto const v : g.operands(n))
        legal = legal && (!module_graph::is_call(g[v]) || place(v) <= place(n));
    try {
      auto const r = split_by_tags(g, by_name(tag), tags,
                                   random.one_in(2) ? result_form::tuple : result_form::bare_if_single);
      ++cuts;
      CHECK(legal);
      CHECK(value_of(r.outer) == value_of(g));
      REQUIRE(r.pieces.size() == tags.size());
      std::size_t calls = 0;
      for (auto const& piece : r.pieces) {
        calls += piece.nodes.size();
        for (auto const n : piece.nodes) CHECK(tag[g[n].name] == piece.label);
      }
      CHECK(calls == g.nodes().size());
    } catch (tag_order_error const& e) {
      ++refused;
      CHECK_FALSE(legal);
      CHECK(place(e.witness.first) > place(e.witness.second));
    }
  }
  CHECK(cuts > 500);
  CHECK(refused > 100);
}
