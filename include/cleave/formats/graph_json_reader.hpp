// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/printable.hpp"
#include "cleave/formats/argument_json.hpp"
#include "cleave/formats/graph_json.hpp"
#include "cleave/formats/json/json_document.hpp"
#include "cleave/formats/json/json_value.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_kinds.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::detail {

/// Reads the nodes of one graph; `read_graph_json` is its one use.
class node_json_reader {
 public:
  using position = module_graph::position;

  explicit node_json_reader(module_graph& g) : g_(g) {}

  void read(json_value const& v) {
    v.allow({"name", "op", "target", "args", "operands", "kwargs", "default", "shape", "expression", "binds",
             "symbols", "after", "from", "cost", "bytes", "meta"});
    auto const node_of = [&](json_value const& label) { return find_node(label); };
    auto const names_no_node = [](json_value const& label) -> position {
      label.fail("metadata names no nodes");
    };
    auto const text = [&](char const* key, std::string otherwise = {}) {
      auto const there = v.find(key);
      return there ? there->text() : otherwise;
    };
    module_node n;
    n.name = v["name"].text();
    n.kind = kind_of(v);
    n.target = text("target", n.name);
    n.expression = text("expression");
    n.binds = text("binds");
    if (auto const args = v.find("args"))
      args->each_element([&](json_value const& a) { n.args.push_back(read_argument(a, node_of)); });
    if (auto const operands = v.find("operands")) read_operands(n, *operands, v.find("args").has_value());
    if (auto const kwargs = v.find("kwargs")) n.kwargs = read_arguments(*kwargs, node_of);
    if (auto const value = v.find("default")) n.default_value = read_default(n, *value);
    if (auto const shape = v.find("shape")) n.shape = shape_of(*shape);
    if (auto const symbols = v.find("symbols")) n.symbols = symbols_of(*symbols);
    if (auto const after = v.find("after")) n.after = calls_of(*after);
    if (auto const from = v.find("from")) n.from = from->integer<std::uint32_t>();
    for (auto const* key : {"cost", "bytes"})
      if (auto const number = v.find(key)) n.metadata.push_back({key, read_argument(*number, names_no_node)});
    if (auto const meta = v.find("meta")) read_metadata(n, *meta, names_no_node);
    if (n.kind == node_kind::output && g_.output()) v.fail("a second output");
    if (n.kind == node_kind::placeholder || n.kind == node_kind::get_attr)
      for (auto const* key : {"args", "operands", "kwargs", "after"})
        if (auto const list = v.find(key); list && list->size() > 0)
          list->fail("only calls and the output have " + std::string(key));
    auto const at = g_.add(std::move(n));
    auto const known = names_.size();
    if (names_.insert(g_[at].name) < known)
      repeated_.insert(g_[at].name);
    else
      places_.push_back(at);
  }

 private:
  static node_kind kind_of(json_value const& v) {
    auto const op = v.find("op");
    if (!op) return node_kind::call_function;
    auto const known = std::ranges::find(node_kind_names, op->text());
    if (known == node_kind_names.end()) op->fail("no kind of node is called " + quoted(op->text()));
    return static_cast<node_kind>(known - node_kind_names.begin());
  }

  position find_node(json_value const& label) const {
    if (label.what() == json_kind::number) {
      auto const n = label.integer<position>();
      if (n >= g_.list().size()) label.fail("node " + std::to_string(n) + " does not come before this one");
      return n;
    }
    auto const name = label.text();
    auto const at = names_.find(name);
    if (at == none<position>) label.fail("no node before this one is called " + quoted(name));
    if (repeated_.find(name) != none<position>)
      label.fail("two nodes are called " + quoted(name) + "; say which by its number");
    return places_[at];
  }

  static module_argument read_default(module_node const& n, json_value const& value) {
    if (n.kind != node_kind::placeholder) value.fail("only a placeholder has a default");
    return read_argument(value,
                         [](json_value const& label) -> position { label.fail("a default names no nodes"); });
  }

  /// `operands` is short for arguments that are nodes; of an output, for a tuple of them.
  void read_operands(module_node& n, json_value const& operands, bool has_args) const {
    if (has_args) operands.fail("a node has args or operands, not both");
    std::vector<position> read;
    operands.each_element([&](json_value const& o) { read.push_back(find_node(o)); });
    if (n.kind == node_kind::output)
      n.args = {tuple_argument(read)};
    else
      for (auto const m : read) n.args.push_back(node_argument(m));
  }

  std::vector<position> calls_of(json_value const& list) const {
    std::vector<position> calls;
    list.each_element([&](json_value const& label) {
      calls.push_back(find_node(label));
      if (!module_graph::is_call(g_[calls.back()])) label.fail("only calls can be followed");
    });
    return calls;
  }

  static std::vector<dimension> shape_of(json_value const& list) {
    std::vector<dimension> shape;
    list.each_element([&](json_value const& d) {
      shape.push_back(d.what() == json_kind::text ? dimension(d.text()) : dimension(d.integer()));
    });
    return shape;
  }

  static std::vector<std::string> symbols_of(json_value const& list) {
    std::vector<std::string> symbols;
    list.each_element([&](json_value const& s) {
      if (!symbols.empty() && s.text() <= symbols.back()) s.fail("symbols are sorted as text, each once");
      symbols.push_back(s.text());
    });
    return symbols;
  }

  template <class NoNode>
  static void read_metadata(module_node& n, json_value const& meta, NoNode names_no_node) {
    meta.each_member([&](std::string const& key, json_value const& value) {
      if (std::ranges::find(n.metadata, key, &keyword_argument::key) != n.metadata.end())
        value.fail(quoted(key) + " stands beside the metadata already");
    });
    for (auto& k : read_arguments(meta, names_no_node)) n.metadata.push_back(std::move(k));
  }

  module_graph& g_;
  numbering<std::string, position> names_, repeated_;
  std::vector<position> places_;  // of a name
};

}  // namespace cleave::detail

namespace cleave {

/// The graph that a JSON value describes (docs/graph_json.md). Bodies in bodies are read without recursion.
/// Expected O(size).
/// \throws json_error with line, column and path where the value is no graph.
inline module_graph read_graph_json(detail::json_value const& file) {
  struct pending {
    detail::json_value at;
    std::vector<std::size_t> bodies;  // of its attributes, in order
  };
  std::vector<pending> levels{{file, {}}};
  for (std::size_t i = 0; i < levels.size(); ++i) {  // who is inside comes behind
    auto const level = levels[i].at;
    i == 0 ? level.allow({"format", "nodes", "attributes", "meta"})
           : level.allow({"nodes", "attributes", "meta"});
    if (auto const attributes = level.find("attributes"))
      attributes->each_member([&](std::string const&, detail::json_value const& a) {
        a.allow({"kind", "storage", "original", "meta", "body"});
        if (auto const body = a.find("body")) {
          levels[i].bodies.push_back(levels.size());
          levels.push_back({*body, {}});
        }
      });
  }
  if (auto const format = levels[0].at["format"]; format.text() != detail::graph_json_format)
    format.fail("expected the format \"" + std::string(detail::graph_json_format) + "\"");

  std::vector<module_graph> made(levels.size());
  auto const names_no_node = [](detail::json_value const& label) -> module_graph::position {
    label.fail("metadata names no nodes");
  };
  for (std::size_t i = levels.size(); i-- > 0;) {
    auto const level = levels[i].at;
    detail::node_json_reader reader(made[i]);
    level["nodes"].each_element([&](detail::json_value const& n) { reader.read(n); });
    if (auto const meta = level.find("meta")) made[i].metadata = detail::read_arguments(*meta, names_no_node);
    auto body = levels[i].bodies.begin();
    if (auto const attributes = level.find("attributes"))
      attributes->each_member([&](std::string const& path, detail::json_value const& v) {
        module_attribute a;
        a.path = path;
        auto const kind = std::ranges::find(detail::attribute_kind_names, v["kind"].text());
        if (kind == detail::attribute_kind_names.end())
          v["kind"].fail("expected tensor, parameter, buffer or module");
        a.what = static_cast<module_attribute::kind>(kind - detail::attribute_kind_names.begin());
        if (auto const storage = v.find("storage")) a.storage = storage->text();
        if (auto const original = v.find("original")) a.original = original->text();
        if (auto const meta = v.find("meta")) a.metadata = detail::read_arguments(*meta, names_no_node);
        if (auto const inside = v.find("body")) {
          if (a.what != module_attribute::kind::module) inside->fail("only a module has a body");
          a.body.push_back(std::move(made[*body++]));
        }
        made[i].add_attribute(std::move(a));
      });
  }
  return std::move(made.front());
}
/// The same of a text. \throws json_error also where it is no JSON.
inline module_graph read_graph_json(std::string text) {
  detail::json_document const document(std::move(text));
  return read_graph_json(detail::json_value(document));
}

}  // namespace cleave
