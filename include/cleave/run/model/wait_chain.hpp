// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/failure.hpp"

/// Finds the rank responsible for a passed deadline. The rank that notices is rarely the one that hangs: it
/// waits for a rank that waits for another.
namespace cleave::inline v0_2::detail {

/// The answer of a rank that was asked for its activity. A smaller value makes the rank more likely the
/// culprit.
enum class activity_kind : std::uint8_t {
  silent,     ///< the rank did not answer
  gone,       ///< the rank has left, or was lost
  computing,  ///< a stage or other user code is running
  done,       ///< all its work has finished
  waiting,    ///< the rank waits for other ranks
};

/// The activity of a rank at one moment.
struct rank_activity {
  activity_kind kind = activity_kind::silent;
  std::vector<rank_id> peers = {};    ///< if waiting: all ranks that it waits for
  std::optional<stage_call> at = {};  ///< the stage being computed, or the one whose message is awaited
  std::string operation = {};         ///< current operation: `recv F3 stage 1<-0`

  bool operator==(rank_activity const&) const = default;
};

/// A chain of ranks, each waiting for the next. The last one is the culprit; in a deadlock it waits for the
/// first.
struct wait_chain {
  std::vector<rank_id> chain;
  bool deadlock = false;

  rank_id culprit() const { return deadlock ? no_rank : chain.back(); }
  bool operator==(wait_chain const&) const = default;
};

/// Follows the ranks that `from` waits for, directly and indirectly. Among the reached ranks that do not
/// wait, the culprit is the one with the smallest kind, ties by distance. If all of them wait, they wait in a
/// cycle: a deadlock. A rank that waits for no rank, or for an invalid one, counts as computing. O(ranks +
/// peers). Precondition: `from` is one of the ranks.
inline wait_chain find_culprit(std::span<rank_activity const> ranks, rank_id from) {
  expects(index(from) < ranks.size(), "find_culprit: one of the ranks");
  auto const peers_of = [&](rank_id r) {
    auto const& a = ranks[index(r)];
    bool const known = std::ranges::all_of(a.peers, [&](rank_id p) { return index(p) < ranks.size(); });
    return a.kind == activity_kind::waiting && known ? std::span(a.peers) : std::span<rank_id const>();
  };
  std::vector<rank_id> before(ranks.size(), no_rank), reached = {from};
  before[index(from)] = from;
  for (std::size_t i = 0; i < reached.size(); ++i)
    for (auto const p : peers_of(reached[i]))
      if (before[index(p)] == no_rank) {
        before[index(p)] = reached[i];
        reached.push_back(p);
      }

  auto const suspicion_of = [&](rank_id r) {  // candidates are in search order, so the nearest wins ties
    auto const kind = ranks[index(r)].kind;
    if (kind != activity_kind::waiting) return kind;
    return peers_of(r).empty() ? activity_kind::computing : kind;
  };
  auto const worst = *std::ranges::min_element(reached, {}, suspicion_of);
  wait_chain found;
  if (suspicion_of(worst) != activity_kind::waiting) {
    for (auto r = worst; r != from; r = before[index(r)]) found.chain.push_back(r);
    found.chain.push_back(from);
    std::ranges::reverse(found.chain);
    return found;
  }

  // All ranks wait, so following the first peer of each rank leads into a cycle.
  std::vector<bool> seen(ranks.size());
  auto r = from;
  for (; !seen[index(r)]; r = peers_of(r).front()) seen[index(r)] = true;
  found.deadlock = true;
  for (auto const first = r; found.chain.empty() || r != first; r = peers_of(r).front())
    found.chain.push_back(r);
  return found;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Formats an activity: `rank 2 computes stage 2 microbatch 5 (forward)`.
inline std::string describe(detail::rank_activity const& a, rank_id r) {
  auto text = "rank " + std::to_string(index(r));
  auto const doing = a.operation.empty() ? "" : " (" + a.operation + ")";
  switch (a.kind) {
    case detail::activity_kind::silent:
      return text + " does not answer";
    case detail::activity_kind::gone:
      return text + " is gone";
    case detail::activity_kind::done:
      return text + " has nothing left to do" + doing;
    case detail::activity_kind::computing:
      text += " computes";
      break;
    case detail::activity_kind::waiting:
      text += " waits";
      break;
  }
  if (a.at && a.kind == detail::activity_kind::computing)
    text += " stage " + std::to_string(index(a.at->stage)) + " microbatch " +
            std::to_string(index(a.at->microbatch));
  return text + doing;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Formats a chain: `rank 0 waits for rank 1 (recv B0 stage 0<-1), rank 1 computes stage 1 microbatch 0
/// (backward)`.
inline std::string describe(wait_chain const& b, std::span<rank_activity const> ranks) {
  std::string text = b.deadlock ? "deadlock: " : "";
  for (std::size_t i = 0; i < b.chain.size(); ++i) {
    auto const r = b.chain[i];
    auto const& a = ranks[index(r)];
    if (i > 0) text += ", ";
    bool const last = i + 1 == b.chain.size();
    if (last && !b.deadlock) {
      text += describe(a, r);
    } else {
      auto const next = b.chain[last ? 0 : i + 1];
      text += "rank " + std::to_string(index(r)) + " waits for rank " + std::to_string(index(next));
      if (!a.operation.empty()) text += " (" + a.operation + ")";
    }
  }
  return text;
}

/// Returns the timeout failure that all ranks report: the culprit, and the chain from `from` to it.
inline failure failure_of(wait_chain const& b, std::span<rank_activity const> ranks, rank_id from) {
  auto const& asked = ranks[index(from)];
  auto const& culprit_activity = ranks[index(b.chain.back())];
  failure f{failure_code::timeout, b.deadlock ? asked.at : culprit_activity.at, describe(b, ranks)};
  if (!f.at) f.at = asked.at;
  f.reporter = from;
  f.culprit = b.culprit();
  f.operation = asked.operation;
  return f;
}

}  // namespace cleave::detail
