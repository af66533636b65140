// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "cleave/formats/graph_files/cost_dag.hpp"
#include "cleave/formats/graph_files/text_cursor.hpp"
#include "cleave/formats/graph_files/weight_text.hpp"

/// `.dag` files: `n m`, a line `work memory` for each node, a line `producer consumer cost` for each arc;
/// nodes count from 0, in any order; lines that begin with # or % are comments.
namespace cleave::detail {

/// O(size of the text). \throws graph_file_error with the place
inline cost_dag read_dag_file(std::string_view text) {
  text_cursor c(text);
  c.skip_to_content("#%");
  auto const* const at = c.here();
  auto const nodes = c.whole("the number of nodes", 0, (std::numeric_limits<std::uint32_t>::max)() - 1);
  auto const arcs = c.whole("the number of arcs", 0, (std::numeric_limits<std::uint32_t>::max)() - 1);
  c.end_line("the heading n m");
  if (nodes > c.left() / 3 || arcs > c.left() / 5)
    c.fail_at(at, "the heading says " + std::to_string(nodes) + " nodes and " + std::to_string(arcs) +
                      " arcs, and there are but " + std::to_string(c.left()) + " bytes below it");
  if (nodes == 0 && arcs > 0) c.fail_at(at, "the heading says that there are arcs and no nodes");
  cost_dag d;
  d.work.reserve(nodes), d.memory.reserve(nodes), d.arcs.reserve(arcs);
  auto const next_line = [&](char const* what, std::size_t read, std::size_t stated) {
    c.skip_to_content("#%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(read) + " " + what + " of " + std::to_string(stated));
  };
  for (std::size_t n = 0; n < nodes; ++n) {
    next_line("nodes", n, nodes);
    d.work.push_back(read_weight<double>(c, "the work of a node"));
    d.memory.push_back(read_weight<double>(c, "the memory of a node"));
    c.end_line("work and memory");
  }
  for (std::size_t i = 0; i < arcs; ++i) {
    next_line("arcs", i, arcs);
    auto const* const here = c.here();
    auto const from = static_cast<std::uint32_t>(c.whole("a producer", 0, nodes - 1));
    auto const to = static_cast<std::uint32_t>(c.whole("a consumer", 0, nodes - 1));
    if (from == to) c.fail_at(here, "node " + std::to_string(from) + " needs itself");
    d.arcs.push_back({from, to, read_weight<double>(c, "the cost of an arc")});
    c.end_line("producer, consumer and cost");
  }
  c.skip_to_content("#%");
  if (!c.at_end()) c.fail("a line after the " + std::to_string(arcs) + " arcs that the heading says");
  return d;
}

}  // namespace cleave::detail

namespace cleave {

/// The text that `read_dag_file` reads: work, memory and arcs; the rest has no place there.
inline std::string write_dag_file(cost_dag const& d) {
  auto text = std::to_string(d.nodes()) + " " + std::to_string(d.arcs.size()) + "\n";
  for (std::size_t n = 0; n < d.nodes(); ++n) {
    detail::append_number(text, d.work[n]);
    detail::append_number(text += ' ', d.memory.empty() ? 0.0 : d.memory[n]);
    text += '\n';
  }
  for (auto const& a : d.arcs) {
    detail::append_number(text, a.from);
    detail::append_number(text += ' ', a.to);
    detail::append_number(text += ' ', a.cost);
    text += '\n';
  }
  return text;
}

}  // namespace cleave
