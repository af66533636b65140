// SPDX-License-Identifier: MIT
// Fuzzes ONNX model files: each is read, cut and written out, or rejected with an error.
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/onnx.hpp"
#include "fuzz/mutate_message.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

/// Replaces libonnx's shape inference, which crashes on many models and otherwise runs in a child process. A
/// node's outputs get the type of its first input.
void ::onnx::shape_inference::InferShapes(::onnx::ModelProto& m, ::onnx::ISchemaRegistry const*,
                                          ::onnx::ShapeInferenceOptions const&,
                                          std::unordered_map<std::string, ::onnx::TensorShapeProto>*) {
  std::unordered_map<std::string, ::onnx::TypeProto> types;
  auto& g = *m.mutable_graph();
  for (auto const* list : {&g.input(), &g.output(), &g.value_info()})
    for (auto const& v : *list) types.try_emplace(v.name(), v.type());
  for (auto const& n : g.node()) {
    auto const first = n.input().empty() ? types.end() : types.find(n.input(0));
    if (first == types.end()) continue;
    auto const type = first->second;
    for (auto const& name : n.output())
      if (types.try_emplace(name, type).second) {
        g.add_value_info()->set_name(name);
        *g.mutable_value_info()->rbegin()->mutable_type() = type;
      }
  }
}

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
        cleave::onnx::split(model, 3, {.types = {.inference = cleave::onnx::inference::same_process}});
    check_stages(cut);
    cleave::onnx::notes_of(cut.stages);
  } catch (error const&) {
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  testing::rng random(seed);
  google::protobuf::LogSilencer const quiet;
  ::onnx::ModelProto model;
  if (random.one_in(16) || !model.ParsePartialFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, most);
  for (auto changes = 1 + random.below(4); changes-- > 0;) testing::mutate_message(model, random);
  auto const bytes = model.ByteSizeLong();
  if (bytes > most || !model.SerializePartialToArray(data, static_cast<int>(bytes)))
    return LLVMFuzzerMutate(data, size, most);
  return bytes;
}
