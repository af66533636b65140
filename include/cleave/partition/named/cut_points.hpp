// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/nearest_names.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"

/// A program cut between its nodes: at markers, at modules, where a policy says so, or all of these together.
namespace cleave {

/// What asks for a cut: a marker; an entry of a list of modules, before or after a call; a policy.
enum class cut_kind : std::uint8_t { marker, module_begin, module_end, policy };

/// A place between two nodes of a program where it is cut.
struct cut_point {
  cut_kind what;
  std::size_t before;    ///< the node that comes first after it; the number of nodes: at the end
  std::size_t asked_by;  ///< the marker, the node that the policy named, or the entry in the list of modules

  bool operator==(cut_point const&) const = default;
};

/// Why a cut parts nothing: its module is never called; no node comes before it, or after it; another cut is
/// at the same place.
enum class idle_reason : std::uint8_t { never_called, at_the_start, at_the_end, beside_another };

/// A cut without effect.
struct idle_cut {
  cut_kind what;
  std::size_t asked_by;  ///< as of a cut_point
  idle_reason why;

  bool operator==(idle_cut const&) const = default;
};

/// Cuts of one program, from one source or from several.
struct cut_list {
  std::vector<cut_point> points;
  std::vector<std::size_t> markers;  ///< nodes that do nothing but mark, ascending
  std::vector<idle_cut> idle;        ///< those that have no place at all

  bool operator==(cut_list const&) const = default;
};

/// The cuts of both.
inline cut_list joined(cut_list a, cut_list const& b) {
  for (auto const& c : b.points) a.points.push_back(c);
  for (auto const& c : b.idle) a.idle.push_back(c);
  for (auto const n : b.markers) a.markers.push_back(n);
  std::sort(a.markers.begin(), a.markers.end());
  a.markers.erase(std::unique(a.markers.begin(), a.markers.end()), a.markers.end());
  return a;
}

/// A partition at cuts: parts are numbered in program order without gaps, whatever cuts have no effect. A
/// marker is in the part that it opens, the last ones in the last part; stages are made without it.
struct cut_partition : partition {
  std::vector<std::uint32_t> number;  ///< of a part: how many cuts come before it, those without effect too
  std::vector<std::size_t> markers;   ///< nodes that stages leave out, ascending
  std::vector<idle_cut> idle;
};

/// Where a policy says so: `cuts_before(n)` is asked once for each position, in order. O(V).
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
cut_list cuts_by_policy(basic_snapshot_arrays<Index> const& s, F cuts_before) {
  cut_list list;
  for (std::size_t n = 0; n < s.nodes(); ++n)
    if (cuts_before(n)) list.points.push_back({cut_kind::policy, n, n});
  return list;
}

}  // namespace cleave

namespace cleave::detail {

/// Goes through a program from cut to cut; `cut_at` is its one use.
template <std::unsigned_integral Index>
class program_cutter {
 public:
  program_cutter(basic_snapshot_arrays<Index> const& s, cut_list list) : s_(s), list_(std::move(list)) {
    std::vector<std::pair<std::size_t, std::size_t>> order;  // of cuts at one place the first listed
    for (auto const& c : list_.points) order.emplace_back(c.before, order.size());
    std::sort(order.begin(), order.end());
    std::vector<cut_point> sorted;
    for (auto const& [before, at] : order) sorted.push_back(list_.points[at]);
    list_.points = std::move(sorted);
  }

  cut_partition cut() {
    std::size_t marker = 0;
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      while (passed_ < list_.points.size() && list_.points[passed_].before <= n) ++passed_;
      bool const marks = marker < list_.markers.size() && list_.markers[marker] == n;
      marker += marks;
      if (!marks && !is_replicable(s_, n)) place_node();
      // What is no part of its own waits for the one that opens next; after the last cut nothing does.
      p_.of.push_back(part_id{passed_ > opened_ ? p_.parts : last_part()});
    }
    report(list_.points.size(), p_.parts > 0 ? idle_reason::at_the_end : idle_reason::at_the_start);
    finish();
    return std::move(p_);
  }

 private:
  std::uint32_t last_part() const { return p_.parts > 0 ? p_.parts - 1 : 0; }

  /// The node at hand is in the part that is open; if cuts were passed since the last one, in a new one.
  void place_node() {
    if (p_.parts > 0 && passed_ == opened_) return;
    if (p_.parts > 0) ++reported_;  // one cut of those has an effect
    report(passed_, p_.parts > 0 ? idle_reason::beside_another : idle_reason::at_the_start);
    opened_ = passed_;
    p_.number.push_back(static_cast<std::uint32_t>(passed_));
    ++p_.parts;
  }

  void report(std::size_t end, idle_reason why) {
    for (; reported_ < end; ++reported_)
      p_.idle.push_back({list_.points[reported_].what, list_.points[reported_].asked_by, why});
  }

  void finish() {
    if (p_.parts == 0 && s_.nodes() > 0) {  // markers and copies only
      p_.parts = 1;
      p_.number = {static_cast<std::uint32_t>(list_.points.size())};
    }
    for (auto& i : p_.of) i = (std::min)(i, part_id{last_part()});
    p_.idle.insert(p_.idle.end(), list_.idle.begin(), list_.idle.end());
    p_.markers = std::move(list_.markers);
  }

  basic_snapshot_arrays<Index> const& s_;
  cut_list list_;
  cut_partition p_;
  std::size_t passed_ = 0;    // cuts before the node at hand
  std::size_t opened_ = 0;    // those before the part that is open
  std::size_t reported_ = 0;  // those whose effect is known
};

}  // namespace cleave::detail

namespace cleave {

/// Cuts `s` at all places of `list`. A part holds nodes that are neither markers nor replicable, or is none.
/// O(V + cuts log cuts).
template <std::unsigned_integral Index>
cut_partition cut_at(basic_snapshot_arrays<Index> const& s, cut_list list) {
  for (auto const& c : list.points) expects(c.before <= s.nodes(), "cuts of this program");
  return detail::program_cutter<Index>(s, std::move(list)).cut();
}

/// `p` with each part cut once more, as `q` does: nodes share a part if they do in both. Parts are numbered
/// as in `p`, within one of them as in `q`, without gaps; where neither has a cycle, so has the result. So
/// `refined(cut_at(s, list), balance(s, 4))` balances what lies between markers. O(V log V).
inline cut_partition refined(cut_partition p, partition const& q) {
  expects(q.of.size() == p.of.size(), "two partitions of one program");
  std::vector<char> marks(p.of.size());  // nodes that have no part of their own
  for (auto const n : p.markers) marks[n] = 1;
  for (std::size_t n = 0; n < q.of.size(); ++n) marks[n] |= q.of[n] == no_part;
  auto const pair = [](part_id outer, part_id inner) {
    return std::uint64_t{index(outer)} << 32 | index(inner);
  };
  std::vector<std::uint64_t> pairs;
  for (std::size_t n = 0; n < p.of.size(); ++n)
    if (!marks[n]) pairs.push_back(pair(p.of[n], q.of[n]));
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  if (pairs.empty()) return p;

  std::vector<char> begun(p.parts);  // of a part of `p`: a node of it was met that is no marker
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    auto const old = p.of[n];
    auto at = std::lower_bound(pairs.begin(), pairs.end(), pair(old, marks[n] ? part_id{0} : q.of[n]));
    if (marks[n] && begun[index(old)]) {  // a marker at the end comes last
      at = std::upper_bound(pairs.begin(), pairs.end(), pair(old, no_part));
      --at;
    }
    begun[index(old)] |= !marks[n];
    p.of[n] = part_id{static_cast<std::uint32_t>(at - pairs.begin())};
  }
  std::vector<std::uint32_t> number;
  for (auto const both : pairs) number.push_back(p.number[both >> 32]);
  p.number = std::move(number);
  p.parts = static_cast<std::uint32_t>(pairs.size());
  return p;
}

}  // namespace cleave

/// Nodes that say: cut here.
namespace cleave::detail {

/// What keeps a node from being a marker that can be taken out, or a program from being cut at it.
struct marker_fault {
  enum class kind : std::uint8_t {
    reads,    ///< it reads values
    is_read,  ///< its result is read or returned
    nested,   ///< it is in a body of `node`; a program is cut between its own nodes only
  };
  kind what;
  std::size_t node;

  bool operator==(marker_fault const&) const = default;
};

/// A marker that stages cannot be made without. The witness: the node.
using marker_error = witness_error<marker_fault>;

/// What is wrong with a node, by its label.
inline std::string marker_text(marker_fault::kind what, std::string const& label) {
  if (what == marker_fault::kind::nested)
    return "node " + label +
           " has a marker in one of its bodies; a program is cut between its own nodes, "
           "so put the marker before or after that node";
  return "marker " + label + (what == marker_fault::kind::reads ? " reads values" : " gives a value") +
         "; a marker is taken out of the program, so it neither reads nor gives any: "
         "name such a node by a policy instead";
}

/// The first node that is a marker, as `is_marker(n)` says of positions, and cannot be one. O(V).
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
std::optional<marker_fault> find_marker_fault(basic_snapshot_arrays<Index> const& s, F is_marker) {
  std::vector<char> given(s.values());
  for (Index const v : s.outputs) given[v] = 1;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (!is_marker(n)) continue;
    if (!s.operands[n].empty()) return marker_fault{marker_fault::kind::reads, n};
    for (Index const v : s.results[n])
      if (given[v] != 0 || !s.users[v].empty()) return marker_fault{marker_fault::kind::is_read, n};
  }
  return std::nullopt;
}

/// The first node with a marker in one of its bodies, at any depth. O(size of the bodies), no recursion.
template <nested_graph Graph, class F>
  requires std::predicate<F&, node_t<Graph>>
std::optional<marker_fault> find_nested_marker(Graph const& g, F is_marker) {
  std::size_t at = 0;
  for (auto n : g.nodes()) {
    std::vector<region_t<Graph>> regions;
    for (auto r : g.regions(n)) regions.push_back(r);
    for (std::size_t i = 0; i < regions.size(); ++i)  // grows while bodies hold bodies
      for (auto m : g.nodes(regions[i])) {
        if (is_marker(m)) return marker_fault{marker_fault::kind::nested, at};
        for (auto r : g.regions(m)) regions.push_back(r);
      }
    ++at;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// A cut at each marker; stages are made without markers. `is_marker(n)` is asked by position. O(V).
/// \throws marker_error
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
cut_list cuts_at_markers(basic_snapshot_arrays<Index> const& s, F is_marker) {
  std::vector<char> marks(s.nodes());
  for (std::size_t n = 0; n < s.nodes(); ++n) marks[n] = is_marker(n);
  if (auto const f = detail::find_marker_fault(s, [&](std::size_t n) { return marks[n] != 0; }))
    throw detail::marker_error(detail::marker_text(f->what, s.label(f->node)), *f);
  cut_list list;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (!marks[n]) continue;
    list.points.push_back({cut_kind::marker, n, n});
    list.markers.push_back(n);
  }
  return list;
}

/// The same in the user's handles, on `s`, the snapshot of `g`.
/// \throws marker_error, also where a body of a node has a marker.
template <dataflow_graph Graph, std::unsigned_integral Index, class F>
  requires std::predicate<F&, node_t<Graph>>
cut_list cuts_at_markers(Graph const& g, snapshot<Graph, Index> const& s, F is_marker) {
  if constexpr (nested_graph<Graph>)
    if (auto const f = detail::find_nested_marker(g, is_marker)) {
      std::size_t at = f->node;
      for (auto n : g.nodes())
        if (at-- == 0) throw detail::marker_error(detail::marker_text(f->what, label(g, n, f->node)), *f);
    }
  basic_snapshot_arrays<Index> const& flat = s;
  return cuts_at_markers(flat, [&](std::size_t n) { return is_marker(s.node[static_cast<Index>(n)]); });
}

}  // namespace cleave

/// Cuts before and after the calls of modules, in a flat program whose nodes know the calls they were written
/// in.
namespace cleave {

enum class module_side : std::uint8_t { begin, end };

/// A cut at each call of a module.
struct module_cut {
  std::string path;
  module_side side = module_side::begin;
};

}  // namespace cleave

namespace cleave::detail {

/// `begin` or `end`.
/// \throws error that names any other text
inline module_side module_side_of(std::string_view text) {
  if (text != "begin" && text != "end")
    throw error("unknown side of a module " + quoted(text) + "; a cut is at its 'begin' or its 'end'");
  return text == "begin" ? module_side::begin : module_side::end;
}

}  // namespace cleave::detail

namespace cleave {

/// A cut at a module that the program does not have. The witness: its place in the list of cuts.
using unknown_module_error = tagged_error<struct unknown_module_tag, std::size_t>;

}  // namespace cleave

namespace cleave::detail {

/// The path of the module of a call: `a.b@2` is the third call of `a.b`.
inline std::string_view module_of_call(std::string_view call) {
  auto const at = call.rfind('@');
  if (at == call.npos || at + 1 == call.size()) return call;
  for (char const c : call.substr(at + 1))
    if (c < '0' || c > '9') return call;
  return call.substr(0, at);
}

/// Where each call begins and ends: the first and the last node that are inside.
class call_spans {
 public:
  struct span {
    std::string_view call;
    std::size_t first, last;
  };

  /// `calls_of(n)` is a range of text: the calls that node n is inside.
  template <class F>
  call_spans(std::size_t nodes, F calls_of) {
    for (std::size_t n = 0; n < nodes; ++n)
      for (auto const& call : calls_of(n)) {
        auto const at = names_.insert(std::string(call));
        if (at == spans_.size()) spans_.emplace_back(n, n);
        spans_[at].second = n;
      }
  }

  /// By first appearance.
  std::vector<span> list() const {
    std::vector<span> all;
    for (std::uint32_t i = 0; i < spans_.size(); ++i)
      all.push_back({names_[i], spans_[i].first, spans_[i].second});
    return all;
  }

 private:
  numbering<std::string, std::uint32_t> names_;
  std::vector<std::pair<std::size_t, std::size_t>> spans_;
};

/// The first entry of `cuts` whose path is not among `modules`.
inline std::optional<std::size_t> find_unknown_module(std::vector<module_cut> const& cuts,
                                                      std::vector<std::string> const& modules) {
  numbering<std::string, std::uint32_t> known;
  for (auto const& path : modules) known.insert(path);
  for (std::size_t i = 0; i < cuts.size(); ++i)
    if (known.find(cuts[i].path) == none<std::uint32_t>) return i;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// A cut before the first node of each call of a module, or after the last one. `calls_of(n)` is a range of
/// text: the calls that node n is inside, each a module's path and, from its second call on, `@1`, `@2`, ….
/// `modules` are the paths that there are, none: those of the calls. A module that no node is inside gives an
/// idle cut. O(V depth + cuts).
/// \throws unknown_module_error where there is no such module, with the nearest paths; nothing is cut then.
template <std::unsigned_integral Index, class F>
cut_list cuts_at_modules(basic_snapshot_arrays<Index> const& s, std::vector<module_cut> const& cuts,
                         F calls_of, std::vector<std::string> modules = {}) {
  detail::call_spans const calls(s.nodes(), calls_of);
  auto const spans = calls.list();
  if (modules.empty())
    for (auto const& c : spans) modules.emplace_back(detail::module_of_call(c.call));
  if (auto const i = detail::find_unknown_module(cuts, modules))
    throw unknown_module_error("cut #" + std::to_string(*i) + ": there is no module " +
                                   quoted(cuts[*i].path) + suggestion(nearest_names(cuts[*i].path, modules)),
                               *i);
  numbering<std::string_view, std::uint32_t> paths;
  std::vector<std::vector<std::size_t>> calls_of_path;  // in step with `paths`
  for (std::size_t c = 0; c < spans.size(); ++c) {
    auto const at = paths.insert(detail::module_of_call(spans[c].call));
    if (at == calls_of_path.size()) calls_of_path.emplace_back();
    calls_of_path[at].push_back(c);
  }
  cut_list list;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    bool const begins = cuts[i].side == module_side::begin;
    auto const what = begins ? cut_kind::module_begin : cut_kind::module_end;
    auto const at = paths.find(cuts[i].path);
    if (at == none<std::uint32_t>) {
      list.idle.push_back({what, i, idle_reason::never_called});
      continue;
    }
    for (auto const c : calls_of_path[at])
      list.points.push_back({what, begins ? spans[c].first : spans[c].last + 1, i});
  }
  return list;
}

/// The same for a graph whose nodes have paths, which tell no call of a module from another.
/// \throws unknown_module_error
template <hierarchical_graph Graph, std::unsigned_integral Index>
cut_list cuts_at_modules(Graph const& g, snapshot<Graph, Index> const& s,
                         std::vector<module_cut> const& cuts) {
  basic_snapshot_arrays<Index> const& flat = s;
  return cuts_at_modules(flat, cuts, [&](std::size_t n) {
    std::string_view const path = g.path(s.node[static_cast<Index>(n)]);
    std::vector<std::string> calls;
    for (auto end = path.find('.'); !path.empty(); end = path.find('.', end + 1)) {
      calls.emplace_back(path.substr(0, end));
      if (end == path.npos) break;
    }
    return calls;
  });
}

}  // namespace cleave
