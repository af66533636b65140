// SPDX-License-Identifier: MIT
// Binds what cuts a computation graph: balanced stages, groups by capability, and buckets of gradients.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cleave/core/cycle.hpp>
#include <cleave/core/error.hpp>
#include <cleave/core/ids.hpp>
#include <cleave/graph/snapshot.hpp>
#include <cleave/graph/snapshot_arrays.hpp>
#include <cleave/partition/buckets/bucket_times.hpp>
#include <cleave/partition/buckets/buckets.hpp>
#include <cleave/partition/buckets/optimal_buckets.hpp>
#include <cleave/partition/groups/capability.hpp>
#include <cleave/partition/slices/balance.hpp>
#include <cleave/partition/slices/balance_ranks.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bind.hpp"
#include "errors.hpp"
#include "interruptible.hpp"
#include "options.hpp"

namespace nb = nanobind;

namespace {

using namespace cleave;
using numbers = std::vector<std::uint32_t>;

/// A computation graph as Python lists it. Node n makes value n. Values above are those that no node makes.
class listed_graph {
 public:
  std::vector<numbers> reads, follows;
  std::vector<std::string> names;
  std::vector<double> weights;                // by node
  std::vector<char> replicables, unportable;  // by node; by value
  std::vector<std::uint64_t> sizes;           // by value
  numbers storages, given, held, returned;    // by value; values

  auto nodes() const { return std::views::iota(std::uint32_t{0}, static_cast<std::uint32_t>(reads.size())); }
  numbers const& operands(std::uint32_t n) const { return reads[n]; }
  numbers const& inputs() const { return given; }
  numbers const& outputs() const { return returned; }
  numbers const& state() const { return held; }
  numbers const& after(std::uint32_t n) const { return follows[n]; }
  std::string const& name(std::uint32_t n) const { return names[n]; }
  double weight(std::uint32_t n) const { return weights[n]; }
  std::size_t bytes(std::uint32_t v) const { return sizes[v]; }
  std::uint32_t storage(std::uint32_t v) const { return storages[v]; }
  bool replicable(std::uint32_t n) const { return replicables[n] != 0; }
  bool portable(std::uint32_t v) const { return unportable[v] == 0; }
};

/// The arrays of a graph, which several functions read. Computations that were interrupted keep them.
struct planned_graph {
  std::shared_ptr<snapshot_arrays const> arrays;
  numbers number_of_value;  // that Python gave to the values of the arrays
};

template <class T>
std::vector<T> list_in(nb::dict const& given, char const* name) {
  return nb::cast<std::vector<T>>(given[name]);
}

planned_graph graph_of(nb::dict const& given) {
  listed_graph g;
  g.reads = list_in<numbers>(given, "operands");
  g.follows = list_in<numbers>(given, "after");
  g.names = list_in<std::string>(given, "names");
  g.weights = list_in<double>(given, "costs");
  g.sizes = list_in<std::uint64_t>(given, "bytes");
  g.storages = list_in<std::uint32_t>(given, "storage");
  g.given = list_in<std::uint32_t>(given, "inputs");
  g.held = list_in<std::uint32_t>(given, "state");
  g.returned = list_in<std::uint32_t>(given, "outputs");
  auto const nodes = g.reads.size(), values = g.sizes.size();
  g.replicables.assign(nodes, 0);
  g.unportable.assign(values, 0);
  g.follows.resize(nodes);
  auto const require = [](bool holds, char const* message) {
    if (!holds) throw error(std::string("plan: ") + message);
  };
  require(g.names.size() == nodes && g.weights.size() == nodes, "each node needs a name and a cost");
  require(values >= nodes && g.storages.size() == values, "each value needs a size and a storage");
  auto const all_below = [](numbers const& list, std::size_t end) {
    return std::ranges::all_of(list, [=](std::uint32_t x) { return x < end; });
  };
  for (auto const& list : g.reads)
    require(all_below(list, values), "a node reads a value that does not exist");
  for (auto const& list : g.follows)
    require(all_below(list, nodes), "a node follows one that does not exist");
  for (auto const* list : {&g.given, &g.held, &g.returned})
    require(all_below(*list, values), "the interface names a value that does not exist");
  for (auto const n : list_in<std::uint32_t>(given, "replicable")) {
    require(n < nodes, "a replicable node does not exist");
    g.replicables[n] = 1;
  }
  for (auto const v : list_in<std::uint32_t>(given, "unportable")) {
    require(v < values, "an unportable value does not exist");
    g.unportable[v] = 1;
  }
  nb::gil_scoped_release const unlocked;
  auto s = snapshot_of(g);
  auto const value = s.value;
  return {std::make_shared<snapshot_arrays const>(std::move(s)), value};
}

/// Returns one limit for all parts, or one for each.
template <class T, class From>
per_part<T> each_of(std::vector<From> const& list) {
  if (list.size() == 1) return per_part<T>(static_cast<T>(list.front()));
  return per_part<T>(std::vector<T>(list.begin(), list.end()));
}

balance_options options_of(nb::dict const& given, std::uint32_t k) {
  auto const memory = list_in<std::uint64_t>(given, "memory");
  auto const speed = list_in<double>(given, "speed");
  balance_options o;
  o.cost_per_byte = nb::cast<double>(given["cost_per_byte"]);
  if (!memory.empty()) o.memory = each_of<std::size_t>(memory);
  if (!speed.empty()) o.speed = each_of<double>(speed);
  o.relayed = nb::cast<bool>(given["relayed"]);
  o.together = list_in<std::vector<std::size_t>>(given, "together");
  o.node_memory = list_in<std::size_t>(given, "node_memory");
  o.seed = nb::cast<std::uint64_t>(given["seed"]);
  auto const fixed = list_in<std::int64_t>(given, "fixed");
  for (auto const part : fixed) {
    if (part >= std::int64_t{k})
      throw error("plan: a node is fixed to stage " + std::to_string(part) + ", but there are only " +
                  std::to_string(k));
    o.fixed.push_back(part < 0 ? no_part : part_id{static_cast<std::uint32_t>(part)});
  }
  return o;
}

void report(nb::dict& result, balanced_partition const& p) {
  nb::list labels;
  for (auto const part : p.of) labels.append(part == no_part ? -1 : static_cast<std::int64_t>(index(part)));
  result["labels"] = labels;
  result["k"] = p.parts;
  result["loads"] = binding::list_of(p.loads);
  result["unsized"] = p.unsized;
}

nb::dict cut(planned_graph const& g, std::uint32_t k, nb::dict const& given) {
  auto const o = options_of(given, k);
  auto const p =
      binding::interruptible([arrays = g.arrays, k, o] { return balance(*arrays, k, o); }, nb::none());
  nb::dict result;
  report(result, p);
  result["bottleneck"] = p.bottleneck;
  result["bound"] = p.bound;
  result["rank_loads"] = binding::list_of(p.loads);
  return result;
}

nb::dict cut_for_ranks(planned_graph const& g, numbers const& rank_of, std::uint32_t ranks,
                       nb::dict const& given) {
  auto const o = options_of(given, ranks);
  std::vector<rank_id> places;
  for (auto const r : rank_of) places.push_back(rank_id{r});
  auto const p = binding::interruptible(
      [arrays = g.arrays, places, ranks, o] { return balance_ranks(*arrays, places, ranks, o); }, nb::none());
  nb::dict result;
  report(result, p.stages);
  result["bottleneck"] = p.bottleneck;
  result["bound"] = p.bound;
  result["rank_loads"] = binding::list_of(p.rank_loads);
  return result;
}

/// Measures given stages: their loads and the bound of `balance` for as many.
nb::dict measure(planned_graph const& g, std::vector<std::int64_t> const& labels, std::uint32_t k,
                 nb::dict const& given) {
  auto const o = options_of(given, k);
  if (labels.size() != g.arrays->nodes()) throw error("plan: each node needs a stage");
  cleave::partition p{{}, k};
  for (auto const part : labels) {
    if (part >= std::int64_t{k}) throw error("plan: stage " + std::to_string(part) + " is not below k");
    p.of.push_back(part < 0 ? no_part : part_id{static_cast<std::uint32_t>(part)});
  }
  auto const loads = part_loads(*g.arrays, p, {o.cost_per_byte, o.speed, {}, o.relayed});
  nb::dict result;
  result["loads"] = binding::list_of(loads);
  return result;
}

nb::list groups(planned_graph const& g, std::vector<bool> const& supported,
                std::vector<std::vector<std::size_t>> const& together, std::vector<bool> const& projection,
                std::size_t least, bool connected, bool merge_walk) {
  if (supported.size() != g.arrays->nodes()) throw error("plan: each node needs a mark");
  capability_options o{.by = merge_walk ? grouping::merge_walk : grouping::fewest,
                       .along = connected ? fusion::connected : fusion::horizontal,
                       .together = together};
  o.projection.assign(projection.begin(), projection.end());
  o.least = least;
  std::vector<char> const marks(supported.begin(), supported.end());
  nb::list list;
  for (auto const& group : capability_groups(*g.arrays, marks, o)) list.append(binding::list_of(group.nodes));
  return list;
}

nb::list list_of_buckets(planned_graph const& g, basic_bucket_partition<std::uint32_t> const& p) {
  nb::list list;
  for (auto const& b : p.buckets) {
    nb::list values;
    for (auto const e : b.entries) values.append(g.number_of_value[p.counts.what[e]]);
    list.append(nb::make_tuple(binding::list_of(b.nodes), values, b.bytes));
  }
  return list;
}

nb::list buckets(planned_graph const& g, std::uint64_t cap, std::optional<std::uint64_t> first_cap) {
  return list_of_buckets(
      g, fill_buckets(*g.arrays, state_counts(*g.arrays), {.cap = cap, .first_cap = first_cap}));
}

nb::list optimal_buckets(planned_graph const& g, std::vector<double> const& times, double bandwidth,
                         double latency) {
  return list_of_buckets(g, fill_optimal_buckets(*g.arrays, state_counts(*g.arrays), times,
                                                 {.bandwidth = bandwidth, .latency = latency}));
}

}  // namespace

void bind_plan(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<planned_graph>(m, "Computation", "A computation graph with costs.");
  m.def("computation", &graph_of, "lists"_a, "Reads a computation graph from lists.");
  m.def("balance", &cut, "graph"_a, "k"_a, "options"_a, "Cuts a computation graph into stages.");
  m.def("balance_ranks", &cut_for_ranks, "graph"_a, "rank_of"_a, "ranks"_a, "options"_a,
        "Cuts a computation graph into the stages of ranks.");
  m.def("measure_stages", &measure, "graph"_a, "labels"_a, "k"_a, "options"_a,
        "Returns the loads of stages.");
  m.def("capability_groups", &groups, "graph"_a, "supported"_a, "together"_a, "projection"_a, "least"_a,
        "connected"_a, "merge_walk"_a, "Groups the nodes that one device can run.");
  m.def("fill_buckets", &buckets, "graph"_a, "cap"_a, "first_cap"_a.none(), "Fills buckets of gradients.");
  m.def("fill_optimal_buckets", &optimal_buckets, "graph"_a, "times"_a, "bandwidth"_a, "latency"_a,
        "Makes the buckets whose last gradients arrive first.");
}
