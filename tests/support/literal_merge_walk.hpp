// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/groups/fusion_group.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::testing {

using namespace detail;

/// The merge walk of torch.fx 2.15, literally, as capability/README.md describes it. It uses graph searches,
/// and caches reachability per group. Merges of other groups do not update that cache.
class literal_merge_walk {
 public:
  literal_merge_walk(snapshot_arrays const& s, std::vector<char> const& supported)
      : supported_(supported), users_(s.nodes()), below_(s.nodes()) {
    each_dependency(s, [&](std::size_t m, std::size_t n) { users_[m].insert(n); });
    for (std::size_t n = s.nodes(); n-- > 0;)
      for (auto const user : users_[n]) {
        below_[n].insert(user);
        below_[n].insert(below_[user].begin(), below_[user].end());
      }
  }

  std::vector<fusion_group> run(fusion along) {
    for (std::size_t n = users_.size(); n-- > 0;) {
      std::vector<std::size_t> candidates;
      if (supported_[n]) candidates.push_back(begin_group(n));
      if (along == fusion::horizontal)
        for (auto const id : by_rank()) candidates.push_back(id);
      else if (supported_[n])
        for (auto const user : users_[n])
          if (group_of_.contains(user)) candidates.push_back(group_of_[user]);
      fold(candidates);
    }
    std::vector<fusion_group> list;
    for (auto const& [id, g] : groups_) list.push_back({id, {g.nodes.begin(), g.nodes.end()}});
    return list;
  }

 private:
  struct group {
    std::set<std::size_t> nodes, users, reach;
    std::size_t rank;
  };

  std::size_t begin_group(std::size_t n) {
    auto const id = next_++;
    group g{{n}, users_[n], {}, id};
    for (auto const m : below_[n])
      if (group_of_.contains(m)) {
        auto const& other = groups_.at(group_of_[m]);
        g.reach.insert(group_of_[m]);
        g.reach.insert(other.reach.begin(), other.reach.end());
      }
    groups_[id] = std::move(g);
    group_of_[n] = id;
    return id;
  }

  std::vector<std::size_t> by_rank() const {
    std::vector<std::size_t> ids;
    for (auto const& [id, g] : groups_) ids.push_back(id);
    std::ranges::sort(ids, {}, [&](std::size_t id) { return groups_.at(id).rank; });
    return ids;
  }

  void fold(std::vector<std::size_t> const& candidates) {
    std::vector<std::size_t> met;
    for (auto const id : candidates) {
      if (std::ranges::find(met, id) != met.end()) continue;
      met.push_back(id);
      current_ = met.size() == 1 ? id : merge(current_, id);
    }
  }

  std::size_t merge(std::size_t a, std::size_t b) {
    std::set<std::size_t> outside = groups_[a].users;
    outside.insert(groups_[b].users.begin(), groups_[b].users.end());
    for (auto const id : {a, b})
      for (auto const n : groups_[id].nodes) outside.erase(n);
    std::set<std::size_t> reached = outside;
    for (auto const n : outside) reached.insert(below_[n].begin(), below_[n].end());
    for (auto const n : reached) {
      if (!group_of_.contains(n)) continue;
      auto const id = group_of_[n];
      if (id == a || id == b || groups_[id].reach.contains(a) || groups_[id].reach.contains(b)) return a;
    }
    auto const [kept, gone] =
        groups_[a].nodes.size() < groups_[b].nodes.size() ? std::pair(b, a) : std::pair(a, b);
    group& whole = groups_[kept];
    group const other = groups_[gone];
    groups_.erase(gone);
    whole.nodes.insert(other.nodes.begin(), other.nodes.end());
    for (auto const n : other.nodes) group_of_[n] = kept;
    whole.users = outside;
    whole.rank = std::min(whole.rank, other.rank);
    whole.reach.insert(other.reach.begin(), other.reach.end());
    for (auto const n : reached)
      if (group_of_.contains(n)) whole.reach.insert(group_of_[n]);
    whole.reach.erase(kept);
    whole.reach.erase(gone);
    return kept;
  }

  std::vector<char> supported_;
  std::vector<std::set<std::size_t>> users_, below_;
  std::map<std::size_t, group> groups_;  // by id
  std::map<std::size_t, std::size_t> group_of_;
  std::size_t next_ = 0, current_ = 0;
};

}  // namespace cleave::testing
