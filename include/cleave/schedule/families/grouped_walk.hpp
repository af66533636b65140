// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// One of the stages of a rank, counted along the model, and a microbatch.
struct chunk_step {
  std::uint32_t chunk, microbatch;
};

/// Which microbatch goes through which stage of a rank next: a group of microbatches goes through the first
/// stage, then through the second, and so on; then the next group does. The last group may be short.
class grouped_walk {
 public:
  constexpr grouped_walk(std::uint32_t chunks, std::uint32_t microbatches, std::uint32_t group)
      : chunks_(chunks), microbatches_(microbatches), group_(group), end_((std::min)(group, microbatches)) {}

  constexpr chunk_step next() {
    chunk_step const step{chunk_, microbatch_};
    if (++microbatch_ == end_) {
      if (++chunk_ == chunks_) {
        chunk_ = 0;
        first_ = end_;
        end_ += (std::min)(group_, microbatches_ - end_);
      }
      microbatch_ = first_;
    }
    return step;
  }

 private:
  std::uint32_t chunks_, microbatches_, group_;
  std::uint32_t chunk_ = 0, first_ = 0, microbatch_ = 0, end_;
};

}  // namespace cleave::detail
