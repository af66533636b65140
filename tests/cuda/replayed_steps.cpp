// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/cuda/pipeline.hpp"
#include "cleave/cuda/threads.hpp"
#include "cleave/run/program/step_recorder.hpp"
#include "cleave/schedule/families/dual_pipe.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

/// Steps that GPUs replay after their host has issued them once.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;

/// Linear stages that declare whether they can be recorded, and count overlapped passes and hooks.
struct recorded_bodies : linear_bodies {
  bool can_be = true;
  int pairs = 0, hooks = 0;

  bool records() const { return can_be; }
  void overlapped(cudaStream_t s, custom_part const& f, custom_part const& b) {
    ++pairs;
    backward(s, b.pass, b.in, b.out);
    forward(s, f.pass, f.in, f.out);
  }
  void before_forward(cudaStream_t, stage_pass const&) { ++hooks; }
  void after_backward(cudaStream_t, stage_pass const&) { ++hooks; }
};
using engine = cleave::cuda::callable_stage<recorded_bodies>;
using pipeline = cleave::cuda::pipeline<engine>;

struct tried_run {
  linear_chain model;
  step_plan plan;

  tried_run(schedule_family family, std::uint32_t ranks, rng random = rng(6))
      : tried_run(family_schedule(family, ranks, 2 * ranks), random) {}
  tried_run(schedule const& s, rng random)
      : model(s, random),
        plan(s, model.t, linear_layouts(model.t, model.rows),
             {.delivery = {.delivery = delivery::one_queue}}) {}
};

/// The arguments of one of several successive steps.
struct given_step {
  double factor = 1;  ///< multiplies the inputs
  gradient_end gradients = gradient_end::reduced;
  std::vector<double> weights = {};
};

/// The results of all ranks, in order of the ranks, and the calls that were made.
struct seen_steps {
  std::vector<std::vector<double>> numbers;
  std::vector<std::size_t> recordings;
  std::vector<int> pairs, hooks;
  std::vector<std::optional<std::string>> obstacles;
  std::vector<instruction_time> times;              ///< of the last step, of rank 0
  std::size_t graphs = 0, kernels = 0, groups = 0;  ///< kernels and groups from the third step on
};

/// Runs `steps`, whose inputs alternate between two addresses.
seen_steps run_steps(tried_run const& r, cleave::cuda::pipeline_options const& o,
                     std::vector<given_step> const& steps, std::function<bool(rank_id)> records = {}) {
  auto const ranks = static_cast<std::uint32_t>(r.plan.order().ranks.size()) * o.run.replicas;
  seen_steps seen;
  seen.numbers.resize(ranks);
  seen.recordings.resize(ranks);
  seen.pairs.resize(ranks);
  seen.hooks.resize(ranks);
  seen.obstacles.resize(ranks);
  fake_cuda fake(fake_gpus(ranks, 5));
  auto const thrown = on_ranks(ranks, [&](process_start const& s) {
    auto const make = [&](cleave::cuda::device& d) {
      return engine(recorded_bodies{linear_bodies(d, r.model.stages), !records || records(s.rank)});
    };
    pipeline run(r.plan, make, o, s);
    auto const here = index(s.rank);
    auto const meet = [&] { run.rendezvous().barrier(std::chrono::steady_clock::now() + 20s); };
    auto const read = [&](char const* function, std::size_t& to) {
      if (here == 0) to = fake.calls(function) - to;
    };
    std::vector<cuda_step> places;
    for (int i = 0; i < 2; ++i) places.emplace_back(run.own_device(), r.model.values());
    for (std::size_t i = 0; i < steps.size(); ++i) {
      meet();
      if (i == 2) read("cudaLaunchKernel", seen.kernels), read("ncclGroupEnd", seen.groups);
      meet();
      auto values = places[i % 2].values();
      for (std::size_t n = 0; n < values.inputs.size(); ++n) {
        auto const host = r.model.values().inputs[n].elements();
        std::vector<double> x(static_cast<double const*>(host.data),
                              static_cast<double const*>(host.data) + host.count);
        for (auto& y : x) y *= steps[i].factor;
        cleave::cuda::check(cudaMemcpy(values.inputs[n].data, x.data(), host.bytes(), cudaMemcpyHostToDevice),
                            "copy");
      }
      values.gradients = steps[i].gradients;
      values.weights = steps[i].weights;
      run.run_step(values);
    }
    meet();
    read("cudaLaunchKernel", seen.kernels), read("ncclGroupEnd", seen.groups);
    for (std::uint32_t m = 0; m < r.model.rows.size(); ++m)
      for (std::uint32_t n = 0; n < results_of(r.model.t); ++n)
        if (auto const v = run.result(microbatch_id{m}, n))
          for (auto const x : numbers_on_host(*v)) seen.numbers[here].push_back(x);
    for (std::uint32_t stage = 0; stage < r.model.t.stages; ++stage)
      if (r.plan.rank_of(stage_id{stage}) == rank_id{run.place().pipe}) {
        auto const g = run.stages().bodies().gradient(stage_id{stage});
        seen.numbers[here].insert(seen.numbers[here].end(), {g.w, g.b});
      }
    seen.recordings[here] = run.recordings();
    seen.pairs[here] = run.stages().bodies().pairs;
    seen.hooks[here] = run.stages().bodies().hooks;
    seen.obstacles[here] = run.replay_obstacle();
    if (here == 0) seen.times = run.times();
    meet();
  });
  for (auto const& text : thrown) CHECK(text == "");
  for (auto const& text : fake.reports()) CHECK(text == "");
  for (auto const& text : fake.leaks()) CHECK(text == "");
  seen.graphs = fake.calls("cudaGraphLaunch");
  return seen;
}

cleave::cuda::pipeline_options with_steps(step_mode steps) {
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = 20s;
  o.messages = {.abort_within = 20s, .finish_within = 20s};  // of which nothing falls short
  o.device.drain_within = 20s;
  o.run.bucket_bytes = 64;
  o.messages.shortest_slice = 16;
  o.run.steps = steps;
  return o;
}

}  // namespace

TEST_CASE("step_mode::replayed: matches issued steps, with one graph launch per step and inputs anywhere") {
  std::vector<given_step> steps(5);
  for (std::size_t i = 0; i < steps.size(); ++i) steps[i].factor = 1 + static_cast<double>(i);
  for (auto const family :
       {schedule_family::one_f_one_b, schedule_family::interleaved_1f1b, schedule_family::zbv}) {
    CAPTURE(name_of(family));
    bool const summed = family != schedule_family::interleaved_1f1b;
    std::uint32_t const ranks = family == schedule_family::one_f_one_b ? 3 : 2;
    tried_run const r(family, ranks);
    auto issued = with_steps(step_mode::issued), replayed = with_steps(step_mode::replayed);
    for (auto* const o : {&issued, &replayed}) {
      if (!summed) continue;
      o->run.replicas = 2;
      o->run.ties = {{{stage_id{0}, 0}, {stage_id{r.model.t.stages - 1}, 0}}};
    }
    auto const all = ranks * issued.run.replicas;
    auto const wanted = run_steps(r, issued, steps), seen = run_steps(r, replayed, steps);
    CHECK(seen.numbers == wanted.numbers);
    CHECK(seen.obstacles == std::vector(all, std::optional<std::string>()));
    CHECK(seen.recordings == std::vector<std::size_t>(all, 1));
    CHECK(seen.graphs == all * 4);
    CHECK(seen.kernels == 0);
    CHECK(seen.groups == 0);
    CHECK(wanted.kernels > 0);
    CHECK(wanted.groups > 0);
    CHECK(wanted.graphs == 0);
    CHECK(wanted.recordings == std::vector<std::size_t>(all, 0));
    CHECK(std::ranges::count(seen.times, instruction_time{}) == std::ssize(seen.times));
    CHECK(std::ranges::count(wanted.times, instruction_time{}) < std::ssize(wanted.times));
  }
}

TEST_CASE(
    "step_mode::replayed: replays overlapped passes, which are called in the first two steps, as hooks are") {
  tried_run const r(dual_pipe_v(2, 6), rng(8));
  std::vector<given_step> const steps(4);
  auto const wanted = run_steps(r, with_steps(step_mode::issued), steps);
  auto const seen = run_steps(r, with_steps(step_mode::replayed), steps);
  CHECK(seen.numbers == wanted.numbers);
  CHECK(seen.recordings == std::vector<std::size_t>(2, 1));
  CHECK(wanted.pairs == std::vector{4 * 7, 4 * 7});
  CHECK(seen.pairs == std::vector{2 * 7, 2 * 7});
  CHECK(wanted.hooks == std::vector{4 * 12, 0});
  CHECK(seen.hooks == std::vector{2 * 12, 0});
}

TEST_CASE("step_mode::replayed: records steps with and without sums once each, and again if weights change") {
  tried_run const r(schedule_family::one_f_one_b, 2);
  auto const kept = gradient_end::kept, reduced = gradient_end::reduced;
  std::vector<double> const halves(r.model.rows.size(), 0.5);
  std::vector<given_step> const steps = {{1, kept},    {2, kept},         {3, reduced},
                                         {4, reduced}, {5, kept},         {6, kept},
                                         {7, reduced}, {8, kept, halves}, {9, kept, halves}};
  auto issued = with_steps(step_mode::issued), replayed = with_steps(step_mode::replayed);
  issued.run.replicas = replayed.run.replicas = 2;
  auto const wanted = run_steps(r, issued, steps), seen = run_steps(r, replayed, steps);
  CHECK(seen.numbers == wanted.numbers);
  CHECK(seen.recordings == std::vector<std::size_t>(4, 3));
  CHECK(seen.graphs == 4 * 7);
}

TEST_CASE("step_mode::replayed: if one rank cannot record, all ranks issue their steps and say why") {
  tried_run const r(schedule_family::one_f_one_b, 2);
  std::vector<given_step> const steps(3);
  auto const o = with_steps(step_mode::replayed);
  auto const seen = run_steps(r, o, steps, [](rank_id rank) { return rank == rank_id{0}; });
  CHECK(seen.obstacles ==
        std::vector(
            2, std::optional<std::string>(
                   "rank 1: the stages declare that their work cannot be recorded (records() is false)")));
  CHECK(seen.graphs == 0);
  CHECK(seen.recordings == std::vector<std::size_t>(2, 0));
  CHECK(seen.numbers == run_steps(r, with_steps(step_mode::issued), steps).numbers);
  CHECK(run_steps(r, with_steps(step_mode::issued), {{}}).obstacles[0] ==
        "the options do not request it (step_mode::replayed)");

  auto p = make_rank_program(r.plan, rank_id{0});
  struct sure {
    bool records() const { return true; }
  };
  sure const stages;
  CHECK(find_replay_obstacle<cleave::cuda::device, cleave::cuda::loopback_communicator>(p, stages) ==
        "the communicator sends messages that cannot be recorded");
  CHECK(!find_replay_obstacle<cleave::cuda::device, nccl_communicator>(p, stages));
  linear_bodies const* const silent = nullptr;
  CHECK(find_replay_obstacle<cleave::cuda::device, nccl_communicator>(p, silent) ==
        "the stages do not declare that their work can be recorded (records())");
  p.layouts.edges[1].extents = shape_kind::dynamic;
  CHECK(find_replay_obstacle<cleave::cuda::device, nccl_communicator>(p, stages) ==
        "the shape of edge #1 is known only while a step runs");
}

namespace {

/// A caching allocator, as frameworks have: what is given back serves the next one that asks. Each of its
/// pools serves itself only.
class caching_allocator {
 public:
  ~caching_allocator() {
    for (auto const& b : all_) static_cast<void>(cudaFree(b.at));
  }
  void use_pool(int which) { pool_ = which; }
  void* take() {
    for (auto& b : all_)
      if (b.is_free && b.pool == pool_) return b.is_free = false, b.at;
    block b{nullptr, pool_, false};
    cleave::cuda::check(cudaMalloc(&b.at, bytes), "cudaMalloc");
    return all_.emplace_back(b).at;
  }
  void give_back(void* p) {
    for (auto& b : all_)
      if (b.at == p) b.is_free = true;
  }
  static constexpr std::size_t bytes = 64;

 private:
  struct block {
    void* at;
    int pool;
    bool is_free;
  };
  std::vector<block> all_;
  int pool_ = 0;
};

/// Linear stages whose passes use memory of a caching allocator.
struct caching_bodies : recorded_bodies {
  std::shared_ptr<caching_allocator> memory = std::make_shared<caching_allocator>();

  explicit caching_bodies(linear_bodies b) : recorded_bodies{std::move(b)} {}
  void forward(cudaStream_t s, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    auto* const scratch = memory->take();
    cleave::cuda::check(cudaMemsetAsync(scratch, 1, memory->bytes, s), "cudaMemsetAsync");
    recorded_bodies::forward(s, p, in, out);
    memory->give_back(scratch);
  }
};
/// The same, with a pool for recordings.
struct telling_bodies : caching_bodies {
  using caching_bodies::caching_bodies;
  int begun = 0, ended = 0;

  void begin_recording(cudaStream_t) { memory->use_pool(1), ++begun; }
  void end_recording(cudaStream_t) { memory->use_pool(0), ++ended; }
};

/// Returns true if memory that was taken after a recording keeps its bytes in replays, on all ranks.
template <class Bodies>
bool memory_is_kept(std::function<void(Bodies&)> look) {
  tried_run const r(schedule_family::one_f_one_b, 2);
  fake_cuda const fake(fake_gpus(2));
  std::atomic<bool> kept = true;
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    using engine_of = cleave::cuda::callable_stage<Bodies>;
    auto const make = [&](cleave::cuda::device& d) {
      return engine_of(Bodies(linear_bodies(d, r.model.stages)));
    };
    cleave::cuda::pipeline<engine_of> run(r.plan, make, with_steps(step_mode::replayed), s);
    cuda_step const step(run.own_device(), r.model.values());
    for (int i = 0; i < 2; ++i) run.run_step(step.values());
    CHECK(run.recordings() == 1);
    auto& bodies = run.stages().bodies();
    auto* const own = bodies.memory->take();
    std::vector<char> const sevens(bodies.memory->bytes, 7);
    std::vector<char> seen(sevens.size());
    cleave::cuda::check(cudaMemcpy(own, sevens.data(), sevens.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    run.run_step(step.values());
    cleave::cuda::check(cudaMemcpy(seen.data(), own, seen.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (seen != sevens) kept = false;
    look(bodies);
  });
  CHECK(thrown == lines(2));
  CHECK(fake.reports() == lines());
  return kept;
}

}  // namespace

TEST_CASE("step_mode::replayed: stages that are told of recordings keep their memory apart from others'") {
  CHECK(memory_is_kept<telling_bodies>([](telling_bodies const& b) {
    CHECK(b.begun == 1);
    CHECK(b.ended == 1);
  }));
  CHECK(!memory_is_kept<caching_bodies>([](caching_bodies const&) {}));  // or the test would see nothing
}

namespace {

/// The error of each rank in three steps; `suffer(pass)` is called before each pass that rank 1 issues.
lines failures_of(fake_cuda const& fake, cleave::cuda::pipeline_options const& o,
                  std::function<void(stage_pass const&, std::size_t step)> suffer) {
  tried_run const r(schedule_family::one_f_one_b, 2);
  auto thrown = on_ranks(2, [&](process_start const& s) {
    std::size_t step = 0;
    auto const prepare = [&](stage_pass const& p) {
      if (s.rank == rank_id{1}) suffer(p, step);
    };
    std::optional<cuda_step> values;
    pipeline run(
        r.plan,
        [&](cleave::cuda::device& d) {
          return engine(recorded_bodies{linear_bodies(d, r.model.stages, prepare)});
        },
        o, s);
    values.emplace(run.own_device(), r.model.values());
    for (; step < 3; ++step) run.run_step(values->values());
  });
  for (auto const& text : fake.reports()) CHECK(text == "");
  return thrown;
}

}  // namespace

TEST_CASE("step_mode::replayed: all ranks name a stage that cannot be recorded, and nothing leaks") {
  fake_cuda const fake(fake_gpus(2));
  auto const thrown =
      failures_of(fake, with_steps(step_mode::replayed), [](stage_pass const& p, std::size_t step) {
        if (step == 1 && p.microbatch == microbatch_id{1})
          cleave::cuda::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      });
  for (auto const& text : thrown) {
    CAPTURE(text);
    CHECK(text.find("stage 1") != text.npos);
    CHECK(text.find("cudaDeviceSynchronize: cudaErrorStreamCaptureUnsupported") != text.npos);
    CHECK(text.find("while a step is recorded, a stage must not wait for the GPU") != text.npos);
  }
  for (auto const& text : fake.leaks()) CHECK(text == "");
}

TEST_CASE(
    "step_mode::replayed: a replay that never ends times out; its graph does not outlive its communicator") {
  auto o = with_steps(step_mode::replayed);
  o.run.watchdog.limit = 1500ms;
  fake_cuda fake(fake_gpus(2));
  auto const thrown = failures_of(fake, o, [&](stage_pass const& p, std::size_t step) {
    if (step == 1 && p.microbatch == microbatch_id{1} && p.from_loss)
      fake.kill_rank(1, 1, fake_death::unseen);
  });
  for (auto const& text : thrown) {
    CAPTURE(text);
    CHECK(text.find("timed out: ") != text.npos);
    CHECK(text.find("a replayed step") != text.npos);
  }
}
