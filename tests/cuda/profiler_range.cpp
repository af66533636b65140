// SPDX-License-Identifier: MIT
#include "cleave/cuda/detail/profiler_range.hpp"

#include <doctest/doctest.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cleave/cuda/threads.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// The ranges that NVTX is told of, as by a profiler that is attached to this program.
struct seen_ranges {
  std::mutex mutex;
  std::set<std::string> domains, texts;
  std::size_t begun = 0, ended = 0;
};
seen_ranges& seen() {
  static seen_ranges all;
  return all;
}

nvtxDomainHandle_t make_domain(char const* name) {
  std::lock_guard lock(seen().mutex);
  seen().domains.insert(name);
  return reinterpret_cast<nvtxDomainHandle_t>(&seen());
}
int begin_range(nvtxDomainHandle_t, nvtxEventAttributes_t const* range) {
  std::lock_guard lock(seen().mutex);
  seen().texts.insert(range->message.ascii);
  ++seen().begun;
  return 0;
}
int end_range(nvtxDomainHandle_t) {
  std::lock_guard lock(seen().mutex);
  ++seen().ended;
  return 0;
}

int attach(NvtxGetExportTableFunc_t table_of) {
  auto const* const all = static_cast<NvtxExportTableCallbacks const*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (!all || all->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = reinterpret_cast<NvtxFunctionPointer>(&make_domain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] = reinterpret_cast<NvtxFunctionPointer>(&begin_range);
  *table[NVTX_CBID_CORE2_DomainRangePop] = reinterpret_cast<NvtxFunctionPointer>(&end_range);
  return 1;
}
[[maybe_unused]] bool const is_attached = (InitializeInjectionNvtx2_fnptr = &attach, true);

}  // namespace

TEST_CASE("cuda::thread_pipeline: profilers see a range of each stage call, named by stage and microbatch") {
  fake_cuda const fake;
  rng random{3};
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 2);
  linear_chain const chain(s, random);
  step_plan const plan(s, chain.t, linear_layouts(chain.t, chain.rows));
  {
    cleave::cuda::device device;
    cuda_step const step(device, chain.values());
    cuda_linear_run run(plan, linear_engines(chain));
    run.run_step(step.values());
  }
  std::lock_guard lock(seen().mutex);
  CHECK(seen().domains.contains("cleave"));
  for (auto const* text : {"forward, stage 0, microbatch 0", "forward, stage 1, microbatch 1",
                           "backward, stage 1, microbatch 0", "backward, stage 0, microbatch 1"})
    CHECK_MESSAGE(seen().texts.contains(text), text);
  CHECK(seen().begun >= 8);
  CHECK(seen().begun == seen().ended);
  CHECK(fake.reports().empty());
}
