// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/run/concepts.hpp"
#include "cleave/run/tensor_view.hpp"

namespace cleave {

/// Memory that holds copies of one tensor: as many elements of one type each, one copy at least.
using gradient_copies = std::vector<region>;

/// Gradients side by side in a few pieces of memory, so that a few reductions do for many tensors. Copies of
/// a tensor are one in a bucket: their sum on the way in, in their order, and all equal on the way out.
template <device D>
class gradient_buckets {
 public:
  /// Buckets hold tensors of one type, in order, and no more than `most_bytes` unless one alone has more. A
  /// bucket of one tensor with one copy is that copy itself. O(tensors log tensors).
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

  void add(std::vector<gradient_copies const*> const& tensors) {
    auto const type = tensors.front()->front().type;
    if (tensors.size() == 1 && tensors.front()->size() == 1) {
      regions_.push_back(tensors.front()->front());
      return;
    }
    std::size_t count = 0;
    for (auto const* t : tensors) count += t->front().count;
    auto memory = device_.allocate(count * size_of(type));
    void* const data = memory.data();
    auto* const start = static_cast<std::byte*>(data);
    std::vector<region_pair> first, others, back;
    std::size_t at = 0;
    for (auto const* t : tensors) {
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

}  // namespace cleave
