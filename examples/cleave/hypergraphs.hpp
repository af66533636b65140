// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/formats/graph_files/hmetis_hypergraph.hpp>
#include <cleave/formats/graph_files/patoh_hypergraph.hpp>
#include <cleave/formats/graph_files/text.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cleave/graph/hypergraph.hpp>
#include <cleave/partition/model/partition.hpp>
#include <cleave/partition/verify/verify_partition.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "files.hpp"

namespace tool {

/// Returns whether a file of this name is in PaToH's format.
inline bool is_patoh_file(std::string_view file) { return file.ends_with(".u") || file.ends_with(".patoh"); }

/// Returns whether the tool reads a file of this name as a hypergraph: hMETIS' `.hgr`, or PaToH's.
inline bool is_hypergraph_file(std::string_view file) {
  return file.ends_with(".hgr") || is_patoh_file(file);
}

/// Reads a file of a hypergraph; the suffix of `suffixed` says its format.
/// \throws cleave::graph_file_error with the file and the place
template <class Weight>
cleave::hypergraph<std::uint32_t, Weight> read_hypergraph_file(std::string const& file,
                                                               std::string const& suffixed) {
  auto const text = read_text(file);
  try {
    return is_patoh_file(suffixed) ? cleave::read_patoh_hypergraph<std::uint32_t, Weight>(text)
                                   : cleave::read_hmetis_hypergraph<std::uint32_t, Weight>(text);
  } catch (cleave::fractional_weight_error const& e) {
    throw cleave::fractional_weight_error(input_name(file), e);
  } catch (cleave::graph_file_error const& e) {
    throw cleave::graph_file_error(input_name(file), e);
  }
}

/// Measures the balance with `verify_partition`, on a graph with the nodes of `h` and no edges.
template <class Weight>
auto verify_balance(cleave::hypergraph_view<std::uint32_t, Weight, Weight> h, cleave::partition const& p,
                    double imbalance) {
  std::vector<std::uint32_t> const offsets(h.nodes + 1, 0);
  cleave::adjacency_view<std::uint32_t, Weight, Weight> const nodes{offsets, {}, h.node_weight};
  return cleave::verify_partition(nodes, p, {.imbalance = imbalance});
}

}  // namespace tool
