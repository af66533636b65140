// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// A device that a thread has as its current one, which is meant by calls that name none.
/// - `d.scope()`  while it lives, `d` is that of this thread; then the one before is it again.
template <class D>
concept scoped_device = requires(D& d) { d.scope(); };

/// What stands for a scope where devices have none.
struct no_scope {
  ~no_scope() {}  // so that one which is only held is used
};

/// A scope of `d`, or nothing where it has none. \throws as the device
template <class D>
auto scope_of(D& d) {
  if constexpr (scoped_device<D>)
    return d.scope();
  else
    return no_scope();
}

/// Calls `end()`, which throws nothing, with `d` as the current device; where that cannot be had any more,
/// without.
template <class D, class F>
void end_on(D& d, F const& end) noexcept {
  if constexpr (scoped_device<D>) {
    try {
      auto const here = d.scope();
      return end();
    } catch (...) {  // NOLINT(bugprone-empty-catch): the device has failed
    }
  }
  end();
}

/// Something that is made and destroyed with its device as the current one.
template <class T, class D>
class made_on_device {
 public:
  made_on_device() = default;
  made_on_device(made_on_device&&) = delete;
  ~made_on_device() {
    if (value_) end_on(*device_, [this] { value_.reset(); });
  }

  /// `make(d)` gives it; `d` must outlive it. \throws what that throws
  template <class F>
  void make(D& d, F& make) {
    auto const here = scope_of(d);
    device_ = &d;
    value_.emplace(make(d));
  }

  /// Precondition: it was made.
  T& operator*() { return *value_; }

 private:
  D* device_ = nullptr;
  std::optional<T> value_;
};

}  // namespace cleave::detail
