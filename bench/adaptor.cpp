// SPDX-License-Identifier: MIT
// Measures the cost of generality: inner loops of the algorithms on the library's arrays, read from a user's
// IR through an adapter, against the same loops on hand-written arrays. Prints ratios of alternating runs; 1
// means free.
//   bench_adaptor
#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/units/units.hpp"
#include "measure.hpp"
#include "support/rng.hpp"

namespace {

/// A user's IR: operations with pointers to their operands.
struct op {
  std::vector<op const*> reads;
  double cost;
};
struct ir {
  std::vector<op> ops;
};
struct adapter {
  ir const* p;
  std::vector<op const*> list{};
  explicit adapter(ir const& i) : p(&i) {
    for (auto const& o : i.ops) list.push_back(&o);
  }
  std::span<op const* const> nodes() const { return list; }
  std::span<op const* const> operands(op const* o) const { return o->reads; }
  double weight(op const* o) const { return o->cost; }
};

/// The same graph in hand-written arrays.
struct plain {
  std::vector<std::uint32_t> read_first{0}, reads, user_first, users;
  std::vector<double> cost;
};

ir random_ir(std::size_t n) {
  cleave::testing::rng random(1);
  ir p;
  p.ops.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    p.ops[i].cost = 1 + random.unit();
    for (std::size_t reads = 1 + random.below(3); i > 0 && reads-- > 0;)
      p.ops[i].reads.push_back(&p.ops[i - 1 - random.below(std::min<std::size_t>(i, 200))]);
  }
  return p;
}

plain by_hand(ir const& p) {
  plain g;
  std::size_t const n = p.ops.size();
  g.user_first.assign(n + 1, 0);
  std::vector<std::uint32_t> last(n, ~0u);
  for (std::uint32_t i = 0; i < n; ++i) {
    for (auto const* o : p.ops[i].reads) g.reads.push_back(static_cast<std::uint32_t>(o - p.ops.data()));
    g.read_first.push_back(static_cast<std::uint32_t>(g.reads.size()));
    g.cost.push_back(p.ops[i].cost);
    for (auto e = g.read_first[i]; e < g.read_first[i + 1]; ++e)
      if (std::exchange(last[g.reads[e]], i) != i) ++g.user_first[g.reads[e] + 1];
  }
  for (std::size_t i = 0; i < n; ++i) g.user_first[i + 1] += g.user_first[i];
  g.users.resize(g.user_first[n]);
  last.assign(n, ~0u);
  for (auto [i, next] = std::pair{0u, g.user_first}; i < n; ++i)
    for (auto e = g.read_first[i]; e < g.read_first[i + 1]; ++e)
      if (std::exchange(last[g.reads[e]], i) != i) g.users[next[g.reads[e]]++] = i;
  return g;
}

// Three inner loops: topological order (Kahn), the longest path, and the values sent by a cut.

std::uint64_t kahn(cleave::unit_graph<std::uint32_t> const& units) {
  std::vector<std::uint32_t> missing(units.size()), queue;
  for (std::size_t u = 0; u < units.size(); ++u)
    for (auto const user : units.successors[u]) ++missing[user];
  for (std::uint32_t u = 0; u < units.size(); ++u)
    if (missing[u] == 0) queue.push_back(u);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    sum = sum * 31 + queue[i];
    for (auto const user : units.successors[queue[i]])
      if (--missing[user] == 0) queue.push_back(user);
  }
  return sum;
}
std::uint64_t kahn(plain const& g) {
  std::size_t const n = g.cost.size();
  std::vector<std::uint32_t> missing(n), queue;
  for (std::size_t i = 0; i < n; ++i)
    for (auto e = g.user_first[i]; e < g.user_first[i + 1]; ++e) ++missing[g.users[e]];
  for (std::uint32_t i = 0; i < n; ++i)
    if (missing[i] == 0) queue.push_back(i);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    sum = sum * 31 + queue[i];
    for (auto e = g.user_first[queue[i]]; e < g.user_first[queue[i] + 1]; ++e)
      if (--missing[g.users[e]] == 0) queue.push_back(g.users[e]);
  }
  return sum;
}

double longest(cleave::snapshot_arrays const& s) {
  std::vector<double> finish(s.nodes());
  double most = 0;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    double start = 0;
    for (auto const v : s.operands[n])
      if (auto const p = s.producer[v]; p != cleave::none<std::uint32_t>) start = std::max(start, finish[p]);
    most = std::max(most, finish[n] = start + s.weight[n]);
  }
  return most;
}
double longest(plain const& g) {
  std::vector<double> finish(g.cost.size());
  double most = 0;
  for (std::size_t n = 0; n < g.cost.size(); ++n) {
    double start = 0;
    for (auto e = g.read_first[n]; e < g.read_first[n + 1]; ++e) start = std::max(start, finish[g.reads[e]]);
    most = std::max(most, finish[n] = start + g.cost[n]);
  }
  return most;
}

std::uint64_t sent(cleave::snapshot_arrays const& s, std::vector<std::uint8_t> const& part) {
  std::uint64_t count = 0;
  for (std::size_t v = 0; v < s.values(); ++v)
    if (auto const p = s.producer[v]; p != cleave::none<std::uint32_t>)
      for (auto const user : s.users[v]) count += part[user] != part[p];
  return count;
}
std::uint64_t sent(plain const& g, std::vector<std::uint8_t> const& part) {
  std::uint64_t count = 0;
  for (std::size_t n = 0; n < g.cost.size(); ++n)
    for (auto e = g.user_first[n]; e < g.user_first[n + 1]; ++e) count += part[g.users[e]] != part[n];
  return count;
}

/// Alternates the two, so that other load affects both. Returns the median of the ratios and their spread.
template <class Library, class Hand>
bool row(char const* what, Library library, Hand hand) {
  bool equal = true;
  auto const ratio = bench::repeat(31, [&] {
    decltype(library()) a{}, b{};
    auto const by_library = bench::seconds([&] { a = library(); });
    auto const plainly = bench::seconds([&] { b = hand(); });
    equal &= a == b;
    return by_library / plainly;
  });
  std::printf("| %s | %.2f | %.2f to %.2f |\n", what, ratio.median, ratio.least, ratio.most);
  return equal;
}

}  // namespace

int main() {
  std::size_t const n = 500'000;
  auto const p = random_ir(n);
  adapter const g(p);
  auto const s = cleave::snapshot_of(g);
  auto const units = cleave::detail::units_of(s, {});
  auto const hand = by_hand(p);
  std::vector<std::uint8_t> part(n);
  for (std::size_t i = 0; i < n; ++i) part[i] = static_cast<std::uint8_t>(i * 8 / n);

  std::printf("| inner loop, %zu nodes | library / by hand, median | spread |\n|---|---|---|\n", n);
  bool equal = row(
      "ready order (Kahn), on the units of balance", [&] { return kahn(units); }, [&] { return kahn(hand); });
  equal &= row("longest path", [&] { return longest(s); }, [&] { return longest(hand); });
  equal &= row("values sent by a cut", [&] { return sent(s, part); }, [&] { return sent(hand, part); });
  if (!equal) std::puts("the two loops give different results");
  return equal ? 0 : 1;
}
