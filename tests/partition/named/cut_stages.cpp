// SPDX-License-Identifier: MIT
#include "cleave/partition/named/hierarchical_cut.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/random_module_tree.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using names = std::vector<std::vector<std::string>>;

/// The stages by plain recursion over the paths.
struct twin {
  std::vector<std::string> const& cuts;
  names stages{{}};

  bool holds(std::string const& path, module_graph const& g) const {
    return std::ranges::any_of(g.nodes(), [&](auto n) {
      auto const full = joined_path(path, g[n].target);
      auto const* a = g.find_attribute(g[n].target);
      if (g[n].kind != node_kind::call_module) return false;
      return std::ranges::find(cuts, full) != cuts.end() ||
             (a && !a->body.empty() && holds(full, a->body.front()));
    });
  }
  void walk(std::string const& path, module_graph const& g) {
    for (auto const n : g.nodes()) {
      auto const full = joined_path(path, g[n].target);
      auto const* a = g[n].kind == node_kind::call_module ? g.find_attribute(g[n].target) : nullptr;
      if (a && !a->body.empty() && holds(full, a->body.front()))
        walk(full, a->body.front());
      else if (g[n].target != "getitem" && g[n].target != "get")
        stages.back().push_back(path + ":" + g[n].name);
      if (a && std::ranges::find(cuts, full) != cuts.end() && !stages.back().empty()) stages.emplace_back();
    }
  }
};

}  // namespace

TEST_CASE("stages_of: equals a recursive walk on random module trees") {
  testing::rng random(31);
  std::size_t several = 0;
  for (int round = 0; round < 1000; ++round) {
    testing::random_module_tree tree(random, 6, 1 + random.below(4));
    auto const cuts = tree.cuts();
    auto const cut = cut_modules(tree.root, cuts);
    twin expected{cuts};
    expected.walk("", tree.root);
    if (expected.stages.back().empty()) expected.stages.pop_back();
    names got;
    for (auto const& stage : stages_of(cut)) {
      got.emplace_back();
      for (auto const& run : stage) got.back().push_back(label(cut, run));
    }
    CHECK(got == expected.stages);
    several += got.size() > 2;
  }
  CHECK(several > 200);
}
