// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/module_dag.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/formats/graph_files/graph_file.hpp"
#include "cleave/formats/graph_json.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/acyclic/acyclic.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr char page[] = R"({"format": "cleave graph 1",
 "nodes": [
   {"name": "x", "op": "placeholder"},
   {"name": "embed", "operands": ["x"], "cost": 3, "bytes": 4096},
   {"name": "block", "operands": ["embed", "x"], "cost": 12.5, "bytes": 4096},
   {"name": "out", "op": "output", "operands": ["block"]}]})";

/// Inputs, calls with random earlier operands, some repeated, some order-only dependencies, and an output.
std::string random_graph_text(testing::rng& dice) {
  auto const inputs = dice.below(3), calls = 1 + dice.below(9);
  std::string text = R"({"format": "cleave graph 1", "nodes": [)";
  for (std::size_t n = 0; n < inputs; ++n)
    text += R"({"name": "n)" + std::to_string(n) + R"(", "op": "placeholder", "bytes": 7},)";
  for (std::size_t n = inputs; n < inputs + calls; ++n) {
    text += R"({"name": "n)" + std::to_string(n) + R"(", "operands": [)";
    for (std::size_t k = n > 0 ? dice.below(4) : 0; k > 0; --k)
      text += R"("n)" + std::to_string(dice.below(n)) + (k > 1 ? R"(",)" : R"(")");
    text += "]";
    if (n > inputs && dice.one_in(4))
      text += R"(, "after": ["n)" + std::to_string(inputs + dice.below(n - inputs)) + R"("])";
    text += R"(, "cost": )" + std::to_string(dice.below(40)) + "." + std::to_string(25 * dice.below(4));
    if (!dice.one_in(3)) text += R"(, "bytes": )" + std::to_string(dice.below(30));
    text += "},";
  }
  return text + R"({"name": "out", "op": "output", "operands": ["n)" + std::to_string(inputs + calls - 1) +
         R"("]}]})";
}

partition random_parts(testing::rng& dice, std::size_t nodes, std::uint32_t k) {
  partition p{{}, k};
  for (std::size_t n = 0; n < nodes; ++n) p.of.push_back(part_id{static_cast<std::uint32_t>(dice.below(k))});
  return p;
}

}  // namespace

TEST_CASE("cost_dag_of: leaves out the inputs and the output of the graph") {
  auto const d = cost_dag_of(read_graph_json(page));
  CHECK(d.name == std::vector<std::string>{"embed", "block"});
  CHECK(d.work == std::vector<double>{3, 12.5});
  CHECK(d.arcs == std::vector<cost_dag::arc>{{0, 1, 4096}});
  CHECK(d.cost_per_byte == 0);
  CHECK(!d.lacking.any());
  auto const s = snapshot_of_dag(d);
  auto const cut = partition_acyclic(s.graph, 2, {.limits = s.options});
  CHECK(cut.bottleneck == 12.5);
  CHECK(cut.bound == 12.5);
  CHECK(cost_dag_of(read_graph_json(page), 0.5).arc_price() == 0.5);
}

TEST_CASE("cost_dag_of: calls that only follow one another cost no transfer and keep their order") {
  auto const d = cost_dag_of(read_graph_json(R"({"format": "cleave graph 1", "nodes": [
    {"name": "a", "cost": 1, "bytes": 8}, {"name": "b", "cost": 1, "bytes": 8, "after": ["a"]}]})"),
                             1);
  CHECK(d.arcs.empty());
  CHECK(verify_partition(d, {{part_id{0}, part_id{1}}, 2}).bottleneck == 1);
  auto cycle = d;
  cycle.arcs.push_back({1, 0, 1});
  CHECK_THROWS_AS(order_of(cycle), dag_cycle_error);
  CHECK(!verify_partition(cycle, {{part_id{0}, part_id{1}}, 2}).sound());
}

TEST_CASE("cost_dag_of: gives calls and arcs without costs a default and counts them as lacking") {
  auto const bare = read_graph_json(R"({"format": "cleave graph 1", "nodes": [
    {"name": "a"}, {"name": "b", "operands": ["a"]}]})");
  auto const d = cost_dag_of(bare);
  CHECK(d.work == std::vector<double>{1, 1});
  CHECK(d.arcs == std::vector<cost_dag::arc>{{0, 1, 1}});
  CHECK(d.arc_price() == 0);
  CHECK(d.lacking == unpriced{.nodes = 2, .of_nodes = 2, .values = 0, .of_values = 1});
  auto const priced = cost_dag_of(bare, 5);
  CHECK(priced.arcs == std::vector<cost_dag::arc>{{0, 1, 0}});
  CHECK(priced.arc_price() == 5);
  CHECK(priced.lacking == unpriced{.nodes = 2, .of_nodes = 2, .values = 1, .of_values = 1});
  auto const some = cost_dag_of(read_graph_json(R"({"format": "cleave graph 1", "nodes": [
    {"name": "a", "cost": 1}, {"name": "b", "operands": ["a"]}]})"));
  CHECK(some.lacking == unpriced{.nodes = 1, .of_nodes = 2, .values = 0, .of_values = 1});
}

TEST_CASE("cost_dag_of: loads and bounds are those of the module graph, at any cost of a byte") {
  testing::rng dice(1);
  for (std::size_t round = 0; round < testing::cases(80, 300); ++round) {
    auto const text = random_graph_text(dice);
    CAPTURE(text);
    costed_module_graph const g(read_graph_json(text));
    auto const whole = snapshot_of(g);
    auto const k = static_cast<std::uint32_t>(1 + dice.below(4));
    for (double const price : {0.0, 1.0, 0.25}) {
      CAPTURE(price);
      auto const d = cost_dag_of(g, price);
      REQUIRE(d.nodes() == whole.nodes());
      auto const p = random_parts(dice, d.nodes(), k);
      auto const loads = part_loads(whole, p, {price, {}});
      auto const v = verify_partition(d, p);
      for (std::uint32_t s = 0; s < k; ++s) CHECK(v.loads[s] == doctest::Approx(loads[s]));

      auto const slices = balance(whole, k, {.cost_per_byte = price});
      auto const s = snapshot_of_dag(d);
      auto const parts = partition_acyclic(s.graph, k, {.limits = s.options});
      CHECK(parts.bottleneck <= slices.bottleneck * (1 + 1e-12));
      CHECK(parts.bound <= slices.bottleneck * (1 + 1e-12));
      CHECK(slices.bound <= parts.bottleneck * (1 + 1e-12));
      CHECK(parts.bound == doctest::Approx(slices.bound));
      partition in_file{{}, parts.parts};
      for (auto const at : s.position) in_file.of.push_back(parts.of[at]);
      auto const judged = verify_partition(d, in_file);
      CHECK(judged.sound());
      CHECK(judged.bottleneck == doctest::Approx(parts.bottleneck));
    }
  }
}
