// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/schedule/calls/rank_calls.hpp"

/// Programs at rest. A run of many stages and microbatches keeps millions of instructions, and most of them
/// differ from an earlier one in a few numbers only.
namespace cleave::inline v0_2::detail {

/// Prototypes and the numbers that look them up: equal values share one. Finds a value that follows the same
/// value as the last time at once, and other values by their hash.
template <class T>
class prototype_list {
 public:
  prototype_list() { first_.fill(none); }

  /// Returns the number of `value`, which it adds if it is new and fewer than `most` are known; otherwise
  /// nothing. Expected O(1), if few values share a hash.
  std::optional<std::uint32_t> number_of(T const& value, std::size_t hash, std::size_t most = none) {
    if (last_ != none && follower_[last_] != none && values_[follower_[last_]] == value)
      return last_ = follower_[last_];
    auto& first = first_[hash % first_.size()];
    auto found = first;
    while (found != none && !(values_[found] == value)) found = next_[found];
    if (found == none) {
      if (values_.size() >= most) return std::nullopt;
      found = static_cast<std::uint32_t>(values_.size());
      values_.push_back(value);
      next_.push_back(std::exchange(first, found));
      follower_.push_back(none);
    }
    if (last_ != none) follower_[last_] = found;
    return last_ = found;
  }

  std::vector<T> take() { return std::move(values_); }

 private:
  static constexpr std::uint32_t none = 0xffffffff;

  std::vector<T> values_;
  std::array<std::uint32_t, 256> first_;        // by hash
  std::vector<std::uint32_t> next_, follower_;  // the next value of the same hash, and the one that followed
  std::uint32_t last_ = none;
};

/// The instructions of a program, in twelve bytes each where they differ from a prototype in the usual
/// numbers only: cell, microbatch, `after`, and one of `begun`, `pass` and `at`.
class packed_instructions {
 public:
  explicit packed_instructions(std::vector<rank_instruction> const& all) {
    prototype_list<rank_instruction> known;
    numbers_.reserve(all.size());
    for (std::uint32_t i = 0; i < all.size(); ++i) {
      if (i % block == 0) cells_.push_back(all[i].call.cell);
      numbers_.push_back(pack(all[i], i, known));
    }
    prototypes_ = known.take();
    wide_.shrink_to_fit();
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(numbers_.size()); }

  /// Returns instruction `i`. O(1).
  rank_instruction operator[](std::uint32_t i) const {
    auto const& n = numbers_[i];
    auto const number = n.bits % most_prototypes;
    if (number == is_wide) return wide_[n.operand];
    auto x = prototypes_[number];
    x.call.cell = cells_[i / block] + n.bits / most_prototypes % most_cells;
    x.call.of.microbatch = n.microbatch;
    if (auto const distance = n.bits / (most_prototypes * most_cells)) x.after = i - distance;
    if (moves(x)) x.number += index(n.microbatch);
    operand_of(x, n.operand);
    return x;
  }

 private:
  static constexpr std::uint32_t none = rank_instruction::none;
  static constexpr std::uint32_t block = 64;  // instructions that share the cell they count from
  static constexpr std::uint32_t most_prototypes = 1 << 12, most_cells = 1 << 8, most_distance = 1 << 12;
  static constexpr std::uint32_t is_wide = most_prototypes - 1;  // instead of the number of a prototype
  static constexpr std::uint64_t unit = 16;                      // of places in the arena

  /// The numbers of an instruction. `bits` has the prototype, the cell and the distance to `after`.
  struct packed_numbers {
    std::uint32_t bits;
    microbatch_id microbatch;
    std::uint32_t operand;
  };

  static bool moves(rank_instruction const& x) { return x.peer != rank_id{none}; }

  /// Sets the one number that a prototype leaves open.
  static void operand_of(rank_instruction& x, std::uint32_t operand) {
    if (x.call.begun != none)
      x.call.begun = operand;
    else if (x.pass != none)
      x.pass = operand;
    else
      x.at = unit * operand;
  }

  packed_numbers pack(rank_instruction const& x, std::uint32_t i, prototype_list<rank_instruction>& known) {
    auto const cell = x.call.cell - cells_.back();
    auto const distance = x.after == none ? 0 : i - x.after;
    auto const place = x.at / unit;
    auto const operand = x.call.begun != none ? x.call.begun
                         : x.pass != none     ? x.pass
                                              : static_cast<std::uint32_t>(place);
    auto like = x;
    like.call.cell = 0;
    like.call.of.microbatch = {};
    like.after = none;
    if (moves(x)) like.number -= index(x.call.of.microbatch);
    operand_of(like, 0);
    auto const hash = std::size_t{7} * static_cast<std::size_t>(x.call.kind) +
                      std::size_t{31} * index(x.call.of.stage) + std::size_t{101} * index(x.call.of.peer);
    bool const fits = x.call.cell >= cells_.back() && cell < most_cells &&
                      (x.after == none || (x.after < i && distance < most_distance)) && place < none;
    packed_numbers const numbers{cell * most_prototypes + distance * most_prototypes * most_cells,
                                 x.call.of.microbatch, operand};
    if (auto const number = fits ? known.number_of(like, hash, is_wide) : std::nullopt) {
      auto again = like;
      operand_of(again, operand);
      if (again.at == x.at && again.pass == x.pass && again.call.begun == x.call.begun)
        return {numbers.bits + *number, numbers.microbatch, numbers.operand};
    }
    wide_.push_back(x);
    return {is_wide, {}, static_cast<std::uint32_t>(wide_.size() - 1)};
  }

  std::vector<packed_numbers> numbers_;
  std::vector<std::uint32_t> cells_;                 // by block: the cell of its first instruction
  std::vector<rank_instruction> prototypes_, wide_;  // wide ones are kept as they are
};

/// The passes of a program, in twelve bytes each and four for each place in memory, where they differ from a
/// prototype in their places only.
class packed_passes {
 public:
  /// `microbatch[n]` is that of pass n. Precondition: a pass and its forward pass are of one microbatch.
  packed_passes(std::vector<program_pass> const& all, std::vector<microbatch_id> const& microbatch) {
    prototype_list<program_pass> known;
    for (std::uint32_t n = 0; n < all.size(); ++n) {
      auto const forward = all[n].forward;
      auto like = all[n];
      auto const first = static_cast<std::uint32_t>(places_.size());
      bool fits = true;
      each_place(like, [&](std::uint64_t& at, value_place* shape) {
        if (shape) shape->at = at - shape->at;
        fits = fits && at % unit == 0 && at / unit < absolute;
        places_.push_back(static_cast<std::uint32_t>(at / unit));
        at = 0;
      });
      if (!fits) {
        places_.resize(first);
        like = all[n];
      }
      like.forward = forward == n ? is_forward : 0;
      numbers_.push_back({*known.number_of(like, hash_of(like)),
                          forward == n ? index(microbatch[n]) : forward, fits ? first : absolute});
    }
    prototypes_ = known.take();
    for (auto const& p : prototypes_) {
      auto const in = count(p.in), out = count(p.out), copies = in + out + count(p.sums);
      auto const kept = std::uint32_t{p.saved_bytes > 0} + std::uint32_t{p.saved_for_weights_bytes > 0};
      counts_.push_back({in, copies, copies + count(p.copies) + kept});
    }
    numbers_.shrink_to_fit();
    places_.shrink_to_fit();
  }

  std::uint32_t size() const { return static_cast<std::uint32_t>(numbers_.size()); }
  std::uint32_t forward(std::uint32_t n) const {
    return like(n).forward == is_forward ? n : numbers_[n].forward;
  }
  microbatch_id microbatch(std::uint32_t n) const { return microbatch_id{numbers_[forward(n)].forward}; }

  std::size_t ins(std::uint32_t n) const { return like(n).in.size(); }
  std::size_t outs(std::uint32_t n) const { return like(n).out.size(); }
  bool has_sums(std::uint32_t n) const { return !like(n).sums.empty(); }
  bool has_copies(std::uint32_t n) const { return !like(n).copies.empty(); }

  /// Calls `f(value)` for each value that a pass reads, in order.
  template <class F>
  void each_in(std::uint32_t n, F f) const {
    auto const& p = like(n);
    auto at = numbers_[n].first;
    for (auto const& v : p.in) f(value_at(v, at));
  }
  /// Calls `f(value)` for each value that a pass makes, in order.
  template <class F>
  void each_out(std::uint32_t n, F f) const {
    auto at = numbers_[n].first;
    if (at != absolute) at += counts_[numbers_[n].prototype].in;
    for (auto const& v : like(n).out) f(value_at(v, at));
  }
  /// Calls `f(copy)` for each copy after a pass, in order.
  template <class F>
  void each_copy(std::uint32_t n, F f) const {
    auto at = numbers_[n].first;
    if (at != absolute) at += counts_[numbers_[n].prototype].before_copies;
    for (auto const& c : like(n).copies) {
      auto const from = value_at(c.from, at);
      f(program_copy{from, value_at(c.to, at)});
    }
  }

  /// The bytes that a pass saves in the arena, for B or I, or for W.
  struct saved_range {
    std::uint64_t at = 0, bytes = 0;
  };
  saved_range saved(std::uint32_t n) const {
    auto const& p = like(n);
    if (p.saved_bytes == 0 || numbers_[n].first == absolute) return {p.saved_at, p.saved_bytes};
    return {place_from_end(n, p.saved_for_weights_bytes > 0 ? 2 : 1), p.saved_bytes};
  }
  saved_range saved_for_weights(std::uint32_t n) const {
    auto const& p = like(n);
    if (p.saved_for_weights_bytes == 0 || numbers_[n].first == absolute)
      return {p.saved_for_weights_at, p.saved_for_weights_bytes};
    return {place_from_end(n, 1), p.saved_for_weights_bytes};
  }

  /// Returns the pass as it was.
  program_pass operator[](std::uint32_t n) const {
    auto pass = like(n);
    pass.forward = forward(n);
    if (numbers_[n].first == absolute) return pass;
    auto next = numbers_[n].first;
    each_place(pass, [&](std::uint64_t& at, value_place* shape) {
      at = unit * places_[next++];
      if (shape) shape->at = at - shape->at;
    });
    return pass;
  }

 private:
  static constexpr std::uint64_t unit = 16;
  static constexpr std::uint32_t absolute = 0xffffffff;  // as `first`: the places are those of the prototype
  static constexpr std::uint32_t is_forward = 1;         // as `forward` of a prototype
  struct packed_numbers {
    std::uint32_t prototype;
    std::uint32_t forward;  // the forward pass, or the microbatch if this is one
    std::uint32_t first;    // index of its first place
  };
  struct place_counts {
    std::uint32_t in, before_copies, all;
  };

  static bool is_placed(value_place const& p) {
    return p.where == place_kind::arena || p.where == place_kind::result;
  }
  static std::uint32_t count(std::vector<program_value> const& values) {
    return static_cast<std::uint32_t>(
        std::ranges::count_if(values, [](program_value const& v) { return is_placed(v.place); }));
  }
  static std::uint32_t count(std::vector<program_copy> const& copies) {
    std::uint32_t places = 0;
    for (auto const& c : copies)
      places += std::uint32_t{is_placed(c.from.place)} + std::uint32_t{is_placed(c.to.place)};
    return places;
  }
  static std::size_t hash_of(program_pass const& p) {
    auto hash = 5 * p.in.size() + 11 * p.out.size();
    auto const add = [&](program_value const& v) {
      hash = 31 * hash + v.edge + 7 * static_cast<std::size_t>(v.place.where) + v.place.at / 8;
    };
    std::ranges::for_each(p.in, add);
    std::ranges::for_each(p.out, add);
    return hash;
  }

  /// Calls `f(at, shape)` for each place of a pass in memory, in a fixed order. `shape` is null unless a
  /// shape is sent with the value.
  template <class F>
  static void each_place(program_pass& p, F f) {
    auto const value = [&](program_value& v) {
      if (is_placed(v.place)) f(v.place.at, v.shape.where == place_kind::nowhere ? nullptr : &v.shape);
    };
    for (auto& v : p.in) value(v);
    for (auto& v : p.out) value(v);
    for (auto& c : p.sums) value(c.from), value(c.to);
    for (auto& c : p.copies) value(c.from), value(c.to);
    if (p.saved_bytes > 0) f(p.saved_at, nullptr);
    if (p.saved_for_weights_bytes > 0) f(p.saved_for_weights_at, nullptr);
  }

  program_pass const& like(std::uint32_t n) const { return prototypes_[numbers_[n].prototype]; }

  /// Returns the value that a prototype stands for; `at` is the index of the next place.
  program_value value_at(program_value v, std::uint32_t& at) const {
    if (at == absolute || !is_placed(v.place)) return v;
    v.place.at = unit * places_[at++];
    if (v.shape.where != place_kind::nowhere) v.shape.at = v.place.at - v.shape.at;
    return v;
  }

  /// Returns the place that is `before` places before the end of those of a pass.
  std::uint64_t place_from_end(std::uint32_t n, std::uint32_t before) const {
    return unit * places_[numbers_[n].first + counts_[numbers_[n].prototype].all - before];
  }

  std::vector<program_pass> prototypes_;
  std::vector<place_counts> counts_;  // by prototype
  std::vector<packed_numbers> numbers_;
  std::vector<std::uint32_t> places_;
};

/// An input of the caller that a program reads.
struct input_read {
  microbatch_id microbatch;
  std::uint32_t number, edge;
};

/// Returns the inputs that the forward passes of a program read, in order. O(values of forward passes).
inline std::vector<input_read> input_reads_of(rank_program const& p) {
  std::vector<input_read> reads;
  for (auto const& i : p.instructions) {
    if (!is_forward_pass(i.call) || i.pass == rank_instruction::none) continue;
    for (auto const& v : p.passes[i.pass].in)
      if (v.place.where == place_kind::input)
        reads.push_back({i.call.of.microbatch, static_cast<std::uint32_t>(v.place.at), v.edge});
  }
  return reads;
}

/// A `rank_program` in about a tenth of its memory, for the time between its making and its end.
class packed_program {
 public:
  explicit(false) packed_program(rank_program p)
      : instructions_(p.instructions),
        passes_(p.passes, microbatches_of(p)),
        reads_(input_reads_of(p)),
        trains_(has_backward(p)) {
    std::vector<char> used(p.layouts.edges.size());
    auto const use = [&](program_value const& v) {
      if (v.edge < used.size()) used[v.edge] = 1;
    };
    for (auto const& pass : p.passes) {
      for (auto const& v : pass.in) use(v);
      for (auto const& v : pass.out) use(v);
      for (auto const& c : pass.sums) use(c.from), use(c.to);
      for (auto const& c : pass.copies) use(c.from), use(c.to);
    }
    edges_ = p.layouts.edges.size();
    for (std::uint32_t e = 0; e < used.size(); ++e)
      if (used[e] != 0) layouts_.push_back({e, p.layouts.edges[e]});
    std::exchange(p.instructions, {});
    std::exchange(p.passes, {});
    std::exchange(p.layouts.edges, {});
    rest_ = std::move(p);
  }

  rank_id rank() const { return rest_.rank; }
  std::uint32_t ranks() const { return rest_.ranks; }
  std::uint32_t microbatches() const { return rest_.microbatches; }
  std::uint64_t arena_bytes() const { return rest_.arena_bytes; }
  std::uint64_t result_bytes() const { return rest_.result_bytes; }
  gradient_scale scale() const { return rest_.scale; }
  std::vector<program_result> const& results() const { return rest_.results; }
  /// Returns true if the program has backward passes.
  bool trains() const { return trains_; }
  std::vector<input_read> const& reads() const { return reads_; }

  packed_instructions const& instructions() const { return instructions_; }
  packed_passes const& passes() const { return passes_; }

  /// Returns the layout of an edge. Precondition: a pass uses it. O(log edges of the rank).
  edge_layout const& layout_of(std::uint32_t edge) const {
    return std::ranges::lower_bound(layouts_, edge, {}, &used_layout::edge)->layout;
  }
  /// Returns the shape that an edge carries in a microbatch. Precondition: a pass uses the edge.
  tensor_shape shape_of(std::uint32_t edge, microbatch_id m) const {
    auto const& layout = layout_of(edge);
    auto shape = layout.shape;
    auto const& rows = rest_.layouts.rows;
    if (layout.batch_axis && !rows.empty()) shape.extents[*layout.batch_axis] = rows[index(m)];
    return shape;
  }
  /// Returns true if the shape of any used edge is known only while a step runs.
  bool has_dynamic_shapes() const {
    return std::ranges::any_of(layouts_,
                               [](used_layout const& l) { return l.layout.extents == shape_kind::dynamic; });
  }

  /// Returns the program. The layouts of edges that none of its passes uses are empty. O(program).
  rank_program unpack() const {
    auto p = rest_;
    p.layouts.edges.resize(edges_);
    for (auto const& l : layouts_) p.layouts.edges[l.edge] = l.layout;
    for (std::uint32_t i = 0; i < instructions_.size(); ++i) p.instructions.push_back(instructions_[i]);
    for (std::uint32_t n = 0; n < passes_.size(); ++n) p.passes.push_back(passes_[n]);
    return p;
  }

 private:
  struct used_layout {
    std::uint32_t edge;
    edge_layout layout;
  };

  static std::vector<microbatch_id> microbatches_of(rank_program const& p) {
    std::vector<microbatch_id> of(p.passes.size());
    for (auto const& i : p.instructions)
      if (i.pass < of.size()) of[i.pass] = i.call.of.microbatch;
    return of;
  }

  packed_instructions instructions_;
  packed_passes passes_;
  std::vector<input_read> reads_;
  bool trains_;
  std::vector<used_layout> layouts_;  // ascending by edge
  std::size_t edges_ = 0;             // of the dataflow
  rank_program rest_;                 // without instructions, passes and layouts of edges
};

}  // namespace cleave::detail
