// SPDX-License-Identifier: MIT
#include "cleave/backward/with_loss.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "cleave/backward/loss.hpp"
#include "cleave/graph/interpreter.hpp"
#include "support/integer_interpretation.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

module_graph::position add(module_graph& g, node_kind kind, std::string const& target,
                           std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = target;
  n.args = std::move(args);
  return g.add(std::move(n));
}

/// loss(y, target) = distance(y, target, scale).
module_graph distance() {
  module_graph g;
  g.add_attribute({"scale", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const y = add(g, node_kind::placeholder, "y");
  auto const target = add(g, node_kind::placeholder, "target");
  auto const scale = add(g, node_kind::get_attr, "scale");
  auto const d = add(g, node_kind::call_function, "distance",
                     {node_argument(y), node_argument(target), node_argument(scale)});
  add(g, node_kind::output, "output", {node_argument(d)});
  return g;
}

/// f(target) = (twice(target), {"scale": scale}).
module_graph model() {
  module_graph g;
  g.add_attribute({"scale", module_attribute::kind::buffer, {}, {}, {}, {}});
  auto const x = add(g, node_kind::placeholder, "target");
  auto const scale = add(g, node_kind::get_attr, "scale");
  auto const twice = add(g, node_kind::call_function, "twice", {node_argument(x), node_argument(scale)});
  add(g, node_kind::output, "output", {{container{container::kind::list, 1}, node_ref{twice}}});
  return g;
}

TEST_CASE("with_loss: the joined graph computes the loss of the program's outputs") {
  using testing::integer_value;
  auto const joined = with_loss(model(), distance());
  testing::integer_interpretation meaning;
  auto const x = integer_value::computed(5), t = integer_value::computed(6);
  auto const given = evaluate(joined, std::vector{x, t}, meaning);

  auto const y = evaluate(model(), std::vector{x}, meaning);
  auto renamed = distance();
  module_graph whole;  // the loss alone, with its state at the paths of the joined graph
  for (auto n : renamed.list()) {
    if (n.kind == node_kind::get_attr) n.target = "loss.scale";
    whole.add(std::move(n));
  }
  CHECK(given == evaluate(whole, std::vector{y.items->front(), t}, meaning));
}

TEST_CASE("with_loss: the program keeps its names, and its only output is the loss") {
  auto const joined = with_loss(model(), distance(), {.prefix = "criterion"});
  REQUIRE(joined.inputs().size() == 2);
  CHECK(joined[0].target == "target");
  CHECK(joined[1].target == "target_1");
  CHECK(joined.find_attribute("scale")->what == module_attribute::kind::buffer);
  CHECK(joined.find_attribute("criterion.scale")->what == module_attribute::kind::parameter);
  auto const loss = loss_of(joined, sole_output());
  REQUIRE(loss);
  CHECK(joined[*loss].target == "distance");
}

TEST_CASE("with_loss: accepts a program without inputs and one that returns its input") {
  module_graph constant;
  auto const c = add(constant, node_kind::call_function, "make");
  add(constant, node_kind::output, "output", {node_argument(c)});
  CHECK(with_loss(constant, distance()).inputs().size() == 1);

  module_graph identity;
  auto const x = add(identity, node_kind::placeholder, "x");
  add(identity, node_kind::output, "output", {node_argument(x)});
  auto const joined = with_loss(identity, distance());
  CHECK(joined[*loss_of(joined, sole_output())].args[0] == node_argument(0));
}

TEST_CASE("with_loss: rejects graphs that cannot be joined and says why") {
  using enum with_loss_fault::kind;
  auto const refused = [](module_graph const& program, module_graph const& loss, with_loss_fault const& fault,
                          std::string const& said) {
    CHECK(find_with_loss_fault(program, loss) == fault);
    try {
      with_loss(program, loss);
      FAIL("accepted");
    } catch (with_loss_error const& e) {
      CHECK(e.witness == fault);
      CHECK(std::string(e.what()).find(said) != std::string::npos);
    }
  };
  refused(module_graph(), distance(), {no_output, {}, 0}, "no output");
  refused(model(), module_graph(), {no_loss, {}, 0}, "no output");
  module_graph three;
  auto const x = add(three, node_kind::placeholder, "x");
  add(three, node_kind::output, "output", {tuple_argument({x, x, x})});
  refused(three, distance(), {few_inputs, {}, 3}, "3 values");
  auto taken = model();
  taken.add_attribute({"loss.scale", module_attribute::kind::parameter, {}, {}, {}, {}});
  refused(taken, distance(), {taken_path, "loss.scale", 0}, "'loss.scale'");
  CHECK(find_with_loss_fault(taken, distance(), {.prefix = "other"}) == std::nullopt);
}

}  // namespace
