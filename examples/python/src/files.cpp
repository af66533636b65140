// SPDX-License-Identifier: MIT
// Binds the readers of graph files.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cleave/formats/files/read_whole_file.hpp>
#include <cleave/formats/graph_files/graph_file.hpp>
#include <cleave/formats/graph_files/hmetis_hypergraph.hpp>
#include <cleave/formats/graph_files/patoh_hypergraph.hpp>
#include <cleave/graph/adjacency.hpp>
#include <cleave/graph/hypergraph.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bind.hpp"

namespace nb = nanobind;

namespace {

template <class Weight>
nb::dict read_graph_as(std::string const& file, int values, std::uint64_t first_node) {
  std::vector<std::vector<double>> further;
  auto g = [&] {
    nb::gil_scoped_release const unlocked;
    return cleave::read_graph_file<std::int32_t, Weight>(
        file, {.first_node = first_node,
               .values = static_cast<cleave::matrix_values>(values),
               .further_weights = &further,
               .raised_by = {}});
  }();
  nb::dict result;
  nb::list rest;
  for (auto& weights : further) rest.append(binding::to_numpy<double>(std::move(weights)));
  result["indptr"] = binding::to_numpy<std::int32_t>(std::move(g.offsets));
  result["indices"] = binding::to_numpy<std::int32_t>(std::move(g.targets));
  result["weights"] = binding::to_numpy_or_none<Weight>(std::move(g.node_weight));
  result["data"] = binding::to_numpy_or_none<Weight>(std::move(g.edge_weight));
  result["further"] = rest;
  return result;
}

nb::dict read_graph(std::string const& file, int values, std::uint64_t first_node) {
  try {
    return read_graph_as<std::int64_t>(file, values, first_node);
  } catch (cleave::fractional_weight_error const&) {
    return read_graph_as<double>(file, values, first_node);
  }
}

template <class Weight>
nb::dict read_hypergraph_as(std::string const& file, bool is_patoh) {
  auto h = [&] {
    nb::gil_scoped_release const unlocked;
    auto const text = cleave::detail::read_whole_file(file, {.is_text = true});
    try {
      return is_patoh ? cleave::read_patoh_hypergraph<std::int32_t, Weight>(text)
                      : cleave::read_hmetis_hypergraph<std::int32_t, Weight>(text);
    } catch (cleave::fractional_weight_error const& e) {
      throw cleave::fractional_weight_error(file, e);
    } catch (cleave::graph_file_error const& e) {
      throw cleave::graph_file_error(file, e);
    }
  }();
  nb::dict result;
  result["nodes"] = h.nodes;
  result["indptr"] = binding::to_numpy<std::int32_t>(std::move(h.offsets));
  result["pins"] = binding::to_numpy<std::int32_t>(std::move(h.pins));
  result["weights"] = binding::to_numpy_or_none<Weight>(std::move(h.node_weight));
  result["net_weights"] = binding::to_numpy_or_none<Weight>(std::move(h.net_weight));
  return result;
}

nb::dict read_hypergraph(std::string const& file, bool is_patoh) {
  try {
    return read_hypergraph_as<std::int64_t>(file, is_patoh);
  } catch (cleave::fractional_weight_error const&) {
    return read_hypergraph_as<double>(file, is_patoh);
  }
}

}  // namespace

void bind_files(nb::module_& m) {
  using namespace nb::literals;
  m.def("read_graph", &read_graph, "file"_a, "values"_a, "first_node"_a, "Reads an undirected graph.");
  m.def("read_hypergraph", &read_hypergraph, "file"_a, "is_patoh"_a, "Reads a hypergraph.");
}
