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
#include "cleave/core/expects.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/disjoint_sets.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

/// Scopes: state around operations that no value shows, such as autocast, gradient mode, profiler ranges,
/// device guards or locks. Nodes enter and leave a scope, or set a state until the next node sets it.
namespace cleave::inline v0_2 {

/// The treatment of a scope whose nodes are cut apart.
enum class scope_policy : std::uint8_t {
  replicate,  ///< each stage enters and leaves the scope itself, or sets the state itself
  forbid,     ///< the scope must not be cut: its nodes share a part
  extend,     ///< the scope stays open across stages, which keep the order that this requires
};

/// A kind of scope: its name in messages, and its treatment if it is cut.
struct scope_kind {
  std::string name;
  scope_policy across = scope_policy::replicate;
};

/// The action of a mark.
enum class scope_action : std::uint8_t { enter, leave, set };

/// The effect of a node on the state of the nodes after it. Kinds are independent of each other. Within a
/// kind, entered scopes are independent of set states.
template <class Node>
struct scope_mark {
  scope_action what = scope_action::enter;
  std::uint32_t kind = 0;            ///< index of the kind
  std::optional<Node> entered = {};  ///< for `leave`: the entry of the scope; nothing: the innermost scope
};

/// A scope: the nodes from `first` to `last`, in program order. `last` is the exit, or the next node that
/// sets the state of this kind, or none if nothing ends the scope.
template <std::unsigned_integral Index>
struct basic_scope {
  std::uint32_t kind;
  Index first, last;
  bool is_set;  ///< true if `first` sets a state, false if it enters a scope
};

/// The scopes of a graph, by node positions.
template <std::unsigned_integral Index>
struct basic_scopes {
  std::vector<scope_kind> kinds;
  std::vector<basic_scope<Index>> list;  ///< ordered by first node
  std::vector<Index> at;  ///< of a node: the scope it enters, exits or sets, or none; empty: no node does

  bool is_mark(std::size_t n) const { return !at.empty() && at[n] != none<Index>; }
  scope_policy policy(basic_scope<Index> const& x) const { return kinds[x.kind].across; }
  /// Returns true if each stage opens `x` itself.
  bool is_copied(basic_scope<Index> const& x) const { return policy(x) != scope_policy::extend; }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A node that enters a scope which no node leaves, or leaves a scope which is not open.
struct unpaired_scope {
  enum class kind : std::uint8_t { never_left, not_entered, left_twice };
  kind what;
  std::size_t node;

  bool operator==(unpaired_scope const&) const = default;
};

using unpaired_scope_error = witness_error<unpaired_scope>;

/// Returns the part of a message that says what `node`, given by its label, does to a scope.
inline std::string unpaired_scope_text(unpaired_scope::kind what, std::string const& node) {
  if (what == unpaired_scope::kind::never_left) return "node " + node + " enters it and no node leaves it";
  if (what == unpaired_scope::kind::left_twice) return "node " + node + " leaves it a second time";
  return "node " + node + " leaves it, but no earlier node has entered it";
}

/// Pairs entries and exits node by node, for `scopes_of` and `find_unpaired_scope`.
template <std::unsigned_integral Index>
class scope_reader {
 public:
  scope_reader(std::size_t nodes, std::vector<scope_kind> kinds) : nodes_(nodes) {
    open_.resize(kinds.size());
    set_.assign(kinds.size(), none<Index>);
    scopes_.kinds = std::move(kinds);
  }

  void read(std::size_t n, scope_mark<Index> const& mark) {
    expects(mark.kind < scopes_.kinds.size(), "a mark of one of the kinds");
    if (scopes_.at.empty()) scopes_.at.assign(nodes_, none<Index>);
    auto const at = static_cast<Index>(n);
    if (mark.what == scope_action::leave) return leave(at, mark);
    auto const scope = static_cast<Index>(scopes_.list.size());
    bool const sets = mark.what == scope_action::set;
    if (sets) {
      if (auto const before = std::exchange(set_[mark.kind], scope); before != none<Index>)
        scopes_.list[before].last = at;
    } else {
      open_[mark.kind].push_back(scope);
    }
    scopes_.list.push_back({mark.kind, at, none<Index>, sets});
    scopes_.at[n] = scope;
  }

  std::optional<unpaired_scope> const& fault() const { return fault_; }
  std::uint32_t kind_of_fault() const { return kind_; }

  /// Returns the scopes. If there is no fault yet, the first scope that is never left becomes the fault.
  basic_scopes<Index> finish() {
    for (auto const& scope : scopes_.list)
      if (!scope.is_set && scope.last == none<Index>)
        report(unpaired_scope::kind::never_left, scope.first, scope.kind);
    return std::move(scopes_);
  }

 private:
  void leave(Index at, scope_mark<Index> const& mark) {
    using enum unpaired_scope::kind;
    auto& open = open_[mark.kind];
    auto scope = open.empty() ? none<Index> : open.back();
    if (mark.entered) scope = *mark.entered < at ? scopes_.at[*mark.entered] : none<Index>;
    bool const entered = scope != none<Index> && scopes_.list[scope].kind == mark.kind &&
                         !scopes_.list[scope].is_set &&
                         (!mark.entered || scopes_.list[scope].first == *mark.entered);
    if (!entered) return report(not_entered, at, mark.kind);
    if (scopes_.list[scope].last != none<Index>) return report(left_twice, at, mark.kind);
    scopes_.list[scope].last = at;
    scopes_.at[at] = scope;
    open.erase(std::find(open.rbegin(), open.rend(), scope).base() - 1);
  }

  void report(enum unpaired_scope::kind what, std::size_t node, std::uint32_t kind) {
    if (fault_) return;
    fault_ = {what, node};
    kind_ = kind;
  }

  std::size_t nodes_;
  basic_scopes<Index> scopes_;
  std::vector<std::vector<Index>> open_;  // of a kind: its open scopes
  std::vector<Index> set_;                // of a kind: the scope of the last setting
  std::optional<unpaired_scope> fault_;
  std::uint32_t kind_ = 0;
};

/// Reads the marks of a graph. `mark(n)` returns the mark at position `n` as an optional `scope_mark<Index>`.
template <std::unsigned_integral Index, class F>
  requires std::invocable<F&, std::size_t>
scope_reader<Index> read_scopes(basic_snapshot_arrays<Index> const& s, std::vector<scope_kind> kinds,
                                F mark) {
  scope_reader<Index> reader(s.nodes(), std::move(kinds));
  for (std::size_t n = 0; n < s.nodes() && !reader.fault(); ++n)
    if (std::optional<scope_mark<Index>> const m = mark(n)) reader.read(n, *m);
  return reader;
}

/// Returns the first node that enters a scope which no node leaves, or leaves a scope which is not open, or
/// nothing. O(V).
template <std::unsigned_integral Index, class F>
std::optional<unpaired_scope> find_unpaired_scope(basic_snapshot_arrays<Index> const& s,
                                                  std::vector<scope_kind> kinds, F mark) {
  auto reader = read_scopes(s, std::move(kinds), std::move(mark));
  reader.finish();
  return reader.fault();
}

/// Returns the scopes of a graph, of any kinds that the user defines. `mark(n)` returns the mark at position
/// `n` as an optional `scope_mark<Index>`. Scopes may nest and overlap. O(V).
/// \throws unpaired_scope_error if a scope is never left, or a node leaves a scope that is not open
template <std::unsigned_integral Index, class F>
basic_scopes<Index> scopes_of(basic_snapshot_arrays<Index> const& s, std::vector<scope_kind> kinds, F mark) {
  auto const names = kinds;
  auto reader = read_scopes(s, std::move(kinds), std::move(mark));
  auto scopes = reader.finish();
  if (auto const& fault = reader.fault())
    raise(unpaired_scope_error("scope " + quoted(names[reader.kind_of_fault()].name) + ": " +
                                   unpaired_scope_text(fault->what, s.label(fault->node)),
                               *fault));
  return scopes;
}

/// Returns the scopes of a user's graph. `mark(node)` takes and returns handles: an optional `scope_mark` of
/// nodes.
template <class Graph, std::unsigned_integral Index, class F>
basic_scopes<Index> scopes_of(snapshot<Graph, Index> const& s, std::vector<scope_kind> kinds, F mark) {
  auto const by_position = [&](std::size_t n) -> std::optional<scope_mark<Index>> {
    std::optional<scope_mark<node_t<Graph>>> const m = mark(s.node[static_cast<Index>(n)]);
    if (!m) return std::nullopt;
    scope_mark<Index> here{m->what, m->kind};
    if (m->entered) here.entered = s.node.find(*m->entered);
    return here;
  };
  return scopes_of(static_cast<basic_snapshot_arrays<Index> const&>(s), std::move(kinds), by_position);
}

/// Thrown if a scope that each stage enters itself reads a value that only one stage makes. The witness is
/// the node that reads the value.
using scope_operand_error = tagged_error<struct scope_operand_tag, std::size_t>;

/// Returns true if node `n` runs under `x`: between its two ends, or as one of them. A node that sets a new
/// state is not under the old one.
template <std::unsigned_integral Index>
bool is_under(basic_scope<Index> const& x, std::size_t n) {
  return x.first <= n && (x.last == none<Index> || n < x.last || (n == x.last && !x.is_set));
}

/// Encodes scopes in a snapshot, for `add_scopes`.
template <class Snapshot>
class scope_describer {
 public:
  using Index = typename Snapshot::index_type;

  scope_describer(Snapshot& s, basic_scopes<Index> const& scopes) : s_(s), scopes_(scopes) {}

  void run() {
    for (std::size_t n = 0; n < s_.nodes() && !s_.replicable.empty(); ++n)
      if (scopes_.is_mark(n)) s_.replicable[n] = 0;
    keep_tokens_inside();
    keep_open_scopes_in_order();
    keep_forbidden_scopes_whole();
  }

 private:
  /// Removes the results of entries (tokens) from the operands of nodes in their scopes. A token is available
  /// wherever its scope is open, so stages do not send it.
  void keep_tokens_inside() {
    csr<Index> operands;
    operands.first.reserve(s_.nodes() + 1);
    operands.item.reserve(s_.operands.item.size());
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      for (Index const v : s_.operands[n]) {
        if (is_token(v, n)) continue;
        if (scopes_.is_mark(n) && s_.producer[v] != none<Index> && !is_replicable(s_, s_.producer[v]))
          if (auto const& x = scopes_.list[scopes_.at[n]]; scopes_.policy(x) == scope_policy::replicate)
            raise(scope_operand_error(
                "scope " + quoted(scopes_.kinds[x.kind].name) + ": node " + s_.label(n) +
                    " reads a value that another node makes, so it cannot be copied into other stages; read "
                    "only inputs and constants, or give the scope the policy forbid or extend",
                n));
        operands.add(v);
      }
      operands.close();
    }
    s_.operands = std::move(operands);
    s_.users = users_of(s_.operands, s_.values());
  }

  bool is_token(Index v, std::size_t reader) const {
    Index const m = s_.producer[v];
    if (m == none<Index> || !scopes_.is_mark(m)) return false;
    auto const& x = scopes_.list[scopes_.at[m]];
    return x.first == m && scopes_.is_copied(x) && is_under(x, reader);
  }

  /// Makes each node follow the last mark of each kind that extends, and each such mark follow all nodes
  /// before it.
  void keep_open_scopes_in_order() {
    auto const extends = [](scope_kind const& k) { return k.across == scope_policy::extend; };
    if (std::ranges::none_of(scopes_.kinds, extends)) return;
    std::vector<std::size_t> begin(scopes_.kinds.size());  // of a kind: its last mark, or the first node
    csr<Index> after;
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      for (Index const m : s_.after[n]) after.add(m);
      for (std::uint32_t k = 0; k < begin.size() && !is_replicable(s_, n); ++k) {
        if (!extends(scopes_.kinds[k])) continue;
        if (is_mark_of(k, n))
          for (; begin[k] < n; ++begin[k]) after.add(static_cast<Index>(begin[k]));
        else if (begin[k] < n && is_mark_of(k, begin[k]))
          after.add(static_cast<Index>(begin[k]));
      }
      after.close();
    }
    s_.after = std::move(after);
  }

  bool is_mark_of(std::uint32_t kind, std::size_t n) const {
    return scopes_.is_mark(n) && scopes_.list[scopes_.at[n]].kind == kind;
  }

  void keep_forbidden_scopes_whole() {
    disjoint_sets<Index> sets(s_.nodes());
    for (std::size_t n = 0; n < s_.group.size(); ++n) sets.join(n, s_.group[n]);
    std::size_t done = 0, leader = 0;  // nodes below `done` are joined, the last of them with `leader`
    bool any = false;
    for (auto const& x : scopes_.list) {
      if (scopes_.policy(x) != scope_policy::forbid) continue;
      if (x.first >= done) leader = x.first;
      for (done = std::max<std::size_t>(done, x.first); done < s_.nodes() && is_under(x, done); ++done)
        if (!is_replicable(s_, done)) sets.join(done, leader);
      any = true;
    }
    if (!any) return;
    s_.group.resize(s_.nodes());
    for (std::size_t n = 0; n < s_.nodes(); ++n) s_.group[n] = sets[n];
  }

  Snapshot& s_;
  basic_scopes<Index> const& scopes_;
};

/// Returns `s` with its scopes expressed in terms that every algorithm knows. The result of an entry is no
/// operand of the nodes in its scope. A scope that must not be cut is a group. `after` keeps the order that
/// scopes need which stay open across stages. Values, nodes and slots keep their numbers. O(V + E), times the
/// number of kinds that extend.
/// \throws scope_operand_error if a scope that stages enter themselves reads a value that only one stage
/// makes
template <class Snapshot>
Snapshot add_scopes(Snapshot s, basic_scopes<typename Snapshot::index_type> const& scopes) {
  if (!scopes.list.empty()) scope_describer<Snapshot>(s, scopes).run();
  return s;
}

}  // namespace cleave::detail
