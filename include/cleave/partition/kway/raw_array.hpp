// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>
#include <type_traits>

namespace cleave {

/// An array whose elements have no value until they are written: memory that is never touched costs nothing,
/// so that an upper bound is a fair size to ask for.
template <class T>
  requires std::is_trivially_copyable_v<T>
class raw_array {
 public:
  raw_array() = default;
  explicit raw_array(std::size_t size) : data_(size ? new T[size] : nullptr), size_(size) {}

  T& operator[](std::size_t i) { return data_[i]; }
  T const& operator[](std::size_t i) const { return data_[i]; }
  T* data() { return data_.get(); }
  T const* data() const { return data_.get(); }
  T const* begin() const { return data_.get(); }
  T const* end() const { return data_.get() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  std::unique_ptr<T[]> data_;
  std::size_t size_ = 0;
};

}  // namespace cleave
