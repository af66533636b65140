// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/backward/ties.hpp>
#include <cleave/core/error.hpp>
#include <cleave/core/ids.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/core/rank_grid.hpp>
#include <cleave/formats/json/json_writer.hpp>
#include <cleave/run/rendezvous/host_list.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "files.hpp"
#include "terminal.hpp"

namespace tool {

/// A weight in several stages.
struct tied_weight {
  std::string name;
  std::vector<cleave::stage_id> stages;
};

/// The hosts of the ranks of a pipeline and of its copies. Ranks are numbered stage by stage.
class placed_ranks {
 public:
  /// Reads a list of hosts for `stages` stages. `rank_of` is the rank of each stage in the pipeline; if it is
  /// empty, each stage has its own.
  /// \throws cleave::error with the file, if the slots are not a multiple of the ranks of the pipeline
  placed_ranks(fs::path const& file, std::size_t stages, std::span<cleave::rank_id const> rank_of)
      : grid_({1, 1, 1}, order) {
    auto const refuse = [&](std::string const& why) { throw cleave::error(input_name(file) + ": " + why); };
    auto const text = read_text(file);
    try {
      hosts_ = cleave::read_hosts(text);
    } catch (cleave::error const& e) {
      refuse(e.what());
    }
    for (std::size_t i = 0; i < stages; ++i)
      rank_of_.push_back(rank_of.empty() ? static_cast<std::uint32_t>(i) : index(rank_of[i]));
    std::uint32_t slots = 0, ranks = 1;
    for (auto const& h : hosts_) {
      slots += h.slots;
      end_.push_back(slots);
    }
    for (auto const r : rank_of_) ranks = std::max(ranks, r + 1);
    if (slots % ranks != 0)
      refuse("the hosts have " + plural(slots, "slot") + ", which is not a multiple of the " +
             plural(ranks, "rank") + " of the pipeline; change slots=");
    grid_ = cleave::rank_grid({ranks, slots / ranks, 1}, order);
  }

  /// Returns a line for each stage, and one for each tied weight.
  std::vector<std::string> lines(std::span<tied_weight const> ties) const {
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < rank_of_.size(); ++i) {
      auto const ranks = grid_.ranks_at(cleave::rank_axis::pipe, rank_of_[i]);
      std::vector<std::string> names;
      for (auto const r : ranks)
        if (auto name = host_of(r); names.empty() || names.back() != name) names.push_back(std::move(name));
      auto const number = [](cleave::rank_id r) { return std::to_string(index(r)); };
      lines.push_back("stage " + std::to_string(i) + " on " +
                      first_of(names, 8, [](auto const& name) { return cleave::printable(name, 60); }) +
                      ", " +
                      (ranks.size() == 1 ? "rank " + number(ranks[0])
                                         : "ranks " + number(ranks.front()) + " to " + number(ranks.back())));
    }
    for (auto const& t : ties) {
      auto const groups = groups_of(t);
      if (groups.empty()) continue;
      lines.push_back("gradients of " + cleave::quoted(t.name) + " are summed over the ranks " +
                      first_of(groups, 4, [](auto const& group) {
                        return "{" + first_of(group, 64, [](auto r) { return std::to_string(index(r)); }) +
                               "}";
                      }));
    }
    return lines;
  }

  /// Writes `hosts`, the host of each rank.
  void add_to(cleave::json::writer& json) const {
    json.key("hosts").open_array();
    for (std::uint32_t r = 0; r < grid_.size(); ++r) json.value(host_of(cleave::rank_id{r}));
    json.close_array();
  }

  /// Returns the groups of ranks that hold copies of a weight; none if one rank of the pipeline has them all.
  std::vector<std::vector<cleave::rank_id>> groups_of(tied_weight const& t) const {
    std::vector<std::uint32_t> ranks;
    for (auto const stage : t.stages) ranks.push_back(rank_of_[index(stage)]);
    std::ranges::sort(ranks);
    ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
    cleave::tie tie{t.name, {}};
    for (auto const r : ranks) tie.members.push_back({t.name, t.name, cleave::stage_id{r}});
    if (ranks.size() < 2) return {};
    return cleave::detail::ranks_of_tie(grid_, tie).groups;
  }

 private:
  static constexpr cleave::rank_grid::axes order{cleave::rank_axis::pipe, cleave::rank_axis::data,
                                                 cleave::rank_axis::model};

  /// O(log hosts).
  std::string host_of(cleave::rank_id r) const {
    auto const at = std::ranges::upper_bound(end_, index(r)) - end_.begin();
    auto const& address = hosts_[static_cast<std::size_t>(at)].address;
    return address.host + (address.port > 0 ? ":" + std::to_string(address.port) : "");
  }

  std::vector<cleave::listed_host> hosts_;
  std::vector<std::uint32_t> end_;      // per host: the first rank behind it
  std::vector<std::uint32_t> rank_of_;  // per stage: its rank in the pipeline
  cleave::rank_grid grid_;
};

}  // namespace tool
