// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/cuda/detail/adopted_communicator.hpp"
#include "cleave/cuda/pipeline.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/comes_true.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

/// Splits from a communicator of the caller, in which a rank is missing.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;
using adopted = cleave::cuda::adopted_communicator;
using cleave::cuda::nccl_calls;
using on_failure = enum adopted::on_failure;
using linear_pipeline = cleave::cuda::pipeline<cuda_linear_engine>;

/// The communicator of one rank of two, made by the caller.
class callers_own {
 public:
  callers_own(ncclUniqueId const& id, rank_id here, nccl_calls calls) : calls_(calls) {
    cleave::cuda::check(cudaSetDevice(static_cast<int>(index(here))), "cudaSetDevice");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = calls == nccl_calls::blocking ? 1 : 0;
    auto const r = ncclCommInitRankConfig(&made_, 2, id, static_cast<int>(index(here)), &config);
    CHECK((r == ncclSuccess || (r == ncclInProgress && calls == nccl_calls::polled)));
    CHECK(comes_true([&] {
      ncclResult_t state = ncclInProgress;
      return ncclCommGetAsyncError(made_, &state) == ncclSuccess && state == ncclSuccess;
    }));
  }
  adopted lent(on_failure then) const { return {.handle = made_, .calls = calls_, .on_failure = then}; }
  void abort() const { CHECK(ncclCommAbort(made_) == ncclSuccess); }

 private:
  ncclComm_t made_ = nullptr;
  nccl_calls calls_;
};

cleave::cuda::nccl_options with_limit(std::chrono::milliseconds limit) {
  return {.connect_within = limit, .abort_within = 10s, .finish_within = 10s};
}

/// Calls `f()`, which must fail because rank 1 misses in a split: neither before the limit nor much later.
template <class F>
void require_failure_at(std::chrono::milliseconds limit, F f) {
  auto const begin = std::chrono::steady_clock::now();
  std::optional<failure> found;
  try {
    f();
  } catch (run_error const& e) {
    found = e.info;
  }
  auto const took = std::chrono::steady_clock::now() - begin;
  CHECK(took >= limit);
  CHECK(took < limit + 15s);
  REQUIRE(found);
  CHECK(found->code == failure_code::timeout);
  CHECK(found->reporter == rank_id{0});
  CHECK(found->detail.starts_with("ncclCommSplit did not finish within " + std::to_string(limit.count()) +
                                  " ms; "));
}

/// Calls `f(calls, then)` for all ways to adopt a communicator.
template <class F>
void for_each_way(F f) {
  for (auto const calls : {nccl_calls::blocking, nccl_calls::polled})
    for (auto const then : {on_failure::left, on_failure::aborted}) {
      bool const blocks = calls == nccl_calls::blocking, left = then == on_failure::left;
      CAPTURE(blocks);
      CAPTURE(left);
      f(calls, then);
    }
}

ncclUniqueId new_id() {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

void meet(nccl_place& here) { here.rendezvous.barrier(std::chrono::steady_clock::now() + 20s); }

}  // namespace

TEST_CASE("cuda::adopted_communicator: a rank that misses in a split fails the others within the limit") {
  for_each_way([](nccl_calls calls, on_failure then) {
    for (auto const limit : {400ms, 1000ms}) {
      bool const splits_before = limit == 1000ms;  // what it has made is ended with the failure
      CAPTURE(splits_before);
      fake_cuda const fake(fake_gpus(2));
      auto const id = new_id();
      std::size_t aborted = 0;
      auto const thrown = on_ranks(2, [&](process_start const& s) {
        callers_own const own(id, s.rank, calls);
        nccl_place here(s, with_limit(limit));
        std::optional<nccl_communicator> all, first;
        all.emplace(here.rank, here.rendezvous, s.rank, s.size, own.lent(then));
        meet(here);
        if (splits_before) first.emplace(*all, 0, index(s.rank));
        if (s.rank == rank_id{0}) {
          require_failure_at(limit, [&] { nccl_communicator const never(*all, 0, 0); });
          first.reset();
          all.reset();
          aborted = fake.calls("ncclCommAbort");
        }
        meet(here);
        first.reset();
        all.reset();
        if (s.rank == rank_id{1} || then == on_failure::left) own.abort();
      });
      CHECK(thrown == lines(2));
      CHECK(aborted == (then == on_failure::aborted ? 1u : 0u) + (splits_before ? 1u : 0u));
      CHECK(fake.reports() == lines());
      CHECK(fake.leaks() == lines());
    }
  });
}

TEST_CASE("cuda::adopted_communicator: a split that ends after it was given up leaves nothing behind") {
  for_each_way([](nccl_calls calls, on_failure then) {
    if (then == on_failure::aborted) return;  // such a split never ends
    fake_cuda const fake(fake_gpus(2));
    auto const id = new_id();
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      callers_own const own(id, s.rank, calls);
      nccl_place here(s, with_limit(s.rank == rank_id{0} ? 400ms : 20'000ms));
      {
        std::optional<nccl_communicator> all;
        all.emplace(here.rank, here.rendezvous, s.rank, s.size, own.lent(then));
        meet(here);
        if (s.rank == rank_id{0}) {
          require_failure_at(400ms, [&] { nccl_communicator const never(*all, 0, 0); });
          all.reset();
        }
        meet(here);
        if (s.rank == rank_id{1}) nccl_communicator const late(*all, 0, 1);
      }
      meet(here);
      own.abort();
    });
    CHECK(thrown == lines(2));
    CHECK(fake.reports() == lines());
    CHECK(comes_true([&] { return fake.leaks() == lines(); }));
  });
}

namespace {

struct chain_of_two {
  schedule order = family_schedule(schedule_family::one_f_one_b, 2, 4);
  rng random{7};
  linear_chain model{order, random};
  step_plan plan{
      order, model.t, linear_layouts(model.t, model.rows), {.delivery = {.delivery = delivery::one_queue}}};

  /// Makes a pipeline and runs a step.
  void run(process_start const& s, cleave::cuda::pipeline_options const& o) const {
    linear_pipeline run(
        plan, [&](cleave::cuda::device& d) { return linear_engines(model)(s.rank, d); }, o, s);
    cuda_step const step(run.own_device(), model.values());
    run.run_step(step.values());
  }
};

cleave::cuda::pipeline_options options_with(adopted const& own, std::chrono::milliseconds limit) {
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = 20s;
  o.messages = with_limit(limit);
  o.communicator = own;
  return o;
}

}  // namespace

TEST_CASE("cuda::adopted_communicator: a pipeline without a rank in its split fails, and can be destroyed") {
  chain_of_two const chain;
  for_each_way([&](nccl_calls calls, on_failure then) {
    fake_cuda const fake(fake_gpus(2));
    auto const id = new_id();
    std::latch failed(2);
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      callers_own const own(id, s.rank, calls);
      if (s.rank == rank_id{0}) {
        require_failure_at(400ms, [&] { chain.run(s, options_with(own.lent(then), 400ms)); });
        failed.arrive_and_wait();
        if (then == on_failure::left) own.abort();
        return;
      }
      {
        nccl_place here(s);  // it takes part until others begin to split
        nccl_communicator const all(here.rank, here.rendezvous, s.rank, s.size, own.lent(then));
        failed.arrive_and_wait();
      }
      own.abort();
    });
    CHECK(thrown == lines(2));
    CHECK(fake.reports() == lines());
    CHECK(fake.leaks() == lines());
  });
}

TEST_CASE("cuda::adopted_communicator: a run that fails before its first split aborts it if it may") {
  chain_of_two const chain;
  for_each_way([&](nccl_calls calls, on_failure then) {
    fake_cuda const fake(fake_gpus(2));
    auto const id = new_id();
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      callers_own const own(id, s.rank, calls);
      auto o = options_with(own.lent(then), 60s);
      if (s.rank == rank_id{1}) o.gpu = 9;
      try {
        chain.run(s, o);
      } catch (...) {
        if (then == on_failure::left) own.abort();
        throw;
      }
    });
    for (auto const& text : thrown) {
      CAPTURE(text);
      CHECK(text.find("there is no GPU 9, only 2 GPUs") != text.npos);
    }
    CHECK(fake.calls("ncclCommAbort") == 2);
    CHECK(fake.reports() == lines());
    CHECK(fake.leaks() == lines());
  });
}

TEST_CASE("cuda::adopted_communicator: a split that fails on one rank is given up by the others at once") {
  chain_of_two const chain;
  for_each_way([&](nccl_calls calls, on_failure then) {
    fake_cuda fake(fake_gpus(2));
    auto const id = new_id();
    fake.fail("ncclCommSplit", 1, ncclInternalError);  // on the rank that comes first
    auto const begin = std::chrono::steady_clock::now();
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      callers_own const own(id, s.rank, calls);
      try {
        chain.run(s, options_with(own.lent(then), 60s));
      } catch (...) {
        if (then == on_failure::left) own.abort();
        throw;
      }
    });
    CHECK(std::chrono::steady_clock::now() - begin < 30s);
    for (auto const& text : thrown) {
      CAPTURE(text);
      CHECK(text.find("transport error: ncclCommSplit: ") != text.npos);
    }
    CHECK(fake.calls("ncclCommAbort") == 2);
    CHECK(fake.reports() == lines());
    CHECK(fake.leaks() == lines());
  });
}
