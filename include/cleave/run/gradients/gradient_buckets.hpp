// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

namespace cleave::detail {

/// Memory that holds copies of one tensor: as many elements of one type each, one copy at least.
using gradient_copies = std::vector<region>;

/// Gradients side by side in a few pieces of memory, so that a few reductions do for many tensors. Copies of
/// a tensor are one in a bucket: their sum on the way in, in their order, and all equal on the way out.
template <device D>
class gradient_buckets {
 public:
  /// Buckets hold tensors of one type, in order, and no more than `most_bytes` unless one alone has more;
  /// each begins at a multiple of 16 bytes, what is between them is of no account. A bucket is the memory of
  /// its tensors itself, and nothing is copied, where each has one copy and they lie there as in a bucket,
  /// without anything between them: one tensor alone, or a row in one piece of memory.
  /// O(tensors log tensors).
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

  /// Issues what fills the buckets, or empties them.
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

  /// The memory of tensors that lie as in a bucket, and nothing else between them.
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

}  // namespace cleave::detail
