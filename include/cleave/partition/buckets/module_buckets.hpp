// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/buckets/buckets.hpp"
#include "cleave/partition/buckets/parameter_counting.hpp"
#include "cleave/partition/model/model_parameters.hpp"

namespace cleave {

struct module_bucket_options {
  bucket_options caps{};
  parameter_counting counting = parameter_counting::each_once;
};

/// A bucket of a module_graph: calls and get_attr nodes, by their position.
struct module_bucket {
  std::vector<module_graph::position> nodes;                       ///< the last first
  std::vector<counted_parameter> counted;                          ///< in the order of the walk
  std::size_t bytes = 0, extra_nodes = 0, bytes_before_extra = 0;  ///< as in `basic_bucket`

  bool operator==(module_bucket const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// A module_graph whose nodes are all but placeholders and the output: what a bucket holds.
class bucket_graph {
 public:
  using position = module_graph::position;

  explicit bucket_graph(module_graph const& g) : g_(&g) {
    for (position n = 0; n < g.list().size(); ++n)
      if (module_graph::is_call(g[n]) || g[n].kind == node_kind::get_attr) nodes_.push_back(n);
  }
  std::span<position const> nodes() const { return nodes_; }
  std::vector<position> operands(position n) const { return g_->operands(n); }
  std::span<position const> inputs() const { return g_->inputs(); }
  std::vector<position> outputs() const { return g_->outputs(); }
  std::string_view name(position n) const { return g_->name(n); }

 private:
  module_graph const* g_;
  std::vector<position> nodes_;
};

/// A module_graph as the functions on a snapshot see it, with what counts at its nodes.
struct counted_graph {
  snapshot<bucket_graph> nodes;
  basic_bucket_counts<std::uint32_t> counts;
  std::vector<counted_parameter> entries;
};

/// Expected O(V + E + parameters). \throws parameter_error, higher_order_error.
inline counted_graph count_parameters(module_graph const& g, model_parameters const& parameters,
                                      parameter_counting rule) {
  if (auto const fault = find_parameter_fault(parameters)) throw parameter_error(*fault);
  if (rule == parameter_counting::torch_2_3)
    if (auto const n = find_higher_order_body(g)) throw higher_order_error(g, *n);
  auto at = module_parameter_counter(g, parameters).count(rule);
  counted_graph c{snapshot_of(bucket_graph(g)), {}, {}};
  for (auto const n : c.nodes.node.handles()) {
    for (auto& counted : at[n]) {
      c.counts.entries.add(narrow<std::uint32_t>(c.entries.size()));
      c.counts.bytes.push_back(counted.bytes);
      c.counts.what.push_back(counted.parameter);
      c.entries.push_back(std::move(counted));
    }
    c.counts.entries.close();
  }
  return c;
}

/// The buckets of `p` by positions and names of the module_graph. O(V + entries).
inline std::vector<module_bucket> named_buckets(counted_graph const& c,
                                                basic_bucket_partition<std::uint32_t> const& p) {
  std::vector<module_bucket> buckets;
  for (auto const& b : p.buckets) {
    buckets.push_back({{}, {}, b.bytes, b.extra_nodes, b.bytes_before_extra});
    for (auto const n : b.nodes) buckets.back().nodes.push_back(c.nodes.node[n]);
    for (auto const e : b.entries) buckets.back().counted.push_back(c.entries[e]);
  }
  return buckets;
}

}  // namespace cleave::detail

namespace cleave {

/// The buckets of `g`, from its first part to its tail, as `fill_buckets` on a snapshot fills them; nodes are
/// its calls and get_attr nodes. Expected O(V + E + parameters).
///
/// \throws error where the caps make no sense, parameter_error, higher_order_error.
inline std::vector<module_bucket> fill_buckets(module_graph const& g, model_parameters const& parameters,
                                               module_bucket_options const& options = {}) {
  auto const c = detail::count_parameters(g, parameters, options.counting);
  return detail::named_buckets(c, fill_buckets(c.nodes, c.counts, options.caps));
}

}  // namespace cleave
