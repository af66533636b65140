// SPDX-License-Identifier: MIT
#include "cleave/run/rendezvous/process_start.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("find_first_node: reads the first machine of a Slurm list") {
  CHECK(find_first_node("node1") == "node1");
  CHECK(find_first_node("node1,node2") == "node1");
  CHECK(find_first_node("node[01-04,07],login") == "node01");
  CHECK(find_first_node("node[7,9]") == "node7");
  CHECK(find_first_node("rack[2-3]n[08-16].example") == "rack2n08.example");
  CHECK(find_first_node("tux[12]-ib,tux[14]-ib") == "tux12-ib");
}

TEST_CASE("find_first_node: returns nothing for a list that begins with no machine") {
  for (std::string const list :
       {"", ",node1", "node[", "node[01-04", "node[]", "node[-3]", "[[fe80::]:1]", "node 1", "node1:80"})
    CHECK_MESSAGE(!find_first_node(list), list);
}
