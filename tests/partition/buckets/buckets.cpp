// SPDX-License-Identifier: MIT
#include "cleave/partition/buckets/buckets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "support/archetype.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using testing::rng;
using bucket = basic_bucket<std::uint32_t>;
using counts = basic_bucket_counts<std::uint32_t>;

/// Each node counts a random number of entries of up to 9 bytes.
counts random_counts(rng& random, std::size_t nodes) {
  counts c;
  for (std::size_t n = 0; n < nodes; ++n) {
    for (auto entries = random.below(3); entries-- > 0;) {
      c.entries.add(static_cast<std::uint32_t>(c.bytes.size()));
      c.bytes.push_back(random.below(10));
      c.what.push_back(0);
    }
    c.entries.close();
  }
  return c;
}

/// The plain walk, which searches the nodes of the bucket again at each step.
std::vector<bucket> told(snapshot_arrays const& s, counts const& c, bucket_options const& o) {
  std::vector<bucket> buckets(1);
  auto const may_close = [&](bucket const& b) {
    std::set<std::size_t> const inside(b.nodes.begin(), b.nodes.end());
    bool gives = false;
    for (auto const n : inside) {
      for (std::size_t m = 0; m < s.nodes(); ++m)
        if (s.group[m] == s.group[n] && !is_replicable(s, m) && !is_replicable(s, n) && !inside.contains(m) &&
            m < n)
          return false;
      for (auto const v : s.results[n]) {
        if (is_replicable(s, n)) continue;
        for (auto const user : s.users[v]) gives |= !inside.contains(user);
        gives |= std::ranges::find(s.outputs, v) != s.outputs.end();
      }
    }
    return gives;
  };
  for (auto n = static_cast<std::uint32_t>(s.nodes()); n-- > 0;) {
    auto const full = buckets.front().bytes >= o.cap ||
                      (buckets.size() == 1 && buckets.front().bytes >= first_bucket_cap(o));
    if (full && may_close(buckets.front())) {
      buckets.insert(buckets.begin(), bucket());
    } else if (full) {
      auto& b = buckets.front();
      if (b.extra_nodes == 0) b.bytes_before_extra = b.bytes;
      ++b.extra_nodes;
    }
    for (auto const e : c.entries[n]) {
      buckets.front().bytes += c.bytes[e];
      buckets.front().entries.push_back(e);
    }
    buckets.front().nodes.push_back(n);
  }
  if (buckets.size() > 1 && buckets[0].bytes == 0) {
    buckets[1].nodes.insert(buckets[1].nodes.end(), buckets[0].nodes.begin(), buckets[0].nodes.end());
    buckets[1].entries.insert(buckets[1].entries.end(), buckets[0].entries.begin(), buckets[0].entries.end());
    buckets.erase(buckets.begin());
  }
  return buckets;
}

testing::random_shape shape_of(rng& random) {
  return {.nodes = random.below(25),
          .states = random.below(4),
          .replicable = random.below(2) * 6,
          .tied = random.below(2) * 6};
}

snapshot_arrays with_outputs(rng& random, snapshot_arrays s) {
  for (std::size_t v = 0; v < s.values(); ++v)
    if (s.producer[v] != none<std::uint32_t> && random.one_in(5))
      s.outputs.push_back(static_cast<std::uint32_t>(v));
  return s;
}

/// A chain whose nodes hold one parameter of these bytes each; the last value is the output.
snapshot_arrays chain(std::vector<std::size_t> const& bytes) {
  testing::snapshot_builder b;
  auto v = b.input();
  for (auto const size : bytes) v = b.node(1, {v, b.state(size)});
  b.output(v);
  return b.build();
}

std::vector<std::size_t> sizes(basic_bucket_partition<std::uint32_t> const& p) {
  std::vector<std::size_t> bytes;
  for (auto const& b : p.buckets) bytes.push_back(b.bytes);
  return bytes;
}

std::vector<std::size_t> chain_sizes(std::vector<std::size_t> const& bytes, bucket_options const& o) {
  auto const s = chain(bytes);
  return sizes(fill_buckets(s, state_counts(s), o));
}

}  // namespace

TEST_CASE("fill_buckets: equals a plain walk that recomputes everything at each step") {
  rng random(1);
  for (int round = 0; round < 400; ++round) {
    auto const s = with_outputs(random, random_graph(random, shape_of(random)));
    auto const c = random_counts(random, s.nodes());
    bucket_options o{.cap = random.below(25)};
    if (random.one_in(2)) o.first_cap = random.below(o.cap + 1);
    CHECK(fill_buckets(s, c, o).buckets == told(s, c, o));
  }
}

TEST_CASE("fill_buckets: each node is in one bucket, no edge runs backward and no group is split") {
  rng random(2);
  for (int round = 0; round < 300; ++round) {
    auto const s = with_outputs(random, random_graph(random, shape_of(random)));
    auto const p = fill_buckets(s, random_counts(random, s.nodes()), {.cap = random.below(20)});
    check_partition(s, p);
    CHECK(!find_backward_edge(s, p));
    std::size_t nodes = 0;
    for (auto const& b : p.buckets) nodes += b.nodes.size();
    CHECK(nodes == s.nodes());
  }
}

TEST_CASE("fill_buckets: a bucket counts no bytes after it reaches its cap, unless it had to grow") {
  rng random(3);
  for (int round = 0; round < 300; ++round) {
    auto const s = with_outputs(random, random_graph(random, shape_of(random)));
    bucket_options const o{.cap = 1 + random.below(30)};
    auto const c = random_counts(random, s.nodes());
    for (auto const& b : fill_buckets(s, c, o).buckets) {
      if (b.extra_nodes > 0 || b.bytes < o.cap) continue;
      std::size_t before = 0;  // the node that filled it
      std::size_t at = 0;
      for (; before < o.cap; ++at)
        for (auto const e : c.entries[b.nodes[at]]) before += c.bytes[e];
      auto const added = std::accumulate(b.nodes.begin() + static_cast<std::ptrdiff_t>(at), b.nodes.end(),
                                         std::size_t{0}, [&](std::size_t sum, auto n) {
                                           for (auto const e : c.entries[n]) sum += c.bytes[e];
                                           return sum;
                                         });
      CHECK(added == 0);
    }
  }
}

TEST_CASE("fill_buckets: a bucket closes exactly at its cap, first_cap limits the tail, nodes stay whole") {
  CHECK(chain_sizes({100, 100, 100}, {.cap = 100, .first_cap = 100}) ==
        std::vector<std::size_t>{100, 100, 100});
  CHECK(chain_sizes({4, 4, 4, 4, 4, 4}, {.cap = 8, .first_cap = 4}) == std::vector<std::size_t>{4, 8, 8, 4});
  CHECK(chain_sizes({7, 300, 7}, {.cap = 10, .first_cap = 10}) == std::vector<std::size_t>{7, 307});
  CHECK(chain_sizes({0, 0, 7}, {.cap = 7, .first_cap = 7}) == std::vector<std::size_t>{7});
}

TEST_CASE("first_bucket_cap: defaults to 1 MiB, or to the cap if that is smaller") {
  CHECK(first_bucket_cap({.cap = 10}) == 10);
  CHECK(first_bucket_cap({.cap = 25_MiB}) == 1_MiB);
  CHECK(chain_sizes({4, 4, 4}, {.cap = 4}) == std::vector<std::size_t>{4, 4, 4});
  CHECK(chain_sizes({4, 4}, {.cap = 0}) == std::vector<std::size_t>{4, 4});
}

TEST_CASE("fill_buckets: an empty graph gives one empty bucket") {
  snapshot_arrays const s;
  auto const p = fill_buckets(s, state_counts(s));
  CHECK(p.parts == 1);
  CHECK(p.buckets == std::vector<bucket>(1));
}

TEST_CASE("state_counts: counts a state at its first reader, and shared memory no more than its size") {
  testing::snapshot_builder b;
  auto const weight = b.state(100), view = b.state(60), other = b.state(100), own = b.state(5);
  auto const x = b.node(1, {weight, view});
  auto const y = b.node(1, {x, other, own, weight});
  b.output(y);
  auto s = b.build();
  s.storage.resize(s.values());
  std::iota(s.storage.begin(), s.storage.end(), 0u);
  s.storage[view] = s.storage[other] = s.storage[weight];
  auto const c = state_counts(s);
  CHECK(c.what == std::vector<std::uint32_t>{weight, own});
  CHECK(c.bytes == std::vector<std::size_t>{100, 5});
  CHECK(c.entries[0].size() == 1);
  CHECK(c.entries[1].size() == 1);
}

TEST_CASE("state_counts: views of a buffer count their own bytes until the buffer's size is reached") {
  testing::snapshot_builder b;
  auto const buffer = b.state(100), first = b.state(30), second = b.state(30);
  b.output(b.node(1, {b.node(1, {first, second}), buffer}));
  auto s = b.build();
  s.storage.assign(s.values(), 0);
  CHECK(state_counts(s).bytes == std::vector<std::size_t>{30, 30, 40});
}

TEST_CASE("state_counts: each storage counts the bytes that are read, at most its size") {
  rng random(4);
  for (int round = 0; round < 200; ++round) {
    auto s = random_graph(random, {.nodes = 1 + random.below(20), .states = 6});
    s.storage.resize(s.values());
    for (auto& m : s.storage) m = static_cast<std::uint32_t>(random.below(4));
    auto const c = state_counts(s);
    for (std::uint32_t m = 0; m < 4; ++m) {
      std::size_t most = 0, read = 0, counted = 0;
      for (auto const v : s.state)
        if (s.storage[v] == m) {
          most = std::max(most, s.bytes[v]);
          if (!s.users[v].empty()) read += s.bytes[v];
        }
      for (std::size_t e = 0; e < c.bytes.size(); ++e)
        if (s.storage[c.what[e]] == m) counted += c.bytes[e];
      CHECK(counted == std::min(most, read));
    }
    for (std::size_t n = 0; n < s.nodes(); ++n)
      for (auto const e : c.entries[n]) CHECK(s.users[c.what[e]].front() == n);
  }
}

TEST_CASE("fill_buckets: reports the number of entries without a size") {
  auto const s = chain({0, 4, 0});
  CHECK(fill_buckets(s, state_counts(s)).unsized == 2);
}

TEST_CASE("fill_buckets: rejects a first_cap above the cap") {
  auto const s = chain({4, 4});
  bucket_options const o{.cap = 4, .first_cap = 8};
  CHECK(find_option_fault(o).has_value());
  CHECK(!find_option_fault({.cap = 4, .first_cap = 4}));
  CHECK_THROWS_WITH_AS(fill_buckets(s, state_counts(s), o),
                       doctest::Contains("buckets: first_cap, 8 B, is above cap, 4 B; it must not be larger, "
                                         "so that the first bucket is sent early"),
                       error);
}

TEST_CASE("fill_buckets: rejects sums of bytes that overflow and names the node") {
  auto const most = std::numeric_limits<std::size_t>::max();
  auto const s = chain({3, most - 1, 3});
  try {
    fill_buckets(s, state_counts(s), {.cap = most, .first_cap = most});
    FAIL("no error");
  } catch (partition_error const& e) {
    CHECK(e.witness == std::vector<std::size_t>{1});
    CHECK(std::string(e.what()).find("#1") != std::string::npos);
  }
}

namespace {

/// Three layers in a row with a weight each; two of them share one.
struct layers {
  std::vector<int> all{0, 1, 2};
  std::vector<int> const& nodes() const { return all; }
  static std::vector<int> operands(int n) { return {n == 0 ? 100 : n - 1, 10 + n}; }
  static std::vector<int> inputs() { return {100}; }
  static std::vector<int> outputs() { return {2}; }
  static std::vector<int> state() { return {10, 11, 12}; }
  static std::size_t bytes(int v) { return v >= 10 && v < 100 ? 40 : 1; }
  static int storage(int v) { return v == 12 ? 10 : v; }
};

}  // namespace

TEST_CASE("fill_buckets: requires only state and sizes of a graph") {
  struct needed : archetype::stateful {
    archetype::count bytes(archetype::value) const { return {}; }
  };
  static_assert(stateful_graph<needed> && sized_graph<needed> && !tied_graph<needed> && !named_graph<needed>);
  CHECK(fill_buckets(needed()).of.size() == 2);

  auto const p = fill_buckets(layers(), {.cap = 40});
  CHECK(sizes(p) == std::vector<std::size_t>{40, 40});
  CHECK(p.of == std::vector<part_id>{part_id{0}, part_id{1}, part_id{1}});
}
