// SPDX-License-Identifier: MIT
#include "cleave/analysis/with_backward.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "support/linear_gradients.hpp"
#include "support/linear_stages.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

using testing::linear_gradients, testing::linear_stages, testing::linear_value, testing::whole_number;
using all_gradients = std::map<std::uint32_t, std::vector<whole_number>>;
constexpr backward_options return_gradients{.inputs = input_gradients::returned};

/// The gradients of stages and of inputs that a root with a backward pass gives. Whoever drops a node gets
/// nothing where the node has nothing to lose.
std::optional<all_gradients> run(linear_stages const& stages, std::uint32_t loss, module_graph const& g,
                                 module_graph::position dropped = none<module_graph::position>) {
  linear_gradients meaning(stages, loss);
  meaning.dropped = dropped;
  std::vector<linear_value> inputs;
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t v = 0; v < stages.root().values(); ++v)
    if (stages.root().kind[v] == root_kind::input) {
      inputs.push_back(meaning.input(v));
      numbers.push_back(v);
    }
  auto const given = evaluate(g, inputs, meaning);
  auto all = meaning.received;
  auto const& gradients = given.items.at(1).items;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    linear_gradients::flatten(gradients[i], stages.shape(numbers[i]), all[numbers[i]]);
  if (dropped != none<module_graph::position> && !meaning.dropped_any) return std::nullopt;
  return all;
}

/// Drops what nothing reaches.
all_gradients reached(all_gradients all) {
  std::erase_if(all, [](auto const& entry) {
    return std::ranges::all_of(entry.second, [](whole_number n) { return n == 0; });
  });
  return all;
}

TEST_CASE("with_backward: the root with its backward pass gives what reverse mode on the whole gives") {
  testing::rng random(15);
  for (int i = 0; i < 300; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(10));
    linear_stages const stages(root);
    auto const g = with_backward(testing::root_graph(root, loss), loss, return_gradients);
    CHECK(reached(*run(stages, loss, g)) == reached(stages.whole_gradients(loss)));
  }
}

TEST_CASE("with_backward: with any one gradient gone the result is another") {
  testing::rng random(16);
  std::size_t dropped = 0;
  for (int i = 0; i < 120; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(8));
    linear_stages const stages(root);
    auto const g = with_backward(testing::root_graph(root, loss), loss, return_gradients);
    auto const right = run(stages, loss, g);
    for (auto n = static_cast<module_graph::position>(root.values()); n + 1 < g.list().size(); ++n) {
      if (g[n].target == "stage_backward") continue;
      auto const wrong = run(stages, loss, g, n);
      dropped += wrong.has_value();
      if (wrong) CHECK_MESSAGE(wrong != right, g[n].name << " is for nothing");
    }
  }
  CHECK(dropped > 200);
}

module_node node(node_kind kind, std::string const& target, std::vector<module_argument> args) {
  module_node n;
  n.kind = kind;
  n.name = n.target = target;
  n.args = std::move(args);
  return n;
}

/// x → s0; an element of it → s1, which is returned.
module_graph small_root(std::int64_t element) {
  using enum node_kind;
  module_graph g;
  g.metadata = {{"kept", {std::int64_t{1}}}};
  g.add_attribute({"s0", module_attribute::kind::module, {}, {}, {}, {}});
  auto const x = g.add(node(placeholder, "x", {}));
  auto const s0 = g.add(node(call_module, "s0", {node_argument(x)}));
  auto const item = g.add(node(call_function, "getitem", {node_argument(s0), {element}}));
  auto const s1 = g.add(node(call_module, "s1", {node_argument(item), {0.5}}));
  g.add(node(output, "output", {tuple_argument({s1})}));
  return g;
}

TEST_CASE("with_backward: what was there stays, names are new, and the output comes last") {
  auto const root = small_root(1);
  auto const g = with_backward(root, 3);
  REQUIRE(g.list().size() == 9);
  for (module_graph::position n = 0; n < 4; ++n) CHECK(g[n] == root[n]);
  CHECK(g[4].name == "stage_backward");
  CHECK(g[5].name == "getitem_1");
  module_argument const outputs{container{container::kind::tuple, 2}, token(), node_ref{2}};
  module_argument const gradients{container{container::kind::tuple, 2}, token(), node_ref{5}};
  CHECK(g[6].kwargs[0] == keyword_argument{"stage_output", outputs});
  CHECK(g[6].kwargs[1] == keyword_argument{"output_grads", gradients});
  CHECK(g[*g.output()] == root[*root.output()]);
  CHECK(g.find_attribute("s0"));
  CHECK(g.metadata == root.metadata);
}

TEST_CASE("with_backward: the output becomes a pair where gradients of inputs are returned") {
  auto const g = with_backward(small_root(0), 3, return_gradients);
  module_argument const pair{container{container::kind::tuple, 2}, container{container::kind::tuple, 1},
                             node_ref{3}, container{container::kind::tuple, 1}, node_ref{7}};
  CHECK(g[*g.output()].args == std::vector<module_argument>{pair});
  CHECK(g[7].args[0] == node_argument(6));
}

TEST_CASE("with_backward: a tuple input that is taken apart and used whole has one gradient") {
  using enum node_kind;
  module_graph g;
  auto const x = g.add(node(placeholder, "x", {}));
  auto const item = g.add(node(call_function, "getitem", {node_argument(x), {std::int64_t{1}}}));
  auto const s0 = g.add(node(call_module, "s0", {node_argument(x)}));
  auto const s1 = g.add(node(call_module, "s1", {node_argument(s0), node_argument(item)}));
  g.add(node(output, "output", {node_argument(s1)}));
  auto const made = with_backward(g, s1, return_gradients);
  auto const& sum = made[*made.output() - 1];
  CHECK(sum.target == "null_coalesce_accumulate");
  CHECK(sum.args[1].size() == 3);
  CHECK(made[*made.output()].args.front().back() == token(node_ref{*made.output() - 1}));
}

TEST_CASE("with_backward: what is no root is refused by the name of the node") {
  using enum root_fault::kind;
  auto const refused = [](module_graph const& g, root_fault const& fault, std::string const& name) {
    try {
      with_backward(g, 3);
      FAIL("accepted");
    } catch (backward_error const& e) {
      CHECK(e.witness == fault);
      CHECK(std::string(e.what()).find("'" + name + "'") != std::string::npos);
    }
  };
  refused(small_root(-1), {malformed_element, 2}, "getitem");
  refused(small_root(1 << 20), {wide_element, 2, 1 << 20}, "getitem");

  auto function = small_root(0);
  function.add(node(node_kind::call_function, "add", {node_argument(3)}));
  refused(function, {work_between_stages, 5}, "add");
  auto method = small_root(0);
  method.add(node(node_kind::call_method, "view", {node_argument(3)}));
  refused(method, {work_between_stages, 5}, "view");
  auto three = small_root(0);
  three.add(node(node_kind::call_function, "getitem", {node_argument(3), {std::int64_t{0}}, {token()}}));
  refused(three, {malformed_element, 5}, "getitem");
  auto taken = small_root(0);
  taken.add(node(node_kind::call_function, "getitem", {node_argument(3), {std::int64_t{0}}}));
  refused(taken, {loss_is_tuple, 3, 5}, "s1");
  CHECK_THROWS_AS(with_backward(small_root(0), 17), backward_error);
}

}  // namespace
