// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/partition/kway/raw_array.hpp"

namespace cleave::detail {

/// In how many bits a weight is stored: 32 do where the sum of all fits them, and take half the memory.
enum class weight_width : std::uint8_t { narrow, wide };

/// Weights of either width; without an array, each is 1.
struct weights_view {
  std::uint32_t const* narrow = nullptr;
  std::int64_t const* wide = nullptr;

  weights_view(std::nullptr_t = nullptr) {}
  weights_view(std::uint32_t const* n) : narrow(n) {}
  weights_view(std::int64_t const* w) : wide(w) {}

  std::int64_t operator[](std::size_t i) const { return narrow ? narrow[i] : wide ? wide[i] : 1; }
  weight_width width() const { return wide ? weight_width::wide : weight_width::narrow; }
  bool all_one() const { return !narrow && !wide; }
};

/// Weights of a level that owns its arrays. They have no value until they are written.
class level_weights {
 public:
  level_weights() = default;
  level_weights(std::size_t size, weight_width width) {
    if (width == weight_width::narrow)
      narrow_ = raw_array<std::uint32_t>(size);
    else
      wide_ = raw_array<std::int64_t>(size);
  }

  weights_view view() const {
    return narrow_.empty() ? weights_view(wide_.data()) : weights_view(narrow_.data());
  }
  /// Precondition: it fits the width.
  void set(std::size_t i, std::int64_t weight) {
    if (!narrow_.empty())
      narrow_[i] = static_cast<std::uint32_t>(weight);
    else if (!wide_.empty())
      wide_[i] = weight;
  }
  void shrink(std::size_t size) {
    if (!narrow_.empty()) narrow_.shrink(size);
    if (!wide_.empty()) wide_.shrink(size);
  }

  /// Empty where they are not stored in `Weight`.
  template <class Weight>
  raw_array<Weight>& array() {
    if constexpr (sizeof(Weight) == sizeof(std::uint32_t))
      return narrow_;
    else
      return wide_;
  }

 private:
  raw_array<std::uint32_t> narrow_;
  raw_array<std::int64_t> wide_;
};

}  // namespace cleave::detail
