// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "cleave/formats/graph_files/text.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/hypergraph.hpp"

/// The format of hMETIS' hypergraph files (its manual, section 5.1). The first line is `nets nodes [fmt]`.
/// Then each net has a line with its pins, counted from 1. With fmt 1, the line begins with the weight of the
/// net. With fmt 10, the lines of the nets are followed by one line per node with its weight. Fmt 11 means
/// both. Lines that begin with % are comments.
namespace cleave::inline v0_2::detail {

/// The numbers in the heading of a file of a hypergraph, and their places.
struct stated_hypergraph {
  std::size_t nets = 0, nodes = 0;
  char const *nets_at = nullptr, *nodes_at = nullptr;
  bool net_weights = false, node_weights = false;
};

/// Fails if the indices cannot number the nodes, nets or pins.
template <std::integral Index>
void require_index_range(text_cursor const& c, stated_hypergraph const& s, std::size_t items,
                         char const* what) {
  if (items >= static_cast<std::uint64_t>((std::numeric_limits<Index>::max)()))
    c.fail_at(s.nets_at, std::string("there are more ") + what + " than indices of " +
                             std::to_string(8 * sizeof(Index)) +
                             " bits can number; read the file with 64 bits");
}

/// Checks stated numbers against the bytes below the heading, before memory is allocated for them.
template <std::integral Index>
void check_stated_hypergraph(text_cursor const& c, stated_hypergraph const& s) {
  require_index_range<Index>(c, s, s.nets > s.nodes ? s.nets : s.nodes, "nets or nodes");
  if (s.nets > c.left() + 1)
    c.fail_at(s.nets_at, "the heading says " + std::to_string(s.nets) + " nets, but the file has only " +
                             std::to_string(c.left()) + " bytes below it; each net has a line");
  if (!s.node_weights && s.nodes > c.left() + (1u << 20))
    c.fail_at(s.nodes_at, "the heading says " + std::to_string(s.nodes) + " nodes, but the file has only " +
                              std::to_string(c.left()) +
                              " bytes below it; nearly all nodes would be in no net");
  if (s.node_weights && s.nodes > c.left() + 1)
    c.fail_at(s.nodes_at, "the heading says " + std::to_string(s.nodes) +
                              " nodes with weights, but the file has only " + std::to_string(c.left()) +
                              " bytes below it; each node has a weight");
}

/// Reads a line for each net: its weight if nets have weights, then its pins, counted from `first`.
template <std::integral Index, weight_number Weight>
void read_net_lines(text_cursor& c, stated_hypergraph const& s, std::uint64_t first,
                    hypergraph<Index, Weight>& h) {
  h.offsets.reserve(s.nets + 1);
  for (std::size_t e = 0; e < s.nets; ++e) {
    c.skip_to_content("%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(e) + " nets of " + std::to_string(s.nets) +
             "; each net has a line with at least one pin");
    if (s.net_weights) h.net_weight.push_back(read_weight<Weight>(c, "the weight of a net"));
    if (c.at_line_end()) c.fail("expected the pins of a net");
    while (!c.at_line_end()) {
      if (h.nodes == 0) c.fail("a net has a pin, but the heading says 0 nodes");
      h.pins.push_back(static_cast<Index>(c.whole("a pin", first, h.nodes - 1 + first) - first));
    }
    c.skip_line();
    require_index_range<Index>(c, s, h.pins.size(), "pins");
    h.offsets.push_back(static_cast<Index>(h.pins.size()));
  }
}

/// Checks that nothing follows, and that sums of weights do not overflow.
template <std::integral Index, weight_number Weight>
void end_hypergraph(text_cursor& c, stated_hypergraph const& s, hypergraph<Index, Weight> const& h) {
  c.skip_to_content("%");
  if (!c.at_end())
    c.fail("a line after the " + std::to_string(s.nets) + " nets" +
           (s.node_weights ? " and the weights of the nodes" : "") + " given in the heading");
  if (auto const fault = find_hypergraph_fault(h.view())) c.fail_at(s.nets_at, describe(*fault));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads an hMETIS hypergraph. O(size of the text).
/// \throws graph_file_error with the place, if the text violates the format or its heading
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
hypergraph<Index, Weight> read_hmetis_hypergraph(std::string_view text) {
  detail::text_cursor c(text);
  c.skip_to_content("%");
  detail::stated_hypergraph s;
  s.nets_at = c.here();
  s.nets = static_cast<std::size_t>(c.whole("the number of nets", 0, 0xfffffffe));
  if (c.at_line_end())
    c.fail("expected the number of nodes after that of nets: a heading is nets nodes [fmt]");
  s.nodes_at = c.here();
  s.nodes = static_cast<std::size_t>(c.whole("the number of nodes", 0, 0xfffffffe));
  if (!c.at_line_end()) {
    auto const* const at = c.here();
    auto const fmt = c.word();
    if (fmt != "0" && fmt != "1" && fmt != "10" && fmt != "11")
      c.fail_at(at, "expected a format of 1, 10 or 11, or none, got " + quoted(fmt));
    s.net_weights = fmt == "1" || fmt == "11", s.node_weights = fmt == "10" || fmt == "11";
  }
  c.end_line("the heading nets nodes [fmt]");
  detail::check_stated_hypergraph<Index>(c, s);
  hypergraph<Index, Weight> h;
  h.nodes = s.nodes;
  detail::read_net_lines(c, s, 1, h);
  for (std::size_t n = 0; n < h.nodes && s.node_weights; ++n) {
    c.skip_to_content("%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(n) + " weights of " + std::to_string(h.nodes) +
             " nodes");
    h.node_weight.push_back(detail::read_weight<Weight>(c, "the weight of a node"));
    c.end_line("the weight of a node");
  }
  detail::end_hypergraph(c, s, h);
  return h;
}

/// Returns the text that `read_hmetis_hypergraph` reads. A net without pins is left out. O(size).
template <std::integral Index, weight_number NodeWeight, weight_number NetWeight, std::integral Offset>
std::string write_hmetis_hypergraph(hypergraph_view<Index, NodeWeight, NetWeight, Offset> h) {
  std::string rows;
  std::size_t nets = 0;
  for (std::size_t e = 0; e < h.nets(); ++e) {
    if (h.pins_of(e).empty()) continue;
    ++nets;
    bool blank = !h.net_weight.empty();
    if (blank) detail::append_number(rows, h.net_weight[e]);
    for (auto const pin : h.pins_of(e)) {
      if (blank) rows += ' ';
      blank = true;
      detail::append_number(rows, static_cast<std::uint64_t>(pin) + 1);
    }
    rows += '\n';
  }
  for (auto const w : h.node_weight) {
    detail::append_number(rows, w);
    rows += '\n';
  }
  std::string text;
  detail::append_number(text, nets);
  text += ' ';
  detail::append_number(text, h.nodes);
  if (!h.net_weight.empty() || !h.node_weight.empty())
    text += h.node_weight.empty() ? " 1" : h.net_weight.empty() ? " 10" : " 11";
  return text + '\n' + rows;
}

}  // namespace cleave
