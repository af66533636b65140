// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/action.hpp"

#include <doctest/doctest.h>

#include <span>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("find_action_kind: finds every kind by its exact name and by no other") {
  for (std::size_t k = 1; k < action_names.size(); ++k)
    CHECK(find_action_kind(action_names[k]) == static_cast<action_kind>(k));
  for (auto const* name : {"", "f", "FORWARD", "SEND", "F ", "OVERLAP"}) CHECK(!find_action_kind(name));
}

TEST_CASE("action_text: writes stage, kind and microbatch, and no microbatch for a whole stage") {
  CHECK(action_text({action_kind::forward, 0, stage_id{12}, microbatch_id{345}, no_stage}) == "12F345");
  CHECK(action_text({action_kind::unshard, 0, stage_id{3}, no_microbatch, no_stage}) == "3UNSHARD");
  CHECK(action_text({}).empty());
}

TEST_CASE("action_text: writes the peer of a message only if it is not the neighbour") {
  action a{action_kind::send_activation, 0, stage_id{1}, microbatch_id{0}, stage_id{2}};
  CHECK(action_text(a) == "1SEND_F0");
  a.peer = stage_id{3};
  CHECK(action_text(a) == "1SEND_F0@3");
}

TEST_CASE("chain_peer: the peer of a message is the next stage or the one before") {
  using enum action_kind;
  stage_id const s{4}, next{5}, before{3};
  for (auto const k : {send_activation, wait_send_activation, receive_gradient})
    CHECK(chain_peer(k, s) == next);
  for (auto const k : {send_gradient, wait_send_gradient, receive_activation})
    CHECK(chain_peer(k, s) == before);
  CHECK(chain_peer(forward, s) == no_stage);
  CHECK(chain_peer(send_gradient, stage_id{0}) == no_stage);
}

TEST_CASE("row_text: separates cells by commas, and a compound is one cell, an idle step an empty one") {
  std::vector<action> const row = {{action_kind::forward, 0, stage_id{0}, microbatch_id{0}, no_stage},
                                   {},
                                   {action_kind::overlap, 2, no_stage, no_microbatch, no_stage},
                                   {action_kind::forward, 0, stage_id{0}, microbatch_id{3}, no_stage},
                                   {action_kind::backward, 0, stage_id{3}, microbatch_id{1}, no_stage},
                                   {}};
  CHECK(row_text(row) == "0F0,,(0F3;3B1)OVERLAP_F_B,");
  CHECK(row_text({}).empty());
}

TEST_CASE("cell_error: the message names the place, the text and the fix") {
  cell_error const e({cell_fault::kind::unknown_kind, "0Q0", 2, 7});
  CHECK(std::string(e.what()) ==
        "schedule text: row #2, column #7: '0Q0' has an unknown kind of action; use F, B, I, W or another "
        "kind of the table, in capitals");
  CHECK(e.witness.column == 7);
}
