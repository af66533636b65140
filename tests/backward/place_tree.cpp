// SPDX-License-Identifier: MIT
#include "cleave/backward/stage_root.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "support/linear_stages.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

TEST_CASE("place_tree: values share a place exactly if their paths are equal") {
  testing::rng random(31);
  std::size_t repeated = 0;
  for (int i = 0; i < 300; ++i) {
    auto const root = testing::random_root(random, 1 + random.below(10)).root;
    place_tree const places(root);
    std::vector<std::pair<std::uint32_t, std::vector<std::uint32_t>>> path;
    std::map<std::pair<std::uint32_t, std::vector<std::uint32_t>>, std::uint32_t> known;
    for (std::uint32_t v = 0; v < root.values(); ++v) {
      path.push_back({v, {}});
      if (root.kind[v] == root_kind::element) {
        path[v] = path[root.reads[v].front()];
        path[v].second.push_back(root.element[v]);
      }
      auto const [at, added] = known.emplace(path[v], places.of[v]);
      CHECK(at->second == places.of[v]);
      CHECK(places.base[places.of[v]] == path[v].first);
      if (added) CHECK(places.first[places.of[v]] == v);
      repeated += !added;
    }
    CHECK(known.size() == places.first.size());
  }
  CHECK(repeated > 100);
}

TEST_CASE("place_tree: lists elements by number, in any order of use") {
  stage_root root;
  root.add(root_kind::stage);
  for (std::uint32_t const e : {7u, 2u, 7u, 0u}) root.add(root_kind::element, {0}, e);
  root.add(root_kind::element, {2}, 1);
  place_tree const places(root);
  std::vector<std::uint32_t> listed;
  for (auto const p : places.elements[0]) listed.push_back(root.element[places.first[p]]);
  CHECK(listed == std::vector<std::uint32_t>{0, 2, 7});
  CHECK(places.of[1] == places.of[3]);
  CHECK(places.above[places.of[5]] == places.of[2]);
  CHECK(places.elements[places.of[5]].empty());
}

TEST_CASE("find_tuple_loss: a loss is a tuple if its elements are read, under any of its values") {
  stage_root root;
  root.add(root_kind::stage);
  root.add(root_kind::element, {0}, 3);
  root.add(root_kind::element, {0}, 3);
  root.add(root_kind::element, {2}, 0);
  root.add(root_kind::other);
  place_tree const places(root);
  CHECK(find_tuple_loss(root, places, 1) == root_fault{root_fault::kind::loss_is_tuple, 1, 3});
  CHECK(!find_tuple_loss(root, places, 3));
  CHECK(!find_tuple_loss(root, places, 4));
}

}  // namespace
