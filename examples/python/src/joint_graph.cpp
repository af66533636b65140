// SPDX-License-Identifier: MIT
// Binds what cuts a graph of forward and backward operations into its passes.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cleave/backward/cut_joint_graph.hpp>
#include <cleave/backward/joint_graph.hpp>
#include <cleave/graph/csr.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "bind.hpp"
#include "interruptible.hpp"
#include "options.hpp"

namespace nb = nanobind;

namespace {

using namespace cleave;

/// Returns the nodes of an array. One that is no index becomes one that no graph has.
std::vector<std::uint32_t> nodes_of(binding::array const& given, char const* name) {
  std::vector<std::uint32_t> nodes;
  for (auto const n : binding::numbers_of<std::int64_t>(given, name))
    nodes.push_back(n < 0 || n >= std::int64_t{none<std::uint32_t>} ? none<std::uint32_t>
                                                                    : static_cast<std::uint32_t>(n));
  return nodes;
}

template <class To, class From>
std::vector<To> list_of(binding::maybe_array const& given, char const* name) {
  if (!given) return {};
  auto const numbers = binding::numbers_of<From>(*given, name);
  return {numbers.begin(), numbers.end()};
}

joint_arrays graph_of(nb::dict const& given) {
  auto const in = [&](char const* name) { return nb::cast<binding::maybe_array>(given[name]); };
  auto const nodes = [&](char const* name) { return nodes_of(nb::cast<binding::array>(given[name]), name); };
  joint_arrays g;
  auto const reads = nodes("reads");
  std::size_t at = 0;
  for (auto const count : list_of<std::size_t, std::int64_t>(in("counts"), "counts")) {
    for (auto left = count; left > 0 && at < reads.size(); --left) g.reads.add(reads[at++]);
    g.reads.close();
  }
  for (auto const s : list_of<std::uint8_t, std::uint8_t>(in("source"), "source"))
    g.source.push_back(static_cast<joint_source>(s));
  g.bytes = list_of<std::size_t, std::int64_t>(in("bytes"), "bytes");
  g.cost = list_of<double, double>(in("cost"), "cost");
  g.run_once = list_of<char, std::uint8_t>(in("run_once"), "run_once");
  g.unsavable = list_of<char, std::uint8_t>(in("unsavable"), "unsavable");
  g.results = nodes("results");
  g.input_gradients = nodes("input_gradients");
  g.weight_gradients = nodes("weight_gradients");
  for (auto const& name : nb::cast<std::vector<std::string>>(given["names"])) {
    for (char const c : name) g.name.add(c);
    g.name.close();
  }
  return g;
}

nb::dict cut(nb::dict const& graph, nb::dict const& options) {
  auto const g = std::make_shared<joint_arrays const>(graph_of(graph));
  joint_cut_options o;
  o.most_bytes = nb::cast<std::optional<std::size_t>>(options["most_bytes"]);
  o.bytes_per_cost = nb::cast<double>(options["bytes_per_cost"]);
  o.in_flight = nb::cast<std::size_t>(options["in_flight"]);
  o.weights_in_flight = nb::cast<std::size_t>(options["weights_in_flight"]);
  o.steps = nb::cast<std::size_t>(options["steps"]);
  o.branches = nb::cast<std::size_t>(options["branches"]);
  o.gap = nb::cast<double>(options["gap"]);
  auto const c = binding::interruptible([g, o] { return cut_joint_graph(*g, o); }, nb::none());
  nb::dict result;
  result["forward"] = binding::list_of(c.forward);
  result["backward"] = binding::list_of(c.backward);
  result["weight"] = binding::list_of(c.weight);
  result["saved"] = binding::list_of(c.saved);
  result["kept"] = binding::list_of(c.kept);
  result["saved_bytes"] = c.saved_bytes;
  result["kept_bytes"] = c.kept_bytes;
  result["bytes"] = c.bytes;
  result["again"] = binding::list_of(c.again);
  result["cost"] = c.cost;
  result["bound"] = c.bound;
  result["least"] = c.least;
  return result;
}

}  // namespace

void bind_joint_graph(nb::module_& m) {
  using namespace nb::literals;
  m.def("cut_joint_graph", &cut, "graph"_a, "options"_a,
        "Cuts a graph of forward and backward operations into its passes.");
}
