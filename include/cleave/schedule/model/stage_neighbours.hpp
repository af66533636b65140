// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::detail {

/// The stages next to each stage, both ways, as plain numbers.
class stage_neighbours {
 public:
  /// Precondition: every edge names stages that there are. O(stages + edges).
  explicit stage_neighbours(placement const& p)
      : before_first_(std::size_t{p.stages()} + 2),
        after_first_(before_first_),
        before_(p.edges.size()),
        after_(p.edges.size()) {
    for (auto const& e : p.edges) {
      expects(index(e.from) < p.stages() && index(e.to) < p.stages(),
              "edges between stages of the placement");
      ++before_first_[index(e.to) + 2], ++after_first_[index(e.from) + 2];
    }
    for (std::size_t s = 2; s < before_first_.size(); ++s) {
      before_first_[s] += before_first_[s - 1];
      after_first_[s] += after_first_[s - 1];
    }
    for (auto const& e : p.edges) {
      before_[before_first_[index(e.to) + 1]++] = index(e.from);
      after_[after_first_[index(e.from) + 1]++] = index(e.to);
    }
  }

  std::size_t stages() const { return before_first_.size() - 2; }
  /// The stages that feed stage `s`, in the order of the edges.
  std::span<std::uint32_t const> before(std::uint32_t s) const {
    return std::span(before_).subspan(before_first_[s], before_first_[s + 1] - before_first_[s]);
  }
  /// The stages that stage `s` feeds, in the order of the edges.
  std::span<std::uint32_t const> after(std::uint32_t s) const {
    return std::span(after_).subspan(after_first_[s], after_first_[s + 1] - after_first_[s]);
  }

  /// How many stages each has before it, at most. O(stages + edges).
  /// \throws infeasible_error where stages wait for each other
  std::vector<std::uint32_t> depths() const {
    std::vector<std::uint32_t> depth(stages()), missing(stages()), ready;
    for (std::uint32_t s = 0; s < stages(); ++s) {
      missing[s] = static_cast<std::uint32_t>(before(s).size());
      if (missing[s] == 0) ready.push_back(s);
    }
    for (std::size_t done = 0; done < ready.size(); ++done) {
      auto const s = ready[done];
      for (auto const next : after(s)) {
        depth[next] = (std::max)(depth[next], depth[s] + 1);
        if (--missing[next] == 0) ready.push_back(next);
      }
    }
    if (ready.size() < stages()) throw infeasible_error("placement: stages wait for each other in a circle");
    return depth;
  }

 private:
  std::vector<std::size_t> before_first_, after_first_;
  std::vector<std::uint32_t> before_, after_;
};

}  // namespace cleave::detail
