// SPDX-License-Identifier: MIT
#include "cleave/mpi/pipeline.hpp"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/schedule/families/forward_only.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "rank_case.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

namespace {

/// Makes the same chain on all ranks.
linear_chain make_chain(schedule const& s, std::uint64_t seed) {
  rng random(seed);
  return {s, random};
}

/// Checks that results and gradients of this rank equal those of the whole model bit for bit.
template <class S>
void check_step(cleave::mpi::pipeline<S>& run, linear_chain const& c, step_plan const& p, double steps,
                double replicas) {
  auto const values = c.values();
  linear_twin const twin(c.t, c.stages, values, c.rows);
  std::size_t results = 0;
  for (std::uint32_t m = 0; m < c.rows.size(); ++m)
    for (auto const& [number, wanted] : twin.results[m])
      if (auto const got = run.result(microbatch_id{m}, number)) {
        auto const* numbers = static_cast<double const*>(got->data);
        must(std::vector<double>(numbers, numbers + got->elements().count) == wanted, "a result");
        ++results;
      }
  bool const last = p.rank_of(stage_id{c.t.stages - 1}) == rank_id{run.place().pipe};
  must(results == (last ? c.rows.size() : 0), "results are where the last stage is");
  for (std::uint32_t s = 0; s < c.t.stages; ++s) {
    if (p.rank_of(stage_id{s}) != rank_id{run.place().pipe}) continue;
    auto const g = run.stages().gradient(stage_id{s});
    auto const& once = twin.gradients[s];
    must(g == linear_gradient{steps * replicas * once.w, steps * replicas * once.b}, "gradients of a stage");
  }
}

void train(cleave::mpi::environment const& mpi, schedule_family family, std::uint32_t replicas,
           cleave::mpi::options const& o, cleave::mpi::progress progress = cleave::mpi::progress::calls) {
  auto const v = stages_per_rank_of(family).value_or(2);
  auto const s = make_schedule(family, {mpi.size() / replicas, v, 2 * mpi.size()});
  auto const c = make_chain(s, 7);
  program_options const options;
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows), options);
  cleave::mpi::pipeline_options how;
  how.run.replicas = replicas;
  how.messages = o;
  how.progress = progress;
  how.run.watchdog.limit = std::chrono::seconds(30);
  if (replicas > 1) how.run.buckets = {{stage_id{c.t.stages - 1}, {0}}, {stage_id{0}, {1}}};
  linear_engine engine(c.stages, nothing_to_prepare{});
  auto const r = index(mpi.rank());
  engine.report(r % 4 != 1, r % 4 != 2, r % 3 == 1);  // replicas report in different orders
  cleave::mpi::pipeline<linear_engine> run(p, std::move(engine), how);
  run.run_step(c.values());
  check_step(run, c, p, 1, replicas);
  if (replicas > 1) return;  // gradients already summed would be summed again
  run.run_step(c.values());
  check_step(run, c, p, 2, 1);
}

/// A second plan with moved stages is refused on all ranks; one with the same placement runs.
void evaluate_between(cleave::mpi::environment const& mpi) {
  auto const plan_of = [](schedule const& s) {
    auto const c = make_chain(s, 7);
    return step_plan(s, c.t, linear_layouts(c.t, c.rows));
  };
  auto const s = make_schedule(schedule_family::interleaved_1f1b, {mpi.size(), 2, 2 * mpi.size()});
  auto const c = make_chain(s, 7);
  auto const training = plan_of(s);
  cleave::mpi::pipeline<linear_engine> run(training, linear_engine(c.stages, nothing_to_prepare{}));
  auto const refused = [&](step_plan const& p) {
    try {
      run.add_plan(p);
    } catch (placement_change_error const& e) {
      return e.witness;
    }
    throw std::runtime_error("it is not refused");
  };
  using enum placement_change::kind;
  stage_id const first_moved{mpi.size()};
  must(refused(plan_of(make_schedule(schedule_family::zbv, {mpi.size(), 2, 2 * mpi.size()}))) ==
           placement_change{moved, mpi.size() - 1, 0, first_moved},
       "stages that would move");
  auto const more = mpi.size() + 1;
  must(refused(plan_of(forward_only(more, 2, more))) == placement_change{rank_count, more, mpi.size()},
       "another number of ranks");
  run.run_step(c.values(), run.add_plan(plan_of(forward_only(mpi.size(), 2, 2 * mpi.size()))));
  run.run_step(c.values());
  check_step(run, c, training, 1, 1);
}

/// Causes the named fault in pass `at` of this rank; `kill_later` waits `later` microseconds first.
struct misfortune {
  std::string what;
  std::size_t at;
  std::uint32_t later = 0;
  std::size_t passes = 0;

  void operator()(stage_pass const& p) {
    if (passes++ != at || what == "nothing") return;
    say("it begins in stage " + std::to_string(index(p.stage)) + ", microbatch " +
        std::to_string(index(p.microbatch)) + " at " + std::to_string(now()));
    if (what == "kill") ::kill(::getpid(), SIGKILL);
    if (what == "kill_later")
      std::thread([after = later] {
        std::this_thread::sleep_for(std::chrono::microseconds(after));
        ::kill(::getpid(), SIGKILL);
      }).detach();
    if (what == "exit") ::_exit(7);
    if (what == "stop") ::kill(::getpid(), SIGSTOP);
    if (what == "throw") throw std::out_of_range("no such row");
    if (what == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  }
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace

int run_pipelines(cleave::mpi::environment& mpi, rank_arguments) {
  using enum schedule_family;
  cleave::mpi::options const in_order{.reductions = cleave::mpi::reductions::ordered};
  for (auto const family : {gpipe, one_f_one_b, interleaved_1f1b, zbv}) train(mpi, family, 1, in_order);
  train(mpi, one_f_one_b, 1, {.sends = cleave::mpi::sends::standard});
  for (auto const family : {interleaved_1f1b, zbv})
    train(mpi, family, 1, in_order, cleave::mpi::progress::thread);
  if (mpi.size() % 2 == 0) {
    train(mpi, one_f_one_b, 2, in_order, cleave::mpi::progress::thread);
    train(mpi, one_f_one_b, mpi.size() / 2, in_order);
    train(mpi, one_f_one_b, 2, {});
  }
  evaluate_between(mpi);
  if (mpi.rank() == rank_id{0}) say("pipelines agree");
  return 0;
}

/// Arguments: the fault of rank 2, the pass in which it happens, and its delay.
int suffer(cleave::mpi::environment& mpi, rank_arguments arguments) {
  auto const s = make_schedule(schedule_family::one_f_one_b, {mpi.size(), 1, 6});
  auto const c = make_chain(s, 3);
  program_options const options;
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows), options);
  cleave::mpi::pipeline_options how;
  how.run.watchdog = {.limit = std::chrono::milliseconds(1000),
                      .leave_within = std::chrono::milliseconds(1000)};
  say("process " + std::to_string(::getpid()) + " begins");
  misfortune const what{mpi.rank() == rank_id{2} ? arguments[0] : "nothing", std::stoul(arguments[1]),
                        arguments.size() > 2 ? static_cast<std::uint32_t>(std::stoul(arguments[2])) : 0};
  cleave::mpi::pipeline<basic_linear_engine<misfortune>> run(p, {c.stages, what}, how);
  try {
    for (int step = 0; step < 3; ++step) run.run_step(c.values());
  } catch (run_error const&) {
    say("rank " + std::to_string(index(mpi.rank())) + " knows at " + std::to_string(misfortune::now()));
    throw;
  }
  say("rank " + std::to_string(index(mpi.rank())) + " is done");
  return 0;
}

/// Argument: the limit of a step in milliseconds. Runs steps until one fails.
int run_endlessly(cleave::mpi::environment& mpi, rank_arguments arguments) {
  auto const s = make_schedule(schedule_family::one_f_one_b, {mpi.size(), 1, 6});
  auto const c = make_chain(s, 3);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
  cleave::mpi::pipeline_options how;
  how.run.watchdog = {.limit = std::chrono::milliseconds(std::stol(arguments[0])),
                      .leave_within = std::chrono::milliseconds(1000)};
  cleave::mpi::pipeline<linear_engine> run(p, linear_engine(c.stages, nothing_to_prepare{}), how);
  run.run_step(c.values());
  say("the first step is done");
  for (;;) run.run_step(c.values());
}

/// Runs ranks that are given different plans, or that fail outside of steps.
int differ(cleave::mpi::environment& mpi, rank_arguments arguments) {
  bool const odd = mpi.rank() == rank_id{1};
  bool const replicated = arguments[0] == "buckets";
  auto const ranks = replicated ? 1 : mpi.size() - (arguments[0] == "ranks" ? 1u : 0u);
  auto const s =
      make_schedule(schedule_family::one_f_one_b, {ranks, 1, odd && arguments[0] == "schedule" ? 7u : 6u});
  auto c = make_chain(s, 3);
  auto layouts = linear_layouts(c.t, c.rows);
  if (odd && arguments[0] == "shapes") layouts.edges[1].type = element_type::f32;
  program_options const options;
  step_plan const p(s, c.t, layouts, options);
  if (odd && arguments[0] == "late") throw std::runtime_error("cannot read my part of the model");
  cleave::mpi::pipeline_options how;
  if (replicated) how.run.replicas = mpi.size();
  if (replicated && odd) how.run.buckets = {{stage_id{0}, {1}}};
  cleave::mpi::pipeline<linear_engine> run(p, linear_engine(c.stages, nothing_to_prepare{}), how);
  if (odd && arguments[0] == "between") throw std::runtime_error("cannot read the batch");
  run.run_step(c.values());
  say("a step was run");
  return 0;
}

}  // namespace cleave::testing
