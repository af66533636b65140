// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/partition/buckets/module_buckets.hpp"

namespace cleave::inline v0_2::detail {

/// A table in box-drawing characters, with a header and a rule between any two rows. Each column is as wide
/// as its widest text. `left` is nonzero for columns that are left-aligned.
struct box_table {
  std::vector<std::string> header;
  std::vector<char> left;
  std::vector<std::vector<std::string>> rows{};

  std::string text() const {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < header.size(); ++c) {
      // two blanks next to the header, as in torch's reports
      widths.push_back(width(header[c]) + 2);
      for (auto const& row : rows) widths[c] = (std::max)(widths[c], width(row[c]));
    }
    std::string all = rule(widths, "┌", "┬", "┐") + "\n" + line(widths, header);
    for (auto const& row : rows) all += "\n" + rule(widths, "├", "┼", "┤") + "\n" + line(widths, row);
    return all + "\n" + rule(widths, "└", "┴", "┘");
  }

 private:
  static std::size_t width(std::string_view s) {
    std::size_t characters = 0;
    for (std::size_t at = 0; at < s.size(); at += utf8_at(s, at).bytes) ++characters;
    return characters;
  }
  static std::string rule(std::vector<std::size_t> const& widths, std::string_view first,
                          std::string_view between, std::string_view last) {
    std::string all(first);
    for (std::size_t c = 0; c < widths.size(); ++c) {
      for (std::size_t i = 0; i < widths[c] + 2; ++i) all += "─";
      all += c + 1 < widths.size() ? between : last;
    }
    return all;
  }
  std::string line(std::vector<std::size_t> const& widths, std::vector<std::string> const& row) const {
    std::string all = "│";
    for (std::size_t c = 0; c < widths.size(); ++c) {
      std::string const room(widths[c] - width(row[c]), ' ');
      all += " " + (left[c] ? row[c] + room : room + row[c]) + " │";
    }
    return all;
  }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a table of the buckets, counted from the tail of the graph, with their bytes and parameter names.
/// The text is empty if no bucket has counted parameters.
inline std::string bucket_table(bucket_report const& r) {
  detail::box_table t{{"Index", "Size (b)", "Param Names"}, {0, 0, 1}};
  for (auto const& row : r.rows)
    for (std::size_t i = 0; i < row.names.size(); ++i) {
      bool const first = i == 0;
      t.rows.push_back({first ? std::to_string(row.from_tail) : "", first ? std::to_string(row.bytes) : "",
                        printable(row.names[i])});
    }
  return t.rows.empty() ? "" : t.text();
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a table of the buckets that exceed their caps, with their extra nodes and bytes. The text is empty
/// if there are none.
inline std::string extension_table(bucket_report const& r) {
  box_table t{{"Index", "Extra Ops", "Extra Param Size (b)"}, {0, 0, 0}};
  for (auto const& b : r.extended)
    t.rows.push_back(
        {std::to_string(b.from_tail), std::to_string(b.extra_nodes), std::to_string(b.extra_bytes)});
  return t.rows.empty() ? "" : t.text();
}

}  // namespace cleave::detail
