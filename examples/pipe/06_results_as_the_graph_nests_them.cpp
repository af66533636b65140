// SPDX-License-Identifier: MIT
// Converts between the nested result of a graph and nested values. `nested_of` fills the structure of the
// result with the values of a run, as the microbatch functions need it; `argument_of` converts back.
#include <cleave/modules.hpp>
#include <cleave/pipe.hpp>
#include <cstdint>
#include <iostream>
#include <string>
#include <variant>
#include <vector>

using kind = cleave::node_kind;
using form = cleave::container::kind;

int main() {
  // The graph returns {'scores': head, 'losses': (router, 0.5)}.
  cleave::module_graph g;
  auto const add = [&](kind what, std::string const& name, cleave::module_argument const& reads) {
    cleave::module_node n;
    n.kind = what;
    n.name = n.target = name;
    if (!reads.empty()) n.args.push_back(reads);
    return g.add(std::move(n));
  };
  auto const x = add(kind::placeholder, "x", {});
  auto const head = add(kind::call_function, "head", cleave::node_argument(x));
  auto const router = add(kind::call_function, "router", cleave::node_argument(x));
  auto const output = add(kind::output, "output",
                          {cleave::container{form::dict, 2}, "scores", cleave::node_ref{head}, "losses",
                           cleave::container{form::tuple, 2}, cleave::node_ref{router}, 0.5});

  // [fill]
  auto const& result = g[output].args[0];
  for (int microbatch = 0; microbatch < 2; ++microbatch) {
    std::vector<double> const values{0, 10.0 + microbatch, 0.25 * microbatch};  // of each node, from a run
    auto const filled = cleave::nested_of(result, [&](cleave::token const& t) {
      auto const* node = std::get_if<cleave::node_ref>(&t);
      return node ? values[node->node] : std::get<double>(t);
    });
    auto const written = cleave::argument_of(filled, [](double value) { return cleave::token(value); });
    std::cout << argument_text(g, result) << " is " << argument_text(g, written) << ", "
              << filled.leaves().size() << " leaves\n";
  }
  // [fill]

  // [refused]
  cleave::module_argument const rows{cleave::container{form::slice, 3}, std::int64_t{0}, std::int64_t{8},
                                     std::monostate()};
  if (auto const fault = cleave::find_nested_argument_fault(rows)) std::cout << describe(*fault) << '\n';
  // [refused]
}

// It prints:
//
//   {'scores': head, 'losses': (router, 0.500000)} is {'scores': 10.000000, 'losses': (0.000000, 0.500000)}, 3 leaves
//   {'scores': head, 'losses': (router, 0.500000)} is {'scores': 11.000000, 'losses': (0.250000, 0.500000)}, 3 leaves
//   token #0 is a slice; give its bounds as a tuple
