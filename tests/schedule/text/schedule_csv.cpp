// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/schedule_csv.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/families/generate.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("read_schedule_csv: reads every family of one chain back as schedule_csv wrote it") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    if (family == schedule_family::dual_pipe || family == schedule_family::chimera) continue;
    auto const s = make_schedule(family, {2, stages_per_rank_of(family).value_or(2), 4});
    CHECK(read_schedule_csv(schedule_csv(s)) == s);
  }
}

TEST_CASE("csv_text: distinguishes a list of one idle step from an empty list") {
  std::vector<std::vector<action>> const rows = {{{}}, {}, read_row("0F0,")};
  CHECK(csv_text(rows) == "\"\"\r\n\r\n0F0,\r\n");
  CHECK(read_csv_rows(csv_text(rows)) == rows);
}

TEST_CASE("read_csv_rows: accepts all ends of lines, quotation marks and blanks") {
  auto const rows = std::vector{read_row("0F0,,0B0"), read_row("1F0,1B0")};
  for (auto const* text : {"0F0,,0B0\n1F0,1B0\n", "0F0,,0B0\r\n1F0,1B0", "0F0,,0B0\r1F0,1B0\r",
                           "\"0F0\",\"\",0B0\n 1F0 ,\"1B0\"", "0F0,,\"0\"B0\n1F0,\"1B0\n\""})
    CHECK(read_csv_rows(text) == rows);
  CHECK(read_csv_rows("").empty());
  CHECK(read_csv_rows("0F0\n\n").size() == 2);
}

TEST_CASE("read_csv_rows: the error names the row, the column and the text") {
  auto const fault = [](std::string_view text) {
    try {
      read_csv_rows(text);
    } catch (cell_error const& e) {
      return e.witness;
    }
    FAIL("no error for " << text);
    return cell_fault{};
  };
  using enum cell_fault::kind;
  CHECK(fault("0F0\r\n1F0,,1Q0\r\n") == cell_fault{unknown_kind, "1Q0", 1, 2});
  CHECK(fault("\"0F0,0B0\"") == cell_fault{more_text, "0F0,0B0", 0, 0});
  CHECK(fault("0F0\n1F0,\"1B0\n") == cell_fault{not_closed, "\"1B0\n", 1, 1});
  CHECK(fault("0F0\n\"1\"\"F0\"") == cell_fault{unknown_kind, "1\"F0", 1, 0});
  CHECK_THROWS_AS(read_schedule_csv("0F0\n0B0\n"), row_error);
}

TEST_CASE("csv_format_of: knows PyTorch's names of the formats") {
  CHECK(csv_format_of("compute_only") == row_contents::compute_only);
  CHECK(csv_format_of("compute_comms") == row_contents::with_communication);
  CHECK_THROWS_WITH_AS(csv_format_of("other"),
                       "no format of schedules is called 'other'; use 'compute_only' or 'compute_comms'",
                       csv_format_error);
}

TEST_CASE("read_csv_rows: reads or rejects arbitrary bytes") {
  splitmix rng(7);
  static constexpr std::string_view letters = "0123FBIW,,\"\n\r(;)";
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (std::size_t n = rng.below(30); n > 0; --n) text += letters[rng.below(letters.size())];
    try {
      auto const rows = read_csv_rows(text);
      CHECK(read_csv_rows(csv_text(rows)) == rows);
    } catch (cell_error const& e) {
      CHECK(!std::string(e.what()).empty());
    }
  }
}
