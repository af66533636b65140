// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/list_scopes.hpp"
#include "cleave/graph/order.hpp"

namespace cleave::detail {

/// Finds which value each name means, and in which order the nodes can run. Depth first, with one stack of
/// bindings: on entry a scope's values hide those of the same names outside.
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
  using kind = onnx_fault_kind;

  /// Of two nodes of one scope: `reader`, or a body in it, reads `value`, which the other makes.
  struct need {
    index reader, value;
  };
  /// A scope whose names are being resolved.
  struct frame {
    index scope;
    index node;      // that is being read
    index next = 0;  // body of the node
  };

  void report(kind k, std::string message, std::vector<std::string> names) {
    if (!s_.fault) s_.fault = onnx_fault{k, std::move(message), std::move(names)};
  }

  /// Replaces each name that is read by the value it means.
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
                 " is made by no node; remove it or add its node",
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
                 ", which no node, input or initializer in its scope makes; add what makes it",
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

  /// The order of the graph's nodes. Bodies and functions are copied whole, so theirs must be right already.
  void sort() {
    auto const late = [&](need const& e) { return s_.values[e.value].producer >= e.reader; };
    auto const first_late = std::ranges::find_if(needs_, late);
    s_.order.resize(s_.graph_nodes());
    for (index n = 0; n < s_.graph_nodes(); ++n) s_.order[n] = n;
    if (first_late == needs_.end()) return;

    need_table t;
    t.needed_by.first.assign(s_.nodes.size() + 1, 0);
    for (auto const& e : needs_) ++t.needed_by.first[s_.values[e.value].producer + 1];
    for (std::size_t n = 0; n < s_.nodes.size(); ++n) t.needed_by.first[n + 1] += t.needed_by.first[n];
    t.needed_by.item.resize(needs_.size());
    for (auto next = t.needed_by.first; auto const& e : needs_)
      t.needed_by.item[next[s_.values[e.value].producer]++] = e.reader;
    t.needs = transposed(t.needed_by);

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
    std::vector<std::string> names(cycle.size());  // what each passes to the next
    for (auto const& e : needs_) {
      auto const from = position[s_.values[e.value].producer], to = position[e.reader];
      if (from != none<std::size_t> && to == (from + 1) % cycle.size()) names[from] = s_.values[e.value].name;
    }
    std::string message = "nodes need each other in a cycle: ";
    std::size_t const shown = std::min<std::size_t>(cycle.size(), 8);
    for (std::size_t i = 0; i < shown; ++i)
      message += s_.label(static_cast<index>(cycle[i])) + " passes " + quoted(names[i]) + " to ";
    message += shown < cycle.size() ? "… (" + std::to_string(cycle.size()) + " nodes)" : "the first again";
    report(kind::cycle, message + "; a graph of ONNX has no cycles, remove one of these reads", names);
  }

  onnx_scopes s_;
  std::vector<index> bound_;   // of a text: the value it means now
  std::vector<index> hidden_;  // what the open scopes' values have hidden
  std::vector<frame> path_;
  std::vector<need> needs_;
};

/// Reads a graph or function once into numbers. Where `fault` is set, reading stopped there: a missing or
/// doubled value, a cycle, bodies too deep, or bodies out of order. Expected O(size), O(size log size) where
/// the graph is not sorted; no recursion.
inline onnx_scopes read_onnx_scopes(onnx::GraphProto const& g, onnx_limits const& limits = {}) {
  return onnx_name_resolver(onnx_scope_lister(limits).list(g)).run();
}
inline onnx_scopes read_onnx_scopes(onnx::FunctionProto const& f, onnx_limits const& limits = {}) {
  return onnx_name_resolver(onnx_scope_lister(limits).list(f)).run();
}

}  // namespace cleave::detail
