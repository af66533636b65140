// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/model/validity.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/split.hpp"

namespace cleave::inline v0_2::detail {

/// The treatment of a value that is read in a part other than its producer's.
enum class crossing_rule : std::uint8_t {
  pass,       ///< the value is sent
  project,    ///< nodes that take an element of the value move to its producer's part; only elements are sent
  recompute,  ///< the producer is copied to each part that reads the value
  refuse,     ///< an error is thrown
};

/// The owner of a state value or a constant.
enum class holding_rule : std::uint8_t {
  hold,  ///< each stage that reads the value has a copy
  pass,  ///< the caller has the value once and passes it to each stage that reads it
  lift,  ///< the stage that reads the value, if there is only one; otherwise the caller
};

/// Thrown if a value may not cross a boundary, or not in the way that its rule demands. The witness is its
/// producer and a reader in another part.
using boundary_error = witness_error<dependency>;

/// Thrown if the caller is to pass a state that a node writes, since the caller would not get the new value
/// back. The witness is the value.
using holding_error = tagged_error<struct holding_tag, std::size_t>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A snapshot and a partition after the boundary rules have been applied, ready for `make_plan`.
template <class Snapshot>
struct resolved_boundary {
  Snapshot s;
  partition parts;
  std::vector<std::size_t> projected;   ///< nodes that moved to their operand's producer, ascending
  std::vector<std::size_t> recomputed;  ///< nodes that became replicable, ascending
  std::vector<std::size_t> passed;      ///< states and constants that became inputs, ascending
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Applies the rules of `resolve_boundary`.
template <class Snapshot, class Crossing, class Projects, class Holding>
class boundary_resolver {
 public:
  using Index = typename Snapshot::index_type;

  boundary_resolver(Snapshot const& s, partition const& p, Crossing& crossing, Projects& projects,
                    Holding& holding)
      : out_{s, p, {}, {}, {}},
        crossing_(crossing),
        projects_(projects),
        holding_(holding),
        rules_(s.values()) {}

  resolved_boundary<Snapshot> settle() {
    for (std::size_t n = 0; n < s().nodes(); ++n)
      for (Index const v : s().results[n]) project(v);
    s().replicable.resize(s().nodes());
    for (std::size_t n = s().nodes(); n-- > 0;) recompute(n);
    std::reverse(out_.recomputed.begin(), out_.recomputed.end());
    assign_states();
    return std::move(out_);
  }

 private:
  Snapshot& s() { return out_.s; }
  part_id part(std::size_t n) const { return out_.parts.of[n]; }
  std::string label(std::size_t n) {
    return is_replicable(s(), n) ? "copies of " + s().label(n) : part_label(s(), out_.parts, n);
  }

  [[noreturn]] void refuse(std::size_t producer, std::size_t reader, std::string const& why) {
    raise(boundary_error("value of " + label(producer) + ", which " + label(reader) + " reads: " + why,
                         {producer, reader}));
  }

  /// Returns a reader of `v` outside its producer's part, or nothing. A copy counts as outside, since it can
  /// be anywhere.
  std::optional<Index> reader_elsewhere(Index v) {
    for (Index const n : s().users[v])
      if (is_replicable(s(), n) || part(n) != part(s().producer[v])) return n;
    return std::nullopt;
  }

  /// Returns the user's rule for `v`, asking once for each value.
  crossing_rule rule(Index v) {
    if (!rules_[v]) rules_[v] = crossing_(std::size_t{v});
    return *rules_[v];
  }

  /// True if `n` has no group and no node that it must follow, so that it can be moved or copied.
  bool is_free(std::size_t n) {
    if (group_size_.empty() && !s().group.empty()) {
      group_size_.resize(s().nodes());
      for (Index const m : s().group) ++group_size_[m];
    }
    return s().after[n].empty() && (s().group.empty() || group_size_[s().group[n]] == 1);
  }

  void project(Index v) {
    auto const m = s().producer[v];
    if (is_replicable(s(), m) || !reader_elsewhere(v) || rule(v) != crossing_rule::project) return;
    for (Index const n : s().users[v]) {
      if (part(n) == part(m)) continue;
      auto const made = [&](Index operand) {
        Index const by = s().producer[operand];
        return by != none<Index> && by != m && !is_replicable(s(), by);
      };
      if (!projects_(std::size_t{n}) || std::ranges::any_of(s().operands[n], made))
        refuse(m, n, "only elements of the value may cross, but the reader needs the whole value");
      if (!is_free(n))
        refuse(m, n,
               "the reader would have to move to the producer's part, but it is in a group or must follow "
               "other nodes");
      out_.parts.of[n] = part(m);
      out_.projected.insert(std::ranges::upper_bound(out_.projected, std::size_t{n}), n);
    }
  }

  /// Copies node `n` if a rule demands it. To be called from the last node to the first, since a copy must
  /// find its operands wherever it is.
  void recompute(std::size_t n) {
    if (is_replicable(s(), n)) return;
    for (Index const v : s().results[n]) {
      auto const reader = reader_elsewhere(v);
      if (!reader) continue;
      auto const r = rule(v);
      if (r == crossing_rule::refuse)
        refuse(n, *reader, "the value may not cross a boundary; put producer and reader in one part");
      if (r == crossing_rule::recompute) {
        copy(n, *reader);
        return;
      }
      for (Index const user : s().users[v])
        if (is_replicable(s(), user))
          refuse(n, user,
                 "the reader is recomputed in other parts, but the value that it reads is not; let both be "
                 "recomputed");
    }
  }

  void copy(std::size_t n, Index reader) {
    auto const overwritten = [&](Index v) { return s().latest[s().slot[v]] != v; };
    auto const accompanied = [&](Index v) { return !s().companions[v].empty(); };
    if (!is_free(n) || std::ranges::any_of(s().operands[n], overwritten) ||
        std::ranges::any_of(s().results[n], overwritten))
      refuse(n, reader,
             "its producer cannot be copied: it is in a group, must follow other nodes, or reads or writes "
             "memory that is overwritten");
    if (std::ranges::any_of(s().operands[n], accompanied))
      refuse(n, reader, "its producer cannot be copied: a value that it reads has companions");
    s().replicable[n] = 1;
    if (!s().weight.empty()) s().weight[n] = 0;
    out_.recomputed.push_back(n);
  }

  /// Returns the number of parts that read each value that no node makes: 0, 1, or 2 for more. Copies are in
  /// the parts that read them.
  std::vector<std::uint8_t> count_reading_parts() {
    std::vector<part_id> first(s().values(), no_part);  // by value: one part that reads it
    std::vector<std::uint8_t> count(s().values());
    std::vector<char> given(s().values());
    for (Index const v : s().outputs) given[v] = 1;
    auto const read = [&](Index v, part_id by) {
      if (count[v] == 0) first[v] = by, count[v] = 1;
      if (first[v] != by) count[v] = 2;
    };
    for (std::size_t n = s().nodes(); n-- > 0;) {
      bool own = !is_replicable(s(), n);  // the node is in its own part
      bool unread = true;
      for (Index const r : s().results[n]) own |= given[r] != 0, unread &= count[r] == 0;
      for (Index const v : s().operands[n]) {
        if (own || unread) read(v, part(n));
        for (Index const r : s().results[n]) {  // copies are in the parts that read these results
          if (!is_replicable(s(), n)) break;
          if (count[r] > 0) read(v, first[r]);
          if (count[r] > 1) count[v] = 2;
        }
      }
    }
    return count;
  }

  void assign_states() {
    auto const readers = count_reading_parts();
    for (Index v = 0; v < s().values(); ++v) {
      if (!is_held(s().from[v]) || readers[v] == 0) continue;
      auto const r = holding_(std::size_t{v});
      if (r == holding_rule::hold || (r == holding_rule::lift && readers[v] == 1)) continue;
      if (s().latest[s().slot[v]] != v)
        raise(holding_error(
            "value #" + std::to_string(v) +
                " is state that a node writes, so the caller cannot pass it; let stages hold it",
            v));
      s().from[v] = source::input;
      out_.passed.push_back(v);
    }
  }

  resolved_boundary<Snapshot> out_;
  Crossing& crossing_;
  Projects& projects_;
  Holding& holding_;
  std::vector<std::optional<crossing_rule>> rules_;
  std::vector<std::size_t> group_size_;  // by first node of a group: number of its nodes
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Applies the user's rules to the values that cross the boundaries of `p`. Values and nodes are positions in
/// `s`, a snapshot.
///
/// Nodes that are recomputed may read only values from outside the graph or results of other copied nodes. If
/// the parts had a topological order, they still have one, unless companions of values that now cross forbid
/// it. O(V + E).
///
/// \param crossing `crossing(v)` returns the rule for value `v`. It is asked once for each value that is read
/// by a copy, or in a part other than its producer's.
/// \param projects `projects(n)` returns true if node `n` takes an element of the value that it reads
/// \param holding `holding(v)` returns the owner of `v`. It is asked once for each state and constant that a
/// part reads.
/// \throws partition_error as check_assignment does, boundary_error, holding_error
template <class Snapshot, class Crossing, class Projects, class Holding>
resolved_boundary<Snapshot> resolve_boundary(Snapshot const& s, partition const& p, Crossing crossing,
                                             Projects projects, Holding holding) {
  detail::check_assignment(s, p);
  return detail::boundary_resolver<Snapshot, Crossing, Projects, Holding>(s, p, crossing, projects, holding)
      .settle();
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Splits `g` under such rules, which are called with the graph's own nodes and values.
template <dataflow_graph Graph, class Crossing, class Projects, class Holding>
staged_graph<Graph> split_with_boundary(Graph const& g, partition const& p, Crossing crossing,
                                        Projects projects, Holding holding,
                                        plan_options const& options = {}) {
  auto const s = snapshot_of(g);
  auto settled = resolve_boundary(
      s, p, [&](std::size_t v) { return crossing(s.value[v]); },
      [&](std::size_t n) { return projects(s.node[static_cast<std::uint32_t>(n)]); },
      [&](std::size_t v) { return holding(s.value[v]); });
  auto cut = make_plan(settled.s, settled.parts, options);
  return {g, std::move(settled.s), std::move(cut)};
}
template <dataflow_graph Graph, class Crossing, class Projects, class Holding>
staged_graph<Graph> split_with_boundary(Graph const&& /* is gone when emit asks it: give it a name first */,
                                        partition const&, Crossing, Projects, Holding,
                                        plan_options const& = {}) = delete;

}  // namespace cleave::detail
