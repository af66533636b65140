// SPDX-License-Identifier: MIT
#include "cleave/adapt/bgl/parts.hpp"

#include <doctest/doctest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/grid_graph.hpp>
#include <boost/property_map/vector_property_map.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

using namespace cleave;

namespace {

struct town {
  unsigned char district = 99;
};
using map_of_towns = boost::adjacency_list<boost::vecS, boost::listS, boost::undirectedS, town>;

partition const three_towns{{part_id{1}, no_part, part_id{0}}, 2};

}  // namespace

TEST_CASE("put_parts: writes parts into a property map of any number type") {
  map_of_towns g(3);
  put_parts(three_towns, g, get(&town::district, g));
  std::vector<unsigned> found;
  for (auto [v, end] = vertices(g); v != end; ++v) found.push_back(g[*v].district);
  CHECK(found == std::vector<unsigned>{1, 99, 0});  // a vertex without a part keeps its old value

  boost::adjacency_list<> plain(3);
  boost::vector_property_map<part_id> ids;
  put_parts(three_towns, plain, ids);
  CHECK(ids[0] == part_id{1});
  std::vector<double> numbers(3, 0.5);
  put_parts(three_towns, plain,
            boost::make_iterator_property_map(numbers.begin(), get(boost::vertex_index, plain)));
  CHECK(numbers == std::vector<double>{1, 0.5, 0});
}

TEST_CASE("bgl_part_map: stays readable after the partition is gone") {
  map_of_towns const g(3);
  auto const map = [&] {
    partition const p = three_towns;
    return bgl_part_map(p, g);
  }();
  auto const copy = map;
  std::vector<std::uint32_t> found;
  for (auto [v, end] = vertices(g); v != end; ++v) found.push_back(get(copy, *v));
  CHECK(found == std::vector<std::uint32_t>{1, index(no_part), 0});
  CHECK(map[*vertices(g).first] == 1);
  boost::function_requires<boost::ReadablePropertyMapConcept<
      bgl_part_map<map_of_towns>, boost::graph_traits<map_of_towns>::vertex_descriptor>>();

  boost::grid_graph<1> const row(boost::array<std::size_t, 1>{{3}});  // vertices without a hash
  CHECK(get(bgl_part_map(three_towns, row), vertex(2, row)) == 0);
}
