// SPDX-License-Identifier: MIT
#include "cleave/cuda/pipeline.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;
using linear_pipeline = cleave::cuda::pipeline<cuda_linear_engine>;

/// The results of all processes of each replica.
class gathered_outcomes {
 public:
  gathered_outcomes(std::size_t replicas, step_plan const& p, linear_model const& m)
      : plan_(p), model_(m), made_(replicas) {
    for (auto& r : made_) {
      r.results.assign(m.rows.size(), std::vector<std::optional<std::vector<double>>>(results_of(m.t)));
      r.gradients.resize(m.t.stages);
    }
  }

  void add(linear_pipeline& run) {
    std::lock_guard lock(mutex_);
    auto& r = made_[run.place().data];
    for (std::uint32_t m = 0; m < model_.rows.size(); ++m)
      for (std::uint32_t n = 0; n < results_of(model_.t); ++n)
        if (auto const v = run.result(microbatch_id{m}, n)) r.results[m][n] = numbers_on_host(*v);
    for (std::uint32_t s = 0; s < model_.t.stages; ++s)
      if (plan_.rank_of(stage_id{s}) == rank_id{run.place().pipe})
        r.gradients[s] = run.stages().bodies().gradient(stage_id{s});
  }
  std::vector<linear_outcome> const& all() const { return made_; }

 private:
  step_plan const& plan_;
  linear_model const& model_;
  std::mutex mutex_;
  std::vector<linear_outcome> made_;
};

/// Runs `steps` steps of `p` on each rank and returns the results. CHECKs that nothing fails, races or leaks.
std::vector<linear_outcome> outcomes_on_gpus(step_plan const& p, linear_model const& m,
                                             cleave::cuda::pipeline_options const& o, std::uint64_t seed,
                                             std::size_t steps = 1) {
  auto const ranks = static_cast<std::uint32_t>(p.order().ranks.size()) * o.run.replicas;
  gathered_outcomes made(o.run.replicas, p, m);
  fake_cuda fake(fake_gpus(ranks, seed));
  auto const thrown = on_ranks(ranks, [&](process_start const& s) {
    linear_pipeline run(p, [&](cleave::cuda::device& d) { return linear_engines(m)(rank_id{0}, d); }, o, s);
    cuda_step const step(run.own_device(), m.values());
    for (std::size_t i = 0; i < steps; ++i) run.run_step(step.values());
    made.add(run);
  });
  for (auto const& text : thrown) CHECK(text == "");
  CHECK(fake.reports() == lines());
  CHECK(fake.leaks() == lines());
  return made.all();
}

cleave::cuda::pipeline_options usual() {
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = 30s;
  return o;
}

/// Options for a run that ends quickly after a failure, and whose steps take at most `limit`.
cleave::cuda::pipeline_options hasty(std::chrono::milliseconds limit = 20s) {
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = limit;
  o.messages = {.abort_within = 200ms, .finish_within = 200ms};
  o.device.drain_within = 300ms;
  return o;
}

/// A chain of linear stages on `ranks` ranks, 1F1B.
struct small_run {
  linear_chain model;
  step_plan plan;

  explicit small_run(std::uint32_t ranks, rng random = rng(4))
      : small_run(family_schedule(schedule_family::one_f_one_b, ranks, 2 * ranks), random) {}
  small_run(schedule const& s, rng random)
      : model(s, random),
        plan(s, model.t, linear_layouts(model.t, model.rows),
             {.delivery = {.delivery = delivery::one_queue}}) {}
};

using clock_type = std::chrono::steady_clock;

/// Memory of the caller of a step, which `cudaFree` frees once all kernels of the GPU have ended.
enum class freed : std::uint8_t { before_the_run, after_the_run };

/// The error of each rank in a step, and its time. `suffer(pass, run)` is called before each pass of rank 1.
struct step_failures {
  lines texts;
  std::vector<clock_type::time_point> known;

  template <class Suffer>
  step_failures(small_run const& r, std::uint32_t ranks, cleave::cuda::pipeline_options const& o,
                Suffer suffer, freed values = freed::before_the_run)
      : known(ranks) {
    texts = on_ranks(ranks, [&](process_start const& s) {
      linear_pipeline* running = nullptr;
      auto const prepare = [&](stage_pass const& p) {
        if (s.rank == rank_id{1}) suffer(p, *running);
      };
      cleave::cuda::device own({.device = static_cast<int>(index(s.rank))});
      std::optional<cuda_step> outliving;
      linear_pipeline run(
          r.plan, [&](cleave::cuda::device& d) { return linear_engines(r.model, prepare)(s.rank, d); }, o, s);
      running = &run;
      std::optional<cuda_step> local;
      bool const is_local = values == freed::before_the_run;
      auto& step = is_local ? local : outliving;
      step.emplace(is_local ? own : run.own_device(), r.model.values());
      try {
        run.run_step(step->values());
      } catch (...) {
        known[index(s.rank)] = clock_type::now();
        throw;
      }
    });
  }
};

template <class Suffer>
lines failures_of(small_run const& r, std::uint32_t ranks, cleave::cuda::pipeline_options const& o,
                  Suffer suffer, freed values = freed::before_the_run) {
  return step_failures(r, ranks, o, suffer, values).texts;
}

double seconds_since(clock_type::time_point t) {
  return std::chrono::duration<double>(clock_type::now() - t).count();
}

/// Random options in which the messages of a rank run one after the other.
program_options random_options(rng& random) {
  program_options o;
  o.delivery = {.delivery = delivery::one_queue};
  o.lowering = {.reductions = random.one_in(2) ? reduction_wait::at_once : reduction_wait::deferred,
                .grouping = random.one_in(2) ? message_grouping::none : message_grouping::adjacent};
  return o;
}

}  // namespace

TEST_CASE("cuda::pipeline: every schedule family gives the host's results bit for bit") {
  rng random(2);
  for (std::size_t f = 0; f < schedule_names.size(); ++f)
    for (std::uint32_t const ranks : {2u, 4u}) {
      auto const family = static_cast<schedule_family>(f);
      auto const s = family_schedule(family, ranks, 2 * ranks);
      linear_chain const c(s, random);
      CAPTURE(name_of(family));
      CAPTURE(ranks);
      step_plan const p(s, c.t, linear_layouts(c.t, c.rows), random_options(random));
      CHECK(outcomes_on_gpus(p, c, usual(), random.next(), 2) == std::vector{outcome_on_host(p, c, 2)});
    }
}

TEST_CASE("cuda::pipeline: sums gradients over replicas and ties as the host does") {
  rng random(3);
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    auto const ranks = static_cast<std::uint32_t>(2 + random.below(2));
    auto const replicas = static_cast<std::uint32_t>(1 + random.below(2));
    auto const s = family_schedule(schedule_family::interleaved_1f1b, ranks, 2 * ranks);
    auto const stages = s.place.stages();
    linear_chain const c(s, random);
    std::vector<tied_gradients> const ties = {{{stage_id{0}, 0}, {stage_id{stages - 1}, 0}},
                                              {{stage_id{1}, 1}, {stage_id{2}, 1}}};
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows), random_options(random));
    auto o = usual();
    o.run.replicas = replicas;
    o.run.ties = ties;
    o.messages.shortest_slice = random.one_in(2) ? 16 : 65536;
    o.run.bucket_bytes = 64;
    auto const wanted = outcome_on_host(p, c, 1, {.replicas = replicas, .ties = ties, .bucket_bytes = 64});
    auto const made = outcomes_on_gpus(p, c, o, random.next());
    for (auto const& replica : made) CHECK(replica == wanted);
  }
}

TEST_CASE("cuda::pipeline: an update gives all ranks the same norm and clears gradients") {
  small_run const r(3);
  fake_cuda fake(fake_gpus(3));
  std::vector<double> norms(3);
  auto const thrown = on_ranks(3, [&](process_start const& s) {
    auto o = usual();
    o.run.ties = {{{stage_id{0}, 0}, {stage_id{2}, 0}}};
    linear_pipeline run(
        r.plan, [&](cleave::cuda::device& d) { return linear_engines(r.model)(s.rank, d); }, o, s);
    cuda_step const step(run.own_device(), r.model.values());
    run.share_ties();
    run.run_step(step.values());
    auto const done = run.update({.most_norm = 1});
    CHECK(done.applied);
    norms[index(s.rank)] = done.norm;
    CHECK(run.stages().bodies().gradient(stage_id{index(s.rank)}) == linear_gradient{});
  });
  CHECK(thrown == lines(3));
  CHECK(norms[0] > 0);
  CHECK(norms == std::vector<double>(3, norms[0]));
  CHECK(fake.reports() == lines());
}

TEST_CASE("cuda::pipeline: every rank reports an exception thrown by a stage") {
  small_run const r(3);
  fake_cuda const fake(fake_gpus(3));
  auto const thrown = failures_of(r, 3, hasty(), [](stage_pass const& p, linear_pipeline&) {
    if (p.microbatch == microbatch_id{2}) throw std::runtime_error("out of paper");
  });
  for (auto const& text : thrown) {
    CHECK(text.find("stage 1, microbatch 2") != text.npos);
    CHECK(text.find("out of paper") != text.npos);
  }
  CHECK(fake.reports() == lines());
}

TEST_CASE("cuda::pipeline: all ranks fail within 0.1 s of a reported loss, even if messages never end") {
  small_run const r(3);
  double slowest = 1000;
  for (int attempt = 0; attempt < 3 && slowest >= 0.1; ++attempt) {  // other programs run as well
    fake_cuda fake(fake_gpus(3));
    clock_type::time_point lost;
    step_failures const all(r, 3, hasty(), [&](stage_pass const& p, linear_pipeline& run) {
      if (p.microbatch != microbatch_id{2}) return;
      fake.kill_rank(1, 1, fake_death::unseen);
      lost = clock_type::now();
      run.rendezvous().publish({.code = failure_code::peer_lost,
                                .detail = "the connection to rank 1 has ended",
                                .reporter = rank_id{0},
                                .culprit = rank_id{1}});
    });
    for (auto const& text : all.texts)
      CHECK(text.find("peer lost: the connection to rank 1 has ended") != text.npos);
    CHECK(fake.reports() == lines());
    slowest = std::chrono::duration<double>(*std::ranges::max_element(all.known) - lost).count();
  }
  CHECK(slowest < 0.1);
}

TEST_CASE("cuda::pipeline: a stage that hangs on the host is named, and a hanging kernel times out") {
  small_run const r(3);
  {
    fake_cuda const fake(fake_gpus(3));
    auto const thrown = failures_of(r, 3, hasty(1500ms), [](stage_pass const& p, linear_pipeline&) {
      if (p.microbatch == microbatch_id{2}) std::this_thread::sleep_for(2500ms);
    });
    for (auto const& text : thrown)
      CHECK(text.find("rank 1 computes stage 1 microbatch 2 (forward 1 2)") != text.npos);
    CHECK(fake.reports() == lines());
  }
  fake_cuda fake(fake_gpus(3));
  fake.hang("linear_forward", 4);
  auto const begin = std::chrono::steady_clock::now();
  auto const thrown =
      failures_of(r, 3, hasty(1500ms), [](stage_pass const&, linear_pipeline&) {}, freed::after_the_run);
  CHECK(seconds_since(begin) < 10);
  for (auto const& text : thrown) CHECK(text.find("timed out: ") != text.npos);
  // Pinned memory is freed once all GPUs of the process are idle; here all ranks share one process.
  for (auto const& report : fake.reports()) {
    CAPTURE(report);
    CHECK(report.starts_with("cudaFreeHost waits for ever for "));
  }
  fake.release();
}

TEST_CASE("cuda::pipeline: lost messages or an NCCL error end the run on all ranks") {
  small_run const r(3);
  {
    fake_cuda fake(fake_gpus(3));
    auto const thrown = failures_of(r, 3, hasty(1500ms), [&](stage_pass const& p, linear_pipeline&) {
      if (p.microbatch == microbatch_id{1}) fake.kill_rank(1, 1, fake_death::unseen);
    });
    for (auto const& text : thrown) CHECK(text.find("timed out: ") != text.npos);
    CHECK(fake.reports() == lines());
  }
  fake_cuda fake(fake_gpus(3));
  auto const begin = std::chrono::steady_clock::now();
  auto const thrown = failures_of(r, 3, hasty(), [&](stage_pass const& p, linear_pipeline&) {
    if (p.microbatch == microbatch_id{2}) fake.fail_communicators(2, ncclRemoteError);
  });
  CHECK(seconds_since(begin) < 10);
  for (auto const& text : thrown) {
    CAPTURE(text);
    CHECK(text.find("peer lost: ") != text.npos);
    CHECK(text.find(": remote process exited") != text.npos);
  }
  CHECK(fake.reports() == lines());
}

TEST_CASE("cuda::pipeline: every rank reports a setup fault of any rank") {
  small_run const r(2), longer(family_schedule(schedule_family::one_f_one_b, 2, 6), rng(4));
  auto const set_up = [&](std::vector<fake_gpu> gpus, bool alike) {
    auto all = fake_gpus(2);
    all.devices = std::move(gpus);
    fake_cuda const fake(all);
    return on_ranks(2, [&](process_start const& s) {
      auto const& own = alike || s.rank == rank_id{0} ? r : longer;
      linear_pipeline run(
          own.plan, [&](cleave::cuda::device& d) { return linear_engines(own.model)(s.rank, d); }, hasty(),
          s);
    });
  };
  CHECK(set_up(std::vector<fake_gpu>(2), true) == lines(2));
  for (auto const& text : set_up(std::vector<fake_gpu>(2), false))
    CHECK(text.find("operation mismatch: ") != text.npos);
  auto small = std::vector<fake_gpu>(2);
  small[1].memory = 64;
  for (auto const& text : set_up(small, true)) {
    CHECK(text.find("device error: ") != text.npos);
    CHECK(text.find("the memory of GPU 1") != text.npos);
  }
}

TEST_CASE("cuda::pipeline: rejects ties between gradients of different types before the first step") {
  small_run const r(2);
  struct odd_engine : cuda_linear_engine {
    using cuda_linear_engine::cuda_linear_engine;
    std::vector<region> other;
    std::span<region const> gradients(stage_id s) {
      std::span<region const> const own = cuda_linear_engine::gradients(s);
      other.assign(own.begin(), own.end());
      if (s == stage_id{1}) other[0].type = element_type::f32;
      return other;
    }
  };
  fake_cuda const fake(fake_gpus(2));
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    auto o = hasty();
    o.run.ties = {{{stage_id{0}, 0}, {stage_id{1}, 0}}};
    cleave::cuda::pipeline<odd_engine> run(
        r.plan, [&](cleave::cuda::device& d) { return odd_engine(linear_bodies(d, r.model.stages)); }, o, s);
  });
  for (auto const& text : thrown)
    CHECK(
        text.find(
            "operation mismatch: gradient #0 of stage 0, 1 of f64, on rank 0, would be summed with gradient "
            "#0 of stage 1, 1 of f32, on rank 1; make both the same") != text.npos);
  CHECK(fake.reports() == lines());
}

TEST_CASE("find_gpu: picks the GPU with the process's local number, or the only visible one") {
  CHECK(find_gpu(0, 4) == 0);
  CHECK(find_gpu(3, 4) == 3);
  CHECK(find_gpu(5, 1) == 0);
  CHECK(!find_gpu(4, 4));
  CHECK(!find_gpu(0, 0));
  CHECK(gpu_error({4, 4}).what() ==
        std::string("process 4 of its host sees 4 GPUs (processes are counted from 0); start at most one "
                    "process per GPU, or choose the GPU of each (cuda::pipeline_options::gpu)"));
  fake_cuda const fake(fake_gpus(2));
  small_run const r(3);
  for (auto const& text : on_ranks(3, [&](process_start const& s) {
         linear_pipeline run(
             r.plan, [&](cleave::cuda::device& d) { return linear_engines(r.model)(s.rank, d); }, hasty(), s);
       }))
    CHECK(text.find("process 2 of its host sees 2 GPUs") != text.npos);
}

TEST_CASE("cuda::pipeline: rejects a plan that was verified for concurrent messages") {
  rng random(4);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 4);
  linear_chain const c(s, random);
  for (auto const d : {delivery::async, delivery::pair_stream, delivery::rendezvous}) {
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.delivery = {.delivery = d}});
    CHECK(find_plan_delivery_fault(p) == (d == delivery::rendezvous ? std::nullopt : std::optional(d)));
  }
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
  CHECK_THROWS_WITH_AS(
      linear_pipeline(
          p, [&](cleave::cuda::device& d) { return linear_engines(c)(rank_id{0}, d); }, {}, process_start{}),
      "the plan was verified for independent messages, but NCCL executes the messages of a rank in order; "
      "make the plan with program_options{.delivery = {.delivery = delivery::one_queue}}",
      plan_delivery_error);
}

TEST_CASE("cuda::pipeline: rejects a process count other than ranks times replicas") {
  small_run const r(2);
  CHECK_THROWS_WITH(
      linear_pipeline(
          r.plan, [&](cleave::cuda::device& d) { return linear_engines(r.model)(rank_id{0}, d); },
          {.run = {.replicas = 2}}, process_start{.size = 3}),
      "there are 3 ranks, but the schedule has 2 and there are 2 replicas of it; start 4 (torchrun "
      "--nproc-per-node, mpirun -n or srun -n)");
}
