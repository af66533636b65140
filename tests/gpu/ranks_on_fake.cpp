// SPDX-License-Identifier: MIT
// The ranks of gpu_rank as threads of one process, which is all that the fake NCCL connects: on one GPU, with
// a host name each.
//
//   gpu_ranks SCHEDULE RANKS
//   gpu_ranks messages 2
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "cleave/schedule/model/schedule_names.hpp"
#include "gpu/rank.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/nccl_ranks.hpp"

int main(int count, char** arguments) try {
  using namespace cleave;
  using namespace cleave::detail;
  bool const measures = count > 2 && std::string_view(arguments[1]) == "messages";
  auto const family = count > 2 ? find_schedule_family(arguments[1]) : std::nullopt;
  if (!family && !measures) return std::fprintf(stderr, "usage: gpu_ranks SCHEDULE RANKS\n"), 2;
  testing::fake_cuda fake;
  std::atomic<std::size_t> different = 0;
  auto const thrown =
      testing::on_ranks(static_cast<std::uint32_t>(std::atoi(arguments[2])), [&](process_start const& start) {
        fake.host("host" + std::to_string(index(start.rank)));
        if (measures)
          testing::measure_messages(start);
        else
          different += testing::run_rank(start, {.family = *family});
      });
  int failed = different == 0 ? 0 : 1;
  for (auto const& t : thrown)
    if (!t.empty()) failed = 1, std::printf("%s\n", t.c_str());
  if (!measures) std::printf("%zu results and gradients differ\n", different.load());
  return failed;
} catch (std::exception const& e) {
  return std::fprintf(stderr, "gpu_ranks: %s\n", e.what()), 1;
}
