// SPDX-License-Identifier: MIT
// Binds the partitioner of hypergraphs.
#include <nanobind/nanobind.h>

#include <cleave/graph/hypergraph.hpp>
#include <cleave/partition/kway/hypergraph_cut.hpp>
#include <cleave/partition/kway/hypergraph_options.hpp>
#include <cleave/partition/kway/partition_hypergraph.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "arrays.hpp"
#include "bind.hpp"
#include "options.hpp"

namespace nb = nanobind;

namespace {

using binding::array;
using binding::maybe_array;

/// Calls `f` with a view of the arrays, in the types that they have.
template <class F>
nb::dict with_hypergraph(std::size_t nodes, array const& offsets, array const& pins,
                         maybe_array const& node_weights, maybe_array const& net_weights, F f) {
  auto const with_types = [&](auto first, auto to) {
    return binding::with_weights(node_weights, "weights", [&](auto of_nodes) {
      return binding::with_weights(net_weights, "net_weights", [&](auto of_nets) {
        using view = cleave::hypergraph_view<
            typename decltype(to)::value_type, typename decltype(of_nodes)::value_type,
            typename decltype(of_nets)::value_type, typename decltype(first)::value_type>;
        return f(view{nodes, first, to, of_nodes, of_nets});
      });
    });
  };
  return binding::with_integers(offsets, "indptr", [&](auto first) {
    return binding::with_integers(pins, "pins", [&](auto to) -> nb::dict {
      if constexpr (sizeof(first[0]) != sizeof(to[0]))
        throw nb::type_error("indptr and pins must be arrays of the same type");
      else
        return with_types(first, to);
    });
  });
}

template <class Sum>
void set_cut(nb::dict& result, cleave::hypergraph_cut<Sum> const& cut) {
  result["connectivity"] = cut.connectivity;
  result["cut_net_weight"] = cut.cut_net_weight;
  result["cut_nets"] = cut.cut_nets;
}

nb::dict partition_hypergraph(std::size_t nodes, array const& offsets, array const& pins,
                              maybe_array const& node_weights, maybe_array const& net_weights,
                              std::uint32_t k, bool count_cut_nets, nb::dict const& given) {
  binding::python_options const options(given);
  auto const& o = options.get();
  cleave::hypergraph_options const all{.preset = o.preset,
                                       .objective = count_cut_nets
                                                        ? cleave::hypergraph_objective::cut_nets
                                                        : cleave::hypergraph_objective::connectivity,
                                       .imbalance = o.imbalance,
                                       .share = o.share,
                                       .fixed = o.fixed,
                                       .seed = o.seed,
                                       .threads = o.threads,
                                       .observer = o.observer};
  return with_hypergraph(nodes, offsets, pins, node_weights, net_weights, [&](auto view) {
    auto p = [&] {
      nb::gil_scoped_release const unlocked;
      return cleave::partition_hypergraph(view, k, all);
    }();
    nb::dict result;
    set_cut(result, p.cut);
    result["k"] = p.parts;
    result["imbalance"] = p.imbalance;
    result["within_limits"] = p.within_limits;
    result["part_weights"] =
        binding::to_numpy<typename decltype(p.part_weights)::value_type>(std::move(p.part_weights));
    result["labels"] = binding::to_numpy<std::int32_t>(std::move(p.of));
    return result;
  });
}

nb::dict measure_hypergraph(std::size_t nodes, array const& offsets, array const& pins,
                            maybe_array const& node_weights, maybe_array const& net_weights,
                            array const& labels, std::uint32_t k) {
  auto const p = binding::partition_of(labels, k);
  return with_hypergraph(nodes, offsets, pins, node_weights, net_weights, [&](auto view) {
    if (auto const fault = cleave::find_hypergraph_fault(view))
      throw cleave::detail::hypergraph_error("hypergraph: " + describe(*fault), *fault);
    if (p.of.size() != nodes) throw nb::value_error("labels must have one entry per node");
    for (auto const part : p.of)
      if (index(part) >= k) throw nb::value_error("labels must be below k");
    nb::dict result;
    set_cut(result, cleave::measure_cut(view, p));
    return result;
  });
}

}  // namespace

void bind_hypergraph(nb::module_& m) {
  using namespace nb::literals;
  m.def("partition_hypergraph", &partition_hypergraph, "nodes"_a, "indptr"_a, "pins"_a, "weights"_a.none(),
        "net_weights"_a.none(), "k"_a, "count_cut_nets"_a, "options"_a, "Cuts a hypergraph in CSR arrays.");
  m.def("measure_hypergraph", &measure_hypergraph, "nodes"_a, "indptr"_a, "pins"_a, "weights"_a.none(),
        "net_weights"_a.none(), "labels"_a, "k"_a, "Counts what the nets of given parts cost.");
}
