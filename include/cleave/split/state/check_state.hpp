// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/state/assign_state.hpp"
#include "cleave/split/state/state_assignment.hpp"
#include "cleave/split/state/tensor_classes.hpp"

namespace cleave::inline v0_2::detail {

/// Finds the faults of a state assignment without using the code that makes one. Used by `state_faults`.
template <std::unsigned_integral Index>
class assignment_checker {
 public:
  assignment_checker(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                     basic_model_state<Index> const& m, state_assignment const& placed)
      : s_(s),
        p_(p),
        m_(m),
        placed_(placed),
        class_(m.tensors),
        holder_(class_.size(), no_stage),
        held_(class_.size(), no_stage),
        read_(class_.size(), no_stage),
        sent_(class_.size()),
        tied_(placed.replicas.size()),
        tie_(class_.size(), none<std::size_t>),
        named_(m.tensors.size()) {}

  std::vector<state_fault> find() {
    list_ties();
    for (stage_id const i : p_.order) check_stage(i);
    check_names();
    return std::move(faults_);
  }

 private:
  using kind = state_fault::kind;

  void fault(kind what, std::uint32_t tensor, stage_id stage = the_caller, stage_id other = the_caller) {
    faults_.push_back({what, m_.tensors[tensor].name, {}, stage, other});
  }

  void list_ties() {
    numbering<std::string_view, std::uint32_t> known;
    std::vector<std::uint32_t> of;
    for (std::uint32_t t = 0; t < m_.tensors.size(); ++t)
      if (known.insert(m_.tensors[t].name) == of.size()) of.push_back(class_[t]);
    for (std::size_t k = 0; k < placed_.replicas.size(); ++k)
      for (auto const& copy : placed_.replicas[k].members) {
        if (auto const at = known.find(copy.name); at != none<std::uint32_t>) tie_[of[at]] = k;
        tied_[k].push_back(copy.stage);
      }
    for (auto const& sent : placed_.sent)
      sent_[class_[sent.tensor]].insert(sent_[class_[sent.tensor]].end(), sent.to.begin(), sent.to.end());
    for (auto* lists : {&tied_, &sent_})
      for (auto& list : *lists) std::ranges::sort(list);
  }

  bool is_tied(std::uint32_t c, stage_id i) const {
    return tie_[c] != none<std::size_t> && std::ranges::binary_search(tied_[tie_[c]], i);
  }
  bool is_sent(std::uint32_t c, stage_id i) const { return std::ranges::binary_search(sent_[c], i); }

  void check_stage(stage_id i) {
    std::vector<std::uint32_t> names;
    for (auto const& h : placed_.stages[index(i)]) {
      auto const c = class_[h.tensor];
      names.push_back(h.tensor);
      named_[h.tensor] = 1;
      if (std::exchange(held_[c], i) == i || class_.is_constant(c)) continue;
      auto const before = std::exchange(holder_[c], i);
      if (before != no_stage && !(is_tied(c, before) && is_tied(c, i)))
        fault(kind::untied, h.tensor, before, i);
    }
    std::ranges::sort(names);
    for (std::size_t k = 1; k < names.size(); ++k)
      if (names[k] == names[k - 1]) fault(kind::repeated, names[k], i);
    check_reads(i);
    for (auto const& h : placed_.stages[index(i)])
      if (read_[class_[h.tensor]] != i) fault(kind::unread, h.tensor, i);
  }

  void check_reads(stage_id i) {
    auto const read_tensor = [&](Index t) {
      auto const c = class_[t];
      if (std::exchange(read_[c], i) == i || held_[c] == i || is_sent(c, i)) return;
      fault(kind::absent, static_cast<std::uint32_t>(t), i);
    };
    auto const read = [&](Index v) {
      if (s_.producer[v] == none<Index> && m_.tensor[v] != none<Index>) read_tensor(m_.tensor[v]);
    };
    for (Index const n : p_.stages[index(i)].nodes) {
      for (Index const v : s_.operands[n]) read(v);
      for (Index const t : m_.reads[n]) read_tensor(t);
    }
    if (i != p_.order.back()) return;
    for (Index const v : s_.outputs)
      if (Index const t = m_.tensor[v]; s_.producer[v] == none<Index> && t != none<Index> &&
                                        (held_[class_[t]] == i || !is_sent(class_[t], the_caller)))
        read(v);
  }

  void check_names() {
    std::vector<char> unused(m_.tensors.size());
    for (auto const t : placed_.unused) unused[t] = 1;
    for (std::uint32_t t = 0; t < m_.tensors.size(); ++t) {
      bool const somewhere = holder_[class_[t]] != no_stage;
      if (named_[t] || class_.is_constant(class_[t])) continue;
      fault(somewhere || !unused[t] ? kind::missing : kind::unused, t);
    }
  }

  static constexpr stage_id no_stage{0xfffffffe};

  basic_snapshot_arrays<Index> const& s_;
  basic_plan<Index> const& p_;
  basic_model_state<Index> const& m_;
  state_assignment const& placed_;
  tensor_classes class_;
  // By class: the last stage that holds it as state, that has it at all, and that reads it.
  std::vector<stage_id> holder_, held_, read_;
  std::vector<std::vector<stage_id>> sent_;  // by class: the stages to which it is sent, ascending
  std::vector<std::vector<stage_id>> tied_;  // by tie in `replicas`: its stages, ascending
  std::vector<std::size_t> tie_;             // by class: its tie in `replicas`, or none
  std::vector<char> named_;                  // by tensor: a stage has this name
  std::vector<state_fault> faults_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns all faults of `placed`, an assignment of the model `m` to the stages of `p`. It finds writes that
/// other stages miss, copies without a tie, and reads of state that is absent. It also finds state that a
/// stage holds and does not read, and names that are lost. State that no stage reads is listed too, although
/// it is no mistake of the cut. Expected O(size of the plan + names log names + copies log copies).
/// \pre `placed` has an entry for each stage of `p` and was made with options that have no fault
template <std::unsigned_integral Index>
std::vector<state_fault> state_faults(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                                      basic_model_state<Index> const& m, state_assignment const& placed) {
  expects(placed.stages.size() == p.stages.size(), "an assignment for each stage");
  detail::state_assigner<Index> const placer(s, p, m, {});
  auto faults = placer.faults();
  for (auto& f : detail::assignment_checker<Index>(s, p, m, placed).find()) faults.push_back(std::move(f));
  return faults;
}

}  // namespace cleave
