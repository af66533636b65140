// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "launch_ranks.hpp"
#include "support/rng.hpp"

using namespace cleave::testing;

namespace {

/// The numbers matched by the group in `pattern`, one for each match.
std::vector<std::int64_t> numbers_in(std::string const& text, std::string const& pattern) {
  std::vector<std::int64_t> found;
  std::regex const line(pattern);
  for (std::sregex_iterator i(text.begin(), text.end(), line), end; i != end; ++i)
    found.push_back(std::stoll((*i)[1]));
  return found;
}

/// Returns whether all processes that reported their start end soon.
bool all_gone(launch_report const& r) {
  auto const processes = numbers_in(r.said, "process ([0-9]+) begins");
  auto const is_gone = [](std::int64_t p) { return ::kill(static_cast<pid_t>(p), 0) != 0; };
  for (int turn = 0; turn < 300; ++turn) {
    if (std::ranges::all_of(processes, is_gone)) return processes.size() == 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

/// The number of lines in which a rank other than 2 reports its end with its own failure text.
std::size_t own_reports(launch_report const& r, std::string const& why) {
  std::size_t n = 0;
  for (std::string const rank : {"0", "1", "3"})
    n += numbers_in(r.said, "rank (" + rank + ") ends: rank " + rank +
                                ", [a-z]+ [^,]+, stage [0-9], microbatch [0-9], caused by rank 2: " + why)
             .size();
  return n;
}

/// Returns whether to skip the rest of a test, with a message, because the launcher is not Open MPI's.
bool is_left_out(std::string const& what) {
  if (is_openmpi) return false;
  MESSAGE("skipped: only the launcher of Open MPI " << what);
  return true;
}
constexpr char const* leaves_others = "lets the ranks that are left say what they know";

/// The milliseconds from the fault of rank 2 until the last other rank knew of it.
std::int64_t delay(launch_report const& r) {
  auto const begin = numbers_in(r.said, "it begins in stage 2, microbatch [0-9] at ([0-9]+)");
  auto const known = numbers_in(r.said, "rank [013] knows at ([0-9]+)");
  if (begin.size() != 1 || known.size() != 3) return 1'000'000;
  return *std::ranges::max_element(known) - begin[0];
}

}  // namespace

TEST_CASE("mpi::pipeline: schedules train bit-identically to the whole model on 2, 4 and 8 ranks") {
  for (std::uint32_t const ranks : {2u, 4u, 8u}) {
    auto const r = launch_ranks(ranks, "pipelines");
    CHECK_MESSAGE(r.exit == 0, r.said);
    CHECK(r.count("pipelines agree\n") == 1);
  }
}

TEST_CASE("mpi::pipeline: every rank learns at once that a rank was killed or left, and the job fails") {
  for (std::string const what : {"suffer kill 7", "suffer exit 0"}) {
    auto const r = launch_ranks(4, what);
    CHECK_MESSAGE(r.exit != 0, r.said);
    CHECK(r.count("is done") == 0);
    CHECK(all_gone(r));
    if (is_left_out(leaves_others)) continue;
    std::int64_t soonest = 1'000'000;
    for (int attempt = 0; attempt < 3 && soonest >= 100; ++attempt) {  // other programs run as well
      auto const survived = launch_ranks(4, what, "--enable-recovery");
      CHECK_MESSAGE(own_reports(survived, "peer lost: the connection to rank 2") == 3, survived.said);
      CHECK(all_gone(survived));
      soonest = std::min(soonest, delay(survived));
    }
    CHECK(soonest < 100);
  }
}

/// The number of places in a step at which tests end a rank: CLEAVE_SOAK, or a few.
std::uint32_t places() {
  char const* const asked = std::getenv("CLEAVE_SOAK");
  return asked ? static_cast<std::uint32_t>(std::min(std::stoul(asked), 200ul)) : 4;
}

TEST_CASE("mpi::pipeline: wherever in a step a rank is killed, every other rank finishes or names it") {
  if (is_left_out(leaves_others)) return;
  cleave::testing::rng random(1);
  for (std::uint32_t i = 0; i < places(); ++i) {
    // Twelve passes a step, three steps; between them messages, waits and sums.
    auto const how =
        "suffer kill_later " + std::to_string(random.below(36)) + " " + std::to_string(random.below(400));
    CAPTURE(how);
    auto const r = launch_ranks(4, how, "--enable-recovery");
    std::size_t reports = 0;
    for (std::string const rank : {"0", "1", "3"})
      reports += r.count("rank " + rank + " is done\n") +
                 numbers_in(r.said, "rank (" + rank + ") ends: .*caused by rank 2: peer lost").size();
    CHECK_MESSAGE(reports == 3, r.said);
    CHECK(r.seconds < 20);
    CHECK(all_gone(r));
  }
}

TEST_CASE("mpi::pipeline: whichever pass of rank 2 throws, every rank reports that pass") {
  for (std::uint32_t i = 0; i < std::min(places(), 36u); ++i) {
    auto const at = places() < 36 ? i * 11 % 36 : i;
    auto const r = launch_ranks(4, "suffer throw " + std::to_string(at));
    CHECK_MESSAGE(r.exit != 0, r.said);
    auto const where = numbers_in(r.said, "it begins in stage 2, microbatch ([0-9])");
    REQUIRE_MESSAGE(where.size() == 1, r.said);
    for (std::string const rank : {"0", "1", "2", "3"}) {
      auto const named = "rank (" + rank + ") ends: rank 2, (?:forward|backward), stage 2, microbatch " +
                         std::to_string(where[0]) + ": no such row";
      // The last stage needs neither of the last two passes of stage 2, which are backward.
      bool const is_done = rank == "3" && at >= 34 && r.count("rank 3 is done\n") == 1;
      CHECK_MESSAGE(numbers_in(r.said, named).size() == (is_done ? 0 : 1), r.said);
    }
    CHECK(all_gone(r));
  }
}

TEST_CASE("mpi::pipeline: a stopped rank is named when the step is overdue") {
  auto const r = launch_ranks(4, "suffer stop 7");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("rank 2 does not answer") >= 3);
  CHECK(delay(r) >= 1000);
  CHECK(delay(r) < 10'000);
  CHECK(all_gone(r));
}

TEST_CASE("mpi::pipeline: a rank that hangs in a stage is named with its pass, and its process ends") {
  auto const r = launch_ranks(4, "suffer hang 7");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("timed out: rank ") >= 3);
  CHECK(r.count("stage 2, microbatch 4") >= 3);
  CHECK(r.count("rank 2 computes stage 2 microbatch 4 (forward 2 4)") >= 3);
  CHECK(delay(r) < 10'000);
  CHECK(all_gone(r));
  if (is_left_out(leaves_others)) return;
  auto const alone = launch_ranks(4, "suffer hang 7", "--enable-recovery");
  CHECK_MESSAGE(alone.count("rank 2 did not return from: forward 2 4; the run has failed: ") == 1,
                alone.said);
  CHECK(all_gone(alone));
}

TEST_CASE("mpi::pipeline: every rank reports the exception that a stage throws") {
  auto const r = launch_ranks(4, "suffer throw 11");
  CHECK_MESSAGE(r.exit != 0, r.said);
  for (std::string const rank : {"0", "1", "2", "3"})
    CHECK_MESSAGE(
        r.count("rank " + rank + " ends: rank 2, backward, stage 2, microbatch 5: no such row\n") == 1,
        r.said);
  CHECK(all_gone(r));
}

TEST_CASE(
    "mpi::pipeline: a wrong rank count and differing schedules, shapes or buckets end the run before a "
    "step") {
  auto const all_say = [](std::string const& how, std::string const& what) {
    auto const r = launch_ranks(3, "differ " + how);
    CHECK_MESSAGE(r.exit != 0, r.said);
    for (std::string const rank : {"0", "1", "2"})
      CHECK_MESSAGE(r.count("rank " + rank + " ends: " + what + "\n") == 1, r.said);
    CHECK(r.count("a step was run") == 0);
  };
  all_say(
      "ranks",
      "MPI has started 3 ranks, but the schedule has 2 and there are 1 replicas of it; start 2 (mpirun -n)");
  std::string const mismatch = "rank 0, being set up: operation mismatch: ";
  all_say("schedule", mismatch + "rank 1 has another schedule than rank 0; give all ranks the same");
  all_say("shapes", mismatch +
                        "edge #1 from stage 0 to stage 1 is f64[3*] on rank 0, but f32[3*] on rank 1; make "
                        "both ends the same");
  all_say("buckets", mismatch +
                         "gradient #0 of stage 0, 1 of f64, is in bucket #0 of its stage on rank 0, but in "
                         "bucket #1 of its stage on rank 1; give all ranks the same buckets");
}

TEST_CASE("mpi::pipeline: a rank that fails outside a step does not leave the others waiting") {
  auto const late = launch_ranks(3, "differ late");
  CHECK_MESSAGE(late.exit != 0, late.said);
  CHECK(late.count("rank 1 ends: cannot read my part of the model\n") == 1);
  auto const between = launch_ranks(3, "differ between");
  CHECK_MESSAGE(between.exit != 0, between.said);
  CHECK(between.count("caused by rank 1: rank 1 left before the run ended\n") == 2);
}

TEST_CASE("launch_ranks: Open MPI rejects an empty host file") {
  if (is_left_out("refuses it, that of MPICH takes this machine")) return;
  auto const r = launch_ranks(2, "pipelines", "--hostfile /dev/null");
  CHECK_MESSAGE(r.exit != 0, r.said);
  CHECK(r.count("pipelines agree") == 0);
}
