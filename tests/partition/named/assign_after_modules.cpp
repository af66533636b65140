// SPDX-License-Identifier: MIT
#include "cleave/partition/named/assign.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/rng.hpp"

namespace {

using cleave::assign_after_modules;
using cleave::part_id;

struct placed_nodes {
  std::vector<std::string> paths;

  std::vector<int> nodes() const {
    std::vector<int> list;
    for (std::size_t n = 0; n < paths.size(); ++n) list.push_back(static_cast<int>(n));
    return list;
  }
  std::vector<int> operands(int) const { return {}; }
  std::string_view path(int n) const { return paths[static_cast<std::size_t>(n)]; }
};

std::vector<std::uint32_t> numbers(cleave::partition const& p) {
  std::vector<std::uint32_t> list;
  for (auto const i : p.of) list.push_back(index(i));
  return list;
}

placed_nodes const net{{"", "stem", "body.0", "body.0.norm", "body.1", "body.1.norm", "head"}};

}  // namespace

TEST_CASE("assign_after_modules: a part ends with the last node of a named module at any depth") {
  CHECK(numbers(assign_after_modules(net, {"body.0"})) == std::vector<std::uint32_t>{0, 0, 0, 0, 1, 1, 1});
  CHECK(numbers(assign_after_modules(net, {"body", "stem"})) ==
        std::vector<std::uint32_t>{0, 0, 1, 1, 1, 1, 2});
  CHECK(numbers(assign_after_modules(net, {"body.1.norm", "body"})) ==
        std::vector<std::uint32_t>{0, 0, 0, 0, 0, 0, 1});
  CHECK(assign_after_modules(net, {"head"}).parts == 1);  // no node follows it
  CHECK(assign_after_modules(net, {}).parts == 1);
  CHECK(assign_after_modules(placed_nodes{}, {}).parts == 0);
}

TEST_CASE("assign_after_modules: cuts random paths exactly after the last node of each named module") {
  cleave::testing::rng r(5);
  for (int round = 0; round < 300; ++round) {
    placed_nodes g;
    for (std::size_t n = 1 + r.below(14); n-- > 0;) {
      std::string path;
      for (auto depth = r.below(4); depth-- > 0;)
        path += (path.empty() ? "" : ".") + std::string(1, static_cast<char>('a' + r.below(3)));
      g.paths.push_back(path);
    }
    std::vector<std::string> cuts;
    for (auto const& path : g.paths)
      if (!path.empty() && r.one_in(3)) cuts.push_back(path.substr(0, path.find('.', r.below(path.size()))));
    auto const p = assign_after_modules(g, cuts);
    for (std::size_t n = 1; n < g.paths.size(); ++n) {
      bool const ends = std::ranges::any_of(cuts, [&](std::string const& cut) {
        auto const in = [&](std::string const& path) { return (path + ".").starts_with(cut + "."); };
        return in(g.paths[n - 1]) &&
               std::none_of(g.paths.begin() + static_cast<std::ptrdiff_t>(n), g.paths.end(), in);
      });
      REQUIRE(index(p.of[n]) - index(p.of[n - 1]) == (ends ? 1u : 0u));
    }
  }
}

TEST_CASE("assign_after_modules: rejects a module without nodes and suggests near names") {
  CHECK_THROWS_WITH_AS(assign_after_modules(net, {"body.3"}),
                       "the graph has no node in module 'body.3'; nearest: 'body.0', 'body.1', 'body'",
                       cleave::detail::module_path_error);
  CHECK_THROWS_AS(assign_after_modules(net, {""}), cleave::detail::module_path_error);
}
