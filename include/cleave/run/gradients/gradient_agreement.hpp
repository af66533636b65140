// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/program/program_agreement.hpp"
#include "cleave/schedule/model/placement.hpp"

/// Before the first step, ranks find out whether the gradients that they are to sum are alike. A transport
/// that is told no sizes would add up what does not belong together, or wait for ever.
namespace cleave::detail {

/// What a rank says of a gradient of one of its stages, or of all of them: how many there are.
struct gradient_claim {
  static constexpr std::uint32_t all = 0xffffffff;

  stage_gradient of;  ///< its number, or `all`
  element_type type = element_type::f32;
  std::uint64_t count = 0;  ///< of its elements, or of gradients

  bool operator==(gradient_claim const&) const = default;
};

/// `gradient #1 of stage 2, 8 of f32`, `3 gradients of stage 2`.
inline std::string describe(gradient_claim const& c) {
  auto const stage = " of stage " + std::to_string(index(c.of.stage)), count = std::to_string(c.count);
  if (c.of.number == gradient_claim::all) return count + " gradients" + stage;
  return "gradient #" + std::to_string(c.of.number) + stage + ", " + count + " of " +
         std::string(name_of(c.type));
}

/// What to say of a stage with these gradients. O(gradients).
inline std::vector<gradient_claim> claims_of(stage_id s, std::span<region const> gradients) {
  std::vector<gradient_claim> made = {{{s, gradient_claim::all}, element_type::f32, gradients.size()}};
  for (std::uint32_t n = 0; n < gradients.size(); ++n)
    made.push_back({{s, n}, gradients[n].type, gradients[n].count});
  return made;
}

/// What rank `r` says of all of its stages: nothing where they have no gradients. O(stages + gradients).
template <class S>
std::vector<gradient_claim> claims_of_rank(placement const& on, rank_id r, S& stages) {
  std::vector<gradient_claim> made;
  if constexpr (parameter_stage<S>)
    for (std::uint32_t s = 0; s < on.stages(); ++s) {
      if (on.rank_of[s] != r) continue;
      auto const of_stage = claims_of(stage_id{s}, stages.gradients(stage_id{s}));
      made.insert(made.end(), of_stage.begin(), of_stage.end());
    }
  return made;
}

/// What two ranks say differently of gradients that are summed, those of replicas of a stage or of a tie, as
/// a sentence; or nothing. `claims[r]` is of rank r. O((claims + ties) log claims).
inline std::optional<std::string> find_gradient_disagreement(
    std::span<std::vector<gradient_claim> const> claims, std::span<tie_set const> sets) {
  struct said {
    gradient_claim what;
    std::uint32_t rank;
  };
  std::vector<said> all;
  for (std::uint32_t r = 0; r < claims.size(); ++r)
    for (auto const& c : claims[r]) all.push_back({c, r});
  std::ranges::sort(all, {}, [](said const& s) { return std::pair(s.what.of, s.rank); });
  auto const differ = [](said const& a, said const& b) {
    return describe(a.what) + ", on rank " + std::to_string(a.rank) + ", would be summed with " +
           describe(b.what) + ", on rank " + std::to_string(b.rank) + "; make both the same";
  };
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].what.of == all[i - 1].what.of && all[i].what != all[i - 1].what)
      return differ(all[i - 1], all[i]);

  auto const find = [&](stage_gradient g) {
    auto const at = std::ranges::lower_bound(all, g, {}, [](said const& s) { return s.what.of; });
    return at != all.end() && at->what.of == g ? &*at : nullptr;
  };
  for (auto const& set : sets)
    for (auto const& tie : set.ties)
      for (std::size_t i = 1; i < tie.size(); ++i) {
        auto const *const a = find(tie[i - 1]), *const b = find(tie[i]);
        if (a && b && (a->what.type != b->what.type || a->what.count != b->what.count)) return differ(*a, *b);
      }
  return std::nullopt;
}

/// Every rank tells all others which gradients it has; all find the same difference. Each of `ranks` ranks of
/// the board calls it. \throws disagreement_error, on all ranks; run_error
template <meeting_board B>
void agree_on_gradients(B& board, std::vector<gradient_claim> own, rank_id here, std::uint32_t ranks,
                        std::span<tie_set const> sets, std::chrono::steady_clock::time_point until) {
  constexpr std::size_t at_once = 4096;  // fewer bytes than a board carries
  std::vector<std::vector<gradient_claim>> all(ranks);
  all[index(here)] = std::move(own);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::uint64_t count = all[r].size();
    board.broadcast(std::as_writable_bytes(std::span(&count, 1)), rank_id{r}, until);
    all[r].resize(static_cast<std::size_t>(count));
    for (std::size_t first = 0; first < all[r].size(); first += at_once) {
      auto const some = std::span(all[r]).subspan(first, (std::min)(at_once, all[r].size() - first));
      board.broadcast(std::as_writable_bytes(some), rank_id{r}, until);
    }
  }
  if (auto what = find_gradient_disagreement(all, sets)) throw disagreement_error(*std::move(what));
}

}  // namespace cleave::detail
