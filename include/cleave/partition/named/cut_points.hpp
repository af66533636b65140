// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/dense.hpp"
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
  a.points.insert(a.points.end(), b.points.begin(), b.points.end());
  a.idle.insert(a.idle.end(), b.idle.begin(), b.idle.end());
  a.markers.insert(a.markers.end(), b.markers.begin(), b.markers.end());
  std::ranges::sort(a.markers);
  auto const repeated = std::ranges::unique(a.markers);
  a.markers.erase(repeated.begin(), repeated.end());
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
cut_list cuts_by_policy(basic_dense<Index> const& s, F cuts_before) {
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
  program_cutter(basic_dense<Index> const& s, cut_list list) : s_(s), list_(std::move(list)) {
    std::vector<std::pair<std::size_t, std::size_t>> order;  // of cuts at one place the first listed
    for (auto const& c : list_.points) order.emplace_back(c.before, order.size());
    std::ranges::sort(order);
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

  basic_dense<Index> const& s_;
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
cut_partition cut_at(basic_dense<Index> const& s, cut_list list) {
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
  std::vector<std::pair<part_id, part_id>> pairs;
  for (std::size_t n = 0; n < p.of.size(); ++n)
    if (!marks[n]) pairs.emplace_back(p.of[n], q.of[n]);
  std::ranges::sort(pairs);
  auto const repeated = std::ranges::unique(pairs);
  pairs.erase(repeated.begin(), repeated.end());
  if (pairs.empty()) return p;

  std::vector<char> begun(p.parts);  // of a part of `p`: a node of it was met that is no marker
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    auto const old = p.of[n];
    auto at = std::ranges::lower_bound(pairs, std::pair(old, marks[n] ? part_id{0} : q.of[n]));
    if (marks[n] && begun[index(old)]) {  // a marker at the end comes last
      at = std::ranges::upper_bound(pairs, std::pair(old, no_part));
      --at;
    }
    begun[index(old)] |= !marks[n];
    p.of[n] = part_id{static_cast<std::uint32_t>(at - pairs.begin())};
  }
  std::vector<std::uint32_t> number;
  for (auto const& [old, inner] : pairs) number.push_back(p.number[index(old)]);
  p.number = std::move(number);
  p.parts = static_cast<std::uint32_t>(pairs.size());
  return p;
}

}  // namespace cleave
