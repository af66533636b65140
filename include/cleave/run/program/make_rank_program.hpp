// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/ports.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/schedule/calls/rank_calls.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/memory/memory_plan.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"

namespace cleave::inline v0_2::detail {

/// Looks up a rank's slots by the value they hold.
class arena_index {
 public:
  /// Keeps a reference to `slots`. O(values log values).
  explicit arena_index(rank_slots const& slots) : slots_(slots) {
    for (std::uint32_t i = 0; i < slots.values.size(); ++i) {
      auto const& v = slots.values[i];
      order_.push_back({key_of(v.use, v.stage, v.microbatch, v.peer), i});
    }
    std::ranges::sort(order_);
  }

  /// Returns the first slot of that use, or null. Offloaded values have two slots.
  slot_value const* find(slot_use use, stage_id s, microbatch_id m,
                         stage_id peer = stage_id{0xffffffff}) const {
    auto const key = key_of(use, s, m, peer);
    auto const at = std::ranges::lower_bound(order_, std::pair(key, std::uint32_t{0}));
    return at != order_.end() && at->first == key ? &slots_.values[at->second] : nullptr;
  }

  /// Returns the slot that holds the value in `cell`, or null.
  slot_value const* find_in(slot_use use, stage_id s, microbatch_id m, std::uint32_t cell) const {
    auto const key = key_of(use, s, m, stage_id{0xffffffff});
    auto at = std::ranges::lower_bound(order_, std::pair(key, std::uint32_t{0}));
    for (; at != order_.end() && at->first == key; ++at) {
      auto const& v = slots_.values[at->second];
      if (v.alive.first <= cell && cell <= v.alive.last) return &v;
    }
    return nullptr;
  }

 private:
  using value_key = std::array<std::uint32_t, 4>;
  static value_key key_of(slot_use use, stage_id s, microbatch_id m, stage_id peer) {
    return {static_cast<std::uint32_t>(use), index(s), index(m), index(peer)};
  }

  rank_slots const& slots_;
  std::vector<std::pair<value_key, std::uint32_t>> order_;
};

/// Writes the program of one rank for `make_rank_program`.
class program_writer {
 public:
  /// Keeps a reference to the plan.
  program_writer(step_plan const& p, rank_id r)
      : plan_(p),
        rank_(r),
        slots_(p.slots_of(r)),
        places_(slots_),
        edges_(p.order().place),
        numbers_(step_index_of(p.order())),
        stages_(p.order().ranks[index(r)]) {
    auto const& s = p.order();
    made_ = {r, s.place.ranks, s.microbatches,         {}, {}, {}, p.layouts(), slots_.bytes,
             0, p.digest(),    p.options().calls.scale};
    done_.resize(stages_.count() * std::size_t{s.microbatches});
  }

  rank_program write() {
    auto options = plan_.options().calls;
    options.ends = exchange_end::each;  // matches the verification of the schedule
    options.needs = custom_inputs::called;
    auto const& s = plan_.order();
    stage_neighbours const neighbours(s.place);
    auto const calls = require_calls(call_valid_list(s, neighbours, rank_, options));
    made_.instructions.reserve(calls.size());
    for (auto const& call : calls) {
      made_.instructions.push_back({call});
      write_last();
    }
    return std::move(made_);
  }

 private:
  static constexpr std::uint32_t none = rank_instruction::none;

  /// The forward pass of a stage and microbatch, and the instructions of F and of B or I.
  struct done_passes {
    std::uint32_t pass = none, forward = none, gradient = none;
  };
  done_passes& done_of(action const& a) {
    return done_[stages_.number(a.stage) * std::size_t{plan_.order().microbatches} + index(a.microbatch)];
  }

  void write_last() {
    auto& i = made_.instructions.back();
    auto const here = static_cast<std::uint32_t>(made_.instructions.size() - 1);
    switch (i.call.kind) {
      case call_kind::forward:
      case call_kind::backward:
      case call_kind::backward_input:
      case call_kind::backward_weight:
      case call_kind::custom:
      case call_kind::part:
      case call_kind::other:
        if (has_microbatch(i.call.of.kind)) write_pass(i, here);
        break;
      case call_kind::send:
      case call_kind::receive:
        return write_message(i);
      case call_kind::loss:
      case call_kind::release:
      case call_kind::local_transfer:
        return;  // no computation
      case call_kind::exchange:
        // With asynchronous delivery messages complete one by one, and the schedule was verified for that. So
        // the messages become instructions of their own.
        if (plan_.options().delivery.delivery == delivery::async) i.call.parts = 0;
        return;
      default:
        break;
    }
    computing_.push_back({i.call.cell, here});
  }

  void write_pass(rank_instruction& i, std::uint32_t here) {
    auto const& a = i.call.of;
    switch (a.kind) {
      case action_kind::forward:
        i.pass = done_of(a).pass = add_forward(i.call);
        done_of(a).forward = here;
        break;
      case action_kind::backward:
      case action_kind::input_gradient:
        i.pass = add_backward(i.call);
        done_of(a).gradient = here;
        break;
      case action_kind::weight_gradient:
        i.pass = add_weight_pass(i.call);
        break;
      default:
        i.pass = add_again(i.call);
    }
  }

  void write_message(rank_instruction& i) {
    auto const& a = i.call.of;
    bool const forward = is_activation_message(a.kind), sends = is_send(a.kind);
    auto const edge =
        *edges_.find(index(sends == forward ? a.stage : a.peer), index(sends == forward ? a.peer : a.stage));
    auto const use = forward ? sends ? slot_use::sent_activation : slot_use::received_activation
                     : sends ? slot_use::sent_gradient
                             : slot_use::received_gradient;
    auto const& slot = *places_.find(use, a.stage, a.microbatch, a.peer);
    auto const& blocks = plan_.blocks()[edge];
    i.peer = plan_.rank_of(a.peer);
    auto const flow = forward ? edge_flow::activations : edge_flow::gradients;
    i.number = static_cast<std::uint32_t>(numbers_.message(edge, flow, a.microbatch));
    i.at = slot.offset;
    i.bytes = (forward ? blocks.activations : blocks.gradients).bytes;
    i.after = !sends ? last_until(slot.after) : forward ? done_of(a).forward : done_of(a).gradient;
  }

  /// Returns the last computing instruction in a cell up to `cell`, or `none`.
  std::uint32_t last_until(std::optional<std::uint32_t> cell) const {
    if (!cell) return none;
    auto const after = std::ranges::upper_bound(computing_, *cell, {}, [](auto const& c) { return c.first; });
    return after == computing_.begin() ? none : (after - 1)->second;
  }

  std::uint32_t add_forward(rank_call const& call) {
    program_pass pass;
    auto const& a = call.of;
    auto const& ports = plan_.ports_of(a.stage);
    for (auto const e : ports.arriving) pass.in.push_back(activation(e, a.microbatch, end_of_edge::reader));
    pass.out.resize(ports.outputs);
    for (std::size_t k = 0; k < ports.departing.size(); ++k) {
      auto const [output, e] = ports.departing[k];
      auto const place = activation(e, a.microbatch, end_of_edge::maker);
      if (k == 0 || ports.departing[k - 1].output != output)
        pass.out[output] = place;
      else
        pass.copies.push_back({pass.out[output], place});
    }
    add_saved_activations(pass, call);
    return add(std::move(pass), none);
  }

  std::uint32_t add_backward(rank_call const& call) {
    program_pass pass;
    auto const& a = call.of;
    auto const& ports = plan_.ports_of(a.stage);
    pass.in.resize(ports.outputs);
    for (auto const& [output, e] : ports.departing) {
      auto const arriving = gradient(e, a.microbatch, end_of_edge::maker);
      if (arriving.place.where == place_kind::nowhere) continue;
      if (pass.in[output].place.where == place_kind::nowhere)
        pass.in[output] = arriving;
      else
        pass.sums.push_back({arriving, pass.in[output]});
    }
    for (auto const e : ports.arriving) pass.out.push_back(gradient(e, a.microbatch, end_of_edge::reader));
    // passes also need the layout of gradients that do not arrive
    for (std::size_t j = 0; j < ports.departing.size(); ++j) {
      auto& v = pass.in[ports.departing[j].output];
      if (v.place.where == place_kind::nowhere) v.edge = ports.departing[j].edge;
    }
    add_saved_activations(pass, call);
    return add(std::move(pass), done_of(a).pass);
  }

  std::uint32_t add_weight_pass(rank_call const& call) {
    program_pass pass;
    add_saved_activations(pass, call);
    return add(std::move(pass), done_of(call.of).pass);
  }

  /// Adds OFFLOAD, RELOAD or RECOMPUTE: with the inputs of the forward pass and the current slot of the saved
  /// activations.
  std::uint32_t add_again(rank_call const& call) {
    auto const forward = done_of(call.of).pass;
    program_pass pass;
    pass.in = made_.passes[forward].in;
    add_saved_activations(pass, call);
    return add(std::move(pass), forward);
  }

  std::uint32_t add(program_pass pass, std::uint32_t forward) {
    auto const number = static_cast<std::uint32_t>(made_.passes.size());
    pass.forward = forward == none ? number : forward;
    made_.passes.push_back(std::move(pass));
    return number;
  }

  /// Saved activations that are offloaded or recomputed have two slots; picks the one valid in the call's
  /// cell.
  void add_saved_activations(program_pass& pass, rank_call const& call) const {
    auto const& [stage, m] = std::pair(call.of.stage, call.of.microbatch);
    if (auto const* s = places_.find_in(slot_use::saved, stage, m, call.cell))
      pass.saved_at = s->offset, pass.saved_bytes = s->bytes;
    if (auto const* s = places_.find_in(slot_use::saved_for_weights, stage, m, call.cell))
      pass.saved_for_weights_at = s->offset, pass.saved_for_weights_bytes = s->bytes;
  }

  enum class end_of_edge : std::uint8_t { maker, reader };

  /// Returns the location of a forward value, as seen by the stage at one end of its edge.
  program_value activation(std::uint32_t number, microbatch_id m, end_of_edge here) {
    auto const& e = plan_.edges().edges[number];
    if (e.from == the_caller) return {{place_kind::input, e.output}, number, {}};
    if (e.to == the_caller) return result(number, m);
    bool const sent = !plan_.same_rank(e), makes = here == end_of_edge::maker;
    auto const& slot = !sent   ? *places_.find(slot_use::local_activation, e.from, m, e.to)
                       : makes ? *places_.find(slot_use::sent_activation, e.from, m, e.to)
                               : *places_.find(slot_use::received_activation, e.to, m, e.from);
    return value_in(slot, plan_.blocks()[*edges_.find(index(e.from), index(e.to))].activations, number);
  }

  /// Returns the location of the gradient of an edge, or `nowhere` if it is not wanted.
  program_value gradient(std::uint32_t number, microbatch_id m, end_of_edge here) const {
    auto const& e = plan_.edges().edges[number];
    if (e.from == the_caller || e.to == the_caller ||
        plan_.layouts().edges[number].gradient == gradient_use::none)
      return {{}, number, {}};
    bool const sent = !plan_.same_rank(e), makes = here == end_of_edge::maker;
    auto const& slot = !sent   ? *places_.find(slot_use::local_gradient, e.to, m, e.from)
                       : makes ? *places_.find(slot_use::received_gradient, e.from, m, e.to)
                               : *places_.find(slot_use::sent_gradient, e.to, m, e.from);
    return value_in(slot, plan_.blocks()[*edges_.find(index(e.from), index(e.to))].gradients, number);
  }

  static program_value value_in(slot_value const& slot, message_block const& b, std::uint32_t edge) {
    auto const& v = *std::ranges::lower_bound(b.values, edge, {}, &block_value::edge);
    program_value made{{place_kind::arena, slot.offset + v.at}, edge, {}};
    if (v.has_shape()) made.shape = {place_kind::arena, slot.offset + v.shape_at};
    return made;
  }

  program_value result(std::uint32_t number, microbatch_id m) {
    constexpr std::uint64_t alignment = 64;
    auto const& l = plan_.layouts().edges[number];
    made_.result_bytes = (made_.result_bytes + alignment - 1) / alignment * alignment;
    program_value const v{{place_kind::result, made_.result_bytes}, number, {}};
    made_.result_bytes += static_cast<std::uint64_t>(*l.shape.count()) * size_of(l.type);
    auto const& e = plan_.edges().edges[number];
    made_.results.push_back({m, e.input, v, static_cast<std::uint32_t>(made_.passes.size()), e.output});
    return v;
  }

  step_plan const& plan_;
  rank_id rank_;
  rank_slots slots_;
  arena_index places_;
  edge_numbers edges_;
  step_index numbers_;
  rank_program made_;
  rank_stages stages_;
  std::vector<done_passes> done_;                                   // by number of the stage and microbatch
  std::vector<std::pair<std::uint32_t, std::uint32_t>> computing_;  // pairs (cell, instruction)
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the program of rank `r`: the list of instructions that it issues in a step. O(its actions log its
/// actions + edges). Precondition: `r` is a rank of the schedule.
inline rank_program make_rank_program(step_plan const& p, rank_id r) {
  expects(index(r) < p.order().ranks.size(), "make_rank_program: a rank of the schedule");
  return detail::program_writer(p, r).write();
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the programs of all ranks. O(actions log actions).
inline std::vector<rank_program> make_rank_programs(step_plan const& p) {
  std::vector<rank_program> made;
  for (std::uint32_t r = 0; r < p.order().ranks.size(); ++r) made.push_back(make_rank_program(p, rank_id{r}));
  return made;
}

}  // namespace cleave::detail
