// SPDX-License-Identifier: MIT
#include "cleave/backward/loss.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/nested_arguments.hpp"
#include "support/rng.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using argument = module_argument;
using enum loss_fault::kind;

using testing::dict;
using testing::row;

argument node(std::uint32_t n) { return node_argument(n); }
argument text(std::string s) { return {std::move(s)}; }
argument const yes{true}, no{false};

TEST_CASE("search_for_loss: finds the value that the specification marks, at any depth") {
  auto const found = [](argument const& output, argument const& spec) {
    auto const s = search_for_loss(output, spec);
    CHECK(!s.fault);
    CHECK(s.spec == spec);
    return s.node;
  };
  CHECK(found(node(3), yes) == 3u);
  CHECK(found(node(3), no) == std::nullopt);
  CHECK(found(row({node(1), row({node(2), node(3)})}), row({no, row({no, yes})}, container::kind::list)) ==
        3u);
  CHECK(found(row({row({node(1), node(2)}), node(3)}), row({row({no, no}), yes})) == 3u);
  auto const output = dict({{text("y"), node(1)}, {{std::int64_t{7}}, row({node(2), node(4)})}});
  CHECK(found(output, dict({{{std::int64_t{7}}, row({yes, no})}, {text("y"), no}})) == 2u);
}

TEST_CASE("search_for_loss: true matches the only element, at any depth") {
  CHECK(search_for_loss(row({node(4)}), yes).node == 4u);
  CHECK(search_for_loss(dict({{text("l"), row({node(4)})}}), yes).node == 4u);
  CHECK(search_for_loss(row({node(1), row({node(2)})}), row({no, yes})).node == 2u);
  CHECK(search_for_loss(row({node(1), node(2)}), yes).fault == loss_fault{not_a_value, 0, 0, 0});
  CHECK(search_for_loss(row({}), yes).fault == loss_fault{not_a_value, 0, 0, 0});
}

TEST_CASE("search_for_loss: without a specification, the loss is the dict entry with the key 'loss'") {
  auto const output = dict({{text("y"), row({node(1), node(2)})}, {text("loss"), node(3)}});
  auto const s = search_for_loss(output, {token()});
  CHECK(s.node == 3u);
  CHECK(s.spec == dict({{text("y"), no}, {text("loss"), yes}}));
  CHECK(search_for_loss(output, s.spec).node == 3u);
  for (auto const& other : {node(1), row({node(1)}), dict({{text("y"), node(1)}})}) {
    CHECK(!search_for_loss(other, {}).node);
    CHECK(!search_for_loss(other, {}).fault);
  }
  auto const twice = dict({{text("loss"), node(1)}, {text("loss"), node(2)}});
  CHECK(search_for_loss(twice, {}).fault->what == found_twice);
  CHECK(search_for_loss(dict({{text("loss"), {0.5}}}), {}).fault->what == not_a_value);
}

TEST_CASE("search_for_loss: rejects two marks unless the options take the first or both mark one value") {
  auto const output = dict({{text("a"), node(1)}, {text("b"), node(2)}});
  auto const both = dict({{text("b"), yes}, {text("a"), yes}});
  CHECK(search_for_loss(output, both).fault == loss_fault{found_twice, 4, 4, 2});
  CHECK(search_for_loss(output, both, {.several = several_losses::first}).node == 2u);
  CHECK(search_for_loss(row({node(1), node(1)}), row({yes, yes})).node == 1u);
}

TEST_CASE("search_for_loss: an empty or false specification finds no loss, and the options can reject that") {
  for (auto const& spec : {no, argument{token()}, argument()}) {
    CHECK(!search_for_loss(node(1), spec).fault);
    auto const refused = search_for_loss(node(1), spec, {.missing = missing_loss::refuse});
    CHECK(refused.fault == loss_fault{not_found, 0, 0, 0});
  }
}

TEST_CASE("search_for_loss: rejects a specification that does not fit the output, with the place") {
  auto const pair = row({node(1), node(2)});
  auto const named = dict({{text("a"), node(1)}});
  auto const fault = [](argument const& output, argument const& spec) {
    return search_for_loss(output, spec).fault;
  };
  CHECK(fault({}, yes) == loss_fault{no_output, 0, 0, 0});
  CHECK(fault(pair, row({no, no})) == loss_fault{not_found, 0, 0, 0});
  CHECK(fault(row({}), row({})) == loss_fault{not_found, 0, 0, 0});
  CHECK(fault({7.0}, yes) == loss_fault{not_a_value, 0, 0, 0});
  CHECK(fault(node(1), row({yes})) == loss_fault{different_kind, 0, 0, 0});
  CHECK(fault(pair, named) == loss_fault{different_kind, 0, 0, 0});
  CHECK(fault(row({pair, node(1)}), row({named, yes})) == loss_fault{different_kind, 1, 1, 0});
  CHECK(fault(pair, row({yes})) == loss_fault{different_count, 0, 0, 0});
  CHECK(fault(named, dict({{text("b"), yes}})) == loss_fault{different_keys, 0, 0, 0});
  CHECK(fault(named, dict({{text("a"), yes}, {text("b"), no}})) == loss_fault{different_keys, 0, 0, 0});
  CHECK(fault(named, dict({{text("a"), yes}, {text("a"), yes}})) == loss_fault{different_keys, 0, 0, 0});
  CHECK(fault(dict({{{0.5}, node(1)}, {{1.5}, node(2)}}), dict({{{0.5}, yes}, {{1.5}, no}}))->what ==
        different_keys);
  CHECK(fault(pair, {container{container::kind::tuple, 2}, true}) == loss_fault{incomplete, 0, 0, 0});
  CHECK(fault(pair, {true, false}) == loss_fault{incomplete, 0, 0, 0});
  CHECK(fault(pair, row({text("x"), yes})) == loss_fault{unknown_mark, 1, 1, 0});
  CHECK(fault(pair, row({{token()}, yes})) == loss_fault{unknown_mark, 1, 1, 0});
}

/// Values nested in random containers, and a specification that marks some of them.
struct random_output {
  argument output, spec;
  std::vector<std::uint32_t> marked;  // in the order of the specification
};

random_output random_nest(testing::rng& random, int depth, std::uint32_t& next) {
  if (depth == 0 || random.one_in(3)) {
    bool const mark = random.one_in(6);
    random_output leaf{node(next), {mark}, {}};
    if (mark) leaf.marked.push_back(next);
    ++next;
    return leaf;
  }
  bool const named = random.one_in(3);
  random_output nest;
  std::vector<std::pair<argument, argument>> outputs, specs;
  std::vector<argument> output_row, spec_row;
  auto const size = random.below(4);
  for (std::size_t i = 0; i < size; ++i) {
    auto const inside = random_nest(random, depth - 1, next);
    nest.marked.insert(nest.marked.end(), inside.marked.begin(), inside.marked.end());
    outputs.emplace_back(text("k" + std::to_string(i)), inside.output);
    specs.emplace_back(outputs.back().first, inside.spec);
    output_row.push_back(inside.output);
    spec_row.push_back(inside.spec);
  }
  nest.output = named ? dict({outputs.rbegin(), outputs.rend()}) : row(output_row);
  nest.spec = named ? dict(specs) : row(spec_row, container::kind::list);
  return nest;
}

TEST_CASE("search_for_loss: several_losses::first takes the first mark in the order of the specification") {
  testing::rng random(3);
  std::size_t several = 0, nothing = 0;
  for (int i = 0; i < 2000; ++i) {
    std::uint32_t next = 0;
    auto const nest = random_nest(random, 4, next);
    auto const first = search_for_loss(nest.output, nest.spec, {.several = several_losses::first});
    auto const one = search_for_loss(nest.output, nest.spec);
    if (nest.marked.empty()) {
      CHECK((nest.spec == no ? !first.fault : first.fault->what == not_found));
      ++nothing;
    } else {
      CHECK(first.node == nest.marked.front());
      CHECK(one.fault.has_value() == (nest.marked.size() > 1));
      several += nest.marked.size() > 1;
    }
  }
  CHECK(several > 100);
  CHECK(nothing > 100);
}

TEST_CASE("search_for_loss: handles lists nested 100,000 deep on a small stack") {
  testing::on_small_stack([] {
    argument output(100'000, container{container::kind::list, 1}), spec = output;
    output.push_back(node_ref{1});
    spec.push_back(true);
    CHECK(search_for_loss(output, spec).node == 1u);
    CHECK(search_for_loss(output, yes).node == 1u);
  });
}

}  // namespace
