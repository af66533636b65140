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
#include "cleave/run/gradients/gradient_buckets.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/program_agreement.hpp"
#include "cleave/schedule/model/placement.hpp"

/// Before the first step, ranks check that the gradients to be summed match. A transport that does not send
/// sizes would otherwise add unrelated values or hang.
namespace cleave::inline v0_2::detail {

/// A rank's declaration of one gradient of a stage, or of the number of gradients of the stage.
struct gradient_claim {
  static constexpr std::uint32_t all = 0xffffffff;

  stage_gradient of;  ///< position of the gradient in its stage, or `all`
  element_type type = element_type::f32;
  std::uint64_t count = 0;   ///< number of elements, or number of gradients if `of.number` is `all`
  std::uint32_t bucket = 0;  ///< the group of its stage with which it is summed over replicas

  bool operator==(gradient_claim const&) const = default;
};

/// Formats a claim: `gradient #1 of stage 2, 8 of f32`, or `3 gradients of stage 2`.
inline std::string describe(gradient_claim const& c) {
  auto const stage = " of stage " + std::to_string(index(c.of.stage)), count = std::to_string(c.count);
  if (c.of.number == gradient_claim::all) return count + " gradients" + stage;
  return "gradient #" + std::to_string(c.of.number) + stage + ", " + count + " of " +
         std::string(name_of(c.type));
}

/// Returns the claims for stage `s` with these gradients. O(gradients log gradients + plan).
/// \throws bucket_error
inline std::vector<gradient_claim> claims_of(stage_id s, std::span<region const> gradients,
                                             bucket_rules const& rules = {}) {
  std::vector<gradient_claim> made = {{{s, gradient_claim::all}, element_type::f32, gradients.size()}};
  for (std::uint32_t n = 0; n < gradients.size(); ++n)
    made.push_back({{s, n}, gradients[n].type, gradients[n].count});
  auto const groups = gradient_groups(s, gradients, rules);
  for (std::uint32_t b = 0; b < groups.size(); ++b)
    for (auto const n : groups[b]) made[n + std::size_t{1}].bucket = b;
  return made;
}

/// Returns the claims for all stages of rank `r`. Empty if they have no gradients.
/// O(stages * plan + gradients log gradients).
/// \throws bucket_error
template <class S>
std::vector<gradient_claim> claims_of_rank(stage_placement const& on, rank_id r, S& stages,
                                           bucket_rules const& rules = {}) {
  std::vector<gradient_claim> made;
  if constexpr (parameter_stage<S>)
    for (std::uint32_t s = 0; s < on.stages(); ++s) {
      if (on.rank_of[s] != r) continue;
      auto const of_stage = claims_of(stage_id{s}, stages.gradients(stage_id{s}), rules);
      made.insert(made.end(), of_stage.begin(), of_stage.end());
    }
  return made;
}

/// Describes a mismatch between gradients that are summed, either across replicas of a stage or within a tie.
/// Returns nothing if all match. `claims[r]` are those of rank r. O((claims + ties) log claims).
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
  auto const same = [](said const& a, said const& b) {
    return a.what.type == b.what.type && a.what.count == b.what.count;
  };
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].what.of == all[i - 1].what.of && !same(all[i], all[i - 1])) return differ(all[i - 1], all[i]);
  for (std::size_t i = 1; i < all.size(); ++i) {
    auto const &a = all[i - 1], &b = all[i];
    if (a.what.of != b.what.of || a.what.bucket == b.what.bucket) continue;
    auto const bucket = [](said const& s) {
      return "bucket #" + std::to_string(s.what.bucket) + " of its stage on rank " + std::to_string(s.rank);
    };
    return describe(a.what) + ", is in " + bucket(a) + ", but in " + bucket(b) +
           "; give all ranks the same buckets";
  }

  auto const find = [&](stage_gradient g) {
    auto const at = std::ranges::lower_bound(all, g, {}, [](said const& s) { return s.what.of; });
    return at != all.end() && at->what.of == g ? &*at : nullptr;
  };
  for (auto const& set : sets)
    for (auto const& tie : set.ties)
      for (std::size_t i = 1; i < tie.size(); ++i) {
        auto const *const a = find(tie[i - 1]), *const b = find(tie[i]);
        if (a && b && !same(*a, *b)) return differ(*a, *b);
      }
  return std::nullopt;
}

/// Exchanges the claims of all ranks and compares them; all ranks find the same mismatch. Collective: each of
/// the `ranks` ranks of the rendezvous calls it.
/// \throws disagreement_error on all ranks if gradients do not match; run_error if a rank is lost or late
template <collective_rendezvous B>
void agree_on_gradients(B& rendezvous, std::vector<gradient_claim> own, rank_id here, std::uint32_t ranks,
                        std::span<tie_set const> sets, std::chrono::steady_clock::time_point until) {
  constexpr std::size_t at_once = 4096;  // elements per broadcast, within the message limit of a rendezvous
  std::vector<std::vector<gradient_claim>> all(ranks);
  all[index(here)] = std::move(own);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::uint64_t count = all[r].size();
    rendezvous.broadcast(std::as_writable_bytes(std::span(&count, 1)), rank_id{r}, until);
    all[r].resize(static_cast<std::size_t>(count));
    for (std::size_t first = 0; first < all[r].size(); first += at_once) {
      auto const some = std::span(all[r]).subspan(first, (std::min)(at_once, all[r].size() - first));
      rendezvous.broadcast(std::as_writable_bytes(some), rank_id{r}, until);
    }
  }
  if (auto what = find_gradient_disagreement(all, sets)) throw disagreement_error({*std::move(what)});
}

}  // namespace cleave::detail
