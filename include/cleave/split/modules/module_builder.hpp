// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/carried_label.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::inline v0_2 {

/// The name of a copied node: derived from its target, or that of the original if the name is still free.
enum class node_naming : std::uint8_t { from_target, original };
/// The names of a piece's placeholders: those of the values for which they stand, or `arg_0`, `arg_1`, …
enum class input_naming : std::uint8_t { original, numbered };
/// The form of a piece's results: several as a tuple and one alone bare, or always a tuple. No result is the
/// empty tuple.
enum class result_form : std::uint8_t { bare_if_single, tuple };
/// The path of a called module in its piece: with `_` for each dot, or unchanged.
enum class module_paths : std::uint8_t { flat, original };

/// Options for the form of pieces.
struct module_builder_options {
  node_naming nodes = node_naming::from_target;
  input_naming inputs = input_naming::original;
  result_form results = result_form::bare_if_single;
  module_paths modules = module_paths::flat;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a call or an attribute names a path that its graph has not registered. The witness is the node.
class missing_target_error : public witness_error<module_graph::position> {
 public:
  missing_target_error(module_graph const& g, module_graph::position n)
      : witness_error(
            "node '" + g[n].name + "': nothing is registered under its target '" + g[n].target + "'", n) {}
};

/// Returns the first node of `g` whose target should be a registered module or attribute and is not, or
/// nothing. O(V).
inline std::optional<module_graph::position> find_missing_target(module_graph const& g) {
  for (module_graph::position n = 0; n < g.list().size(); ++n)
    if ((g[n].kind == node_kind::get_attr || g[n].kind == node_kind::call_module) &&
        !g.find_attribute(g[n].target))
      return n;
  return std::nullopt;
}

/// A `stage_builder` that writes one piece of a module_graph as a module_graph.
///
/// The values that the piece is given are placeholders. Module attributes are get_attr nodes after them,
/// under their own path. The path of a called module may have its dots replaced by `_`, and gets a number at
/// its end if two paths would become one. Nodes keep `from`, their metadata and their symbols. If the value
/// that becomes an input in the next run is not in the piece, the input loses that entry of its metadata.
class module_builder {
 public:
  using position = module_graph::position;

  module_builder(module_graph const& whole, module_builder_options const& options)
      : whole_(&whole), options_(options) {}

  /// Reserves memory for `nodes` nodes in all, inputs and output included.
  void reserve(std::size_t nodes) {
    piece_.reserve(nodes);
    names_.reserve(nodes);
    copied_.reserve(nodes);
  }

  /// Names the copies of `n` after their target, regardless of the options.
  void name_by_target(position n) { by_target_.insert(n); }

  /// Sets the name of the placeholder of `v`. Ignored if the options number the placeholders.
  void name_input(position v, std::string name) {
    if (given_names_.insert(v) == called_.size()) called_.push_back(std::move(name));
  }

  position argument(position v, source from) {
    module_node const& given = (*whole_)[v];
    module_node n = copy(v);
    n.args.clear();
    n.kwargs.clear();
    n.default_value.reset();
    n.kind = from == source::state ? node_kind::get_attr : node_kind::placeholder;
    n.target = from == source::state                       ? attribute(given.target, given.target)
               : options_.inputs == input_naming::original ? name_of_input(v)
                                                           : "arg_" + std::to_string(inputs_++);
    n.name = names_.take(name_candidate(n.kind, n.target));
    return add(v, std::move(n));
  }

  template <class Lookup>
  std::array<position, 1> clone(position v, Lookup lookup) {
    module_node n = copy(v);
    auto const rename = [&](module_argument& a) {
      for (auto& t : a)
        if (auto* ref = std::get_if<node_ref>(&t)) ref->node = lookup(ref->node);
    };
    for (auto& a : n.args) rename(a);
    for (auto& k : n.kwargs) rename(k.value);
    std::string const& path = (*whole_)[v].target;
    if (n.kind == node_kind::call_module)
      n.target = attribute(path, options_.modules == module_paths::flat ? flat(path) : path);
    if (n.kind == node_kind::get_attr) n.target = attribute(path, path);
    bool const keep = options_.nodes == node_naming::original && by_target_.find(v) == none<position>;
    n.name = keep ? names_.take(n.name) : names_.take(n.kind, path);
    return {add(v, std::move(n))};
  }

  void result(position, position made) { results_.push_back(made); }

  /// Returns the complete piece, with the results as its output.
  module_graph finish() && {
    module_node output;
    output.kind = node_kind::output;
    output.target = "output";
    output.name = names_.take("output");
    bool const bare = results_.size() == 1 && options_.results == result_form::bare_if_single;
    output.args = {bare ? node_argument(results_.front()) : tuple_argument(results_)};
    piece_.add(std::move(output));
    if (has_carried_label(piece_)) {
      find_positions();
      rename_carried_labels(piece_, copied_, *whole_, [&](position n) {
        auto const here = positions_.find(n);
        return here == none<position> ? std::nullopt : std::optional(here);
      });
    }
    return std::move(piece_);
  }

 private:
  /// Brings `positions_` up to date.
  void find_positions() {
    for (auto next = positions_.size(); next < copied_.size(); ++next) positions_.insert(copied_[next]);
  }

  module_node copy(position v) {
    module_node n = (*whole_)[v];
    n.from = v;
    if (n.after.empty()) return n;
    find_positions();
    std::vector<position> follows;  // the order of pieces takes care of nodes in other pieces
    for (auto const m : n.after)
      if (auto const here = positions_.find(m); here != none<position>) follows.push_back(here);
    n.after = std::move(follows);
    return n;
  }

  std::string const& name_of_input(position v) const {
    auto const given = given_names_.find(v);
    return given == none<position> ? (*whole_)[v].name : called_[given];
  }

  position add(position v, module_node&& n) {
    copied_.push_back(v);
    return piece_.add(std::move(n));
  }

  static std::string flat(std::string path) {
    for (char& c : path)
      if (c == '.') c = '_';
    return path;
  }

  /// Registers the original's attribute `path` as `wanted`, or by a path derived from it if `wanted` names
  /// something else. Returns the path.
  std::string attribute(std::string const& path, std::string const& wanted) {
    auto const* registered = whole_->find_attribute(path);
    auto const& original = registered && !registered->original.empty() ? registered->original : path;
    auto const* there = piece_.find_attribute(wanted);
    if (there && there->original == original) return wanted;
    auto const at = there ? place_beside(wanted, original) : wanted;
    if (there && piece_.find_attribute(at)) return at;
    module_attribute a = registered ? *registered : module_attribute{};
    a.original = original;
    a.path = at;
    piece_.add_attribute(std::move(a));
    return at;
  }

  /// Returns the path derived from `wanted` that stands for `original`, a new one at first. Expected
  /// amortised O(length).
  std::string const& place_beside(std::string const& wanted, std::string const& original) {
    auto const known = beside_.insert(wanted + '\n' + original);
    if (known < places_.size()) return places_[known];
    auto const stem = stems_.insert(wanted);
    if (stem == numbers_.size()) numbers_.push_back(0);
    std::string at;
    do at = wanted + "_" + std::to_string(++numbers_[stem]);
    while (piece_.find_attribute(at));
    return places_.emplace_back(std::move(at));
  }

  module_graph const* whole_;
  module_builder_options options_;
  module_graph piece_;
  module_names names_;
  std::vector<position> copied_;             // nodes of the whole graph, in step with those of the piece …
  numbering<position, position> positions_;  // … and their positions in the piece, filled on demand
  std::vector<position> results_;
  numbering<position, position> by_target_;
  numbering<position, position> given_names_;   // inputs with names of their own, in step with …
  std::vector<std::string> called_;             // … these names
  numbering<std::string, std::size_t> beside_;  // (wanted path, original path) pairs that got another path …
  std::vector<std::string> places_;             // … and these paths
  numbering<std::string, std::size_t> stems_;   // the wanted paths alone …
  std::vector<std::size_t> numbers_;            // … and the last number that was appended to each
  std::size_t inputs_ = 0;
};

}  // namespace cleave::detail
