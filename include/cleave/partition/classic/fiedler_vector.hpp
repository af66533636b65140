// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"

namespace cleave::inline v0_2::detail {

/// Eigenvalues and eigenvectors of a small symmetric matrix. Eigenvalues are in ascending order, and
/// eigenvector i is column i of `vectors` (row-major). Cyclic Jacobi (Jacobi, 1846): rotations until the
/// off-diagonal entries vanish. O(n^3) per sweep, and few sweeps are needed.
struct small_eigen {
  std::vector<double> values, vectors;

  small_eigen(std::vector<double> a, std::size_t n) : values(n), vectors(n * n) {
    for (std::size_t i = 0; i < n; ++i) vectors[i * n + i] = 1;
    double all = 0, off = 1;
    for (double const x : a) all += x * x;
    for (int sweep = 0; sweep < 60 && off > all * 1e-30; ++sweep) {
      off = 0;
      for (std::size_t p = 0; p < n; ++p)
        for (std::size_t q = p + 1; q < n; ++q) {
          off += a[p * n + q] * a[p * n + q];
          rotate(a, n, p, q);
        }
    }
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t i = 0; i < n; ++i) order.push_back({a[i * n + i], i});
    std::ranges::sort(order);
    auto const turned = std::move(vectors);
    vectors.resize(n * n);
    for (std::size_t i = 0; i < n; ++i) {
      values[i] = order[i].first;
      for (std::size_t row = 0; row < n; ++row) vectors[row * n + i] = turned[row * n + order[i].second];
    }
  }

 private:
  void rotate(std::vector<double>& a, std::size_t n, std::size_t p, std::size_t q) {
    if (a[p * n + q] == 0) return;
    double const theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double const t = (theta < 0 ? -1 : 1) / (magnitude(theta) + square_root(theta * theta + 1));
    double const c = 1 / square_root(t * t + 1), s = t * c;
    auto const turn = [&](double& x, double& y) {
      double const old = x;
      x = c * old - s * y;
      y = s * old + c * y;
    };
    for (std::size_t i = 0; i < n; ++i) turn(a[i * n + p], a[i * n + q]);
    for (std::size_t i = 0; i < n; ++i) turn(a[p * n + i], a[q * n + i]);
    for (std::size_t i = 0; i < n; ++i) turn(vectors[i * n + p], vectors[i * n + q]);
  }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `fiedler_vector`.
struct fiedler_options {
  double tolerance = 1e-2;     ///< residual at which to stop, relative to the eigenvalue
  std::size_t products = 200;  ///< maximum number of matrix-vector products
  std::size_t basis = 16;      ///< maximum number of basis vectors
  std::uint64_t seed = 1;      ///< selects the node from which the initial distances are measured
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Lanczos' method on the graph Laplacian, in the space orthogonal to the constant vector, with full
/// orthogonalisation. It restarts with the best directions whenever the basis is full: Wu and Simon,
/// Thick-restart Lanczos, SIAM J. Matrix Anal. Appl. 22, 2000.
class fiedler_search {
 public:
  fiedler_search(integral_graph const& g, fiedler_options const& o)
      : g_(g), o_(o), n_(g.nodes()), most_((std::min)(std::max<std::size_t>(o.basis, 4), n_ - 1)) {
    basis_.reserve(most_ + 1);
    product_.resize(most_ * most_);
  }

  std::vector<double> run() {
    auto next = distances();
    double length = orthogonalise(next, nullptr);
    for (std::size_t products = 0;;) {
      while (basis_.size() < most_ && length > 0) {
        for (double& x : next) x /= length;
        basis_.push_back(std::move(next));
        next = times_laplacian(basis_.back());
        length = orthogonalise(next, &product_[(basis_.size() - 1) * most_]);
        ++products;
      }
      small_eigen const e(square_product(), basis_.size());
      auto const last = (basis_.size() - 1) * basis_.size();
      bool const exact = length * magnitude(e.vectors[last]) <= o_.tolerance * e.values[0];
      if (exact || !(length > 0) || products >= o_.products) {
        keep_best(e, 1);
        return std::move(basis_.front());
      }
      keep_best(e, std::max<std::size_t>(most_ / 3, 1));
    }
  }

 private:
  // Returns the initial vector: distances from a node at one end of the graph, which are smooth like the
  // Fiedler vector. A little noise ensures that the vector is not orthogonal to it.
  std::vector<double> distances() const {
    splitmix dice(o_.seed);
    std::vector<double> distance;
    auto from = static_cast<std::uint32_t>(dice.below(n_));
    for (int sweep = 0; sweep < 3; ++sweep) {
      std::vector<std::uint32_t> queue{from};
      distance.assign(n_, -1);
      distance[from] = 0;
      for (std::size_t i = 0; i < queue.size(); ++i)
        g_.each_neighbour(queue[i], [&](std::uint32_t to, std::int64_t) {
          if (distance[to] < 0) distance[to] = distance[queue[i]] + 1, queue.push_back(to);
        });
      from = queue.back();
    }
    for (double& x : distance) x += dice.unit();
    return distance;
  }

  std::vector<double> times_laplacian(std::vector<double> const& x) const {
    std::vector<double> y(n_);
    for (std::uint32_t n = 0; n < n_; ++n) {
      double sum = 0;
      g_.each_neighbour(
          n, [&](std::uint32_t to, std::int64_t w) { sum += static_cast<double>(w) * (x[n] - x[to]); });
      y[n] = sum;
    }
    return y;
  }

  // Orthogonalises `x` against the constant vector and the basis, twice if much cancels (Kahan). Adds the
  // coefficients to `along`. Returns the length of `x`, or 0 if only rounding errors remain.
  double orthogonalise(std::vector<double>& x, double* along) const {
    double const before = length_of(x);
    double length = before;
    for (int pass = 0; pass < 2 && (pass == 0 || length < 0.7 * before); ++pass) {
      double const mean = std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(n_);
      for (double& v : x) v -= mean;
      for (std::size_t i = 0; i < basis_.size(); ++i) {
        double const dot = std::inner_product(x.begin(), x.end(), basis_[i].begin(), 0.0);
        for (std::size_t n = 0; n < n_; ++n) x[n] -= dot * basis_[i][n];
        if (along) along[i] += dot;
      }
      length = length_of(x);
    }
    return length <= before * 1e-13 ? 0 : length;
  }

  static double length_of(std::vector<double> const& x) {
    return square_root(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
  }

  // Returns the Laplacian projected onto the basis. Row j has the products of vector j with vectors 0 to j.
  std::vector<double> square_product() const {
    auto const m = basis_.size();
    std::vector<double> a(m * m);
    for (std::size_t j = 0; j < m; ++j)
      for (std::size_t i = 0; i <= j; ++i) a[i * m + j] = a[j * m + i] = product_[j * most_ + i];
    return a;
  }

  // Replaces the basis with the first `kept` Ritz vectors.
  void keep_best(small_eigen const& e, std::size_t kept) {
    auto const m = basis_.size();
    std::vector<double> row(m);
    for (std::size_t n = 0; n < n_; ++n) {
      for (std::size_t j = 0; j < m; ++j) row[j] = basis_[j][n];
      for (std::size_t i = 0; i < kept; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < m; ++j) sum += row[j] * e.vectors[j * m + i];
        basis_[i][n] = sum;
      }
    }
    basis_.resize(kept);
    std::ranges::fill(product_, 0);
    for (std::size_t i = 0; i < kept; ++i) product_[i * most_ + i] = e.values[i];
  }

  integral_graph const& g_;
  fiedler_options const& o_;
  std::size_t n_, most_;
  std::vector<std::vector<double>> basis_;
  std::vector<double> product_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the Fiedler vector: the unit eigenvector of the second smallest eigenvalue of the Laplacian
/// (Fiedler, Czechoslovak Mathematical Journal 25, 1975). It is accurate to the tolerance, unless the limit
/// on products is reached first. The result depends on the seed only, on any machine that rounds each
/// operation separately. O((m + n * basis) * products) time and O(n * basis) memory.
/// \pre The graph is connected and has at least two nodes.
inline std::vector<double> fiedler_vector(detail::integral_graph const& g, fiedler_options const& o = {}) {
  return detail::fiedler_search(g, o).run();
}

}  // namespace cleave
