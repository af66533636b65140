// SPDX-License-Identifier: MIT
#include "cleave/split/split.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/slices/balance.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"
#include "support/toy_stages.hpp"

using namespace cleave;

using namespace cleave::detail;
using strings = std::vector<std::string>;

namespace {

partition parts(std::vector<int> const& of) {
  partition p;
  for (int const i : of) {
    p.of.push_back(part_id{static_cast<std::uint32_t>(i)});
    p.parts = std::max(p.parts, static_cast<std::uint32_t>(i + 1));
  }
  return p;
}

std::vector<int> numbers(std::vector<stage_id> const& order) {
  std::vector<int> list;
  for (auto const i : order) list.push_back(static_cast<int>(index(i)));
  return list;
}

/// A random program with several results per node, weights, cheap constants, values that are read twice, and
/// orders without a value.
toy::program random_operators(testing::rng& random, std::size_t ops) {
  toy::program p{{"x", "y"}, {"w", "u"}, {}};
  strings values{"x", "y", "w", "u", "literal"};
  for (std::size_t i = 0; i < ops; ++i) {
    toy::op o{"f" + std::to_string(i), {}, {}};
    o.cheap = random.one_in(6);
    if (!o.cheap || random.one_in(3))
      for (auto reads = 1 + random.below(3); reads-- > 0;)
        o.in.push_back(values[random.below(values.size())]);
    for (auto makes = random.below(3) + (random.one_in(8) ? 0 : 1); makes-- > 0;)
      o.out.push_back("v" + std::to_string(i) + "." + std::to_string(makes));
    if (!p.ops.empty() && random.one_in(5)) o.follows.push_back(p.ops[random.below(p.ops.size())].get());
    values.insert(values.end(), o.out.begin(), o.out.end());
    p.add(std::move(o));
  }
  for (auto gives = 1 + random.below(4); gives-- > 0;)
    p.outputs.push_back(values[random.below(4 + random.below(values.size() - 3))]);
  return p;
}

// A staged graph refers to its graph, so it cannot be made of a temporary one.
template <class Graph>
concept split_by_anybody = requires(Graph g) { split(std::forward<Graph>(g), partition{}); };
static_assert(split_by_anybody<toy::graph const&> && split_by_anybody<toy::graph&>);
static_assert(!split_by_anybody<toy::graph> && !split_by_anybody<toy::graph const>);
using staged_toy = staged_graph<toy::graph, std::uint32_t>;
using toy_snapshot = snapshot<toy::graph, std::uint32_t>;
static_assert(std::is_constructible_v<staged_toy, toy::graph const&, toy_snapshot, plan>);
static_assert(!std::is_constructible_v<staged_toy, toy::graph, toy_snapshot, plan>);

}  // namespace

TEST_CASE("split: lists inputs and state by first use and outputs by production, each once") {
  toy::program p{{"x"}, {"w"}, {"d"}};
  p.add({"f", {"x", "w", "x"}, {"a", "b"}});
  p.add({"g", {"b"}, {"c"}});
  p.add({"h", {"c", "a", "b", "w", "pi"}, {"d"}});
  toy::graph const g(p);
  auto const stages = split(g, parts({0, 0, 1}));
  CHECK(stages.size() == 2);
  CHECK(stages[stage_id{0}].inputs == strings{"x"});
  CHECK(stages[stage_id{0}].state == strings{"w"});
  CHECK(stages[stage_id{0}].outputs == strings{"a", "b", "c"});
  CHECK(stages[stage_id{1}].inputs == strings{"c", "a", "b"});
  CHECK(stages[stage_id{1}].state == strings{"w", "pi"});
  CHECK(stages[stage_id{1}].outputs == strings{"d"});
  CHECK(stages.plan().transfers.size() == 3);

  auto const by_use = split(g, parts({0, 0, 1}), {.outputs = output_order::first_use});
  CHECK(by_use[stage_id{0}].outputs == strings{"c", "a", "b"});
}

TEST_CASE("split: a value read by two later stages leaves its stage once and is sent to both") {
  toy::program p{{"x"}, {}, {"c"}};
  p.add({"f", {"x"}, {"a"}});
  p.add({"g", {"a"}, {"b"}});
  p.add({"h", {"b", "a"}, {"c"}});
  toy::graph const g(p);
  auto const stages = split(g, parts({0, 1, 2}));
  CHECK(stages[stage_id{0}].outputs == strings{"a"});
  auto const& sent = stages.plan().transfers;
  REQUIRE(sent.size() == 3);
  CHECK(sent[0].to == stage_id{1});
  CHECK(sent[1].from == stage_id{1});
  CHECK(sent[2].from == stage_id{0});
  CHECK(sent[2].to == stage_id{2});
}

TEST_CASE("split: orders the stages by the chosen policy") {
  toy::program p{{"x"}, {}, {"d"}};  // a diamond
  p.add({"a", {"x"}, {"a"}});
  p.add({"b", {"a"}, {"b"}});
  p.add({"c", {"a"}, {"c"}});
  p.add({"d", {"b", "c"}, {"d"}});
  toy::graph const diamond(p);
  CHECK(numbers(split(diamond, parts({0, 1, 2, 3})).plan().order) == std::vector{0, 1, 2, 3});
  CHECK(numbers(split(diamond, parts({0, 1, 2, 3}), {.stages = order::fifo}).plan().order) ==
        std::vector{0, 1, 2, 3});
  CHECK(numbers(split(diamond, parts({0, 1, 2, 3}), {.stages = order::upstream}).plan().order) ==
        std::vector{0, 2, 1, 3});

  toy::program q{{"x"}, {}, {"d"}};  // three roots
  q.add({"a", {"x"}, {"a"}});
  q.add({"b", {"x"}, {"b"}});
  q.add({"c", {"x"}, {"c"}});
  q.add({"d", {"a", "b", "c"}, {"d"}});
  toy::graph const roots(q);
  CHECK(numbers(split(roots, parts({0, 1, 2, 3}), {.stages = order::upstream}).plan().order) ==
        std::vector{2, 1, 0, 3});
  auto const by_number = [&](std::vector<std::uint32_t> priority) {
    return numbers(
        split(roots, parts({0, 1, 2, 3}), {.stages = order::priority, .priority = std::move(priority)})
            .plan()
            .order);
  };
  CHECK(by_number({5, 3, 5, 0}) == std::vector{1, 0, 2, 3});
  CHECK(by_number({9, 9, 0}) == std::vector{2, 0, 1, 3});
  CHECK(by_number({}) == std::vector{0, 1, 2, 3});
}

TEST_CASE("split: lists inputs, state and transfers by first use or by definition") {
  toy::program p{{"x", "y"}, {"w", "u"}, {"d"}};
  p.add({"a", {"x"}, {"a"}});
  p.add({"b", {"x"}, {"b"}});
  p.add({"c", {"b", "u", "y", "a", "w"}, {"c"}});
  p.add({"d", {"c", "x"}, {"d"}});
  toy::graph const g(p);
  auto const used = split(g, parts({0, 0, 1, 1}));
  CHECK(used[stage_id{1}].inputs == strings{"b", "y", "a", "x"});
  CHECK(used[stage_id{1}].state == strings{"u", "w"});
  auto const defined = split(g, parts({0, 0, 1, 1}), {.inputs = input_order::definition});
  CHECK(defined[stage_id{1}].inputs == strings{"x", "y", "a", "b"});
  CHECK(defined[stage_id{1}].state == strings{"w", "u"});
  auto const& sent = defined.plan().transfers;
  REQUIRE(sent.size() == 2);
  CHECK(defined.snapshot().value[sent[0].value] == "a");
}

TEST_CASE("split: keeps the order of effects that no value shows, under every policy") {
  toy::program p{{"x"}, {}, {"b"}};
  auto const* write = p.add({"write", {"x"}, {}});
  p.add({"read", {"x"}, {"b"}, 1, false, {write}});
  toy::graph const g(p);
  for (auto policy : {order::program, order::fifo, order::upstream})
    CHECK(numbers(split(g, parts({0, 1}), {.stages = policy}).plan().order) == std::vector{0, 1});
}

TEST_CASE("split: a replicable node is copied to its readers and never sent, unless it reads an input") {
  toy::program p{{"x"}, {"w"}, {"c"}};
  p.add({"one", {"w"}, {"1"}, 1, true});
  p.add({"shape", {"x"}, {"s"}, 1, true});
  p.add({"f", {"x", "1", "s"}, {"a"}});
  p.add({"g", {"a", "1", "s"}, {"c"}});
  toy::graph const g(p);
  auto const stages = split(g, parts({0, 0, 0, 1}));
  CHECK(stages[stage_id{1}].nodes.size() == 2);
  CHECK(stages[stage_id{1}].nodes.front()->name == "one");
  CHECK(stages[stage_id{1}].inputs == strings{"a", "s"});
  CHECK(stages[stage_id{1}].state == strings{"w"});
}

TEST_CASE(
    "split: puts a program of only replicable nodes into one stage, and rejects a partition without parts") {
  toy::program p{{}, {}, {"a"}};
  p.add({"one", {}, {"a"}, 1, true});
  p.add({"two", {"a"}, {"b"}, 1, true});
  toy::graph const g(p);
  auto const stages = split(g, balance(g, 4));
  REQUIRE(stages.size() == 1);
  CHECK(stages[stage_id{0}].nodes.size() == 2);
  CHECK(stages[stage_id{0}].outputs == strings{"a"});
  CHECK_THROWS_WITH_AS(split(g, partition{{no_part, no_part}, 0}),
                       "node one (#0) is not in any of the 0 parts", partition_error);
}

TEST_CASE("split: allows more parts than the index type can number") {
  toy::program p{{"x"}, {}, {"a", "b"}};
  p.add({"f", {"x"}, {"a"}});
  p.add({"g", {"x"}, {"b"}});
  toy::graph const g(p);
  partition cut{{part_id{44}, part_id{299}}, 300};
  auto const narrow = split<std::uint8_t>(g, cut),
             wide = split<std::uint8_t>(g, {{part_id{255}, part_id{255}}, 256});
  CHECK(narrow.size() == 300);
  CHECK(narrow[stage_id{44}].inputs == strings{"x"});
  CHECK(narrow[stage_id{299}].inputs == strings{"x"});
  CHECK(wide[stage_id{255}].inputs == strings{"x"});
}

TEST_CASE("split: a stage receives or copies the companions of each value that it reads from outside") {
  struct accompanied : toy::graph {
    using toy::graph::graph;
    static strings companions(std::string const& v) {
      if (v == "x") return {"a"};
      if (v == "a") return {"b", "one"};
      return {};
    }
  };
  toy::program p{{"x"}, {}, {"c"}};
  p.add({"f", {"x"}, {"a"}});
  p.add({"g", {"a"}, {"b"}});
  p.add({"const", {}, {"one"}, 1, true});
  p.add({"h", {"x", "a"}, {"c"}});
  accompanied const g(p);
  for (auto const outputs : {output_order::production, output_order::first_use}) {
    auto const stages = split(g, parts({0, 0, 0, 1}), {.outputs = outputs});
    CHECK(stages[stage_id{1}].inputs == strings{"x", "a", "b"});  // a is a companion of x, and b of a
    CHECK(stages[stage_id{1}].nodes.size() == 2);
    CHECK(stages[stage_id{0}].outputs == strings{"a", "b"});
  }
}

TEST_CASE("split: names a node without a part and the nodes on a cycle between parts") {
  toy::program p{{"x"}, {}, {"c"}};
  p.add({"f", {"x"}, {"a"}});
  p.add({"g", {"a"}, {"b"}});
  p.add({"h", {"b"}, {"c"}});
  toy::graph const g(p);
  auto const message = [&](partition const& cut) { return testing::error_text([&] { split(g, cut); }); };
  CHECK(message(parts({0, 1, 0})).find("g (#1)") != std::string::npos);
  auto missing = parts({0, 0, 1});
  missing.of[1] = no_part;
  CHECK(message(missing).find("g (#1)") != std::string::npos);
  CHECK(message(parts({0, 0})).find("2") != std::string::npos);
}

TEST_CASE("split: names producer and reader of a value that cannot cross") {
  toy::program p{{"x"}, {}, {"c"}};
  p.add({"make", {"x"}, {"token"}});
  p.add({"other", {"x"}, {"b"}});
  p.add({"use", {"token", "b"}, {"c"}});
  struct tokens : toy::graph {
    using toy::graph::graph;
    static bool portable(std::string const& v) { return v != "token"; }
  };
  tokens const g(p);
  CHECK(split(g, parts({1, 0, 1})).size() == 2);
  try {
    split(g, parts({0, 0, 1}));
    FAIL("no error");
  } catch (partition_error const& e) {
    CHECK(e.witness == std::vector<std::size_t>{0, 2});
    CHECK(std::string(e.what()).find("make (#0) in part 0 makes it, use (#2) in part 1 reads it") !=
          std::string::npos);
  }
}

TEST_CASE("split: stages and rejoined stages compute the same as the whole program") {
  testing::rng random(1);
  std::size_t cuts = 0;
  for (int round = 0; round < 2000; ++round) {
    auto const p = random_operators(random, 1 + random.below(20));
    toy::graph const g(p);
    partition cut{std::vector(g.nodes().size(), part_id{0}), static_cast<std::uint32_t>(1 + random.below(4))};
    for (auto& part : cut.of) part = part_id{static_cast<std::uint32_t>(random.below(cut.parts))};
    if (round % 2 == 0) std::ranges::sort(cut.of);
    plan_options options;
    options.stages =
        std::vector{order::program, order::fifo, order::upstream, order::priority}[random.below(4)];
    for (std::uint32_t i = 0; i < cut.parts; ++i)
      options.priority.push_back(static_cast<std::uint32_t>(random.below(3)));
    if (random.one_in(2)) options.outputs = output_order::first_use;
    if (random.one_in(2)) options.inputs = input_order::definition;
    std::optional<staged_graph<toy::graph>> stages;
    try {
      stages.emplace(split(g, cut, options));
    } catch (error const&) {
      continue;  // the parts form a cycle
    }
    ++cuts;
    std::map<std::string, std::string> const arguments{{"x", "X"}, {"y", "Y"}};
    auto const whole = toy::run(p, arguments);
    auto const staged = toy::run_stages(*stages, arguments);
    for (auto const& v : p.outputs) CHECK(toy::meaning(staged, v) == toy::meaning(whole, v));

    auto const joined = toy::joined_again(*stages);
    auto const again = toy::run(joined, arguments);
    CHECK(joined.outputs == p.outputs);
    for (auto const& v : p.outputs) CHECK(toy::meaning(again, v) == toy::meaning(whole, v));
    strings before, after;
    for (auto const& o : p.ops) before.push_back(o->name);
    for (auto const& o : joined.ops) after.push_back(o->name);
    std::ranges::sort(before);
    std::ranges::sort(after);
    CHECK(before == after);
  }
  CHECK(cuts > 1000);
}
