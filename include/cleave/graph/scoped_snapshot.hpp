// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/joined_sets.hpp"
#include "cleave/graph/scopes.hpp"

namespace cleave::detail {

/// A scope that each stage enters anew needs a value that only one stage makes. The witness: the node that
/// reads it.
class scope_operand_error : public witness_error<std::size_t> {
 public:
  scope_operand_error(std::size_t n, std::string const& node, std::string const& scope)
      : witness_error("scope " + quoted(scope) + ": node " + node +
                          " reads what another node makes, so it cannot be copied into other stages; read "
                          "inputs and constants only, or let the scope be forbid or extend",
                      n) {}
};

/// Whether node `n` runs under `x`: between its two ends, or as one of them; the node that sets a state anew
/// is not under the old one.
template <std::unsigned_integral Index>
bool is_under(basic_scope<Index> const& x, std::size_t n) {
  return x.first <= n && (x.last == none<Index> || n < x.last || (n == x.last && !x.is_set));
}

/// Writes scopes into a snapshot; `with_scopes` is its one use.
template <class Snapshot>
class scope_teller {
 public:
  using Index = typename Snapshot::index_type;

  scope_teller(Snapshot& s, basic_scopes<Index> const& scopes) : s_(s), scopes_(scopes) {}

  void run() {
    for (std::size_t n = 0; n < s_.nodes() && !s_.replicable.empty(); ++n)
      if (scopes_.is_mark(n)) s_.replicable[n] = 0;
    keep_tokens_inside();
    keep_open_scopes_in_order();
    keep_forbidden_scopes_whole();
  }

 private:
  /// What an entry makes is at hand wherever its scope is: it is not read across stages.
  void keep_tokens_inside() {
    csr<Index> operands;
    operands.first.reserve(s_.nodes() + 1);
    operands.item.reserve(s_.operands.item.size());
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      for (Index const v : s_.operands[n]) {
        if (is_token(v, n)) continue;
        if (scopes_.is_mark(n) && s_.producer[v] != none<Index> && !is_replicable(s_, s_.producer[v]))
          if (auto const& x = scopes_.list[scopes_.at[n]]; scopes_.policy(x) == scope_policy::replicate)
            throw scope_operand_error(n, s_.label(n), scopes_.kinds[x.kind].name);
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

  /// A node follows the last mark of each kind that stays open across stages, and the mark all nodes before.
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
    joined_sets<Index> sets(s_.nodes());
    for (std::size_t n = 0; n < s_.group.size(); ++n) sets.join(n, s_.group[n]);
    std::size_t done = 0, leader = 0;  // nodes below `done` are joined; `leader` with the last of them
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

/// `s` with its scopes told in terms that every algorithm knows: what an entry makes is no value for others,
/// a forbidden scope is a group, and `after` keeps the order that scopes which stay open across stages need.
/// Values, nodes and slots keep their numbers. O(V + E), times the kinds that extend.
/// \throws scope_operand_error
template <class Snapshot>
Snapshot with_scopes(Snapshot s, basic_scopes<typename Snapshot::index_type> const& scopes) {
  if (!scopes.list.empty()) scope_teller<Snapshot>(s, scopes).run();
  return s;
}

}  // namespace cleave::detail
