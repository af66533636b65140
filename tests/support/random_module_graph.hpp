// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

/// Returns a random module_graph: placeholders, tensor and module attributes (some read twice, some dead),
/// and calls of all kinds with nested and keyword operands. Tuples are taken apart, some module paths differ
/// only in `.` and `_`, and the output nests in any way. With `symbols` > 0 it also has shapes in that many
/// symbols, bound early, late or nowhere.
inline module_graph random_module_graph(rng& random, std::size_t calls, std::size_t symbols = 0) {
  using enum node_kind;
  using position = module_graph::position;
  module_graph g;
  std::vector<position> values, tuples;
  std::size_t made = 0;
  auto const add = [&](node_kind kind, std::string target) {
    module_node n;
    n.kind = kind;
    n.name = "n" + std::to_string(made++);
    n.target = std::move(target);
    for (std::size_t i = 0; i < symbols; ++i)
      if (random.one_in(4)) n.symbols.push_back("s" + std::to_string(i));
    if (symbols > 0 && random.one_in(3)) n.symbols = {n.binds = "s" + std::to_string(random.below(symbols))};
    return n;
  };
  auto const any = [&] { return values[random.below(values.size())]; };
  auto const operand = [&] {
    module_argument a;
    std::size_t missing = 1;
    while (missing > 0) {
      --missing;
      if (a.size() < 8 && random.one_in(4)) {
        auto const what = static_cast<container::kind>(random.below(3));
        container const c{what, static_cast<std::uint32_t>(random.below(3))};
        if (what == container::kind::dict) {  // keys are text: one key and its value
          a.push_back(container{what, 1});
          a.push_back(std::string(1, static_cast<char>('a' + random.below(26))));
          ++missing;
          continue;
        }
        a.push_back(c);
        missing += c.size;
      } else if (random.one_in(4)) {
        a.push_back(static_cast<std::int64_t>(random.below(5)));
      } else {
        a.push_back(node_ref{any()});
      }
    }
    return a;
  };

  char const* const modules[] = {"layer.0", "layer_0", "layer", "a.b.c", "submod_0", "linear"};
  char const* const tensors[] = {"w", "blk.w", "blk.b"};
  for (auto const* path : modules) g.add_attribute({path, module_attribute::kind::module, {}, {}, {}, {}});
  for (auto const* path : tensors) g.add_attribute({path, module_attribute::kind::tensor, {}, {}, {}, {}});
  for (auto inputs = 1 + random.below(3); inputs-- > 0;)
    values.push_back(g.add(add(placeholder, "p" + std::to_string(made))));
  for (auto reads = random.below(4); reads-- > 0;)
    values.push_back(
        g.add(add(get_attr, random.one_in(3) ? modules[random.below(6)] : tensors[random.below(3)])));

  char const* const functions[] = {"f", "g", "add", "CamelCase", "sum", "f_3", "aten.mul"};
  for (std::size_t i = 0; i < calls; ++i) {
    if (!tuples.empty() && random.one_in(3)) {
      auto item = add(call_function, "getitem");
      item.args = {node_argument(tuples[random.below(tuples.size())]),
                   {static_cast<std::int64_t>(random.below(2))}};
      values.push_back(g.add(std::move(item)));
      continue;
    }
    bool const pair = random.one_in(6);
    auto n = pair               ? add(call_function, "tup2")
             : random.one_in(3) ? add(call_module, modules[random.below(6)])
             : random.one_in(4) ? add(call_method, "__add__")
                                : add(call_function, functions[random.below(7)]);
    for (auto args = 1 + random.below(3); args-- > 0;) n.args.push_back(operand());
    if (random.one_in(4)) n.kwargs = {{"zeta", operand()}, {"alpha", operand()}};
    auto const at = g.add(std::move(n));
    values.push_back(at);
    if (pair) tuples.push_back(at);
  }
  auto last = add(output, "output");
  last.args = {operand()};
  g.add(std::move(last));
  return g;
}

}  // namespace cleave::testing
