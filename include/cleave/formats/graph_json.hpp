// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/formats/argument_json.hpp"
#include "cleave/formats/json/json_document.hpp"
#include "cleave/formats/json/json_value.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_kinds.hpp"

/// A module_graph as JSON, and back; docs/graph_json.md describes the format.
namespace cleave::detail {

inline constexpr char graph_json_format[] = "cleave graph 1";

/// Writes graphs; `write_graph_json` is its one use. Bodies in bodies are written without recursion.
class graph_json_writer {
 public:
  explicit graph_json_writer(json_writer::layout l) : w_(l) {}

  std::string write(module_graph const& top) {
    w_.open_object().member("format", graph_json_format);
    std::vector<level> open;
    begin(top, open);
    while (!open.empty()) {
      auto& l = open.back();
      auto const attributes = l.graph->attributes();
      if (l.next == attributes.size()) {
        w_.close_object();
        write_arguments(w_, l.names, "meta", l.graph->metadata);
        if (open.size() > 1) w_.close_object().close_object();  // the body, and the attribute it is of
        open.pop_back();
        continue;
      }
      auto const& a = attributes[l.next++];
      w_.key(a.path).open_object().member("kind", attribute_kind_names[static_cast<std::size_t>(a.what)]);
      if (!a.storage.empty()) w_.member("storage", a.storage);
      if (!a.original.empty()) w_.member("original", a.original);
      write_arguments(w_, l.names, "meta", a.metadata);
      if (a.body.empty()) {
        w_.close_object();
      } else {
        w_.key("body").open_object();
        begin(a.body.front(), open);
      }
    }
    return w_.close_object().text();
  }

 private:
  struct level {
    module_graph const* graph;
    node_labels names;
    std::size_t next = 0;  // the attribute to write
  };

  void begin(module_graph const& g, std::vector<level>& open) {
    open.push_back({&g, node_labels(g)});
    w_.key("nodes").open_array();
    for (auto const& n : g.list()) write_node(n, open.back().names);
    w_.close_array().key("attributes").open_object();
  }

  void write_node(module_node const& n, node_labels const& names) {
    w_.open_object().member("name", n.name);
    if (n.kind != node_kind::call_function)
      w_.member("op", node_kind_names[static_cast<std::size_t>(n.kind)]);
    if (n.target != n.name) w_.member("target", n.target);
    if (!n.args.empty()) {
      w_.key("args").open_array();
      for (auto const& a : n.args) write_argument(w_, names, a);
      w_.close_array();
    }
    write_arguments(w_, names, "kwargs", n.kwargs);
    if (n.default_value) write_argument(w_.key("default"), names, *n.default_value);
    if (n.shape) write_shape(*n.shape);
    if (!n.expression.empty()) w_.member("expression", n.expression);
    if (!n.binds.empty()) w_.member("binds", n.binds);
    if (!n.symbols.empty()) {
      w_.key("symbols").open_array();
      for (auto const& s : n.symbols) w_.value(s);
      w_.close_array();
    }
    if (!n.after.empty()) {
      w_.key("after").open_array();
      for (auto const m : n.after) names.write(w_, m);
      w_.close_array();
    }
    if (n.from != none<std::uint32_t>) w_.member("from", n.from);
    std::size_t beside = 0;  // what stands beside the metadata, if it comes first in it
    for (auto const* key : {"cost", "bytes"})
      if (beside < n.metadata.size() && n.metadata[beside].key == key)
        write_argument(w_.key(key), names, n.metadata[beside++].value);
    auto const first = n.metadata.begin() + static_cast<std::ptrdiff_t>(beside);
    write_arguments(w_, names, "meta", std::vector(first, n.metadata.end()));
    w_.close_object();
  }

  void write_shape(std::vector<dimension> const& shape) {
    w_.key("shape").open_array();
    for (auto const& d : shape) {
      if (auto const* extent = std::get_if<std::int64_t>(&d))
        w_.value(*extent);
      else
        w_.value(std::get<std::string>(d));
    }
    w_.close_array();
  }

  json_writer w_;
};

}  // namespace cleave::detail

namespace cleave {

/// `g` as JSON: nodes are named by their names where these are different, else by their numbers. Names that
/// are no UTF-8 come back changed, as `escape_json` says; all else comes back. O(size).
inline std::string write_graph_json(module_graph const& g,
                                    json_writer::layout l = json_writer::layout::indented) {
  return detail::graph_json_writer(l).write(g);
}

}  // namespace cleave
