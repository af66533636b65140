// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"

namespace cleave {

enum class failure_code : std::uint8_t {
  stage,      ///< a stage threw, or what it made could not be handed on
  mismatch,   ///< the two ends of a transfer disagree about what is sent
  cancelled,  ///< the caller gave the run up
};

/// One execution of a stage.
struct stage_call {
  stage_id stage;
  microbatch_id microbatch;

  bool operator==(stage_call const&) const = default;
};

/// Why a run ended early. The first one of a run is the one that is reported, by everybody.
struct failure {
  failure_code code;
  std::optional<stage_call> at = {};  ///< nothing where no stage is to blame
  std::string detail = {};
  std::exception_ptr cause = {};  ///< what a stage threw
};

/// `stage 2, microbatch 5: out of memory`.
inline std::string describe(failure const& f) {
  std::string text;
  if (f.at)
    text = "stage " + std::to_string(index(f.at->stage)) + ", microbatch " +
           std::to_string(index(f.at->microbatch)) + ": ";
  if (f.code == failure_code::mismatch) text += "operation mismatch: ";
  return text + f.detail;
}

/// The failure that the exception now being handled means for `at`. Call it in a `catch` clause.
inline failure current_failure(stage_call at) {
  std::string detail;
  try {
    throw;
  } catch (std::exception const& e) {
    detail = e.what();
  } catch (...) {
    detail = "an exception that is no std::exception";
  }
  return {failure_code::stage, at, std::move(detail), std::current_exception()};
}

/// A run ended early.
class run_error : public error {
 public:
  explicit run_error(failure f) : error(describe(f)), info(std::move(f)) {}
  failure info;
};

/// A stage ended the run. `nested_ptr()` is what it threw, also where that is no `std::exception`.
class stage_error : public run_error, public std::nested_exception {
 public:
  /// Precondition: `f.at` is known. Nests the exception now being handled.
  explicit stage_error(failure f)
      : run_error(std::move(f)), stage(info.at->stage), microbatch(info.at->microbatch) {}
  stage_id stage;
  microbatch_id microbatch;
};

/// \throws stage_error where a stage is to blame, else run_error.
[[noreturn]] inline void raise(failure const& f) {
  if (f.code != failure_code::stage) throw run_error(f);
  try {
    std::rethrow_exception(f.cause);
  } catch (...) {
    throw stage_error(f);
  }
}

}  // namespace cleave
