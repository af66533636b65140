// SPDX-License-Identifier: MIT
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

#include "cleave/core/language.hpp"

namespace cleave {

/// Bad data: what came from a file, an option or a user's IR is not what it must be. The message says what,
/// where and in the user's names. Where there is a place to show, a subclass carries it as data, and a total
/// function `find_…` returns the same as `std::optional`.
class error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A graph, a partition or a plan breaks a promise; `witness` shows where.
template <class Witness>
class witness_error : public error {
 public:
  witness_error(std::string const& message, Witness w) : error(message), witness(std::move(w)) {}
  Witness witness;
};

/// The request is sound but cannot be met (a memory limit, more stages than nodes); the message says which
/// bound.
class infeasible_error : public error {
 public:
  using error::error;
};
}  // namespace cleave
