// SPDX-License-Identifier: MIT
// Measures the time to write a stage as bytes, to verify and to read them, and their number.
//   bench_stage_bytes
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "cleave/formats/bytes/registry.hpp"
#include "cleave/formats/stage_buffer.hpp"
#include "cleave/graph/module_graph.hpp"
#include "measure.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;

/// Optional facts of nodes.
enum class facts { none, shapes_and_scopes };

/// A chain of transformer blocks as in a trace: a matrix, a bias, an addition and a residual each, and each
/// state under its own path.
module_graph transformer(std::size_t nodes, facts kept) {
  module_graph g;
  g.reserve(nodes);
  module_node n;
  auto const add = [&](node_kind kind, std::string target, std::vector<module_argument> args) {
    n.kind = kind;
    n.name = (kind == node_kind::get_attr ? "p_" : target + "_") + std::to_string(g.list().size());
    n.target = std::move(target);
    n.args = std::move(args);
    if (kept == facts::shapes_and_scopes) {
      n.shape = {std::int64_t{8}, std::int64_t{1024}, std::int64_t{1024}};
      n.metadata = {{"dtype", {opaque{"dtype", "float32"}}},
                    {"scope", {"layers." + std::to_string(g.list().size() / 8) + ".mlp"}}};
    }
    return g.add(n);
  };
  using enum node_kind;
  auto x = add(placeholder, "x", {});
  while (g.list().size() + 1 < nodes) {
    auto const path = "layers." + std::to_string(g.list().size() / 4) + ".weight";
    g.add_attribute({path, module_attribute::kind::parameter, {}, {}, {}, {}});
    auto const w = add(get_attr, path, {});
    auto const y = add(call_function, "linear", {node_argument(x), node_argument(w)});
    auto const z = add(call_function, "gelu", {node_argument(y)});
    x = add(call_function, "add", {node_argument(z), node_argument(x)});
  }
  add(output, "output", {tuple_argument({x})});
  return g;
}

registry<int> operators() {
  registry<int> known({"call_function", "call_method", "call_module"});
  for (auto const* name : {"linear", "gelu", "add"}) known.add("call_function", name, 0);
  return known;
}

void row(std::size_t nodes, facts kept) {
  auto const g = transformer(nodes, kept);
  auto const known = operators();
  auto const median = [&](auto f) {
    return bench::repeat(nodes > 200'000 ? 5 : 15, [&] { return bench::seconds(f); }).median * 1e3;
  };
  stage_bytes_limits const limits{.bytes = 1_GiB,
                                  .nodes = 1u << 24,
                                  .attributes = 1u << 24,
                                  .tokens = 1u << 26,
                                  .texts = 1u << 24,
                                  .text_bytes = 1_GiB};
  auto const bytes = write_stage_bytes(g, limits);
  auto const write = median([&] { write_stage_bytes(g, limits); });
  auto const verify = median([&] { find_stage_bytes_fault(std::span(bytes), known, limits); });
  auto const read = bench::repeat(nodes > 200'000 ? 5 : 15,
                                  [&] {
                                    module_graph back;
                                    auto const took = bench::seconds(
                                        [&] { back = read_stage_bytes(std::span(bytes), known, limits); });
                                    if (back.list().size() != g.list().size()) std::exit(1);
                                    return took;
                                  })
                        .median *
                    1e3;
  std::printf("| %zu | %s | %.1f | %.1f | %.1f | %.1f |\n", g.list().size(),
              kept == facts::none ? "names, arguments" : "and shapes, metadata",
              static_cast<double>(bytes.size()) / 1e6, write, verify, read);
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf(
      "| nodes | with | MB | write, ms | verify, ms | verify and read, ms |\n|---|---|---|---|---|---|\n");
  for (std::size_t const nodes : {1'000u, 10'000u, 100'000u, 1'000'000u}) row(nodes, facts::none);
  for (std::size_t const nodes : {1'000u, 10'000u, 100'000u, 1'000'000u})
    row(nodes, facts::shapes_and_scopes);
}
