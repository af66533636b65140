// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/run/executor/rank_runtime.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "cleave/run/model/steady_list.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::detail {

/// The groups in which ranks that are threads of one process meet, and what each rank has of them.
template <thread_backend Backend>
class thread_connections {
 public:
  using device = typename Backend::device;
  using communicator = typename Backend::communicator;

  /// `devices` are those of all ranks. They, the backend and the ranks must outlive it.
  thread_connections(Backend& b, host_ranks& ranks, std::span<device> devices)
      : backend_(b), ranks_(ranks), devices_(devices) {}

  /// Connects the ranks of each replica, those of them that hold a set of ties, and those that run the same
  /// stages in all replicas. Of each rank of the grid what it communicates with, as long as this lives.
  /// \throws tie_stage_error, and what the backend throws
  std::vector<rank_communicators<communicator>> connect(rank_grid const& grid, placement const& place,
                                                        std::span<tie_set const> sets) {
    std::vector<rank_communicators<communicator>> with(grid.size());
    for (std::uint32_t r = 0; r < grid.size(); ++r) {
      with[r].here = rank_id{r};
      with[r].ties.resize(sets.size());
    }
    for (std::uint32_t d = 0; d < grid.size(rank_axis::data); ++d) {
      auto const pipe = grid.ranks_at(rank_axis::data, d);
      join(pipe, [&](rank_id r) -> auto& { return with[index(r)].pipe; });
      for (std::size_t i = 0; i < sets.size(); ++i) {
        auto members = ranks_of(sets[i], place.rank_of);
        if (members.size() < 2) continue;
        for (auto& m : members) m = pipe[index(m)];
        join(members, [&](rank_id r) -> auto& { return with[index(r)].ties[i]; });
      }
    }
    for (std::uint32_t p = 0; p < grid.size(rank_axis::pipe) && grid.size(rank_axis::data) > 1; ++p)
      join(grid.ranks_at(rank_axis::pipe, p), [&](rank_id r) -> auto& { return with[index(r)].replicas; });
    return with;
  }

 private:
  /// Makes a group of `members`, and for each a communicator, which `own(member)` is then.
  template <class Own>
  void join(std::vector<rank_id> const& members, Own own) {
    auto& group = backend_.make_group(groups_, ranks_, members, devices_);
    for (std::uint32_t m = 0; m < members.size(); ++m) own(members[m]) = &communicators_.emplace(group, m);
  }

  Backend& backend_;
  host_ranks& ranks_;
  std::span<device> devices_;
  steady_list<typename Backend::group> groups_;
  steady_list<communicator> communicators_;
};

}  // namespace cleave::detail
