// SPDX-License-Identifier: MIT
#include "cleave/backward/weight_cut.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "support/random_backward.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using node_list = std::vector<std::uint32_t>;
using node_set = std::set<std::uint32_t>;
constexpr auto nowhere = none<std::uint32_t>;

backward_arrays graph(std::vector<node_list> const& next, node_list outputs, node_list inputs,
                      node_list parameters, std::vector<std::size_t> bytes = {}) {
  backward_arrays g;
  for (auto const& row : next) {
    for (auto const to : row) g.next.add({to});
    g.next.close();
  }
  g.outputs = std::move(outputs);
  g.inputs = std::move(inputs);
  g.parameters = std::move(parameters);
  g.bytes = std::move(bytes);
  return g;
}

/// The nodes reachable from each node along gradient edges, computed for all pairs by relaxation.
std::vector<node_set> all_reached(backward_arrays const& g) {
  std::vector<node_set> from(g.nodes());
  for (bool grew = true; grew;) {
    grew = false;
    for (std::uint32_t n = 0; n < g.nodes(); ++n)
      for (auto const& e : g.next[n])
        if (e.to != nowhere) {
          auto const before = from[n].size();
          from[n].insert(e.to);
          from[n].insert(from[e.to].begin(), from[e.to].end());
          grew |= from[n].size() > before;
        }
  }
  return from;
}

/// A direct implementation of the definition.
class plain_cut {
 public:
  explicit plain_cut(backward_arrays const& g) : g_(g), reached_(all_reached(g)) {
    for (auto const n : g.outputs) {
      live_.insert(n);
      live_.insert(reached_[n].begin(), reached_[n].end());
    }
  }

  bool on_path(std::uint32_t n) const {
    if (std::ranges::count(g_.inputs, n) > 0) return true;
    return live_.contains(n) &&
           std::ranges::any_of(g_.inputs, [&](auto input) { return reached_[n].contains(input); });
  }

  /// Walks up every path separately.
  node_set hits(std::uint32_t n) const {
    node_set found;
    for (auto const m : live_)
      if (std::ranges::any_of(g_.next[m], [&](auto const& e) { return e.to == n; })) {
        if (on_path(m))
          found.insert(m);
        else
          found.merge(hits(m));
      }
    return found;
  }

  using group = std::pair<node_set, node_set>;

  /// Merges overlapping groups until no two overlap.
  std::set<group> groups() const {
    std::vector<group> list;
    for (auto const p : g_.parameters)
      if (auto const h = hits(p); !h.empty()) list.push_back({{p}, h});
    for (std::size_t i = 0; i < list.size();) {
      auto const overlaps = [&](std::size_t j) {
        return std::ranges::any_of(list[i].second, [&](auto n) { return list[j].second.contains(n); }) ||
               std::ranges::any_of(list[i].first, [&](auto n) { return list[j].first.contains(n); });
      };
      std::size_t j = i + 1;
      while (j < list.size() && !overlaps(j)) ++j;
      if (j == list.size()) {
        ++i;
        continue;
      }
      list[i].first.merge(list[j].first);
      list[i].second.merge(list[j].second);
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(j));
      i = 0;
    }
    return {list.begin(), list.end()};
  }

  /// True if a path of nodes that lead to inputs connects the different groups `a` and `b`.
  bool leads(node_set const& a, node_set const& b) const {
    return std::ranges::any_of(a, [&](auto n) {
      return std::ranges::any_of(b, [&](auto m) { return reached_[n].contains(m) && on_path(m); });
    });
  }

 private:
  backward_arrays const& g_;
  std::vector<node_set> reached_;
  node_set live_;
};

std::set<plain_cut::group> group_set(weight_cut const& cut) {
  std::set<plain_cut::group> set;
  for (auto const& g : cut.groups)
    set.insert(
        {{g.parameters.begin(), g.parameters.end()}, {g.intermediates.begin(), g.intermediates.end()}});
  return set;
}

}  // namespace

TEST_CASE("weight_cut_of: two layers give two groups, each starting at its own product") {
  // 0: product with weight 1, 2: product with weight 4, 3: the input
  auto const cut = weight_cut_of(graph({{2, 1}, {}, {3, 4}, {}, {}}, {0}, {3}, {1, 4}, {6, 9, 8, 4, 9}));
  CHECK(cut.groups == std::vector<weight_group<std::uint32_t>>{{{1}, {0}, 6}, {{4}, {2}, 8}});
  CHECK(cut.on_input_path == std::vector<char>{1, 0, 1, 1, 0});
  CHECK(cut.joint == node_list{0, 1});
  CHECK(cut.bytes == 14);
}

TEST_CASE("weight_cut_of: a tied weight merges the groups that use it, in any order of the parameters") {
  for (auto const& parameters : {node_list{4, 1}, node_list{1, 4}, node_list{4, 1, 4, 1}}) {
    auto const cut = weight_cut_of(graph({{2, 1}, {}, {3, 4, 1}, {}, {}, {}}, {0}, {3}, parameters));
    CHECK(cut.groups == std::vector<weight_group<std::uint32_t>>{{{1, 4}, {0, 2}, 0}});
  }
}

TEST_CASE("weight_cut_of: groups are joint if one starts between the starts of another") {
  // w at 1 and 6, v at 0 and 3, the gradient runs 0, 1, 3, 6
  auto const cut =
      weight_cut_of(graph({{1, 2}, {3, 4}, {5}, {6, 7}, {}, {}, {8, 4}, {5}, {}}, {0}, {8}, {4, 5}));
  CHECK(cut.groups == std::vector<weight_group<std::uint32_t>>{{{5}, {0, 3}, 0}, {{4}, {1, 6}, 0}});
  CHECK(cut.joint == node_list{0, 0});
  // One output feeds another: a chain without a way back.
  auto const chain = weight_cut_of(graph({{2, 3}, {0, 4}, {}, {}, {}}, {0, 1}, {2}, {3, 4}));
  CHECK(chain.joint == node_list{0, 1});
}

TEST_CASE("weight_cut_of: there are no groups if no input needs a gradient") {
  auto const cut = weight_cut_of(graph({{1, 2}, {3, nowhere}, {}, {}}, {0}, {}, {2, 3}));
  CHECK(cut.groups.empty());
}

TEST_CASE("weight_cut_of: the group of a parameter that is also an input starts at its senders") {
  auto const cut = weight_cut_of(graph({{1}, {}}, {0}, {1}, {1}));
  CHECK(cut.groups == std::vector<weight_group<std::uint32_t>>{{{1}, {0}, 0}});
  // It can also be an intermediate of another parameter.
  auto const both = weight_cut_of(graph({{1}, {2}, {}}, {0}, {1}, {1, 2}));
  CHECK(both.groups == std::vector<weight_group<std::uint32_t>>{{{1}, {0}, 0}, {{2}, {1}, 0}});
}

TEST_CASE("weight_cut_of: matches the definition of groups on random graphs, in any order of the lists") {
  rng r(11);
  std::size_t overlaps = 0, joint = 0;
  for (int i = 0; i < 3000; ++i) {
    auto g = random_backward(r, 2 + r.below(16));
    auto const cut = weight_cut_of(g);
    plain_cut const plain(g);
    REQUIRE(group_set(cut) == plain.groups());
    auto const senders = gradient_senders(g);
    for (std::uint32_t n = 0; n < g.nodes(); ++n) REQUIRE((cut.on_input_path[n] != 0) == plain.on_path(n));
    for (auto const p : g.parameters) {
      auto const hits = intermediates_of(senders, cut.on_input_path, p);
      REQUIRE(node_set(hits.begin(), hits.end()) == plain.hits(p));
      overlaps += hits.size() > 1;
    }
    r.shuffle(g.parameters);
    r.shuffle(g.inputs);
    r.shuffle(g.outputs);
    auto const again = weight_cut_of(g);
    REQUIRE(again.groups == cut.groups);
    REQUIRE(again.joint == cut.joint);
    for (std::size_t j = 0; j < cut.joint.size(); ++j) joint += cut.joint[j] != j;
  }
  CHECK(overlaps > 100);
  CHECK(joint > 5);
}

TEST_CASE("weight_cut_of: groups are joint exactly if each leads to the other, directly or through others") {
  rng r(12);
  std::size_t joint = 0;
  for (int i = 0; i < 2000; ++i) {
    auto g = random_backward(r, 2 + r.below(24));
    for (auto& e : g.next.item)  // shares more parameters; they are leaves, so no cycle arises
      if (!g.parameters.empty() && r.one_in(4))
        if (auto const p = g.parameters[r.below(g.parameters.size())]; g.next[p].empty()) e.to = p;
    auto const cut = weight_cut_of(g);
    plain_cut const plain(g);
    auto const count = cut.groups.size();
    std::vector<node_set> starts;
    for (auto const& group : cut.groups)
      starts.emplace_back(group.intermediates.begin(), group.intermediates.end());
    std::vector<std::vector<char>> leads(count, std::vector<char>(count));
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b) leads[a][b] = a == b || plain.leads(starts[a], starts[b]);
    for (std::size_t m = 0; m < count; ++m)
      for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = 0; b < count; ++b) leads[a][b] |= leads[a][m] && leads[m][b];
    for (std::size_t a = 0; a < count; ++a) {
      std::size_t first = 0;
      while (!leads[a][first] || !leads[first][a]) ++first;
      REQUIRE(cut.joint[a] == first);
      joint += first != a;
    }
  }
  CHECK(joint > 5);
}

TEST_CASE("weight_cut_of: no node lies between starts and parameters of two different joint sets") {
  rng r(13);
  std::size_t met = 0;
  for (int i = 0; i < 2000; ++i) {
    auto const g = random_backward(r, 2 + r.below(24));
    auto const cut = weight_cut_of(g);
    auto const reached = all_reached(g);
    std::vector<std::size_t> run_by(g.nodes(), cut.groups.size());
    for (std::size_t a = 0; a < cut.groups.size(); ++a)
      for (std::size_t b = 0; b < cut.groups.size(); ++b) {
        if (cut.joint[a] != cut.joint[b]) continue;
        for (std::uint32_t n = 0; n < g.nodes(); ++n) {
          bool const begins = std::ranges::any_of(cut.groups[a].intermediates,
                                                  [&](auto s) { return s == n || reached[s].contains(n); });
          bool const ends =
              std::ranges::any_of(cut.groups[b].parameters, [&](auto p) { return reached[n].contains(p); });
          if (!begins || !ends) continue;
          REQUIRE((run_by[n] == cut.groups.size() || run_by[n] == cut.joint[a]));
          run_by[n] = cut.joint[a];
          ++met;
        }
      }
  }
  CHECK(met > 1000);
}

TEST_CASE("weight_cut_of: handles a chain of a million nodes on a small stack") {
  std::uint32_t const layers = 333'333;
  on_small_stack([layers] {
    backward_arrays g;  // product, weight, input or the next product
    for (std::uint32_t i = 0; i < layers; ++i) {
      g.next.add({3 * i + 3}), g.next.add({3 * i + 1});
      g.next.close();
      g.next.add({3 * i + 2}), g.next.close();
      g.next.close();
    }
    g.next.close();
    g.outputs = {0};
    g.inputs = {3 * layers};
    for (std::uint32_t i = 0; i < layers; ++i) g.parameters.push_back(3 * i + 2);
    CHECK(weight_cut_of(g).groups.size() == layers);
    g.parameters.assign(1, 2);  // one weight for all layers but one in the middle
    for (std::uint32_t i = 0; i < layers; ++i) g.next.item[3 * i + 2] = {2};
    g.next.item[3 * (layers / 2) + 1] = {3 * (layers / 2) + 2};
    g.parameters.push_back(3 * (layers / 2) + 2);
    auto const cut = weight_cut_of(g);
    CHECK(cut.groups.size() == 2);
    CHECK(cut.joint == node_list{0, 0});
  });
}

TEST_CASE("weight_cut_of: rejects a graph with a cycle") {
  CHECK_THROWS_AS(weight_cut_of(graph({{1}, {0}}, {0}, {}, {})), backward_graph_error);
}
