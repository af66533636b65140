// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_values.hpp"

namespace cleave::detail {

/// Memory of its own for all that a rank reads of the caller, so that it is at the same place in each step.
template <device D>
class input_copies {
 public:
  /// Precondition: the shapes of inputs are known.
  input_copies(D& d, rank_program const& p) : device_(d) {
    std::uint64_t bytes = 0;
    for (auto const& pass : p.passes)
      for (auto const& v : pass.in)
        if (v.place.where == place_kind::input)
          of_each_ = (std::max)(of_each_, static_cast<std::size_t>(v.place.at) + 1);
    views_.resize(of_each_ * p.microbatches);
    std::vector<bool> seen(views_.size());  // several stages may read the same
    for (auto const& i : p.instructions) {
      if (!is_forward_pass(i.call)) continue;
      auto const m = i.call.of.microbatch;
      for (auto const& v : p.passes[i.pass].in) {
        if (v.place.where != place_kind::input) continue;
        auto const number = static_cast<std::size_t>(v.place.at), own = index(m) * of_each_ + number;
        if (seen[own]) continue;
        seen[own] = true;
        views_[own] = {nullptr, p.layouts.edges[v.edge].type, p.layouts.shape_of(v.edge, m)};
        auto const size = views_[own].elements().bytes();
        copied_.push_back({index(m), number, own, size, bytes});
        bytes += (size + alignment - 1) / alignment * alignment;
      }
    }
    memory_ = d.allocate(static_cast<std::size_t>(bytes));
    void* const data = memory_.data();
    for (auto const& c : copied_) views_[c.own].data = static_cast<std::byte*>(data) + c.at;
  }

  /// The same values with these inputs, once what is issued to `s` has ended. Refers to it.
  step_values take(step_values const& v, typename D::stream& s) {
    for (auto const& c : copied_)
      device_.copy(s, views_[c.own].data, v.inputs[c.microbatch * v.inputs_of_each + c.number].data, c.bytes);
    auto own = v;
    own.inputs = views_;
    own.inputs_of_each = of_each_;
    return own;
  }

 private:
  static constexpr std::uint64_t alignment = 256;
  struct copied_input {
    std::size_t microbatch, number;
    std::size_t own;  // which of the views
    std::size_t bytes;
    std::uint64_t at;  // in the memory
  };

  D& device_;
  typename D::buffer memory_;
  std::vector<copied_input> copied_;
  std::size_t of_each_ = 0;
  std::vector<tensor_view> views_;
};

}  // namespace cleave::detail
