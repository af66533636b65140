// SPDX-License-Identifier: MIT
#include "cleave/run/program/step_recorder.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "cleave/run/model/failure.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// A device that issues calls by name: they run at once or are recorded.
struct noting_device : host_device {
  using recording = std::vector<std::string>;
  using host_device::host_device;

  void issue(std::string name) { (recording_ ? *recording_ : done).push_back(std::move(name)); }
  void begin_recording(stream&) { recording_.emplace(); }
  recording end_recording(stream&) {
    auto made = std::exchange(recording_, std::nullopt);
    if (refuses) throw run_error({failure_code::device, {}, "no recording"});
    return *made;
  }
  void drop_recording(stream&) noexcept { recording_.reset(); }
  void replay(recording const& r, stream&) { done.insert(done.end(), r.begin(), r.end()); }

  std::vector<std::string> done;
  bool refuses = false;

 private:
  std::optional<recording> recording_;
};
static_assert(recording_device<noting_device> && !recording_device<host_device>);

struct noted_run {
  host_ranks ranks{1};
  noting_device d{ranks, rank_id{0}};
  noting_device::stream s = d.make_stream(0);
  rank_program const p = {};
  step_recorder<noting_device> steps;
  int calls = 0;

  explicit noted_run(std::optional<std::string> obstacle = {}) : steps(d, p, std::move(obstacle)) {}

  bool step(step_values const& v = {}, step_ending ending = step_ending::plain) {
    return steps.carry_out(v, ending, s, [&] { d.issue(std::to_string(++calls)); });
  }
};

using names = std::vector<std::string>;

}  // namespace

TEST_CASE("step_recorder: issues the first step, records the second, and replays it from then on") {
  noted_run r;
  CHECK(!r.step());
  CHECK(r.steps.recordings() == 0);
  for (int i = 0; i < 3; ++i) CHECK(r.step());
  CHECK(r.d.done == names{"1", "2", "2", "2"});
  CHECK(r.steps.recordings() == 1);
  CHECK(!r.steps.is_recording());
  CHECK(!r.steps.obstacle());
}

TEST_CASE("step_recorder: records steps that keep gradients separately, and again if weights change") {
  noted_run r;
  std::vector<double> const weights = {0.5, 1};
  for (int i = 0; i < 2; ++i) r.step();
  CHECK(!r.step({.gradients = gradient_end::kept}));
  CHECK(r.step({.gradients = gradient_end::kept}));
  CHECK(r.step());
  for (int i = 0; i < 2; ++i) CHECK(r.step({.weights = weights}));
  CHECK(r.step({.gradients = gradient_end::kept}));
  CHECK(r.d.done == names{"1", "2", "3", "4", "2", "5", "5", "4"});
  CHECK(r.steps.recordings() == 3);
}

TEST_CASE("step_recorder: issues all steps if there is an obstacle or the device cannot record") {
  noted_run r("out of tape");
  for (int i = 0; i < 3; ++i) CHECK(!r.step());
  CHECK(r.steps.obstacle() == "out of tape");
  noted_run later;
  later.steps.issue_all("rank 1 cannot");
  for (int i = 0; i < 3; ++i) CHECK(!later.step());
  CHECK(later.d.done == names{"1", "2", "3"});
  CHECK(find_replay_obstacle<host_device, host_communicator>(r.p, 0) ==
        "the device cannot record issued work");
}

TEST_CASE("step_recorder: steps that end with an update are recorded apart from those that do not") {
  noted_run r;
  for (int i = 0; i < 3; ++i) r.step();
  CHECK(!r.step({}, step_ending::update));
  CHECK(r.step({}, step_ending::update));
  CHECK(r.step());
  CHECK(r.d.done == names{"1", "2", "2", "3", "4", "2"});
  CHECK(r.steps.recordings() == 2);
}

TEST_CASE("step_recorder: a failure while recording ends the recording and is rethrown") {
  noted_run r;
  r.step();
  r.d.refuses = true;
  CHECK_THROWS_WITH_AS(
      r.steps.carry_out({}, step_ending::plain, r.s, [] { throw std::runtime_error("out of paper"); }),
      "out of paper", std::runtime_error);
  CHECK(!r.steps.is_recording());
  CHECK_THROWS_AS(r.step(), run_error);
  r.d.refuses = false;
  r.d.issue("a");
  CHECK(r.d.done == names{"1", "a"});
  CHECK(r.step());
  CHECK(r.steps.recordings() == 1);
  r.steps.forget();
}
