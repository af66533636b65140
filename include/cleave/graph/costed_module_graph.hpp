// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave {

/// A node whose metadata has a cost or a size that is none. The witness: the node.
class cost_error : public witness_error<module_graph::position> {
 public:
  using witness_error::witness_error;
};

/// A module_graph with what its nodes cost: their metadata `cost`, a number, and `bytes`, an integer, of what
/// they make. It models `weighted_graph` and `sized_graph` besides. A node without `cost` costs nothing, one
/// without `bytes` makes something of unknown size; `has_costs()` says whether any node has a cost.
class costed_module_graph : public module_graph {
 public:
  /// \throws cost_error where a cost is no finite number from 0 on, or a size no integer from 0 on.
  explicit costed_module_graph(module_graph g) : module_graph(std::move(g)) {
    for (position n = 0; n < list().size(); ++n) {
      cost_.push_back(0);
      bytes_.push_back(0);
      for (auto const& [key, value] : list()[n].metadata) {
        if (key == "cost") read_cost(n, value);
        if (key == "bytes") read_bytes(n, value);
      }
    }
  }

  double weight(position n) const { return cost_[n]; }
  std::size_t bytes(position v) const { return bytes_[v]; }
  bool has_costs() const { return has_costs_; }

 private:
  void read_cost(position n, module_argument const& a) {
    auto const* whole = a.size() == 1 ? std::get_if<std::int64_t>(&a.front()) : nullptr;
    auto const* real = a.size() == 1 ? std::get_if<double>(&a.front()) : nullptr;
    double const x = whole ? static_cast<double>(*whole) : real ? *real : -1;
    if (!(x >= 0) || x - x != 0) refuse(n, "cost", "finite number");
    cost_[n] = x;
    has_costs_ = true;
  }
  void read_bytes(position n, module_argument const& a) {
    auto const* whole = a.size() == 1 ? std::get_if<std::int64_t>(&a.front()) : nullptr;
    if (!whole || *whole < 0) refuse(n, "bytes", "integer");
    bytes_[n] = static_cast<std::size_t>(*whole);
  }
  [[noreturn]] void refuse(position n, std::string_view key, std::string_view kind) const {
    throw cost_error("node " + quoted(list()[n].name) + ": its metadata '" + std::string(key) + "' is no " +
                         std::string(kind) + " from 0 on",
                     n);
  }

  std::vector<double> cost_;        // of a position
  std::vector<std::size_t> bytes_;  // of a position
  bool has_costs_ = false;
};

}  // namespace cleave
