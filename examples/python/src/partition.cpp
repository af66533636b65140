// SPDX-License-Identifier: MIT
// Binds the partitioners of undirected graphs, and what checks their parts.
#include <nanobind/nanobind.h>

#include <cleave/graph/adjacency.hpp>
#include <cleave/partition/kway/kway.hpp>
#include <cleave/partition/repartition/repartition.hpp>
#include <cleave/partition/verify/verify_partition.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bind.hpp"
#include "options.hpp"

namespace nb = nanobind;

namespace {

using binding::array;
using binding::maybe_array;

/// Calls `f` with a view of the arrays, in the types that they have.
template <class F>
nb::dict with_graph(array const& offsets, array const& targets, maybe_array const& node_weights,
                    maybe_array const& edge_weights, F f) {
  auto const with_indices = [&](auto first, auto to) {
    return binding::with_weights(node_weights, "weights", [&](auto nodes) {
      return binding::with_weights(edge_weights, "data", [&](auto edges) {
        using view =
            cleave::adjacency_view<typename decltype(to)::value_type, typename decltype(nodes)::value_type,
                                   typename decltype(edges)::value_type,
                                   typename decltype(first)::value_type>;
        return f(view{first, to, nodes, edges});
      });
    });
  };
  return binding::with_integers(offsets, "indptr", [&](auto first) {
    return binding::with_integers(targets, "indices", [&](auto to) -> nb::dict {
      if constexpr (sizeof(first[0]) < sizeof(to[0]))
        throw nb::type_error("indptr must be an array of int64 if indices is one");
      else
        return with_indices(first, to);
    });
  });
}

/// Returns what Python makes a `Parts` of.
template <class Result>
nb::dict result_of(Result&& p) {
  nb::dict result;
  nb::list further;
  for (auto const& f : p.further) {
    nb::dict one;
    one["part_weights"] = binding::list_of(f.part_weights);
    one["imbalance"] = f.imbalance;
    further.append(one);
  }
  result["k"] = p.parts;
  result["cut"] = p.cut;
  result["imbalance"] = p.imbalance;
  result["within_limits"] = p.within_limits;
  result["further"] = further;
  result["part_weights"] =
      binding::to_numpy<typename decltype(p.part_weights)::value_type>(std::move(p.part_weights));
  result["labels"] = binding::to_numpy<std::int32_t>(std::move(p.of));
  return result;
}

nb::dict partition(array const& offsets, array const& targets, maybe_array const& node_weights,
                   maybe_array const& edge_weights, std::uint32_t k, nb::dict const& given) {
  binding::python_options const options(given);
  return with_graph(offsets, targets, node_weights, edge_weights, [&](auto view) {
    auto p = [&] {
      nb::gil_scoped_release const unlocked;
      return cleave::partition_kway(view, k, options.get());
    }();
    return result_of(std::move(p));
  });
}

nb::dict refine(array const& offsets, array const& targets, maybe_array const& node_weights,
                maybe_array const& edge_weights, array const& labels, std::uint32_t k,
                nb::dict const& given) {
  binding::python_options const options(given);
  auto const start = binding::partition_of(labels, k);
  return with_graph(offsets, targets, node_weights, edge_weights, [&](auto view) {
    auto p = [&] {
      nb::gil_scoped_release const unlocked;
      return cleave::refine_kway(view, start, options.get());
    }();
    return result_of(std::move(p));
  });
}

char const* name_of(cleave::repartition_way way) {
  switch (way) {
    case cleave::repartition_way::kept:
      return "kept";
    case cleave::repartition_way::refined:
      return "refined";
    case cleave::repartition_way::remapped:
      return "remapped";
    case cleave::repartition_way::with_migration_edges:
      return "with_migration_edges";
  }
  return "";
}

nb::dict repartition(array const& offsets, array const& targets, maybe_array const& node_weights,
                     maybe_array const& edge_weights, array const& old, std::uint32_t old_k, std::uint32_t k,
                     double cost_per_byte, maybe_array const& bytes, maybe_array const& stays,
                     nb::dict const& given) {
  binding::python_options const options(given);
  cleave::repartition_options moves{.cost_per_byte = cost_per_byte, .kway = options.get()};
  if (bytes) {
    auto const all = binding::numbers_of<std::uint64_t>(*bytes, "bytes");
    moves.bytes.assign(all.begin(), all.end());
  }
  if (stays) {
    auto const all = binding::numbers_of<std::uint8_t>(*stays, "stays");
    moves.stays.assign(all.begin(), all.end());
  }
  auto const before = binding::partition_of(old, old_k);
  return with_graph(offsets, targets, node_weights, edge_weights, [&](auto view) {
    auto p = [&] {
      nb::gil_scoped_release const unlocked;
      return cleave::repartition(view, before, k, moves);
    }();
    auto const bytes_moved = p.moved_bytes;
    auto const nodes_moved = p.moved_nodes;
    auto const objective = p.objective;
    auto const way = p.way;
    auto result = result_of(std::move(p));
    result["moved_bytes"] = bytes_moved;
    result["moved_nodes"] = nodes_moved;
    result["objective"] = objective;
    result["way"] = name_of(way);
    return result;
  });
}

char const* name_of(cleave::partition_fault what) {
  switch (what) {
    case cleave::partition_fault::wrong_length:
      return "wrong_length";
    case cleave::partition_fault::no_such_part:
      return "no_such_part";
    case cleave::partition_fault::overweight:
      return "overweight";
    case cleave::partition_fault::empty_part:
      return "empty_part";
    case cleave::partition_fault::one_sided_graph:
      return "one_sided_graph";
    case cleave::partition_fault::sums_overflow:
      return "sums_overflow";
    case cleave::partition_fault::part_cycle:
      return "part_cycle";
    case cleave::partition_fault::disconnected_part:
      return "disconnected_part";
  }
  return "";
}

nb::dict verify(array const& offsets, array const& targets, maybe_array const& node_weights,
                maybe_array const& edge_weights, array const& labels, std::uint32_t k, double imbalance,
                std::vector<double> const& shares, bool connected) {
  auto const p = binding::partition_of(labels, k);
  return with_graph(offsets, targets, node_weights, edge_weights, [&](auto view) {
    auto const report = [&] {
      nb::gil_scoped_release const unlocked;
      cleave::check_adjacency(view);  // the verifier trusts the arrays
      return cleave::verify_partition(view, p,
                                      {.imbalance = imbalance, .share = shares, .connected = connected});
    }();
    nb::dict result;
    nb::list findings;
    for (auto const& f : report.findings)
      findings.append(nb::make_tuple(name_of(f.what), f.node, f.part, f.amount, f.limit, describe(f)));
    result["cut"] = report.cut;
    result["cut_edges"] = report.cut_edges;
    result["imbalance"] = report.imbalance;
    result["empty"] = report.empty;
    result["part_weights"] = binding::list_of(report.part_weight);
    result["part_sizes"] = binding::list_of(report.part_size);
    result["pieces"] = binding::list_of(report.pieces);
    result["findings"] = findings;
    return result;
  });
}

}  // namespace

void bind_partition(nb::module_& m) {
  using namespace nb::literals;
  m.def("partition", &partition, "indptr"_a, "indices"_a, "weights"_a.none(), "data"_a.none(), "k"_a,
        "options"_a, "Cuts a graph in CSR arrays.");
  m.def("refine", &refine, "indptr"_a, "indices"_a, "weights"_a.none(), "data"_a.none(), "labels"_a, "k"_a,
        "options"_a, "Improves given parts.");
  m.def("repartition", &repartition, "indptr"_a, "indices"_a, "weights"_a.none(), "data"_a.none(), "old"_a,
        "old_k"_a, "k"_a, "cost_per_byte"_a, "bytes"_a.none(), "stays"_a.none(), "options"_a,
        "Makes new parts that move little.");
  m.def("verify", &verify, "indptr"_a, "indices"_a, "weights"_a.none(), "data"_a.none(), "labels"_a, "k"_a,
        "eps"_a, "shares"_a, "connected"_a, "Measures parts and lists their faults.");
}
