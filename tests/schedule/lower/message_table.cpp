// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/message_graph.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <tuple>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("message_table: finds the same entries as std::map, even with huge ids") {
  testing::rng rng(5);
  message_table table;
  std::map<std::tuple<stage_id, microbatch_id, stage_id, bool>, std::size_t> twin;
  for (std::size_t i = 0; i < 3000; ++i) {
    auto const number = [&] { return static_cast<std::uint32_t>(rng.below(12) * 357'913'941); };
    action a{action_kind::send_activation, 0, stage_id{number()}, microbatch_id{number()},
             stage_id{number()}};
    if (rng.one_in(2)) a.kind = action_kind::wait_send_gradient;
    std::tuple const key{a.stage, a.microbatch, a.peer, is_activation_message(a.kind)};
    auto const known = twin.find(key);
    auto const* found = table.find(a);
    REQUIRE((found != nullptr) == (known != twin.end()));
    if (found) CHECK(found->position == known->second);
    table.add(a, i);
    twin[key] = i;
  }
  CHECK(table.entries().size() == 3000);
}

TEST_CASE("message_table: lists the messages of a stage and microbatch in the order of insertion") {
  message_table table;
  std::vector<std::uint32_t> const peers = {3, 1, 2};
  for (auto const p : peers)
    table.add({action_kind::send_activation, 0, stage_id{0}, microbatch_id{1}, stage_id{p}}, p);
  std::vector<std::uint32_t> listed;
  table.each(stage_id{0}, microbatch_id{1}, true,
             [&](auto const& e) { listed.push_back(index(e.what.peer)); });
  CHECK(listed == peers);
  table.each(stage_id{0}, microbatch_id{1}, false, [&](auto const&) { CHECK(false); });
}
