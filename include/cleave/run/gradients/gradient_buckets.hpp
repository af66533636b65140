// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::inline v0_2 {

/// Gradients of one stage that are summed over replicas together. The sum begins inside the last backward
/// pass of the stage, as soon as the stage has reported them all (`stage_pass::ready`) and the buckets of the
/// stage that are listed before have begun.
struct gradient_bucket {
  stage_id stage;
  std::vector<std::uint32_t> gradients;  ///< positions among the gradients of the stage

  bool operator==(gradient_bucket const&) const = default;
};

/// The reason why a plan of buckets does not fit the stages.
struct bucket_fault {
  static constexpr char subject[] = "buckets: ";
  enum class kind : std::uint8_t {
    no_stage,     ///< bucket `bucket` is of `gradient.stage`, but there are only `count` stages
    no_gradient,  ///< bucket `bucket` has a gradient that its stage, with `count` gradients, does not have
    twice,        ///< bucket `bucket` has a gradient that it or an earlier bucket already has
  };
  kind what;
  std::size_t bucket = 0, count = 0;
  stage_gradient gradient{};

  bool operator==(bucket_fault const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(bucket_fault const& f) {
  using enum bucket_fault::kind;
  auto const bucket = "bucket #" + std::to_string(f.bucket), count = std::to_string(f.count),
             stage = "stage " + std::to_string(index(f.gradient.stage)),
             gradient = "gradient #" + std::to_string(f.gradient.number);
  switch (f.what) {
    case no_stage:
      return bucket + " is of " + stage + ", but there are " + count + " stages, numbered from 0";
    case no_gradient:
      return bucket + " has " + gradient + " of " + stage + ", which has " + count +
             " gradients, numbered from 0";
    case twice:
      return bucket + " has " + gradient + " of " + stage + " a second time; list it once";
  }
  return {};
}

/// Thrown if a plan of buckets does not fit the stages.
using bucket_error = fault_error<bucket_fault>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first bucket of a stage that does not exist.
inline std::optional<bucket_fault> find_bucket_fault(std::span<gradient_bucket const> plan,
                                                     std::size_t stages) {
  for (std::size_t b = 0; b < plan.size(); ++b)
    if (index(plan[b].stage) >= stages)
      return bucket_fault{bucket_fault::kind::no_stage, b, stages, {plan[b].stage, 0}};
  return std::nullopt;
}

/// Returns the first fault among the buckets of stage `s`, which has `count` gradients.
inline std::optional<bucket_fault> find_bucket_fault(std::span<gradient_bucket const> plan, stage_id s,
                                                     std::size_t count) {
  using enum bucket_fault::kind;
  std::vector<char> listed(count);
  for (std::size_t b = 0; b < plan.size(); ++b) {
    if (plan[b].stage != s) continue;
    for (auto const n : plan[b].gradients) {
      if (n >= count) return bucket_fault{no_gradient, b, count, {s, n}};
      if (std::exchange(listed[n], 1)) return bucket_fault{twice, b, count, {s, n}};
    }
  }
  return std::nullopt;
}

/// How gradients are packed: see `pipeline_options::buckets` and `bucket_bytes`.
struct bucket_rules {
  std::vector<gradient_bucket> plan = {};
  std::size_t most_bytes = std::size_t{25} << 20;
};

/// The positions of tensors that are packed together, ascending.
using tensor_positions = std::vector<std::uint32_t>;

/// Returns the tensors at `order` in groups of one type, in that order, of at most `most_bytes` bytes unless
/// a single tensor is larger. The first group of all has at most `first_bytes` instead. Groups are in the
/// order in which they are full. O(tensors).
template <class RegionOf>
std::vector<tensor_positions> packed_groups(tensor_positions const& order, std::size_t first_bytes,
                                            std::size_t most_bytes, RegionOf region_of) {
  struct open_group {
    tensor_positions tensors = {};
    std::size_t bytes = 0;
  };
  std::vector<tensor_positions> groups;
  std::vector<open_group> open(element_names.size());  // by type
  auto const close = [&](open_group& g) {
    if (g.tensors.empty()) return;
    std::ranges::sort(g.tensors);
    groups.push_back(std::move(g.tensors));
    g = {};
  };
  for (auto const i : order) {
    region const r = region_of(i);
    auto& g = open[static_cast<std::size_t>(r.type)];
    auto const most = groups.empty() ? first_bytes : most_bytes;
    if (!g.tensors.empty() && (g.bytes > most || r.bytes() > most - g.bytes)) close(g);
    g.tensors.push_back(i);
    g.bytes += r.bytes();
  }
  for (auto& g : open) close(g);
  return groups;
}

/// Returns the gradients of stage `s` that are summed together, in the order in which the sums begin. Each
/// group has one type: a bucket of several types becomes several groups. O(gradients log gradients + plan).
/// \throws bucket_error
inline std::vector<tensor_positions> gradient_groups(stage_id s, std::span<region const> gradients,
                                                     bucket_rules const& rules) {
  constexpr std::size_t without_limit = static_cast<std::size_t>(-1), small = std::size_t{1} << 20;
  if (auto const f = find_bucket_fault(rules.plan, s, gradients.size())) throw bucket_error(*f);
  auto const region_of = [&](std::uint32_t n) { return gradients[n]; };
  std::vector<tensor_positions> groups;
  std::vector<char> planned(gradients.size());
  auto const add = [&](std::vector<tensor_positions> const& more) {
    groups.insert(groups.end(), more.begin(), more.end());
  };
  for (auto const& b : rules.plan) {
    if (b.stage != s) continue;
    for (auto const n : b.gradients) planned[n] = 1;
    add(packed_groups(b.gradients, without_limit, without_limit, region_of));
  }
  tensor_positions rest;
  for (auto n = static_cast<std::uint32_t>(gradients.size()); n-- > 0;)
    if (!planned[n]) rest.push_back(n);
  auto const first = groups.empty() ? (std::min)(small, rules.most_bytes) : rules.most_bytes;
  auto others = packed_groups(rest, first, rules.most_bytes, region_of);
  // A group is complete when its first gradient is.
  std::ranges::sort(others, std::ranges::greater{}, [](auto const& g) { return g.front(); });
  add(others);
  return groups;
}

/// The copies of one tensor on this rank: at least one, all of the same type and size.
using gradient_copies = std::vector<region>;

/// Tensors of one type that are packed together.
using gradient_group = std::vector<gradient_copies>;

/// Packs groups of gradients into contiguous memory, so that one all-reduce serves many tensors. Packing adds
/// the local copies of a tensor in list order; unpacking writes the result to all of them.
template <device D>
class packed_gradients {
 public:
  /// Each tensor begins at a multiple of 16 bytes; the padding has no meaning. If the tensors of a group have
  /// one copy each and already lie contiguously with this alignment, their memory itself is used and nothing
  /// is copied, unless `where` says otherwise. This includes single tensors. Groups are not empty.
  /// O(tensors).
  packed_gradients(D& d, std::vector<gradient_group> const& groups, sum_memory where = sum_memory::any)
      : device_(d) {
    for (auto const& g : groups) add(g, where);
  }

  std::size_t count() const { return regions_.size(); }
  /// Returns the memory of group `g`.
  region at(std::size_t g) const { return regions_[g]; }

  /// Issues the copies that fill the memory of group `g` (`pack`) or empty it (`unpack`).
  void pack(std::size_t g, typename D::stream& s) {
    if (auto& c = copies_[g]) {
      device_.accumulate(s, c->first, {.target = accumulate_options::target::overwritten});
      device_.accumulate(s, c->others, {});
    }
  }
  void unpack(std::size_t g, typename D::stream& s) {
    if (auto& c = copies_[g])
      device_.accumulate(s, c->back, {.target = accumulate_options::target::overwritten});
  }

 private:
  struct copied_group {
    typename D::buffer memory;
    typename D::sums first, others, back;
  };

  static std::uint64_t aligned(std::uint64_t count, element_type t) {
    auto const unit = 16 / size_of(t);
    return (count + unit - 1) / unit * unit;
  }

  /// Returns the memory of tensors that already lie as if packed, without padding, or nothing.
  static std::optional<region> find_row(gradient_group const& tensors) {
    region row{tensors.front().front().data, 0, tensors.front().front().type};
    for (auto const& t : tensors) {
      auto const& r = t.front();
      bool const follows = r.data == static_cast<std::byte*>(row.data) + row.bytes();
      if (t.size() > 1 || !follows || row.count != aligned(row.count, row.type)) return std::nullopt;
      row.count += r.count;
    }
    return row;
  }

  void add(gradient_group const& tensors, sum_memory where) {
    if (auto const row = find_row(tensors); row && where == sum_memory::any) {
      regions_.push_back(*row);
      copies_.emplace_back();
      return;
    }
    auto const type = tensors.front().front().type;
    std::uint64_t count = 0;
    for (auto const& t : tensors) count = aligned(count, type) + t.front().count;
    auto memory = device_.allocate(static_cast<std::size_t>(count) * size_of(type));
    void* const data = memory.data();
    auto* const start = static_cast<std::byte*>(data);
    std::vector<region_pair> first, others, back;
    std::uint64_t at = 0;
    for (auto const& t : tensors) {
      at = aligned(at, type);
      region const here{start + at * size_of(type), t.front().count, type};
      for (std::size_t c = 0; c < t.size(); ++c) {
        (c == 0 ? first : others).push_back({t[c], here});
        back.push_back({here, t[c]});
      }
      at += here.count;
    }
    regions_.push_back({start, count, type});
    copies_.push_back(copied_group{std::move(memory), device_.make_sums(first), device_.make_sums(others),
                                   device_.make_sums(back)});
  }

  D& device_;
  std::vector<region> regions_;
  std::vector<std::optional<copied_group>> copies_;  // by group; nothing if its memory is used directly
};

/// Returns tensors in groups of one type, in order, of at most `most_bytes` bytes. O(tensors).
inline std::vector<gradient_group> packed_together(std::vector<gradient_copies> const& tensors,
                                                   std::size_t most_bytes) {
  tensor_positions order(tensors.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::vector<gradient_group> groups;
  for (auto const& g :
       packed_groups(order, most_bytes, most_bytes, [&](std::uint32_t i) { return tensors[i].front(); })) {
    auto& made = groups.emplace_back();
    for (auto const i : g) made.push_back(tensors[i]);
  }
  return groups;
}

}  // namespace cleave::detail
