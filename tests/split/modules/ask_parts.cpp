// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_module.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using strings = std::vector<std::string>;

namespace {

/// Four calls: enter, f, exit and g.
module_graph bracket() {
  module_graph g;
  auto const add = [&](std::string const& target, std::vector<module_argument> args) {
    module_node n;
    n.name = n.target = target;
    n.args = std::move(args);
    return g.add(std::move(n));
  };
  auto const e = add("_enter_autocast", {});
  add("f", {});
  add("_exit_autocast", {node_argument(e)});
  add("g", {});
  return g;
}

template <class F>
module_parts ask(module_graph const& g, F part_of, asking how = asking::once) {
  auto const marks = module_marks(g, torch_scopes());
  return callback_assigner<F>(g, part_of, marks).ask(attribute_rule::passed, how);
}

}  // namespace

TEST_CASE("callback_assigner: accepts numbers and text as parts, optional or not") {
  auto const g = bracket();
  CHECK(ask(g, [](module_node const&) { return 7; }).label == strings{"7"});
  CHECK(ask(g, [](module_node const& n) { return n.name; }).label.size() == 4);
  CHECK(ask(g, [](module_node const&) { return "a"; }).label == strings{"a"});
  CHECK(ask(g, [](module_node const&) { return std::optional(-2); }).label == strings{"-2"});
  CHECK_THROWS_WITH_AS(
      ask(g, [](module_node const& n) { return n.name == "f" ? std::nullopt : std::optional("a"); }),
      "the callback returned no part for node 'f' (f)", unassigned_node_error);
}

TEST_CASE("callback_assigner: asks once in graph order, or again for marks, open scopes and the end") {
  auto const g = bracket();
  strings asked;
  auto const note = [&](module_node const& n) {
    asked.push_back(n.name.substr(0, 3));
    return 0;
  };
  ask(g, note);
  CHECK(asked == strings{"_en", "f", "_ex", "g"});
  asked.clear();
  ask(g, note, asking::repeated);
  CHECK(asked == strings{"_en", "_en", "_en", "f", "f", "_ex", "_ex", "g", "_en", "f", "_ex", "g"});
}

TEST_CASE("callback_assigner: rejects an answer that changes when asked again") {
  int count = 0;
  CHECK_THROWS_WITH_AS(ask(
                           bracket(), [&](module_node const&) { return count++; }, asking::repeated),
                       "node '_enter_autocast' gets a different part when the callback is called again; the "
                       "answer must depend on the node alone",
                       unstable_answer_error);
}

TEST_CASE("split_module: ascending part numbers are required only in a graph with scopes") {
  auto const g = bracket();
  split_module_options const ascending{.numbers = part_numbers::ascending};
  auto const split = [&](auto f) { return split_module(g, f, ascending).pieces.size(); };
  CHECK(split([](module_node const& n) { return n.name == "g" ? 3 : -1; }) == 2);
  CHECK_THROWS_WITH_AS(split([](module_node const& n) { return n.name == "g" ? 1 : 2; }),
                       "node 'g' is given part '1'; in a graph with scopes, part_numbers::ascending needs "
                       "numbers that do not decrease, and the highest so far is 2",
                       part_number_error);
  CHECK_THROWS_AS(split([](module_node const&) { return -2; }), part_number_error);
  CHECK_THROWS_AS(split([](module_node const&) { return "0"; }), part_number_error);
  module_node n;
  n.name = n.target = "_enter_autocast";
  auto open = g;
  open.add(n);
  CHECK_THROWS_AS(split_module(open, [](module_node const&) { return -2; }, ascending), unpaired_scope_error);
  module_graph plain;
  n.name = n.target = "f";
  plain.add(n);
  CHECK(split_module(plain, [](module_node const&) { return "0"; }, ascending).pieces.size() == 1);
}
