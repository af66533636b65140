// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/stage_text.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/program/rank_program.hpp"

/// Before the first step, ranks that were each given their own copy of the program check that the copies
/// match.
namespace cleave::inline v0_2::detail {

/// A rank's declaration of an edge that begins or ends at one of its stages.
struct edge_claim {
  std::uint32_t edge = 0;
  stage_id from{0}, to{0};
  edge_layout layout = {};

  bool operator==(edge_claim const&) const = default;
};

/// A rank's declaration of its program.
struct program_claim {
  program_digest digest;
  std::vector<edge_claim> edges;  ///< ascending by edge number

  bool operator==(program_claim const&) const = default;
};

/// A plan that can be compared between ranks, such as `step_plan`. `p.edges()` is a dataflow; code that only
/// runs programs need not include its header.
template <class P>
concept claimed_plan = requires(P const& p, stage_id s) {
  { p.digest() } -> std::convertible_to<program_digest>;
  { p.edges().edges.front().from } -> std::convertible_to<stage_id>;
  { p.layouts() } -> std::convertible_to<run_layouts const&>;
  { p.rank_of(s) } -> std::same_as<rank_id>;
};

/// Returns the declaration of rank `r`. O(edges).
program_claim claim_of(claimed_plan auto const& p, rank_id r) {
  program_claim made{p.digest(), {}};
  auto const here = [&](stage_id s) { return s != the_caller && p.rank_of(s) == r; };
  for (std::uint32_t e = 0; e < p.edges().edges.size(); ++e) {
    auto const& edge = p.edges().edges[e];
    if (here(edge.from) || here(edge.to)) made.edges.push_back({e, edge.from, edge.to, p.layouts().edges[e]});
  }
  return made;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Formats a layout: `f32[8, 3]`. The batch axis is marked with `*`. A `?` at the end means a dynamic shape.
inline std::string describe(edge_layout const& l) {
  auto text = std::string(name_of(l.type)) + "[";
  for (std::uint32_t a = 0; a < l.shape.axes; ++a)
    text += (a > 0 ? ", " : "") + std::to_string(l.shape.extents[a]) + (l.batch_axis == a ? "*" : "");
  return text + (l.extents == shape_kind::dynamic ? "]?" : "]") +
         (l.gradient == gradient_use::none     ? " without gradient"
          : l.gradient == gradient_use::packed ? " with a packed gradient"
                                               : "");
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Describes the first edge that both ranks know but declare differently, or returns nothing. O(edges log
/// edges).
inline std::optional<std::string> find_edge_disagreement(program_claim const& a, rank_id of_a,
                                                         program_claim const& b, rank_id of_b) {
  for (auto const& x : a.edges) {
    auto const y = std::ranges::lower_bound(b.edges, x.edge, {}, &edge_claim::edge);
    if (y == b.edges.end() || y->edge != x.edge || *y == x) continue;
    auto const edge = "edge #" + std::to_string(x.edge);
    if (x.from != y->from || x.to != y->to)
      return edge + " goes from " + stage_text(x.from) + " to " + stage_text(x.to) + " on rank " +
             std::to_string(index(of_a)) + ", but from " + stage_text(y->from) + " to " + stage_text(y->to) +
             " on rank " + std::to_string(index(of_b));
    return edge + " from " + stage_text(x.from) + " to " + stage_text(x.to) + " is " + describe(x.layout) +
           " on rank " + std::to_string(index(of_a)) + ", but " + describe(y->layout) + " on rank " +
           std::to_string(index(of_b)) + "; make both ends the same";
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Describes the first difference between the programs of two ranks, or returns nothing: `rank 2 has another
/// schedule than rank 0`.
inline std::optional<std::string> difference_of(detail::program_digest const& here, rank_id rank,
                                                detail::program_digest const& there, rank_id other) {
  if (here == there) return std::nullopt;
  auto const* const what = here.schedule != there.schedule   ? "another schedule"
                           : here.dataflow != there.dataflow ? "other edges between stages"
                           : here.layouts != there.layouts   ? "other types or shapes"
                                                             : "other options of calls (call_options)";
  return "rank " + std::to_string(index(rank)) + " has " + what + " than rank " +
         std::to_string(index(other)) + "; give all ranks the same";
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The first difference between the programs of two ranks.
struct disagreement {
  static constexpr char subject[] = "ranks disagree: ";
  std::string what;

  bool operator==(disagreement const&) const = default;
};

inline std::string describe(disagreement const& d) { return d.what; }

using disagreement_error = fault_error<disagreement>;

/// Checks that all claims match. `claims[r]` is from rank r. O(ranks * edges log edges).
/// \throws disagreement_error for the first difference; differences of edges take precedence, since they are
///   more specific
inline void require_agreement(std::span<program_claim const> claims) {
  for (std::uint32_t b = 1; b < claims.size(); ++b)
    for (std::uint32_t a = 0; a < b; ++a)
      if (auto what = find_edge_disagreement(claims[a], rank_id{a}, claims[b], rank_id{b}))
        throw disagreement_error({*std::move(what)});
  for (std::uint32_t b = 1; b < claims.size(); ++b)
    if (auto what = difference_of(claims[b].digest, rank_id{b}, claims[0].digest, rank_id{0}))
      throw disagreement_error({*std::move(what)});
}

/// Exchanges the plans' digests and edges between all ranks and compares them; all ranks find the same
/// differences. Collective: each of the `ranks` ranks of the rendezvous calls it before the first step, with
/// its own plan. `of_plan` is the caller's rank in the plan, `here` its rank on the rendezvous; with replicas
/// the two differ.
/// \throws disagreement_error on all ranks if the plans do not match; run_error if a rank is lost or late
template <collective_rendezvous B>
void agree_on_program(B& rendezvous, claimed_plan auto const& p, rank_id of_plan, rank_id here,
                      std::uint32_t ranks, std::chrono::steady_clock::time_point until) {
  std::vector<program_claim> claims(ranks);
  if (index(here) < ranks) claims[index(here)] = claim_of(p, of_plan);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    auto& claim = claims[r];
    std::uint64_t count = claim.edges.size();
    rendezvous.broadcast(std::as_writable_bytes(std::span(&claim.digest, 1)), rank_id{r}, until);
    rendezvous.broadcast(std::as_writable_bytes(std::span(&count, 1)), rank_id{r}, until);
    claim.edges.resize(static_cast<std::size_t>(count));
    rendezvous.broadcast(std::as_writable_bytes(std::span(claim.edges)), rank_id{r}, until);
  }
  require_agreement(claims);
}

}  // namespace cleave::detail
