// SPDX-License-Identifier: MIT
// Cuts a model at the gradient buckets of data-parallel training (DDP) and compiles each piece, so that no
// fused kernel spans two buckets. A fake compiler stands in for yours; equal layers are compiled once, and
// what it refuses is interpreted.
#include <cleave/cleave.hpp>
#include <cleave/draw.hpp>
#include <cleave/modules.hpp>
#include <iostream>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

using cleave::module_attribute, cleave::module_graph, cleave::module_node;

/// A chain of blocks, each with a weight of 4 MiB, and a head that shares the weight of the embedding.
module_graph make_model(int blocks) {
  module_graph g;
  auto const attribute = [&](std::string const& path, module_attribute::kind kind, std::string storage = {}) {
    g.add_attribute({path, kind, std::move(storage), {}, {}, {}});
  };
  auto const node = [&](cleave::node_kind kind, std::string const& target,
                        std::vector<module_graph::position> reads) {
    module_node n;
    n.kind = kind;
    n.name = n.target = target;
    for (auto const v : reads) n.args.push_back(cleave::node_argument(v));
    return g.add(std::move(n));
  };
  using enum cleave::node_kind;
  auto const layer = [&](std::string const& path, module_graph::position x, std::string storage = {}) {
    attribute(path, module_attribute::kind::module);
    attribute(path + ".weight", module_attribute::kind::parameter, std::move(storage));
    return node(call_module, path, {x});
  };
  auto x = layer("embed", node(placeholder, "tokens", {}), "vocabulary");
  for (int i = 0; i < blocks; ++i) {
    auto const n = std::to_string(i);
    auto const y = layer("block" + n, x);
    module_node add;
    add.name = "add" + n;
    add.target = "add";
    add.args = {cleave::node_argument(x), cleave::node_argument(y)};
    x = g.add(std::move(add));
  }
  node(output, "output", {layer("head", x, "vocabulary")});
  return g;
}

/// The name of a block determines its function.
struct by_class : cleave::piece_keys {
  std::string attribute(module_attribute const& a) const {
    return a.original.substr(0, a.original.find_first_of("0123456789"));
  }
};

/// Evaluates with numbers as values: a module adds its weight, found by its path.
using values = std::vector<long>;
long const weight = 3;

struct numbers {
  long constant(cleave::token const&) { return 0; }
  long collect(cleave::container const&, std::span<long const> elements) { return elements.back(); }
  long attribute(module_graph const&, module_graph::position) { return 0; }
  long call(module_graph const& g, module_graph::position n, std::span<long const> args,
            std::span<long const>) {
    if (g[n].kind == cleave::node_kind::call_module) return args[0] + weight;
    long sum = 0;
    for (auto const x : args) sum += x;
    return sum;
  }
};

int main() {
  using namespace cleave::literals;
  auto const g = make_model(6);

  // [buckets]
  auto const parameters = cleave::parameters_of(g, [](auto const&) { return 4_MiB; });
  auto const cut = cleave::split_at_buckets(g, parameters, {.caps = {.cap = 8_MiB}});
  std::cout << cleave::bucket_table(report_of(cut.buckets)) << '\n';

  auto const alike = cleave::isomorphic_pieces(*cut.split, by_class());
  auto const compile = [](cleave::compile_request<long> const& piece) {
    std::cout << "compiling " << piece.path << ": " << piece.reason << '\n';
    if (piece.graph.find_attribute("head")) throw std::runtime_error("no kernel for head");
    return [g = piece.graph](std::span<long const> args, std::span<std::string const> /*weights*/) {
      numbers meaning;
      return values{evaluate(g, values(args.begin(), args.end()), meaning)};
    };
  };
  auto compiled = cleave::compile_on_first_call<long>(*cut.split, compile, alike,
                                                      {.on_failure = cleave::compile_failure::split_again});
  // [buckets]

  numbers meaning;
  auto const split_result = compiled(values{1}, meaning);
  for (auto const& slice : compiled.report(3))
    if (slice.state == cleave::piece_state::interpreted)
      std::cout << slice.path << " is interpreted: " << slice.failure << '\n';
  std::cout << "whole " << evaluate(g, values{1}, meaning) << ", in pieces " << split_result << '\n';

  auto const time = [](module_graph::position) { return 1.0; };  // time of each node in the backward pass
  cleave::link_speed const link{.bandwidth = 3_MiB, .latency = 0.5};
  auto const finish = [&](auto const& buckets) {
    return bucket_times_of(cleave::loads_of(buckets, time), link).finish;
  };
  auto const best = cleave::fill_optimal_buckets(g, parameters, time, link);
  std::cout << "sent after " << finish(cut.buckets) << " with " << cut.buckets.size() << " buckets, after "
            << finish(best) << " with the best " << best.size() << '\n';
}

// It prints:
//
//   ┌─────────┬────────────┬───────────────┐
//   │   Index │   Size (b) │ Param Names   │
//   ├─────────┼────────────┼───────────────┤
//   │       0 │    4194304 │ block5_weight │
//   ├─────────┼────────────┼───────────────┤
//   │       1 │    8388608 │ block4_weight │
//   ├─────────┼────────────┼───────────────┤
//   │         │            │ block3_weight │
//   ├─────────┼────────────┼───────────────┤
//   │       2 │    8388608 │ block2_weight │
//   ├─────────┼────────────┼───────────────┤
//   │         │            │ block1_weight │
//   ├─────────┼────────────┼───────────────┤
//   │       3 │    8388608 │ block0_weight │
//   ├─────────┼────────────┼───────────────┤
//   │         │            │ embed_weight  │
//   └─────────┴────────────┴───────────────┘
//   compiling submod_0: gradient bucket of 8388608 bytes: block0_weight, embed_weight
//   compiling submod_1: gradient bucket of 8388608 bytes: block2_weight, block1_weight
//   compiling submod_3: gradient bucket of 4194304 bytes: block5_weight
//   compiling submod_3[0:1]: half of 'submod_3', which the compiler refused: no kernel for head
//   compiling submod_3[1:3]: half of 'submod_3', which the compiler refused: no kernel for head
//   compiling submod_3[1:2]: half of 'submod_3[1:3]', which the compiler refused: no kernel for head
//   compiling submod_3[2:3]: half of 'submod_3[1:3]', which the compiler refused: no kernel for head
//   submod_3[2:3] is interpreted: no kernel for head
//   whole 448, in pieces 448
//   sent after 17.3333 with 4 buckets, after 16.6667 with the best 7
