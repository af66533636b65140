// SPDX-License-Identifier: MIT
#pragma once
#include <onnx/onnx_pb.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/order.hpp"

namespace cleave::inline v0_2::detail {

/// A graph of an ONNX model and all its bodies in numbered form: the names that are read are resolved to
/// values.
///
/// Nodes are numbered by scope, in file order: the graph's own nodes first, by their position in the file,
/// then those of bodies. A name may mean different values in different scopes. The innermost scope that makes
/// it anywhere wins. Absent operands and unused results (empty names) are left out.
struct onnx_scopes {
  using index = std::uint32_t;

  /// The graph itself (number 0), or a body in an attribute of `holder`.
  struct scope {
    ::onnx::GraphProto const* graph;  ///< null for a function
    std::string_view attribute;       ///< name of the attribute that contains it
    index holder;                     ///< a node, or none
    index depth;                      ///< 0 for the graph itself
    index first_node = 0, end_node = 0;
    index first_value = 0, end_value = 0;
  };
  struct value {
    std::string_view name;
    index text;                                         ///< number of the name; equal for equal names
    index scope;                                        ///< the scope that defines it
    index producer = none<index>;                       ///< a node, or none
    ::onnx::TensorProto const* tensor = nullptr;        ///< data of an initializer, or null
    ::onnx::SparseTensorProto const* sparse = nullptr;  ///< data of a sparse initializer, or null
    bool listed = false;                                ///< true if it is an input of its graph
  };

  std::vector<std::string_view> texts;  ///< each name once
  std::vector<::onnx::NodeProto const*> nodes;
  std::vector<index> scope_of;  ///< the scope of each node
  std::vector<scope> scopes;
  std::vector<value> values;
  csr<index> operands, results;  ///< the values of each node
  csr<index> bodies;             ///< the scopes in each node
  csr<index> arguments, yields;  ///< for each scope: the values defined on entry, and the values returned
  csr<index> reads;              ///< for each node of the graph itself: operands, then captures; may repeat
  std::vector<index> order;  ///< the graph's own nodes in topological order; among ready nodes, the first in
                             ///< the file comes first
  std::optional<onnx::fault> fault;  ///< the first fault; later arrays are then not filled

  std::size_t graph_nodes() const { return scopes.front().end_node; }

  /// Returns a node's name in messages: its position in its scope, name, operator, first result and enclosing
  /// body, as in `node #3 'conv1' (Conv, makes 'y')`.
  std::string label(index n) const {
    auto const& p = *nodes[n];
    auto const& home = scopes[scope_of[n]];
    std::string text = "node #" + std::to_string(n - home.first_node);
    if (!p.name().empty()) text += " " + quoted(p.name());
    text += " (" + printable(p.op_type());
    for (auto const& name : p.output()) {
      if (name.empty()) continue;
      text += std::string(p.op_type().empty() ? "" : ", ") + "makes " + quoted(name);
      break;
    }
    text += ")";
    if (home.holder == none<index>) return text;
    auto const& holder = *nodes[home.holder];
    text += " in the " + printable(home.attribute) + " of ";
    text += holder.name().empty() ? "a node" : quoted(holder.name());
    return text + " (" + printable(holder.op_type()) + ")";
  }

  /// Returns a scope's name in messages.
  std::string place(index i) const {
    auto const& s = scopes[i];
    if (s.holder != none<index>) return "the " + printable(s.attribute) + " of " + label(s.holder);
    return s.graph != nullptr ? "the graph" : "the function";
  }
};

/// Lists the scopes, nodes and values of a graph or function. Names that are read stay indices of `texts` for
/// now. Breadth first, each scope after its holder's, so that every list is written once and in order.
class onnx_scope_lister {
 public:
  explicit onnx_scope_lister(onnx::limits const& limits) : limits_(limits) {}

  template <class Root>  // GraphProto or FunctionProto
  onnx_scopes list(Root const& root) {
    s_.scopes.push_back({nullptr, {}, none<index>, 0});
    open(root);
    for (opening_ = 1; opening_ < s_.scopes.size() && !s_.fault; ++opening_) open(*s_.scopes[opening_].graph);
    return std::move(s_);
  }

 private:
  using index = onnx_scopes::index;
  using kind = onnx::fault_kind;
  using node_list = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;

  /// Two values of one name in one scope.
  struct doubled {
    index first, second;
  };
  void report(kind k, std::string message, std::vector<std::string> names = {}) {
    if (!s_.fault) s_.fault = onnx::fault{k, std::move(message), std::move(names)};
  }

  void open(::onnx::GraphProto const& g) {
    s_.scopes[opening_].graph = &g;
    begin();
    for (auto const& v : g.input()) argument(v.name());
    for (auto const& t : g.initializer()) initialize(t.name(), &t, nullptr);
    for (auto const& t : g.sparse_initializer()) initialize(t.values().name(), nullptr, &t);
    open_nodes(g.node());
    for (auto const& v : g.output()) yield(v.name());
    end();
  }

  void open(::onnx::FunctionProto const& f) {
    begin();
    for (auto const& name : f.input()) argument(name);
    open_nodes(f.node());
    for (auto const& name : f.output()) yield(name);
    end();
  }

  void begin() {
    auto& s = s_.scopes[opening_];
    s.first_node = narrow<index>(s_.nodes.size());
    s.first_value = narrow<index>(s_.values.size());
    if (s.depth > limits_.max_depth)
      report(kind::depth, "bodies are nested more than " + std::to_string(limits_.max_depth) + " deep at " +
                              s_.label(s.holder) + ", which protobuf readers reject");
  }

  void end() {
    auto& s = s_.scopes[opening_];
    s.end_node = narrow<index>(s_.nodes.size());
    s.end_value = narrow<index>(s_.values.size());
    s_.arguments.close();
    s_.yields.close();
    if (!twice_.empty()) report_twice();
  }

  void report_twice() {
    auto const who = [&](index v) {
      index const p = s_.values[v].producer;
      return p == none<index> ? "an input or initializer" : s_.label(p);
    };
    auto const [first, second] = twice_.front();
    std::string message = "value " + quoted(s_.values[first].name) + " is made twice in " +
                          s_.place(opening_) + ": by " + who(first) + " and by " + who(second);
    std::vector<std::string> names;
    for (auto const& d : twice_) {
      if (!names.empty() && names.size() <= 8)
        message += (names.size() == 1 ? "; so are " : ", ") + quoted(s_.values[d.first].name);
      names.emplace_back(s_.values[d.first].name);
    }
    if (names.size() > 9) message += ", … (" + std::to_string(names.size()) + " in all)";
    report(kind::duplicate_value, message + "; give each value a unique name", std::move(names));
  }

  index text_of(std::string_view name) {
    auto const [at, fresh] = texts_.try_emplace(name, narrow<index>(texts_.size()));
    if (fresh) {
      latest_.push_back(none<index>);
      s_.texts.push_back(name);
    }
    return at->second;
  }

  /// Adds a value to the scope that is being listed; a second value of the same name is a fault.
  index declare(std::string_view name, index producer) {
    auto const text = text_of(name);
    if (auto const old = latest_[text]; old != none<index> && s_.values[old].scope == opening_)
      twice_.push_back({old, narrow<index>(s_.values.size())});
    latest_[text] = narrow<index>(s_.values.size());
    s_.values.push_back({name, text, opening_, producer});
    return latest_[text];
  }

  void argument(std::string const& name) {
    if (name.empty()) return report(kind::name, "an input of " + s_.place(opening_) + " has no name", {""});
    auto const v = declare(name, none<index>);
    s_.values[v].listed = true;
    s_.arguments.add(v);
  }

  /// Attaches data to the input of the initializer's name, or to a new value.
  void initialize(std::string const& name, ::onnx::TensorProto const* tensor,
                  ::onnx::SparseTensorProto const* sparse) {
    if (name.empty())
      return report(kind::name, "an initializer of " + s_.place(opening_) + " has no name", {""});
    auto v = latest_[text_of(name)];
    bool const input_without_data = v != none<index> && s_.values[v].scope == opening_ &&
                                    s_.values[v].tensor == nullptr && s_.values[v].sparse == nullptr;
    if (!input_without_data) s_.arguments.add(v = declare(name, none<index>));
    s_.values[v].tensor = tensor;
    s_.values[v].sparse = sparse;
  }

  /// Lists the nodes of a scope, and their bodies as scopes to list later.
  void open_nodes(node_list const& nodes) {
    for (auto const& n : nodes) {
      auto const at = narrow<index>(s_.nodes.size());
      s_.nodes.push_back(&n);
      s_.scope_of.push_back(opening_);
      for (auto const& name : n.input())
        if (!name.empty()) s_.operands.add(text_of(name));
      for (auto const& name : n.output())
        if (!name.empty()) s_.results.add(declare(name, at));
      for (auto const& a : n.attribute()) {
        if (a.has_g()) hold(a.g(), a.name(), at);
        for (auto const& g : a.graphs()) hold(g, a.name(), at);
      }
      s_.operands.close();
      s_.results.close();
      s_.bodies.close();
    }
  }

  void hold(::onnx::GraphProto const& body, std::string_view attribute, index holder) {
    s_.bodies.add(narrow<index>(s_.scopes.size()));
    s_.scopes.push_back({&body, attribute, holder, s_.scopes[opening_].depth + 1});
  }

  void yield(std::string const& name) {
    if (name.empty()) return report(kind::name, "an output of " + s_.place(opening_) + " has no name", {""});
    s_.yields.add(text_of(name));
  }

  onnx::limits limits_;
  onnx_scopes s_;
  index opening_ = 0;
  std::unordered_map<std::string_view, index> texts_;
  std::vector<index> latest_;  // for each name: its last value
  std::vector<doubled> twice_;
};

/// Resolves names to values, and finds an order in which the nodes can run. Depth first, with one stack of
/// bindings: on entry, the values of a scope hide those of the same names outside.
class onnx_name_resolver {
 public:
  explicit onnx_name_resolver(onnx_scopes s) : s_(std::move(s)) {}

  onnx_scopes run() {
    if (!s_.fault) resolve();
    if (!s_.fault) sort();
    return std::move(s_);
  }

 private:
  using index = onnx_scopes::index;
  using kind = onnx::fault_kind;

  /// A dependency between two nodes of one scope: `reader`, or a body in it, reads `value`, made by the
  /// other.
  struct need {
    index reader, value;
  };
  /// A scope whose names are being resolved.
  struct frame {
    index scope;
    index node;      // the node that is being read
    index next = 0;  // next body of the node
  };

  void report(kind k, std::string message, std::vector<std::string> names) {
    if (!s_.fault) s_.fault = onnx::fault{k, std::move(message), std::move(names)};
  }

  /// Replaces each name that is read by its value.
  void resolve() {
    bound_.assign(s_.texts.size(), none<index>);
    enter(0);
    while (!path_.empty() && !s_.fault) {
      auto const [scope, n, next] = path_.back();
      if (n == s_.scopes[scope].end_node) {
        leave();
      } else if (next < s_.bodies[n].size()) {
        ++path_.back().next;
        enter(s_.bodies[n][next]);
      } else {
        if (scope == 0) s_.reads.close();
        ++path_.back().node;
        path_.back().next = 0;
        read_operands();
      }
    }
  }

  void enter(index scope) {
    auto const& s = s_.scopes[scope];
    for (index v = s.first_value; v < s.end_value; ++v) {
      hidden_.push_back(bound_[s_.values[v].text]);
      bound_[s_.values[v].text] = v;
    }
    path_.push_back({scope, s.first_node});
    read_operands();
  }

  void leave() {
    index const scope = path_.back().scope;
    resolve_row(s_.yields, scope, [&](std::string_view name) {
      report(kind::missing_value,
             "output " + quoted(name) + " of " + s_.place(scope) +
                 " is not made by any node; remove it or add its node",
             {std::string(name)});
    });
    auto const& s = s_.scopes[scope];
    for (index v = s.end_value; v-- > s.first_value;) {
      bound_[s_.values[v].text] = hidden_.back();
      hidden_.pop_back();
    }
    path_.pop_back();
  }

  void read_operands() {
    index const n = path_.back().node;
    if (n == s_.scopes[path_.back().scope].end_node) return;
    resolve_row(s_.operands, n, [&](std::string_view name) {
      report(kind::missing_value,
             s_.label(n) + " reads " + quoted(name) +
                 ", which is not the name of a node's result, an input or an initializer in its scope; add "
                 "its producer",
             {std::string(name)});
    });
  }

  template <class Missing>
  void resolve_row(csr<index>& table, index row, Missing missing) {
    for (index i = table.first[row]; i < table.first[row + 1]; ++i) {
      index const text = table.item[i];
      index const v = bound_[text];
      if (v == none<index>) return missing(s_.texts[text]);
      table.item[i] = v;
      auto const& defined = path_[s_.scopes[s_.values[v].scope].depth];
      bool const by_node = defined.node != s_.scopes[defined.scope].end_node;
      if (by_node && s_.values[v].producer != none<index>) needs_.push_back({defined.node, v});
      if (path_[0].node != s_.scopes[0].end_node && s_.values[v].scope == 0) s_.reads.add(v);
    }
  }

  /// Orders the graph's nodes. Bodies and functions are copied whole, so they must be in order already.
  void sort() {
    auto const late = [&](need const& e) { return s_.values[e.value].producer >= e.reader; };
    auto const first_late = std::ranges::find_if(needs_, late);
    s_.order.resize(s_.graph_nodes());
    for (index n = 0; n < s_.graph_nodes(); ++n) s_.order[n] = n;
    if (first_late == needs_.end()) return;

    dependency_table t;
    t.successors.first.assign(s_.nodes.size() + 1, 0);
    for (auto const& e : needs_) ++t.successors.first[s_.values[e.value].producer + 1];
    for (std::size_t n = 0; n < s_.nodes.size(); ++n) t.successors.first[n + 1] += t.successors.first[n];
    t.successors.item.resize(needs_.size());
    for (auto next = t.successors.first; auto const& e : needs_)
      t.successors.item[next[s_.values[e.value].producer]++] = e.reader;
    t.predecessors = transposed(t.successors);

    auto const sorted = ready_order(t);
    if (sorted.size() < s_.nodes.size()) return report_cycle(cycle_outside(t, sorted));
    auto const misplaced = std::ranges::find_if(needs_, [&](need const& e) {
      return late(e) && (s_.scope_of[e.reader] != 0 || s_.scopes[0].graph == nullptr);
    });
    if (misplaced != needs_.end()) {
      auto const& v = s_.values[misplaced->value];
      return report(kind::order,
                    s_.label(misplaced->reader) + " reads " + quoted(v.name) +
                        " before it is made; sort the nodes of " + s_.place(v.scope),
                    {std::string(v.name)});
    }
    s_.order.clear();
    for (auto const n : sorted)
      if (n < s_.graph_nodes()) s_.order.push_back(static_cast<index>(n));
  }

  void report_cycle(std::vector<std::size_t> const& cycle) {
    std::vector<std::size_t> position(s_.nodes.size(), none<std::size_t>);
    for (std::size_t i = 0; i < cycle.size(); ++i) position[cycle[i]] = i;
    std::vector<std::string> names(cycle.size());  // the value that each node passes to the next
    for (auto const& e : needs_) {
      auto const from = position[s_.values[e.value].producer], to = position[e.reader];
      if (from != none<std::size_t> && to == (from + 1) % cycle.size()) names[from] = s_.values[e.value].name;
    }
    std::string message = "nodes depend on each other in a cycle: ";
    std::size_t const shown = std::min<std::size_t>(cycle.size(), 8);
    for (std::size_t i = 0; i < shown; ++i)
      message += s_.label(static_cast<index>(cycle[i])) + " passes " + quoted(names[i]) + " to ";
    message += shown < cycle.size() ? "… (" + std::to_string(cycle.size()) + " nodes)" : "the first again";
    report(kind::cycle, message + "; an ONNX graph must not have cycles, remove one of these reads", names);
  }

  onnx_scopes s_;
  std::vector<index> bound_;   // for each name: its current value
  std::vector<index> hidden_;  // values hidden by those of the open scopes
  std::vector<frame> path_;
  std::vector<need> needs_;
};

/// Reads a graph or function into numbered form. If `fault` is set, reading stopped there: a missing or
/// repeated value, a cycle, or bodies nested too deep or out of order. Expected O(size), O(size log size) if
/// the graph is not sorted; no recursion.
inline onnx_scopes read_onnx_scopes(::onnx::GraphProto const& g, onnx::limits const& limits = {}) {
  return onnx_name_resolver(onnx_scope_lister(limits).list(g)).run();
}
inline onnx_scopes read_onnx_scopes(::onnx::FunctionProto const& f, onnx::limits const& limits = {}) {
  return onnx_name_resolver(onnx_scope_lister(limits).list(f)).run();
}

}  // namespace cleave::detail
