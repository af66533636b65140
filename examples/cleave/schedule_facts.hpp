// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cleave/schedule/model/schedule_names.hpp>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tool {

/// Published facts about a family of schedules.
struct schedule_facts {
  cleave::schedule_family family;
  std::string_view about;   ///< description, one sentence
  std::string_view takes;   ///< valid counts; p ranks, v stages a rank, m microbatches
  std::string_view origin;  ///< publication
  std::string_view bubble;  ///< published bubble of a rank, where F, I and W of a rank take 1 each; or empty
  double (*bubble_time)(cleave::schedule_shape const&);
};

inline double no_bubble(cleave::schedule_shape const&) { return 0; }
/// (p - 1) * `times` / v.
template <int times>
double bubble_over_stages(cleave::schedule_shape const& s) {
  return times * (s.ranks - 1.0) / s.stages_per_rank;
}

/// The facts of all families, in the order of the families.
inline constexpr std::array<schedule_facts, 18> all_schedule_facts = {{
    {cleave::schedule_family::gpipe, "All forward passes, then all backward passes.", "any",
     "Huang et al., NeurIPS 2019", "3(p − 1)", bubble_over_stages<3>},
    {cleave::schedule_family::one_f_one_b,
     "One forward pass, one backward pass, in turn, as soon as that can begin.", "any",
     "Narayanan et al., SOSP 2019", "3(p − 1)", bubble_over_stages<3>},
    {cleave::schedule_family::eager_1f1b,
     "1F1B with about twice the forward passes ahead, 2(p − 1 − r) + 1, so that messages have a step to "
     "arrive.",
     "any", "", "3(p − 1)", bubble_over_stages<3>},
    {cleave::schedule_family::looped_bfs,
     "All microbatches through a stage before the rank turns to its next one.", "any",
     "Lamy-Poirier, MLSys 2023", "3(p − 1) / v", bubble_over_stages<3>},
    {cleave::schedule_family::depth_first, "p microbatches through all stages, then the next p.",
     "p divides m, or m < p", "Lamy-Poirier, MLSys 2023", "3(p − 1) / v", bubble_over_stages<3>},
    {cleave::schedule_family::interleaved_1f1b,
     "1F1B over several stages a rank, in rounds as PyTorch has them.", "max(1, ⌊m / p⌋) divides m",
     "Narayanan et al., SC 2021", "3(p − 1) / v", bubble_over_stages<3>},
    {cleave::schedule_family::megatron_interleaved,
     "The same in groups of p microbatches, as Megatron-LM has it.", "p divides m, or m < p",
     "Narayanan et al., SC 2021", "3(p − 1) / v", bubble_over_stages<3>},
    {cleave::schedule_family::zb_h1,
     "1F1B whose weight gradients are computed later, where a rank would idle.", "any",
     "Qi et al., ICLR 2024", "p − 1", bubble_over_stages<1>},
    {cleave::schedule_family::zb_h2, "More forward passes ahead, so that no rank waits once it has begun.",
     "any; best from m = 2p − 1", "Qi et al., ICLR 2024", "p − 1", bubble_over_stages<1>},
    {cleave::schedule_family::interleaved_zero_bubble,
     "Interleaved 1F1B whose weight gradients are computed later.", "max(1, ⌊m / p⌋) divides m",
     "Qi et al., ICLR 2024", "(p − 1) / v", bubble_over_stages<1>},
    {cleave::schedule_family::zbv, "Two stages a rank, down and up again; no rank waits once it has begun.",
     "v = 2; best from m = 2p − 1", "Qi et al., ICLR 2024", "(p − 1) / 2", bubble_over_stages<1>},
    {cleave::schedule_family::v_half, "The same placement with about half the memory on many ranks.", "v = 2",
     "Qi et al., NeurIPS 2024", "", no_bubble},
    {cleave::schedule_family::v_min, "The same placement with about a third of the memory on many ranks.",
     "v = 2", "Qi et al., NeurIPS 2024", "", no_bubble},
    {cleave::schedule_family::dual_pipe,
     "Microbatches enter at both ends; each rank has the weights of two stages.",
     "v = 2; p and m even, m ≥ 2p", "DeepSeek-V3, 2024", "p − 2",
     [](cleave::schedule_shape const& s) { return s.ranks - 2.0; }},
    {cleave::schedule_family::dual_pipe_v, "DualPipe folded at its middle: weights are kept once.",
     "v = 2; m ≥ 2p", "DeepSeek, Qi et al., 2025", "p − 1",
     [](cleave::schedule_shape const& s) { return s.ranks - 1.0; }},
    {cleave::schedule_family::hanayo, "Waves down and up, backward passes first.", "v even",
     "Liu et al., SC 2023", "", no_bubble},
    {cleave::schedule_family::chimera, "1F1B in both directions over two copies of the weights.",
     "v = 2; p and m even", "Li and Hoefler, SC 2021", "", no_bubble},
    {cleave::schedule_family::forward_only, "Forward passes alone, for inference.", "any", "", "(p − 1) / v",
     bubble_over_stages<1>},
}};

static_assert(all_schedule_facts.size() == cleave::schedule_names.size(), "a family lacks its facts");
static_assert(
    [] {
      for (std::size_t f = 0; f < all_schedule_facts.size(); ++f)
        if (all_schedule_facts[f].family != static_cast<cleave::schedule_family>(f)) return false;
      return true;
    }(),
    "facts stand in the order of the families");

}  // namespace tool
