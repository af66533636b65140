// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/schedule_csv.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/random.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::optional<cell_fault::kind> fault_of(std::string_view cell) {
  std::vector<action> actions(3);
  auto const fault = append_cell(actions, cell);
  if (!fault) return std::nullopt;
  CHECK(actions.size() == 3);
  return fault->what;
}

action random_action(splitmix& rng) {
  static constexpr std::uint32_t numbers[] = {0, 1, 9, 10, 4095, 0xfffffffe};
  action a;
  do a.kind = static_cast<action_kind>(1 + rng.below(action_names.size() - 1));
  while (is_compound(a));
  a.stage = stage_id{numbers[rng.below(6)]};
  if (has_microbatch(a.kind) || rng.below(4) == 0) a.microbatch = microbatch_id{numbers[rng.below(6)]};
  a.peer = chain_peer(a.kind, a.stage);
  if (is_message(a.kind) && (a.peer == no_stage || rng.below(3) == 0))
    a.peer = stage_id{numbers[rng.below(6)]};
  if (is_tied_reduction(a.kind) && rng.below(3) > 0) a.peer = stage_id{numbers[rng.below(6)]};
  return a;
}

}  // namespace

TEST_CASE("read_row: reads random lists of all kinds back as row_text wrote them") {
  splitmix rng(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<action> row;
    for (std::size_t cells = rng.below(12); cells > 0; --cells) {
      auto const parts = rng.below(5) == 0 ? 1 + rng.below(3) : 0;
      if (parts > 0)
        row.push_back({rng.below(2) == 0 ? action_kind::overlap : action_kind::backward,
                       static_cast<std::uint16_t>(parts), no_stage, no_microbatch, no_stage});
      else if (rng.below(4) == 0)
        row.push_back({});
      else
        row.push_back(random_action(rng));
      for (std::size_t i = 0; i < parts; ++i) row.push_back(random_action(rng));
    }
    // One idle step alone would be an empty list.
    if (row.size() == 1 && row[0].kind == action_kind::idle) continue;
    CHECK(read_row(row_text(row)) == row);
  }
}

TEST_CASE("read_cell: ignores blanks around an action and around parts") {
  CHECK(read_cell(" \t1F0\n") == read_cell("1F0"));
  CHECK(read_cell("( 0F3 ;3B1 )OVERLAP_F_B") == read_cell("(0F3;3B1)OVERLAP_F_B"));
  CHECK(read_cell("   ") == std::vector<action>(1));
}

TEST_CASE("append_cell: names each fault of a cell") {
  using enum cell_fault::kind;
  for (auto const* cell : {"F0", "-1F0", "+1F0", " x", ";"}) CHECK(fault_of(cell) == stage_missing);
  for (auto const* cell :
       {"0", "1f0", "1 F0", "1X0", "0OVERLAP_F_B", "0EXCHANGE", "(0F0;1B0)", "(0F0;1B0) OVERLAP_F_B"})
    CHECK(fault_of(cell) == unknown_kind);
  for (auto const* cell : {"4294967295F0", "0F4294967295", "0SEND_F0@99999999999999999999999"})
    CHECK(fault_of(cell) == too_large);
  for (auto const* cell : {"1F0junk", "0BW0", "0F-1", "0F0.5", "0F1 2", "0F0@1", "0SEND_F0@", "0F0,1F0"})
    CHECK(fault_of(cell) == more_text);
  CHECK(fault_of("(0F0;1B0") == not_closed);
  for (auto const* cell : {"()OVERLAP_F_B", "( ; )OVERLAP_F_B", "(0F0;)OVERLAP_F_B"})
    CHECK(fault_of(cell) == empty_part);
  CHECK(fault_of("(0F0;(1F0;2F0)OVERLAP_F_B)OVERLAP_F_B") == stage_missing);
  std::string many = "(0F0";
  for (int i = 0; i < 65535; ++i) many += ";0F0";
  CHECK(fault_of(many + ")B") == too_many_parts);
  CHECK(read_cell(many.substr(0, many.size() - 4) + ")B").size() == 65536);
}

TEST_CASE("read_cell: ignores text after an action only with trailing_text::ignored") {
  CHECK(read_cell("0WAIT0", trailing_text::ignored) == read_cell("0W"));
  CHECK(read_cell("1F0junk", trailing_text::ignored) == read_cell("1F0"));
  CHECK_THROWS_AS(read_cell("1F0junk"), cell_error);
}

TEST_CASE("read_row: the error names the row, the column and the text") {
  try {
    read_row("0F0,,1Q0", 5);
    FAIL("no error");
  } catch (cell_error const& e) {
    CHECK(e.witness == cell_fault{cell_fault::kind::unknown_kind, "1Q0", 5, 2});
  }
}

TEST_CASE("append_cell: reads or rejects arbitrary bytes") {
  splitmix rng(2);
  static constexpr std::string_view letters = "0129FBIWSEND_RECV@();, \t\xff";
  for (int round = 0; round < 3000; ++round) {
    std::string cell;
    for (std::size_t n = rng.below(14); n > 0; --n) cell += letters[rng.below(letters.size())];
    std::vector<action> actions;
    if (!append_cell(actions, cell)) {
      auto const text = cell_text(actions[0], std::span(actions).subspan(1));
      CHECK(read_cell(text) == actions);
    }
  }
}
