// SPDX-License-Identifier: MIT
// Sends a pipe as bytes. The receiver runs it with its own registered kernels and refuses all others.
#include <cleave/bytes.hpp>
#include <cleave/modules.hpp>
#include <cleave/pipe.hpp>
#include <cstddef>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

using cleave::module_graph;
using cleave::node_kind;

/// y = (x + x) * x, cut before the product.
module_graph program() {
  module_graph g;
  auto const add = [&](node_kind kind, std::string name, std::vector<std::uint32_t> const& reads = {}) {
    cleave::module_node n;
    n.kind = kind;
    n.name = n.target = std::move(name);
    for (auto const v : reads) n.args.push_back(cleave::node_argument(v));
    return g.add(std::move(n));
  };
  auto const x = add(node_kind::placeholder, "x");
  auto const sum = add(node_kind::call_function, "add", {x, x});
  add(node_kind::call_function, "pipe_split");
  add(node_kind::output, "output", {add(node_kind::call_function, "mul", {sum, x})});
  return g;
}

// [kernels]
using kernel = double (*)(double, double);

/// Runs calls by the kernels that are registered.
struct host {
  cleave::registry<kernel> kernels{{"call_function"}};

  double constant(cleave::token const&) const { return 0; }
  double collect(cleave::container const&, std::span<double const> elements) const { return elements[0]; }
  double attribute(module_graph const&, module_graph::position) const { return 0; }
  double call(module_graph const& g, module_graph::position n, std::span<double const> args,
              std::span<double const>) const {
    return kernels.at("call_function", g[n].target)(args[0], args[1]);
  }
};
// [kernels]

int main() {
  auto const g = program();
  auto bytes = cleave::write_pipe_bytes(cleave::make_module_pipe(g));

  // [receiver]
  host here;
  here.kernels.add("call_function", "add", [](double a, double b) { return a + b; });
  auto const take = [&] {
    try {
      auto const pipe = cleave::read_pipe_bytes(bytes, here.kernels);
      auto const y = evaluate(pipe.outer, std::vector{3.0}, here);
      std::cout << pipe.paths.size() << " stages give " << y << '\n';
    } catch (cleave::stage_bytes_error const& e) {
      std::cout << e.what() << '\n';
    }
  };
  // [receiver]
  take();
  here.kernels.add("call_function", "mul", [](double a, double b) { return a * b; });
  take();
  bytes.back() ^= std::byte{1};
  take();
  bytes.pop_back();
  take();
}

// It prints:
//
//   bytes of a stage: node 2 'mul' of graph 2: it calls 'mul', which is not registered for 'call_function'; nearest: 'add' (byte 236)
//   2 stages give 18
//   bytes of a stage: the checksum at byte 16 is not that of the version at byte 4 and the bytes from 32 on: they were altered; fetch them again
//   bytes of a stage: byte 8 claims 988 bytes after the header, but there are 987; they are truncated, fetch them again
