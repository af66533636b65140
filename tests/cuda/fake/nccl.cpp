// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <nccl.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "support/comes_true.hpp"
#include "support/cuda/fake_cuda.hpp"

using namespace cleave::testing;

namespace {

using lines = std::vector<std::string>;

/// A rank with its own thread: a stream, numbers on its GPU, and a non-blocking communicator.
struct nccl_rank_thread {
  int rank;
  ncclComm_t comm = nullptr;
  cudaStream_t s = nullptr;
  float* numbers = nullptr;

  ncclResult_t start(int size, ncclUniqueId const& id, int device) {
    cudaSetDevice(device);
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
    void* p = nullptr;
    CHECK(cudaMalloc(&p, 64 * sizeof(float)) == cudaSuccess);
    numbers = static_cast<float*>(p);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return settled(ncclCommInitRankConfig(&comm, size, id, rank, &config));
  }
  /// The result of the communicator once it is no longer in progress.
  ncclResult_t settled(ncclResult_t r) {
    comes_true([&] {
      if (r == ncclInProgress) ncclCommGetAsyncError(comm, &r);
      return r != ncclInProgress;
    });
    return r;
  }
  void set(std::vector<float> const& to) {
    CHECK(cudaMemcpyAsync(numbers, to.data(), to.size() * sizeof(float), cudaMemcpyHostToDevice, s) ==
          cudaSuccess);
  }
  std::vector<float> read(std::size_t first, std::size_t count) {
    std::vector<float> all(count);
    CHECK(cudaMemcpyAsync(all.data(), numbers + first, count * sizeof(float), cudaMemcpyDeviceToHost, s) ==
          cudaSuccess);
    return all;
  }
  ncclResult_t send(std::size_t first, std::size_t count, int peer) {
    return ncclSend(numbers + first, count, ncclFloat32, peer, comm, s);
  }
  ncclResult_t receive(std::size_t first, std::size_t count, int peer) {
    return ncclRecv(numbers + first, count, ncclFloat32, peer, comm, s);
  }
  void finish() {
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(settled(ncclCommFinalize(comm)) == ncclSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    close();
  }
  void abort() {
    CHECK(ncclCommAbort(comm) == ncclSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    close();
  }
  void close() {
    CHECK(cudaFree(numbers) == cudaSuccess);
    CHECK(cudaStreamDestroy(s) == cudaSuccess);
  }
};

fake_cuda_options on_gpus(std::size_t n, std::uint64_t seed = 1) {
  return {.seed = seed,
          .longest_delay = std::chrono::microseconds(100),
          .devices = std::vector<fake_gpu>(n),
          .callers = nccl_callers::one_thread};
}

/// Runs `f(rank)` for each of `size` ranks, each on its own thread and GPU.
template <class F>
void on_ranks(int size, F f) {
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&, r] {
      nccl_rank_thread here{r};
      CHECK(here.start(size, id, r) == ncclSuccess);
      f(here);
    });
  for (auto& t : threads) t.join();
}

}  // namespace

TEST_CASE("fake_cuda NCCL: messages match in order, and operations in a group do not wait for each other") {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    fake_cuda fake(on_gpus(3, seed));
    on_ranks(3, [](nccl_rank_thread& x) {
      float const own = static_cast<float>(x.rank);
      x.set({own, own + 10});
      int const next = (x.rank + 1) % 3, last = (x.rank + 2) % 3;
      ncclGroupStart();  // receives first: without groups this would deadlock
      CHECK(x.receive(2, 1, last) == ncclSuccess);
      CHECK(x.receive(3, 1, last) == ncclSuccess);
      CHECK(x.send(0, 1, next) == ncclSuccess);
      CHECK(x.send(1, 1, next) == ncclSuccess);
      CHECK(x.settled(ncclGroupEnd()) == ncclSuccess);
      auto const from = static_cast<float>(last);
      CHECK(x.read(0, 4) == std::vector<float>{own, own + 10, from, from + 10});
      x.finish();
    });
    CHECK(fake.reports() == lines{});
    CHECK(fake.leaks() == lines{});
  }
}

TEST_CASE("fake_cuda NCCL: collectives give every rank the right result, also in place") {
  fake_cuda fake(on_gpus(3));
  on_ranks(3, [](nccl_rank_thread& x) {
    auto const own = static_cast<float>(x.rank + 1);
    x.set({own, -own});
    CHECK(x.settled(ncclAllReduce(x.numbers, x.numbers, 2, ncclFloat32, ncclSum, x.comm, x.s)) ==
          ncclSuccess);
    CHECK(x.settled(ncclAllReduce(x.numbers, x.numbers + 2, 1, ncclFloat32, ncclMax, x.comm, x.s)) ==
          ncclSuccess);
    CHECK(x.read(0, 3) == std::vector<float>{6, -6, 6});
    x.set({own, own, own});
    auto const r = static_cast<std::size_t>(x.rank);
    CHECK(x.settled(ncclAllGather(x.numbers + r, x.numbers, 1, ncclFloat32, x.comm, x.s)) == ncclSuccess);
    CHECK(x.read(0, 3) == std::vector<float>{1, 2, 3});
    CHECK(x.settled(ncclReduceScatter(x.numbers, x.numbers + 8, 1, ncclFloat32, ncclSum, x.comm, x.s)) ==
          ncclSuccess);
    CHECK(x.read(8, 1) == std::vector<float>{3 * own});
    CHECK(x.settled(ncclBroadcast(x.numbers + 8, x.numbers + 9, 1, ncclFloat32, 2, x.comm, x.s)) ==
          ncclSuccess);
    CHECK(x.read(9, 1) == std::vector<float>{9});
    x.finish();
  });
  CHECK(fake.reports() == lines{});
}

TEST_CASE("fake_cuda NCCL: ncclCommSplit gives each color a communicator once the parent has settled") {
  fake_cuda fake(on_gpus(4));
  on_ranks(4, [](nccl_rank_thread& x) {
    ncclComm_t part = nullptr;
    int const color = x.rank == 3 ? NCCL_SPLIT_NOCOLOR : x.rank % 2;
    auto const result = ncclCommSplit(x.comm, color, -x.rank, &part, nullptr);
    if (result == ncclInProgress) CHECK(part == nullptr);
    CHECK(x.settled(result) == ncclSuccess);
    CHECK((part == nullptr) == (x.rank == 3));
    if (x.rank % 2 == 0) {
      int size = 0, rank = -1;
      CHECK(ncclCommCount(part, &size) == ncclSuccess);
      CHECK(ncclCommUserRank(part, &rank) == ncclSuccess);
      CHECK(size == 2);
      CHECK(rank == (x.rank == 2 ? 0 : 1));
    }
    if (part) CHECK(ncclCommAbort(part) == ncclSuccess);
    x.finish();
  });
  CHECK(fake.reports() == lines{});
}

TEST_CASE("fake_cuda NCCL: reports work on another stream that races with a receive") {
  fake_cuda fake(on_gpus(2));
  on_ranks(2, [](nccl_rank_thread& x) {
    x.set({1, 2});
    cudaStream_t other = nullptr;
    cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
    cudaEvent_t e = nullptr;
    cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
    auto const result = x.rank == 0 ? x.send(0, 2, 1) : x.receive(0, 2, 0);
    if (x.rank == 0 && result == ncclInProgress) cudaEventRecord(e, x.s);
    x.settled(result);
    if (x.rank == 1) cudaMemsetAsync(x.numbers, 0, 4, other);
  });
  auto const all = fake.reports();
  bool raced = false;
  for (auto const& sentence : all) raced = raced || sentence.find("nothing orders them") != std::string::npos;
  CHECK(raced);
}

TEST_CASE("fake_cuda NCCL: reports messages of different lengths and reductions that do not match") {
  {
    fake_cuda fake(on_gpus(2));
    on_ranks(2, [](nccl_rank_thread& x) {
      x.settled(x.rank == 0 ? x.send(0, 2, 1) : x.receive(0, 3, 0));
      CHECK(comes_true([&] {
        ncclResult_t state = ncclSuccess;
        ncclCommGetAsyncError(x.comm, &state);
        return state == ncclInvalidUsage;
      }));
      x.abort();
    });
    CHECK(fake.reports() ==
          lines{"rank 0 of communicator 0 sends 8 bytes where rank 1 of communicator 0 expects "
                "12 bytes"});
  }
  fake_cuda fake(on_gpus(2));
  on_ranks(2, [](nccl_rank_thread& x) {
    x.set({1, 2, 3});
    auto const count = static_cast<std::size_t>(x.rank + 1);
    x.settled(ncclAllReduce(x.numbers, x.numbers, count, ncclFloat32, ncclSum, x.comm, x.s));
    cudaStreamSynchronize(x.s);
    x.abort();
  });
  CHECK(fake.reports() ==
        lines{"rank 1 of communicator 0 takes part in ncclAllReduce of 8 bytes where rank 0 of "
              "communicator 0 takes part in ncclAllReduce of 4 bytes"});
}

TEST_CASE(
    "fake_cuda NCCL: two ranks on one GPU are rejected unless their hosts differ or the test allows it") {
  for (int way = 0; way < 3; ++way) {
    auto options = on_gpus(1);
    if (way == 2) options.sharing = ranks_on_one_gpu::allowed;
    fake_cuda fake(options);
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        if (way == 1) fake.host("host " + std::to_string(r));
        nccl_rank_thread here{r};
        auto const result = here.start(2, id, 0);
        CHECK(result == (way == 0 ? ncclInvalidUsage : ncclSuccess));
        if (way == 0)
          CHECK(std::string(ncclGetLastError(here.comm)).starts_with("Duplicate GPU detected : "));
        ncclCommAbort(here.comm);
        here.close();
      });
    for (auto& t : threads) t.join();
    CHECK(fake.reports() == lines{});
    CHECK(fake.leaks() == lines{});
  }
}

TEST_CASE("fake_cuda NCCL: the peer of a dead rank waits, and gets an error only if it can see the death") {
  for (auto const how : {fake_death::seen, fake_death::unseen}) {
    fake_cuda fake(on_gpus(2));
    fake.kill_rank(1, 2, how);
    on_ranks(2, [&](nccl_rank_thread& x) {
      x.set({1});
      auto const meet = [&] { return x.settled(x.rank == 0 ? x.send(0, 1, 1) : x.receive(0, 1, 0)); };
      CHECK(meet() == ncclSuccess);
      auto const second = meet();  // the peer may already have died in this one
      CHECK((second == ncclSuccess || (how == fake_death::seen && second == ncclRemoteError)));
      ncclResult_t state = ncclSuccess;
      auto const has_failed = [&] {
        ncclCommGetAsyncError(x.comm, &state);
        return state != ncclSuccess;
      };
      if (x.rank == 0 && how == fake_death::seen) CHECK(comes_true(has_failed));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      has_failed();
      CHECK(state == (x.rank == 0 && how == fake_death::seen ? ncclRemoteError : ncclSuccess));
      if (x.rank == 0) CHECK(cudaStreamQuery(x.s) == cudaErrorNotReady);
      if (x.rank == 0)
        CHECK(x.settled(ncclCommRevoke(x.comm, NCCL_REVOKE_DEFAULT)) ==
              (how == fake_death::seen ? ncclRemoteError : ncclSuccess));
      x.abort();
    });
    CHECK(fake.reports() == lines{});
    CHECK(fake.leaks() == lines{});
  }
}

TEST_CASE("fake_cuda NCCL: calls that a test makes hang do so until they are released or aborted") {
  {
    fake_cuda fake(on_gpus(1));
    fake.hang_nccl(fake_nccl_hang::init);
    nccl_rank_thread x{0};
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    CHECK(ncclCommInitRankConfig(&x.comm, 1, id, 0, &config) == ncclInProgress);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    ncclResult_t state = ncclSuccess;
    CHECK(ncclCommGetAsyncError(x.comm, &state) == ncclSuccess);
    CHECK(state == ncclInProgress);
    CHECK(ncclCommAbort(x.comm) == ncclSuccess);
    CHECK(fake.leaks() == lines{});
    CHECK(ncclCommGetAsyncError(x.comm, &state) == ncclInvalidArgument);
    CHECK(fake.reports() ==
          lines{"ncclCommGetAsyncError of a communicator that is destroyed: rank 0 of communicator 0"});
  }
  fake_cuda fake(on_gpus(1));
  fake.hang_nccl(fake_nccl_hang::abort);
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  std::atomic<bool> has_ended = false;
  std::thread aborts([&] {
    nccl_rank_thread x{0};
    CHECK(x.start(1, id, 0) == ncclSuccess);
    x.abort();
    has_ended = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(!has_ended);
  fake.release();
  aborts.join();
}

TEST_CASE("fake_cuda NCCL: reports calls from other threads, during another call, and after a revoke") {
  fake_cuda fake(on_gpus(1));
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  nccl_rank_thread x{0};
  CHECK(x.start(1, id, 0) == ncclSuccess);
  std::thread([&] {
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(x.comm, &state);
  }).join();
  CHECK(x.settled(ncclCommRevoke(x.comm, NCCL_REVOKE_DEFAULT)) == ncclSuccess);
  CHECK(ncclCommFinalize(x.comm) == ncclInvalidUsage);
  CHECK(x.send(0, 1, 0) == ncclInvalidUsage);
  CHECK(x.send(0, 1, 5) == ncclInvalidArgument);
  fake.hang_nccl(fake_nccl_hang::abort);
  std::thread aborts([&] { ncclCommAbort(x.comm); });
  CHECK(comes_true([&] { return fake.calls("ncclCommAbort") == 1; }));
  ncclResult_t state = ncclSuccess;
  ncclCommGetAsyncError(x.comm, &state);
  fake.release();
  aborts.join();
  CHECK(fake.reports() ==
        lines{"ncclCommGetAsyncError of rank 0 of communicator 0 by a thread that did not make it",
              "ncclCommFinalize of rank 0 of communicator 0, which is revoked",
              "ncclSend of 4 bytes to rank 5 by rank 0 of communicator 0, which has no such rank",
              "ncclCommGetAsyncError of a communicator that another thread is inside a call of"});
}

TEST_CASE("fake_cuda NCCL: without a driver, only the version and unique ids are available") {
  fake_cuda fake({.driver = fake_driver::absent, .nccl_version = 21805});
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version == 21805);
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t c = nullptr;
  CHECK(ncclCommInitRankConfig(&c, 1, id, 0, nullptr) == ncclUnhandledCudaError);
  CHECK(std::string(ncclGetLastError(nullptr)) ==
        "Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'");
}

TEST_CASE("fake_cuda NCCL: with groups in turn, two streams whose orders differ between ranks deadlock") {
  for (auto const groups : {fake_groups::at_once, fake_groups::in_turn}) {
    auto options = on_gpus(2);
    options.groups = groups;
    fake_cuda fake(options);
    std::barrier both(2);
    on_ranks(2, [&](nccl_rank_thread& x) {
      ncclComm_t second = nullptr;
      CHECK(x.settled(ncclCommSplit(x.comm, 0, x.rank, &second, nullptr)) == ncclSuccess);
      cudaStream_t other = nullptr;
      cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
      x.set({1, 2});
      cudaStreamSynchronize(x.s);
      ncclGroupStart();  // what the ranks issue in unequal orders, so that connecting does not show it
                         // already
      for (int i = 0; i < 2; ++i)
        if ((i == 0) == (x.rank == 0))
          x.rank == 0 ? x.send(0, 1, 1) : x.receive(0, 1, 0);
        else
          x.rank == 0 ? ncclSend(x.numbers + 1, 1, ncclFloat32, 1, second, other)
                      : ncclRecv(x.numbers + 1, 1, ncclFloat32, 0, second, other);
      auto const result = ncclGroupEnd();
      CHECK((result == ncclSuccess || result == ncclInProgress));
      both.arrive_and_wait();
      if (groups == fake_groups::in_turn) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      auto const has_ended = [&] { return cudaStreamQuery(x.s) == cudaSuccess; };
      CHECK((groups == fake_groups::at_once ? comes_true(has_ended) : !has_ended()));
      both.arrive_and_wait();
      CHECK(ncclCommAbort(second) == ncclSuccess);
      CHECK(cudaStreamSynchronize(other) == cudaSuccess);
      x.abort();
    });
    CHECK(fake.reports() == lines{});
  }
}
