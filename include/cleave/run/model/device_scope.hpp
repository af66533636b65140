// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// A device that can be the current one of a thread, as in CUDA. Calls that name no device use the current
/// one.
/// - `d.scope()`: makes `d` the current device of this thread while the returned object lives, then restores
///   the previous one.
template <class D>
concept scoped_device = requires(D& d) { d.scope(); };

/// The scope of a device without `scope`.
struct no_scope {
  ~no_scope() {}  // non-trivial, so that an unused variable of this type gives no warning
};

/// Returns a scope of `d`, or an empty object if `d` has no scopes.
/// \throws what `d.scope()` throws
template <class D>
auto scope_of(D& d) {
  if constexpr (scoped_device<D>)
    return d.scope();
  else
    return no_scope();
}

/// Calls `end()`, which does not throw, with `d` as the current device if that is still possible, else
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

/// An object that is made and destroyed with its device as the current one.
template <class T, class D>
class made_on_device {
 public:
  made_on_device() = default;
  made_on_device(made_on_device&&) = delete;
  ~made_on_device() {
    if (value_) end_on(*device_, [this] { value_.reset(); });
  }

  /// Makes the object by `make(d)`. `d` must outlive it.
  /// \throws what `make` throws
  template <class F>
  void make(D& d, F& make) {
    auto const here = scope_of(d);
    device_ = &d;
    value_.emplace(make(d));
  }

  /// Returns the object. Precondition: `make` was called.
  T& operator*() { return *value_; }

 private:
  D* device_ = nullptr;
  std::optional<T> value_;
};

}  // namespace cleave::detail
