// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>

#include "fuzz/mutate_message.hpp"
#include "support/rng.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace cleave::testing {

/// Changes the bytes of an ONNX model so that they mostly remain one; the others as the fuzzer does. Returns
/// their new number.
inline std::size_t mutate_model(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  rng random(seed);
  google::protobuf::LogSilencer const quiet;
  ::onnx::ModelProto model;
  if (random.one_in(16) || !model.ParsePartialFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, most);
  for (auto changes = 1 + random.below(4); changes-- > 0;) mutate_message(model, random);
  auto const bytes = model.ByteSizeLong();
  if (bytes > most || !model.SerializePartialToArray(data, static_cast<int>(bytes)))
    return LLVMFuzzerMutate(data, size, most);
  return bytes;
}

}  // namespace cleave::testing
