// SPDX-License-Identifier: MIT
#include "cleave/backward/with_backward.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "support/linear_gradients.hpp"
#include "support/linear_stages.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using testing::linear_gradients, testing::linear_stages, testing::linear_value, testing::whole_number;
using all_gradients = std::map<std::uint32_t, std::vector<whole_number>>;
constexpr backward_options return_gradients{.inputs = input_gradients::returned};

/// Returns the gradients of stages and inputs that a root with a backward pass computes. Returns nothing if
/// the node `dropped` has no gradient to lose.
std::optional<all_gradients> run(linear_stages const& stages, std::uint32_t loss, module_graph const& g,
                                 module_graph::position dropped = none<module_graph::position>,
                                 std::set<testing::value_shape const*> const& dicts = {}) {
  linear_gradients meaning(stages, loss);
  meaning.dicts = dicts;
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

/// Removes values that no gradient reaches.
all_gradients reached(all_gradients all) {
  std::erase_if(all, [](auto const& entry) {
    return std::ranges::all_of(entry.second, [](whole_number n) { return n == 0; });
  });
  return all;
}

TEST_CASE("with_backward: the graph computes the gradients of reverse mode on random roots") {
  testing::rng random(15);
  for (int i = 0; i < 300; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(10));
    linear_stages const stages(root);
    auto const g = with_backward(testing::root_graph(root, loss), loss, return_gradients);
    CHECK(reached(*run(stages, loss, g)) == reached(stages.whole_gradients(loss)));
  }
}

TEST_CASE("with_backward: every added gradient node affects the result") {
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

/// Changes how `g`, the graph of `stages`, reads elements: dicts by text, tuples from either end. Adds the
/// dicts to `dicts`.
module_graph with_keys(testing::rng& random, linear_stages const& stages, module_graph const& g,
                       std::set<testing::value_shape const*>& dicts) {
  std::set<testing::value_shape const*> met;
  module_graph made;
  for (module_graph::position n = 0; n < g.list().size(); ++n) {
    auto node = g[n];
    if (node.target == "getitem") {
      auto const& whole = stages.shape(stages.root().reads[n].front());
      auto const i = stages.root().element[n];
      if (met.insert(&whole).second && random.one_in(2)) dicts.insert(&whole);
      auto const size = static_cast<std::int64_t>(whole.elements.size());
      if (dicts.contains(&whole))
        node.args[1] = {"k" + std::to_string(i)};
      else if (random.one_in(2))
        node.args[1] = {std::int64_t{i} - size};
    }
    made.add(std::move(node));
  }
  return made;
}

TEST_CASE("with_backward: elements that are read by text or negative index have their own gradients") {
  testing::rng random(17);
  std::size_t parts = 0, reads = 0;
  for (int i = 0; i < 400; ++i) {
    auto const [root, loss] = testing::random_root(random, 1 + random.below(10));
    linear_stages const stages(root);
    std::set<testing::value_shape const*> dicts;
    auto const keyed = with_keys(random, stages, testing::root_graph(root, loss), dicts);
    auto const g = with_backward(keyed, loss, return_gradients);
    for (auto const& n : g.list()) parts += n.target == "element_gradient";
    for (auto const& n : keyed.list()) reads += n.target == "getitem";
    CHECK(reached(*run(stages, loss, g, none<module_graph::position>, dicts)) ==
          reached(stages.whole_gradients(loss)));
  }
  CHECK(parts > 50);
  CHECK(reads > 1000);
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

TEST_CASE("with_backward: keeps the nodes of the root, gives new nodes new names and puts the output last") {
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

TEST_CASE("with_backward: the output becomes a pair if gradients of inputs are returned") {
  auto const g = with_backward(small_root(0), 3, return_gradients);
  module_argument const pair{container{container::kind::tuple, 2}, container{container::kind::tuple, 1},
                             node_ref{3}, container{container::kind::tuple, 1}, node_ref{7}};
  CHECK(g[*g.output()].args == std::vector<module_argument>{pair});
  CHECK(g[7].args[0] == node_argument(6));
}

TEST_CASE("with_backward: a tuple input that is read whole and by element has one gradient") {
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

/// x → s0; three elements of it → s1, which is returned.
module_graph root_of_keys(std::vector<token> const& keys, module_graph::position of) {
  using enum node_kind;
  module_graph g;
  auto const x = g.add(node(placeholder, "x", {}));
  g.add(node(call_module, "s0", {node_argument(x)}));
  std::vector<module_argument> read;
  for (auto const& key : keys) {
    read.push_back(node_argument(g.add(node(call_function, "getitem", {node_argument(of), {key}}))));
  }
  auto const s1 = g.add(node(call_module, "s1", read));
  g.add(node(output, "output", {node_argument(s1)}));
  return g;
}

TEST_CASE("with_backward: lists elements with text or negative keys after those with a number") {
  auto const g = with_backward(root_of_keys({token("loss"), token(std::int64_t{1}), token("loss")}, 1), 5);
  auto const tuple = [](std::uint32_t width) { return token(container{container::kind::tuple, width}); };
  // stage_backward of s1 is node 6; its inputs' gradients are 7, 8, 9, and 10 is the sum of 7 and 9.
  CHECK(g[10].target == "null_coalesce_accumulate");
  CHECK(g[11].kwargs[0].value == module_argument{tuple(3), token(), node_ref{3}, node_ref{2}});
  CHECK(g[11].kwargs[1].value == module_argument{tuple(3), token(), node_ref{8}, node_ref{10}});

  auto const h = with_backward(root_of_keys({token(std::int64_t{-1}), token(std::int64_t{0})}, 1), 4);
  CHECK(h[8].kwargs[0].value == module_argument{tuple(2), node_ref{3}, node_ref{2}});
  CHECK(h[8].kwargs[1].value == module_argument{tuple(2), node_ref{7}, node_ref{6}});
}

TEST_CASE("with_backward: the gradient of an input read by text or negative index has the input's form") {
  auto const g = with_backward(root_of_keys({token("a"), token("b")}, 0), 4, return_gradients);
  auto const end = *g.output();
  CHECK(g[end - 3].target == "element_gradient");
  CHECK(g[end - 3].args == std::vector<module_argument>{node_argument(0), {"a"}, node_argument(6)});
  CHECK(g[end - 2].args == std::vector<module_argument>{node_argument(0), {"b"}, node_argument(7)});
  CHECK(g[end - 1].args == std::vector<module_argument>{node_argument(end - 3), node_argument(end - 2)});
  CHECK(g[end].args.front().back() == token(node_ref{end - 1}));

  auto const mixed = root_of_keys({token(std::int64_t{-1}), token(std::int64_t{1})}, 0);
  auto const h = with_backward(mixed, 4, return_gradients);
  auto const& sum = h[*h.output() - 1];
  CHECK(sum.args[0] == module_argument{container{container::kind::tuple, 2}, token(), node_ref{7}});
  CHECK(sum.args[1] == node_argument(*h.output() - 2));
}

TEST_CASE("with_backward: rejects an invalid root and names the node") {
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
  refused(small_root(1 << 20), {wide_element, 2, 1 << 20}, "getitem");

  auto function = small_root(0);
  function.add(node(node_kind::call_function, "add", {node_argument(3)}));
  refused(function, {work_between_stages, 5}, "add");
  auto method = small_root(0);
  method.add(node(node_kind::call_method, "view", {node_argument(3)}));
  refused(method, {work_between_stages, 5}, "view");
  auto none_read = small_root(0);
  none_read.add(node(node_kind::call_function, "getitem", {node_argument(3), {token()}}));
  refused(none_read, {malformed_element, 5}, "getitem");
  auto three = small_root(0);
  three.add(node(node_kind::call_function, "getitem", {node_argument(3), {std::int64_t{0}}, {token()}}));
  refused(three, {malformed_element, 5}, "getitem");
  auto taken = small_root(0);
  taken.add(node(node_kind::call_function, "getitem", {node_argument(3), {std::int64_t{0}}}));
  refused(taken, {loss_is_tuple, 3, 5}, "s1");
  CHECK_THROWS_AS(with_backward(small_root(0), 17), backward_error);
}

}  // namespace
