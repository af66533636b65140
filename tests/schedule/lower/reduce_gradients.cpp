// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/reduce_gradients.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string reduced(std::string_view row, std::uint32_t microbatches, reduction_wait wait) {
  return row_text(reduce_gradients(read_row(row), microbatches, wait));
}

}  // namespace

TEST_CASE(
    "reduce_gradients: a reduction follows the last B or W, and its wait comes at once or is deferred") {
  CHECK(reduced("1B0,0I0,,0W0", 1, reduction_wait::at_once) ==
        "1B0,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,0I0,0W0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD");
  CHECK(reduced("1B0,0I0,,0W0", 1, reduction_wait::deferred) ==
        "1B0,1REDUCE_GRAD,0I0,0W0,1WAIT_REDUCE_GRAD,0REDUCE_GRAD,0WAIT_REDUCE_GRAD");
}

TEST_CASE("reduce_gradients: a reduction follows the whole compound") {
  CHECK(reduced("(0B0;1F0)OVERLAP_F_B", 1, reduction_wait::at_once) ==
        "(0B0;1F0)OVERLAP_F_B,0REDUCE_GRAD,0WAIT_REDUCE_GRAD");
}

TEST_CASE("reduce_gradients: every family reduces each stage once, after all its gradients") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    if (family == schedule_family::forward_only) continue;
    auto const s = make_schedule(family, {2, stages_per_rank_of(family).value_or(2), 4});
    auto const lowered = reduce_gradients(s, reduction_wait::deferred);
    for (auto const& row : lowered.ranks) {
      std::map<stage_id, std::uint32_t> gradients, reductions, waits;
      each_action(std::span(row), [&](action const& a) {
        if (a.kind == action_kind::backward || a.kind == action_kind::weight_gradient) ++gradients[a.stage];
        if (a.kind == action_kind::reduce_gradient) {
          ++reductions[a.stage];
          CHECK(gradients[a.stage] == s.microbatches);
        }
        if (a.kind == action_kind::wait_reduce_gradient) CHECK(++waits[a.stage] == reductions[a.stage]);
      });
      CHECK(reductions.size() == gradients.size());
      CHECK(waits == reductions);
    }
  }
}
