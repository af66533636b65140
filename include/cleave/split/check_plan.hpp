// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/plan_fault.hpp"

namespace cleave {

/// Looks for what is wrong with a plan, without the code that makes plans; `find_plan_fault` is its one use.
template <std::unsigned_integral Index, class Copied>
class plan_checker {
 public:
  plan_checker(basic_dense<Index> const& s, basic_plan<Index> const& p, Copied copied)
      : s_(s), p_(p), copied_(copied) {}

  std::optional<plan_fault> find() {
    check_numbers();
    if (!fault_) check_order();
    if (!fault_) check_homes();
    if (!fault_) list_senders();
    for (std::uint32_t i = 0; i < p_.stages.size() && !fault_; ++i) check_stage(stage_id{i});
    if (!fault_) check_copies();
    if (!fault_) check_lists(expected_transfers(), p_.transfers);
    if (!fault_) check_lists(expected_updates(), p_.updates);
    if (!fault_) check_direction();
    if (!fault_) check_outputs();
    return fault_;
  }

 private:
  using kind = plan_fault::kind;
  using transfers = std::vector<basic_transfer<Index>>;
  static constexpr auto nowhere = plan_fault::no_stage;

  void fault(kind what, stage_id stage, std::size_t node = none<std::size_t>,
             std::size_t value = none<std::size_t>, stage_id other = nowhere) {
    if (!fault_) fault_ = plan_fault{what, stage, other, node, value};
  }

  void check_numbers() {
    auto const known = [&](stage_id i) {
      if (index(i) >= p_.stages.size()) fault(kind::unknown_stage, i);
    };
    auto const values = [&](stage_id i, std::vector<Index> const& list) {
      for (Index const v : list)
        if (v >= s_.values()) fault(kind::unknown_value, i, none<std::size_t>, v);
    };
    for (stage_id const i : p_.order) known(i);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i) {
      auto const& stage = p_.stages[i];
      for (Index const n : stage.nodes)
        if (n >= s_.nodes()) fault(kind::unknown_node, stage_id{i}, n);
      for (auto const* list : {&stage.inputs, &stage.state, &stage.outputs}) values(stage_id{i}, *list);
    }
    for (auto const* list : {&p_.transfers, &p_.updates})
      for (auto const& t : *list) known(t.from), known(t.to), values(t.from, {t.value});
  }

  void check_order() {
    place_.assign(p_.stages.size(), p_.stages.size());
    for (std::size_t at = 0; at < p_.order.size(); ++at) {
      auto& place = place_[index(p_.order[at])];
      if (place != p_.stages.size()) return fault(kind::order, p_.order[at]);
      place = at;
    }
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      if (place_[i] == p_.stages.size()) return fault(kind::order, stage_id{i});
  }

  bool repeats(std::size_t n) const { return is_replicable(s_, n) || copied_(n); }

  void check_homes() {
    home_.assign(s_.nodes(), nowhere);
    copies_.assign(s_.nodes(), 0);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const n : p_.stages[i].nodes) {
        bool const again = home_[n] == stage_id{i};
        if (home_[n] != nowhere && !copied_(n) && (again || !repeats(n)))
          return fault(kind::repeated_node, home_[n], n, none<std::size_t>, stage_id{i});
        home_[n] = stage_id{i};
        ++copies_[n];
      }
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      if (home_[n] == nowhere) return fault(kind::missing_node, nowhere, n);
      if (!s_.group.empty() && !repeats(n) && home_[n] != home_[s_.group[n]])
        return fault(kind::split_group, home_[n], n, none<std::size_t>, home_[s_.group[n]]);
      for (Index const m : s_.after[n])
        if (!repeats(n) && !repeats(m) && place_[index(home_[m])] > place_[index(home_[n])])
          return fault(kind::early_node, home_[n], n);
    }
  }

  bool is_held(Index v) const { return s_.from[v] == source::state || s_.from[v] == source::constant; }

  /// Of state that stages send or return: who does.
  void list_senders() {
    sender_.assign(s_.values(), nowhere);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const v : p_.stages[i].outputs)
        if (is_held(v) && std::exchange(sender_[v], stage_id{i}) != nowhere)
          return fault(kind::repeated_value, stage_id{i}, none<std::size_t>, v);
  }

  void check_stage(stage_id i) {
    auto const& stage = p_.stages[index(i)];
    has_.resize(s_.values(), nowhere), given_.resize(s_.values(), nowhere),
        used_.resize(s_.values(), nowhere);
    done_.resize(s_.nodes(), nowhere);
    for (auto const* list : {&stage.inputs, &stage.state})
      for (Index const v : *list) {
        Index const m = s_.producer[v];
        bool const sent = list == &stage.inputs && sender_[v] != nowhere && sender_[v] != i;
        bool const right = is_held(v) ? sent || list == &stage.state : list == &stage.inputs;
        if (!right || (m != none<Index> && (repeats(m) || home_[m] == i)))
          return fault(kind::misplaced_value, i, none<std::size_t>, v);
        if (std::exchange(given_[v], i) == i) return fault(kind::repeated_value, i, none<std::size_t>, v);
        has_[v] = i;
      }
    for (Index const n : stage.nodes) {
      for (Index const v : s_.operands[n]) {
        if (has_[v] != i) return fault(kind::absent_value, i, n, v);
        used_[v] = i;
      }
      for (Index const m : s_.after[n])
        if (home_[m] == i && !repeats(n) && !repeats(m) && done_[m] != i)
          return fault(kind::early_node, i, n);
      for (Index const v : s_.results[n]) has_[v] = i;
      done_[n] = i;
    }
    check_companions(i);
    for (Index const v : stage.outputs)
      if (is_held(v)) used_[v] = i;
    for (auto const* list : {&stage.inputs, &stage.state})
      for (Index const v : *list)
        if (used_[v] != i) return fault(kind::unused_value, i, none<std::size_t>, v);
  }

  void check_companions(stage_id i) {
    if (s_.companions.rows() == 0) return;
    for (Index const n : p_.stages[index(i)].nodes)
      for (Index const v : s_.operands[n]) {
        if (is_replicable(s_, n) || given_[v] != i) continue;
        for (Index const c : s_.companions[v]) {
          if (has_[c] != i) return fault(kind::absent_value, i, n, c);
          used_[c] = i;
        }
      }
  }

  /// Of a node in several stages, each has a use for it.
  void check_copies() {
    std::vector<stage_id> read(s_.values(), nowhere);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i) {
      auto const& stage = p_.stages[i];
      for (Index const n : stage.nodes)
        for (Index const v : s_.operands[n]) {
          read[v] = stage_id{i};
          if (Index const m = s_.producer[v]; m == none<Index> || (!repeats(m) && home_[m] != stage_id{i}))
            for (Index const c : s_.companions[v]) read[c] = stage_id{i};
        }
      for (Index const v : stage.outputs) read[v] = stage_id{i};
      for (Index const n : stage.nodes)
        if (is_replicable(s_, n) && copies_[n] > 1 &&
            std::ranges::none_of(s_.results[n], [&](Index v) { return read[v] == stage_id{i}; }))
          return fault(kind::unneeded_copy, stage_id{i}, n);
    }
  }

  transfers expected_transfers() const {
    transfers list;
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const v : p_.stages[i].inputs)
        if (Index const m = s_.producer[v]; m != none<Index> || is_held(v))
          list.push_back({v, m == none<Index> ? sender_[v] : home_[m], stage_id{i}});
    return list;
  }

  transfers expected_updates() const {
    transfers list;
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const v : p_.stages[i].state)
        if (Index const last = s_.latest[s_.slot[v]]; last != v && home_[s_.producer[last]] != stage_id{i})
          list.push_back({last, home_[s_.producer[last]], stage_id{i}});
    return list;
  }

  void check_lists(transfers expected, transfers listed) {
    auto const key = [](auto const& t) { return std::tuple(t.value, t.to, t.from); };
    std::ranges::sort(expected, {}, key);
    std::ranges::sort(listed, {}, key);
    for (std::size_t e = 0, l = 0; e < expected.size() || l < listed.size(); ++e, ++l) {
      bool const lacks = l == listed.size() || (e < expected.size() && key(expected[e]) < key(listed[l]));
      bool const more = !lacks && (e == expected.size() || key(listed[l]) < key(expected[e]));
      if (!lacks && !more) continue;
      auto const& t = lacks ? expected[e] : listed[l];
      return fault(lacks ? kind::missing_transfer : kind::unneeded_transfer, t.from, none<std::size_t>,
                   t.value, t.to);
    }
  }

  void check_direction() {
    for (auto const& t : p_.transfers)
      if (place_[index(t.from)] >= place_[index(t.to)])
        return fault(kind::backward_transfer, t.from, none<std::size_t>, t.value, t.to);
  }

  void check_outputs() {
    std::vector<char> received(s_.values()), gives(s_.values());
    for (Index const v : s_.outputs) received[v] = s_.producer[v] != none<Index> || sender_[v] != nowhere;
    for (auto const* list : {&p_.transfers, &p_.updates})
      for (auto const& t : *list) received[t.value] = 1;
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i) {
      auto const &nodes = p_.stages[i].nodes, &state = p_.stages[i].state;
      for (Index const v : p_.stages[i].outputs) {
        Index const m = s_.producer[v];
        bool const makes = m == none<Index> ? std::ranges::find(state, v) != state.end()
                           : repeats(m)     ? std::ranges::find(nodes, m) != nodes.end()
                                            : home_[m] == stage_id{i};
        if (!makes) return fault(kind::foreign_output, stage_id{i}, none<std::size_t>, v);
        if (std::exchange(gives[v], 1)) return fault(kind::repeated_value, stage_id{i}, none<std::size_t>, v);
        if (!received[v]) return fault(kind::unneeded_output, stage_id{i}, none<std::size_t>, v);
      }
    }
    for (std::size_t v = 0; v < s_.values(); ++v)
      if (received[v] && !gives[v]) return fault(kind::missing_output, nowhere, none<std::size_t>, v);
  }

  basic_dense<Index> const& s_;
  basic_plan<Index> const& p_;
  Copied copied_;
  std::optional<plan_fault> fault_;
  std::vector<std::size_t> place_;            // of a stage: in the order
  std::vector<stage_id> home_;                // of a node: the last stage that has it
  std::vector<std::size_t> copies_;           // of a node: how many stages have it
  std::vector<stage_id> sender_;              // of a value that is state: the stage that gives it
  std::vector<stage_id> has_, given_, used_;  // of a value: the last stage that …
  std::vector<stage_id> done_;                // of a node: the last stage that has met it
};

/// The first way in which `p` is no plan of `s`, or nothing. Each node is in one stage, or, where it is
/// replicable, in each that reads it; a stage reads what it is given or has made before, is given nothing
/// else, and gives what others receive; transfers and updates say just that, and run forward. State is with
/// each that reads it, or with one that gives it to the others. The orders of
/// lists are free, but for what nodes need. Nodes for which `copied(n)` holds may be anywhere: the marks of
/// scopes. O(V + E + T log T) for T transfers, and O(nodes of a stage) for each output that is replicable.
template <std::unsigned_integral Index, class Copied>
std::optional<plan_fault> find_plan_fault(basic_dense<Index> const& s, basic_plan<Index> const& p,
                                          Copied copied) {
  return plan_checker<Index, Copied>(s, p, copied).find();
}
template <std::unsigned_integral Index>
std::optional<plan_fault> find_plan_fault(basic_dense<Index> const& s, basic_plan<Index> const& p) {
  return find_plan_fault(s, p, [](std::size_t) { return false; });
}

/// \throws plan_error unless `p` is a plan of `s`, with the first fault.
template <std::unsigned_integral Index>
void check_plan(basic_dense<Index> const& s, basic_plan<Index> const& p) {
  if (auto const f = find_plan_fault(s, p))
    throw plan_error("no plan of this graph: " + plan_fault_text(s, *f), *f);
}

}  // namespace cleave
