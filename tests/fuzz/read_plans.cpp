// SPDX-License-Identifier: MIT
// Fuzzes the plans of other frameworks. A text is rejected, or what it says is the same after it is written
// and read again.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>

#include "cleave/core/expects.hpp"
#include "cleave/formats/genai_pipeline.hpp"
#include "cleave/schedule/text/layer_layout.hpp"
#include "cleave/schedule/text/layer_plans.hpp"
#include "fuzz/unless_refused.hpp"

using namespace cleave;
using testing::unless_refused;

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size > 4000) return -1;
  std::string const text(reinterpret_cast<char const*>(data), size);
  if (auto const counts = unless_refused([&] { return read_layer_counts(text); }))
    expects(read_layer_counts(layer_counts_text(*counts)) == *counts, "the same layers");
  if (auto const lists = unless_refused([&] { return read_module_lists(text); }))
    expects(read_module_lists(module_lists_text(*lists)) == *lists, "the same modules");
  if (auto const bounds = unless_refused([&] { return read_deepspeed_parts(text); }))
    expects(read_deepspeed_parts(deepspeed_parts_text(*bounds)) == *bounds, "the same bounds");
  if (auto const shares = unless_refused([&] { return read_tensor_split(text); })) {
    auto const counts = layers_by_tensor_split(*shares, 33);
    expects(std::accumulate(counts.begin(), counts.end(), 0U) == 33, "a device for each layer");
  }
  if (auto const layout = unless_refused([&] { return read_layer_layout(text); }))
    if (layer_layout_text(*layout).size() < 100'000)
      expects(read_layer_layout(short_layer_layout_text(*layout)) == *layout, "the same layout");
  if (auto const stages = unless_refused([&] { return read_genai_pipeline(text); }))
    expects(read_genai_pipeline(write_genai_pipeline(*stages)) == *stages, "the same pipeline");
  return 0;
}
