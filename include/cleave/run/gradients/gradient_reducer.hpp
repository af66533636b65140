// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/gradients/gradient_buckets.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2::detail {

/// The gradients of one stage of a rank.
struct gradients_of_stage {
  stage_id stage;
  std::vector<region> regions;
};

/// Sums gradients concurrently with other passes: those of a stage across its replicas, and tied gradients
/// across stages. Each sum is begun and ended once per step. The sum of a stage can begin in parts: a bucket
/// begins once all its gradients are reported and the buckets before it have begun, so all replicas begin
/// them in one order. Ties are summed after the replicas. Local copies of a tied gradient are added first, in
/// stage order. The ranks' sums follow in rank order if the communicator fixes an order. All copies are equal
/// afterwards.
template <device D, communicator<D> C>
class gradient_reducer {
 public:
  /// `replicas` has the ranks that run the same stages on other samples; null if no other rank runs them.
  /// `sets` are all ties. `tie_communicators[i]` has the ranks of set i; null if this rank holds none or all
  /// of it. All arguments must outlive the reducer, and gradients must not move.
  /// \throws tie_gradient_error if a tie names a gradient that its stage does not have; bucket_error
  gradient_reducer(D& d, std::span<gradients_of_stage const> stages, C* replicas,
                   std::vector<tie_set> sets = {}, std::vector<C*> tie_communicators = {},
                   bucket_rules const& rules = {})
      : device_(d), replicas_(replicas), ready_(d.make_event()), reducing_(d.make_stream(-1)) {
    std::uint32_t number = 0;
    for (auto const& s : stages)
      if (replicas_) add_stage(s, number, rules);
    for (std::size_t i = 0; i < sets.size(); ++i) {
      for (auto const& s : stages)
        if (auto const g = find_missing_tied_gradient(sets[i], s.stage, s.regions.size()))
          throw tie_gradient_error("ties: stage " + std::to_string(index(g->stage)) + " has " +
                                       std::to_string(s.regions.size()) +
                                       " gradients, but a tie names gradient #" + std::to_string(g->number) +
                                       "; number them from 0",
                                   *g);
      std::vector<gradient_copies> tensors;
      std::vector<stage_id> here;
      for (auto const& t : sets[i].ties) {
        gradient_copies copies;
        for (auto const& g : t) {
          auto const own = std::ranges::find(stages, g.stage, &gradients_of_stage::stage);
          if (own == stages.end()) continue;
          copies.push_back(own->regions[g.number]);
          here.push_back(g.stage);
        }
        if (!copies.empty()) tensors.push_back(std::move(copies));
      }
      std::ranges::sort(here);
      here.erase(std::ranges::unique(here).begin(), here.end());
      auto* const others = i < tie_communicators.size() ? tie_communicators[i] : nullptr;
      std::uint32_t first = 0;  // each set has a communicator of its own
      add(of_ties_, stage_id{0}, first, packed_together(tensors, rules.most_bytes), others);
      std::vector<char> named(here.size());
      sets_.push_back({std::move(sets[i].stages), std::move(here), std::move(named)});
    }
  }

  /// Registers the memory of all sums, and opens their connections. Collective over the ranks of each
  /// communicator; blocks until done.
  /// \throws run_error
  void open_sums() {
    for (auto* const all : {&of_stages_, &of_ties_})
      for (auto& r : *all)
        for (std::size_t g = 0; r.with && g < r.ends.size(); ++g)
          r.registrations.push_back(registered<D>(*r.with, r.groups.at(g)));
    if constexpr (connecting_communicator<C, D>) {
      std::vector<region> of_replicas;
      for (auto& r : of_stages_)
        for (std::size_t g = 0; g < r.ends.size(); ++g) of_replicas.push_back(r.groups.at(g));
      if (replicas_) replicas_->open_sums(of_replicas, reducing_);
      for (auto& r : of_ties_) {
        std::vector<region> sums;
        for (std::size_t g = 0; r.with && g < r.ends.size(); ++g) sums.push_back(r.groups.at(g));
        if (r.with) r.with->open_sums(sums, reducing_);
      }
    }
  }

  /// Reports gradient `n` of stage `s`, which is complete after the work issued to `computing` so far. Begins
  /// the buckets that are now complete, and lets sums that have begun make progress.
  /// \throws error if the stage does not have that gradient
  void report(stage_id s, std::uint32_t n, typename D::stream& computing) {
    auto* r = find(s);
    if (!r || r->state != phase::waiting) return;
    if (n >= r->group_of.size())
      throw error("gradients: stage " + std::to_string(index(s)) + " has " +
                  std::to_string(r->group_of.size()) + " gradients, but reports #" + std::to_string(n) +
                  " as ready; number them from 0");
    if (!std::exchange(r->reported[n], 1)) --r->missing[r->group_of[n]];
    while (r->begun < r->missing.size() && r->missing[r->begun] == 0) begin_next(*r, computing);
    if (r->begun > 0) (void)device_.query(r->ends[r->begun - 1]);
  }

  /// Begins the sum of stage `s` over replicas, or what is left of it. The gradients are complete after the
  /// work issued to `computing` so far.
  void begin_replicas(stage_id s, typename D::stream& computing) {
    if (auto* r = find(s)) begin(*r, computing);
  }
  /// Makes all work issued to `computing` from now on wait for the sums.
  void end_replicas(stage_id s, typename D::stream& computing) {
    if (auto* r = find(s)) end(*r, computing);
  }

  /// Skips the sum in this step, because other code computes it.
  void leave_replicas(stage_id s) {
    if (auto* r = find(s)) r->state = phase::ended;
  }

  /// Names stage `s` in a tie set, and begins the sum once all stages of this rank in the set have been
  /// named. The set is the first in which `peer` follows `s` and `s` has not been named yet. If two sets
  /// contain the same pair, calls name them in the order in which the sets begin. `end_tie` and `leave_tie`
  /// are analogous to the calls for replicas.
  void begin_tie(stage_id s, stage_id peer, typename D::stream& computing) {
    auto const i = name(s, peer);
    if (i && std::ranges::find(sets_[*i].named, false) == sets_[*i].named.end()) begin_set(*i, computing);
  }
  void end_tie(stage_id s, stage_id peer, typename D::stream& computing) {
    for (std::size_t i = 0; i < sets_.size(); ++i)
      if (of_ties_[i].state == phase::begun && follows(sets_[i].stages, s, peer))
        return end(of_ties_[i], computing);
  }

  void leave_tie(stage_id s, stage_id peer) {
    if (auto const i = name(s, peer)) of_ties_[*i].state = phase::ended;
  }

  /// Begins and ends all sums that are still open, and resets the state for the next step.
  void end_all(typename D::stream& computing) {
    for (auto& r : of_stages_) begin(r, computing);
    for (auto& r : of_stages_) end(r, computing);
    for (std::size_t i = 0; i < sets_.size(); ++i) begin_set(i, computing);
    for (auto& r : of_ties_) end(r, computing);
    for (auto& r : of_stages_) reset(r);
    for (auto& r : of_ties_) reset(r);
    for (auto& s : sets_) std::ranges::fill(s.named, false);
  }

 private:
  enum class phase : std::uint8_t { waiting, begun, ended };
  struct reduction {
    stage_id stage;
    packed_gradients<D> groups;
    std::vector<registration_of<D, C>> registrations;  // by group
    std::vector<typename D::event> ends;               // by group
    C* with;                                           // null: this rank has all copies
    std::uint32_t first_number;
    tensor_positions group_of = {};  // by gradient of the stage; empty for ties
    std::vector<char> reported = {};
    std::vector<std::uint32_t> sizes = {}, missing = {};  // by group: gradients, those not yet reported
    std::uint32_t begun = 0;                              // groups
    phase state = phase::waiting;
  };
  struct set_state {
    std::vector<stage_id> stages, here;
    std::vector<char> named;  // parallel to `here`
  };

  reduction& add(std::vector<reduction>& to, stage_id s, std::uint32_t& number,
                 std::vector<gradient_group> const& groups, C* with) {
    auto where = sum_memory::any;
    if constexpr (registering_communicator<C, D>)
      if (with) where = with->wanted_sum_memory();
    auto& r = to.emplace_back(reduction{s, {device_, groups, where}, {}, {}, with, number});
    for (std::size_t g = 0; g < groups.size(); ++g) r.ends.push_back(device_.make_event());
    number += static_cast<std::uint32_t>(groups.size());
    return r;
  }
  void add_stage(gradients_of_stage const& s, std::uint32_t& number, bucket_rules const& rules) {
    auto const positions = gradient_groups(s.stage, s.regions, rules);
    std::vector<gradient_group> groups;
    for (auto const& list : positions) {
      auto& made = groups.emplace_back();
      for (auto const n : list) made.push_back({s.regions[n]});
    }
    auto& r = add(of_stages_, s.stage, number, groups, replicas_);
    r.group_of.resize(s.regions.size());
    r.reported.resize(s.regions.size());
    for (std::uint32_t g = 0; g < positions.size(); ++g) {
      for (auto const n : positions[g]) r.group_of[n] = g;
      r.sizes.push_back(static_cast<std::uint32_t>(positions[g].size()));
    }
    r.missing = r.sizes;
  }
  static void reset(reduction& r) {
    r.state = phase::waiting;
    r.begun = 0;
    r.missing = r.sizes;
    std::ranges::fill(r.reported, 0);
  }

  reduction* find(stage_id s) {
    auto const at = std::ranges::find(of_stages_, s, &reduction::stage);
    return at == of_stages_.end() ? nullptr : &*at;
  }

  static bool follows(std::vector<stage_id> const& stages, stage_id s, stage_id peer) {
    auto const at = std::ranges::find(stages, s);
    if (at == stages.end()) return false;
    return peer == (at + 1 == stages.end() ? stages.front() : *(at + 1));
  }

  std::optional<std::size_t> name(stage_id s, stage_id peer) {
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      auto& set = sets_[i];
      auto const at = std::ranges::find(set.here, s) - set.here.begin();
      if (follows(set.stages, s, peer) && at < std::ssize(set.here) &&
          !std::exchange(set.named[static_cast<std::size_t>(at)], true))
        return i;
    }
    return std::nullopt;
  }

  void begin_set(std::size_t i, typename D::stream& computing) {
    if (of_ties_[i].state != phase::waiting) return;
    for (auto const s : sets_[i].here) {
      begin_replicas(s, computing);
      end_replicas(s, computing);
    }
    begin(of_ties_[i], computing);
  }

  void begin(reduction& r, typename D::stream& computing) {
    if (r.state != phase::waiting) return;
    r.state = phase::begun;
    while (r.begun < r.ends.size()) begin_next(r, computing);
  }

  void begin_next(reduction& r, typename D::stream& computing) {
    auto const g = r.begun++;
    device_.record(ready_, computing);
    device_.wait(reducing_, ready_);
    r.groups.pack(g, reducing_);
    if (!r.with) return device_.record(r.ends[g], reducing_);
    r.with->begin_group();
    r.with->all_reduce(r.groups.at(g), reduce_op::sum, r.first_number + g, reducing_);
    r.with->end_group(r.ends[g], reducing_);
  }

  void end(reduction& r, typename D::stream& computing) {
    if (r.state != phase::begun) return;
    r.state = phase::ended;
    for (std::size_t g = 0; g < r.ends.size(); ++g) {
      device_.wait(computing, r.ends[g]);
      r.groups.unpack(g, computing);
    }
  }

  D& device_;
  C* replicas_;
  typename D::event ready_;
  std::vector<reduction> of_stages_, of_ties_;
  std::vector<set_state> sets_;
  typename D::stream reducing_;  // last member, destroyed first: its pending work uses the others
};

}  // namespace cleave::detail
