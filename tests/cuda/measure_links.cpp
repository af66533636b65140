// SPDX-License-Identifier: MIT
#include "cleave/cuda/measure_links.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/nccl_ranks.hpp"

using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

/// The communicator of a rank, which owns GPU `rank`. It is aborted at the end if its ranks did not all call.
class connected {
 public:
  connected(ncclUniqueId const& id, int rank, int size, int blocking) {
    cleave::cuda::check(cudaSetDevice(rank), "cudaSetDevice");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking;
    auto r = ncclCommInitRankConfig(&handle, size, id, rank, &config);
    while (r == ncclInProgress) CHECK(ncclCommGetAsyncError(handle, &r) == ncclSuccess);
    CHECK(r == ncclSuccess);
  }
  ~connected() { CHECK(ncclCommAbort(handle) == ncclSuccess); }
  connected(connected&&) = delete;

  ncclComm_t handle = nullptr;
};

}  // namespace

TEST_CASE("cuda::measure_links: all ranks get the same links, one for each pair") {
  for (int const blocking : {1, 0}) {
    fake_cuda const fake(fake_gpus(3));
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    std::vector<std::vector<rank_link>> found(3);
    auto const thrown = on_ranks(3, [&](process_start const& s) {
      auto const rank = index(s.rank);
      connected const c(id, static_cast<int>(rank), 3, blocking);
      found[rank] = cleave::cuda::measure_links(c.handle, {.rounds = 3, .bytes = 1000});
    });
    CHECK(thrown == std::vector<std::string>(3));
    REQUIRE(found[0].size() == 9);
    CHECK(found[1] == found[0]);
    CHECK(found[2] == found[0]);
    for (std::size_t a = 0; a < 3; ++a)
      for (std::size_t b = 0; b < 3; ++b) {
        CHECK(found[0][a * 3 + b] == found[0][b * 3 + a]);
        if (a != b) CHECK(found[0][a * 3 + b].latency > 0);
        if (a != b) CHECK(found[0][a * 3 + b].bandwidth < 1e300);
      }
    for (auto const& text : fake.reports()) CHECK(text == "");
  }
}

TEST_CASE("cuda::measure_links: a rank that does not call is a timeout, not a hang") {
  fake_cuda const fake(fake_gpus(2));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    connected const c(id, static_cast<int>(index(s.rank)), 2, 0);
    if (s.rank == rank_id{0}) cleave::cuda::measure_links(c.handle, {}, 200ms);
  });
  CHECK(thrown[0].find("another rank did not answer within 200 ms") != std::string::npos);
  CHECK(thrown[1] == "");
}

TEST_CASE("cuda::measure_links: rejects options that are out of range") {
  CHECK_THROWS_WITH_AS(
      cleave::cuda::measure_links(nullptr, {.rounds = 0}),
      "measure_links: rounds must be from 1 to 100000, and bytes from 1 to 1073741824; found "
      "0 and 4194304",
      error);
}
