// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/language.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2 {

/// The kind of a node of a module_graph. Partitions assign calls to parts; the other kinds are the interface
/// of the graph.
enum class node_kind : std::uint8_t {
  placeholder,
  get_attr,
  call_function,
  call_method,
  call_module,
  output
};

class module_graph;

/// An extent of a shape: a number, or an expression in symbols.
using dimension = std::variant<std::int64_t, std::string>;

/// A node of a module_graph.
struct module_node {
  node_kind kind = node_kind::call_function;
  std::string name;                   ///< its name in messages; code that adds nodes keeps it unique
  std::string target;                 ///< its function, method, path of a module or attribute, or parameter
  std::vector<module_argument> args;  ///< positional arguments
  std::vector<keyword_argument> kwargs;          ///< keyword arguments, in written order
  std::optional<module_argument> default_value;  ///< the default of a placeholder
  std::optional<std::vector<dimension>> shape;   ///< the shape of a tensor
  std::string expression;                        ///< the value of a scalar that depends on symbols
  std::string binds;                             ///< the symbol whose value this scalar is, or empty
  std::vector<std::string> symbols;  ///< the symbols free in its shape or expression, sorted as text
  std::vector<std::uint32_t> after;  ///< calls that it must follow although it reads none of their values
  std::vector<keyword_argument> metadata;    ///< further information, without nodes; copied with the node
  std::uint32_t from = none<std::uint32_t>;  ///< in a split graph: its position in the original graph

  bool operator==(module_node const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Calls `f` with the position of each node that `n` reads: positional before keyword arguments, depth first,
/// including repetitions.
template <class F>
void each_operand(module_node const& n, F f) {
  for (auto const& a : n.args) each_node(a, f);
  for (auto const& k : n.kwargs) each_node(k.value, f);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// An attribute, named by a path of the graph: a parameter, a buffer, a tensor, a module, or the body of an
/// operation.
struct module_attribute {
  enum class kind : std::uint8_t { tensor, parameter, buffer, module };
  std::string path;
  kind what = kind::tensor;
  std::string storage;             ///< equal for attributes that share memory; empty: memory of its own
  std::vector<module_graph> body;  ///< one graph if this is a module whose inside is a graph, otherwise empty
  std::string original;            ///< in a split graph: its path in the original graph
  std::vector<keyword_argument> metadata;  ///< further information; copied with the attribute
};

/// The library's own IR: one graph of placeholders, attributes, calls and one output, in program order, with
/// nested arguments and keyword arguments, as in torch.fx.
///
/// It models `dataflow_graph`, `function_graph`, `stateful_graph`, `tied_graph`, `effectful_graph` and
/// `named_graph`. Calls are its nodes, and each call is its own result. Placeholders are its inputs and
/// get_attr nodes its state. A node or value is named by its position in `list()`.
class module_graph {
 public:
  using position = std::uint32_t;

  module_graph() = default;
  module_graph(module_graph const& other) { copy(other); }
  module_graph(module_graph&&) noexcept = default;
  module_graph& operator=(module_graph other) noexcept {
    swap(other);
    return *this;
  }
  /// Releases nested bodies one by one, not by recursion, and without memory: while a body is released, its
  /// place has the graph around it.
  ~module_graph() {
    std::vector<module_graph> around;  // and around that one is the body of its last attribute
    for (;;) {
      if (attributes_.empty() && around.empty()) return;
      if (attributes_.empty()) {
        swap(around.back());
        around = std::exchange(attributes_.back().body, {});
        attributes_.pop_back();
      } else if (attributes_.back().body.empty()) {
        attributes_.pop_back();
      } else {
        auto body = std::exchange(attributes_.back().body, std::move(around));
        swap(body.back());
        around = std::move(body);
      }
    }
  }

  /// Reserves memory for `nodes` nodes in total.
  void reserve(std::size_t nodes) { list_.reserve(nodes); }

  /// Appends a node unchanged and returns its position. Precondition: the positions in its arguments are in
  /// the graph already. O(size of the node).
  position add(module_node const& n) { return add(module_node(n)); }
  position add(module_node&& n) {
    auto const at = static_cast<position>(list_.size());
    auto const known = [&](position operand) { expects(operand < at, "an operand that is in the graph"); };
    auto const check = [&](module_argument const& a) {
      expects(complete(a), "an argument with all its elements");
      detail::each_node(a, known);
    };
    for (auto const& a : n.args) check(a);
    for (auto const& k : n.kwargs) check(k.value);
    if (n.default_value) check(*n.default_value);
    for (auto const m : n.after) known(m);
    auto const kind = n.kind;
    auto* const alike = is_call(n)                       ? &calls_
                        : kind == node_kind::placeholder ? &inputs_
                        : kind == node_kind::get_attr    ? &state_
                                                         : nullptr;
    if (alike) detail::make_room(*alike);
    list_.push_back(std::move(n));  // the last allocation: if it fails, the graph is as before
    if (alike) alike->push_back(at);
    if (kind == node_kind::output) output_ = at;
    return at;
  }

  std::span<module_node const> list() const { return list_; }  ///< all nodes, in program order
  module_node const& operator[](position n) const { return list_[n]; }
  std::optional<position> output() const { return output_; }  ///< the output node, if there is one
  /// Returns the metadata of a node, which may be changed.
  std::vector<keyword_argument>& metadata_of(position n) { return list_[n].metadata; }

  /// Registers an attribute. Precondition: its path is not registered yet. Expected O(1).
  void add_attribute(module_attribute a) {
    expects(paths_.find(a.path) == none<position>, "a path that is not registered yet");
    detail::make_room(attributes_);
    paths_.insert(a.path);
    attributes_.push_back(std::move(a));
  }
  /// Returns the attributes in the order in which they were registered.
  std::span<module_attribute const> attributes() const { return attributes_; }
  /// Returns the attribute that `path` names, or null.
  module_attribute const* find_attribute(std::string const& path) const {
    auto const at = paths_.find(path);
    return at == none<position> ? nullptr : &attributes_[at];
  }

  std::vector<keyword_argument> metadata;  ///< further information about the graph

  // The members of the graph concepts.
  std::span<position const> nodes() const { return calls_; }
  std::span<position const> inputs() const { return inputs_; }
  std::span<position const> state() const { return state_; }
  /// Returns the positions of the nodes that `n` reads: positional before keyword arguments, depth first,
  /// including repetitions.
  std::vector<position> operands(position n) const {
    std::vector<position> read;
    read.reserve(list_[n].args.size() + list_[n].kwargs.size());
    detail::each_operand(list_[n], [&](position m) { read.push_back(m); });
    return read;
  }
  std::vector<position> outputs() const { return output_ ? operands(*output_) : std::vector<position>(); }
  /// Returns a text that is equal for two get_attr nodes of one path, or of paths that share memory.
  std::string storage(position v) const {
    auto const& n = list_[v];
    if (n.kind != node_kind::get_attr) return "%" + std::to_string(v);
    auto const* a = find_attribute(n.target);
    return a && !a->storage.empty() ? "storage " + a->storage : "path " + n.target;
  }
  std::vector<position> after(position n) const { return list_[n].after; }
  std::string_view name(position n) const { return list_[n].name; }

  static bool is_call(module_node const& n) {
    return n.kind == node_kind::call_function || n.kind == node_kind::call_method ||
           n.kind == node_kind::call_module;
  }

 private:
  void swap(module_graph& other) noexcept {
    list_.swap(other.list_);
    calls_.swap(other.calls_);
    inputs_.swap(other.inputs_);
    state_.swap(other.state_);
    std::swap(output_, other.output_);
    attributes_.swap(other.attributes_);
    std::swap(paths_, other.paths_);
    metadata.swap(other.metadata);
  }

  /// Copies nested bodies one by one, not by recursion.
  void copy(module_graph const& other) {
    std::vector<std::pair<module_graph const*, module_graph*>> rest{{&other, this}};
    while (!rest.empty()) {
      auto const [from, to] = rest.back();
      rest.pop_back();
      to->list_ = from->list_;
      to->calls_ = from->calls_;
      to->inputs_ = from->inputs_;
      to->state_ = from->state_;
      to->output_ = from->output_;
      to->paths_ = from->paths_;
      to->metadata = from->metadata;
      to->attributes_.reserve(from->attributes_.size());
      for (auto const& a : from->attributes_) {
        to->attributes_.push_back({a.path, a.what, a.storage, {}, a.original, a.metadata});
        for (auto const& body : a.body) {
          to->attributes_.back().body.emplace_back();
          rest.emplace_back(&body, &to->attributes_.back().body.back());
        }
      }
    }
  }

  std::vector<module_node> list_;
  std::vector<position> calls_, inputs_, state_;
  std::optional<position> output_;
  std::vector<module_attribute> attributes_;
  numbering<std::string, position> paths_;  // parallel to attributes_
};

}  // namespace cleave

/// The names of node kinds and attribute kinds in all text formats, indexed by `node_kind` and
/// `module_attribute::kind`.
namespace cleave::inline v0_2::detail {

inline constexpr std::array<std::string_view, 6> node_kind_names = {
    "placeholder", "get_attr", "call_function", "call_method", "call_module", "output"};
inline constexpr std::array<std::string_view, 4> attribute_kind_names = {"tensor", "parameter", "buffer",
                                                                         "module"};

}  // namespace cleave::detail
