// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/graph/components.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/disjoint_sets.hpp"

/// Splits a backward pass into gradients of a stage's inputs, which another stage waits for, and gradients of
/// its parameters. No stage waits for the latter, so they can fill the bubbles of a pipeline. Source: Qi,
/// Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.
namespace cleave::inline v0_2 {

/// A group of parameters whose gradients start at common intermediates.
template <std::unsigned_integral Index>
struct weight_group {
  std::vector<Index> parameters;     ///< ascending
  std::vector<Index> intermediates;  ///< nodes where the weight phase starts, ascending
  std::size_t bytes = 0;  ///< bytes of the gradients at the intermediates, which are kept until the weight
                          ///< phase; 0 if unknown

  bool operator==(weight_group const&) const = default;
};

/// A backward pass cut between the gradients of inputs and of weights.
template <std::unsigned_integral Index>
struct basic_weight_cut {
  /// For each node: 1 if it is an input or if gradients flow from it to an input.
  std::vector<char> on_input_path;
  std::vector<weight_group<Index>> groups;  ///< disjoint; sorted by their smallest intermediate
  /// For each group, the first group of its joint set; the group itself if it is alone. Two groups are joint
  /// if gradients flow from one through the other and back. An executor that runs and frees whole nodes, not
  /// single edges, must process joint groups together.
  std::vector<Index> joint;
  std::size_t bytes = 0;  ///< sum over all groups
};

using weight_cut = basic_weight_cut<std::uint32_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the nodes, ascending, where the gradient of `parameter` leaves the paths to the inputs. These are
/// the first nodes on such a path on each way back from the parameter. O(V + E).
template <std::unsigned_integral Index>
std::vector<Index> intermediates_of(csr<Index> const& senders, std::vector<char> const& on_input_path,
                                    Index parameter) {
  std::vector<char> seen(on_input_path.size());
  std::vector<Index> found, rest{parameter};
  while (!rest.empty()) {
    Index const n = rest.back();
    rest.pop_back();
    for (Index const m : senders[n])
      if (!std::exchange(seen[m], 1)) (on_input_path[m] ? found : rest).push_back(m);
  }
  std::ranges::sort(found);
  return found;
}

/// Computes a weight cut. Helper of `weight_cut_of`.
template <std::unsigned_integral Index>
class weight_cut_maker {
 public:
  explicit weight_cut_maker(basic_backward_graph<Index> const& g)
      : g_(g), senders_(gradient_senders(g)), sets_(g.nodes()) {
    cut_.on_input_path = backward_reachable(senders_, g_.inputs);
  }

  basic_weight_cut<Index> make() && {
    find_weight_side();
    join();
    list_groups();
    find_joint_groups();
    return std::move(cut_);
  }

 private:
  bool on_path(Index n) const { return cut_.on_input_path[n] != 0; }

  /// Marks the nodes between intermediates and parameters that are not on a path to an input.
  void find_weight_side() {
    auto const leads = backward_reachable(senders_, g_.parameters);
    std::vector<Index> rest;
    weight_side_.resize(g_.nodes());
    auto const enter = [&](Index n) {
      if (leads[n] && !on_path(n) && !std::exchange(weight_side_[n], 1)) rest.push_back(n);
    };
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      for (Index const m : senders_[n])
        if (on_path(m)) enter(static_cast<Index>(n));
    while (!rest.empty()) {
      Index const n = rest.back();
      rest.pop_back();
      for (auto const& e : g_.next[n])
        if (e.to != none<Index>) enter(e.to);
    }
  }

  /// Unites parameters whose gradients share an intermediate or a node after it. Sharing such a node implies
  /// sharing an intermediate.
  void join() {
    is_intermediate_.resize(g_.nodes());
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (!weight_side_[n]) continue;
      for (Index const m : senders_[n]) {
        if (on_path(m)) is_intermediate_[m] = 1;
        if (on_path(m) || weight_side_[m]) sets_.join(m, n);
      }
    }
    for (Index const p : g_.parameters)
      if (on_path(p))  // its senders are on a path too; it may itself be an intermediate of other parameters
        for (Index const m : senders_[p]) is_intermediate_[m] = 1, sets_.join(senders_[p].front(), m);
  }

  void list_groups() {
    auto& groups = cut_.groups;
    group_of_.assign(g_.nodes(), none<Index>);
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (!is_intermediate_[n]) continue;
      auto& group = group_of_[sets_[n]];
      if (group == none<Index>) {
        group = static_cast<Index>(groups.size());
        groups.emplace_back();
      }
      groups[group].intermediates.push_back(static_cast<Index>(n));
      if (!g_.bytes.empty()) groups[group].bytes += g_.bytes[n], cut_.bytes += g_.bytes[n];
    }
    auto parameters = g_.parameters;
    std::ranges::sort(parameters);
    parameters.erase(std::ranges::unique(parameters).begin(), parameters.end());
    for (Index const p : parameters) {
      if (on_path(p) ? senders_[p].empty() : !weight_side_[p]) continue;
      auto const seat = on_path(p) ? senders_[p].front() : p;
      groups[group_of_[sets_[seat]]].parameters.push_back(p);
    }
  }

  /// Finds joint groups: the strongly connected components after each group is contracted to one node.
  void find_joint_groups() {
    auto const count = cut_.groups.size();
    for (std::size_t i = 0; i < count; ++i) cut_.joint.push_back(static_cast<Index>(i));
    // Row i is group i; each other node on a path has a row of its own.
    csr<Index> quotient;
    std::vector<Index> row(g_.nodes(), none<Index>);
    auto rows = static_cast<Index>(count);
    for (std::size_t n = 0; n < g_.nodes(); ++n)
      if (on_path(static_cast<Index>(n))) row[n] = is_intermediate_[n] ? group_of_[sets_[n]] : rows++;
    auto const list = [&](Index n) {
      for (auto const& e : g_.next[n])
        if (e.to != none<Index> && on_path(e.to) && row[e.to] != row[n]) quotient.add(row[e.to]);
    };
    for (auto const& group : cut_.groups) {
      for (Index const n : group.intermediates) list(n);
      quotient.close();
    }
    for (std::size_t n = 0; n < g_.nodes(); ++n) {
      if (row[n] == none<Index> || is_intermediate_[n]) continue;
      list(static_cast<Index>(n));
      quotient.close();
    }
    auto const component = components_of(quotient);
    if (component.empty()) return;
    std::vector<Index> first(component.size(), none<Index>);
    for (std::size_t i = 0; i < count; ++i) {
      auto& f = first[component[i]];
      if (f == none<Index>) f = static_cast<Index>(i);
      cut_.joint[i] = f;
    }
  }

  basic_backward_graph<Index> const& g_;
  csr<Index> senders_;
  disjoint_sets<Index> sets_;
  std::vector<char> weight_side_;  // for each node: true if it is between an intermediate and a parameter
  std::vector<char> is_intermediate_;
  std::vector<Index> group_of_;  // for each set
  basic_weight_cut<Index> cut_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Cuts the backward pass `g` between the gradients of inputs and of weights.
///
/// Gradients on the way to an input run in the input phase. A node where a gradient leaves these paths for a
/// parameter is an *intermediate*; the gradients that arrive there are kept. Parameters that share an
/// intermediate, directly or through other parameters, form a group. A parameter that no input path leads to
/// is in no group. The result does not depend on the order of the lists of `g`. O((V + E) log V), without
/// recursion.
///
/// \throws backward_graph_error
template <std::unsigned_integral Index>
basic_weight_cut<Index> weight_cut_of(basic_backward_graph<Index> const& g) {
  detail::check_backward_graph(g);
  return detail::weight_cut_maker<Index>(g).make();
}

}  // namespace cleave
