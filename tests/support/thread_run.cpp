// SPDX-License-Identifier: MIT
#include "support/thread_run.hpp"
#include "support/cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/text/listed_schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "cleave/schedule/verify/deadlock.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/plain_lowering.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::filesystem::path const recordings =
    std::filesystem::path(CLEAVE_TEST_DATA) / "conformance" / "schedules";

/// Returns the sampling interval for recorded programs.
std::size_t one_in(std::size_t so_many) { return testing::cases(so_many, 1); }

nlohmann::json cases_of(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  return nlohmann::json::parse(in)["cases"];
}

schedule of_rows(nlohmann::json const& texts, row_counts const& counts = {}) {
  std::vector<std::vector<action>> rows;
  for (nlohmann::json const& text : texts) rows.push_back(read_row(text.get<std::string>(), rows.size()));
  return listed_schedule(std::move(rows), counts);
}

/// Checks that threads and the library agree in every delivery mode.
void compare_everywhere(schedule const& s, std::string const& name) {
  for (auto const& rules : testing::all_deliveries) {
    auto const expected = testing::thread_run(s, rules).verdict();
    if (auto const verdict = deadlock_verdict(s, rules); verdict != expected)
      FAIL_CHECK(name << ", delivery " << static_cast<int>(rules.delivery) << ": " << verdict
                      << "; threads: " << expected);
  }
}

/// Returns true if the lists have an action that threads cannot run, or an action twice. Names would be
/// ambiguous then.
bool is_beyond_threads(schedule const& s) {
  if (find_invalid_action(s)) return true;
  return std::ranges::any_of(schedule_faults(s), [](schedule_fault const& f) {
    return f.what == schedule_fault::kind::repeated || f.what == schedule_fault::kind::backward_and_halves;
  });
}

}  // namespace

TEST_CASE("thread_run: recorded lowered programs end as recorded on each transport") {
  constexpr std::pair<char const*, delivery> transports[] = {{"buffered", delivery::buffered},
                                                             {"rendezvous", delivery::rendezvous},
                                                             {"async", delivery::async},
                                                             {"pair_stream", delivery::pair_stream}};
  std::size_t seen = 0, run = 0;
  for (auto const* name :
       {"dualpipev", "interleaved1f1b", "interleavedzerobubble", "loopedbfs", "zbvzerobubble"})
    for (nlohmann::json const& c : cases_of(recordings / (std::string("lower_") + name + ".json"))) {
      if (!c.contains("derived") || seen++ % one_in(100) != 0) continue;
      auto const s = of_rows(c["expect"]["program"]);
      for (auto const& [transport, d] : transports)
        CHECK_MESSAGE(
            testing::thread_run(s, {.delivery = d}).verdict() == c["derived"][transport].get<std::string>(),
            c["name"]);
      compare_everywhere(s, c["name"]);
      ++run;
    }
  CHECK(run >= 4);
}

TEST_CASE("thread_run: recorded mutants end as deadlock_verdict says") {
  std::size_t seen = 0, run = 0, stuck = 0;
  for (nlohmann::json const& c : cases_of(recordings / "mutations.json")) {
    if (seen++ % one_in(40) != 0) continue;
    nlohmann::json const& input = c["input"];
    auto const s = of_rows(input["rows"], {input["ranks"], input["stages"], input["microbatches"]});
    if (is_beyond_threads(s)) continue;
    auto const verdict = testing::thread_run(s, {}).verdict();
    CHECK_MESSAGE(verdict == deadlock_verdict(s, delivery_rules{}), c["name"]);
    if (c["expect"]["executable"].get<bool>()) CHECK_MESSAGE(verdict == "finishes", c["name"]);
    if (verdict != "finishes") CHECK_MESSAGE(find_schedule_fault(s), c["name"]);
    stuck += verdict == "finishes" ? 0 : 1;
    compare_everywhere(testing::with_plain_messages(s), c["name"]);
    ++run;
  }
  CHECK(run >= testing::cases(7, 20));
  CHECK(stuck >= testing::cases(1, 3));
}

TEST_CASE("thread_run: shuffled or dropped messages block threads where deadlock_verdict says") {
  testing::rng random(50);
  std::size_t stuck = 0, run = 0;
  for (std::size_t i = 0; i < 600 / one_in(30); ++i) {
    auto const ranks = static_cast<std::uint32_t>(2 + random.below(3));
    auto const passes =
        make_schedule(random.one_in(2) ? schedule_family::zbv : schedule_family::interleaved_1f1b,
                      {.ranks = ranks, .stages_per_rank = 2, .microbatches = ranks});
    auto s = random.one_in(2) ? testing::with_plain_messages(passes) : send_in_rounds(passes);
    for (auto n = random.below(6); n > 0; --n) {
      auto& row = s.ranks[random.below(ranks)];
      auto const at = random.below(row.size()), other = std::min(row.size() - 1, at + 1 + random.below(8));
      if (random.one_in(5) && is_message(row[at].kind))
        row.erase(row.begin() + static_cast<std::ptrdiff_t>(at));
      else
        std::swap(row[at], row[other]);
    }
    for (auto& row : s.ranks)  // compounds whose parts were moved elsewhere
      std::erase_if(row, [](action const& a) { return a.parts > 0; });
    testing::mark_some_groups(random, s);
    compare_everywhere(s, "random");
    stuck += find_deadlock(s) ? 1 : 0;
    ++run;
  }
  CHECK(stuck * 10 > run);
}
