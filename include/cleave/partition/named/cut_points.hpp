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

/// Cuts of a program between its nodes: at markers, at modules, by a policy, or by all of these together.
namespace cleave::inline v0_2 {

/// The source of a cut: a marker, an entry in a list of modules (before or after a call), or a policy.
enum class cut_kind : std::uint8_t { marker, module_begin, module_end, policy };

/// A position between two nodes of a program at which it is cut.
struct cut_point {
  cut_kind what;
  std::size_t before;    ///< the first node after the cut; the number of nodes for a cut at the end
  std::size_t asked_by;  ///< the marker, the node that the policy named, or the index in the list of modules

  bool operator==(cut_point const&) const = default;
};

/// Reasons for a cut without effect: its module is never called, no node precedes it, no node follows it, or
/// another cut is at the same position.
enum class idle_reason : std::uint8_t { never_called, at_the_start, at_the_end, beside_another };

/// A cut without effect.
struct idle_cut {
  cut_kind what;
  std::size_t asked_by;  ///< as in `cut_point`
  idle_reason why;

  bool operator==(idle_cut const&) const = default;
};

/// Cuts of a program, from one or more sources.
struct cut_list {
  std::vector<cut_point> points;
  std::vector<std::size_t> markers;  ///< nodes that only mark a cut, ascending
  std::vector<idle_cut> idle;        ///< cuts that have no position

  bool operator==(cut_list const&) const = default;
};

/// Returns the cuts of both lists.
inline cut_list joined(cut_list a, cut_list const& b) {
  for (auto const& c : b.points) a.points.push_back(c);
  for (auto const& c : b.idle) a.idle.push_back(c);
  for (auto const n : b.markers) a.markers.push_back(n);
  std::sort(a.markers.begin(), a.markers.end());
  a.markers.erase(std::unique(a.markers.begin(), a.markers.end()), a.markers.end());
  return a;
}

/// A partition at cuts. Parts are numbered in program order without gaps, regardless of cuts without effect.
/// A marker belongs to the part that it opens; markers at the end belong to the last part. Stages leave
/// markers out.
struct cut_partition : partition {
  std::vector<std::uint32_t> number;  ///< per part: number of cuts before it, including those without effect
  std::vector<std::size_t> markers;   ///< nodes that stages leave out, ascending
  std::vector<idle_cut> idle;         ///< cuts without effect
};

/// Returns the cuts chosen by a policy. `cuts_before(n)` is called once per position, in order. O(V).
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
cut_list cuts_by_policy(basic_snapshot_arrays<Index> const& s, F cuts_before) {
  cut_list list;
  for (std::size_t n = 0; n < s.nodes(); ++n)
    if (cuts_before(n)) list.points.push_back({cut_kind::policy, n, n});
  return list;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Cuts a program at a list of positions. Used by `cut_at`.
template <std::unsigned_integral Index>
class program_cutter {
 public:
  program_cutter(basic_snapshot_arrays<Index> const& s, cut_list list) : s_(s), list_(std::move(list)) {
    std::vector<std::pair<std::size_t, std::size_t>> order;  // at equal positions in order of the list
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
      // Markers and copies join the part that opens next; after the last cut they join the last part.
      p_.of.push_back(part_id{passed_ > opened_ ? p_.parts : last_part()});
    }
    report(list_.points.size(), p_.parts > 0 ? idle_reason::at_the_end : idle_reason::at_the_start);
    finish();
    return std::move(p_);
  }

 private:
  std::uint32_t last_part() const { return p_.parts > 0 ? p_.parts - 1 : 0; }

  /// Places the current node in the open part, or in a new part if a cut was passed since that part was
  /// opened.
  void place_node() {
    if (p_.parts > 0 && passed_ == opened_) return;
    if (p_.parts > 0) ++reported_;  // one of these cuts has an effect
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
    if (p_.parts == 0 && s_.nodes() > 0) {  // markers and replicable nodes only
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
  std::size_t passed_ = 0;    // cuts before the current node
  std::size_t opened_ = 0;    // cuts before the open part
  std::size_t reported_ = 0;  // cuts whose effect is known
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts `s` at all positions of `list`. A part that would hold only markers and replicable nodes is omitted.
/// O(V + cuts log cuts).
template <std::unsigned_integral Index>
cut_partition cut_at(basic_snapshot_arrays<Index> const& s, cut_list list) {
  for (auto const& c : list.points) expects(c.before <= s.nodes(), "cuts of this program");
  return detail::program_cutter<Index>(s, std::move(list)).cut();
}

/// Returns the common refinement of `p` and `q`: nodes share a part if they do in both. Parts are numbered in
/// the order of `p` and, within a part of `p`, in the order of `q`, without gaps. If neither has a cycle
/// between parts, the result has none. For example, `refined(cut_at(s, list), balance(s, 4))` balances the
/// sections between markers. O(V log V).
inline cut_partition refined(cut_partition p, partition const& q) {
  expects(q.of.size() == p.of.size(), "two partitions of one program");
  std::vector<char> marks(p.of.size());  // nodes that do not determine a part
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

  std::vector<char> begun(p.parts);  // per part of `p`: a node other than a marker was met
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    auto const old = p.of[n];
    auto at = std::lower_bound(pairs.begin(), pairs.end(), pair(old, marks[n] ? part_id{0} : q.of[n]));
    if (marks[n] && begun[index(old)]) {  // markers at the end go last
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

/// Markers: nodes that request a cut.
namespace cleave::inline v0_2::detail {

/// The reasons why a node cannot be a marker, or a program cannot be cut at it.
struct marker_fault {
  enum class kind : std::uint8_t {
    reads,    ///< it reads values
    is_read,  ///< its result is read or returned
    nested,   ///< it is in a body of `node`, but a program can only be cut between its own nodes
  };
  kind what;
  std::size_t node;

  bool operator==(marker_fault const&) const = default;
};

/// Thrown for a marker that cannot be removed from stages. The witness is the node.
using marker_error = witness_error<marker_fault>;

/// Returns the message for a fault of the node with this label.
inline std::string marker_text(marker_fault::kind what, std::string const& label) {
  if (what == marker_fault::kind::nested)
    return "node " + label +
           " has a marker in one of its bodies; cuts must lie between nodes of the program itself, so put "
           "the marker before or after that node";
  return "marker " + label +
         (what == marker_fault::kind::reads ? " reads values" : " produces a value that is used") +
         "; markers are removed from the program, so they must neither read nor produce values: use a policy "
         "to cut at such a node";
}

/// Returns the first node that is a marker by `is_marker(position)`, but cannot be one, if any. O(V).
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

/// Returns the first node with a marker in one of its bodies, at any depth, if any. O(size of the bodies),
/// without recursion.
template <nested_graph Graph, class F>
  requires std::predicate<F&, node_t<Graph>>
std::optional<marker_fault> find_nested_marker(Graph const& g, F is_marker) {
  std::size_t at = 0;
  for (auto n : g.nodes()) {
    std::vector<region_t<Graph>> regions;
    for (auto r : g.regions(n)) regions.push_back(r);
    for (std::size_t i = 0; i < regions.size(); ++i)  // grows while bodies contain bodies
      for (auto m : g.nodes(regions[i])) {
        if (is_marker(m)) return marker_fault{marker_fault::kind::nested, at};
        for (auto r : g.regions(m)) regions.push_back(r);
      }
    ++at;
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a cut at each marker. Stages leave markers out. `is_marker(n)` is called with positions. O(V).
/// \throws marker_error
template <std::unsigned_integral Index, class F>
  requires std::predicate<F&, std::size_t>
cut_list cuts_at_markers(basic_snapshot_arrays<Index> const& s, F is_marker) {
  std::vector<char> marks(s.nodes());
  for (std::size_t n = 0; n < s.nodes(); ++n) marks[n] = is_marker(n);
  if (auto const f = detail::find_marker_fault(s, [&](std::size_t n) { return marks[n] != 0; }))
    detail::raise(detail::marker_error(detail::marker_text(f->what, s.label(f->node)), *f));
  cut_list list;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    if (!marks[n]) continue;
    list.points.push_back({cut_kind::marker, n, n});
    list.markers.push_back(n);
  }
  return list;
}

/// Returns a cut at each marker of a user's graph. `is_marker(node)` is called with handles; `s` is the
/// snapshot of `g`.
/// \throws marker_error, also if a body of a node has a marker.
template <dataflow_graph Graph, std::unsigned_integral Index, class F>
  requires std::predicate<F&, node_t<Graph>>
cut_list cuts_at_markers(Graph const& g, snapshot<Graph, Index> const& s, F is_marker) {
  if constexpr (nested_graph<Graph>)
    if (auto const f = detail::find_nested_marker(g, is_marker)) {
      std::size_t at = f->node;
      for (auto n : g.nodes())
        if (at-- == 0)
          detail::raise(detail::marker_error(detail::marker_text(f->what, label(g, n, f->node)), *f));
    }
  basic_snapshot_arrays<Index> const& flat = s;
  return cuts_at_markers(flat, [&](std::size_t n) { return is_marker(s.node[static_cast<Index>(n)]); });
}

}  // namespace cleave

/// Cuts before and after calls of modules, in a flat program whose nodes record the calls that they were
/// written in.
namespace cleave::inline v0_2 {

/// The side of a module call at which to cut.
enum class module_side : std::uint8_t { begin, end };

/// A cut at each call of a module.
struct module_cut {
  std::string path;
  module_side side = module_side::begin;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Converts `begin` or `end`. \throws error for any other text, which the message names.
inline module_side module_side_of(std::string_view text) {
  if (text != "begin" && text != "end")
    raise(error("unknown side of a module " + quoted(text) + "; use 'begin' or 'end'"));
  return text == "begin" ? module_side::begin : module_side::end;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown for a cut at a module that the program does not have. The witness is the index in the list of cuts.
using unknown_module_error = tagged_error<struct unknown_module_tag, std::size_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the module path of a call: `a.b` for `a.b@2`, which is the third call of `a.b`.
inline std::string_view module_of_call(std::string_view call) {
  auto const at = call.rfind('@');
  if (at == call.npos || at + 1 == call.size()) return call;
  for (char const c : call.substr(at + 1))
    if (c < '0' || c > '9') return call;
  return call.substr(0, at);
}

/// The first and the last node inside each call.
class call_spans {
 public:
  struct span {
    std::string_view call;
    std::size_t first, last;
  };

  /// `calls_of(n)` returns a range of strings: the calls that contain node n.
  template <class F>
  call_spans(std::size_t nodes, F calls_of) {
    for (std::size_t n = 0; n < nodes; ++n)
      for (auto const& call : calls_of(n)) {
        auto const at = names_.insert(std::string(call));
        if (at == spans_.size()) spans_.emplace_back(n, n);
        spans_[at].second = n;
      }
  }

  /// Returns the calls by first appearance.
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

/// Returns the first entry of `cuts` whose path is not in `modules`, if any.
inline std::optional<std::size_t> find_unknown_module(std::vector<module_cut> const& cuts,
                                                      std::vector<std::string> const& modules) {
  numbering<std::string, std::uint32_t> known;
  for (auto const& path : modules) known.insert(path);
  for (std::size_t i = 0; i < cuts.size(); ++i)
    if (known.find(cuts[i].path) == none<std::uint32_t>) return i;
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a cut before the first node, or after the last node, of each call of a module. `calls_of(n)`
/// returns a range of strings: the calls that contain node n. A call is the path of its module and, from the
/// second call on, `@1`, `@2`, …. `modules` lists the known paths; empty: those of the calls. A module that
/// contains no node yields an idle cut. O(V depth + cuts).
/// \throws unknown_module_error if there is no such module; the message suggests the nearest paths. No cuts
/// are returned then.
template <std::unsigned_integral Index, class F>
cut_list cuts_at_modules(basic_snapshot_arrays<Index> const& s, std::vector<module_cut> const& cuts,
                         F calls_of, std::vector<std::string> modules = {}) {
  detail::call_spans const calls(s.nodes(), calls_of);
  auto const spans = calls.list();
  if (modules.empty())
    for (auto const& c : spans) modules.emplace_back(detail::module_of_call(c.call));
  if (auto const i = detail::find_unknown_module(cuts, modules))
    detail::raise(unknown_module_error("cut #" + std::to_string(*i) + ": there is no module " +
                                           quoted(cuts[*i].path) +
                                           suggestion(nearest_names(cuts[*i].path, modules)),
                                       *i));
  numbering<std::string_view, std::uint32_t> paths;
  std::vector<std::vector<std::size_t>> calls_of_path;  // parallel to `paths`
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

/// Returns the cuts for a graph whose nodes have paths. Paths do not distinguish the calls of a module.
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
