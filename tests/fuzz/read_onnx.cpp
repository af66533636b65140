// SPDX-License-Identifier: MIT
// Fuzzes ONNX model files: each is read, cut and written out, or rejected with an error.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/onnx.hpp"
#include "fuzz/mutate_model.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Checks that each live node is in exactly one stage if it is not copied, and that stages have the outputs
/// they declare.
void check_stages(cleave::onnx::split_result const& cut) {
  auto const& replicable = cut.stages.snapshot().replicable;
  std::ptrdiff_t held = 0;
  for (auto const& stage : cut.stages.plan().stages)
    held += std::ranges::count_if(stage.nodes, [&](auto n) { return replicable[n] == 0; });
  expects(held == std::ranges::count(replicable, 0), "each node in one stage");
  for (auto const& t : cut.stages.plan().transfers)
    expects(!cut.graph->is_constant(cut.stages.snapshot().value[t.value]),
            "nothing of weights alone is sent");
  expects(cut.parts.bound <= cut.parts.bottleneck, "a bound that no cut is below");
  expects(cut.stages.size() <= 3, "no more stages than asked for");
  auto const models = cleave::onnx::stages(cut.stages, cut.types);
  for (auto const& m : models) {
    auto const fault = find_onnx_fault(m);
    if (fault) std::fprintf(stderr, "%s\n", fault->message.c_str());
    expects(!fault, "stages without faults");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  std::string_view const bytes(reinterpret_cast<char const*>(data), size);
  try {
    auto const model = cleave::onnx::parse(bytes);
    cleave::onnx::check(model);
    auto const cut =
        cleave::onnx::split(model, 3, {.types = {.inference = cleave::onnx::inference::without_libonnx}});
    check_stages(cut);
    cleave::onnx::notes_of(cut.stages);
  } catch (error const&) {
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return cleave::testing::mutate_model(data, size, most, seed);
}
