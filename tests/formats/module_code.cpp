// SPDX-License-Identifier: MIT
#include "cleave/formats/module_code.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "support/module_nodes.hpp"

using namespace cleave;
using testing::make;
using shape = container::kind;

TEST_CASE("write_module_code: shows each kind of node, with types where they are known") {
  module_graph g;
  auto x = make(node_kind::placeholder, "x", "x");
  x.shape = {{std::int64_t{2}, std::string("n")}};
  x.metadata = {{"dtype", {std::string("float32")}}};
  auto const in = g.add(x);
  auto scale = make(node_kind::placeholder, "scale", "scale");
  scale.default_value = module_argument{1.0};
  g.add(scale);
  auto const w = g.add(make(node_kind::get_attr, "w", "layers.0.weight"));
  auto call = make(node_kind::call_function, "y", "linear", {in, w});
  call.kwargs = {{"bias", {std::monostate()}}, {"p", {0.5}}};
  auto const y = g.add(call);
  auto const view = g.add(make(node_kind::call_method, "v", "t", {y}));
  auto item = make(node_kind::call_function, "first", "operator.getitem", {view});
  item.args.push_back({std::int64_t{0}});
  auto const first = g.add(item);
  auto last = make(node_kind::call_module, "z", "head.a b", {first});
  last.after = {y, first};
  auto const z = g.add(last);
  g.add(make(node_kind::output, "output", "output", {z}));
  CHECK(write_module_code(g) ==
        "def forward(self, x: float32[2, n], scale = 1.0):\n"
        "    w = self.layers[0].weight\n"
        "    y = linear(x, w, bias=None, p=0.5)\n"
        "    v = y.t()\n"
        "    first = v[0]\n"
        "    z = self.head['a b'](first)  # after y\n"
        "    return z\n");
}

TEST_CASE("write_module_code: shows constants and containers of any nesting") {
  module_graph g;
  auto n = make(node_kind::call_function, "", "f");
  n.args = {{container{shape::list, 2}, container{shape::tuple, 1}, true, container{shape::tuple, 0}},
            {container{shape::dict, 2}, std::string("k'"), std::int64_t{-3}, std::string("l"), 1e300},
            {container{shape::slice, 3}, std::monostate(), std::int64_t{2}, std::monostate()},
            {opaque{"dtype", "int8"}}};
  g.add(n);
  CHECK(
      write_module_code(g, "main") ==
      "def main(self):\n    _0 = f([(True,), ()], {'k\\'': -3, 'l': 1e+300}, slice(None, 2, None), int8)\n");

  module_graph deep;
  constexpr std::size_t depth = 100'000;
  auto m = make(node_kind::output, "output", "output");
  m.args = {module_argument(depth, container{shape::list, 1})};
  m.args[0].push_back(false);
  deep.add(m);
  CHECK(write_module_code(deep).size() ==
        std::string("def forward(self):\n    return False\n").size() + 2 * depth);
  CHECK(write_module_code({}) == "def forward(self):\n    pass\n");
}

TEST_CASE("write_module_code: shows a split graph and its stages, at any depth of modules") {
  module_graph g;
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const f = g.add(make(node_kind::call_function, "f", "f", {x}));
  g.add(make(node_kind::call_function, "cut", "pipe_split"));
  auto const h = g.add(make(node_kind::call_function, "h", "h", {f}));
  g.add(make(node_kind::output, "output", "output", {h}));
  CHECK(write_module_code(make_module_pipe(g).outer, "pipe") ==
        "def pipe(self, x):\n"
        "    stage_0 = self.stage_0(x)\n"
        "    stage_1 = self.stage_1(stage_0)\n"
        "    return stage_1\n"
        "\n"
        "def stage_0(self, x):\n"
        "    f = f(x)\n"
        "    return f\n"
        "\n"
        "def stage_1(self, f):\n"
        "    h = h(f)\n"
        "    return h\n");

  module_graph nested;
  for (int i = 0; i < 3; ++i) {
    module_graph outer;
    outer.add_attribute({"m", module_attribute::kind::module, {}, {}, {}, {}});
    outer.add_attribute({"n", module_attribute::kind::module, {}, {std::move(nested)}, {}, {}});
    nested = std::move(outer);
  }
  CHECK(write_module_code(nested) ==
        "def forward(self):\n    pass\n\ndef n(self):\n    pass\n\ndef n.n(self):\n    pass\n\ndef "
        "n.n.n(self):\n    pass\n");
}
