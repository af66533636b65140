// SPDX-License-Identifier: MIT
#include "cleave/backward/backward_graph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/backward/weight_cut.hpp"
#include "support/archetype.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A minimal model of backward_pass: opaque handles and single-pass ranges.
class bare_pass {
 public:
  bare_pass() = default;
  bare_pass(bare_pass const&) = delete;
  bare_pass& operator=(bare_pass const&) = delete;
  archetype::once<archetype::node> outputs() const { return some({5}); }
  archetype::once<archetype::node> inputs() const { return some({7}); }
  archetype::once<archetype::node> parameters() const { return some({8, 9}); }
  archetype::once<next_gradient<archetype::node>> next(archetype::node n) const {
    if (n != archetype::node(5)) return archetype::once<next_gradient<archetype::node>>({});
    return archetype::once<next_gradient<archetype::node>>(
        {{archetype::node(7), 1}, {std::nullopt, 0}, {archetype::node(8), 0}});
  }

 private:
  static archetype::once<archetype::node> some(std::vector<int> const& numbers) {
    std::vector<archetype::node> nodes;
    for (int const i : numbers) nodes.emplace_back(i);
    return archetype::once<archetype::node>(nodes);
  }
};
static_assert(backward_pass<bare_pass>);
static_assert(!sized_backward_pass<bare_pass> && !weighted_backward_pass<bare_pass> &&
              !named_backward_pass<bare_pass>);

/// Nodes as an autograd stores them: objects with pointers to the next nodes.
struct function {
  std::string name;
  std::vector<function const*> next;
  std::size_t bytes = 0;
};
struct recorded {
  std::vector<function const*> ends, given, trained;
  std::vector<function const*> const& outputs() const { return ends; }
  std::vector<function const*> const& inputs() const { return given; }
  std::vector<function const*> const& parameters() const { return trained; }
  std::vector<next_gradient<function const*>> next(function const* f) const {
    std::vector<next_gradient<function const*>> edges;
    for (auto const* to : f->next)
      edges.push_back({to ? std::optional(to) : std::nullopt, to ? std::uint32_t{2} : 0});
    return edges;
  }
  std::size_t bytes(function const* f) const { return f->bytes; }
  double cost(function const* f, std::size_t i) const { return static_cast<double>(10 * f->bytes + i); }
  std::string_view name(function const* f) const { return f->name; }
};
static_assert(sized_backward_pass<recorded> && weighted_backward_pass<recorded> &&
              named_backward_pass<recorded>);

using node_list = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("backward_snapshot_of: requires only backward_pass and leaves absent sizes and costs empty") {
  auto const s = backward_snapshot_of(bare_pass{});
  CHECK(s.nodes() == 4);
  CHECK(s.node[0] == archetype::node(5));
  CHECK(s.node.find(archetype::node(9)) == 3);
  CHECK(s.next[0][0] == gradient_edge<std::uint32_t>{1, 1});
  CHECK(s.next[0][1].to == none<std::uint32_t>);
  CHECK(s.outputs == node_list{0});
  CHECK(s.inputs == node_list{1});
  CHECK(s.parameters == node_list{2, 3});
  CHECK(s.bytes.empty());
  CHECK(s.cost.empty());
  CHECK(s.label(0) == "#0");
  CHECK(weight_cut_of(s).groups.size() == 1);
}

TEST_CASE("backward_snapshot_of: numbers nodes breadth-first from outputs and keeps sizes, costs and names") {
  function const x{"x", {}, 1}, w{"w", {}, 2}, v{"v", {}, 3}, idle{"idle", {}, 4};
  function const inner{"Mm", {&x, &w}, 5}, outer{"Addmm", {nullptr, &inner, &v}, 6};
  auto const s = backward_snapshot_of(recorded{{&outer, &inner}, {&x}, {&v, &w, &idle}});
  CHECK(s.node.handles() == std::vector<function const*>{&outer, &inner, &v, &x, &w, &idle});
  CHECK(s.outputs == node_list{0, 1});
  CHECK(s.parameters == node_list{2, 4, 5});
  CHECK(s.bytes == std::vector<std::size_t>{6, 5, 3, 1, 2, 4});
  CHECK(s.cost == std::vector<double>{60, 61, 62, 50, 51});
  CHECK(s.next[0][1] == gradient_edge<std::uint32_t>{1, 2});
  CHECK(s.label(1) == "Mm (#1)");
}
