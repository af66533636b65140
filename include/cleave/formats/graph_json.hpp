// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/escape.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/read_real.hpp"
#include "cleave/core/real.hpp"
#include "cleave/formats/json/json_reader.hpp"
#include "cleave/formats/json/json_writer.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/carried_label.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

/// Arguments of a module_graph as JSON, and back, without recursion:
///
///     null, true, 3, 0.5, "text"             constants; a number that looks like an integer is an integer
///     {"real": 3}, {"real": "nan"}           a floating-point number written like an integer, or as text
///     {"node": "conv1"}, {"node": 4}         the value of an earlier node, by name or number
///     {"list": […]}, {"tuple": […]}, {"slice": [a, b, c]}, {"dict": [[key, value], …]}
///     {"dtype": "float32"}                   an opaque constant, like {"opaque": [kind, text]}
namespace cleave::inline v0_2::detail {

inline constexpr std::array<std::string_view, 4> container_names = {"list", "tuple", "dict", "slice"};

/// The labels of nodes in a text: their names if all are distinct, otherwise their numbers.
class node_labels {
 public:
  explicit node_labels(module_graph const& g) : g_(&g) {
    numbering<std::string, std::uint32_t> names;
    for (auto const& n : g.list()) names.insert(escape_json(n.name));
    by_name_ = names.size() == g.list().size();
  }
  void write(json::writer& w, module_graph::position n) const {
    by_name_ ? w.value((*g_)[n].name) : w.value(n);
  }
  /// Returns the same as metadata.
  module_argument of(module_graph::position n) const {
    if (by_name_) return {(*g_)[n].name};
    return {static_cast<std::int64_t>(n)};
  }

 private:
  module_graph const* g_;
  bool by_name_;
};

/// Writes a token that is neither a node nor a container.
inline void write_constant(json::writer& w, token const& t) {
  if (auto const* b = std::get_if<bool>(&t)) {
    w.value(*b);
  } else if (auto const* i = std::get_if<std::int64_t>(&t)) {
    w.value(*i);
  } else if (auto const* s = std::get_if<std::string>(&t)) {
    w.value(*s);
  } else if (auto const* x = std::get_if<double>(&t)) {
    char digits[64];
    std::string_view const text(digits, std::to_chars(digits, digits + sizeof digits, *x).ptr);
    if (is_finite(*x) && text.find_first_of(".e") != text.npos)
      w.value(*x);
    else
      w.open_object().member("real", text).close_object();
  } else if (auto const* o = std::get_if<opaque>(&t)) {
    w.open_object().key("opaque").open_array().value(o->kind).value(o->text).close_array().close_object();
  } else {
    w.null();
  }
}

/// Writes an argument. O(size).
inline void write_argument(json::writer& w, node_labels const& names, module_argument const& a) {
  struct level {
    container::kind what;
    std::size_t missing;
  };
  std::vector<level> open;
  auto const in_dict = [&] { return !open.empty() && open.back().what == container::kind::dict; };
  auto const close = [&] {
    w.close_array().close_object();
    open.pop_back();
  };
  auto const written = [&] {  // counts one more element of the innermost container
    while (!open.empty()) {
      --open.back().missing;
      if (in_dict() && open.back().missing % 2 == 0) w.close_array();
      if (open.back().missing > 0) return;
      close();
    }
  };
  for (auto const& t : a) {
    if (in_dict() && open.back().missing % 2 == 0) w.open_array();
    if (auto const* c = std::get_if<container>(&t)) {
      w.open_object().key(container_names[static_cast<std::size_t>(c->what)]).open_array();
      open.push_back({c->what, elements_of(*c)});
      if (open.back().missing > 0) continue;
      close();
    } else if (auto const* ref = std::get_if<node_ref>(&t)) {
      names.write(w.open_object().key("node"), ref->node);
      w.close_object();
    } else {
      write_constant(w, t);
    }
    written();
  }
}

/// Writes keyword arguments as an object under `key`; writes nothing if there are none. \throws error if a
/// keyword is repeated
inline void write_arguments(json::writer& w, node_labels const& names, std::string_view key,
                            std::vector<keyword_argument> const& list) {
  if (list.empty()) return;
  w.key(key).open_object();
  numbering<std::string_view, std::uint32_t> known;
  for (auto const& k : list) {
    auto const before = known.size();
    if (known.insert(k.key) < before) throw error("keyword " + quoted(k.key) + " is repeated in one list");
    write_argument(w.key(k.key), names, k.value);
  }
  w.close_object();
}

/// Reads the token that `v` begins. Adds the elements of a container to `rest`, the last first.
/// `node_of(json_value)` returns the position of the node with that label.
template <class F>
token read_token(json_value const& v, F& node_of, std::vector<json_value>& rest) {
  using enum json_kind;
  if (v.what() == null) return token();
  if (v.what() == boolean) return v.boolean();
  if (v.what() == text) return v.text();
  if (v.what() == number) return v.is_integer() ? token(v.integer()) : token(v.real());
  if (v.what() == array) v.fail("a list is written {\"list\": […]}, a tuple {\"tuple\": […]}");
  if (v.size() != 1) v.fail("expected an object with one key");
  token made;
  v.each_member([&](std::string const& key, json_value const& inside) {
    auto const what = std::ranges::find(container_names, key);
    if (key == "node") {
      made = node_ref{node_of(inside)};
    } else if (key == "real") {
      auto const s = inside.what() == text ? inside.text() : std::string();
      double x = 0;
      auto const end = read_real(s.data(), s.data() + s.size(), x);
      if (inside.what() == text && (end.ec != std::errc() || end.ptr != s.data() + s.size()))
        inside.fail("expected a floating-point number");
      made = inside.what() == text ? x : inside.real();
    } else if (key == "opaque") {
      std::vector<std::string> parts;
      inside.each_element([&](json_value const& part) { parts.push_back(part.text()); });
      if (parts.size() != 2) inside.fail("expected a kind and a text");
      made = opaque{parts[0], parts[1]};
    } else if (what == container_names.end()) {
      made = opaque{key, inside.text()};
    } else {
      container const c{static_cast<container::kind>(what - container_names.begin()),
                        narrow<std::uint32_t>(inside.size())};
      if (c.what == container::kind::slice && c.size != 3) inside.fail("a slice has three elements");
      auto const first = static_cast<std::ptrdiff_t>(rest.size());
      inside.each_element([&](json_value const& e) {
        if (c.what != container::kind::dict) return rest.push_back(e);
        if (e.what() != array || e.size() != 2) e.fail("expected a key and a value, [key, value]");
        e.each_element([&](json_value const& half) { rest.push_back(half); });
      });
      std::reverse(rest.begin() + first, rest.end());
      made = c;
    }
  });
  return made;
}

/// Reads an argument. \throws json::error
template <class F>
module_argument read_argument(json_value const& v, F node_of) {
  module_argument a;
  std::vector<json_value> rest{v};
  while (!rest.empty()) {
    auto const next = rest.back();
    rest.pop_back();
    a.push_back(read_token(next, node_of, rest));
  }
  return a;
}

/// Reads the members of an object as keyword arguments. \throws json::error
template <class F>
std::vector<keyword_argument> read_arguments(json_value const& v, F node_of) {
  std::vector<keyword_argument> list;
  v.each_member([&](std::string const& key, json_value const& value) {
    list.push_back({key, read_argument(value, node_of)});
  });
  return list;
}

}  // namespace cleave::detail

/// A module_graph as JSON, and back; docs/graph_json.md describes the format.
namespace cleave::inline v0_2::detail {

inline constexpr char graph_json_format[] = "cleave graph 1";

/// The keys of a node that stand for metadata: what it costs, and what becomes it in the next run.
inline constexpr std::array<char const*, 4> cost_keys = {"cost", "bytes", "replicable", carried_key};

/// Writes graphs, for `write_graph_json`. Nested bodies are written without recursion.
template <class F>
class graph_json_writer {
 public:
  /// `put(std::string const&)` is called with the parts of the text.
  graph_json_writer(json::writer::layout l, F put) : w_(l), put_(std::move(put)) {}

  /// Writes `top` with `metadata` in place of its own.
  void write(module_graph const& top, std::vector<keyword_argument> const& metadata) {
    w_.open_object().member("format", graph_json_format);
    std::vector<level> open;
    begin(top, open);
    while (!open.empty()) {
      auto& l = open.back();
      auto const attributes = l.graph->attributes();
      if (l.next == attributes.size()) {
        w_.close_object();
        write_arguments(w_, l.names, "meta", open.size() > 1 ? l.graph->metadata : metadata);
        if (open.size() > 1) w_.close_object().close_object();  // closes the body and its attribute
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
    w_.close_object();
    put_(w_.take());
  }

 private:
  static constexpr std::size_t part = std::size_t{1} << 20;  // characters, at least

  struct level {
    module_graph const* graph;
    node_labels names;
    std::size_t next = 0;  // index of the next attribute to write
  };

  /// Returns the placeholders of a graph whose `carried` reads back as it is: the label of a call or a
  /// placeholder.
  static std::vector<char> carried_members(module_graph const& g, node_labels const& names) {
    if (!has_carried_label(g)) return {};
    labelled_nodes const nodes(g);
    std::vector<char> made(g.list().size());
    for (auto const v : g.inputs())
      if (auto const* label = find_carried_label(g[v]))
        if (auto const present = nodes.find(*label))
          made[v] = can_be_carried(g[*present]) && names.of(*present) == *label ? 1 : 0;
    return made;
  }

  void begin(module_graph const& g, std::vector<level>& open) {
    open.push_back({&g, node_labels(g)});
    w_.key("nodes").open_array();
    auto const carried = carried_members(g, open.back().names);
    for (module_graph::position n = 0; n < g.list().size(); ++n) {
      write_node(g[n], open.back().names, carried.empty() ? is_member::no : is_member{carried[n]});
      if (w_.size() >= part) put_(w_.take());
    }
    w_.close_array().key("attributes").open_object();
  }

  enum class is_member : char { no, yes };

  /// Writes a node. `carried` says whether that entry of its metadata is written as a member of the node.
  void write_node(module_node const& n, node_labels const& names, is_member carried) {
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
    std::size_t written = 0;  // number of leading metadata entries that are written as members of the node
    for (auto const* key : cost_keys)
      if (written < n.metadata.size() && n.metadata[written].key == key &&
          (key == carried_key ? carried == is_member::yes : is_cost(n.metadata[written])))
        write_argument(w_.key(key), names, n.metadata[written++].value);
    auto const first = n.metadata.begin() + static_cast<std::ptrdiff_t>(written);
    write_arguments(w_, names, "meta", std::vector(first, n.metadata.end()));
    w_.close_object();
  }

  /// Returns true if the reader accepts the entry as a member of a node.
  static bool is_cost(keyword_argument const& entry) {
    if (entry.value.size() != 1) return false;
    auto const& value = entry.value.front();
    auto const* whole = std::get_if<std::int64_t>(&value);
    auto const* real = std::get_if<double>(&value);
    if (entry.key == "replicable") return std::holds_alternative<bool>(value);
    return (whole && *whole >= 0) || (entry.key == "cost" && real && *real >= 0 && is_finite(*real));
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

  json::writer w_;
  F put_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `g` as JSON. Nodes are labelled by their names if all are distinct, otherwise by their numbers.
/// Names that are not valid UTF-8 are altered as `escape_json` says; everything else survives a round trip.
/// O(size).
inline std::string write_graph_json(module_graph const& g,
                                    json::writer::layout l = json::writer::layout::indented) {
  std::string text;
  detail::graph_json_writer(l, [&](std::string const& part) { text += part; }).write(g, g.metadata);
  return text;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reads the nodes of one graph, for `read_graph_json`.
class node_json_reader {
 public:
  using position = module_graph::position;

  /// Reads `nodes` nodes into `g`, which is empty.
  node_json_reader(module_graph& g, std::size_t nodes) : g_(g) {
    g_.reserve(nodes);  // so that the names stay where they are
    names_.reserve(nodes);
    places_.reserve(nodes);
  }

  void read(json_value const& v) {
    v.allow({"name", "op", "target", "args", "operands", "kwargs", "default", "shape", "expression", "binds",
             "symbols", "after", "from", "cost", "bytes", "replicable", carried_key, "meta"});
    auto const node_of = [&](json_value const& label) { return find_node(label); };
    auto const names_no_node = [](json_value const& label) -> position {
      label.fail("metadata must not refer to nodes");
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
    n.metadata.reserve(static_cast<std::size_t>(
        std::ranges::count_if(cost_keys, [&](auto key) { return v.find(key).has_value(); })));
    for (auto const* key : cost_keys)
      if (auto const value = v.find(key))
        n.metadata.push_back({key, key == carried_key ? read_carried(n, *value) : read_cost(key, *value)});
    if (auto const meta = v.find("meta")) read_metadata(n, *meta, names_no_node);
    if (n.kind == node_kind::output && g_.output()) v.fail("a second output node; a graph has one");
    if (n.kind == node_kind::placeholder || n.kind == node_kind::get_attr)
      for (auto const* key : {"args", "operands", "kwargs", "after"})
        if (auto const list = v.find(key); list && list->size() > 0)
          list->fail("only calls and the output can have " + std::string(key));
    auto const at = g_.add(std::move(n));
    auto const known = names_.size();
    if (names_.insert(g_[at].name) < known)
      repeated_.insert(g_[at].name);
    else
      places_.push_back(at);
  }

  /// Reads which values become inputs in the next run, into the metadata of these inputs. To be called once,
  /// behind the last node, since labels may mean later nodes.
  void finish() {
    if (carried_.empty()) return;
    node_labels const names(g_);
    for (auto const& [input, label] : carried_)
      for (auto& [key, value] : g_.metadata_of(input))
        if (key == carried_key) value = names.of(find_carried(label));
  }

 private:
  static node_kind kind_of(json_value const& v) {
    auto const op = v.find("op");
    if (!op) return node_kind::call_function;
    auto const known = std::ranges::find(node_kind_names, op->text());
    if (known == node_kind_names.end()) op->fail("unknown kind of node " + quoted(op->text()));
    return static_cast<node_kind>(known - node_kind_names.begin());
  }

  position find_node(json_value const& label) const {
    return find_node(label, "no earlier node has the name ", " does not come before this one");
  }
  position find_node(json_value const& label, std::string const& no_name,
                     std::string const& no_number) const {
    if (label.what() == json_kind::number) {
      auto const n = label.integer<position>();
      if (n >= g_.list().size()) label.fail("node " + std::to_string(n) + no_number);
      return n;
    }
    auto const name = label.text();
    auto const at = names_.find(name);
    if (at == none<position>) label.fail(no_name + quoted(name));
    if (repeated_.find(name) != none<position>)
      label.fail("two nodes have the name " + quoted(name) + "; refer to the node by its number");
    return places_[at];
  }

  /// Reads a cost, a size or the mark of a node that may be copied.
  static module_argument read_cost(std::string const& key, json_value const& value) {
    auto const names_no_node = [](json_value const& label) -> position {
      label.fail("metadata must not refer to nodes");
    };
    bool const is_huge = key == "cost" && value.is_integer() && magnitude(value.real()) >= 0x1p63;
    auto a = is_huge ? module_argument{value.real()} : read_argument(value, names_no_node);
    auto const* whole = a.size() == 1 ? std::get_if<std::int64_t>(&a.front()) : nullptr;
    auto const* real = a.size() == 1 ? std::get_if<double>(&a.front()) : nullptr;
    bool const is_cost = (whole && *whole >= 0) || (real && *real >= 0 && is_finite(*real));
    if (key == "cost" && !is_cost) value.fail("a cost is a finite number from 0, such as 12.5");
    if (key == "bytes" && !(whole && *whole >= 0))
      value.fail("bytes are an integer from 0, such as 4096; leave them out if they are unknown");
    if (key == "replicable" && !(a.size() == 1 && std::holds_alternative<bool>(a.front())))
      value.fail("replicable is true or false");
    return a;
  }

  /// Keeps the label of the value that becomes a placeholder in the next run for `finish`.
  module_argument read_carried(module_node const& n, json_value const& label) {
    if (n.kind != node_kind::placeholder)
      label.fail("only a placeholder can be carried: give the placeholder the name of this node");
    carried_.emplace_back(static_cast<position>(g_.list().size()), label);
    return {token()};
  }
  position find_carried(json_value const& label) const {
    auto const n = find_node(label, "no node has the name ",
                             " does not exist; the graph has " + std::to_string(g_.list().size()));
    if (!can_be_carried(g_[n]))
      label.fail("names " + std::string(node_kind_names[static_cast<std::size_t>(g_[n].kind)]) + " " +
                 quoted(g_[n].name) + "; name the call or placeholder whose value this is in the next run");
    return n;
  }

  static module_argument read_default(module_node const& n, json_value const& value) {
    if (n.kind != node_kind::placeholder) value.fail("only a placeholder can have a default");
    return read_argument(
        value, [](json_value const& label) -> position { label.fail("a default must not refer to nodes"); });
  }

  /// Reads `operands`, a short form for arguments that are nodes; for an output, for a tuple of nodes.
  void read_operands(module_node& n, json_value const& operands, bool has_args) const {
    if (has_args) operands.fail("a node can have args or operands, not both");
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
      if (!module_graph::is_call(g_[calls.back()])) label.fail("'after' must name calls");
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
      if (!symbols.empty() && s.text() <= symbols.back())
        s.fail("symbols must be sorted as text, without repetition");
      symbols.push_back(s.text());
    });
    return symbols;
  }

  template <class NoNode>
  static void read_metadata(module_node& n, json_value const& meta, NoNode names_no_node) {
    meta.each_member([&](std::string const& key, json_value const& value) {
      if (std::ranges::find(n.metadata, key, &keyword_argument::key) != n.metadata.end())
        value.fail(quoted(key) + " is already given as a member of the node; keep one");
    });
    for (auto& k : read_arguments(meta, names_no_node)) n.metadata.push_back(std::move(k));
  }

  module_graph& g_;
  numbering<std::string_view, position> names_, repeated_;  // names of the graph's nodes
  std::vector<position> places_;                            // position of the node with each name
  std::vector<std::pair<position, json_value>> carried_;    // inputs, and the labels of what becomes them
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads a graph from a JSON value (docs/graph_json.md). Nested bodies are read without recursion. Expected
/// O(size).
/// \throws json::error with line, column and path if the value is not a graph
inline module_graph read_graph_json(detail::json_value const& file) {
  struct pending {
    detail::json_value at;
    std::vector<std::size_t> bodies;  // levels of its attributes' bodies, in order
  };
  std::vector<pending> levels{{file, {}}};
  for (std::size_t i = 0; i < levels.size(); ++i) {  // nested bodies are appended behind their parents
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
  levels[0].at.require_format(detail::graph_json_format);

  std::vector<module_graph> made(levels.size());
  auto const names_no_node = [](detail::json_value const& label) -> module_graph::position {
    label.fail("metadata must not refer to nodes");
  };
  for (std::size_t i = levels.size(); i-- > 0;) {
    auto const level = levels[i].at;
    auto const nodes = level["nodes"];
    detail::node_json_reader reader(made[i], nodes.size());
    nodes.each_element([&](detail::json_value const& n) { reader.read(n); });
    reader.finish();
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
          if (a.what != module_attribute::kind::module) inside->fail("only a module can have a body");
          a.body.push_back(std::move(made[*body++]));
        }
        made[i].add_attribute(std::move(a));
      });
  }
  return std::move(made.front());
}
/// Reads a graph from JSON text. \throws json::error also if the text is not JSON
inline module_graph read_graph_json(std::string text) {
  detail::json_document const document(std::move(text));
  return read_graph_json(detail::json_value(document));
}

}  // namespace cleave
