// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/formats/graph_files/hmetis_hypergraph.hpp"
#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/hypergraph.hpp"

/// The format of PaToH's hypergraph files. The first line is `base cells nets pins [scheme [constraints]]`,
/// where `base` is the number of the first cell, 0 or 1, and cells are nodes. Then each net has a line with
/// its pins. Scheme 1 gives weights of the cells, 2 costs of the nets, 3 both. The cost of a net begins its
/// line; the weights of all cells follow the nets, in one line or several. Lines that begin with % are
/// comments.
namespace cleave::inline v0_2 {

/// Reads a PaToH hypergraph. O(size of the text).
/// \throws graph_file_error with the place, if the text violates the format or its heading, or if cells have
/// several weights
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
hypergraph<Index, Weight> read_patoh_hypergraph(std::string_view text) {
  constexpr std::uint64_t most = 0xfffffffe;
  detail::text_cursor c(text);
  auto const more = [&](char const* what) {
    if (c.at_line_end())
      c.fail("expected " + std::string(what) + ": a heading is base cells nets pins [scheme [constraints]]");
  };
  c.skip_to_content("%");
  detail::stated_hypergraph s;
  auto const base = c.whole("the base, which is the number of the first cell", 0, 1);
  more("the number of cells");
  s.nodes_at = c.here();
  s.nodes = static_cast<std::size_t>(c.whole("the number of cells", 0, most));
  more("the number of nets");
  s.nets_at = c.here();
  s.nets = static_cast<std::size_t>(c.whole("the number of nets", 0, most));
  more("the number of pins");
  auto const* const pins_at = c.here();
  auto const pins = static_cast<std::size_t>(c.whole("the number of pins", 0, most));
  if (!c.at_line_end()) {
    auto const scheme = c.whole("the scheme of weights: 0 none, 1 cells, 2 nets, 3 both", 0, 3);
    s.node_weights = (scheme & 1) != 0, s.net_weights = (scheme & 2) != 0;
  }
  if (!c.at_line_end()) {
    auto const* const at = c.here();
    auto const constraints = c.whole("the number of constraints", 1, most);
    if (constraints > 1)
      c.fail_at(at,
                "each cell has " + std::to_string(constraints) +
                    " weights, but only one constraint is supported; write a file with one weight a cell");
  }
  c.end_line("the heading base cells nets pins [scheme [constraints]]");
  detail::check_stated_hypergraph<Index>(c, s);
  hypergraph<Index, Weight> h;
  h.nodes = s.nodes;
  detail::read_net_lines(c, s, base, h);
  if (h.pins.size() != pins)
    c.fail_at(pins_at, "the heading says " + std::to_string(pins) + " pins, but the nets have " +
                           std::to_string(h.pins.size()));
  for (std::size_t n = 0; n < h.nodes && s.node_weights; ++n) {
    if (c.at_line_end()) c.skip_to_content("%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(n) + " weights of " + std::to_string(h.nodes) +
             " cells");
    h.node_weight.push_back(detail::read_weight<Weight>(c, "the weight of a cell"));
  }
  if (s.node_weights && h.nodes > 0) c.end_line("the weights of the cells");
  detail::end_hypergraph(c, s, h);
  return h;
}

/// Returns the text that `read_patoh_hypergraph` reads, with base 1. A net without pins is left out. O(size).
template <std::integral Index, weight_number NodeWeight, weight_number NetWeight, std::integral Offset>
std::string write_patoh_hypergraph(hypergraph_view<Index, NodeWeight, NetWeight, Offset> h) {
  // the lines of the nets are those of hMETIS; the heading and the weights of cells differ
  auto const nets_only = hypergraph_view<Index, NodeWeight, NetWeight, Offset>{
      .nodes = h.nodes, .offsets = h.offsets, .pins = h.pins, .node_weight = {}, .net_weight = h.net_weight};
  auto const lines = write_hmetis_hypergraph(nets_only);
  auto const heading = lines.find('\n');
  std::string text = "1 ";
  detail::append_number(text, h.nodes);
  text += ' ';
  text += lines.substr(0, lines.find(' '));
  text += ' ';
  detail::append_number(text, h.pins.size());
  int const scheme = (h.node_weight.empty() ? 0 : 1) + (h.net_weight.empty() ? 0 : 2);
  if (scheme > 0) (text += ' ') += static_cast<char>('0' + scheme);
  text += lines.substr(heading);
  for (std::size_t n = 0; n < h.node_weight.size(); ++n) {
    if (n > 0) text += ' ';
    detail::append_number(text, h.node_weight[n]);
  }
  if (!h.node_weight.empty()) text += '\n';
  return text;
}

}  // namespace cleave
