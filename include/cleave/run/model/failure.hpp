// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"

namespace cleave::inline v0_2 {

/// The cause of a failed run.
enum class failure_code : std::uint8_t {
  stage,      ///< a stage threw, or its results could not be sent
  mismatch,   ///< the two ends of a transfer disagree about the message
  cancelled,  ///< the caller cancelled the run
  peer_lost,  ///< a rank has ended, or cannot be reached any more
  timeout,    ///< something did not end before its deadline
  transport,  ///< the communication library reported an error
  device,     ///< the device reported an error
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the prefix of messages with this code. Empty if the place is explanation enough.
constexpr std::string_view prefix_of(failure_code c) {
  constexpr std::array<std::string_view, 7> prefixes = {
      "", "operation mismatch: ", "", "peer lost: ", "timed out: ", "transport error: ", "device error: "};
  return prefixes[static_cast<std::size_t>(c)];
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// One execution of a stage.
struct stage_call {
  stage_id stage;
  microbatch_id microbatch;

  bool operator==(stage_call const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// An invalid rank.
inline constexpr rank_id no_rank{0xffffffff};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The reason why a run ended early. All ranks report the first failure of the run.
struct failure {
  failure_code code;
  std::optional<stage_call> at = {};  ///< nothing if no stage is responsible
  std::string detail = {};
  std::exception_ptr cause = {};       ///< exception of the stage, only in the process that threw it
  rank_id reporter = detail::no_rank;  ///< rank that noticed the failure
  rank_id culprit = detail::no_rank;   ///< rank that caused the failure, if known
  std::string operation = {};          ///< operation of the reporter at that time: `recv B3 stage 1<-2`
};

/// Formats a failure: `rank 1, forward, stage 2, microbatch 5: out of memory`. Unknown parts are left out.
inline std::string describe(failure const& f) {
  std::string place;
  auto const add = [&](std::string const& part) { place += (place.empty() ? "" : ", ") + part; };
  if (f.reporter != detail::no_rank) add("rank " + std::to_string(index(f.reporter)));
  if (!f.operation.empty()) add(f.operation);
  if (f.at) {
    add("stage " + std::to_string(index(f.at->stage)));
    add("microbatch " + std::to_string(index(f.at->microbatch)));
  }
  if (f.culprit != detail::no_rank && f.culprit != f.reporter)
    add("caused by rank " + std::to_string(index(f.culprit)));
  return (place.empty() ? "" : place + ": ") + std::string(detail::prefix_of(f.code)) + f.detail;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a failure with this text. If there is no memory for the text, says that in its place.
inline failure failure_with(failure_code code, std::string_view detail) noexcept {
  failure f{code};
  try {
    f.detail = detail;
  } catch (std::bad_alloc const&) {
    f.detail = "out of memory";  // within the string object
  }
  return f;
}

/// Converts the exception being handled into a failure at `at`. Call it in a `catch` clause.
inline failure current_failure(stage_call at) noexcept {
  failure f{failure_code::stage};
  try {
    throw;
  } catch (std::exception const& e) {
    f = failure_with(failure_code::stage, e.what());
  } catch (...) {
    f = failure_with(failure_code::stage, "an exception that does not derive from std::exception");
  }
  f.at = at;
  f.cause = std::current_exception();
  return f;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if a run ended early.
class run_error : public error {
 public:
  explicit run_error(failure f) : error(describe(f)), info(std::move(f)) {}
  failure info;
};

/// Thrown if a stage ended the run. `nested_ptr()` is the exception of the stage, of whatever type.
class stage_error : public run_error, public std::nested_exception {
 public:
  /// Precondition: `f.at` is known. Nests the exception now being handled.
  explicit stage_error(failure f)
      : run_error(std::move(f)), stage(info.at->stage), microbatch(info.at->microbatch) {}
  stage_id stage;
  microbatch_id microbatch;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Throws `f` as an exception.
/// \throws stage_error if a stage of this process is responsible, else run_error
[[noreturn]] inline void raise(failure const& f) {
  if (f.code != failure_code::stage || !f.cause || !f.at) throw run_error(f);
  try {
    std::rethrow_exception(f.cause);
  } catch (...) {
    throw stage_error(f);
  }
}

}  // namespace cleave::detail
