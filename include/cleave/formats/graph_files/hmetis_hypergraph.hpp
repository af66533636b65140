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
namespace cleave {

/// Reads an hMETIS hypergraph. O(size of the text).
/// \throws graph_file_error with the place, if the text violates the format or its heading
template <std::integral Index = std::uint32_t, weight_number Weight = std::int64_t>
hypergraph<Index, Weight> read_hmetis_hypergraph(std::string_view text) {
  detail::text_cursor c(text);
  c.skip_to_content("%");
  auto const* const nets_at = c.here();
  auto const nets = static_cast<std::size_t>(c.whole("the number of nets", 0, 0xfffffffe));
  if (c.at_line_end())
    c.fail("expected the number of nodes after that of nets: a heading is nets nodes [fmt]");
  hypergraph<Index, Weight> h;
  auto const* const nodes_at = c.here();
  h.nodes = static_cast<std::size_t>(c.whole("the number of nodes", 0, 0xfffffffe));
  bool net_weights = false, node_weights = false;
  if (!c.at_line_end()) {
    auto const* const at = c.here();
    auto const fmt = c.word();
    if (fmt != "0" && fmt != "1" && fmt != "10" && fmt != "11")
      c.fail_at(at, "expected a format of 1, 10 or 11, or none, got " + quoted(fmt));
    net_weights = fmt == "1" || fmt == "11", node_weights = fmt == "10" || fmt == "11";
  }
  c.end_line("the heading nets nodes [fmt]");
  constexpr auto most = static_cast<std::uint64_t>((std::numeric_limits<Index>::max)());
  auto const too_many = [&](char const* what) {
    c.fail_at(nets_at, std::string("there are more ") + what + " than indices of " +
                           std::to_string(8 * sizeof(Index)) +
                           " bits can number; read the file with 64 bits");
  };
  if (nets >= most || h.nodes >= most) too_many("nets or nodes");
  if (nets > c.left() + 1)
    c.fail_at(nets_at, "the heading says " + std::to_string(nets) + " nets, but the file has only " +
                           std::to_string(c.left()) + " bytes below it; each net has a line");
  if (!node_weights && h.nodes > c.left() + (1u << 20))
    c.fail_at(nodes_at, "the heading says " + std::to_string(h.nodes) + " nodes, but the file has only " +
                            std::to_string(c.left()) +
                            " bytes below it; nearly all nodes would be in no net");
  if (node_weights && h.nodes > c.left() + 1)
    c.fail_at(nodes_at, "the heading says " + std::to_string(h.nodes) +
                            " nodes with weights, but the file has only " + std::to_string(c.left()) +
                            " bytes below it; each weight has a line");
  h.offsets.reserve(nets + 1);
  for (std::size_t e = 0; e < nets; ++e) {
    c.skip_to_content("%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(e) + " nets of " + std::to_string(nets) +
             "; each net has a line with at least one pin");
    if (net_weights) h.net_weight.push_back(detail::read_weight<Weight>(c, "the weight of a net"));
    if (c.at_line_end()) c.fail("expected the pins of a net");
    while (!c.at_line_end()) h.pins.push_back(static_cast<Index>(c.whole("a pin", 1, h.nodes) - 1));
    c.skip_line();
    if (h.pins.size() >= most) too_many("pins");
    h.offsets.push_back(static_cast<Index>(h.pins.size()));
  }
  for (std::size_t n = 0; n < h.nodes && node_weights; ++n) {
    c.skip_to_content("%");
    if (c.at_end())
      c.fail("the file ends after " + std::to_string(n) + " weights of " + std::to_string(h.nodes) +
             " nodes");
    h.node_weight.push_back(detail::read_weight<Weight>(c, "the weight of a node"));
    c.end_line("the weight of a node");
  }
  c.skip_to_content("%");
  if (!c.at_end())
    c.fail("a line after the " + std::to_string(nets) + " nets" +
           (node_weights ? " and the weights of the nodes" : "") + " given in the heading");
  if (auto const fault = find_hypergraph_fault(h.view())) c.fail_at(nets_at, describe(*fault));
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
