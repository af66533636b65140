// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/check_rungs.hpp"
#include "cleave/graph/components.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/part_graph.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/partition/units/label_runs.hpp"
#include "cleave/partition/units/moved_rows.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave {

/// What becomes of parts that need each other in a cycle. Parts that lie on none stay as they are.
enum class cycle_policy : std::uint8_t {
  refuse,  ///< an error, with a short cycle
  cut,     ///< they are cut into instances, as few as can be found
  merge,   ///< all that need each other become one
  move,    ///< nodes go to others among them, as few as can be found; each part keeps some
};

/// A node that the policy put elsewhere.
struct moved_node {
  std::size_t node;
  part_id from, to;

  bool operator==(moved_node const&) const = default;
};

/// A partition whose parts can be ordered, and what was done to another one to get there.
struct acyclic_partition {
  partition parts;
  /// Of a part: those that it was before, ascending: one, unless some were merged. A part that was cut keeps
  /// its number for its first instance; the others come after all parts, in an order in which they can run.
  detail::csr<std::uint32_t> made_of;
  std::vector<moved_node> moved;  ///< ascending
  std::size_t new_cuts = 0;       ///< instances beyond one a part
  std::size_t least_cuts = 0;  ///< no way to cut has fewer; the same as `new_cuts` where the search proves it
};

}  // namespace cleave

namespace cleave::detail {

/// Makes a partition acyclic; `acyclic_parts` is its one use. Companions count as needed by all readers of
/// their value: which of them will cross is not known before the parts are.
template <std::unsigned_integral Index>
class part_cycle_breaker {
 public:
  part_cycle_breaker(basic_dense<Index> const& s, partition const& p) : s_(s), units_(units_of(s)) {
    result_.parts = p;
  }

  acyclic_partition merge() && {
    auto const needs = part_graph_of(s_, parts()).dependents;
    auto const component = components_of(needs);
    std::vector<std::uint32_t> number(parts().parts, index(no_part)), of(parts().parts);
    std::uint32_t count = 0;
    for (std::uint32_t i = 0; i < parts().parts; ++i) {
      auto& n = number[component[i]];
      if (n == index(no_part)) n = count++;
      of[i] = n;
    }
    csr<std::uint32_t> joined;
    for (auto const n : of) joined.add(n), joined.close();
    result_.made_of = users_of(joined, count);
    for (auto& part : parts().of)
      if (part != no_part) part = part_id{of[index(part)]};
    parts().parts = count;
    return std::move(result_);
  }

  acyclic_partition cut() && {
    label_units();
    auto const before = parts().parts;
    std::vector<std::uint32_t> instance_of;
    each_tangle([&](tangle const& t) {
      for (Index const u : t.unit)
        for (Index const n : units_.members[u])
          if (index(parts().of[n]) != label_[u]) refuse_cut(n, units_.members[u].front());
      auto const runs = fewest_label_runs(t.needs, t.label, narrow<Index>(t.part.size()));
      result_.least_cuts += runs.least - t.part.size();
      std::vector<char> met(t.part.size());
      for (std::size_t i = 0; i < runs.label.size(); ++i) {
        auto const part = t.part[runs.label[i]];
        if (!std::exchange(met[runs.label[i]], 1)) continue;  // the first instance keeps the number
        auto const added = part_id{before + narrow<std::uint32_t>(instance_of.size())};
        instance_of.push_back(part);
        for (Index const row : runs.rows[i])
          for (Index const n : units_.members[t.unit[row]]) parts().of[n] = added;
      }
    });
    result_.new_cuts = instance_of.size();
    parts().parts = before + narrow<std::uint32_t>(instance_of.size());
    if (auto const cycle = find_cycle_between_parts(s_, parts()))
      refuse_cut(cycle->front().producer, cycle->front().consumer);
    keep_numbers(before);
    for (auto const part : instance_of) result_.made_of.add(part), result_.made_of.close();
    return std::move(result_);
  }

  acyclic_partition move() && {
    label_units();
    auto const before = parts().of;
    for (Index u = 0; u < units_.size(); ++u)
      for (Index const n : units_.members[u]) parts().of[n] = part_id{label_[u]};
    each_tangle([&](tangle const& t) {
      std::vector<std::size_t> nodes;
      for (Index const u : t.unit) nodes.push_back(units_.members[u].size());
      auto const to = fewest_moved_rows(t.needs, t.label, narrow<Index>(t.part.size()), nodes);
      for (std::size_t row = 0; row < to.size(); ++row)
        for (Index const n : units_.members[t.unit[row]]) parts().of[n] = part_id{t.part[to[row]]};
    });
    for (std::size_t n = 0; n < before.size(); ++n)
      if (parts().of[n] != before[n]) result_.moved.push_back({n, before[n], parts().of[n]});
    keep_numbers(parts().parts);
    return std::move(result_);
  }

  acyclic_partition keep() && {
    keep_numbers(parts().parts);
    return std::move(result_);
  }

 private:
  /// Parts that need each other, as a table: a row a unit, labels instead of parts.
  struct tangle {
    std::vector<std::uint32_t> part;  ///< of a label
    std::vector<Index> unit, label;   ///< of a row
    csr<Index> needs;
  };

  partition& parts() { return result_.parts; }

  /// The part of each unit: that of most of its nodes.
  void label_units() {
    std::vector<std::size_t> votes(parts().parts);
    for (Index u = 0; u < units_.size(); ++u) {
      auto most = index(parts().of[units_.members[u].front()]);
      for (Index const n : units_.members[u])
        if (auto const part = index(parts().of[n]); ++votes[part] > votes[most]) most = part;
      for (Index const n : units_.members[u]) votes[index(parts().of[n])] = 0;
      label_.push_back(most);
    }
  }

  [[noreturn]] void refuse_cut(std::size_t a, std::size_t b) const {
    throw partition_error(
        "parts on a cycle cannot be cut into instances: " + s_.label(a) + " and " + s_.label(b) +
            " are in different parts, and one lies between nodes that must share the other's; "
            "merge the parts or move nodes",
        {a, b});
  }

  /// Calls `f` with each tangle.
  template <class F>
  void each_tangle(F f) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (Index u = 0; u < units_.size(); ++u)
      for (Index const m : units_.needs[u])
        if (label_[m] != label_[u]) edges.emplace_back(label_[u], label_[m]);
    auto const component = components_of(rows_of(parts().parts, edges));
    if (component.empty()) return;
    csr<std::uint32_t> parts_in, units_in;
    for (auto const c : component) parts_in.add(c), parts_in.close();
    for (auto const l : label_) units_in.add(component[l]), units_in.close();
    auto const part = users_of(parts_in, component.size()), unit = users_of(units_in, component.size());
    std::vector<Index> row(units_.size(), none<Index>);
    std::vector<std::uint32_t> label(parts().parts);
    for (std::size_t c = 0; c < component.size(); ++c) {
      if (part[c].size() < 2) continue;
      tangle t;
      for (auto const i : part[c]) label[i] = static_cast<std::uint32_t>(t.part.size()), t.part.push_back(i);
      for (auto const u : unit[c]) {
        row[u] = static_cast<Index>(t.unit.size());
        t.unit.push_back(static_cast<Index>(u));
        t.label.push_back(static_cast<Index>(label[label_[u]]));
      }
      for (Index const u : t.unit) {
        for (Index const m : units_.needs[u])
          if (component[label_[m]] == c) t.needs.add(row[m]);
        t.needs.close();
      }
      f(t);
    }
  }

  void keep_numbers(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) result_.made_of.add(i), result_.made_of.close();
  }

  basic_dense<Index> const& s_;
  unit_graph<Index> units_;
  std::vector<std::uint32_t> label_;  // of a unit
  acyclic_partition result_;
};

}  // namespace cleave::detail

namespace cleave {

/// `p` with its parts made acyclic as the policy says; `p` itself, where it has no cycle. To cut with the
/// fewest instances and to move the fewest nodes are NP-hard: cuts are proven the fewest where `least_cuts`
/// says so, moves never are, but in the order of parts that it found no moved node could go back alone.
/// Expected O((V + E) log V + parts log parts) and a bounded search.
///
/// \throws partition_error as check_partition does, of cycles only under `refuse`; under `cut` also where a
/// part lies between nodes that must share another.
template <std::unsigned_integral Index>
acyclic_partition acyclic_parts(basic_dense<Index> const& s, partition const& p, cycle_policy policy) {
  policy == cycle_policy::refuse ? check_partition(s, p) : detail::check_assignment(s, p);
  detail::part_cycle_breaker<Index> breaker(s, p);
  if (policy == cycle_policy::refuse || !detail::find_cycle_between_parts(s, p)) return std::move(breaker).keep();
  return policy == cycle_policy::cut     ? std::move(breaker).cut()
         : policy == cycle_policy::merge ? std::move(breaker).merge()
                                         : std::move(breaker).move();
}

/// The same for a graph. \throws what snapshot_of throws, too.
template <dataflow_graph Graph>
acyclic_partition acyclic_parts(Graph const& g, partition const& p, cycle_policy policy) {
  return detail::with_snapshot(g, [&](auto const& s) { return acyclic_parts(s, p, policy); });
}

template <detail::unfinished_graph Graph>
detail::refused acyclic_parts(Graph const&, partition const&, cycle_policy) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave
