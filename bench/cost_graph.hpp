// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/partition/model/partition.hpp"
#include "costed_graph.hpp"
#include "support/gunzip.hpp"

namespace bench {

/// The graph of a training step, in the file format of `tests/models/README.md` §2.
struct cost_graph : instance {
  std::vector<int> layer;  ///< layer of each node, 0 to layers - 1; nodes before or after the layers count to
                           ///< the first or last
  int layers = 0;

  /// The manual split: layer l goes to stage l k / layers, regardless of costs.
  cleave::partition layer_split(std::uint32_t k) const {
    cleave::partition p{{}, k};
    for (int const l : layer)
      p.of.push_back(cleave::part_id{static_cast<std::uint32_t>(l) * k / static_cast<std::uint32_t>(layers)});
    return p;
  }
};

/// Weights are FLOPs. Forward, backward and update nodes are the graph's nodes, parameters and buffers its
/// state.
///
/// A backward node stays with a forward node of its layer, and an update with its gradient. The forward node
/// is found through the last operand (in file order) from that layer; without one, it is the layer's last
/// forward node. So no slice separates a gradient from its forward node, and only forward order restricts the
/// slices. The program order is by layer, then by file; hence the layer split is one of the slicings of
/// `unit_order::given`.
inline cost_graph read_cost_graph(std::string const& path, std::string name) {
  std::istringstream in(cleave::testing::gunzip(path));
  std::string magic, line;
  std::size_t nodes = 0, edges = 0, ops = 0, paths = 0, outputs = 0;
  cost_graph c;
  in >> magic >> line >> nodes >> edges >> c.layers >> ops >> paths >> outputs;
  if (magic != "cleave-costs" || line != "1")
    throw std::runtime_error(path + " is not a cost graph (expected the header 'cleave-costs 1')");
  std::getline(in, line);
  for (std::size_t i = 0; i < ops + paths + 1; ++i) std::getline(in, line);

  struct item {
    char kind = 0;
    int layer = 0;
    std::uint32_t value = 0;
    std::size_t node = 0;  // its own node, or its forward node
  };
  auto& g = c.graph;
  std::vector<item> items(nodes);
  std::vector<std::size_t> last_forward(static_cast<std::size_t>(c.layers) + 2, 0);
  auto const in_file_order = [&](item const& x) {
    return last_forward[static_cast<std::size_t>(x.layer) + 1];
  };
  std::vector<std::vector<std::uint32_t>> users;
  std::vector<std::size_t> with;  // forward node of each node
  std::vector<int> own_layer;     // layer of each node, before clamping
  for (auto& x : items) {
    std::getline(in, line);
    std::istringstream row(line);
    std::size_t op, where, bytes, parameter_bytes;
    double flops;
    row >> x.kind >> x.layer >> op >> where >> flops >> bytes >> parameter_bytes;
    x.value = static_cast<std::uint32_t>(g.values());
    bool const is_node = x.kind == 'f' || x.kind == 'b' || x.kind == 'u';
    auto const n = static_cast<std::uint32_t>(g.nodes());
    g.producer.push_back(is_node ? n : cleave::none<std::uint32_t>);
    g.bytes.push_back(x.kind == 'p' ? parameter_bytes : bytes);
    g.from.push_back(is_node         ? cleave::source::node
                     : x.kind == 'i' ? cleave::source::input
                                     : cleave::source::state);
    users.emplace_back();
    if (!is_node) {
      (x.kind == 'i' ? g.inputs : g.state).push_back(x.value);
      continue;
    }
    std::size_t anchor = nodes;
    for (std::size_t operand; row >> operand;) {
      auto const& from = items[operand];
      g.operands.add(from.value);
      users[from.value].push_back(n);
      if (from.layer == x.layer && g.producer[from.value] != cleave::none<std::uint32_t>) anchor = from.node;
    }
    g.operands.close();
    g.results.add(x.value);
    g.results.close();
    g.weight.push_back(flops);
    g.group.push_back(n);
    if (x.kind == 'f') last_forward[static_cast<std::size_t>(x.layer) + 1] = n;
    x.node = x.kind == 'f' ? n : anchor != nodes ? anchor : in_file_order(x);
    with.push_back(x.node);
    own_layer.push_back(x.layer);
    c.options.backward.push_back(x.kind != 'f');
    c.layer.push_back(std::clamp(x.layer, 0, c.layers - 1));
  }
  for (auto const& list : users) {
    for (auto const n : list) g.users.add(n);
    g.users.close();
  }
  g.replicable.assign(g.nodes(), 0);
  for (std::uint32_t v = 0; v < g.values(); ++v) g.slot.push_back(v);
  g.latest = g.slot;
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (with[n] != n) c.options.together.push_back({with[n], n});
    c.options.rank.push_back(static_cast<std::size_t>(own_layer[with[n]] + 1) * g.nodes() + with[n]);
  }
  c.name = std::move(name);
  return c;
}

}  // namespace bench
