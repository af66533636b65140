// SPDX-License-Identifier: MIT
#include "cleave/partition/named/hierarchical_cut.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("cut_tree: follows paths whole or word by word and returns the first path that ends there") {
  testing::rng random(5);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> paths;
    for (auto n = 1 + random.below(6); n-- > 0;) {
      std::string p;
      for (auto words = 1 + random.below(4); words-- > 0;)
        p += (p.empty() ? "" : ".") + std::string(random.below(3), static_cast<char>('a' + random.below(2)));
      paths.push_back(p);
    }
    cut_tree tree;
    for (std::uint32_t i = 0; i < paths.size(); ++i) tree.add(paths[i], i);
    for (std::uint32_t i = 0; i < paths.size(); ++i) {
      auto const at = tree.follow(0, paths[i]);
      REQUIRE(at != cut_tree::nowhere);
      std::uint32_t first = 0;
      while (paths[first] != paths[i]) ++first;
      CHECK(tree.cut(at) == first);
      bool below = false;
      for (auto const& p : paths) below = below || p.starts_with(paths[i] + ".");
      CHECK(tree.has_below(at) == below);
      if (auto const dot = paths[i].find('.'); dot != std::string::npos)
        CHECK(tree.follow(tree.follow(0, paths[i].substr(0, dot)), paths[i].substr(dot + 1)) == at);
      CHECK(tree.follow(0, paths[i] + ".zzz") == cut_tree::nowhere);
    }
  }
}

TEST_CASE("cut_tree: a place in the middle of a path has no cut") {
  cut_tree tree;
  tree.add("a.b.c", 0);
  auto const at = tree.follow(0, "a.b");
  CHECK(tree.cut(at) == none<std::uint32_t>);
  CHECK(tree.has_below(at));
  CHECK_FALSE(tree.has_below(tree.follow(at, "c")));
}
