// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_needs.hpp"
#include "cleave/schedule/verify/rank_channels.hpp"

namespace cleave::detail {

/// Where a rank receives from another in a different order than that one sends. Where messages are not told
/// apart by name, this swaps two values in silence.
struct channel_mismatch {
  rank_id from, to;
  std::size_t place;  ///< how many messages go before, from `from` to `to`
  action sent, received;

  bool operator==(channel_mismatch const&) const = default;
};

/// What goes from each rank to each other, in the order of either.
class channel_survey {
 public:
  /// \throws placement_error, schedule_count_error
  explicit channel_survey(schedule const& s) : needs_(s), channels_(s.place), present_(needs_.events()) {
    for (auto const& row : s.ranks) each_end(row, [&](std::uint32_t end, auto) { present_[end] = 1; });
    sent_.resize(channels_.count());
    received_.resize(channels_.count());
    for (auto const& row : s.ranks)
      each_end(row, [&](std::uint32_t end, std::uint32_t c) {
        if (present_[schedule_needs::other_end(end)]) (end % 2 == 0 ? sent_ : received_)[c].push_back(end);
      });
  }

  std::optional<channel_mismatch> find() const {
    for (std::uint32_t c = 0; c < channels_.count(); ++c)
      for (std::size_t i = 0; i < (std::min)(sent_[c].size(), received_[c].size()); ++i)
        if (sent_[c][i] != schedule_needs::other_end(received_[c][i]))
          return channel_mismatch{channels_[c].first, channels_[c].second, i, needs_.action_of(sent_[c][i]),
                                  needs_.action_of(received_[c][i])};
    return std::nullopt;
  }

 private:
  template <class F>
  void each_end(std::vector<action> const& row, F f) const {
    for (action const& a : row) {
      if (!is_send(a.kind) && !is_receive(a.kind)) continue;
      auto const end = needs_.message_end(a);
      if (end == schedule_needs::none) continue;
      f(end, channels_.of(needs_.edge_of(a), flow_of(a)));
    }
  }

  schedule_needs needs_;
  rank_channels channels_;
  std::vector<char> present_;
  std::vector<std::vector<std::uint32_t>> sent_, received_;
};

/// The first place where a rank receives in another order than is sent to it, of the messages that have both
/// ends; or nothing. O(actions + edges log edges). \throws placement_error, schedule_count_error
inline std::optional<channel_mismatch> find_channel_mismatch(schedule const& s) {
  return channel_survey(s).find();
}

}  // namespace cleave::detail
