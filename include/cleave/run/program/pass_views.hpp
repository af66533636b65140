// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave::detail {

/// What the passes of a program read and make, as views of its memory; made once. Refers to the program.
class pass_views {
 public:
  /// `arena` and `results` have the bytes that the program says.
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

  /// `inputs` are those of microbatch 0, `of_each` of them, then of 1, …
  void take_inputs(std::span<tensor_view const> inputs, std::size_t of_each) {
    for (auto const& i : inputs_) views_[i.view] = inputs[index(i.microbatch) * of_each + i.number];
  }

  /// Of a backward pass: the shapes that its forward pass has seen.
  void take_shapes(std::uint32_t pass) {
    auto const forward = program_.passes[pass].forward;
    if (forward == pass) return;
    auto const gradients = in(pass), results = out(forward), wanted = out(pass), inputs = in(forward);
    for (std::size_t k = 0; k < gradients.size(); ++k) gradients[k].shape = results[k].shape;
    for (std::size_t k = 0; k < wanted.size(); ++k) wanted[k].shape = inputs[k].shape;
  }

  /// All the room that a value has. Precondition: it is not the caller's.
  region room_of(program_value const& v) const {
    auto const& l = program_.layouts.edges[v.edge];
    return {data_of(v.place), static_cast<std::size_t>(*l.shape.count()), l.type};
  }

  std::byte* arena_at(std::uint64_t at) const { return arena_ + at; }
  region arena_region(std::uint64_t at, std::uint64_t bytes) const {
    return bytes == 0 ? region{} : region{arena_ + at, static_cast<std::size_t>(bytes), element_type::u8};
  }

  /// With the shape that its pass has given it.
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
  std::vector<pass_range> ranges_;  // of passes
  std::vector<input_view> inputs_;
};

}  // namespace cleave::detail
