// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/action.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <set>
#include <span>
#include <string_view>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("name_of: each action kind has its own name, and only idle has an empty one") {
  std::set<std::string_view> names(action_names.begin(), action_names.end());
  CHECK(names.size() == action_names.size());
  CHECK(name_of(action_kind::idle).empty());
  CHECK(name_of(action_kind::wait_reduce_gradient) == "WAIT_REDUCE_GRAD");
  CHECK(name_of(action_kind::wait_reduce_tie) == "WAIT_REDUCE_TIE");
}

TEST_CASE("is_message: holds for exactly the sends, receives and waits for sends") {
  for (std::size_t k = 0; k < action_names.size(); ++k) {
    auto const kind = static_cast<action_kind>(k);
    CHECK(is_message(kind) == (is_send(kind) + is_receive(kind) + is_wait_send(kind) == 1));
    CHECK_FALSE((is_message(kind) && is_compute(kind)));
    bool const about_activations = is_message(kind) && name_of(kind).ends_with("_F");
    CHECK(is_activation_message(kind) == about_activations);
  }
  CHECK_FALSE(has_microbatch(action_kind::unshard));
  CHECK_FALSE(has_microbatch(action_kind::overlap));
  CHECK_FALSE(has_microbatch(action_kind::exchange));
  CHECK(has_microbatch(action_kind::offload));
  CHECK(has_microbatch(action_kind::recompute));
  CHECK_FALSE(has_microbatch(action_kind::wait_reduce_tie));
  CHECK(is_tied_reduction(action_kind::reduce_tie));
  CHECK_FALSE(is_tied_reduction(action_kind::recompute));
}

TEST_CASE("each_cell: a compound is one cell, and each_action visits its parts") {
  action const f{action_kind::forward, 0, stage_id{0}, microbatch_id{3}};
  action const b{action_kind::backward, 0, stage_id{3}, microbatch_id{1}};
  std::vector<action> const row{{}, {action_kind::overlap, 2}, f, b, f};
  std::vector<std::size_t> parts;
  each_cell(row, [&](action const&, std::span<action const> p) { parts.push_back(p.size()); });
  CHECK(parts == std::vector<std::size_t>{0, 2, 0});
  CHECK(is_compound(row[1]));
  CHECK(is_compound({action_kind::exchange}));
  CHECK_FALSE(is_compound(f));
  std::vector<action> done;
  each_action(row, [&](action const& a) { done.push_back(a); });
  CHECK(done == std::vector<action>{f, b, f});
}
