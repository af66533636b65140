// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/cuda/pipeline.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/nccl_ranks.hpp"

/// What sums over ranks cost, as docs/cuda.md says: counted calls, and the bytes that are given to them.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using lines = std::vector<std::string>;
using reductions = cleave::cuda::nccl_reductions;

/// The cost of a sum for one rank. Bytes are in units of the bytes that are summed.
struct cost {
  double sent, gathered, reduced;
  std::size_t groups, kernels;

  bool operator==(cost const&) const = default;
};

cost cost_of(std::uint32_t ranks, std::uint64_t count, reductions how) {
  fake_cuda const fake(fake_gpus(ranks));
  auto const thrown = on_ranks(ranks, [&](process_start const& s) {
    nccl_place here(s, {.reductions = how});
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    auto const memory = here.put(std::vector<std::byte>(count * sizeof(float)));
    auto ended = here.device.make_event();
    all.begin_group();
    all.all_reduce({memory.data(), count, element_type::f32}, reduce_op::sum, 0, here.stream);
    all.end_group(ended, here.stream);
    static_cast<void>(here.take(memory));
  });
  CHECK(thrown == lines(ranks));
  CHECK(fake.reports() == lines());
  auto const share = [&](char const* call) {
    return static_cast<double>(fake.nccl_bytes(call)) / static_cast<double>(ranks * count * sizeof(float));
  };
  return {share("ncclSend"), share("ncclAllGather"), share("ncclAllReduce"),
          fake.calls("ncclGroupEnd") / ranks, fake.calls("cudaLaunchKernel") / ranks};
}

}  // namespace

TEST_CASE("nccl_reductions: sums cost the bytes, NCCL groups and kernels that docs/cuda.md says") {
  constexpr std::uint64_t large = 1 << 16, small = 64;
  for (auto const count : {large, small}) {
    CHECK(cost_of(4, count, reductions::library) == cost{0, 0, 1, 1, 0});
    CHECK(cost_of(2, count, reductions::ordered) == cost{0, 1, 0, 1, 1});
  }
  CHECK(cost_of(4, large, reductions::ordered) == cost{0.75, 0.25, 0, 2, 1});
  CHECK(cost_of(4, small, reductions::ordered) == cost{0, 1, 0, 1, 1});
}
