// SPDX-License-Identifier: MIT
// Fuzzes tables of runs: each is read or rejected with an error. A table that is read is summarized, drawn
// and written again.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "../../examples/cleave/bench_page.hpp"
#include "../../examples/cleave/bench_row.hpp"
#include "../../examples/cleave/bench_sections.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string const text(reinterpret_cast<char const*>(data), size);
  std::vector<tool::bench_row> rows;
  try {
    rows = tool::csv_reader(text, "runs.csv").read();
  } catch (cleave::error const& e) {
    cleave::expects(std::string(e.what()).starts_with("runs.csv:"), "a place in the message");
    return 0;
  }
  if (rows.empty()) return 0;
  std::string again = std::string(tool::bench_columns) + "\n";
  for (auto const& row : rows) again += csv_line(row);
  auto const same = tool::csv_reader(again, "again.csv").read();
  cleave::expects(same.size() == rows.size(), "as many rows as were written");
  auto sections = tool::sections_of(rows);
  auto const recorded = std::span<tool::bench_row const>(rows).first(rows.size() / 2 + 1);
  for (auto& s : sections) s.changes = changes_since(s.summary, s.rows, recorded);
  for (std::size_t a = 0; a < 3; ++a) {
    for (auto& s : sections)
      if (a < s.summary.algorithms().size()) s.summary.compare_with({a});
    cleave::expects(!text_of(sections, true).empty() && !text_of(sections, false).empty(), "tables");
    cleave::expects(tool::write_bench_page(sections).ends_with("</html>\n"), "a page");
  }
  return 0;
}
