// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cleave/run/sums/floating_bits.hpp"
#include "support/cuda/fake_nccl.hpp"

namespace cleave::testing::fake {

using namespace detail;

namespace {

template <class T>
auto wide(T x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::int64_t>(x);
  else
    return widened(x);
}

template <class T, class Wide>
T narrow(Wide x) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(x);
  else
    return narrowed<T>(x);
}

template <class Wide>
Wide combined(Wide a, Wide b, ncclRedOp_t op) {
  switch (op) {
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    case ncclProd:
      return a * b;
    default:
      return a + b;
  }
}

template <class T>
void reduce_elements(std::vector<std::vector<std::byte>> const& inputs, ncclRedOp_t op, void* to) {
  auto const ranks = inputs.size(), count = inputs[0].size() / sizeof(T);
  auto const at = [&](std::size_t rank, std::size_t i) {
    T x;
    std::memcpy(&x, inputs[rank].data() + i * sizeof(T), sizeof(T));
    return wide(x);
  };
  for (std::size_t i = 0; i < count; ++i) {
    auto const first = i / 8 % ranks;
    T sum = narrow<T>(at(first, i));
    for (std::size_t k = 1; k < ranks; ++k)
      sum = narrow<T>(combined(wide(sum), at((first + k) % ranks, i), op));
    if (op == ncclAvg) sum = narrow<T>(wide(sum) / static_cast<decltype(wide(sum))>(ranks));
    std::memcpy(static_cast<std::byte*>(to) + i * sizeof(T), &sum, sizeof(T));
  }
}

}  // namespace

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    default:
      return 1;
  }
}

void reduce(std::vector<std::vector<std::byte>> const& inputs, ncclDataType_t type, ncclRedOp_t op,
            void* to) {
  switch (type) {
    case ncclInt8:
      return reduce_elements<std::int8_t>(inputs, op, to);
    case ncclInt32:
      return reduce_elements<std::int32_t>(inputs, op, to);
    case ncclUint32:
      return reduce_elements<std::uint32_t>(inputs, op, to);
    case ncclInt64:
      return reduce_elements<std::int64_t>(inputs, op, to);
    case ncclUint64:
      return reduce_elements<std::uint64_t>(inputs, op, to);
    case ncclFloat16:
      return reduce_elements<float16_bits>(inputs, op, to);
    case ncclBfloat16:
      return reduce_elements<bfloat16_bits>(inputs, op, to);
    case ncclFloat32:
      return reduce_elements<float>(inputs, op, to);
    case ncclFloat64:
      return reduce_elements<double>(inputs, op, to);
    default:
      return reduce_elements<std::uint8_t>(inputs, op, to);
  }
}

}  // namespace cleave::testing::fake
