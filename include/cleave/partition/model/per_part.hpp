// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "cleave/core/bytes.hpp"  // 16_GiB

namespace cleave {

/// A number that holds for every part, or one for each; empty where nothing was said. `{.memory = 16_GiB}`
/// and `{.memory = {16_GiB, 8_GiB}}` both read well.
template <class T>
class per_part {
 public:
  per_part() = default;
  per_part(T all) : values_{all}, shared_(true) {}
  per_part(std::initializer_list<T> each) : values_(each) {}
  per_part(std::vector<T> each) : values_(std::move(each)) {}

  bool empty() const { return values_.empty(); }
  bool same() const { return empty() || shared_; }  ///< for all parts
  std::size_t size() const { return values_.size(); }
  T const& operator[](std::size_t part) const { return values_[shared_ ? 0 : part]; }

  /// Whether there is a number for each of `parts` parts, or nothing was said.
  bool covers(std::size_t parts) const { return empty() || shared_ || size() == parts; }

 private:
  std::vector<T> values_;
  bool shared_ = false;
};
}  // namespace cleave
