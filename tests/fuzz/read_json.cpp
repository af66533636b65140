// SPDX-License-Identifier: MIT
// Fuzzes JSON, graphs and plans in JSON: each is read and survives a round trip, or is rejected with an
// error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "cleave/core/expects.hpp"
#include "cleave/formats/graph_json.hpp"
#include "cleave/formats/plan_json.hpp"
#include "cleave/split/check_plan.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "cleave/split/split.hpp"
#include "fuzz/unless_refused.hpp"
#include "support/toy_ir.hpp"
#include "support/toy_stages.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::unless_refused;

namespace {

/// Checks that the graph survives a round trip, and can be cut or is rejected.
void check_graph(module_graph const& g) {
  auto const text = write_graph_json(g);
  expects(write_graph_json(read_graph_json(text)) == text, "a graph that comes back");
  auto const third = [](module_node const& n) { return std::to_string(n.name.size() % 3); };
  if (auto const cut = unless_refused([&] { return split_module(g, third); }))
    read_graph_json(write_graph_json(cut->outer));
}

/// Checks that the plan survives a round trip, and that it can be carried out if no fault is found.
void check_plan_of_toy(plan const& p) {
  auto const text = write_plan_json(p);
  expects(read_plan_json(text) == p, "a plan that comes back");
  toy::program program{{"x"}, {"w"}, {"c"}};
  program.add({"f", {"x", "w"}, {"a"}});
  program.add({"g", {"a"}, {"b"}});
  program.add({"h", {"b", "a", "w"}, {"c"}});
  toy::graph const g(program);
  auto s = snapshot_of(g);
  if (find_plan_fault(s, p)) return;
  auto const stages = staged_graph<toy::graph>(g, std::move(s), p);
  auto const whole = toy::run(program, {{"x", "X"}});
  expects(toy::run_stages(stages, {{"x", "X"}}).at("c") == whole.at("c"), "stages that mean the whole");
  expects(toy::run(toy::joined_again(stages), {{"x", "X"}}).at("c") == whole.at("c"), "the whole again");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  if (!unless_refused([&] { return json_document(text).size(); })) return 0;
  if (auto const g = unless_refused([&] { return read_graph_json(text); })) check_graph(*g);
  if (auto const p = unless_refused([&] { return read_plan_json(text); })) check_plan_of_toy(*p);
  return 0;
}
