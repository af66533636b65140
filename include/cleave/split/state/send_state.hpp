// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/split/plan.hpp"
#include "cleave/split/state/detail/tensor_classes.hpp"
#include "cleave/split/state/state_placement.hpp"

namespace cleave::detail {

/// Reads of tensors that `options` transmit, under whatever name, as reads of the name that the program reads
/// first, so that a tied tensor is sent once. To be done before the cut is planned. O(V + E + names), and one
/// search for each name in the options.
/// \throws state_error where an option names no tensor, or two say two things of one.
template <class Snapshot>
Snapshot join_sent_reads(Snapshot s, basic_model_state<typename Snapshot::index_type> const& m,
                         state_options const& options) {
  using Index = typename Snapshot::index_type;
  tensor_classes const classes(m.tensors);
  auto const choice = classes.choices(m.tensors, options);
  std::vector<Index> first(classes.size(), none<Index>), instead;
  for (std::size_t v = 0; v < s.values(); ++v) instead.push_back(static_cast<Index>(v));
  bool joined = false;
  auto const read = [&](Index v) {
    Index const t = s.producer[v] == none<Index> ? m.tensor[v] : none<Index>;
    if (t == none<Index> || s.latest[s.slot[v]] != v) return;  // what is written is not sent
    auto const c = classes[t];
    if (choice[c] != shared_state::transmit) return;
    if (first[c] == none<Index>) first[c] = v;
    joined |= instead[v] != first[c];
    instead[v] = first[c];
  };
  for (Index const v : s.operands.item) read(v);
  for (Index const v : s.outputs) read(v);
  if (!joined) return s;
  for (auto* list : {&s.operands.item, &s.outputs})
    for (Index& v : *list) v = instead[v];
  if constexpr (requires { s.slot_of_handle; })
    for (Index& slot : s.slot_of_handle) slot = s.slot[instead[s.latest[slot]]];
  s.users = users_of(s.operands, s.values());
  return s;
}

/// Writes what is sent into a plan; `send_state` is its one use.
template <std::unsigned_integral Index>
class state_sender {
 public:
  state_sender(basic_dense<Index> const& s, basic_plan<Index> p, basic_model_state<Index> const& m,
               state_placement const& placed)
      : s_(s),
        p_(std::move(p)),
        owner_(s.values(), the_caller),
        sent_(s.values()),
        given_(s.values(), the_caller),
        listed_(s.values(), the_caller) {
    tensor_classes const classes(m.tensors);
    std::vector<stage_id> owner(classes.size(), the_caller);
    for (auto const& sent : placed.sent) owner[classes[sent.tensor]] = sent.owner;
    for (std::size_t v = 0; v < s.values(); ++v)
      if (s.producer[v] == none<Index> && m.tensor[v] != none<Index>) owner_[v] = owner[classes[m.tensor[v]]];
    for (stage_id const i : p_.order)
      for (Index const v : p_.stages[index(i)].outputs) sent_[v] = owner_[v] == i;
  }

  basic_plan<Index> send() {
    for (stage_id const i : p_.order) receive(i);
    for (Index const v : s_.outputs)
      if (owner_[v] != the_caller) give(v);
    return std::move(p_);
  }

 private:
  bool is_sent_to(Index v, stage_id i) const { return owner_[v] != the_caller && owner_[v] != i; }

  /// What stage `i` reads and others own moves from its state to its inputs.
  void receive(stage_id i) {
    auto& here = p_.stages[index(i)];
    std::erase_if(here.outputs, [&](Index v) { return is_sent_to(v, i); });
    if (std::erase_if(here.state, [&](Index v) { return is_sent_to(v, i); }) == 0) return;
    std::vector<Index> inputs;
    for (Index const v : here.inputs) given_[v] = i;
    for (Index const n : here.nodes)
      for (Index const v : s_.operands[n])
        if ((given_[v] == i || is_sent_to(v, i)) && std::exchange(listed_[v], i) != i) {
          inputs.push_back(v);
          if (is_sent_to(v, i)) take(v, i);
        }
    for (Index const v : here.inputs)
      if (listed_[v] != i) inputs.push_back(v);  // companions
    here.inputs = std::move(inputs);
  }

  void take(Index v, stage_id i) {
    p_.transfers.push_back({v, owner_[v], i});
    give(v);
  }
  void give(Index v) {
    if (!std::exchange(sent_[v], 1)) p_.stages[index(owner_[v])].outputs.push_back(v);
  }

  basic_dense<Index> const& s_;
  basic_plan<Index> p_;
  std::vector<stage_id> owner_;           // of a value: who sends it, or the caller where nobody does …
  std::vector<char> sent_;                // … and whether it is among the outputs of that stage
  std::vector<stage_id> given_, listed_;  // of a value: the last stage that …
};

/// `p`, a plan of `s`, where what `placed` sends is a value on its way: its owner gives it after its other
/// results, each other stage takes it as an input, inputs by first use, and the caller is given it where the
/// graph returns it. Precondition: `join_sent_reads` has joined the reads of `s`. O(V + size of the plan +
/// names).
template <std::unsigned_integral Index>
basic_plan<Index> send_state(basic_dense<Index> const& s, basic_plan<Index> p,
                             basic_model_state<Index> const& m, state_placement const& placed) {
  if (placed.sent.empty()) return p;
  return state_sender<Index>(s, std::move(p), m, placed).send();
}

}  // namespace cleave::detail
