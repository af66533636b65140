// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/csr.hpp"
#include "meshes.hpp"
#include "steady_math.hpp"

/// Delaunay triangulations in the plane, exact: coordinates are integers of 24 bits, and what is computed
/// with them has 128.
namespace bench {

struct plane_point {
  std::int32_t x, y;

  bool operator==(plane_point const&) const = default;
};

/// A sum of products of two numbers below 2^62 in size, of few.
class wide_sum {
 public:
  void add(std::int64_t a, std::int64_t b) {
    bool const negative = (a < 0) != (b < 0);
    auto const u = static_cast<std::uint64_t>(a < 0 ? -a : a), v = static_cast<std::uint64_t>(b < 0 ? -b : b);
    constexpr std::uint64_t half = 0xffffffffu;
    auto const low = (u & half) * (v & half), middle = (u >> 32) * (v & half) + (low >> 32);
    auto const other = (u & half) * (v >> 32) + (middle & half);
    auto bottom = (other << 32) | (low & half);
    auto top = (u >> 32) * (v >> 32) + (middle >> 32) + (other >> 32);
    if (negative) bottom = ~bottom + 1, top = ~top + (bottom == 0 ? 1 : 0);
    low_ += bottom;
    high_ += top + (low_ < bottom ? 1 : 0);
  }
  bool positive() const { return (high_ >> 63) == 0 && (high_ | low_) != 0; }

 private:
  std::uint64_t low_ = 0, high_ = 0;  // two's complement
};

/// Twice the area of a triangle, positive where it turns left. Exact below 2^30.
inline std::int64_t turn(plane_point a, plane_point b, plane_point c) {
  return (std::int64_t{b.x} - a.x) * (std::int64_t{c.y} - a.y) -
         (std::int64_t{b.y} - a.y) * (std::int64_t{c.x} - a.x);
}

/// Whether `p` is inside the circle through three points that turn left.
inline bool in_circle(plane_point a, plane_point b, plane_point c, plane_point p) {
  auto const square = [&](plane_point q) {
    auto const x = std::int64_t{q.x} - p.x, y = std::int64_t{q.y} - p.y;
    return x * x + y * y;
  };
  wide_sum sum;
  sum.add(square(a), turn(p, b, c));
  sum.add(square(b), turn(p, c, a));
  sum.add(square(c), turn(p, a, b));
  return sum.positive();
}

/// Bowyer's and Watson's algorithm (Computer Journal 24, 1981) on points along a curve, each found by a walk
/// from the last. All points are within a triangle of three more, which are left out at the end, so at the
/// hull a few edges may be missing.
class triangulation {
 public:
  /// Precondition: coordinates are in [0, 2^24), no point is there twice.
  explicit triangulation(std::vector<plane_point> points) : points_(std::move(points)) {
    auto const n = static_cast<std::uint32_t>(points_.size());
    constexpr std::int32_t far = 1 << 28;
    points_.push_back({-far, -far}), points_.push_back({far, -far}), points_.push_back({0, far});
    of_node_.resize(points_.size());
    triangles_.reserve(2 * points_.size());
    triangles_.push_back({{n, n + 1, n + 2}, {outside, outside, outside}});
    marked_.push_back(0);
    for (std::uint32_t i = 0; i < n; ++i) insert(i);
  }

  graph_edges edges() const {
    auto const n = static_cast<std::uint32_t>(points_.size() - 3);
    graph_edges found;
    for (auto const& t : triangles_)
      for (std::size_t i = 0; i < 3; ++i) {
        auto const a = t.corner[i], b = t.corner[(i + 1) % 3];
        if (a < n && b < n) found.add(a, b);
      }
    return found;
  }

 private:
  static constexpr std::uint32_t outside = cleave::none<std::uint32_t>;
  struct triangle {
    std::array<std::uint32_t, 3> corner;  // turning left
    std::array<std::uint32_t, 3> beyond;  // the triangle across the edge from corner i to the next
  };
  struct rim_edge {
    std::uint32_t from, to, beyond;
  };

  std::uint32_t find(std::uint32_t node) const {
    auto at = last_;
    for (std::size_t i = 0; i < 3;) {
      auto const& t = triangles_[at];
      if (turn(points_[t.corner[i]], points_[t.corner[(i + 1) % 3]], points_[node]) < 0)
        at = t.beyond[i], i = 0;
      else
        ++i;
    }
    return at;
  }

  void insert(std::uint32_t node) {
    // The triangles whose circles hold the node, and the rim of what they cover.
    hole_.assign(1, find(node));
    rim_.clear();
    marked_[hole_[0]] = node + 1;
    for (std::size_t next = 0; next < hole_.size(); ++next) {
      auto const t = triangles_[hole_[next]];
      for (std::size_t i = 0; i < 3; ++i) {
        auto const other = t.beyond[i];
        if (other != outside && marked_[other] == node + 1) continue;
        if (other != outside && holds(other, node)) {
          marked_[other] = node + 1;
          hole_.push_back(other);
        } else {
          rim_.push_back({t.corner[i], t.corner[(i + 1) % 3], other});
        }
      }
    }
    // A triangle from each edge of the rim to the node, in the places of the old ones and two more.
    for (std::size_t i = 0; i < rim_.size(); ++i) {
      if (i == hole_.size()) {
        hole_.push_back(static_cast<std::uint32_t>(triangles_.size()));
        triangles_.push_back({});
        marked_.push_back(0);
      }
      auto const& e = rim_[i];
      triangles_[hole_[i]] = {{e.from, e.to, node}, {e.beyond, outside, outside}};
      of_node_[e.from] = hole_[i];
      if (e.beyond == outside) continue;
      auto& other = triangles_[e.beyond];
      for (std::size_t j = 0; j < 3; ++j)
        if (other.corner[j] == e.to && other.corner[(j + 1) % 3] == e.from) other.beyond[j] = hole_[i];
    }
    for (std::size_t i = 0; i < rim_.size(); ++i) {
      auto const next = of_node_[rim_[i].to];
      triangles_[hole_[i]].beyond[1] = next;
      triangles_[next].beyond[2] = hole_[i];
    }
    last_ = hole_[0];
  }

  bool holds(std::uint32_t at, std::uint32_t node) const {
    auto const& c = triangles_[at].corner;
    return in_circle(points_[c[0]], points_[c[1]], points_[c[2]], points_[node]);
  }

  std::vector<plane_point> points_;
  std::vector<triangle> triangles_;
  std::vector<std::uint32_t> marked_;   // of a triangle: the last node whose hole it was in, plus one
  std::vector<std::uint32_t> of_node_;  // of a node of the rim: the new triangle that begins there
  std::vector<std::uint32_t> hole_;
  std::vector<rim_edge> rim_;
  std::uint32_t last_ = 0;
};

/// Where a point is along Morton's curve.
inline std::uint64_t place_on_curve(plane_point p) {
  std::uint64_t key = 0;
  for (int bit = 0; bit < 24; ++bit) {
    key |= static_cast<std::uint64_t>(p.x >> bit & 1) << (2 * bit);
    key |= static_cast<std::uint64_t>(p.y >> bit & 1) << (2 * bit + 1);
  }
  return key;
}

/// `nodes` different points that `draw` makes, along the curve.
template <class Point, class Draw>
std::vector<Point> along_curve(std::uint32_t nodes, Draw draw) {
  std::vector<std::pair<std::uint64_t, Point>> drawn;
  auto const before = [](auto const& a, auto const& b) { return a.first < b.first; };
  while (drawn.size() < nodes) {
    while (drawn.size() < nodes) {
      Point const p = draw();
      drawn.emplace_back(place_on_curve(p), p);
    }
    std::sort(drawn.begin(), drawn.end(), before);
    drawn.erase(std::unique(drawn.begin(), drawn.end()), drawn.end());
  }
  std::vector<Point> points;
  for (auto const& [key, p] : drawn) points.push_back(p);
  return points;
}

/// The triangulation of `nodes` different points that `draw` makes, numbered along the curve.
template <class Draw>
graph triangulated(std::uint32_t nodes, Draw draw) {
  return adjacency_of_edges(nodes, triangulation(along_curve<plane_point>(nodes, draw)).edges(),
                            cleave::repeated_edges::count_once);
}

/// Of a place between -1 and 2, which are 0 and 2^bits of the integers; what is beyond goes there.
inline std::int32_t grid_place(double x, int bits) {
  std::int32_t const last = (1 << bits) - 1;
  double const share = (x + 1) / 3;
  return share <= 0 ? 0 : share >= 1 ? last : static_cast<std::int32_t>(share * (last + 1.0));
}

/// What makes the coordinates of point `number`, one after the other: every second one of all over the unit
/// square or cube, the others close to one of two places.
inline auto crowding_coordinates(dice& d, std::uint32_t number, int bits) {
  bool const crowded = number % 2 == 1;
  double const middle = number % 4 == 1 ? 0.3 : 0.7, u = d.unit();
  double const square = u * u;
  double const reach = 0.4 * (square * u);
  return [=, &d] {
    if (!crowded) return grid_place(d.unit(), bits);
    double const step = d.normal() * reach;
    return grid_place(middle + step, bits);
  };
}

/// Of points all over a square.
inline graph del2d(std::uint32_t nodes, std::uint64_t seed) {
  dice d(seed);
  return triangulated(nodes, [&] {
    auto const x = static_cast<std::int32_t>(d.below(1 << 24));
    return plane_point{x, static_cast<std::int32_t>(d.below(1 << 24))};
  });
}

/// Of points in a square half of which crowd around two places, as meshes do that were refined there.
inline graph fem2d(std::uint32_t nodes, std::uint64_t seed) {
  dice d(seed);
  std::uint32_t count = 0;
  return triangulated(nodes, [&] {
    auto const next = crowding_coordinates(d, count++, 24);
    auto const x = next();
    return plane_point{x, next()};
  });
}

}  // namespace bench
