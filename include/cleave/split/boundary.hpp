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

namespace cleave::detail {

/// What becomes of a value that other parts read than the one which makes it.
enum class crossing_rule : std::uint8_t {
  pass,       ///< it is sent
  project,    ///< the nodes that take an element of it come to its producer, and only elements are sent
  recompute,  ///< its producer is copied to each part that reads it
  refuse,     ///< an error
};

/// Who has a state or a constant.
enum class holding_rule : std::uint8_t {
  hold,  ///< each stage that reads it has its own
  pass,  ///< the caller has it, once, and passes it to each stage that reads it
  lift,  ///< the stage that reads it, if there is only one; else the caller
};

/// A value that may not cross, or not as its rule says. The witness: its producer and a reader elsewhere.
using boundary_error = witness_error<dependency>;

/// A state that is written cannot be passed by the caller, who would not get it back. The witness: the value.
using holding_error = tagged_error<struct holding_tag, std::size_t>;

}  // namespace cleave::detail

namespace cleave {

/// A snapshot and a partition in which the rules for the boundary are carried out: `make_plan` does the rest.
template <class Snapshot>
struct resolved_boundary {
  Snapshot s;
  partition parts;
  std::vector<std::size_t> projected;   ///< nodes that went to their operand's producer, ascending
  std::vector<std::size_t> recomputed;  ///< nodes that are copied from now on, ascending
  std::vector<std::size_t> passed;      ///< states and constants that the caller passes, ascending
};

}  // namespace cleave

namespace cleave::detail {

/// Carries out the rules; `resolve_boundary` is its one use.
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
    throw boundary_error("value of " + label(producer) + ", which " + label(reader) + " reads: " + why,
                         {producer, reader});
  }

  /// A reader of `v` that runs elsewhere: in another part, or, as a copy, anywhere.
  std::optional<Index> reader_elsewhere(Index v) {
    for (Index const n : s().users[v])
      if (is_replicable(s(), n) || part(n) != part(s().producer[v])) return n;
    return std::nullopt;
  }

  /// What the user says of `v`, who is asked once.
  crossing_rule rule(Index v) {
    if (!rules_[v]) rules_[v] = crossing_(std::size_t{v});
    return *rules_[v];
  }

  /// Whether `n` shares its part with nobody and follows nobody.
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
        refuse(m, n, "elements of it may cross, but that node reads it whole");
      if (!is_free(n)) refuse(m, n, "that node would have to come to it, and must stay where it is");
      out_.parts.of[n] = part(m);
      out_.projected.insert(std::ranges::upper_bound(out_.projected, std::size_t{n}), n);
    }
  }

  /// From the last node to the first: what a copy reads must be wherever the copy is.
  void recompute(std::size_t n) {
    if (is_replicable(s(), n)) return;
    for (Index const v : s().results[n]) {
      auto const reader = reader_elsewhere(v);
      if (!reader) continue;
      auto const r = rule(v);
      if (r == crossing_rule::refuse) refuse(n, *reader, "it may not cross a boundary");
      if (r == crossing_rule::recompute) {
        copy(n, *reader);
        return;
      }
      for (Index const user : s().users[v])
        if (is_replicable(s(), user))
          refuse(n, user, "that node is to be recomputed elsewhere, but not what it reads");
    }
  }

  void copy(std::size_t n, Index reader) {
    auto const overwritten = [&](Index v) { return s().latest[s().slot[v]] != v; };
    auto const accompanied = [&](Index v) { return !s().companions[v].empty(); };
    if (!is_free(n) || std::ranges::any_of(s().operands[n], overwritten) ||
        std::ranges::any_of(s().results[n], overwritten))
      refuse(n, reader, "its producer cannot be copied: it has effects or touches memory that is written");
    if (std::ranges::any_of(s().operands[n], accompanied))
      refuse(n, reader, "its producer cannot be copied: what it reads has companions");
    s().replicable[n] = 1;
    if (!s().weight.empty()) s().weight[n] = 0;
    out_.recomputed.push_back(n);
  }

  /// How many parts read a value that no node makes: 0, 1 or 2 for more. Copies are wherever they are read.
  std::vector<std::uint8_t> count_reading_parts() {
    std::vector<part_id> first(s().values(), no_part);  // of a value: a part that reads it
    std::vector<std::uint8_t> count(s().values());
    std::vector<char> given(s().values());
    for (Index const v : s().outputs) given[v] = 1;
    auto const read = [&](Index v, part_id by) {
      if (count[v] == 0) first[v] = by, count[v] = 1;
      if (first[v] != by) count[v] = 2;
    };
    for (std::size_t n = s().nodes(); n-- > 0;) {
      bool own = !is_replicable(s(), n);  // its part has it
      bool unread = true;
      for (Index const r : s().results[n]) own |= given[r] != 0, unread &= count[r] == 0;
      for (Index const v : s().operands[n]) {
        if (own || unread) read(v, part(n));
        for (Index const r : s().results[n]) {  // copies are where these are read
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
        throw holding_error("value #" + std::to_string(v) +
                                " is state that a node writes: stages hold it, the caller cannot pass it",
                            v);
      s().from[v] = source::input;
      out_.passed.push_back(v);
    }
  }

  resolved_boundary<Snapshot> out_;
  Crossing& crossing_;
  Projects& projects_;
  Holding& holding_;
  std::vector<std::optional<crossing_rule>> rules_;
  std::vector<std::size_t> group_size_;  // of a node that gives its group its number
};

}  // namespace cleave::detail

namespace cleave {

/// Carries out what is said of the values at a boundary. `crossing(v)` is asked once for each value that
/// parts other than its producer's read, or copies do; `projects(n)` says whether node n takes an element of
/// the value it reads; `holding(v)` is asked once for each state and constant that a part reads. Values and
/// nodes are positions in `s`, a snapshot. What is recomputed reads only what comes from outside the graph or
/// is copied too. Parts that had an order have one afterwards, unless companions of what crosses now forbid
/// it. O(V + E).
///
/// \throws partition_error as check_assignment does, boundary_error, holding_error
template <class Snapshot, class Crossing, class Projects, class Holding>
resolved_boundary<Snapshot> resolve_boundary(Snapshot const& s, partition const& p, Crossing crossing,
                                             Projects projects, Holding holding) {
  detail::check_assignment(s, p);
  return detail::boundary_resolver<Snapshot, Crossing, Projects, Holding>(s, p, crossing, projects, holding)
      .settle();
}

}  // namespace cleave

namespace cleave::detail {

/// `split` under such rules, which are asked with the graph's own nodes and values.
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
