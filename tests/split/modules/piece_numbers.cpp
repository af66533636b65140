// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_hierarchy.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using numbers = std::vector<std::vector<std::uint32_t>>;

namespace {

module_attribute module_of(std::string const& path, module_graph const* body = nullptr) {
  module_attribute a{path, module_attribute::kind::module, {}, {}, {}, {}};
  if (body) a.body.push_back(*body);
  return a;
}

module_graph row(std::vector<module_attribute> const& modules) {
  module_graph g;
  for (auto const& m : modules) {
    module_node n;
    n.kind = node_kind::call_module;
    n.name = n.target = m.path;
    g.add(std::move(n));
    if (!g.find_attribute(m.path)) g.add_attribute(m);
  }
  return g;
}

}  // namespace

TEST_CASE("piece_numbers: numbers levels in the order of the cuts that they contain") {
  auto const blocks = row({module_of("a"), module_of("b"), module_of("c")});
  auto const g = row({module_of("encoder", &blocks), module_of("mid"), module_of("decoder", &blocks)});
  CHECK(piece_numbers(cut_modules(g, {"encoder.a", "decoder.a", "decoder.b"}))[0] ==
        std::vector<std::uint32_t>{0, 2});
  CHECK(piece_numbers(cut_modules(g, {"decoder.a", "decoder.b", "encoder.a"}))[0] ==
        std::vector<std::uint32_t>{3, 0});
}

TEST_CASE("piece_numbers: continues the numbers inside a level, and renumbers a level that is called twice") {
  auto const inner = row({module_of("a"), module_of("b")});
  auto const outer = row({module_of("inner", &inner), module_of("z")});
  auto const g = row({module_of("first", &inner), module_of("outer", &outer), module_of("first", &inner)});
  auto const cut = cut_modules(g, {"first.a", "outer.inner.a"});
  REQUIRE(cut.levels.size() == 4);
  auto const got = piece_numbers(cut);
  CHECK(got[0] == std::vector<std::uint32_t>{0, 4, 2});
  CHECK(got[2] == std::vector<std::uint32_t>{4});
}
