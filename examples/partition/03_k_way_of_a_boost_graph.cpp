// SPDX-License-Identifier: MIT
// Cuts a Boost graph into k parts. Weights are read from its property maps, and the parts are written back as
// a property. A range-v3 view lists the cut edges.
#include <boost/graph/adjacency_list.hpp>
#include <cleave/bgl.hpp>
#include <cleave/kway.hpp>
#include <cleave/range_v3.hpp>
#include <cstddef>
#include <iostream>
#include <range/v3/view.hpp>
#include <string>
#include <vector>

struct town {
  std::string name;
  int people;
  int district = -1;
};
struct road {
  int cars;  // an hour
};
using region = boost::adjacency_list<boost::listS, boost::listS, boost::undirectedS, town, road>;

int main() {
  region g;
  auto const ayr = add_vertex({"Ayr", 30}, g), bude = add_vertex({"Bude", 40}, g),
             cork = add_vertex({"Cork", 30}, g), dover = add_vertex({"Dover", 50}, g),
             ely = add_vertex({"Ely", 20}, g), fowey = add_vertex({"Fowey", 30}, g);
  add_edge(ayr, bude, {90}, g), add_edge(bude, cork, {80}, g), add_edge(cork, ayr, {70}, g);
  add_edge(dover, ely, {60}, g), add_edge(ely, fowey, {90}, g), add_edge(fowey, dover, {50}, g);
  add_edge(cork, dover, {20}, g), add_edge(ayr, fowey, {10}, g);

  // [cut]
  auto const roads = cleave::bgl_adjacency(g, &road::cars, &town::people);
  std::vector<cleave::part_id> fixed(num_vertices(g), cleave::no_part);
  fixed.front() = cleave::part_id{0};  // Ayr, the first vertex
  auto const districts = cleave::partition_kway(roads.view(), 2, {.fixed = fixed});
  std::cout << "cars between districts: " << districts.cut << '\n';

  cleave::put_parts(districts, g, get(&town::district, g));  // into the graph
  std::cout << "Ely is in district " << g[ely].district << '\n';
  cleave::bgl_part_map const district(districts, g);  // or as a separate property map
  std::cout << "Bude is in district " << get(district, bude) << '\n';
  // [cut]

  auto const members = cleave::part_members(districts);
  auto const [first, last] = vertices(g);
  auto const names = ranges::subrange(first, last) |
                     ranges::views::transform([&](auto v) { return g[v].name; }) | ranges::to<std::vector>();
  auto const name = [&](std::size_t n) { return names[n]; };
  for (auto const nodes : cleave::parts_of(members))
    std::cout << (nodes | ranges::views::transform(name)) << '\n';
  for (auto const& e : cleave::cut_edges(roads.view(), districts))
    std::cout << name(e.from) << " - " << name(e.to) << ": " << e.weight << '\n';
}

// It prints:
//
//   cars between districts: 30
//   Ely is in district 1
//   Bude is in district 0
//   [Ayr,Bude,Cork]
//   [Dover,Ely,Fowey]
//   Ayr - Fowey: 10
//   Cork - Dover: 20
