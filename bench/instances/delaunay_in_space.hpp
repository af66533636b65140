// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/csr.hpp"
#include "delaunay.hpp"
#include "meshes.hpp"
#include "steady_math.hpp"

/// Delaunay tetrahedra in space, exact: coordinates are integers of 20 bits, and what is computed with them
/// has 128.
namespace bench {

struct space_point {
  std::int32_t x, y, z;

  bool operator==(space_point const&) const = default;
};

/// The four corners of a tetrahedron.
using corner_points = std::array<space_point, 4>;

/// Six times the volume, positive where from the last corner the others turn right. Exact below 2^20, where
/// it is at most 2^61.
inline std::int64_t volume(corner_points const& c) {
  std::array<std::array<std::int64_t, 3>, 3> r{};
  for (std::size_t i = 0; i < 3; ++i) r[i] = {c[i].x - c[3].x, c[i].y - c[3].y, c[i].z - c[3].z};
  auto const minor = [&](std::size_t a, std::size_t b) { return r[1][a] * r[2][b] - r[1][b] * r[2][a]; };
  return r[0][0] * minor(1, 2) + r[0][1] * minor(2, 0) + r[0][2] * minor(0, 1);
}

/// Whether `p` is inside the sphere through four corners of positive volume.
inline bool in_sphere(corner_points const& c, space_point p) {
  wide_sum sum;  // what each corner, seen from p, is away, times the volume of p and the others
  for (std::size_t i = 0; i < 4; ++i) {
    std::int64_t const x = c[i].x - p.x, y = c[i].y - p.y, z = c[i].z - p.z;
    auto with_p = c;
    with_p[i] = p;
    sum.add(x * x + y * y + z * z, volume(with_p));
  }
  return sum.positive();
}

/// Bowyer's and Watson's algorithm as in the plane. Each triangle of the hull has a tetrahedron behind it
/// whose fourth corner is infinitely far, so no edge is missing.
class tetrahedra {
 public:
  /// Precondition: coordinates are in [0, 2^20), no point is there twice, not all are in one plane.
  explicit tetrahedra(std::vector<space_point> points) : points_(std::move(points)) {
    auto const first = first_corners();
    begin(first);
    for (std::uint32_t n = 0; n < points_.size(); ++n)
      if (std::ranges::find(first, n) == first.end()) insert(n);
  }

  graph_edges edges() const {
    graph_edges found;
    for (auto const& t : cells_)
      for (std::size_t i = 0; i < 4 && far_corner(t) == 4; ++i)
        for (std::size_t j = 0; j < i; ++j) found.add(t.corner[i], t.corner[j]);
    return found;
  }

 private:
  static constexpr std::uint32_t infinite = cleave::none<std::uint32_t>;
  using corners = std::array<std::uint32_t, 4>;
  struct cell {
    corners corner;  // of positive volume
    corners beyond;  // the cell across the side without corner i
  };
  struct hole_side {
    std::uint32_t cell;
    std::size_t side;
  };
  struct inner_side {
    std::uint64_t edge;  // of the hole's surface: what it shares with one other
    std::uint32_t cell;
    std::size_t side;
  };

  /// Which corner of a cell is infinitely far; 4: none.
  static std::size_t far_corner(cell const& t) {
    return static_cast<std::size_t>(std::ranges::find(t.corner, infinite) - t.corner.begin());
  }
  /// Precondition: no corner but number `i` is infinitely far.
  std::int64_t volume_with(corners const& c, std::size_t i, std::uint32_t node) const {
    corner_points p{};
    for (std::size_t j = 0; j < 4; ++j) p[j] = points_[i == j ? node : c[j]];
    return volume(p);
  }

  /// Four points that are not in one plane, of positive volume.
  corners first_corners() const {
    auto const& p = points_;
    auto const n = static_cast<std::uint32_t>(p.size());
    std::uint32_t third = 2, fourth = 3;
    auto const on_a_line = [&](space_point q) {
      std::int64_t const x = p[1].x - p[0].x, y = p[1].y - p[0].y, z = p[1].z - p[0].z;
      std::int64_t const u = q.x - p[0].x, v = q.y - p[0].y, w = q.z - p[0].z;
      return x * v == y * u && y * w == z * v && x * w == z * u;
    };
    while (third < n && on_a_line(p[third])) ++third;
    while (fourth < n && volume({p[0], p[1], p[third], p[fourth]}) == 0) ++fourth;
    cleave::expects(third < n && fourth < n, "points that are not in one plane");
    corners c{0, 1, third, fourth};
    if (volume({p[0], p[1], p[third], p[fourth]}) < 0) std::swap(c[0], c[1]);
    return c;
  }

  void begin(corners const& first) {
    cells_.push_back({first, {1, 2, 3, 4}});
    for (std::size_t i = 0; i < 4; ++i) {
      cell t{first, {}};
      t.corner[i] = infinite;
      auto const a = (i + 1) % 4, b = (i + 2) % 4;
      std::swap(t.corner[a], t.corner[b]);
      for (std::size_t j = 0; j < 4; ++j) {  // the sides of two that lost corner i share it without corner j
        auto const at = j == a ? b : j == b ? a : j;
        t.beyond[at] = j == i ? 0 : static_cast<std::uint32_t>(j + 1);
      }
      cells_.push_back(t);
    }
    marked_.assign(5, 0);
  }

  /// A cell in whose sphere the node is.
  std::uint32_t find(std::uint32_t node) const {
    auto at = last_;
    if (auto const far = far_corner(cells_[at]); far < 4) at = cells_[at].beyond[far];
    for (std::size_t i = 0; i < 4;) {
      auto const& t = cells_[at];
      if (volume_with(t.corner, i, node) >= 0) {
        ++i;
        continue;
      }
      at = t.beyond[i], i = 0;
      if (far_corner(cells_[at]) < 4) return at;
    }
    return at;
  }

  bool holds(std::uint32_t at, std::uint32_t node) const {
    auto const& t = cells_[at];
    if (auto const far = far_corner(t); far < 4) {
      auto const outwards = volume_with(t.corner, far, node);
      return outwards > 0 || (outwards == 0 && holds_near(t.beyond[far], node));
    }
    return holds_near(at, node);
  }
  bool holds_near(std::uint32_t at, std::uint32_t node) const {
    auto const& c = cells_[at].corner;
    return in_sphere({points_[c[0]], points_[c[1]], points_[c[2]], points_[c[3]]}, points_[node]);
  }

  void insert(std::uint32_t node) {
    // The cells whose spheres hold the node, and the surface of what they cover.
    hole_.assign(1, find(node));
    surface_.clear();
    marked_[hole_[0]] = node + 1;
    for (std::size_t next = 0; next < hole_.size(); ++next)
      for (std::size_t i = 0; i < 4; ++i) {
        auto const other = cells_[hole_[next]].beyond[i];
        if (marked_[other] == node + 1) continue;
        if (holds(other, node)) {
          marked_[other] = node + 1;
          hole_.push_back(other);
        } else {
          surface_.push_back({hole_[next], i});
        }
      }
    // A cell from each side of the surface to the node: the old one, its other corner moved to the node.
    made_.clear();
    for (auto const& s : surface_) {
      made_.push_back(cells_[s.cell]);
      made_.back().corner[s.side] = node;
    }
    inner_.clear();
    for (std::size_t i = 0; i < made_.size(); ++i) {
      if (i == hole_.size()) hole_.push_back(new_cell());
      auto const& [old, side] = surface_[i];
      auto& beyond = cells_[made_[i].beyond[side]];
      for (std::size_t j = 0; j < 4; ++j)
        if (std::ranges::find(made_[i].corner, beyond.corner[j]) == made_[i].corner.end())
          beyond.beyond[j] = hole_[i];
      add_inner_sides(made_[i].corner, hole_[i], side);
    }
    for (std::size_t i = 0; i < made_.size(); ++i) cells_[hole_[i]] = made_[i];
    for (auto i = made_.size(); i < hole_.size(); ++i) {
      cells_[hole_[i]].corner.fill(infinite);
      unused_.push_back(hole_[i]);
    }
    std::ranges::sort(inner_, {}, &inner_side::edge);
    for (std::size_t i = 0; i + 1 < inner_.size(); i += 2) {
      cells_[inner_[i].cell].beyond[inner_[i].side] = inner_[i + 1].cell;
      cells_[inner_[i + 1].cell].beyond[inner_[i + 1].side] = inner_[i].cell;
    }
    last_ = hole_[0];
  }

  std::uint32_t new_cell() {
    if (!unused_.empty()) {
      auto const at = unused_.back();
      unused_.pop_back();
      return at;
    }
    cells_.push_back({});
    marked_.push_back(0);
    return static_cast<std::uint32_t>(cells_.size() - 1);
  }

  /// The three sides of a new cell that have the node, which is corner `node_at`.
  void add_inner_sides(corners const& c, std::uint32_t at, std::size_t node_at) {
    for (std::size_t i = 0; i < 4; ++i) {
      if (i == node_at) continue;
      std::array<std::uint32_t, 2> ends{};
      for (std::size_t j = 0, end = 0; j < 4; ++j)
        if (j != i && j != node_at) ends[end++] = c[j];
      auto const [less, more] = std::minmax(ends[0], ends[1]);
      inner_.push_back({std::uint64_t{less} << 32 | more, at, i});
    }
  }

  std::vector<space_point> points_;
  std::vector<cell> cells_;
  std::vector<std::uint32_t> marked_;  // of a cell: the last node whose hole it was in, plus one
  std::vector<std::uint32_t> hole_;
  std::vector<std::uint32_t> unused_;  // cells, of which only infinitely far corners are left
  std::vector<hole_side> surface_;
  std::vector<cell> made_;
  std::vector<inner_side> inner_;
  std::uint32_t last_ = 0;
};

/// Where a point is along Morton's curve.
inline std::uint64_t place_on_curve(space_point p) {
  std::uint64_t key = 0;
  for (int bit = 0; bit < 20; ++bit) {
    key |= static_cast<std::uint64_t>(p.x >> bit & 1) << (3 * bit);
    key |= static_cast<std::uint64_t>(p.y >> bit & 1) << (3 * bit + 1);
    key |= static_cast<std::uint64_t>(p.z >> bit & 1) << (3 * bit + 2);
  }
  return key;
}

/// Of points in a cube half of which crowd around two places, as meshes do that were refined there.
/// Precondition: at least 16 nodes, so not all are in one plane.
inline graph fem3d(std::uint32_t nodes, std::uint64_t seed) {
  dice d(seed);
  std::uint32_t count = 0;
  auto points = along_curve<space_point>(nodes, [&] {
    auto const next = crowding_coordinates(d, count++, 20);
    auto const x = next(), y = next();
    return space_point{x, y, next()};
  });
  return adjacency_of_edges(nodes, tetrahedra(std::move(points)).edges(), cleave::repeated_edges::count_once);
}

}  // namespace bench
