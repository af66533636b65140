// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/dataflow_layouts.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/model/ports.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/memory/plan_memory.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2::detail {

/// The position of a value in a message.
struct block_value {
  std::uint32_t edge;                          ///< edge of the dataflow
  std::uint64_t at;                            ///< offset in bytes, a multiple of 64
  std::uint64_t shape_at = ~std::uint64_t{0};  ///< offset of the shape, if it is sent with the value

  bool has_shape() const { return shape_at != ~std::uint64_t{0}; }
  bool operator==(block_value const&) const = default;
};

/// The layout of a message: all values that one stage makes for another in one microbatch, or their
/// gradients.
struct message_block {
  std::vector<block_value> values;  ///< ascending by edge
  std::uint64_t bytes = 0;

  bool operator==(message_block const&) const = default;
};

/// The messages of an edge of the placement in both directions.
struct edge_blocks {
  message_block activations, gradients;

  bool operator==(edge_blocks const&) const = default;
};

/// Appends a value to the message, preceded by its shape if `with_shape`.
inline void append(message_block& b, std::uint32_t edge, edge_layout const& l, bool with_shape) {
  constexpr std::uint64_t alignment = 64;
  auto const aligned = [](std::uint64_t n) { return (n + alignment - 1) / alignment * alignment; };
  block_value v{edge, aligned(b.bytes)};
  if (with_shape) {
    v.shape_at = v.at;
    v.at += aligned(sizeof(tensor_shape));
  }
  b.bytes = v.at + static_cast<std::uint64_t>(*l.shape.count()) * size_of(l.type);
  b.values.push_back(v);
}

/// Returns the message layouts of each edge of `p`, in order. A message combines all edges of `t` between the
/// same two stages. It may be empty, and then only signals that a pass has ended. Precondition: no argument
/// has a fault; `p` has an edge for every pair of stages connected in `t`. O(edges log edges).
inline std::vector<edge_blocks> blocks_of(stage_placement const& p, dataflow const& t, run_layouts const& l) {
  std::vector<edge_blocks> blocks(p.edges.size());
  for (std::uint32_t e = 0; e < t.edges.size(); ++e) {
    auto const& edge = t.edges[e];
    if (edge.from == the_caller || edge.to == the_caller) continue;
    auto const at = std::ranges::lower_bound(p.edges, stage_edge{edge.from, edge.to});
    auto& b = blocks[static_cast<std::size_t>(at - p.edges.begin())];
    append(b.activations, e, l.edges[e], l.edges[e].extents == shape_kind::dynamic);
    if (l.edges[e].gradient != gradient_use::none) append(b.gradients, e, l.edges[e], false);
  }
  return blocks;
}

/// FNV-1a over 64-bit numbers. Detects accidental differences between programs, not malicious ones.
class number_digest {
 public:
  number_digest& add(std::uint64_t n) {
    for (int byte = 0; byte < 8; ++byte, n >>= 8) value_ = (value_ ^ (n & 0xff)) * 0x100000001b3;
    return *this;
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// Hashes the options that change the issued calls or their meaning.
inline std::uint64_t digest_of_calls(call_options const& o) {
  number_digest calls;
  calls.add(static_cast<std::uint64_t>(o.loss)).add(static_cast<std::uint64_t>(o.weights));
  calls.add(static_cast<std::uint64_t>(o.gradients)).add(static_cast<std::uint64_t>(o.scale));
  std::uint64_t custom = 0;
  for (auto const k : o.custom) custom |= std::uint64_t{1} << static_cast<unsigned>(k);
  return calls.add(static_cast<std::uint64_t>(o.exchanges)).add(custom).value();
}

/// Returns the hashes of all inputs of a step. O(actions + edges + layouts).
inline program_digest digest_of(schedule const& s, dataflow const& t, run_layouts const& l,
                                call_options const& o) {
  number_digest lists, edges, layouts;
  lists.add(s.place.ranks).add(s.microbatches).add(s.place.rank_of.size()).add(s.place.edges.size());
  for (auto const r : s.place.rank_of) lists.add(index(r));
  for (auto const& e : s.place.edges) lists.add(index(e.from)).add(index(e.to));
  for (auto const& row : s.ranks) {
    lists.add(row.size());
    for (auto const& a : row)
      lists.add(static_cast<std::uint64_t>(a.kind) << 16 | a.parts)
          .add(std::uint64_t{index(a.stage)} << 32 | index(a.microbatch))
          .add(index(a.peer));
  }
  edges.add(t.stages).add(t.edges.size());
  for (auto const& e : t.edges)
    edges.add(std::uint64_t{index(e.from)} << 32 | e.output).add(std::uint64_t{index(e.to)} << 32 | e.input);
  layouts.add(l.edges.size()).add(l.rows.size());
  for (auto const& e : l.edges) {
    layouts.add(static_cast<std::uint64_t>(e.type)).add(e.shape.axes).add(e.batch_axis.value_or(most_axes));
    for (auto const n : e.shape.extents) layouts.add(static_cast<std::uint64_t>(n));
    layouts.add(static_cast<std::uint64_t>(e.gradient)).add(static_cast<std::uint64_t>(e.extents));
  }
  for (auto const n : l.rows) layouts.add(static_cast<std::uint64_t>(n));
  return {lists.value(), edges.value(), layouts.value(), digest_of_calls(o)};
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `step_plan`.
struct program_options {
  lower_options lowering = {};  ///< used if the schedule has only compute actions
  /// Delivery rules of the transport that will run the program. The schedule is checked for deadlocks under
  /// these.
  delivery_rules delivery = {.delivery = delivery::async};
  call_options calls = {};  ///< `ends` and `needs` are ignored; the executor sets them
  /// Bytes of saved activations per pass: one entry per stage, or one entry for all. For recomputed
  /// activations leave `input` at 0.
  std::vector<pass_bytes> saved_activations = {{0, 0, 0}};
  /// Determines how long the inputs of a stage are kept.
  input_use inputs = input_use::until_gradient;
  /// Memory limit in bytes, one entry per rank or one for all; empty: no limit.
  std::vector<std::uint64_t> memory_limit = {};
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why a schedule does not fit a dataflow.
struct program_fault {
  static constexpr char subject[] = "program: ";
  enum class kind : std::uint8_t {
    stage_count,   ///< the schedule has `got` stages, the dataflow has `allowed`
    no_edge,       ///< the dataflow has edge `got` from `from` to `to`, the schedule does not
    custom_parts,  ///< rank `got` has a custom compound with dependent passes of `from` and `to`
  };
  kind what;
  std::size_t got = 0, allowed = 0;
  stage_id from = the_caller, to = the_caller;

  bool operator==(program_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(program_fault const& f) {
  auto const got = std::to_string(f.got), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case program_fault::kind::stage_count:
      return "the schedule has " + got + " stages, but the dataflow has " + allowed +
             "; both must have the same stages";
    case program_fault::kind::no_edge:
      return "edge #" + got + " of the dataflow goes from " + stage_text(f.from) + " to " + stage_text(f.to) +
             ", but the schedule has no such edge; add it with connect_stages";
    case program_fault::kind::custom_parts:
      return "rank " + got + " has a custom compound with passes of " + stage_text(f.from) + " and " +
             stage_text(f.to) + ", one of which depends on the other; put them into separate cells";
  }
  return {};
}

using program_error = fault_error<program_fault>;

/// Returns the first reason why a schedule does not fit a dataflow, or nothing. O(edges log edges).
inline std::optional<program_fault> find_program_fault(schedule const& s, dataflow const& t) {
  if (s.place.stages() != t.stages)
    return program_fault{program_fault::kind::stage_count, s.place.stages(), t.stages};
  for (std::size_t e = 0; e < t.edges.size(); ++e) {
    auto const& edge = t.edges[e];
    if (edge.from != the_caller && edge.to != the_caller &&
        !std::ranges::binary_search(s.place.edges, stage_edge{edge.from, edge.to}))
      return program_fault{program_fault::kind::no_edge, e, 0, edge.from, edge.to};
  }
  return std::nullopt;
}

/// Returns the first custom compound (`call_options::custom`) with dependent parts, or nothing. Stages get
/// the inputs of all parts at once, so parts must be independent. O(parts^2 log edges).
inline std::optional<program_fault> find_custom_part_fault(schedule const& s,
                                                           std::span<action_kind const> custom) {
  std::optional<program_fault> found;
  auto const meet = [&](action const& a, action const& b) {
    return a.microbatch == b.microbatch && is_compute(a.kind) && is_compute(b.kind) &&
           (a.stage == b.stage || std::ranges::binary_search(s.place.edges, stage_edge{a.stage, b.stage}) ||
            std::ranges::binary_search(s.place.edges, stage_edge{b.stage, a.stage}));
  };
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    each_cell(s.ranks[r], [&](action const& head, std::span<action const> parts) {
      if (found || parts.empty() || std::ranges::find(custom, head.kind) == custom.end()) return;
      for (auto const& b : parts)
        for (auto const& a : parts.first(static_cast<std::size_t>(&b - parts.data())))
          if (!found && meet(a, b))
            found = program_fault{program_fault::kind::custom_parts, r, 0, a.stage, b.stage};
    });
  return found;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The plan of a step, shared by all ranks: a verified schedule, the dataflow with its layouts, and the rules
/// by which the memory of each rank is planned. A schedule with compute actions only is lowered first.
class step_plan {
 public:
  /// Checks all arguments, and the memory limit if there is one.
  /// \throws dataflow_error, program_error, edge_layout_error, schedule_error, slot_error, and the errors of
  ///   `lower`
  step_plan(schedule const& s, dataflow t, run_layouts l, program_options const& o = {})
      : dataflow_(std::move(t)), layouts_(std::move(l)), options_(o) {
    if (auto const f = detail::find_dataflow_fault(dataflow_)) throw detail::dataflow_error(*f);
    if (auto const f = detail::find_program_fault(s, dataflow_)) throw detail::program_error(*f);
    if (auto const f = detail::find_edge_layout_fault(dataflow_, layouts_, s.microbatches))
      throw detail::edge_layout_error(*f);
    if (auto const f = detail::find_custom_part_fault(s, options_.calls.custom))
      throw detail::program_error(*f);
    schedule_ = detail::has_messages(s) || s.ranks.size() < 2 ? s : lower(s, options_.lowering);
    detail::require_schedule(schedule_, {.delivery = options_.delivery.delivery,
                                         .buffers = options_.delivery.buffers,
                                         .groups = options_.delivery.groups,
                                         .passes = passes_of(schedule_)});
    blocks_ = detail::blocks_of(schedule_.place, dataflow_, layouts_);
    ports_ = detail::ports(dataflow_);
    bytes_.stages = options_.saved_activations;
    auto const room = [](detail::message_block const& b) { return std::max<std::uint64_t>(b.bytes, 1); };
    for (auto const& b : blocks_) bytes_.edges.push_back({room(b.activations), room(b.gradients)});
    detail::require_memory_arguments(schedule_, bytes_, memory_options());
    if (!options_.memory_limit.empty())
      for (std::uint32_t r = 0; r < schedule_.ranks.size(); ++r)
        if (auto const f = detail::find_slot_overflow(slots_of(rank_id{r}), r, options_.memory_limit))
          throw detail::slot_error(*f);
    digest_ = detail::digest_of(schedule_, dataflow_, layouts_, options_.calls);
  }

  schedule const& order() const { return schedule_; }
  dataflow const& edges() const { return dataflow_; }
  run_layouts const& layouts() const { return layouts_; }
  program_options const& options() const { return options_; }
  /// Returns the message layouts by edge of the placement.
  std::vector<detail::edge_blocks> const& blocks() const { return blocks_; }
  detail::stage_ports const& ports_of(stage_id s) const { return ports_[index(s)]; }
  /// Returns the memory plan of rank `r`, as `plan_memory` makes it. Plans it anew in each call, since the
  /// plans of all ranks together need more memory than the schedule. O(actions of the rank log actions +
  /// edges). Precondition: `r` is a rank of the schedule.
  rank_slots slots_of(rank_id r) const {
    return detail::plan_rank_memory(schedule_, r, bytes_, memory_options());
  }
  detail::program_digest const& digest() const { return digest_; }
  bool same_rank(dataflow::edge const& e) const { return rank_of(e.from) == rank_of(e.to); }
  rank_id rank_of(stage_id s) const { return schedule_.place.rank_of[index(s)]; }

 private:
  /// Small values are aligned to their size only, so that a scalar takes 16 bytes instead of 256.
  memory_plan_options memory_options() const {
    std::uint64_t largest = 16;
    for (auto const& s : bytes_.stages)
      largest = (std::max)({largest, s.saved, s.saved_for_weights, s.input});
    for (auto const& e : bytes_.edges) largest = (std::max)({largest, e.activation, e.gradient});
    return {.alignment = largest > 128 ? 256u : std::bit_ceil(largest),
            .inputs = options_.inputs,
            .memory_limit = options_.memory_limit};
  }

  dataflow dataflow_;
  run_layouts layouts_;
  program_options options_;
  schedule schedule_;
  std::vector<detail::edge_blocks> blocks_;
  std::vector<detail::stage_ports> ports_;
  schedule_bytes bytes_;
  detail::program_digest digest_;
};

}  // namespace cleave
