// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2 {

/// The symbols that a piece receives together with a value whose shape has them.
/// - `closed`: all of them; a symbol that no node binds is an error
/// - `bound_before_use`: those that are bound before the node that reads the value
enum class symbol_rule : std::uint8_t { closed, bound_before_use };

/// The owner of the tensors that a graph registers.
/// - `passed`: the caller, which passes them like inputs
/// - `held`: each piece that reads them. Reads of one path are one value, the first of them. A symbol that a
///   node binds after the value whose shape has it is not passed along.
enum class tensor_holding : std::uint8_t { passed, held };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The node that binds each symbol of a graph: the first node that is that symbol.
class symbol_binders {
 public:
  using position = module_graph::position;

  explicit symbol_binders(module_graph const& g) : g_(&g) {
    for (position n = 0; n < g.list().size(); ++n)
      if (!g[n].binds.empty() && g[n].kind != node_kind::output)
        if (symbols_.insert(g[n].binds) == binder_.size()) binder_.push_back(n);
  }

  bool empty() const { return binder_.empty(); }
  std::optional<position> find(std::string const& symbol) const {
    auto const at = symbols_.find(symbol);
    return at == none<position> ? std::nullopt : std::optional(binder_[at]);
  }
  /// Returns the nodes that bind the symbols of `v`, in the order of the symbols, without `v` itself. Symbols
  /// that no node binds are left out.
  std::vector<position> of(position v) const {
    std::vector<position> binders;
    for (auto const& symbol : (*g_)[v].symbols)
      if (auto const n = find(symbol); n && *n != v) binders.push_back(*n);
    return binders;
  }

 private:
  module_graph const* g_;
  numbering<std::string, position> symbols_;  // symbol i is bound by entry i of …
  std::vector<position> binder_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A view of a module_graph as split_module cuts it. Its nodes are those that have a part. Module attributes
/// without a part are state, and so are tensor attributes if pieces hold them; otherwise these are inputs.
/// Symbols go with the values whose shapes have them.
class module_call_graph {
 public:
  using position = module_graph::position;

  /// Takes all calls as nodes.
  explicit module_call_graph(module_graph const& g)
      : module_call_graph(g, all_calls(g), symbol_rule::closed) {}

  module_call_graph(module_graph const& g, tensor_holding tensors)
      : module_call_graph(g, all_calls(g), symbol_rule::closed, tensors) {}

  /// `part[n]` is the part of node n, or `no_part` if n is part of the interface.
  module_call_graph(module_graph const& g, std::vector<part_id> part, symbol_rule symbols,
                    tensor_holding tensors = tensor_holding::passed)
      : g_(&g), part_(std::move(part)), rule_(symbols), tensors_(tensors), binders_(g) {
    bool const held = tensors == tensor_holding::held;
    if (held) merge_reads();
    for (position n = 0; n < g.list().size(); ++n) {
      if (part_[n] != no_part)
        nodes_.push_back(n);
      else if (g[n].kind == node_kind::placeholder)
        inputs_.push_back(n);
      else if (g[n].kind == node_kind::get_attr && first_read_of(n) == n)
        (held || is_module(n) ? state_ : inputs_).push_back(n);
    }
    list_reads();
  }

  std::span<position const> nodes() const { return nodes_; }
  std::span<position const> operands(position n) const {
    return std::span(reads_).subspan(first_read_[n], first_read_[n + 1] - first_read_[n]);
  }
  std::span<position const> companions(position v) const {
    if (companions_.empty()) return {};
    return std::span(companions_).subspan(first_companion_[v], first_companion_[v + 1] - first_companion_[v]);
  }
  std::span<position const> inputs() const { return inputs_; }
  std::span<position const> state() const { return state_; }
  std::vector<position> outputs() const {
    auto list = g_->outputs();
    for (auto& v : list) v = first_read_of(v);
    return list;
  }
  std::span<position const> after(position n) const { return (*g_)[n].after; }
  std::string_view name(position n) const { return g_->name(n); }

  detail::symbol_binders const& binders() const { return binders_; }
  module_graph const& graph() const { return *g_; }
  /// Returns the node that stands for `v`. For held attributes it is the first node that reads the same path.
  position first_read_of(position v) const { return first_of_.empty() ? v : first_of_[v]; }

 private:
  static std::vector<part_id> all_calls(module_graph const& g) {
    std::vector<part_id> part(g.list().size(), no_part);
    for (auto const n : g.nodes()) part[n] = part_id{0};
    return part;
  }
  void merge_reads() {
    numbering<std::string_view, position> paths;
    std::vector<position> first;  // in step with `paths`
    for (position n = 0; n < g_->list().size(); ++n) {
      first_of_.push_back(n);
      auto const& node = (*g_)[n];
      if (node.kind != node_kind::get_attr || part_[n] != no_part) continue;
      auto const at = paths.insert(node.target);
      if (at == first.size()) first.push_back(n);
      first_of_[n] = first[at];
    }
  }

  /// Lists the values that each node with a part reads. If symbols must be bound before their use, also lists
  /// the nodes that bind them.
  void list_reads() {
    bool const symbols = rule_ == symbol_rule::bound_before_use && !binders_.empty();
    first_read_.reserve(g_->list().size() + 1);
    first_companion_.reserve(g_->list().size() + 1);
    reads_.reserve(g_->list().size());
    for (position n = 0; n < g_->list().size(); ++n) {
      auto const read = [&](position operand) {
        auto const v = first_read_of(operand);
        reads_.push_back(v);
        if (!symbols || part_[v] == part_[n]) return;
        for (auto const binder : binders_.of(v))
          if (binder < n) reads_.push_back(first_read_of(binder));
      };
      if (part_[n] != no_part) detail::each_operand((*g_)[n], read);
      first_read_.push_back(reads_.size());
      if (rule_ == symbol_rule::closed && !binders_.empty() && !(*g_)[n].symbols.empty())
        for (auto const binder : binders_.of(n))
          if (tensors_ == tensor_holding::passed || binder < n || part_[binder] == no_part)
            companions_.push_back(first_read_of(binder));
      first_companion_.push_back(companions_.size());
    }
  }

  bool is_module(position n) const {
    auto const* a = g_->find_attribute((*g_)[n].target);
    return a && a->what == module_attribute::kind::module;
  }

  module_graph const* g_;
  std::vector<part_id> part_;
  symbol_rule rule_;
  tensor_holding tensors_;
  detail::symbol_binders binders_;
  std::vector<position> nodes_, inputs_, state_;
  std::vector<position> first_of_;  // by node of list(): the node that stands for it; empty: each for itself
  // By node of list(): the offset of its row in the lists below.
  std::vector<std::size_t> first_read_{0}, first_companion_{0};
  std::vector<position> reads_, companions_;
};

}  // namespace cleave
