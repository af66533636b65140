// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::testing {

using namespace detail;

/// Writes a dense graph by hand: values first, then the nodes that read them, in program order.
///
///     snapshot_builder b;
///     auto const w = b.state(100);
///     auto const x = b.node(3, {w}, 8);      // weight 3, reads w, makes a value of 8 bytes
///     auto const g = b.build();
template <std::unsigned_integral Index = std::uint32_t>
class basic_snapshot_builder {
 public:
  using values = std::vector<Index>;

  Index input(std::size_t bytes = 1) {
    return g_.inputs.emplace_back(make(none<Index>, source::input, bytes));
  }
  Index state(std::size_t bytes = 1) {
    return g_.state.emplace_back(make(none<Index>, source::state, bytes));
  }
  Index constant(std::size_t bytes = 1) { return make(none<Index>, source::constant, bytes); }

  /// Adds a node with one result and returns the result.
  Index node(double weight, values const& operands = {}, std::size_t bytes = 1) {
    return nodes(weight, operands, {bytes}).front();
  }
  /// Adds a node with several results and returns them.
  values nodes(double weight, values const& operands, std::vector<std::size_t> const& bytes) {
    Index const n = last() + 1;
    for (Index const v : operands) g_.operands.add(v);
    g_.operands.close();
    values made;
    for (auto const size : bytes) g_.results.add(made.emplace_back(make(n, source::node, size)));
    g_.results.close();
    g_.after.close();
    g_.weight.push_back(weight);
    g_.replicable.push_back(0);
    g_.group.push_back(n);
    g_.name.close();
    return made;
  }

  Index last() const { return static_cast<Index>(g_.nodes() - 1); }  ///< returns the last node
  Index producer(Index v) const { return g_.producer[v]; }
  void replicable() { g_.replicable.back() = 1; }               ///< makes the last node replicable
  void together(Index a, Index b) { ties_.push_back({a, b}); }  ///< puts both nodes in one stage
  void after(Index n) { after_.push_back({last(), n}); }        ///< makes the last node follow `n`
  void output(Index v) { g_.outputs.push_back(v); }
  void name(std::string_view text) {  ///< names the last node
    g_.name.item.insert(g_.name.item.end(), text.begin(), text.end());
    g_.name.first.back() = static_cast<Index>(g_.name.item.size());
  }

  basic_snapshot_arrays<Index> build() {
    auto g = g_;
    g.slot.resize(g.values());
    std::iota(g.slot.begin(), g.slot.end(), Index{});
    g.latest = g.slot;
    list_users(g);
    g.after = {};
    for (std::size_t n = 0, i = 0; n < g.nodes(); ++n, g.after.close())
      for (; i < after_.size() && after_[i].first == n; ++i) g.after.add(after_[i].second);
    auto const root = [&](Index n) {
      while (g.group[n] != n) n = g.group[n] = g.group[g.group[n]];
      return n;
    };
    for (auto [a, b] : ties_)
      if ((a = root(a)) != (b = root(b))) g.group[std::max(a, b)] = std::min(a, b);
    for (Index n = 0; n < g.nodes(); ++n) g.group[n] = root(n);
    return g;
  }

 private:
  Index make(Index producer, source from, std::size_t bytes) {
    g_.producer.push_back(producer);
    g_.from.push_back(from);
    g_.bytes.push_back(bytes);
    return static_cast<Index>(g_.values() - 1);
  }

  static void list_users(basic_snapshot_arrays<Index>& g) {
    std::vector<std::vector<Index>> users(g.values());
    for (Index n = 0; n < g.nodes(); ++n)
      for (Index const v : g.operands[n])
        if (users[v].empty() || users[v].back() != n) users[v].push_back(n);
    for (auto const& list : users) {
      for (Index const n : list) g.users.add(n);
      g.users.close();
    }
  }

  basic_snapshot_arrays<Index> g_;
  std::vector<std::pair<Index, Index>> after_, ties_;
};

using snapshot_builder = basic_snapshot_builder<>;

}  // namespace cleave::testing
