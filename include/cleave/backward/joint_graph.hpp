// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

/// A joint graph holds the forward and the backward pass of a stage: the operations of both, in one order.
namespace cleave::inline v0_2 {

/// Says where the value of a node of a joint graph comes from.
enum class joint_source : std::uint8_t {
  operation,  ///< the node computes it
  input,      ///< the forward pass is called with it
  parameter,  ///< it stays on the rank, so that keeping it costs no bytes
  gradient    ///< it arrives for the backward pass: the gradient of a result, or the one of a loss
};

/// A joint graph as flat arrays. Each node has one value. An operation with several results is a node whose
/// value cannot be saved (`unsavable`), followed by a node for each result.
template <std::unsigned_integral Index>
struct basic_joint_graph {
  using index_type = Index;

  detail::csr<Index> reads;          ///< for each node: the nodes whose values it reads, which precede it
  std::vector<joint_source> source;  ///< for each node
  std::vector<Index> results;        ///< nodes that the forward pass returns
  std::vector<Index> input_gradients, weight_gradients;  ///< nodes that the backward pass returns
  std::vector<std::size_t> bytes;                        ///< for each node: of its value
  std::vector<double> cost;       ///< for each node; may be empty, and then each operation costs 1
  std::vector<char> run_once;     ///< for each node: 1 if it may run only once; may be empty
  std::vector<char> unsavable;    ///< for each node: 1 if its value cannot be saved; may be empty
  detail::csr<Index, char> name;  ///< for each node; may be empty

  std::size_t nodes() const { return reads.rows(); }

  /// Returns the label of a node in messages: `relu (#4)`, or `#4` without a name.
  std::string label(std::size_t n) const { return detail::label_of_row(name, n); }
};

using joint_arrays = basic_joint_graph<std::uint32_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A fault of a joint graph, and its node.
struct joint_graph_fault {
  enum class kind : std::uint8_t {
    rows,      ///< a list has neither one entry per node nor, where it may be empty, none
    read,      ///< `node` reads a node that does not precede it
    source,    ///< `node` reads values but is an input, a parameter or a gradient
    place,     ///< `node`, a result or a gradient to return, does not exist
    cost,      ///< the cost of `node` is negative, infinite or not a number
    early,     ///< `node`, a result of the forward pass, depends on a gradient
    too_much,  ///< all bytes together exceed 2^60
  };
  kind what;
  std::size_t node = none<std::size_t>;

  bool operator==(joint_graph_fault const&) const = default;
};

/// Thrown for arrays that are not a joint graph. The witness is the first fault.
using joint_graph_error = witness_error<joint_graph_fault>;

/// Returns, for each node, 1 if it is a gradient or depends on one. O(V + E).
template <std::unsigned_integral Index>
std::vector<char> depends_on_gradients(basic_joint_graph<Index> const& g) {
  std::vector<char> late(g.nodes());
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    late[n] = g.source[n] == joint_source::gradient;
    for (Index const m : g.reads[n]) late[n] |= late[m];
  }
  return late;
}

/// Returns the first fault of `g`, or nothing. O(V + E).
template <std::unsigned_integral Index>
std::optional<joint_graph_fault> find_joint_graph_fault(basic_joint_graph<Index> const& g) {
  using enum joint_graph_fault::kind;
  auto const n = g.nodes();
  auto const fits = [&](std::size_t have) { return have == 0 || have == n; };
  if (g.source.size() != n || g.bytes.size() != n || !fits(g.cost.size()) || !fits(g.run_once.size()) ||
      !fits(g.unsavable.size()) || !fits(g.name.rows()))
    return joint_graph_fault{rows};
  std::size_t total = 0;
  for (std::size_t i = 0; i < n; ++i) {
    for (Index const m : g.reads[i])
      if (m >= i) return joint_graph_fault{read, i};
    if (g.source[i] != joint_source::operation && !g.reads[i].empty()) return joint_graph_fault{source, i};
    if (!g.cost.empty() && !(g.cost[i] >= 0 && is_finite(g.cost[i]))) return joint_graph_fault{cost, i};
    constexpr auto most = std::size_t{1} << 60;
    if (g.bytes[i] > most || (total += g.bytes[i]) > most) return joint_graph_fault{too_much};
  }
  for (auto const* list : {&g.results, &g.input_gradients, &g.weight_gradients})
    for (Index const m : *list)
      if (m >= n) return joint_graph_fault{place, m};
  auto const late = depends_on_gradients(g);
  for (Index const m : g.results)
    if (late[m]) return joint_graph_fault{early, m};
  return std::nullopt;
}

/// Returns one sentence that uses the names of the graph.
template <std::unsigned_integral Index>
std::string joint_graph_fault_text(basic_joint_graph<Index> const& g, joint_graph_fault const& f) {
  using enum joint_graph_fault::kind;
  auto const node = [&] { return "node " + g.label(f.node); };
  switch (f.what) {
    case rows:
      return "sources and bytes need one entry per node, of which there are " + std::to_string(g.nodes()) +
             "; costs, names, `run_once` and `unsavable` need the same or none";
    case read:
      return node() + " reads a node that does not precede it; list nodes after those that they read";
    case source:
      return node() + " is an input, a parameter or a gradient, but reads values; only operations may";
    case place:
      return "node #" + std::to_string(f.node) +
             " is to be returned but does not exist; the number of nodes is " + std::to_string(g.nodes());
    case cost:
      return "the cost of " + node() + " must be finite and not negative";
    case early:
      return node() + " is a result of the forward pass, but depends on a gradient";
    case too_much:
      break;
  }
  return "the bytes of all nodes together exceed 2^60";
}

/// Checks `g`.
/// \throws joint_graph_error
template <std::unsigned_integral Index>
void check_joint_graph(basic_joint_graph<Index> const& g) {
  if (auto const f = find_joint_graph_fault(g))
    throw joint_graph_error("joint graph: " + joint_graph_fault_text(g, *f), *f);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Says which values of a training graph belong to the backward pass.
template <class Value>
struct joint_marks {
  std::vector<Value> gradients = {};         ///< values at which the backward pass starts, of any origin
  std::vector<Value> parameters = {};        ///< inputs that stay on the rank, like state
  std::vector<Value> input_gradients = {};   ///< outputs that another stage waits for
  std::vector<Value> weight_gradients = {};  ///< outputs that are gradients of state; all others are results
  std::vector<char> run_once = {};           ///< for each node: 1 if it may run only once; may be empty
};

/// The values that the backward pass of an operation reads. It also reads the gradients of the results.
enum class backward_reads : std::uint8_t {
  nothing,   ///< for a sum or a transpose
  operands,  ///< for a matrix product
  results,   ///< for an exponential or a sigmoid
  both       ///< for an operation that you do not know
};

/// Options of `joint_graph_with_backward`.
struct joint_backward_options {
  std::vector<backward_reads> reads = {};  ///< for each node; empty: both for all
  std::vector<char> run_once = {};         ///< for each node: 1 if it may run only once; empty: none
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Appends nodes to a joint graph. Helper of the functions that make one.
template <std::unsigned_integral Index>
class joint_graph_writer {
 public:
  explicit joint_graph_writer(basic_snapshot_arrays<Index> const& g) : from_(g) {
    made_.cost.reserve(g.nodes());
  }

  /// Adds a node whose operands were added to `made_.reads`, and returns its number.
  Index node(joint_source source, std::size_t bytes, double cost, std::string_view name) {
    made_.reads.close();
    made_.source.push_back(source);
    made_.bytes.push_back(bytes);
    made_.cost.push_back(cost);
    made_.run_once.push_back(0);
    made_.unsavable.push_back(0);
    for (char const c : name) made_.name.add(c);
    made_.name.close();
    return narrow<Index>(made_.nodes() - 1);
  }
  Index value(Index v, joint_source source) { return node(source, bytes_of(v), 0, {}); }

  /// Returns the node of a value. A value that no node has made yet becomes a parameter if it is state or a
  /// constant, and otherwise what `outside` says.
  Index held(Index v, std::vector<Index>& at, joint_source outside) {
    return at[v] != none<Index>
               ? at[v]
               : at[v] = value(v, is_held(from_.from[v]) ? joint_source::parameter : outside);
  }

  /// Adds node `n` of the snapshot, which reads `reads`, and sets the nodes of its results in `at`.
  void operation(std::size_t n, std::vector<Index> const& reads, std::vector<Index>& at, bool run_once) {
    for (Index const m : reads) made_.reads.add(m);
    auto const results = from_.results[n];
    auto const text = from_.name[n];
    std::string_view const name(text.data(), text.size());
    auto const whole = node(joint_source::operation, results.size() == 1 ? bytes_of(results[0]) : 0,
                            from_.weight.empty() ? 1 : from_.weight[n], name);
    made_.run_once[whole] = run_once;
    if (results.size() == 1) {
      at[results[0]] = whole;
      return;
    }
    made_.unsavable[whole] = 1;
    for (std::size_t i = 0; i < results.size(); ++i) {
      made_.reads.add(whole);
      at[results[i]] = node(joint_source::operation, bytes_of(results[i]), 0,
                            std::string(name) + "[" + std::to_string(i) + "]");
    }
  }

  std::size_t bytes_of(Index v) const { return from_.bytes.empty() ? 0 : from_.bytes[v]; }
  basic_joint_graph<Index>& made() { return made_; }

 private:
  basic_snapshot_arrays<Index> const& from_;
  basic_joint_graph<Index> made_;
};

/// Makes the joint graph of a snapshot of a training graph. Helper of `joint_graph_of`.
template <std::unsigned_integral Index>
basic_joint_graph<Index> joint_graph_of_arrays(basic_snapshot_arrays<Index> const& g,
                                               joint_marks<Index> const& marks) {
  std::vector<Index> at(g.values(), none<Index>);
  std::vector<char> is_gradient(g.values());
  for (Index const v : marks.gradients) is_gradient[v] = 1;
  joint_graph_writer<Index> w(g);
  auto const held = [&](Index v) { return w.held(v, at, joint_source::input); };
  auto const add = [&](std::vector<Index> const& values, joint_source kind) {
    for (Index const v : values)
      if (at[v] == none<Index> && g.from[v] != source::node) at[v] = w.value(v, kind);
  };
  add(marks.gradients, joint_source::gradient);
  add(marks.parameters, joint_source::parameter);
  for (Index const v : g.inputs) held(v);
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    auto const results = g.results[n];
    bool const starts = std::ranges::any_of(results, [&](Index v) { return is_gradient[v] != 0; });
    std::vector<Index> reads;
    for (Index const v : g.operands[n])
      if (!starts) reads.push_back(held(v));
    if (starts)
      for (Index const v : results) at[v] = w.value(v, joint_source::gradient);
    else
      w.operation(n, reads, at, !marks.run_once.empty() && marks.run_once[n] != 0);
  }
  auto& made = w.made();
  std::vector<char> is_returned(g.values());
  auto const list = [&](std::vector<Index> const& values, std::vector<Index>& nodes) {
    for (Index const v : values) {
      nodes.push_back(held(v));
      is_returned[v] = 1;
    }
  };
  list(marks.input_gradients, made.input_gradients);
  list(marks.weight_gradients, made.weight_gradients);
  for (Index const v : g.outputs)
    if (!is_returned[v]) made.results.push_back(held(v));
  check_joint_graph(made);
  return std::move(made);
}

/// Throws if a list has neither an entry per node nor none.
inline void check_entries(char const* name, std::size_t entries, std::size_t nodes) {
  if (entries != 0 && entries != nodes)
    throw error("joint graph: `" + std::string(name) + "` has " + std::to_string(entries) +
                " entries, but the graph has " + std::to_string(nodes) + " nodes");
}

/// Appends a backward pass to a snapshot. Helper of `joint_graph_with_backward`.
template <std::unsigned_integral Index>
basic_joint_graph<Index> append_backward(basic_snapshot_arrays<Index> const& g,
                                         joint_backward_options const& o) {
  std::vector<Index> at(g.values(), none<Index>);
  joint_graph_writer<Index> w(g);
  auto const held = [&](Index v) { return w.held(v, at, joint_source::input); };
  for (Index const v : g.inputs) held(v);
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    std::vector<Index> reads;
    for (Index const v : g.operands[n]) reads.push_back(held(v));
    w.operation(n, reads, at, !o.run_once.empty() && o.run_once[n] != 0);
  }
  auto& made = w.made();
  for (Index const v : g.outputs) made.results.push_back(held(v));

  // For each value, the nodes whose results add up to its gradient.
  std::vector<std::vector<Index>> gradient(g.values());
  for (Index const v : g.outputs)
    if (gradient[v].empty()) gradient[v].push_back(w.value(v, joint_source::gradient));
  for (std::size_t n = g.nodes(); n-- > 0;) {
    std::vector<Index> arrive;
    for (Index const v : g.results[n]) arrive.insert(arrive.end(), gradient[v].begin(), gradient[v].end());
    if (arrive.empty()) continue;
    auto const reads = o.reads.empty() ? backward_reads::both : o.reads[n];
    auto const text = g.name[n];
    std::string const name(text.data(), text.size());
    auto const add = [&](bool of_state, char const* suffix) {
      std::size_t bytes = 0;
      std::vector<Index> values;
      for (Index const v : g.operands[n]) {
        if (g.from[v] == source::constant || (g.from[v] == source::state) != of_state) continue;
        values.push_back(v);
        bytes += (std::min)(w.bytes_of(v), static_cast<std::size_t>(-1) - bytes);  // saturates
      }
      if (values.empty()) return;
      for (Index const m : arrive) made.reads.add(m);
      if (reads == backward_reads::operands || reads == backward_reads::both)
        for (Index const v : g.operands[n]) made.reads.add(at[v]);
      if (reads == backward_reads::results || reads == backward_reads::both)
        for (Index const v : g.results[n]) made.reads.add(at[v]);
      auto const node =
          w.node(joint_source::operation, bytes, g.weight.empty() ? 1 : g.weight[n], name + suffix);
      for (Index const v : values)
        if (gradient[v].empty() || gradient[v].back() != node) gradient[v].push_back(node);
    };
    add(false, ".backward");
    add(true, ".weights");
  }
  auto const list = [&](std::vector<Index> const& values, std::vector<Index>& nodes) {
    for (Index const v : values) nodes.insert(nodes.end(), gradient[v].begin(), gradient[v].end());
  };
  list(g.inputs, made.input_gradients);
  list(g.state, made.weight_gradients);
  return std::move(made);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the joint graph of a training graph that has both passes already, such as one of ONNX. Its state
/// becomes the parameters. Every node that depends on a marked gradient belongs to the backward pass.
/// Expected O(V + E).
///
/// \throws joint_graph_error; adapter_error; error for a marked value that the graph does not have
template <dataflow_graph Graph>
joint_arrays joint_graph_of(Graph const& g, joint_marks<value_t<Graph>> const& marks) {
  auto const s = snapshot_of(g);
  detail::check_entries("run_once", marks.run_once.size(), s.nodes());
  auto const numbers = [&](std::vector<value_t<Graph>> const& values) {
    std::vector<std::uint32_t> list;
    for (auto const& v : values) {
      auto const slot = s.find_slot(v);
      if (slot == none<std::uint32_t>) throw error("joint graph: a marked value is not in the graph");
      list.push_back(s.latest[slot]);
    }
    return list;
  };
  return detail::joint_graph_of_arrays<std::uint32_t>(
      s, {numbers(marks.gradients), numbers(marks.parameters), numbers(marks.input_gradients),
          numbers(marks.weight_gradients), marks.run_once});
}

/// Returns a forward graph with the backward pass that a reverse-mode autograd would run.
///
/// Each node gets one backward node for the gradients of its operands and, if it reads state, one for the
/// gradients of state, which each cost as much as the node. A gradient has the bytes of its value. Gradients
/// of all inputs and of all state are returned. Expected O(V + E).
///
/// \throws adapter_error; error if lists have a wrong length
template <dataflow_graph Graph>
joint_arrays joint_graph_with_backward(Graph const& g, joint_backward_options const& o = {}) {
  auto const s = snapshot_of(g);
  detail::check_entries("reads", o.reads.size(), s.nodes());
  detail::check_entries("run_once", o.run_once.size(), s.nodes());
  return detail::append_backward<std::uint32_t>(s, o);
}

template <detail::unfinished_graph Graph>
detail::refused joint_graph_with_backward(Graph const&, joint_backward_options const& = {}) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave
