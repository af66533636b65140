// SPDX-License-Identifier: MIT
#include "cleave/partition/named/assign.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/rng.hpp"

namespace {

using cleave::assign_by_name;
using cleave::assignment_error;
using entries = std::vector<cleave::named_part>;

struct named_nodes {
  std::vector<std::string> names;

  std::vector<int> nodes() const {
    std::vector<int> list;
    for (std::size_t n = 0; n < names.size(); ++n) list.push_back(static_cast<int>(n));
    return list;
  }
  std::vector<int> operands(int) const { return {}; }
  std::string name(int n) const { return names[static_cast<std::size_t>(n)]; }
};

std::string refusal(named_nodes const& g, entries const& list, std::size_t witness) {
  try {
    assign_by_name(g, list);
  } catch (assignment_error const& e) {
    CHECK(e.witness == witness);
    return e.what();
  }
  return "no refusal";
}

named_nodes const abc{{"embed", "block", "head"}};

}  // namespace

TEST_CASE("assign_by_name: entries in any order give the same parts as assign with a callback") {
  cleave::testing::rng r(3);
  for (int round = 0; round < 200; ++round) {
    named_nodes g;
    entries list;
    std::vector<std::string> parts;
    auto const nodes = r.below(12);
    for (std::size_t n = 0; n < nodes; ++n) {
      g.names.push_back("n" + std::to_string(n));
      parts.push_back("p" + std::to_string(r.below(4)));
      list.insert(list.begin() + static_cast<std::ptrdiff_t>(r.below(n + 1)),
                  {r.one_in(2) ? "#" + std::to_string(n) : g.names[n], parts[n]});
    }
    auto const got = assign_by_name(g, list);
    auto const expected = cleave::assign(g, [&](int n) { return parts[static_cast<std::size_t>(n)]; });
    REQUIRE(got.of == expected.of);
    REQUIRE(got.label == expected.label);
  }
}

TEST_CASE("assign_by_name: replicable nodes need no entry") {
  struct copied_last : named_nodes {
    bool replicable(int n) const { return n == 2; }
  };
  copied_last const g{{abc.names}};
  auto const last = abc.names[2];
  auto const without = assign_by_name(g, {{"#1", "b"}, {"#0", "a"}});
  CHECK(without.of == std::vector{cleave::part_id{0}, cleave::part_id{1}, cleave::no_part});
  CHECK(without.label == std::vector<std::string>{"a", "b"});
  CHECK(without.parts == 2);
  auto const with = assign_by_name(g, {{"#1", "b"}, {"#0", "a"}, {last, "b"}});
  CHECK(with.of == std::vector{cleave::part_id{0}, cleave::part_id{1}, cleave::part_id{1}});
  CHECK_THROWS_AS(assign_by_name(g, {{"#1", "b"}, {last, "b"}}), assignment_error);
}

TEST_CASE("assign_by_name: rejects an invalid entry with its number and a way to correct it") {
  CHECK(
      refusal(abc, {{"embed", "0"}, {"blok", "0"}}, 1) ==
      "assignment: entry #1 names 'blok', but the graph has no such node; nearest: 'block', 'head', 'embed'");
  CHECK(refusal(abc, {{"#3", "0"}}, 0) ==
        "assignment: entry #0 names '#3', but the graph has no such node; it has 3 nodes");
  CHECK(refusal(abc, {{"embed", "0"}, {"#0", "1"}}, 1) ==
        "assignment: entry #1 names '#0' again; entry #0 already assigns it");
  CHECK(refusal(abc, {{"embed", "-1"}}, 0) ==
        "assignment: entry #0 puts 'embed' into part '-1'; a part must be a word or a number from 0 up");
  CHECK(refusal(abc, {{"embed", ""}}, 0).find("into part ''") != std::string::npos);
  CHECK(refusal(abc, {{"embed", "0"}, {"head", "1"}}, 2) ==
        "assignment: there is no entry for node block (#1)");
  CHECK(refusal({{"same", "same"}}, {{"same", "0"}}, 0) ==
        "assignment: entry #0 names 'same', which is the name of 2 nodes; write # and a position instead");
  CHECK(assign_by_name(named_nodes{{"same", "same"}}, {{"#0", "a"}, {"#1", "b"}}).parts == 2);
  CHECK(assign_by_name(named_nodes{}, {}).parts == 0);
}
