// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/ids.hpp"
#include "cleave/formats/graph_files/text.hpp"
#include "cleave/partition/model/partition.hpp"

/// Files of parts, as METIS writes them: one line per node with its part, counted from 0.
namespace cleave::inline v0_2 {

/// Reads the parts of `nodes` nodes. If `parts` is 0, the number of parts is one more than the largest in the
/// file. O(size of the text). \throws graph_file_error with the place
inline partition read_part_file(std::string_view text, std::size_t nodes, std::uint32_t parts = 0) {
  detail::text_cursor c(text);
  partition p{{}, parts};
  for (c.skip_to_content(""); !c.at_end(); c.skip_to_content("")) {
    if (p.of.size() == nodes)
      c.fail("the file has more lines than the graph has nodes, which is " + std::to_string(nodes));
    auto const most = parts == 0 ? index(no_part) - 1 : parts - 1;
    auto const id = static_cast<std::uint32_t>(c.whole("a part", 0, most));
    c.end_line("the part; each line has one");
    p.of.push_back(part_id{id});
    if (parts == 0 && id >= p.parts) p.parts = id + 1;
  }
  if (p.of.size() != nodes)
    c.fail("the file ends after " + std::to_string(p.of.size()) + " lines; the graph has " +
           std::to_string(nodes) + " nodes");
  return p;
}

/// Returns the text that `read_part_file` reads. Precondition: each node has a part.
inline std::string write_part_file(partition const& p) {
  std::string text;
  for (auto const id : p.of) detail::append_number(text, index(id)), text += '\n';
  return text;
}
}  // namespace cleave
