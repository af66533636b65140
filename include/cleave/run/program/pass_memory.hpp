// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/packed_program.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_values.hpp"

namespace cleave::inline v0_2::detail {

/// Tensor views of the inputs and results of the passes of a program. Keeps a reference to the program.
///
/// If all shapes are known in advance, views are made when they are asked for, and those of the last passes
/// only are kept. Otherwise a backward pass needs the shapes that its forward pass saw, so all are kept.
class pass_views {
 public:
  /// `arena` and `results` have the sizes that the program specifies. The views of a pass are valid until
  /// those of the `kept`-th pass after it are made. Passes are numbered in the order of the program.
  pass_views(packed_program const& p, void* arena, void* results, std::size_t kept = every_pass)
      : program_(p),
        passes_(p.passes()),
        arena_(static_cast<std::byte*>(arena)),
        results_(static_cast<std::byte*>(results)),
        keeps_all_(kept >= passes_.size() || p.has_dynamic_shapes()) {
    std::size_t widest = 0, views = 0;
    for (std::uint32_t n = 0; n < passes_.size(); ++n) {
      auto const own = passes_.ins(n) + passes_.outs(n);
      if (keeps_all_) first_.push_back(views);
      views += own;
      widest = (std::max)(widest, own);
    }
    if (keeps_all_) {
      views_.resize(views);
      for (std::uint32_t n = 0; n < passes_.size(); ++n) {
        make(n, first_[n]);
        bool reads = false;
        passes_.each_in(n, [&](program_value const& v) { reads |= v.place.where == place_kind::input; });
        if (reads) reading_.push_back(n);
      }
    } else {
      for (std::size_t k = 0; k < kept; ++k) first_.push_back(k * widest);
      views_.resize(kept * widest);
      held_.assign(kept, none);
    }
  }
  pass_views(packed_program const&&, void*, void*, std::size_t = every_pass) = delete;

  static constexpr std::size_t every_pass = static_cast<std::size_t>(-1);

  std::span<tensor_view> in(std::uint32_t pass) {
    return std::span(views_).subspan(place_of(pass), passes_.ins(pass));
  }
  std::span<tensor_view> out(std::uint32_t pass) {
    return std::span(views_).subspan(place_of(pass) + passes_.ins(pass), passes_.outs(pass));
  }
  /// Returns the inputs of the forward pass of the same stage and microbatch.
  std::span<tensor_view> in_of_forward(std::uint32_t pass) {
    auto const forward = passes_.forward(pass);
    if (keeps_all_) return in(forward);
    auto const place = pass % first_.size();
    held_[place] = none;  // takes the place of the pass's own views
    make(forward, first_[place]);
    return std::span(views_).subspan(first_[place], passes_.ins(forward));
  }

  /// Uses these caller inputs: `of_each` of microbatch 0, then of microbatch 1, and so on. They must stay
  /// alive until the next call.
  void take_inputs(std::span<tensor_view const> inputs, std::size_t of_each) {
    inputs_ = inputs;
    of_each_ = of_each;
    std::ranges::fill(held_, none);
    for (auto const n : reading_) {
      auto at = first_[n];
      passes_.each_in(n, [&](program_value const& v) {
        if (v.place.where == place_kind::input) views_[at] = view_of(v, passes_.microbatch(n));
        ++at;
      });
    }
  }

  /// Copies to a backward pass the shapes that its forward pass had. Shapes known in advance are the same
  /// anyway.
  void take_shapes(std::uint32_t pass) {
    auto const forward = passes_.forward(pass);
    if (forward == pass || !keeps_all_) return;
    auto const gradients = in(pass), results = out(forward), wanted = out(pass), inputs = in(forward);
    for (std::size_t k = 0; k < gradients.size(); ++k) gradients[k].shape = results[k].shape;
    for (std::size_t k = 0; k < wanted.size(); ++k) wanted[k].shape = inputs[k].shape;
  }

  /// Returns all memory reserved for a value. Precondition: it is not an input of the caller.
  region room_of(program_value const& v) const {
    auto const& l = program_.layout_of(v.edge);
    return {data_of(v.place), static_cast<std::size_t>(*l.shape.count()), l.type};
  }

  std::byte* arena_at(std::uint64_t at) const { return arena_ + at; }
  region arena_region(std::uint64_t at, std::uint64_t bytes) const {
    return bytes == 0 ? region{} : region{arena_ + at, static_cast<std::size_t>(bytes), element_type::u8};
  }

  /// Returns a result, with the shape that its pass gave it.
  tensor_view result(program_result const& r) const {
    if (!keeps_all_) return view_of(r.value, r.microbatch);
    auto const& made = views_[first_[r.pass] + passes_.ins(r.pass) + r.output];
    return {data_of(r.value.place), made.type, made.shape};
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;

  /// Returns the position of the views of a pass, and makes them if they are not kept.
  std::size_t place_of(std::uint32_t pass) {
    if (keeps_all_) return first_[pass];
    auto const place = pass % first_.size();
    if (std::exchange(held_[place], pass) != pass) make(pass, first_[place]);
    return first_[place];
  }

  void make(std::uint32_t pass, std::size_t at) {
    auto const m = passes_.microbatch(pass);
    passes_.each_in(pass, [&](program_value const& v) { views_[at++] = view_of(v, m); });
    passes_.each_out(pass, [&](program_value const& v) { views_[at++] = view_of(v, m); });
  }

  tensor_view view_of(program_value const& v, microbatch_id m) const {
    auto const number = index(m) * of_each_ + static_cast<std::size_t>(v.place.at);
    if (v.place.where == place_kind::input && number < inputs_.size()) return inputs_[number];
    return {data_of(v.place), program_.layout_of(v.edge).type, program_.shape_of(v.edge, m)};
  }

  void* data_of(value_place const& p) const {
    return p.where == place_kind::arena    ? arena_ + p.at
           : p.where == place_kind::result ? results_ + p.at
                                           : nullptr;
  }

  packed_program const& program_;
  packed_passes const& passes_;
  std::byte *arena_, *results_;
  bool keeps_all_;
  std::vector<std::size_t> first_;      // by pass, or by its number modulo the number of kept passes
  std::vector<std::uint32_t> held_;     // the pass whose views each place has; empty if all are kept
  std::vector<std::uint32_t> reading_;  // passes that read inputs of the caller, if all are kept
  std::vector<tensor_view> views_;
  std::span<tensor_view const> inputs_;
  std::size_t of_each_ = 0;
};

/// The memory of a program on a device, allocated once. Provides the views of passes, and issues the copies
/// and additions between passes. Functions that take a stream issue to it. Keeps references to both
/// arguments.
template <device D>
class pass_memory {
 public:
  /// The views of a pass are valid as `pass_views` says.
  pass_memory(D& d, packed_program const& p, std::size_t kept = pass_views::every_pass)
      : device_(d),
        program_(p),
        passes_(p.passes()),
        arena_(d.allocate(static_cast<std::size_t>(p.arena_bytes()))),
        results_(d.allocate(static_cast<std::size_t>(p.result_bytes()))),
        views_(p, arena_.data(), results_.data(), kept) {
    for (std::uint32_t n = 0; n < passes_.size(); ++n)
      if (passes_.has_sums(n)) sums_.push_back({n, make_sums(passes_[n])});
  }
  pass_memory(D&, packed_program const&&, std::size_t = pass_views::every_pass) = delete;

  void take_inputs(step_values const& v) { views_.take_inputs(v.inputs, v.inputs_of_each); }

  std::span<tensor_view const> in(std::uint32_t pass) { return views_.in(pass); }
  std::span<tensor_view const> in_of_forward(std::uint32_t pass) { return views_.in_of_forward(pass); }
  std::span<tensor_view> out(std::uint32_t pass) { return views_.out(pass); }
  /// Returns the memory of all values, messages and saved activations.
  region arena() const { return views_.arena_region(0, program_.arena_bytes()); }
  region saved(std::uint32_t pass) const {
    auto const saved = passes_.saved(pass);
    return views_.arena_region(saved.at, saved.bytes);
  }
  region saved_for_weights(std::uint32_t pass) const {
    auto const saved = passes_.saved_for_weights(pass);
    return views_.arena_region(saved.at, saved.bytes);
  }
  region block(rank_instruction const& m) const {
    return {views_.arena_at(m.at), static_cast<std::size_t>(m.bytes), element_type::u8};
  }

  /// Returns result `number` of microbatch `m` for the caller, if this rank makes it.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number) const {
    for (auto const& r : program_.results())
      if (r.microbatch == m && r.number == number) return views_.result(r);
    return std::nullopt;
  }

  /// Before a forward pass: issues the copies of shapes that arrived with its inputs. Returns true if there
  /// are any. The views have the shapes once this work has ended.
  bool read_shapes(typename D::stream& s, std::uint32_t pass) {
    bool any = false;
    std::size_t k = 0;
    passes_.each_in(pass, [&](program_value const& v) {
      auto const number = k++;
      if (v.shape.where == place_kind::nowhere) return;
      device_.copy(s, &views_.in(pass)[number].shape, views_.arena_at(v.shape.at), sizeof(tensor_shape));
      any = true;
    });
    return any;
  }

  /// After a forward pass: copies results, and their shapes, to additional readers.
  /// \throws error if a result is larger than the memory reserved for it
  void write_results(typename D::stream& s, std::uint32_t pass, microbatch_id m) {
    if (!program_.has_dynamic_shapes() && !passes_.has_copies(pass)) return;
    auto const made = views_.out(pass);
    std::size_t number = 0;
    passes_.each_out(pass, [&](program_value const& v) {
      auto const k = number++;
      write_shape(s, v, m, made[k].shape, k);
    });
    passes_.each_copy(pass, [&](program_copy const& c) {
      auto const from = views_.room_of(c.from), to = views_.room_of(c.to);
      device_.copy(s, to.data, from.data, from.bytes());
      auto const k = position_of(c.from, pass);
      write_shape(s, c.to, m, made[k].shape, k);
    });
  }

  /// Before a backward pass: adds up the gradients of results with several readers, in the order of the
  /// dataflow. Gives all gradients the shapes of the forward pass.
  void add_gradients(typename D::stream& s, std::uint32_t pass) {
    auto const at = std::ranges::lower_bound(sums_, pass, {}, &pass_sums::pass);
    if (at != sums_.end() && at->pass == pass) device_.accumulate(s, at->sums, {});
    views_.take_shapes(pass);
  }

 private:
  struct pass_sums {
    std::uint32_t pass;
    typename D::sums sums;
  };

  typename D::sums make_sums(program_pass const& p) {
    std::vector<region_pair> pairs;
    for (auto const& s : p.sums) pairs.push_back({views_.room_of(s.from), views_.room_of(s.to)});
    return device_.make_sums(pairs);
  }

  /// Returns the position of a value among the results of a pass.
  std::size_t position_of(program_value const& made, std::uint32_t pass) const {
    std::size_t position = 0, k = 0;
    passes_.each_out(pass, [&](program_value const& v) {
      if (v == made) position = k;
      ++k;
    });
    return position;
  }

  void write_shape(typename D::stream& s, program_value const& v, microbatch_id m, tensor_shape const& shape,
                   std::size_t number) {
    if (program_.layout_of(v.edge).extents == shape_kind::fixed) return;
    auto const room = program_.shape_of(v.edge, m);
    auto const count = shape.count();
    if (shape.axes != room.axes || !count || *count > *room.count())
      throw error("result #" + std::to_string(number) +
                  " has more elements, or another number of axes, than edge #" + std::to_string(v.edge) +
                  " has room for");
    if (v.shape.where != place_kind::nowhere)
      device_.copy(s, views_.arena_at(v.shape.at), &shape, sizeof(tensor_shape));
  }

  D& device_;
  packed_program const& program_;
  packed_passes const& passes_;
  typename D::buffer arena_, results_;
  pass_views views_;
  std::vector<pass_sums> sums_;  // of the passes that have any, ascending
};

}  // namespace cleave::detail
