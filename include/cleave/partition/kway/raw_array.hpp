// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// An array whose elements have no value until they are written, or are zero: memory that is never touched
/// costs nothing, so that an upper bound is a fair size to ask for.
template <class T>
  requires std::is_trivially_copyable_v<T>
class raw_array {
 public:
  raw_array() = default;
  /// \throws std::bad_alloc.
  explicit raw_array(std::size_t size) : raw_array(std::malloc(bytes(size)), size) {}
  /// All zero. \throws std::bad_alloc.
  static raw_array zeros(std::size_t size) { return raw_array(std::calloc(bytes(size), 1), size); }

  /// Gives back what is beyond the first `size` elements.
  void shrink(std::size_t size) {
    auto* const kept = static_cast<T*>(std::realloc(data_.get(), bytes(size)));
    if (!kept) return;
    data_.release();
    data_.reset(kept);
    size_ = size;
  }

  T& operator[](std::size_t i) { return data_.get()[i]; }
  T const& operator[](std::size_t i) const { return data_.get()[i]; }
  T* data() { return data_.get(); }
  T const* data() const { return data_.get(); }
  T const* begin() const { return data_.get(); }
  T const* end() const { return data_.get() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct release {
    void operator()(T* data) const { std::free(data); }
  };

  raw_array(void* memory, std::size_t size) : data_(static_cast<T*>(memory)), size_(size) {
    if (!memory) throw std::bad_alloc();
  }
  static std::size_t bytes(std::size_t size) { return (size ? size : 1) * sizeof(T); }

  std::unique_ptr<T, release> data_;
  std::size_t size_ = 0;
};

}  // namespace cleave::detail
