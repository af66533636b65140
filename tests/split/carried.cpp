// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/graph/adapter_fault.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/acyclic/acyclic.hpp"
#include "cleave/partition/named/assign.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/place/placement_row.hpp"
#include "cleave/split/carried_values.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/split.hpp"
#include "support/cases.hpp"
#include "support/error_text.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

namespace {

/// A program whose runs leave values for the next one: names of values, by the input that each becomes.
struct decoder : toy::graph {
  std::map<std::string, std::string> next;
  using toy::graph::graph;
  std::vector<std::string> carried(std::string const& v) const {
    auto const at = next.find(v);
    return at == next.end() ? std::vector<std::string>() : std::vector{at->second};
  }
};
static_assert(carrying_graph<decoder> && !carrying_graph<toy::graph>);

/// A token goes through `layers` layers, each of which reads what it has seen of earlier tokens, and adds to
/// it.
toy::program layers_with_caches(std::size_t layers) {
  toy::program p{{"x"}, {}, {}};
  std::string last = "x";
  for (std::size_t i = 0; i < layers; ++i) {
    auto const number = std::to_string(i);
    p.inputs.push_back("past" + number);
    p.outputs.push_back("present" + number);
    p.add({"keys" + number, {last}, {"k" + number}, 1});
    p.add({"join" + number, {"past" + number, "k" + number}, {"present" + number}, 1});
    p.add({"attend" + number, {last, "present" + number}, {"y" + number}, 1});
    last = "y" + number;
  }
  p.outputs.push_back(last);
  return p;
}

decoder with_pairs(toy::program const& p) {
  decoder g(p);
  for (auto const& name : p.inputs)
    if (name.starts_with("past")) g.next[name] = "present" + name.substr(4);
  return g;
}

/// Returns the part of each node that reads `past` or makes `present` and is not copied, by looking at all.
std::vector<part_id> parts_of_pair(toy::program const& p, partition const& cut, std::string const& past,
                                   std::string const& present) {
  std::vector<part_id> parts;
  for (std::size_t n = 0; n < p.ops.size(); ++n) {
    auto const has = [](auto const& list, std::string const& name) {
      for (auto const& v : list)
        if (v == name) return true;
      return false;
    };
    if (index(cut.of[n]) < cut.parts && (has(p.ops[n]->in, past) || has(p.ops[n]->out, present)))
      parts.push_back(cut.of[n]);
  }
  return parts;
}

}  // namespace

TEST_CASE("carried_values: each stage keeps the caches of its layers") {
  auto const p = layers_with_caches(6);
  auto const g = with_pairs(p);
  auto const s = snapshot_of(g);
  auto const plan = make_plan(s, balance(s, 3));
  auto const kept = carried_values(s, plan);
  REQUIRE(kept.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(s.value[kept[i].past] == "past" + std::to_string(i));
    CHECK(s.value[kept[i].present] == "present" + std::to_string(i));
    CHECK(index(kept[i].stage) == i / 2);
  }
  CHECK(carried_values(snapshot_of(toy::graph(p)), plan).empty());
}

TEST_CASE("snapshot_of: an input's readers share a part with what makes its next value") {
  testing::rng r(5);
  std::size_t parted = 0;
  for (std::size_t i = 0; i < testing::cases(60, 600); ++i) {
    auto const p = testing::random_program(r, 4 + r.below(20));
    decoder g(p);
    for (auto const& name : p.inputs)
      if (r.one_in(2) && !p.ops.empty()) {
        auto const& made = p.ops[r.below(p.ops.size())]->out;
        if (!made.empty()) g.next[name] = made[r.below(made.size())];
      }
    auto const s = snapshot_of(g);
    auto const k = static_cast<std::uint32_t>(2 + r.below(3));
    auto const cut = balance(s, k);
    auto const free = balance(snapshot_of(toy::graph(p)), k);
    for (auto const& [past, present] : g.next) {
      auto const is_one = [&](partition const& c) {
        auto const parts = parts_of_pair(p, c, past, present);
        for (auto const part : parts)
          if (part != parts.front()) return false;
        return true;
      };
      CHECK(is_one(cut));
      parted += !is_one(free);
    }
    for (auto const& v : carried_values(s, make_plan(s, cut)))
      for (auto const part : parts_of_pair(p, cut, s.value[v.past], s.value[v.present]))
        CHECK(index(part) == index(v.stage));
  }
  CHECK(parted > 5);
}

TEST_CASE("placement_row_of: caches stay in a device's memory, and are not sent") {
  auto const p = layers_with_caches(4);
  auto const with = placement_row_of(with_pairs(p), {}), without = placement_row_of(toy::graph(p), {});
  REQUIRE(with.units.units() > 0);
  CHECK(without.units.resident.back() == 0);
  CHECK(with.units.resident.back() == 4 * 5);  // a value has as many bytes as its name has letters
  REQUIRE(with.units.units() == without.units.units());
  for (std::size_t place = 1; place < with.units.units(); ++place) {
    std::uint64_t later = 0;  // bytes of the caches that are read behind the place
    for (std::size_t layer = 0; layer < 4; ++layer) later += 3 * layer + 1 >= place ? 5 : 0;
    CHECK(with.units.crossing[place].activation + later == without.units.crossing[place].activation);
  }
  CHECK(placement_row_of(with_pairs(p), {.state_copies = 4}).units.resident.back() ==
        with.units.resident.back());
}

TEST_CASE("find_adapter_fault: names an input that becomes a value that no node knows") {
  auto const p = layers_with_caches(1);
  auto g = with_pairs(p);
  g.next["past0"] = "stranger";
  CHECK(find_adapter_fault(g) == adapter_fault{adapter_violation::unknown_carried_value, 1});
  CHECK(testing::error_text([&] { snapshot_of(g); }) ==
        "adapter: input #1 " + std::string(describe(adapter_violation::unknown_carried_value)));
}

TEST_CASE("split: refuses parts that separate an input from its next value") {
  auto const p = layers_with_caches(1);
  auto const g = with_pairs(p);
  split(g, assign(g, {0, 0, 1}));
  toy::program q{{"x", "past0"}, {}, {"present0"}};
  q.add({"read", {"past0"}, {"a"}});
  q.add({"join", {"a", "x"}, {"present0"}});
  auto const h = with_pairs(q);
  CHECK(testing::error_text([&] { split(h, assign(h, {0, 1})); }).find("nodes that must share a part") == 0);
  toy::graph const plain(q);
  split(plain, assign(plain, {0, 1}));
}
