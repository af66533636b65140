// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/buckets/bucket_times.hpp"
#include "cleave/partition/buckets/buckets.hpp"
#include "cleave/partition/buckets/optimal_buckets.hpp"
#include "cleave/partition/model/model_parameters.hpp"

namespace cleave::inline v0_2 {

/// Rules that define which parameters count, at which node, and with how many bytes. All rules leave out
/// parameters that are not trained, and those that are ignored.
enum class parameter_counting : std::uint8_t {
  /// Each parameter counts once, with its own bytes, at the first call that reads it directly or through a
  /// module. Parameters that share memory count together at most the bytes of that memory.
  each_once,
  /// The rule of torch 2.15's DDPOptimizer. Parameters count with their whole storage. Each module object
  /// counts once, at its last call. Parameters also count at get_attr nodes, and at each occurrence of a
  /// placeholder among the direct operands of a function. At a method call, such placeholders and the module
  /// registered under the receiver's target count, unless the receiver is the result of a function.
  torch_2_15,
  /// The rule of torch 2.3's DDPOptimizer. Parameters count with their whole storage, modules at each call,
  /// and trained tensors at get_attr nodes. Graphs with higher-order operations are rejected.
  torch_2_3,
};

/// A parameter that counts at a node.
struct counted_parameter {
  std::string name;  ///< module path and name, as in `net.0_weight`, or the name of an attribute or input
  std::uint32_t parameter;  ///< index into `model_parameters::list`
  std::size_t bytes;        ///< bytes that it counts with

  bool operator==(counted_parameter const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a node reads a subgraph for a higher-order operation, which the rule rejects. The witness is the
/// node that reads the subgraph.
using higher_order_error = tagged_error<struct higher_order_tag, module_graph::position>;

/// Returns the first get_attr node that reads a module, if any. O(V).
inline std::optional<module_graph::position> find_higher_order_body(module_graph const& g) {
  for (auto const n : g.state())
    if (auto const* a = g.find_attribute(g[n].target); a && a->what == module_attribute::kind::module)
      return n;
  return std::nullopt;
}

/// Determines the parameters that count at each node. Used by `count_parameters`.
class module_parameter_counter {
 public:
  using position = module_graph::position;

  module_parameter_counter(module_graph const& g, model_parameters const& p)
      : g_(g), p_(p), at_(g.list().size()) {
    for (auto const& m : p.modules) modules_.insert(m.path);
    for (auto const& a : p.attributes) attributes_.insert(a.path);
    for (auto const& i : p.placeholders) placeholders_.insert(i.path);
  }

  /// Returns the counted parameters of each node of the graph, in order.
  std::vector<std::vector<counted_parameter>> count(parameter_counting rule) {
    auto const size = static_cast<position>(g_.list().size());
    if (rule == parameter_counting::each_once) {
      share_memory();
      for (position n = 0; n < size; ++n) count_once(n);
    } else {
      for (position n = size; n-- > 0;)
        rule == parameter_counting::torch_2_15 ? count_as_2_15(n) : count_as_2_3(n);
    }
    return std::move(at_);
  }

 private:
  model_parameters::module const* module(std::string const& path) const {
    auto const i = modules_.find(path);
    return i == none<std::uint32_t> ? nullptr : &p_.modules[i];
  }
  static std::optional<std::uint32_t> find(numbering<std::string, std::uint32_t> const& paths,
                                           std::vector<model_parameters::placed> const& placed,
                                           std::string const& path) {
    auto const i = paths.find(path);
    return i == none<std::uint32_t> ? std::nullopt : std::optional(placed[i].parameter);
  }
  std::optional<std::uint32_t> attribute(std::string const& path) const {
    return find(attributes_, p_.attributes, path);
  }
  std::optional<std::uint32_t> placeholder(position n) const {
    if (g_[n].kind != node_kind::placeholder) return std::nullopt;
    return find(placeholders_, p_.placeholders, g_[n].name);
  }
  static bool sent(model_parameter const& p) { return p.trained && !p.ignored; }

  void count_once(position n) {
    if (!module_graph::is_call(g_[n])) return;
    if (g_[n].kind == node_kind::call_module)
      if (auto const* m = module(g_[n].target)) each_held(*m, [&](auto const& h) { own(n, m->path, h); });
    for (position const v : g_.operands(n)) {
      auto const& read = g_[v];
      if (auto const i = placeholder(v)) own(n, "", {read.target, *i});
      if (read.kind != node_kind::get_attr) continue;
      if (auto const i = attribute(read.target)) own(n, "", {read.target, *i});
      if (auto const* body = module(read.target))
        each_held(*body, [&](auto const& h) { own(n, body->path, h); });
    }
  }

  /// Counts a parameter unless it or all of its memory has been counted.
  void own(position n, std::string const& path, model_parameters::held const& h) {
    auto const& p = p_.list[h.parameter];
    if (!sent(p) || p.plain || std::exchange(known_[h.parameter], 1)) return;
    auto const m = memory_[h.parameter];
    if (std::exchange(met_[m], 1) && left_[m] == 0) return;
    auto const bytes = (std::min)(p.bytes, left_[m]);
    left_[m] -= bytes;
    add(n, path, h, bytes);
  }

  void share_memory() {
    numbering<std::string, std::uint32_t> storages;
    for (auto const& p : p_.list) {
      auto const at = p.storage.empty() ? none<std::uint32_t> : storages.insert(p.storage);
      while (by_storage_.size() < storages.size()) by_storage_.push_back(none<std::uint32_t>);
      auto m = at == none<std::uint32_t> ? at : by_storage_[at];
      if (m == none<std::uint32_t>) {
        m = static_cast<std::uint32_t>(left_.size());
        left_.push_back(0);
        if (at != none<std::uint32_t>) by_storage_[at] = m;
      }
      left_[m] = (std::max)({left_[m], p.bytes, p.storage_bytes});
      memory_.push_back(m);
    }
    known_.assign(p_.list.size(), 0);
    met_.assign(left_.size(), 0);
  }

  void count_as_2_15(position n) {
    auto const& node = g_[n];
    if (node.kind == node_kind::call_module) {
      whole_module(n, node.target, node.target);
    } else if (node.kind == node_kind::get_attr) {
      if (auto const i = attribute(node.target); i && !p_.list[*i].plain) whole(n, "", {node.target, *i});
    } else if (node.kind == node_kind::call_function) {
      direct_operands(n);
    } else if (node.kind == node_kind::call_method) {
      auto const* receiver = node.args.empty() ? nullptr : std::get_if<node_ref>(&node.args.front().front());
      if (!receiver || g_[receiver->node].kind == node_kind::call_function) return;
      whole_module(n, g_[receiver->node].target, node.target);
      direct_operands(n);
    }
  }

  void whole_module(position n, std::string const& path, std::string const& name) {
    auto const* m = module(path);
    if (!m) return;
    auto const before = objects_.size();
    if (objects_.insert(m->object) < before) return;
    each_held(*m, [&](auto const& h) { whole(n, name, h); });
  }

  void direct_operands(position n) {
    for (auto const& a : g_[n].args)
      if (auto const* ref = std::get_if<node_ref>(&a.front()))
        if (auto const i = placeholder(ref->node)) whole(n, "", {g_[ref->node].target, *i});
  }

  void count_as_2_3(position n) {
    auto const& node = g_[n];
    if (node.kind == node_kind::call_module) {
      if (auto const* m = module(node.target)) each_held(*m, [&](auto const& h) { whole(n, m->path, h); });
    } else if (node.kind == node_kind::get_attr) {
      if (auto const i = attribute(node.target)) whole(n, "", {node.target, *i});
    }
  }

  /// Counts a parameter with its whole storage, even if that was counted before.
  void whole(position n, std::string const& path, model_parameters::held const& h) {
    auto const& p = p_.list[h.parameter];
    if (sent(p)) add(n, path, h, (std::max)(p.bytes, p.storage_bytes));
  }

  /// Calls `f` with each parameter of `m` under its first name.
  template <class F>
  static void each_held(model_parameters::module const& m, F f) {
    numbering<std::uint32_t, std::uint32_t> met;
    for (auto const& h : m.holds) {
      auto const before = met.size();
      if (met.insert(h.parameter) == before) f(h);
    }
  }

  void add(position n, std::string const& path, model_parameters::held const& h, std::size_t bytes) {
    at_[n].push_back({path.empty() ? h.name : path + "_" + h.name, h.parameter, bytes});
  }

  module_graph const& g_;
  model_parameters const& p_;
  std::vector<std::vector<counted_parameter>> at_;
  numbering<std::string, std::uint32_t> modules_, attributes_, placeholders_, objects_;
  std::vector<std::uint32_t> by_storage_, memory_;  // per storage, per parameter: its memory
  std::vector<std::size_t> left_;                   // per memory: bytes not yet counted
  std::vector<char> known_, met_;                   // per parameter, per memory: counted
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

struct module_bucket_options {
  bucket_options caps{};
  parameter_counting counting = parameter_counting::each_once;
};

/// A bucket of a module_graph. It consists of calls and get_attr nodes, given by their positions.
struct module_bucket {
  std::vector<module_graph::position> nodes;                       ///< in reverse program order
  std::vector<counted_parameter> counted;                          ///< in the order of `nodes`
  std::size_t bytes = 0, extra_nodes = 0, bytes_before_extra = 0;  ///< as in `basic_bucket`

  bool operator==(module_bucket const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A view of a module_graph without placeholders and output: the nodes that buckets contain.
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

/// A snapshot of a module_graph with the parameters that count at its nodes.
struct counted_graph {
  snapshot<bucket_graph> nodes;
  basic_bucket_counts<std::uint32_t> counts;
  std::vector<counted_parameter> entries;
};

/// Takes a snapshot of `g` and counts its parameters. Expected O(V + E + parameters).
/// \throws parameter_error, higher_order_error.
inline counted_graph count_parameters(module_graph const& g, model_parameters const& parameters,
                                      parameter_counting rule) {
  if (auto const fault = find_parameter_fault(parameters)) throw parameter_error(*fault);
  if (rule == parameter_counting::torch_2_3)
    if (auto const n = find_higher_order_body(g))
      throw higher_order_error(
          "buckets: " + quoted(g[*n].name) + " reads the module " + quoted(g[*n].target) +
              " for a higher-order operation, which torch 2.3 does not split; count parameters "
              "by another rule",
          *n);
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

/// Returns the buckets of `p` with positions and names of the module_graph. O(V + entries).
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

namespace cleave::inline v0_2 {

/// Returns the buckets of `g` from its front to its tail. They are filled as by `fill_buckets` on a snapshot.
/// Nodes are the calls and get_attr nodes of `g`. Expected O(V + E + parameters).
/// \throws error if the caps contradict each other, parameter_error, higher_order_error.
inline std::vector<module_bucket> fill_buckets(module_graph const& g, model_parameters const& parameters,
                                               module_bucket_options const& options = {}) {
  auto const c = detail::count_parameters(g, parameters, options.counting);
  return detail::named_buckets(c, fill_buckets(c.nodes, c.counts, options.caps));
}

/// Returns the names of the parameters of each bucket, such as `net.0.weight`, from the tail of the graph to
/// its front: the order in which gradients are sent. Buckets without parameters are left out. A parameter
/// that several modules hold has the name of the first.
inline std::vector<std::vector<std::string>> sent_parameters(std::vector<module_bucket> const& buckets,
                                                             model_parameters const& parameters) {
  std::vector<std::string> names(parameters.list.size());
  auto const name = [&](std::uint32_t parameter, std::string path) {
    if (names[parameter].empty()) names[parameter] = std::move(path);
  };
  for (auto const& a : parameters.attributes) name(a.parameter, a.path);
  for (auto const& m : parameters.modules)
    for (auto const& h : m.holds) name(h.parameter, m.path.empty() ? h.name : m.path + "." + h.name);
  for (auto const& p : parameters.placeholders) name(p.parameter, p.path);
  std::vector<std::vector<std::string>> sent;
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) {
    if (b->counted.empty()) continue;
    auto& list = sent.emplace_back();
    for (auto const& c : b->counted) list.push_back(names[c.parameter]);
  }
  return sent;
}

/// A line of a report: a bucket with at least one parameter.
struct bucket_row {
  std::uint32_t from_tail;  ///< position in the order in which gradients are sent; 0 is the tail
  std::size_t bytes;
  std::vector<std::string> names;  ///< names of its parameters, with repetitions

  bool operator==(bucket_row const&) const = default;
};

/// A bucket that grew beyond its cap because it could not be closed.
struct extended_bucket {
  std::uint32_t from_tail;
  std::size_t extra_nodes, extra_bytes;

  bool operator==(extended_bucket const&) const = default;
};

struct bucket_report {  ///< a summary of buckets, from the tail to the front of the graph
  std::vector<bucket_row> rows;
  std::vector<extended_bucket> extended;
};

/// Returns a summary of the buckets, listed from the tail to the front of the graph. The summary is empty if
/// no bucket has a parameter, because then nothing is sent.
inline bucket_report report_of(std::vector<module_bucket> const& buckets) {
  bucket_report r;
  for (std::uint32_t i = 0; i < buckets.size(); ++i) {
    auto const& b = buckets[buckets.size() - 1 - i];
    if (!b.counted.empty()) {
      r.rows.push_back({i, b.bytes, {}});
      for (auto const& c : b.counted) r.rows.back().names.push_back(c.name);
    }
    if (b.extra_nodes > 0) r.extended.push_back({i, b.extra_nodes, b.bytes - b.bytes_before_extra});
  }
  if (r.rows.empty()) r.extended.clear();
  return r;
}

/// Returns the buckets of `g` that minimise the finish time of its backward pass. `time(n)` is the backward
/// time of the node at position `n`. Expected O(V log V + E + parameters).
/// \throws parameter_error, higher_order_error, and the errors of fill_optimal_buckets on a snapshot.
template <class Time>
std::vector<module_bucket> fill_optimal_buckets(module_graph const& g, model_parameters const& parameters,
                                                Time time, link_speed const& link,
                                                parameter_counting rule = parameter_counting::each_once) {
  auto const c = detail::count_parameters(g, parameters, rule);
  std::vector<double> times;
  for (auto const n : c.nodes.node.handles()) times.push_back(time(n));
  return detail::named_buckets(c, fill_optimal_buckets(c.nodes, c.counts, times, link));
}

/// Returns the loads of the buckets from the tail to the front of the graph, as `bucket_times_of` takes them.
/// `time(n)` is the backward time of the node at position `n`. O(V).
template <class Time>
std::vector<bucket_load> loads_of(std::vector<module_bucket> const& buckets, Time time) {
  std::vector<bucket_load> loads;
  for (auto b = buckets.rbegin(); b != buckets.rend(); ++b) {
    loads.push_back({0, b->bytes});
    for (auto const n : b->nodes) loads.back().backward += time(n);
  }
  return loads;
}

}  // namespace cleave
