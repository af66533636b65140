// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/gradients/gradient_buckets.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::detail {

/// The gradients of one stage of a rank.
struct gradients_of_stage {
  stage_id stage;
  std::vector<region> regions;
};

/// Sums gradients, while other passes go on: of a stage across its replicas, and of what stages share across
/// them. A sum is begun once and ended once in a step. Sums of ties are of what replicas have summed. Local
/// copies of a tied gradient are added first, in the order of their stages, then those of the ranks, in
/// theirs, where the communicator keeps an order; all copies are equal afterwards.
template <device D, communicator<D> C>
class gradient_reducer {
 public:
  /// `replicas` are the ranks that run the same stages on other samples; null: there are none. `sets` are all
  /// ties; `tie_communicators[i]` has the ranks of set i, null where this rank holds none or all of it. All
  /// must outlive it; gradients stay where they are. \throws tie_gradient_error
  gradient_reducer(D& d, std::span<gradients_of_stage const> stages, C* replicas,
                   std::vector<tie_set> sets = {}, std::vector<C*> tie_communicators = {},
                   std::size_t bucket_bytes = std::size_t{25} << 20)
      : device_(d), replicas_(replicas), ready_(d.make_event()), reducing_(d.make_stream(-1)) {
    std::uint32_t number = 0;
    for (auto const& s : stages) {
      std::vector<gradient_copies> tensors;
      for (auto const& r : s.regions) tensors.push_back({r});
      if (replicas_) add(of_stages_, s.stage, number, tensors, replicas_, bucket_bytes);
    }
    for (std::size_t i = 0; i < sets.size(); ++i) {
      for (auto const& s : stages)
        if (auto const g = find_missing_tied_gradient(sets[i], s.stage, s.regions.size()))
          throw tie_gradient_error(*g, s.regions.size());
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
      add(of_ties_, stage_id{0}, first, tensors, others, bucket_bytes);
      std::vector<char> named(here.size());
      sets_.push_back({std::move(sets[i].stages), std::move(here), std::move(named)});
    }
  }

  /// The gradients of a stage are complete behind what was issued to `computing`.
  void begin_replicas(stage_id s, typename D::stream& computing) {
    if (auto* r = find(s)) begin(*r, computing);
  }
  /// What is issued to `computing` from now on sees the sums.
  void end_replicas(stage_id s, typename D::stream& computing) {
    if (auto* r = find(s)) end(*r, computing);
  }

  /// Somebody else sums them in this step.
  void leave_replicas(stage_id s) {
    if (auto* r = find(s)) r->state = phase::ended;
  }

  /// The same of the first set in which `peer` follows `s` and `s` has not been named, once all stages that
  /// this rank has of it have. So where two sets have the same pair, they are given in the order in which
  /// they begin.
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

  /// Begins and ends what has not been, and is ready for the next step.
  void end_all(typename D::stream& computing) {
    for (auto& r : of_stages_) begin(r, computing);
    for (auto& r : of_stages_) end(r, computing);
    for (std::size_t i = 0; i < sets_.size(); ++i) begin_set(i, computing);
    for (auto& r : of_ties_) end(r, computing);
    for (auto& r : of_stages_) r.state = phase::waiting;
    for (auto& r : of_ties_) r.state = phase::waiting;
    for (auto& s : sets_) std::ranges::fill(s.named, false);
  }

 private:
  enum class phase : std::uint8_t { waiting, begun, ended };
  struct reduction {
    stage_id stage;
    gradient_buckets<D> buckets;
    std::vector<typename D::event> ends;  // of each bucket
    C* with;                              // null: this rank has all copies
    std::uint32_t first_number;
    phase state = phase::waiting;
  };
  struct set_state {
    std::vector<stage_id> stages, here;
    std::vector<char> named;  // which of `here`
  };

  void add(std::vector<reduction>& to, stage_id s, std::uint32_t& number,
           std::vector<gradient_copies> const& tensors, C* with, std::size_t bucket_bytes) {
    auto& r = to.emplace_back(reduction{s, {device_, tensors, bucket_bytes}, {}, with, number});
    for (std::size_t b = 0; b < r.buckets.regions().size(); ++b) r.ends.push_back(device_.make_event());
    number += static_cast<std::uint32_t>(r.ends.size());
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
    if (r.ends.empty()) return;  // else its stream would go on behind nothing that anybody waits for
    device_.record(ready_, computing);
    device_.wait(reducing_, ready_);
    r.buckets.pack(reducing_);
    for (std::size_t b = 0; b < r.ends.size(); ++b) {
      if (!r.with) {
        device_.record(r.ends[b], reducing_);
        continue;
      }
      r.with->begin_group();
      r.with->all_reduce(r.buckets.regions()[b], reduce_op::sum,
                         r.first_number + static_cast<std::uint32_t>(b), reducing_);
      r.with->end_group(r.ends[b], reducing_);
    }
  }

  void end(reduction& r, typename D::stream& computing) {
    if (r.state != phase::begun) return;
    r.state = phase::ended;
    for (auto const& e : r.ends) device_.wait(computing, e);
    r.buckets.unpack(computing);
  }

  D& device_;
  C* replicas_;
  typename D::event ready_;
  std::vector<reduction> of_stages_, of_ties_;
  std::vector<set_state> sets_;
  typename D::stream reducing_;  // last: what it still does uses all else
};

}  // namespace cleave::detail
