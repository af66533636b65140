// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2 {

/// One way in which a plan does not match its graph. `what` decides which of `stage`, `other`, `node` and
/// `value` are set.
struct plan_fault {
  enum class kind : std::uint8_t {
    unknown_stage,  ///< the order, a transfer or an update names `stage`, which the plan lacks
    unknown_node,   ///< `stage` lists `node`, which the graph lacks
    unknown_value,  ///< a list or transfer of `stage` names `value`, which the graph lacks
    order,          ///< `stage` is missing from the order of stages, or is there twice
    missing_node,   ///< `node` is in no stage
    repeated_node,  ///< `node` is in `stage` and again in `other`, which may be the same stage
    unneeded_copy,  ///< `stage` has a copy of `node` that nothing in it reads
    split_group,    ///< `node` is in `stage`, but the first node of its group is in `other`
    early_node,     ///< `node` runs before a node that it must follow, or its stage before that node's stage
    absent_value,  ///< `node` reads `value`, or needs it as a companion, but `stage` does not have it by then
    repeated_value,     ///< `value` is twice in a list of `stage`, or another stage outputs it too
    misplaced_value,    ///< `value` is state among the inputs, an input among the state, or made by `stage`
                        ///< itself
    unused_value,       ///< `stage` is given `value` and does not use it
    foreign_output,     ///< `stage` outputs `value` but does not make it
    missing_output,     ///< no stage outputs `value`, which the caller or another stage receives
    unneeded_output,    ///< `stage` outputs `value`, which neither the caller nor another stage receives
    missing_transfer,   ///< `value` goes from `stage` to `other`, but the transfers or updates lack it
    unneeded_transfer,  ///< the transfers or updates send `value` from `stage` to `other` without need
    backward_transfer,  ///< `value` goes from `stage` to `other`, which runs before it
  };
  kind what;
  stage_id stage = no_stage, other = no_stage;
  std::size_t node = none<std::size_t>, value = none<std::size_t>;

  static constexpr auto no_stage = stage_id{none<std::uint32_t>};
  bool operator==(plan_fault const&) const = default;
};

/// Returns the code of a fault for programs. Codes stay the same from version to version.
constexpr std::string_view code_of(plan_fault::kind what) {
  constexpr std::string_view codes[] = {
      "stage-unknown",   "node-unknown",     "value-unknown",     "stage-order",      "node-missing",
      "node-repeated",   "copy-unneeded",    "group-split",       "node-early",       "value-absent",
      "value-repeated",  "value-misplaced",  "value-unused",      "output-foreign",   "output-missing",
      "output-unneeded", "transfer-missing", "transfer-unneeded", "transfer-backward"};
  return codes[static_cast<std::size_t>(what)];
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a plan does not match its graph. The witness is the first fault.
using plan_error = witness_error<plan_fault>;

/// Returns the name of a value in messages: its number and its producer, such as `value #7 of node conv1
/// (#4)`.
template <std::unsigned_integral Index>
std::string value_label(basic_snapshot_arrays<Index> const& s, std::size_t v) {
  auto number = "value #" + std::to_string(v);
  if (v >= s.values() || s.producer[v] == none<Index>) return number;
  return number + " of node " + s.label(s.producer[v]);
}

/// Returns one sentence that describes the fault, in the names of the graph.
template <std::unsigned_integral Index>
std::string plan_fault_text(basic_snapshot_arrays<Index> const& s, plan_fault const& f) {
  using enum plan_fault::kind;
  auto const stage = [](stage_id i) { return "stage " + std::to_string(index(i)); };
  auto const node = [&] { return "node " + s.label(f.node); };
  auto const value = [&] { return value_label(s, f.value); };
  switch (f.what) {
    case unknown_stage:
      return "the plan has no " + stage(f.stage);
    case unknown_node:
      return stage(f.stage) + " lists node #" + std::to_string(f.node) + ", which the graph lacks";
    case unknown_value:
      return stage(f.stage) + " names " + value() + ", which the graph lacks";
    case order:
      return stage(f.stage) + " must be exactly once in the order of stages";
    case missing_node:
      return node() + " is in no stage";
    case repeated_node:
      return node() + " is in " + stage(f.stage) + " and again in " + stage(f.other);
    case unneeded_copy:
      return stage(f.stage) + " has a copy of " + node() + " that nothing in it reads";
    case split_group:
      return node() + " is in " + stage(f.stage) + ", but a node of its group is in " + stage(f.other);
    case early_node:
      return node() + " in " + stage(f.stage) + " runs before a node that it must follow";
    case absent_value:
      return node() + " in " + stage(f.stage) + " needs " + value() + ", which the stage does not have there";
    case repeated_value:
      return value() + " is twice in a list of " + stage(f.stage);
    case misplaced_value:
      return value() + " is given to " + stage(f.stage) +
             " in the wrong list (inputs instead of state, or the reverse), or is made there";
    case unused_value:
      return stage(f.stage) + " is given " + value() + ", which nothing in it reads";
    case foreign_output:
      return stage(f.stage) + " gives " + value() + ", which it does not make";
    case missing_output:
      return "no stage gives " + value() + ", which the caller or another stage receives";
    case unneeded_output:
      return stage(f.stage) + " gives " + value() + ", which neither the caller nor another stage receives";
    case missing_transfer:
      return "the plan lacks the transfer of " + value() + " from " + stage(f.stage) + " to " +
             stage(f.other);
    case unneeded_transfer:
      return "the plan has a transfer of " + value() + " from " + stage(f.stage) + " to " + stage(f.other) +
             ", which is not needed";
    case backward_transfer:
      return value() + " goes from " + stage(f.stage) + " to " + stage(f.other) + ", which runs before it";
  }
  return {};
}

/// The permission for stages to receive values that they only pass on to others, as in a plan of `relayed`.
enum class passing : std::uint8_t { refused, allowed };

/// Finds the faults of a plan without using the code that makes plans. Used by `plan_faults`.
template <std::unsigned_integral Index, class Copied>
class plan_checker {
 public:
  plan_checker(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p, Copied copied,
               passing relays)
      : s_(s), p_(p), copied_(copied), relays_(relays == passing::allowed) {}

  std::vector<plan_fault> find() {
    check_numbers();
    if (faults_.empty()) check_order();
    if (!faults_.empty()) return std::move(faults_);  // the other checks need valid numbers
    if (relays_) list_passed_on();
    check_stages_of_nodes();
    list_senders();
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i) check_stage(stage_id{i});
    check_copies();
    check_lists(expected_transfers(), p_.transfers);
    check_lists(expected_updates(), p_.updates);
    check_direction();
    check_outputs();
    return std::move(faults_);
  }

 private:
  using kind = plan_fault::kind;
  using transfers = std::vector<basic_transfer<Index>>;
  static constexpr auto nowhere = plan_fault::no_stage;

  void fault(kind what, stage_id stage, std::size_t node = none<std::size_t>,
             std::size_t value = none<std::size_t>, stage_id other = nowhere) {
    faults_.push_back({what, stage, other, node, value});
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
      if (place != p_.stages.size()) fault(kind::order, p_.order[at]);
      place = at;
    }
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      if (place_[i] == p_.stages.size()) fault(kind::order, stage_id{i});
  }

  bool repeats(std::size_t n) const { return is_replicable(s_, n) || copied_(n); }

  void check_stages_of_nodes() {
    stage_of_.assign(s_.nodes(), nowhere);
    copies_.assign(s_.nodes(), 0);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const n : p_.stages[i].nodes) {
        bool const again = stage_of_[n] == stage_id{i};
        if (stage_of_[n] != nowhere && !copied_(n) && (again || !repeats(n)))
          fault(kind::repeated_node, stage_of_[n], n, none<std::size_t>, stage_id{i});
        stage_of_[n] = stage_id{i};
        ++copies_[n];
      }
    for (std::size_t n = 0; n < s_.nodes(); ++n) {
      if (stage_of_[n] == nowhere) {
        fault(kind::missing_node, nowhere, n);
        continue;
      }
      Index const first = s_.group.empty() ? static_cast<Index>(n) : s_.group[n];
      if (!repeats(n) && stage_of_[first] != nowhere && stage_of_[n] != stage_of_[first])
        fault(kind::split_group, stage_of_[n], n, none<std::size_t>, stage_of_[first]);
      for (Index const m : s_.after[n])
        if (!repeats(n) && !repeats(m) && stage_of_[m] != nowhere &&
            place_[index(stage_of_[m])] > place_[index(stage_of_[n])])
          fault(kind::early_node, stage_of_[n], n);
    }
  }

  static bool has(std::vector<Index> const& list, Index v) {
    return std::find(list.begin(), list.end(), v) != list.end();
  }
  bool is_passed_on(stage_id i, Index v) const {
    return std::binary_search(passed_on_.begin(), passed_on_.end(), std::pair(i, v));
  }

  void list_passed_on() {
    std::vector<stage_id> given(s_.values(), nowhere);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i) {
      for (Index const v : p_.stages[i].inputs) given[v] = stage_id{i};
      for (Index const v : p_.stages[i].outputs)
        if (given[v] == stage_id{i}) passed_on_.emplace_back(stage_id{i}, v);
    }
    std::sort(passed_on_.begin(), passed_on_.end());
  }

  /// Finds the stage that sends or returns each state value.
  void list_senders() {
    sender_.assign(s_.values(), nowhere);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const v : p_.stages[i].outputs)
        if (is_held(s_.from[v]) && !is_passed_on(stage_id{i}, v) &&
            std::exchange(sender_[v], stage_id{i}) != nowhere)
          fault(kind::repeated_value, stage_id{i}, none<std::size_t>, v);
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
        bool const right = is_held(s_.from[v]) ? sent || list == &stage.state : list == &stage.inputs;
        if (!right || (m != none<Index> && (repeats(m) || stage_of_[m] == i)))
          fault(kind::misplaced_value, i, none<std::size_t>, v), used_[v] = i;
        else if (given_[v] == i)
          fault(kind::repeated_value, i, none<std::size_t>, v);
        has_[v] = given_[v] = i;
      }
    for (Index const n : stage.nodes) {
      for (Index const v : s_.operands[n]) {
        if (std::exchange(has_[v], i) != i) fault(kind::absent_value, i, n, v);
        used_[v] = i;
      }
      for (Index const m : s_.after[n])
        if (stage_of_[m] == i && !repeats(n) && !repeats(m) && done_[m] != i) fault(kind::early_node, i, n);
      for (Index const v : s_.results[n]) has_[v] = i;
      done_[n] = i;
    }
    check_companions(i);
    for (Index const v : stage.outputs)
      if (is_held(s_.from[v]) || (relays_ && given_[v] == i)) used_[v] = i;
    for (auto const* list : {&stage.inputs, &stage.state})
      for (Index const v : *list)
        if (std::exchange(used_[v], i) != i) fault(kind::unused_value, i, none<std::size_t>, v);
  }

  void check_companions(stage_id i) {
    if (s_.companions.rows() == 0) return;
    for (Index const n : p_.stages[index(i)].nodes)
      for (Index const v : s_.operands[n]) {
        if (is_replicable(s_, n) || given_[v] != i) continue;
        for (Index const c : s_.companions[v]) {
          if (std::exchange(has_[c], i) != i) fault(kind::absent_value, i, n, c);
          used_[c] = i;
        }
      }
  }

  /// Checks that each stage with a copy of a replicated node uses it.
  void check_copies() {
    std::vector<stage_id> read(s_.values(), nowhere);
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i) {
      auto const& stage = p_.stages[i];
      for (Index const n : stage.nodes)
        for (Index const v : s_.operands[n]) {
          read[v] = stage_id{i};
          if (Index const m = s_.producer[v];
              m == none<Index> || (!repeats(m) && stage_of_[m] != stage_id{i}))
            for (Index const c : s_.companions[v]) read[c] = stage_id{i};
        }
      for (Index const v : stage.outputs) read[v] = stage_id{i};
      for (Index const n : stage.nodes)
        if (is_replicable(s_, n) && copies_[n] > 1 &&
            std::ranges::none_of(s_.results[n], [&](Index v) { return read[v] == stage_id{i}; }))
          fault(kind::unneeded_copy, stage_id{i}, n);
    }
  }

  /// Returns the stage that makes `v`, or that holds and sends it. Returns `nowhere` if that was reported as
  /// a fault.
  stage_id giver(Index v) const {
    return s_.producer[v] == none<Index> ? sender_[v] : stage_of_[s_.producer[v]];
  }

  /// Returns a transfer for each input, from the stage that makes the value. If the plan has a transfer from
  /// a stage that passes the value on, that one counts.
  transfers expected_transfers() const {
    transfers list, relays;
    auto const key = [](auto const& t) { return std::pair(t.to, t.value); };
    if (relays_) {
      for (auto const& t : p_.transfers)
        if (is_passed_on(t.from, t.value)) relays.push_back(t);
      std::ranges::sort(relays, {}, key);
    }
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const v : p_.stages[i].inputs) {
        if (s_.producer[v] == none<Index> && !is_held(s_.from[v])) continue;
        basic_transfer<Index> const direct{v, giver(v), stage_id{i}};
        auto const relay = std::ranges::lower_bound(relays, key(direct), {}, key);
        bool const passed = relay != relays.end() && key(*relay) == key(direct);
        list.push_back(passed ? *relay : direct);
      }
    return list;
  }

  transfers expected_updates() const {
    transfers list;
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i)
      for (Index const v : p_.stages[i].state)
        if (Index const last = s_.latest[s_.slot[v]]; last != v && giver(last) != stage_id{i})
          list.push_back({last, giver(last), stage_id{i}});
    return list;
  }

  /// Compares transfers or updates with the expected ones. Values that no stage makes or sends are skipped,
  /// since they have been reported.
  void check_lists(transfers expected, transfers listed) {
    auto const is_lost = [&](auto const& t) {
      return s_.producer[t.value] != none<Index> && giver(t.value) == nowhere;
    };
    std::erase_if(expected, [&](auto const& t) { return t.from == nowhere || is_lost(t); });
    std::erase_if(listed, is_lost);
    auto const key = [](auto const& t) { return std::tuple(t.value, t.to, t.from); };
    std::ranges::sort(expected, {}, key);
    std::ranges::sort(listed, {}, key);
    for (std::size_t e = 0, l = 0; e < expected.size() || l < listed.size(); ++e, ++l) {
      bool const lacks = l == listed.size() || (e < expected.size() && key(expected[e]) < key(listed[l]));
      bool const more = !lacks && (e == expected.size() || key(listed[l]) < key(expected[e]));
      if (!lacks && !more) continue;
      auto const& t = lacks ? expected[e] : listed[l];
      fault(lacks ? kind::missing_transfer : kind::unneeded_transfer, t.from, none<std::size_t>, t.value,
            t.to);
      lacks ? --l : --e;  // compare this entry again
    }
  }

  void check_direction() {
    for (auto const& t : p_.transfers)
      if (place_[index(t.from)] >= place_[index(t.to)])
        fault(kind::backward_transfer, t.from, none<std::size_t>, t.value, t.to);
  }

  void check_outputs() {
    std::vector<char> received(s_.values()), gives(s_.values());
    std::vector<stage_id> listed(s_.values(), nowhere);  // by value: the last stage that outputs it
    for (Index const v : s_.outputs) received[v] = s_.producer[v] != none<Index> || sender_[v] != nowhere;
    auto const returned = received;
    std::vector<std::pair<stage_id, Index>> sent;
    for (auto const* list : {&p_.transfers, &p_.updates})
      for (auto const& t : *list) {
        received[t.value] = 1;
        if (relays_) sent.emplace_back(t.from, t.value);
      }
    std::sort(sent.begin(), sent.end());
    auto const is_received = [&](stage_id i, Index v) {
      if (!relays_ || returned[v]) return received[v] != 0;
      return std::binary_search(sent.begin(), sent.end(), std::pair(i, v));
    };
    for (std::uint32_t i = 0; i < p_.stages.size(); ++i) {
      auto const& stage = p_.stages[i];
      for (Index const v : stage.outputs) {
        Index const m = s_.producer[v];
        bool const makes = m == none<Index> ? has(stage.state, v)
                           : repeats(m)     ? has(stage.nodes, m)
                                            : stage_of_[m] == stage_id{i};
        bool const passes = !makes && is_passed_on(stage_id{i}, v);
        bool const again = listed[v] == stage_id{i} || (gives[v] && !relays_);
        if (!makes && !passes)
          fault(kind::foreign_output, stage_id{i}, none<std::size_t>, v);
        else if (again)
          fault(kind::repeated_value, stage_id{i}, none<std::size_t>, v);
        else if (!is_received(stage_id{i}, v))
          fault(kind::unneeded_output, stage_id{i}, none<std::size_t>, v);
        listed[v] = stage_id{i};
        gives[v] = 1;
      }
    }
    for (std::size_t v = 0; v < s_.values(); ++v)
      if (received[v] && !gives[v]) fault(kind::missing_output, nowhere, none<std::size_t>, v);
  }

  basic_snapshot_arrays<Index> const& s_;
  basic_plan<Index> const& p_;
  Copied copied_;
  bool relays_;
  std::vector<std::pair<stage_id, Index>> passed_on_;  // sorted
  std::vector<plan_fault> faults_;
  std::vector<std::size_t> place_;            // by stage: its place in the order
  std::vector<stage_id> stage_of_;            // by node: the last stage that has it
  std::vector<std::size_t> copies_;           // by node: number of stages that have it
  std::vector<stage_id> sender_;              // by state value: the stage that sends or returns it
  std::vector<stage_id> has_, given_, used_;  // by value: the last stage that has it, is given it, uses it
  std::vector<stage_id> done_;                // by node: the last stage in which it was visited
};

/// Returns every way in which `p` is not a plan of `s`. If stages, nodes or values are numbered wrongly, or
/// the order lacks stages, returns only these faults.
///
/// A plan of `s` has these properties:
/// - Each node is in one stage. A replicable node is in each stage that reads it.
/// - A stage reads only values that it has been given or has made before. It is given no others, and it
///   outputs the values that others receive.
/// - Transfers and updates agree with the inputs, outputs and state of the stages. Transfers run forward in
///   the order of stages.
/// - State is held by each stage that reads it, or by one stage that sends it to the others.
///
/// Lists may have any order that respects the dependencies of nodes. Nodes for which `copied(n)` is true,
/// such as marks of scopes, may be in any stage. With `passing::allowed` a stage may also receive values that
/// it only passes on. O(V + E + T log T) for T transfers, plus O(nodes of a stage) for each output of a
/// replicable node.
template <std::unsigned_integral Index, class Copied>
std::vector<plan_fault> plan_faults(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                                    Copied copied, passing relays = passing::refused) {
  return plan_checker<Index, Copied>(s, p, copied, relays).find();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the first fault of `p` as a plan of `s`, or nothing. Nodes for which `copied(n)` is true, such as
/// marks of scopes, may be in any stage. O(V + E + T log T) for T transfers, plus O(nodes of a stage) for
/// each output of a replicable node.
template <std::unsigned_integral Index, class Copied>
std::optional<plan_fault> find_plan_fault(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p,
                                          Copied copied) {
  auto const faults = detail::plan_faults(s, p, copied);
  return faults.empty() ? std::nullopt : std::optional(faults.front());
}
template <std::unsigned_integral Index>
std::optional<plan_fault> find_plan_fault(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p) {
  return find_plan_fault(s, p, [](std::size_t) { return false; });
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Checks that `p` is a plan of `s`.
/// \throws plan_error with the first fault
template <std::unsigned_integral Index>
void check_plan(basic_snapshot_arrays<Index> const& s, basic_plan<Index> const& p) {
  if (auto const f = find_plan_fault(s, p))
    raise(plan_error("the plan does not match the graph: " + plan_fault_text(s, *f), *f));
}

}  // namespace cleave::detail
