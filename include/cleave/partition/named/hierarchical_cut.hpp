// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2::detail {

/// A trie of dotted paths, split into words, so that a path can be followed word by word while modules are
/// entered. A place is a node of the trie; the root is place 0.
class cut_tree {
 public:
  using place = std::uint32_t;
  static constexpr place nowhere = none<place>;

  /// Adds the path with index `cut` in its list. Expected O(size).
  void add(std::string_view path, std::uint32_t cut) {
    place at = 0;
    each_word(path, [&](std::string_view word) {
      below_[at] = 1;
      at = edges_.insert(edge(at, word)) + 1;
      if (at == cut_.size()) {
        cut_.push_back(none<std::uint32_t>);
        below_.push_back(0);
      }
      return true;
    });
    if (cut_[at] == none<std::uint32_t>) cut_[at] = cut;
  }

  /// Returns the place that `path` leads to from `at`, or `nowhere`. Expected O(size).
  place follow(place at, std::string_view path) const {
    each_word(path, [&](std::string_view word) {
      auto const known = edges_.find(edge(at, word));
      at = known == none<std::uint32_t> ? nowhere : known + 1;
      return at != nowhere;
    });
    return at;
  }

  /// Returns the first path that ends at `at`, or `none`.
  std::uint32_t cut(place at) const { return cut_[at]; }
  /// Returns true if a path continues below `at`.
  bool has_below(place at) const { return below_[at] != 0; }

 private:
  static std::string edge(place at, std::string_view word) {
    return std::to_string(at).append(1, ' ').append(word);
  }

  /// Calls `f` with each word of `path` until it returns false.
  template <class F>
  static void each_word(std::string_view path, F f) {
    for (std::size_t at = 0;;) {
      std::size_t const dot = path.find('.', at);
      if (!f(path.substr(at, dot == path.npos ? dot : dot - at)) || dot == path.npos) return;
      at = dot + 1;
    }
  }

  numbering<std::string, std::uint32_t> edges_;  // edge i leads to place i + 1
  std::vector<std::uint32_t> cut_{none<std::uint32_t>};
  std::vector<char> below_{0};
};

}  // namespace cleave::detail

/// Cuts in a hierarchy of modules, at any depth, as defined by Slapo. A module whose inside is known is an
/// attribute with a body. A cut is the path of a called module: the targets of the calls that lead to it,
/// joined by dots.
namespace cleave::inline v0_2 {

/// Treatment of a cut inside a module that runs more than once: each run is cut, or it is an error.
enum class repeated_runs : std::uint8_t { cut_each, refused };

/// Options of hierarchical cuts.
struct hierarchy_options {
  repeated_runs repeated = repeated_runs::cut_each;
  /// Limit on the nodes of all stages together. A module called twice at each of n depths runs 2^n times.
  std::size_t most_nodes = std::size_t{1} << 26;
};

/// A graph that contains cuts: the root or the inside of a module.
struct cut_level {
  using position = module_graph::position;

  std::string path;  ///< path of the module; empty for the root
  module_graph const* graph;
  std::vector<position> ends;  ///< the calls that cuts name, ascending; a stage ends after each
  /// Calls whose inside contains cuts, ascending, each with the index of its level.
  std::vector<std::pair<position, std::uint32_t>> opened;
  std::uint32_t first_cut = none<std::uint32_t>;  ///< the first cut on a call in it or below
  std::size_t runs = 1;                           ///< number of runs of the level, saturated at the maximum
};

/// The levels that contain cuts. The root is first, and each level precedes those inside it. They refer to
/// the graph, which must outlive them.
struct hierarchical_cut {
  std::vector<cut_level> levels;
};

/// A reason why cuts cannot be made.
struct module_cut_fault {
  static constexpr char subject[] = "hierarchy: ";
  enum class kind : std::uint8_t {
    no_cuts,        ///< the list is empty
    whole_graph,    ///< the path is empty
    unknown,        ///< no module of that path is known
    never_called,   ///< the module is registered, but no call names it
    inside_opaque,  ///< `at` on the path is called, but its inside is not known
    repeated,       ///< `at` on the path runs more than once, and the options refuse that
    too_large,      ///< the stages would exceed the limit on nodes
  };
  kind what;
  std::string path, at;
  std::vector<std::string> nearest;  ///< similar known paths

  bool operator==(module_cut_fault const&) const = default;
};

/// Returns the message: the fault, its place and the remedy.
inline std::string describe(module_cut_fault const& f) {
  using enum module_cut_fault::kind;
  switch (f.what) {
    case no_cuts:
      return "the list of cuts is empty; name at least one called module";
    case whole_graph:
      return "a cut names the whole graph; name a module in it";
    case unknown:
      return "cut " + quoted(f.path) + " does not name a module of the graph" + suggestion(f.nearest);
    case never_called:
      return "cut " + quoted(f.path) + " names a module that is never called" + suggestion(f.nearest);
    case inside_opaque:
      return "cut " + quoted(f.path) + " lies inside " + quoted(f.at) +
             ", which has no body in the graph; trace the model down to that level";
    case repeated:
      return "cut " + quoted(f.path) + " lies inside " + quoted(f.at) +
             ", which runs more than once; cut before or after it, or create a separate module for each call";
    case too_large:
      return "opening " + quoted(f.at) +
             " at each of its calls creates more nodes than most_nodes allows; raise most_nodes or cut at a "
             "higher level";
  }
  return {};
}

/// Thrown for a cut that is not possible. The witness is the fault with its path.
using module_cut_error = fault_error<module_cut_fault>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the path of `target` in the level of `path`.
inline std::string joined_path(std::string const& path, std::string const& target) {
  return path.empty() ? target : path + "." + target;
}

/// Finds the levels that contain cuts. Used by `cut_modules` and `find_module_cut_fault`.
class cut_finder {
 public:
  using position = module_graph::position;

  cut_finder(module_graph const& root, std::vector<std::string> const& cuts, hierarchy_options const& options)
      : cuts_(cuts), options_(options), named_(cuts.size()) {
    for (std::uint32_t i = 0; i < cuts.size(); ++i) tree_.add(cuts[i], i);
    found_.levels.push_back({{}, &root, {}, {}});
    place_.push_back(0);
    for (std::uint32_t i = 0; i < found_.levels.size(); ++i) enter(i);
    keep_what_holds_cuts();
    count_runs();
  }

  std::optional<module_cut_fault> find_fault() const {
    using enum module_cut_fault::kind;
    if (cuts_.empty()) return module_cut_fault{no_cuts, {}, {}, {}};
    for (std::uint32_t i = 0; i < cuts_.size(); ++i) {
      if (cuts_[i].empty()) return module_cut_fault{whole_graph, {}, {}, {}};
      auto const first = tree_.cut(tree_.follow(0, cuts_[i]));
      if (named_[first]) continue;
      for (auto const& path : opaque_)
        if (cuts_[i].starts_with(path + ".")) return module_cut_fault{inside_opaque, cuts_[i], path, {}};
      return unknown_path(cuts_[i]);
    }
    std::size_t room = options_.most_nodes;
    for (auto const& level : found_.levels) {
      if (level.runs > 1 && options_.repeated == repeated_runs::refused)
        return module_cut_fault{repeated, cuts_[level.first_cut], level.path, {}};
      if (level.graph->list().size() > room / level.runs)
        return module_cut_fault{too_large, {}, level.path, {}};
      room -= level.graph->list().size() * level.runs;
    }
    return std::nullopt;
  }

  hierarchical_cut take() && { return std::move(found_); }

 private:
  /// Records the calls of level `i` that cuts name, and those with cuts inside.
  void enter(std::uint32_t i) {
    auto const* graph = found_.levels[i].graph;
    numbering<std::string_view, std::uint32_t> targets;
    std::vector<std::uint32_t> inside;  // per target: its level, or `none`
    for (position const n : graph->nodes()) {
      auto const& node = (*graph)[n];
      if (node.kind != node_kind::call_module) continue;
      auto const at = tree_.follow(place_[i], node.target);
      if (at == cut_tree::nowhere) continue;
      if (auto const cut = tree_.cut(at); cut != none<std::uint32_t>) {
        named_[cut] = 1;
        found_.levels[i].ends.push_back(n);
        found_.levels[i].first_cut = (std::min)(found_.levels[i].first_cut, cut);
      }
      if (!tree_.has_below(at)) continue;
      auto const target = targets.insert(node.target);
      if (target == inside.size()) inside.push_back(add_level(i, node.target, at));
      if (inside[target] != none<std::uint32_t>) found_.levels[i].opened.emplace_back(n, inside[target]);
    }
  }

  std::uint32_t add_level(std::uint32_t parent, std::string const& target, cut_tree::place at) {
    auto const* a = found_.levels[parent].graph->find_attribute(target);
    auto path = joined_path(found_.levels[parent].path, target);
    if (!a || a->body.empty()) {
      opaque_.push_back(std::move(path));
      return none<std::uint32_t>;
    }
    found_.levels.push_back({std::move(path), &a->body.front(), {}, {}});
    place_.push_back(at);
    return static_cast<std::uint32_t>(found_.levels.size() - 1);
  }

  void keep_what_holds_cuts() {
    auto& levels = found_.levels;
    std::vector<char> holds(levels.size());
    for (std::size_t i = levels.size(); i-- > 0;) {
      auto& here = levels[i];
      std::erase_if(here.opened, [&](auto const& call) { return !holds[call.second]; });
      for (auto const& [n, inside] : here.opened)
        here.first_cut = (std::min)(here.first_cut, levels[inside].first_cut);
      holds[i] = i == 0 || !here.ends.empty() || !here.opened.empty();
    }
    std::vector<std::uint32_t> moved(levels.size());
    std::uint32_t kept = 0;
    for (std::size_t i = 0; i < levels.size(); ++i)
      if (holds[i]) {
        moved[i] = kept;
        if (kept != i) levels[kept] = std::move(levels[i]);
        ++kept;
      }
    levels.erase(levels.begin() + kept, levels.end());
    for (auto& level : levels)
      for (auto& call : level.opened) call.second = moved[call.second];
  }

  void count_runs() {
    constexpr auto most = (std::numeric_limits<std::size_t>::max)();
    for (std::size_t i = 1; i < found_.levels.size(); ++i) found_.levels[i].runs = 0;
    for (auto const& level : found_.levels)
      for (auto const& [n, inside] : level.opened) {
        auto& runs = found_.levels[inside].runs;
        runs = level.runs > most - runs ? most : runs + level.runs;
      }
  }

  /// Returns the fault of a path that no call has, with similar paths at the level where it leaves the
  /// hierarchy.
  module_cut_fault unknown_path(std::string const& path) const {
    module_graph const* graph = found_.levels.front().graph;
    std::string above;
    std::string_view rest = path;
    for (bool deeper = true; deeper;) {
      deeper = false;
      for (position const n : graph->nodes()) {
        auto const& target = (*graph)[n].target;
        auto const* a = graph->find_attribute(target);
        if ((*graph)[n].kind != node_kind::call_module || !a || a->body.empty()) continue;
        if (rest.size() <= target.size() || !rest.starts_with(target) || rest[target.size()] != '.') continue;
        above = joined_path(above, target);
        rest.remove_prefix(target.size() + 1);
        graph = &a->body.front();
        deeper = true;
        break;
      }
    }
    std::vector<std::string> known;
    numbering<std::string_view, std::uint32_t> listed;
    for (position const n : graph->nodes())
      if ((*graph)[n].kind == node_kind::call_module && listed.insert((*graph)[n].target) == known.size())
        known.push_back(joined_path(above, (*graph)[n].target));
    bool const registered = graph->find_attribute(std::string(rest)) != nullptr;
    return {registered ? module_cut_fault::kind::never_called : module_cut_fault::kind::unknown,
            path,
            {},
            nearest_names(path, known)};
  }

  std::vector<std::string> const& cuts_;
  hierarchy_options options_;
  cut_tree tree_;
  hierarchical_cut found_;
  std::vector<cut_tree::place> place_;  // per level
  std::vector<char> named_;             // per cut: a call has its path
  std::vector<std::string> opaque_;     // modules on the path of a cut whose inside is not known
};

/// Returns the first fault of `cuts` in `root`, if any. Expected O(size of the entered levels and of the
/// paths), more if there is a fault.
inline std::optional<module_cut_fault> find_module_cut_fault(module_graph const& root,
                                                             std::vector<std::string> const& cuts,
                                                             hierarchy_options const& options = {}) {
  return cut_finder(root, cuts, options).find_fault();
}

/// Returns the levels of `root` that contain `cuts`. The order of paths and repeated paths do not affect the
/// stages. Expected O(size of the entered levels and of the paths).
/// \throws module_cut_error if `find_module_cut_fault` finds a fault.
inline hierarchical_cut cut_modules(module_graph const& root, std::vector<std::string> const& cuts,
                                    hierarchy_options const& options = {}) {
  cut_finder finder(root, cuts, options);
  if (auto fault = finder.find_fault()) throw module_cut_error(*std::move(fault));
  return std::move(finder).take();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A call in a level of a hierarchical cut, as a stage runs it.
struct level_call {
  std::uint32_t level;
  module_graph::position node;

  bool operator==(level_call const&) const = default;
};

/// Returns the name of a call in messages: the path of its level, a colon and its name.
inline std::string label(hierarchical_cut const& cut, level_call const& c) {
  auto const& level = cut.levels[c.level];
  return level.path + ":" + std::string(level.graph->name(c.node));
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if `n` only reads an element of a tuple, list or dict, as in `getitem(whole, key)` or
/// `whole.get(key, default)`.
inline bool reads_element(module_node const& n) {
  return (n.kind == node_kind::call_function && n.target == "getitem") ||
         (n.kind == node_kind::call_method && n.target == "get");
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the calls of each stage in program order. Levels are entered only if they contain cuts, and a
/// stage ends after each call that a cut names. A module without cuts inside is one call. Reads of elements
/// are omitted, and so are empty stages. O(size of the levels times their runs).
inline std::vector<std::vector<level_call>> stages_of(hierarchical_cut const& cut) {
  struct visit {
    std::uint32_t level;
    std::size_t call = 0, end = 0, open = 0;  // next positions in nodes(), ends and opened
  };
  std::vector<std::vector<level_call>> stages(1);
  std::vector<visit> visits{{0}};
  while (!visits.empty()) {
    auto& at = visits.back();
    auto const& level = cut.levels[at.level];
    auto const calls = level.graph->nodes();
    if (at.call == calls.size()) {
      visits.pop_back();
      if (visits.empty()) break;
    } else {
      auto const n = calls[at.call];
      if (at.open < level.opened.size() && level.opened[at.open].first == n) {
        auto const inside = level.opened[at.open++].second;
        visits.push_back({inside});
        continue;
      }
      if (!detail::reads_element((*level.graph)[n])) stages.back().push_back({at.level, n});
    }
    auto& after = visits.back();  // a call of this level is complete
    auto const& here = cut.levels[after.level];
    auto const n = here.graph->nodes()[after.call++];
    if (after.end == here.ends.size() || here.ends[after.end] != n) continue;
    ++after.end;
    if (!stages.back().empty()) stages.emplace_back();
  }
  if (stages.back().empty()) stages.pop_back();
  return stages;
}

}  // namespace cleave
