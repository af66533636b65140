// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/program_agreement.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::detail {

/// The copies of one tensor on this rank: at least one, all of the same type and size.
using gradient_copies = std::vector<region>;

/// Packs gradients into a few contiguous buckets, so that one all-reduce serves many tensors. Packing adds
/// the local copies of a tensor in list order; unpacking writes the result to all of them.
template <device D>
class gradient_buckets {
 public:
  /// Makes buckets of tensors of one type, in order, of at most `most_bytes` bytes unless a single tensor is
  /// larger. Each tensor begins at a multiple of 16 bytes; the padding has no meaning. If the tensors of a
  /// bucket have one copy each and already lie contiguously with this alignment, their memory itself is the
  /// bucket and nothing is copied. This includes single tensors. O(tensors log tensors).
  gradient_buckets(D& d, std::vector<gradient_copies> const& tensors, std::size_t most_bytes) : device_(d) {
    std::vector<std::size_t> order(tensors.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    auto const type = [&](std::size_t i) { return tensors[i].front().type; };
    std::ranges::sort(order, {}, [&](std::size_t i) { return std::pair(type(i), i); });
    std::vector<gradient_copies const*> together;
    std::size_t bytes = 0;
    for (auto const i : order) {
      auto const more = tensors[i].front().bytes();
      if (!together.empty() && (type(i) != together.front()->front().type || bytes + more > most_bytes)) {
        add(together);
        together.clear();
        bytes = 0;
      }
      together.push_back(&tensors[i]);
      bytes += more;
    }
    if (!together.empty()) add(together);
  }

  std::vector<region> const& regions() const { return regions_; }

  /// Issues the copies that fill the buckets (`pack`) or empty them (`unpack`).
  void pack(typename D::stream& s) {
    for (auto& b : buckets_) {
      device_.accumulate(s, b.first, {.target = accumulate_options::target::overwritten});
      device_.accumulate(s, b.others, {});
    }
  }
  void unpack(typename D::stream& s) {
    for (auto& b : buckets_)
      device_.accumulate(s, b.back, {.target = accumulate_options::target::overwritten});
  }

 private:
  struct bucket {
    typename D::buffer memory;
    typename D::sums first, others, back;
  };

  static std::uint64_t aligned(std::uint64_t count, element_type t) {
    auto const unit = 16 / size_of(t);
    return (count + unit - 1) / unit * unit;
  }

  /// Returns the memory of tensors that already lie as in a bucket, without padding, or nothing.
  static std::optional<region> find_row(std::vector<gradient_copies const*> const& tensors) {
    region row{tensors.front()->front().data, 0, tensors.front()->front().type};
    for (auto const* t : tensors) {
      auto const& r = t->front();
      bool const follows = r.data == static_cast<std::byte*>(row.data) + row.bytes();
      if (t->size() > 1 || !follows || row.count != aligned(row.count, row.type)) return std::nullopt;
      row.count += r.count;
    }
    return row;
  }

  void add(std::vector<gradient_copies const*> const& tensors) {
    if (auto const row = find_row(tensors)) {
      regions_.push_back(*row);
      return;
    }
    auto const type = tensors.front()->front().type;
    std::uint64_t count = 0;
    for (auto const* t : tensors) count = aligned(count, type) + t->front().count;
    auto memory = device_.allocate(static_cast<std::size_t>(count) * size_of(type));
    void* const data = memory.data();
    auto* const start = static_cast<std::byte*>(data);
    std::vector<region_pair> first, others, back;
    std::uint64_t at = 0;
    for (auto const* t : tensors) {
      at = aligned(at, type);
      region const here{start + at * size_of(type), t->front().count, type};
      for (std::size_t c = 0; c < t->size(); ++c) {
        (c == 0 ? first : others).push_back({(*t)[c], here});
        back.push_back({here, (*t)[c]});
      }
      at += here.count;
    }
    regions_.push_back({start, count, type});
    buckets_.push_back(
        {std::move(memory), device_.make_sums(first), device_.make_sums(others), device_.make_sums(back)});
  }

  D& device_;
  std::vector<region> regions_;
  std::vector<bucket> buckets_;
};

/// The gradients of one stage of a rank.
struct gradients_of_stage {
  stage_id stage;
  std::vector<region> regions;
};

/// Sums gradients concurrently with other passes: those of a stage across its replicas, and tied gradients
/// across stages. Each sum is begun and ended once per step. Ties are summed after the replicas. Local copies
/// of a tied gradient are added first, in stage order. The ranks' sums follow in rank order if the
/// communicator fixes an order. All copies are equal afterwards.
template <device D, communicator<D> C>
class gradient_reducer {
 public:
  /// `replicas` has the ranks that run the same stages on other samples; null if no other rank runs them.
  /// `sets` are all ties. `tie_communicators[i]` has the ranks of set i; null if this rank holds none or all
  /// of it. All arguments must outlive the reducer, and gradients must not move. `bucket_bytes` is the size
  /// limit of a bucket.
  /// \throws tie_gradient_error if a tie names a gradient that its stage does not have
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
      add(of_ties_, stage_id{0}, first, tensors, others, bucket_bytes);
      std::vector<char> named(here.size());
      sets_.push_back({std::move(sets[i].stages), std::move(here), std::move(named)});
    }
  }

  /// Begins the sum of stage `s` over replicas. The gradients are complete after the work issued to
  /// `computing` so far.
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
    for (auto& r : of_stages_) r.state = phase::waiting;
    for (auto& r : of_ties_) r.state = phase::waiting;
    for (auto& s : sets_) std::ranges::fill(s.named, false);
  }

 private:
  enum class phase : std::uint8_t { waiting, begun, ended };
  struct reduction {
    stage_id stage;
    gradient_buckets<D> buckets;
    std::vector<typename D::event> ends;  // one per bucket
    C* with;                              // null: this rank has all copies
    std::uint32_t first_number;
    phase state = phase::waiting;
  };
  struct set_state {
    std::vector<stage_id> stages, here;
    std::vector<char> named;  // parallel to `here`
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
    // empty: skip, or the reduction stream would run after work that is never waited for
    if (r.ends.empty()) return;
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
  typename D::stream reducing_;  // last member, destroyed first: its pending work uses the others
};

}  // namespace cleave::detail

/// Before the first step, ranks check that the gradients to be summed match. A transport that does not send
/// sizes would otherwise add unrelated values or hang.
namespace cleave::detail {

/// A rank's declaration of one gradient of a stage, or of the number of gradients of the stage.
struct gradient_claim {
  static constexpr std::uint32_t all = 0xffffffff;

  stage_gradient of;  ///< position of the gradient in its stage, or `all`
  element_type type = element_type::f32;
  std::uint64_t count = 0;  ///< number of elements, or number of gradients if `of.number` is `all`

  bool operator==(gradient_claim const&) const = default;
};

/// Formats a claim: `gradient #1 of stage 2, 8 of f32`, or `3 gradients of stage 2`.
inline std::string describe(gradient_claim const& c) {
  auto const stage = " of stage " + std::to_string(index(c.of.stage)), count = std::to_string(c.count);
  if (c.of.number == gradient_claim::all) return count + " gradients" + stage;
  return "gradient #" + std::to_string(c.of.number) + stage + ", " + count + " of " +
         std::string(name_of(c.type));
}

/// Returns the claims for stage `s` with these gradients. O(gradients).
inline std::vector<gradient_claim> claims_of(stage_id s, std::span<region const> gradients) {
  std::vector<gradient_claim> made = {{{s, gradient_claim::all}, element_type::f32, gradients.size()}};
  for (std::uint32_t n = 0; n < gradients.size(); ++n)
    made.push_back({{s, n}, gradients[n].type, gradients[n].count});
  return made;
}

/// Returns the claims for all stages of rank `r`. Empty if they have no gradients. O(stages + gradients).
template <class S>
std::vector<gradient_claim> claims_of_rank(stage_placement const& on, rank_id r, S& stages) {
  std::vector<gradient_claim> made;
  if constexpr (parameter_stage<S>)
    for (std::uint32_t s = 0; s < on.stages(); ++s) {
      if (on.rank_of[s] != r) continue;
      auto const of_stage = claims_of(stage_id{s}, stages.gradients(stage_id{s}));
      made.insert(made.end(), of_stage.begin(), of_stage.end());
    }
  return made;
}

/// Describes a mismatch between gradients that are summed, either across replicas of a stage or within a tie.
/// Returns nothing if all match. `claims[r]` are those of rank r. O((claims + ties) log claims).
inline std::optional<std::string> find_gradient_disagreement(
    std::span<std::vector<gradient_claim> const> claims, std::span<tie_set const> sets) {
  struct said {
    gradient_claim what;
    std::uint32_t rank;
  };
  std::vector<said> all;
  for (std::uint32_t r = 0; r < claims.size(); ++r)
    for (auto const& c : claims[r]) all.push_back({c, r});
  std::ranges::sort(all, {}, [](said const& s) { return std::pair(s.what.of, s.rank); });
  auto const differ = [](said const& a, said const& b) {
    return describe(a.what) + ", on rank " + std::to_string(a.rank) + ", would be summed with " +
           describe(b.what) + ", on rank " + std::to_string(b.rank) + "; make both the same";
  };
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].what.of == all[i - 1].what.of && all[i].what != all[i - 1].what)
      return differ(all[i - 1], all[i]);

  auto const find = [&](stage_gradient g) {
    auto const at = std::ranges::lower_bound(all, g, {}, [](said const& s) { return s.what.of; });
    return at != all.end() && at->what.of == g ? &*at : nullptr;
  };
  for (auto const& set : sets)
    for (auto const& tie : set.ties)
      for (std::size_t i = 1; i < tie.size(); ++i) {
        auto const *const a = find(tie[i - 1]), *const b = find(tie[i]);
        if (a && b && (a->what.type != b->what.type || a->what.count != b->what.count)) return differ(*a, *b);
      }
  return std::nullopt;
}

/// Exchanges the claims of all ranks and compares them; all ranks find the same mismatch. Collective: each of
/// the `ranks` ranks of the rendezvous calls it.
/// \throws disagreement_error on all ranks if gradients do not match; run_error if a rank is lost or late
template <collective_rendezvous B>
void agree_on_gradients(B& rendezvous, std::vector<gradient_claim> own, rank_id here, std::uint32_t ranks,
                        std::span<tie_set const> sets, std::chrono::steady_clock::time_point until) {
  constexpr std::size_t at_once = 4096;  // elements per broadcast, within the message limit of a rendezvous
  std::vector<std::vector<gradient_claim>> all(ranks);
  all[index(here)] = std::move(own);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::uint64_t count = all[r].size();
    rendezvous.broadcast(std::as_writable_bytes(std::span(&count, 1)), rank_id{r}, until);
    all[r].resize(static_cast<std::size_t>(count));
    for (std::size_t first = 0; first < all[r].size(); first += at_once) {
      auto const some = std::span(all[r]).subspan(first, (std::min)(at_once, all[r].size() - first));
      rendezvous.broadcast(std::as_writable_bytes(some), rank_id{r}, until);
    }
  }
  if (auto what = find_gradient_disagreement(all, sets)) throw disagreement_error({*std::move(what)});
}

}  // namespace cleave::detail
