// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"

namespace cleave {

enum class failure_code : std::uint8_t {
  stage,      ///< a stage threw, or what it made could not be handed on
  mismatch,   ///< the two ends of a transfer disagree about what is sent
  cancelled,  ///< the caller gave the run up
  peer_lost,  ///< a rank has ended, or cannot be reached any more
  timeout,    ///< something did not end before its deadline
  transport,  ///< what carries messages reported an error
  device,     ///< so did what computes
};

}  // namespace cleave

namespace cleave::detail {

/// What a message of that code begins with, after its place; nothing where the place says all.
constexpr std::string_view prefix_of(failure_code c) {
  constexpr std::array<std::string_view, 7> prefixes = {
      "", "operation mismatch: ", "", "peer lost: ", "timed out: ", "transport error: ", "device error: "};
  return prefixes[static_cast<std::size_t>(c)];
}

}  // namespace cleave::detail

namespace cleave {

/// One execution of a stage.
struct stage_call {
  stage_id stage;
  microbatch_id microbatch;

  bool operator==(stage_call const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// A rank that is none.
inline constexpr rank_id no_rank{0xffffffff};

}  // namespace cleave::detail

namespace cleave {

/// Why a run ended early. The first one of a run is the one that is reported, by everybody.
struct failure {
  failure_code code;
  std::optional<stage_call> at = {};  ///< nothing where no stage is to blame
  std::string detail = {};
  std::exception_ptr cause = {};       ///< what a stage threw, in the process in which it did
  rank_id reporter = detail::no_rank;  ///< who noticed it
  rank_id culprit = detail::no_rank;   ///< who is to blame, where that is known
  std::string operation = {};          ///< what the reporter was doing: `recv B3 stage 1<-2`
};

/// `rank 1, forward, stage 2, microbatch 5: out of memory`; each part where it is known.
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

namespace cleave::detail {

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

}  // namespace cleave::detail

namespace cleave {

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

}  // namespace cleave

namespace cleave::detail {

/// \throws stage_error where a stage of this process is to blame, else run_error.
[[noreturn]] inline void raise(failure const& f) {
  if (f.code != failure_code::stage || !f.cause || !f.at) throw run_error(f);
  try {
    std::rethrow_exception(f.cause);
  } catch (...) {
    throw stage_error(f);
  }
}

}  // namespace cleave::detail
