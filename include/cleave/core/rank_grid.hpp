// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"

namespace cleave::inline v0_2 {

/// An axis of parallelism: pipeline (by stages), data (by samples), or model (by slices of each weight).
enum class rank_axis : std::uint8_t { pipe, data, model };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

inline char const* rank_axis_name(rank_axis a) {
  return a == rank_axis::pipe ? "pipe" : a == rank_axis::data ? "data" : "model";
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The coordinates of a rank: its place on each axis. The type is also used for the sizes of a grid along
/// each axis.
struct rank_coordinates {
  std::uint32_t pipe = 0, data = 0, model = 0;

  /// Returns the coordinate on axis `a`.
  std::uint32_t on(rank_axis a) const {
    return a == rank_axis::pipe ? pipe : a == rank_axis::data ? data : model;
  }
  std::uint32_t& on(rank_axis a) { return a == rank_axis::pipe ? pipe : a == rank_axis::data ? data : model; }
  bool operator==(rank_coordinates const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The reason why sizes and an order of axes do not form a grid, and the axis.
struct rank_grid_fault {
  static constexpr char subject[] = "ranks: ";
  enum class kind : std::uint8_t { listed_twice, no_place, too_many_ranks };
  kind what;
  rank_axis axis;

  bool operator==(rank_grid_fault const&) const = default;
};

/// Returns a sentence such as `axis pipe has no place; give at least 1`.
inline std::string describe(rank_grid_fault const& f) {
  auto const axis = std::string("axis ") + rank_axis_name(f.axis);
  if (f.what == rank_grid_fault::kind::listed_twice)
    return axis + " is listed twice; list pipe, data and model";
  if (f.what == rank_grid_fault::kind::no_place) return axis + " has size 0; give at least 1";
  return axis + " raises the number of ranks above 2^32 - 1; use smaller sizes";
}

/// Thrown if the sizes and the order of axes do not form a grid of ranks. The witness names the axis.
using rank_grid_error = fault_error<rank_grid_fault>;

/// Returns the reason why sizes `size` and the order `order` of the axes do not form a grid, or nothing.
inline std::optional<rank_grid_fault> find_rank_grid_fault(rank_coordinates const& size,
                                                           std::array<rank_axis, 3> const& order) {
  rank_coordinates seen;
  std::uint64_t ranks = 1;
  for (auto const a : order) {
    if (seen.on(a)++ > 0) return rank_grid_fault{rank_grid_fault::kind::listed_twice, a};
    if (size.on(a) == 0) return rank_grid_fault{rank_grid_fault::kind::no_place, a};
    ranks *= size.on(a);
    if (ranks > 0xffffffffu) return rank_grid_fault{rank_grid_fault::kind::too_many_ranks, a};
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A three-dimensional grid of ranks. `order` lists the axes; the last one varies fastest, as in a C array.
class rank_grid {
 public:
  using axes = std::array<rank_axis, 3>;

  /// Makes a grid with `size` places on each axis.
  /// \throws rank_grid_error if an axis is listed twice or has no place, or if there are more than 2^32 - 1
  /// ranks
  rank_grid(rank_coordinates size, axes order) : size_(size), order_(order) {
    if (auto const fault = detail::find_rank_grid_fault(size, order)) throw detail::rank_grid_error(*fault);
    ranks_ = size.pipe * size.data * size.model;
  }

  /// Returns the number of ranks.
  std::uint32_t size() const { return ranks_; }
  std::uint32_t size(rank_axis a) const { return size_.on(a); }
  axes const& order() const { return order_; }

  /// Returns the coordinates of a rank.
  rank_coordinates operator[](rank_id rank) const {
    expects(index(rank) < ranks_, "a rank of the grid");
    rank_coordinates at;
    std::uint32_t rest = index(rank);
    for (std::size_t i = 3; i-- > 0; rest /= size_.on(order_[i]))
      at.on(order_[i]) = rest % size_.on(order_[i]);
    return at;
  }

  /// Returns the rank at given coordinates.
  rank_id operator[](rank_coordinates at) const {
    std::uint32_t rank = 0;
    for (auto const a : order_) {
      expects(at.on(a) < size_.on(a), "coordinates in the grid");
      rank = rank * size_.on(a) + at.on(a);
    }
    return rank_id{rank};
  }

  /// Returns the ranks at `place` of axis `a`, ascending. O(ranks).
  std::vector<rank_id> ranks_at(rank_axis a, std::uint32_t place) const {
    std::vector<rank_id> ranks;
    for (std::uint32_t r = 0; r < ranks_; ++r)
      if ((*this)[rank_id{r}].on(a) == place) ranks.push_back(rank_id{r});
    return ranks;
  }

 private:
  rank_coordinates size_;
  axes order_;
  std::uint32_t ranks_;
};

}  // namespace cleave
