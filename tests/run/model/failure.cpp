// SPDX-License-Identifier: MIT
#include "cleave/run/model/failure.hpp"

#include <doctest/doctest.h>

#include <exception>
#include <stdexcept>
#include <string>

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr stage_call at{stage_id{2}, microbatch_id{5}};

template <class Thrown>
failure failure_of(Thrown const& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return current_failure(at);
  }
}

}  // namespace

TEST_CASE("current_failure: captures the exception's text and place") {
  auto const f = failure_of(std::out_of_range("no such row"));
  CHECK(f.code == failure_code::stage);
  CHECK(f.at == at);
  CHECK(describe(f) == "stage 2, microbatch 5: no such row");
  CHECK_THROWS_AS(std::rethrow_exception(f.cause), std::out_of_range);
}

TEST_CASE("current_failure: keeps an exception that is not a std::exception") {
  auto const f = failure_of(42);
  CHECK(describe(f) == "stage 2, microbatch 5: an exception that does not derive from std::exception");
  try {
    raise(f);
    FAIL("raise returned");
  } catch (stage_error const& e) {
    CHECK(e.stage == stage_id{2});
    CHECK(e.microbatch == microbatch_id{5});
    CHECK_THROWS_AS(e.rethrow_nested(), int);
  }
}

TEST_CASE("raise: nests the original exception in a stage failure") {
  auto const f = failure_of(std::out_of_range("no such row"));
  try {
    raise(f);
    FAIL("raise returned");
  } catch (error const& e) {
    CHECK(std::string(e.what()) == "stage 2, microbatch 5: no such row");
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
  }
}

TEST_CASE("raise: throws a plain run_error if no stage is to blame") {
  failure const stopped{.code = failure_code::cancelled, .detail = "stopped by the caller"};
  CHECK(describe(stopped) == "stopped by the caller");
  try {
    raise(stopped);
    FAIL("raise returned");
  } catch (stage_error const&) {
    FAIL("no stage failed");
  } catch (run_error const& e) {
    CHECK(e.info.code == failure_code::cancelled);
    CHECK_FALSE(e.info.at);
  }
  failure const differs{.code = failure_code::mismatch, .at = at, .detail = "stage 1 sent microbatch 4"};
  CHECK(describe(differs) == "stage 2, microbatch 5: operation mismatch: stage 1 sent microbatch 4");
  CHECK_THROWS_AS(raise(differs), run_error);
}

TEST_CASE("describe: tells who noticed the failure, during what, and who caused it") {
  failure f{.code = failure_code::timeout,
            .at = at,
            .detail = "nothing came within 400 ms",
            .reporter = rank_id{1},
            .culprit = rank_id{2},
            .operation = "recv B5 stage 2<-3"};
  CHECK(describe(f) ==
        "rank 1, recv B5 stage 2<-3, stage 2, microbatch 5, caused by rank 2: timed out: nothing came within "
        "400 ms");
  f.culprit = f.reporter;
  f.operation.clear();
  CHECK(describe(f) == "rank 1, stage 2, microbatch 5: timed out: nothing came within 400 ms");
}

TEST_CASE("raise: a stage failure from another process keeps its text without the exception") {
  failure const f{.code = failure_code::stage, .at = at, .detail = "out of memory", .reporter = rank_id{3}};
  CHECK_THROWS_WITH_AS(raise(f), "rank 3, stage 2, microbatch 5: out of memory", run_error);
}
