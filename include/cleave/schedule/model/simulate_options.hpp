// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/one_or_each.hpp"
#include "cleave/core/random.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The timing of the parts of a compound, unless the stage of its forward pass has a duration for the whole
/// (`stage_cost::overlapped`). In all cases other ranks see its results when the whole compound is done.
enum class compound_time : std::uint8_t {
  one_after_the_other,  ///< sequential; each part waits only for its own dependencies
  longest_part,         ///< concurrent, once all parts can begin
  in_turn,              ///< sequential, once all parts can begin
};

/// The behaviour of a rank while its messages move.
enum class message_time : std::uint8_t {
  overlapped,  ///< it computes; a message begins to move when both ends have begun
  /// Nothing else: the sender is busy until all bytes have left, the receiver waits until they have arrived.
  within,
};

/// The speed of messages from one rank to another. Messages of a directed pair of ranks leave one after the
/// other, in the order in which they are sent.
struct rank_link {
  double latency = 0;  ///< from the departure of the last byte to the arrival
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes per unit of time

  bool operator==(rank_link const&) const = default;
};

/// A connection that all messages share which leave or enter a group of ranks, such as the network card of a
/// host. Those that leave do not delay those that enter.
struct rank_uplink {
  std::vector<rank_id> ranks = {};                             ///< the ranks of the group
  double bandwidth = std::numeric_limits<double>::infinity();  ///< bytes per unit of time, in each direction

  bool operator==(rank_uplink const&) const = default;
};

/// The options of `simulate`. All times are in one unit of the caller's choice.
struct simulate_options {
  /// One per stage, or one for all stages. If empty, F, I and W take 1 and B takes 2.
  std::vector<stage_cost> costs = {};
  double base_latency = 0;  ///< of every message, added to the latency of its link
  /// One per pair of ranks, that from r to q at index r · ranks + q, or one for all. If empty, links add no
  /// time.
  std::vector<rank_link> links = {};
  /// A message begins to leave once its link and the uplinks on its way are free; the slowest of them
  /// determines when its last byte has left.
  std::vector<rank_uplink> uplinks = {};
  std::vector<edge_bytes> bytes = {};  ///< one per edge of the placement, or one for all; if empty, 0 bytes
  compound_time compounds = compound_time::one_after_the_other;
  message_time messages = message_time::overlapped;
  double noise = 0;  ///< the maximum relative deviation of each time, from 0 to 1
  /// The seed of the noise.
  std::uint64_t seed = 0;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// An invalid option.
struct simulate_option_fault {
  static constexpr char subject[] = "simulate: ";
  enum class kind : std::uint8_t {
    cost_count,  ///< `at` costs were given for `allowed` stages
    link_count,  ///< `at` links were given for `allowed` pairs of ranks
    byte_count,  ///< `at` byte counts were given for `allowed` edges
    cost,        ///< a cost of stage `at` is out of range; `stage_cost_error` names it
    base_latency,
    latency,           ///< of link `at`
    bandwidth,         ///< of link `at`
    too_long,          ///< the largest message takes too long over link `at`
    uplink_rank,       ///< uplink `at` names rank `allowed`, which does not exist or is named twice
    uplink_bandwidth,  ///< of uplink `at`
    uplink_within,     ///< uplinks need `message_time::overlapped`
    noise,
  };
  kind what;
  std::uint64_t at = 0, allowed = 0;

  bool operator==(simulate_option_fault const&) const = default;
};

/// Returns a sentence that names the fault and a remedy.
inline std::string describe(simulate_option_fault const& f) {
  using enum simulate_option_fault::kind;
  auto const at = std::to_string(f.at), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case cost_count:
      return at + " costs for " + allowed + " stages; give one per stage, one for all, or none";
    case link_count:
      return at + " links for " + allowed + " pairs of ranks; give one per pair, one for all, or none";
    case byte_count:
      return at + " byte counts for " + allowed + " edges; give one per edge, one for all, or none";
    case cost:
      return "each cost of stage " + at + " must be a time from 0 to 1e100";
    case base_latency:
      return "base_latency must be a time from 0 to 1e100";
    case latency:
      return "the latency of link #" + at + " must be a time from 0 to 1e100";
    case bandwidth:
      return "the bandwidth of link #" + at + " must be above 0; omit it if bytes take no time";
    case too_long:
      return "the largest message takes more than 1e100 over link #" + at + "; give it more bandwidth";
    case uplink_rank:
      return "uplink #" + at + " names rank " + allowed + ", which does not exist or is named twice";
    case uplink_bandwidth:
      return "the bandwidth of uplink #" + at +
             " must be above 0, and enough to move the largest message within 1e100";
    case uplink_within:
      return "messages within their ranks have no uplinks; use message_time::overlapped, or omit uplinks";
    case noise:
      return "noise must be from 0 to 1";
  }
  return {};
}

using simulate_option_error = fault_error<simulate_option_fault>;

/// Returns the bytes of the largest message. O(edges).
inline std::uint64_t largest_message(simulate_options const& o) {
  std::uint64_t most = 0;
  for (auto const& e : o.bytes) most = (std::max)({most, e.activation, e.gradient});
  return most;
}

/// Returns the first invalid link, or nothing. O(links + edges).
inline std::optional<simulate_option_fault> find_link_fault(simulate_options const& o) {
  using enum simulate_option_fault::kind;
  auto const most = largest_message(o);
  for (std::size_t i = 0; i < o.links.size(); ++i) {
    auto const [late, wide] = o.links[i];
    if (!(late >= 0 && late <= longest_cost)) return simulate_option_fault{latency, i};
    if (!(wide > 0)) return simulate_option_fault{bandwidth, i};
    if (!(static_cast<double>(most) / wide <= longest_cost)) return simulate_option_fault{too_long, i};
  }
  return std::nullopt;
}

/// Returns the first invalid uplink of `ranks` ranks, or nothing. O(uplinks · ranks + edges).
inline std::optional<simulate_option_fault> find_uplink_fault(simulate_options const& o,
                                                              std::uint64_t ranks) {
  using enum simulate_option_fault::kind;
  if (!o.uplinks.empty() && o.messages == message_time::within) return simulate_option_fault{uplink_within};
  auto const most = static_cast<double>(largest_message(o));
  for (std::size_t i = 0; i < o.uplinks.size(); ++i) {
    auto const wide = o.uplinks[i].bandwidth;
    if (!(wide > 0) || !(most / wide <= longest_cost)) return simulate_option_fault{uplink_bandwidth, i};
    std::vector<bool> is_member(ranks);
    for (auto const r : o.uplinks[i].ranks) {
      if (index(r) >= ranks || is_member[index(r)]) return simulate_option_fault{uplink_rank, i, index(r)};
      is_member[index(r)] = true;
    }
  }
  return std::nullopt;
}

/// Returns the first option that is invalid for a placement, or nothing. O(stages + edges + links).
inline std::optional<simulate_option_fault> find_simulate_option_fault(simulate_options const& o,
                                                                       stage_placement const& p) {
  using enum simulate_option_fault::kind;
  auto const pairs = std::uint64_t{p.ranks} * p.ranks;
  if (!one_or_each(o.costs).covers(p.stages()))
    return simulate_option_fault{cost_count, o.costs.size(), p.stages()};
  if (!one_or_each(o.links).covers(pairs)) return simulate_option_fault{link_count, o.links.size(), pairs};
  if (!one_or_each(o.bytes).covers(p.edges.size()))
    return simulate_option_fault{byte_count, o.bytes.size(), p.edges.size()};
  if (auto const f = find_stage_cost_fault(o.costs)) return simulate_option_fault{cost, index(f->stage)};
  if (!(o.base_latency >= 0 && o.base_latency <= longest_cost)) return simulate_option_fault{base_latency};
  if (auto const f = find_link_fault(o)) return f;
  if (auto const f = find_uplink_fault(o, p.ranks)) return f;
  if (!(o.noise >= 0 && o.noise <= 1)) return simulate_option_fault{noise};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The random factor of each time. It depends only on the seed and on the action or message, not on when or
/// in which order the factors are requested.
class noise {
 public:
  /// Precondition: `most`, the maximum relative deviation, is from 0 to 1.
  noise(double most, std::uint64_t seed) : most_(most), seed_(seed) {}

  /// Returns the factor of an action of stage `subject`, or of a message along edge `subject`.
  double factor(action_kind what, std::uint32_t subject, microbatch_id m) const {
    if (most_ == 0) return 1;
    splitmix place(seed_ ^ (std::uint64_t{subject} << 32 | index(m)));
    splitmix mixed(place.next() + static_cast<std::uint64_t>(what));
    return 1 + most_ * (2 * mixed.unit() - 1);
  }

 private:
  double most_;
  std::uint64_t seed_;
};
/// Counts of forward passes whose saved activations are still kept for their backward passes.
struct kept_passes {
  std::uint64_t passes = 0;        ///< (stage, microbatch) pairs, from F to B or W
  std::uint64_t microbatches = 0;  ///< distinct microbatches among these pairs

  bool operator==(kept_passes const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the maxima of both counts for each rank, counting the parts of a compound in order. An I pass
/// frees nothing. Actions with a microbatch out of range are ignored. O(actions + ranks · microbatches).
inline std::vector<kept_passes> most_kept_passes(schedule const& s) {
  std::vector<kept_passes> most(s.ranks.size());
  std::vector<std::uint32_t> of_microbatch(s.microbatches);
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    kept_passes now;
    std::ranges::fill(of_microbatch, 0);
    each_action(s.ranks[r], [&](action const& a) {
      if (!is_compute(a.kind) || index(a.microbatch) >= s.microbatches) return;
      auto& kept = of_microbatch[index(a.microbatch)];
      if (a.kind == action_kind::forward) {
        ++now.passes;
        if (kept++ == 0) ++now.microbatches;
      } else if (a.kind != action_kind::input_gradient && kept > 0) {
        --now.passes;
        if (--kept == 0) --now.microbatches;
      }
      most[r].passes = (std::max)(most[r].passes, now.passes);
      most[r].microbatches = (std::max)(most[r].microbatches, now.microbatches);
    });
  }
  return most;
}

}  // namespace cleave::detail
