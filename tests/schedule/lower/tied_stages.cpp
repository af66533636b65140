// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/reduce_ties.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <vector>

#include "cleave/schedule/families/forward_only.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("tied_stages_of: ties of the same set of stages become one entry") {
  auto const held = [](std::string storage, std::vector<std::uint32_t> stages) {
    tie t{storage, {}};
    for (auto const s : stages) t.members.push_back({storage + ".weight", storage, stage_id{s}});
    return t;
  };
  std::vector<tie> ties{held("a", {3, 0}), held("b", {1, 1}), held("c", {0, 3, 3}), held("d", {2, 0, 1})};
  ties.push_back(held("e", {2, index(no_stage)}));
  auto const sets = tied_stages_of(ties);
  CHECK(sets ==
        std::vector<tied_stages>{{{stage_id{0}, stage_id{3}}}, {{stage_id{0}, stage_id{1}, stage_id{2}}}});
  CHECK(!find_tied_stages_fault(one_f_one_b(4, 4), sets));
}

TEST_CASE("find_tied_stages_fault: finds each fault, and its error names the tie") {
  using enum tied_stages_fault::kind;
  auto const s = one_f_one_b(4, 4);
  std::vector<stage_id> const both{stage_id{0}, stage_id{3}};
  auto const fault = [&](tied_stages t) {
    auto const f = find_tied_stages_fault(s, std::vector<tied_stages>{{both, 1}, t});
    REQUIRE(f.has_value());
    CHECK(f->tie == 1);
    return f->what;
  };
  CHECK(fault({{stage_id{0}}, 1}) == too_few);
  CHECK(fault({{stage_id{0}, stage_id{0}}, 1}) == not_ascending);
  CHECK(fault({{stage_id{0}, stage_id{4}}, 1}) == unknown_stage);
  CHECK(fault({both, -1}) == time);
  CHECK(fault({both, std::numeric_limits<double>::quiet_NaN()}) == time);
  CHECK(find_tied_stages_fault(forward_only(4, 1, 2), std::vector<tied_stages>{{both, 1}})->what ==
        no_gradient);
  CHECK(std::string(tied_stages_error({unknown_stage, 1, stage_id{4}}).what()) ==
        "ties: tie #1 names stage 4, which does not exist");
}
