// SPDX-License-Identifier: MIT
#include "cleave/run/batch/nested.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/rng.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using numbers = nested<int>;
using partners = std::vector<std::size_t>;

std::variant<partners, nested_mismatch> align(numbers const& a, numbers const& b) {
  return align_nested(a.shape(), b.shape(), "x");
}

std::string mismatch(numbers const& a, numbers const& b) {
  auto const aligned = align(a, b);
  auto const* m = std::get_if<nested_mismatch>(&aligned);
  return m ? describe(*m, "the values", "the rules") : "none";
}

/// The same nesting with the elements of each dict in another order; leaves keep their keys.
numbers shuffled(numbers const& x, std::size_t& entry, std::size_t& leaf, testing::rng& r) {
  auto const& e = x.shape()[entry++];
  if (e.what == nesting::leaf) return x.leaves()[leaf++];
  std::vector<numbers> list;
  std::vector<std::pair<std::string, numbers>> dict;
  for (std::size_t i = 0; i < e.size; ++i) {
    auto const key = x.shape()[entry].key;
    list.push_back(shuffled(x, entry, leaf, r));
    dict.emplace_back(key, list.back());
  }
  r.shuffle(dict);
  return e.what == nesting::list    ? numbers::list(list)
         : e.what == nesting::tuple ? numbers::tuple(list)
                                    : numbers::dict(dict);
}

numbers random_nested(testing::rng& r, std::size_t depth, int& next) {
  if (depth == 0 || r.one_in(4)) return next++;
  std::vector<numbers> list;
  std::vector<std::pair<std::string, numbers>> dict;
  for (std::size_t i = 0, n = r.below(5); i < n; ++i) {
    list.push_back(random_nested(r, depth - 1, next));
    dict.emplace_back("k" + std::to_string(i), list.back());
  }
  auto const kind = r.below(3);
  return kind == 0 ? numbers::list(list) : kind == 1 ? numbers::tuple(list) : numbers::dict(dict);
}

}  // namespace

TEST_CASE("align_nested: lists and tuples pair by order, dicts by key, at every depth") {
  auto const a = numbers::tuple({0, numbers::dict({{"p", 1}, {"q", numbers::dict({{"r", 2}, {"s", 3}})}})});
  auto const b = numbers::tuple({0, numbers::dict({{"q", numbers::dict({{"s", 1}, {"r", 2}})}, {"p", 3}})});
  CHECK(std::get<partners>(align(a, b)) == partners{0, 3, 2, 1});
}

TEST_CASE("align_nested: aligns a random nesting with itself under any order of its keys") {
  testing::rng r(11);
  for (int round = 0; round < 300; ++round) {
    int next = 0;
    auto const x = random_nested(r, 5, next);
    std::size_t entry = 0, leaf = 0;
    auto const y = shuffled(x, entry, leaf, r);
    auto const aligned = align(x, y);
    REQUIRE(std::holds_alternative<partners>(aligned));
    auto const& to = std::get<partners>(aligned);
    REQUIRE(to.size() == x.leaves().size());
    for (std::size_t i = 0; i < to.size(); ++i) REQUIRE(y.leaves()[to[i]] == x.leaves()[i]);
  }
}

TEST_CASE("align_nested: reports a difference with its place and both sides") {
  auto const in = [](numbers x) { return numbers::list({0, numbers::dict({{"a", std::move(x)}})}); };
  CHECK(mismatch(in(numbers::list({1, 2})), in(numbers::list({1}))) ==
        "x[1]['a'] is a list of 2 in the values, but a list of 1 in the rules");
  CHECK(mismatch(in(numbers::list({1})), in(numbers::tuple({1}))) ==
        "x[1]['a'] is a list of 1 in the values, but a tuple of 1 in the rules");
  CHECK(mismatch(in(1), in(numbers::dict({}))) ==
        "x[1]['a'] is a single value in the values, but a dict of 0 in the rules");
  CHECK(mismatch(in(numbers::list({})), in(3)) ==
        "x[1]['a'] is a list of 0 in the values, but a single value in the rules");
  CHECK(mismatch(in(1), in(1)) == "none");
}

TEST_CASE("align_nested: names a key that one side lacks, with the nearest keys of the other") {
  auto const keys = [](std::vector<std::string> const& names) {
    std::vector<std::pair<std::string, numbers>> pairs;
    for (auto const& name : names) pairs.emplace_back(name, 0);
    return numbers::dict(pairs);
  };
  CHECK(mismatch(keys({"mask", "x"}), keys({"x", "msak"})) ==
        "x['msak'] is in the rules, but not in the values; nearest: 'mask', 'x'");
  CHECK(mismatch(keys({"mask", "x"}), keys({"x"})) ==
        "x['mask'] is in the values, but not in the rules; nearest: 'x'");
  CHECK(mismatch(keys({"a", "b"}), keys({"b", "c", "a", "d"})) ==
        "x['c'] is in the rules, but not in the values; nearest: 'a', 'b'");
}

TEST_CASE("align_nested: finds a duplicate key on either side") {
  auto const once = numbers::dict({{"a", 1}, {"b", 2}}), twice = numbers::dict({{"a", 1}, {"a", 2}});
  CHECK(mismatch(twice, once) == "x['a'] occurs twice in its dict; keys must be unique");
  CHECK(mismatch(once, twice) == "x['a'] occurs twice in its dict; keys must be unique");
}

TEST_CASE("align_nested: handles 100,000 levels on a small stack") {
  testing::on_small_stack([] {
    nested_builder<int> b;
    for (int i = 0; i < 100'000; ++i)
      b.open(i % 2 == 0 ? nesting::dict : nesting::tuple, i % 2 == 1 ? "k" : "");
    b.leaf(1);
    for (int i = 0; i < 100'000; ++i) b.close();
    auto const x = std::move(b).take();
    CHECK(std::get<partners>(align(x, x)) == partners{0});
  });
}
