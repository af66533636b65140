// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the symbols in a size expression such as `2*s1 + u0`, sorted, each once. O(size).
inline std::vector<std::string> symbols_in(std::string const& expression) {
  auto const digit = [](char c) { return c >= '0' && c <= '9'; };
  auto const letter = [&](char c) {
    return c == '_' || digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  };
  std::vector<std::string> symbols;
  for (auto at = expression.begin(); at != expression.end();) {
    auto const end = std::find_if_not(at, expression.end(), letter);
    if (at != end && !digit(*at)) symbols.emplace_back(at, end);
    at = end == at ? at + 1 : end;
  }
  std::ranges::sort(symbols);
  auto const repeated = std::ranges::unique(symbols);
  symbols.erase(repeated.begin(), repeated.end());
  return symbols;
}

/// Rewrites one graph, for `decompose_sizes`.
class size_decomposer {
 public:
  using position = module_graph::position;

  explicit size_decomposer(module_graph const& g)
      : g_(g), sizes_(g.list().size()), made_after_(g.list().size()), at_(g.list().size()) {}

  module_graph run() {
    for (auto const& n : g_.list()) names_.take(n.name);
    for (position n = 0; n < g_.list().size(); ++n)
      if (is_full_size(g_[n])) take_apart(n);
    for (position n = 0; n < g_.list().size(); ++n) {
      if (!sizes_[n] && !replaces_item(n)) copy(n);
      for (auto i = made_after_[n].rbegin(); i != made_after_[n].rend(); ++i) {
        module_node& size = new_nodes_[*i];
        size.args = {node_argument(at_[n]), size.args.front()};
        made_at_[*i] = made_.add(std::move(size));
      }
    }
    for (auto const& a : g_.attributes()) made_.add_attribute(a);
    made_.metadata = g_.metadata;
    return std::move(made_);
  }

 private:
  /// A dimension: its number, or the index of the new node that reads it.
  using extent = std::variant<std::int64_t, std::size_t>;

  bool is_full_size(module_node const& n) const {
    if (n.kind != node_kind::call_method || n.target != "size" || n.args.size() != 1 || !n.kwargs.empty())
      return false;
    auto const* of = std::get_if<node_ref>(&n.args[0].front());
    return of && g_[of->node].shape;
  }

  void take_apart(position n) {
    position const tensor = std::get<node_ref>(g_[n].args[0].front()).node;
    std::vector<extent> dimensions;
    for (std::size_t i = 0; auto const& d : *g_[tensor].shape) {
      auto const index = static_cast<std::int64_t>(i++);
      if (auto const* number = std::get_if<std::int64_t>(&d)) {
        dimensions.emplace_back(*number);
        continue;
      }
      auto const& expression = std::get<std::string>(d);
      module_node size;
      size.target = "sym_size.int";
      size.name = names_.take(name_candidate(size.kind, size.target));
      size.args = {{index}};
      size.expression = expression;
      size.symbols = symbols_in(expression);
      if (size.symbols == std::vector{expression}) size.binds = expression;
      dimensions.emplace_back(new_nodes_.size());
      made_after_[tensor].push_back(new_nodes_.size());
      new_nodes_.push_back(std::move(size));
    }
    made_at_.resize(new_nodes_.size());
    sizes_[n] = std::move(dimensions);
  }

  /// Returns true if `n` reads one dimension of a decomposed size, and records that dimension as its
  /// replacement.
  bool replaces_item(position n) {
    auto const& item = g_[n];
    if (item.kind != node_kind::call_function || item.target != "getitem" || item.args.size() != 2 ||
        !item.kwargs.empty())
      return false;
    auto const* of = std::get_if<node_ref>(&item.args[0].front());
    auto const* index = std::get_if<std::int64_t>(&item.args[1].front());
    if (!of || !index || !sizes_[of->node]) return false;
    auto const& dimensions = *sizes_[of->node];
    auto const at = *index < 0 ? *index + std::ssize(dimensions) : *index;
    if (at < 0 || at >= std::ssize(dimensions)) return false;
    item_.emplace_back(n, dimensions[static_cast<std::size_t>(at)]);
    return true;
  }

  /// Returns the replacement of the getitem node `n`, or null.
  extent const* find_item(position n) const {
    auto const item = std::ranges::lower_bound(item_, n, {}, &std::pair<position, extent>::first);
    return item != item_.end() && item->first == n ? &item->second : nullptr;
  }

  token operand(extent const& d) const {
    if (auto const* number = std::get_if<std::int64_t>(&d)) return *number;
    return node_ref{made_at_[std::get<std::size_t>(d)]};
  }

  /// Returns `a` in the new graph, with each decomposed size as the tuple of its dimensions.
  module_argument rewritten(module_argument const& a) const {
    module_argument out;
    for (auto const& t : a) {
      auto const* ref = std::get_if<node_ref>(&t);
      if (!ref) {
        out.push_back(t);
      } else if (auto const* item = find_item(ref->node)) {
        out.push_back(operand(*item));
      } else if (auto const& size = sizes_[ref->node]) {
        out.push_back(container{container::kind::tuple, static_cast<std::uint32_t>(size->size())});
        for (auto const& d : *size) out.push_back(operand(d));
      } else {
        out.push_back(node_ref{at_[ref->node]});
      }
    }
    return out;
  }

  void copy(position at) {
    module_node n = g_[at];
    n.args.clear();
    for (auto const& a : g_[at].args) {
      auto const* ref = a.size() == 1 ? std::get_if<node_ref>(&a.front()) : nullptr;
      bool const spliced = ref && sizes_[ref->node] && module_graph::is_call(n) && n.target != "getitem";
      if (spliced)
        for (auto const& d : *sizes_[ref->node]) n.args.push_back({operand(d)});
      else
        n.args.push_back(rewritten(a));
    }
    for (auto& k : n.kwargs) k.value = rewritten(k.value);
    std::erase_if(n.after, [&](position m) { return sizes_[m] || find_item(m); });
    for (auto& m : n.after) m = at_[m];
    at_[at] = made_.add(std::move(n));
  }

  module_graph const& g_;
  module_graph made_;
  module_names names_;
  // Of a node: the dimensions of the size, if the node is a decomposed size.
  std::vector<std::optional<std::vector<extent>>> sizes_;
  std::vector<std::vector<std::size_t>> made_after_;  // of a tensor: the new nodes that read its dimensions
  std::vector<module_node> new_nodes_;                // until they are added to the new graph …
  std::vector<position> made_at_;                     // … at these positions
  std::vector<position> at_;                          // of a node of the original: the position of its copy
  std::vector<std::pair<position, extent>> item_;     // getitem nodes that a dimension replaces, ascending
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `g` with each `x.size()` of a tensor of known shape replaced by its dimensions, so that no tuple
/// of sizes crosses a cut. O(V + E).
///
/// A symbolic dimension becomes a `sym_size.int` node directly after the tensor; the last dimension comes
/// first, as in torch.fx. A fixed dimension becomes its number. A call with the size as a direct operand gets
/// the dimensions as operands instead. A `getitem` of the size becomes the dimension. Elsewhere the size
/// becomes the tuple of its dimensions.
inline module_graph decompose_sizes(module_graph const& g) { return detail::size_decomposer(g).run(); }

}  // namespace cleave
