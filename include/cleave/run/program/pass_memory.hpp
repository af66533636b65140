// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_values.hpp"

namespace cleave::detail {

/// Tensor views of the inputs and results of all passes of a program, made once. Keeps a reference to the
/// program.
class pass_views {
 public:
  /// `arena` and `results` have the sizes that the program specifies.
  pass_views(rank_program const& p, void* arena, void* results)
      : program_(p), arena_(static_cast<std::byte*>(arena)), results_(static_cast<std::byte*>(results)) {
    std::vector<microbatch_id> microbatch(p.passes.size());
    for (auto const& i : p.instructions)
      if (i.pass != rank_instruction::none) microbatch[i.pass] = i.call.of.microbatch;
    for (std::uint32_t n = 0; n < p.passes.size(); ++n) {
      auto const first = static_cast<std::uint32_t>(views_.size());
      for (auto const& v : p.passes[n].in) add(v, microbatch[n]);
      auto const middle = static_cast<std::uint32_t>(views_.size());
      for (auto const& v : p.passes[n].out) add(v, microbatch[n]);
      ranges_.push_back({first, middle, static_cast<std::uint32_t>(views_.size())});
    }
  }

  std::span<tensor_view> in(std::uint32_t pass) {
    return std::span(views_).subspan(ranges_[pass].first, ranges_[pass].middle - ranges_[pass].first);
  }
  std::span<tensor_view> out(std::uint32_t pass) {
    return std::span(views_).subspan(ranges_[pass].middle, ranges_[pass].last - ranges_[pass].middle);
  }

  /// Uses these caller inputs: `of_each` of microbatch 0, then of microbatch 1, and so on.
  void take_inputs(std::span<tensor_view const> inputs, std::size_t of_each) {
    for (auto const& i : inputs_) views_[i.view] = inputs[index(i.microbatch) * of_each + i.number];
  }

  /// Copies to a backward pass the shapes that its forward pass had.
  void take_shapes(std::uint32_t pass) {
    auto const forward = program_.passes[pass].forward;
    if (forward == pass) return;
    auto const gradients = in(pass), results = out(forward), wanted = out(pass), inputs = in(forward);
    for (std::size_t k = 0; k < gradients.size(); ++k) gradients[k].shape = results[k].shape;
    for (std::size_t k = 0; k < wanted.size(); ++k) wanted[k].shape = inputs[k].shape;
  }

  /// Returns all memory reserved for a value. Precondition: it is not an input of the caller.
  region room_of(program_value const& v) const {
    auto const& l = program_.layouts.edges[v.edge];
    return {data_of(v.place), static_cast<std::size_t>(*l.shape.count()), l.type};
  }

  std::byte* arena_at(std::uint64_t at) const { return arena_ + at; }
  region arena_region(std::uint64_t at, std::uint64_t bytes) const {
    return bytes == 0 ? region{} : region{arena_ + at, static_cast<std::size_t>(bytes), element_type::u8};
  }

  /// Returns a result, with the shape that its pass gave it.
  tensor_view result(program_result const& r) const {
    auto const& made = views_[ranges_[r.pass].middle + r.output];
    return {data_of(r.value.place), made.type, made.shape};
  }

 private:
  struct pass_range {
    std::uint32_t first, middle, last;
  };
  struct input_view {
    std::size_t view;
    microbatch_id microbatch;
    std::size_t number;
  };

  void add(program_value const& v, microbatch_id m) {
    if (v.place.where == place_kind::input)
      inputs_.push_back({views_.size(), m, static_cast<std::size_t>(v.place.at)});
    views_.push_back(
        {data_of(v.place), program_.layouts.edges[v.edge].type, program_.layouts.shape_of(v.edge, m)});
  }

  void* data_of(value_place const& p) const {
    return p.where == place_kind::arena    ? arena_ + p.at
           : p.where == place_kind::result ? results_ + p.at
                                           : nullptr;
  }

  rank_program const& program_;
  std::byte *arena_, *results_;
  std::vector<tensor_view> views_;
  std::vector<pass_range> ranges_;  // by pass
  std::vector<input_view> inputs_;
};

/// The memory of a program on a device, allocated once. Provides the views of passes, and issues the copies
/// and additions between passes. Functions that take a stream issue to it. Keeps references to both
/// arguments.
template <device D>
class pass_memory {
 public:
  pass_memory(D& d, rank_program const& p)
      : device_(d),
        program_(p),
        arena_(d.allocate(p.arena_bytes)),
        results_(d.allocate(p.result_bytes)),
        views_(p, arena_.data(), results_.data()) {
    for (auto const& x : p.passes)
      sums_.push_back(x.sums.empty() ? std::optional<typename D::sums>() : make_sums(x));
  }

  void take_inputs(step_values const& v) { views_.take_inputs(v.inputs, v.inputs_of_each); }

  std::span<tensor_view const> in(std::uint32_t pass) { return views_.in(pass); }
  std::span<tensor_view> out(std::uint32_t pass) { return views_.out(pass); }
  region saved(std::uint32_t pass) const {
    return views_.arena_region(program_.passes[pass].saved_at, program_.passes[pass].saved_bytes);
  }
  region saved_for_weights(std::uint32_t pass) const {
    return views_.arena_region(program_.passes[pass].saved_for_weights_at,
                               program_.passes[pass].saved_for_weights_bytes);
  }
  region block(rank_instruction const& m) const {
    return {views_.arena_at(m.at), static_cast<std::size_t>(m.bytes), element_type::u8};
  }

  /// Returns result `number` of microbatch `m` for the caller, if this rank makes it.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number) const {
    for (auto const& r : program_.results)
      if (r.microbatch == m && r.number == number) return views_.result(r);
    return std::nullopt;
  }

  /// Before a forward pass: issues the copies of shapes that arrived with its inputs. Returns true if there
  /// are any. The views have the shapes once this work has ended.
  bool read_shapes(typename D::stream& s, std::uint32_t pass) {
    auto const& p = program_.passes[pass];
    bool any = false;
    for (std::size_t k = 0; k < p.in.size(); ++k) {
      if (p.in[k].shape.where == place_kind::nowhere) continue;
      device_.copy(s, &views_.in(pass)[k].shape, views_.arena_at(p.in[k].shape.at), sizeof(tensor_shape));
      any = true;
    }
    return any;
  }

  /// After a forward pass: copies results, and their shapes, to additional readers.
  /// \throws error if a result is larger than the memory reserved for it
  void write_results(typename D::stream& s, std::uint32_t pass, microbatch_id m) {
    auto const& p = program_.passes[pass];
    auto const made = views_.out(pass);
    for (std::size_t k = 0; k < p.out.size(); ++k) write_shape(s, p.out[k], m, made[k].shape, k);
    for (auto const& c : p.copies) {
      auto const from = views_.room_of(c.from), to = views_.room_of(c.to);
      device_.copy(s, to.data, from.data, from.bytes());
      auto const k = static_cast<std::size_t>(std::ranges::find(p.out, c.from) - p.out.begin());
      write_shape(s, c.to, m, made[k].shape, k);
    }
  }

  /// Before a backward pass: adds up the gradients of results with several readers, in the order of the
  /// dataflow. Gives all gradients the shapes of the forward pass.
  void add_gradients(typename D::stream& s, std::uint32_t pass) {
    if (sums_[pass]) device_.accumulate(s, *sums_[pass], {});
    views_.take_shapes(pass);
  }

 private:
  typename D::sums make_sums(program_pass const& p) {
    std::vector<region_pair> pairs;
    for (auto const& s : p.sums) pairs.push_back({views_.room_of(s.from), views_.room_of(s.to)});
    return device_.make_sums(pairs);
  }

  void write_shape(typename D::stream& s, program_value const& v, microbatch_id m, tensor_shape const& shape,
                   std::size_t number) {
    if (program_.layouts.edges[v.edge].extents == shape_kind::fixed) return;
    auto const room = program_.layouts.shape_of(v.edge, m);
    auto const count = shape.count();
    if (shape.axes != room.axes || !count || *count > *room.count())
      throw error("result #" + std::to_string(number) +
                  " has more elements, or another number of axes, than edge #" + std::to_string(v.edge) +
                  " has room for");
    if (v.shape.where != place_kind::nowhere)
      device_.copy(s, views_.arena_at(v.shape.at), &shape, sizeof(tensor_shape));
  }

  D& device_;
  rank_program const& program_;
  typename D::buffer arena_, results_;
  pass_views views_;
  std::vector<std::optional<typename D::sums>> sums_;  // by pass
};

}  // namespace cleave::detail
