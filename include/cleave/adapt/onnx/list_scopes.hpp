// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/scopes.hpp"

namespace cleave::detail {

/// Lists the scopes, nodes and values of a graph or function; what is read stays a name (an index of `texts`)
/// for now. Breadth first, each scope after its holder's, so that every list is written once and in order.
class onnx_scope_lister {
 public:
  explicit onnx_scope_lister(onnx_limits const& limits) : limits_(limits) {}

  template <class Root>  // GraphProto or FunctionProto
  onnx_scopes list(Root const& root) {
    s_.scopes.push_back({nullptr, {}, none<index>, 0});
    open(root);
    for (opening_ = 1; opening_ < s_.scopes.size() && !s_.fault; ++opening_) open(*s_.scopes[opening_].graph);
    return std::move(s_);
  }

 private:
  using index = onnx_scopes::index;
  using kind = onnx_fault_kind;
  using node_list = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  /// Two values of one name in one scope.
  struct doubled {
    index first, second;
  };
  void report(kind k, std::string message, std::vector<std::string> names = {}) {
    if (!s_.fault) s_.fault = onnx_fault{k, std::move(message), std::move(names)};
  }

  void open(onnx::GraphProto const& g) {
    s_.scopes[opening_].graph = &g;
    begin();
    for (auto const& v : g.input()) argument(v.name());
    for (auto const& t : g.initializer()) initialize(t.name(), &t, nullptr);
    for (auto const& t : g.sparse_initializer()) initialize(t.values().name(), nullptr, &t);
    open_nodes(g.node());
    for (auto const& v : g.output()) yield(v.name());
    end();
  }

  void open(onnx::FunctionProto const& f) {
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
                              s_.label(s.holder) + "; no protobuf reader would accept the file");
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
    report(kind::duplicate_value, message + "; give each value one name and one maker", std::move(names));
  }

  index text_of(std::string_view name) {
    auto const [at, fresh] = texts_.try_emplace(name, narrow<index>(texts_.size()));
    if (fresh) {
      latest_.push_back(none<index>);
      s_.texts.push_back(name);
    }
    return at->second;
  }

  /// A new value of the scope that is being opened; a second of the same name is a fault.
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

  /// The value that an initializer gives data to: the input of its name, or a new one.
  void initialize(std::string const& name, onnx::TensorProto const* tensor,
                  onnx::SparseTensorProto const* sparse) {
    if (name.empty())
      return report(kind::name, "an initializer of " + s_.place(opening_) + " has no name", {""});
    auto v = latest_[text_of(name)];
    bool const input_without_data = v != none<index> && s_.values[v].scope == opening_ &&
                                    s_.values[v].tensor == nullptr && s_.values[v].sparse == nullptr;
    if (!input_without_data) s_.arguments.add(v = declare(name, none<index>));
    s_.values[v].tensor = tensor;
    s_.values[v].sparse = sparse;
  }

  /// Lists the nodes of a scope, and their bodies as scopes to open later.
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

  void hold(onnx::GraphProto const& body, std::string_view attribute, index holder) {
    s_.bodies.add(narrow<index>(s_.scopes.size()));
    s_.scopes.push_back({&body, attribute, holder, s_.scopes[opening_].depth + 1});
  }

  void yield(std::string const& name) {
    if (name.empty()) return report(kind::name, "an output of " + s_.place(opening_) + " has no name", {""});
    s_.yields.add(text_of(name));
  }

  onnx_limits limits_;
  onnx_scopes s_;
  index opening_ = 0;
  std::unordered_map<std::string_view, index> texts_;
  std::vector<index> latest_;  // of a text: its last value
  std::vector<doubled> twice_;
};

}  // namespace cleave::detail
