// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/partition/named/cut_points.hpp"

namespace cleave::inline v0_2 {

/// The order in which a level reads its state: by first use, or, at the root, in reverse as torch.export has
/// it.
enum class root_state : std::uint8_t { first_use, upstream };

/// Options of `outlined`: the metadata that names the modules, and the order in which they read their state.
struct outline_options {
  std::string calls = "scope";  ///< key of the metadata that lists the calls around a node, outermost first
  root_state state = root_state::first_use;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Rebuilds the modules around the nodes of a flat graph. Used by `outlined`. A *frame* is one call of a
/// module: consecutive nodes that are inside it. Values are positions in the flat graph.
class outliner {
 public:
  using position = module_graph::position;

  outliner(module_graph const& flat, outline_options const& options)
      : flat_(flat), options_(options), last_use_(flat.list().size()) {
    for (position n = 0; n < flat.list().size(); ++n) {
      auto const read = [&](position v) { last_use_[v] = n; };
      each_operand(flat[n], read);
    }
    for (auto const& a : flat.attributes())
      if (a.what != module_attribute::kind::module && !a.storage.empty()) {
        auto const at = storages_.insert(a.storage);
        if (at == names_.size()) names_.emplace_back();
        names_[at].push_back(a.path);
      }
  }

  module_graph outline() {
    frames_.emplace_back();
    for (position const n : flat_.nodes()) {
      enter(calls_of(flat_[n]), n);
      frames_.back().items.push_back({n, none<std::size_t>});
      frames_.back().made.push_back(n);
      each_operand(flat_[n], [&](position v) { need(v); });
    }
    while (frames_.size() > 1) leave(flat_.nodes().back());
    return write_root();
  }

 private:
  struct item {
    position node;      // a node, or none if this is a call
    std::size_t child;  // for a call: the position of its frame in `called_`
  };
  struct frame {
    std::string call = {};    // the call with its number: `a.b@1`
    std::string target = {};  // the same, relative to the frame around it
    std::string path = {};    // path of the module in the tree
    bool first = true;        // neither the frame nor one around it is a later call of a module
    position begin = 0;
    std::vector<item> items = {};
    std::vector<position> made = {};  // values made here or by inner calls, which other nodes can read
    numbering<position, position> needs = {};  // values from outside, by first use
    numbering<std::string, std::uint32_t> targets = {};
  };
  struct called {  // a finished frame
    std::string target, path;
    module_graph body;
    std::vector<position> inputs, outputs;
  };

  /// Writes the graph of one frame.
  class writer {
   public:
    writer(outliner& all, frame const& here) : all_(all), here_(here) {
      auto const read = [&](position v) { read_.insert(v); };
      for (auto const& i : here.items) {
        if (i.node != none<position>)
          each_operand(all.flat_[i.node], read);
        else
          for (position const v : all.called_[i.child].inputs) read(v);
      }
    }

    /// True if a node of the frame itself reads `v`, or an inner call takes it.
    bool reads(position v) const { return read_.find(v) != none<position>; }
    position at(position v) const { return at_[known_.find(v)]; }

    void take(position v) {
      module_node n = all_.flat_[v];
      if (n.kind != node_kind::placeholder || !here_.path.empty()) {
        n.kind = node_kind::placeholder;
        n.target = n.name;
        n.args.clear();
        n.kwargs.clear();
        n.default_value.reset();
        n.after.clear();
      }
      add(v, std::move(n));
    }
    void hold(position v, std::string const& path) {
      module_node n = all_.flat_[v];
      n.target = registered(n.target, path);
      add(v, std::move(n));
    }

    void write_items() {
      for (auto const& i : here_.items) i.node != none<position> ? copy(i.node) : call(all_.called_[i.child]);
    }

    module_graph finish(module_argument result) && {
      module_node output;
      output.kind = node_kind::output;
      output.target = "output";
      output.name = names_.take("output");
      output.args = {std::move(result)};
      g_.add(std::move(output));
      return std::move(g_);
    }

   private:
    void add(position v, module_node&& n) {
      n.name = names_.take(n.name);
      known_.insert(v);
      at_.push_back(g_.add(std::move(n)));
    }

    void copy(position v) {
      module_node n = all_.flat_[v];
      auto const here = [&](position m) { return at(m); };
      for (auto& a : n.args) a = map_nodes(std::move(a), here);
      for (auto& k : n.kwargs) k.value = map_nodes(std::move(k.value), here);
      std::vector<position> after;  // the order of frames takes care of nodes in other frames
      for (auto const m : n.after)
        if (known_.find(m) != none<position>) after.push_back(at(m));
      n.after = std::move(after);
      if (n.kind == node_kind::call_module) n.target = registered(n.target, below(n.target));
      add(v, std::move(n));
    }

    void call(called& inner) {
      module_node n;
      n.kind = node_kind::call_module;
      n.target = inner.target;
      for (position const v : inner.inputs) n.args.push_back(node_argument(at(v)));
      module_attribute a{inner.target, module_attribute::kind::module, {}, {}, inner.path, {}};
      a.body.push_back(std::move(inner.body));
      g_.add_attribute(std::move(a));
      n.name = name_candidate(n.kind, n.target);
      if (inner.outputs.size() == 1) return add(inner.outputs.front(), std::move(n));
      n.name = names_.take(n.name);
      auto const several = g_.add(std::move(n));
      for (std::size_t i = 0; i < inner.outputs.size(); ++i) {
        module_node item;
        item.target = item.name = "getitem";
        item.args = {node_argument(several), {static_cast<std::int64_t>(i)}};
        add(inner.outputs[i], std::move(item));
      }
    }

    /// Returns `path` of the flat graph relative to this frame, or unchanged if it is not below it.
    std::string below(std::string const& path) const {
      auto const here = here_.path + ".";
      return here_.first && path.starts_with(here) ? path.substr(here.size()) : path;
    }

    /// Registers the flat graph's attribute `path` as `wanted`. Returns `wanted`.
    std::string registered(std::string const& path, std::string wanted) {
      all_.held_.insert(here_.path.empty() ? wanted : here_.path + "." + wanted);
      if (g_.find_attribute(wanted)) return wanted;
      auto const* known = all_.flat_.find_attribute(path);
      module_attribute a = known ? *known : module_attribute{};
      if (a.original.empty()) a.original = path;
      a.path = wanted;
      g_.add_attribute(std::move(a));
      return wanted;
    }

    outliner& all_;
    frame const& here_;
    module_graph g_;
    module_names names_;
    numbering<position, position> read_, known_;
    std::vector<position> at_;  // in step with `known_`
  };

  /// Returns the name of a state, or of one tied to it, relative to the module of a frame. Empty if it is not
  /// below that.
  std::string name_in(frame const& f, position v) const {
    if (!f.first) return {};
    auto const below = f.path + ".";
    auto const& own = flat_[v].target;
    if (own.starts_with(below)) return own.substr(below.size());
    auto const* a = flat_.find_attribute(own);
    if (a && !a->storage.empty())
      for (auto const& name : names_[storages_.find(a->storage)])
        if (name.starts_with(below)) return name.substr(below.size());
    return {};
  }

  std::vector<std::string_view> calls_of(module_node const& n) const {
    std::vector<std::string_view> calls;
    for (auto const& [key, value] : n.metadata)
      if (key == options_.calls)
        for (auto const& t : value)
          if (auto const* path = std::get_if<std::string>(&t)) calls.push_back(*path);
    return calls;
  }

  /// Leaves the frames that are not among `calls`, and enters those that are missing.
  void enter(std::vector<std::string_view> const& calls, position n) {
    std::size_t same = 0;
    while (same < calls.size() && same + 1 < frames_.size() && frames_[same + 1].call == calls[same]) ++same;
    while (frames_.size() > same + 1) leave(n - 1);
    for (; same < calls.size(); ++same) {
      auto& around = frames_.back();
      frame inner;
      inner.call = calls[same];
      inner.begin = n;
      auto const outer = std::string(module_of_call(around.call)) + ".";
      bool const below = frames_.size() > 1 && inner.call.starts_with(outer);
      inner.target = free_target(around, below ? inner.call.substr(outer.size()) : inner.call);
      inner.path = around.path.empty() ? inner.target : around.path + "." + inner.target;
      inner.first = around.first && module_of_call(inner.target) == inner.target;
      frames_.push_back(std::move(inner));
    }
  }

  /// Returns an unused target for a frame in `around`. A frame that is left and entered again gets another
  /// one.
  static std::string free_target(frame& around, std::string const& wanted) {
    auto target = wanted;
    for (std::size_t i = 1, known = around.targets.size(); around.targets.insert(target) < known; ++i)
      target = std::string(module_of_call(wanted)) + "@" + std::to_string(i);
    return target;
  }

  /// Adds `v` to the needs of each open frame in which it is not made.
  void need(position v) {
    bool const call = module_graph::is_call(flat_[v]);
    for (auto f = frames_.size(); f-- > 1;) {
      auto& here = frames_[f];
      if (call && v >= here.begin) return;
      auto const known = here.needs.size();
      if (here.needs.insert(v) < known) return;
    }
  }

  void leave(position end) {
    auto& here = frames_.back();
    called made{here.target, std::string(module_of_call(here.call)), {}, {}, {}};
    for (position const v : here.made)
      if (last_use_[v] > end) made.outputs.push_back(v);
    writer w(*this, here);
    std::vector<position> passed, held;
    for (position const v : here.needs.handles()) {
      if (!w.reads(v)) continue;
      (flat_[v].kind == node_kind::get_attr && !name_in(here, v).empty() ? held : passed).push_back(v);
    }
    for (auto v = passed.rbegin(); v != passed.rend(); ++v) w.take(*v), made.inputs.push_back(*v);
    for (position const v : held) w.hold(v, name_in(here, v));
    w.write_items();
    std::vector<position> results;
    for (position const v : made.outputs) results.push_back(w.at(v));
    module_argument list{container{container::kind::list, static_cast<std::uint32_t>(results.size())}};
    for (position const r : results) list.push_back(node_ref{r});
    made.body = std::move(w).finish(results.size() == 1 ? node_argument(results.front()) : list);
    frames_.pop_back();
    auto& around = frames_.back();
    around.items.push_back({none<position>, called_.size()});
    around.made.insert(around.made.end(), made.outputs.begin(), made.outputs.end());
    called_.push_back(std::move(made));
  }

  module_graph write_root() {
    auto& root = frames_.front();
    writer w(*this, root);
    std::vector<position> held;
    for (position const v : flat_.inputs()) w.take(v);
    auto const output = flat_.output();
    auto const at_end = [&](position v) { return output && last_use_[v] == *output; };
    for (position const v : flat_.state())
      if (w.reads(v) || at_end(v)) held.push_back(v);
    if (options_.state == root_state::upstream) std::ranges::reverse(held);
    for (position const v : held) w.hold(v, flat_[v].target);
    w.write_items();
    module_argument given =
        output && !flat_[*output].args.empty() ? flat_[*output].args.front() : module_argument{token()};
    given = map_nodes(std::move(given), [&](position v) { return w.at(v); });
    auto made = std::move(w).finish(std::move(given));
    made.metadata = flat_.metadata;
    hold_aliases(made);
    return made;
  }

  /// Registers the names that no node reads.
  void hold_aliases(module_graph& made) const {
    for (auto const& a : flat_.attributes())
      if (a.what != module_attribute::kind::module && held_.find(a.path) == none<std::uint32_t>)
        made.add_attribute(a);
  }

  module_graph const& flat_;
  outline_options const& options_;
  std::vector<position> last_use_;  // by value: the last node that reads it
  numbering<std::string, std::uint32_t> storages_;
  std::vector<std::vector<std::string>> names_;  // by entry of `storages_`: paths of its state
  std::vector<frame> frames_;                    // open frames, from the root
  std::vector<called> called_;
  numbering<std::string, std::uint32_t> held_;  // registered paths, from the root
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a stage as a tree of modules. The nodes inside each call of a module become the body of that
/// module, which is called in their place.
///
/// A module reads its own state under its own name, or under the name of a tied tensor below it. Other state
/// is read further out and passed in. A later call of a module becomes a module next to it, `path@1`, to
/// which its state is passed. A module returns one value bare, and otherwise a list. Names that no node reads
/// stay registered at the root. Expected O(size * depth).
inline module_graph outlined(module_graph const& stage, outline_options const& options = {}) {
  return detail::outliner(stage, options).outline();
}

}  // namespace cleave
