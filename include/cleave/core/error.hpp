// SPDX-License-Identifier: MIT
#pragma once
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// The base of errors about invalid data from a file, an option or a user's IR. The message says what is
/// wrong and where, in the user's names. If there is a place to show, a subclass carries it as data. A
/// function `find_…` then returns the same data as `std::optional` and does not throw.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Thrown if a graph, a partition or a plan violates its contract. `witness` is the place.
template <class Witness>
class witness_error : public error {
 public:
  witness_error(std::string const& message, Witness w) : error(message), witness(std::move(w)) {}
  Witness witness;
};

/// An error whose text is `describe(fault)`, after `Fault::subject` if the fault has one.
template <class Fault>
class fault_error : public witness_error<Fault> {
 public:
  explicit fault_error(Fault const& f) : witness_error<Fault>(text_of(f), f) {}
  /// Puts `subject` before the text, for faults that can occur in several places.
  fault_error(std::string const& subject, Fault const& f)
      : witness_error<Fault>(subject + ": " + describe(f), f) {}

 private:
  static std::string text_of(Fault const& f) {
    if constexpr (requires { Fault::subject; })
      return Fault::subject + describe(f);
    else
      return describe(f);
  }
};

/// A `witness_error` with a type of its own, for errors whose witnesses have the same type.
template <class Tag, class Witness>
class tagged_error : public witness_error<Witness> {
 public:
  using witness_error<Witness>::witness_error;
};

/// Thrown if a valid request cannot be met, such as a memory limit or more stages than nodes. The message
/// names the bound.
class infeasible_error : public error {
 public:
  using error::error;
};
}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Throws `e`. In a program without exceptions it prints the text of `e` to stderr and aborts.
template <class Error>
[[noreturn]] void raise(Error e) {
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
  throw Error(std::move(e));
#else
  std::fprintf(stderr, "cleave: %s\n", e.what());
  std::abort();
#endif
}

}  // namespace cleave::detail
