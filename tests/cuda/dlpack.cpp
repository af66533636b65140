// SPDX-License-Identifier: MIT
#include "cleave/cuda/dlpack.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "cleave/core/error.hpp"

using namespace cleave;
using namespace cleave::detail;

namespace {

/// The structures of DLPack, with its names.
struct DLDevice {
  int device_type;
  std::int32_t device_id;
};
struct DLDataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

std::string refusal_of(DLTensor const& t) {
  try {
    static_cast<void>(cleave::cuda::view_of_dlpack(t));
  } catch (error const& e) {
    return e.what();
  }
  return {};
}

}  // namespace

TEST_CASE("dlpack_of: view_of_dlpack() returns the same view, for every element type") {
  double memory[6] = {};
  for (std::size_t i = 0; i < element_names.size(); ++i) {
    tensor_view const v{memory, static_cast<element_type>(i), {2, 1, 3}};
    auto const t = cleave::cuda::dlpack_of<DLTensor>(v, 3);
    CHECK(t.device.device_type == 2);
    CHECK(t.device.device_id == 3);
    CHECK(t.ndim == 3);
    CHECK(t.strides == nullptr);
    CHECK(t.dtype.bits == 8 * size_of(v.type));
    CHECK(cleave::cuda::view_of_dlpack(t) == v);
  }
}

TEST_CASE("view_of_dlpack: reads offsets and row-major strides, and says what it cannot view") {
  float memory[8] = {};
  std::int64_t shape[] = {2, 1, 3}, strides[] = {3, 77, 1};
  DLTensor const good{memory, {2, 0}, 3, {2, 32, 1}, shape, strides, 8};
  auto const v = cleave::cuda::view_of_dlpack(good);
  CHECK(v.data == memory + 2);
  CHECK(v.type == element_type::f32);
  CHECK(v.shape == tensor_shape{2, 1, 3});

  auto bad = good;
  bad.device.device_type = 1;
  CHECK(refusal_of(bad) ==
        "DLPack: the tensor is in memory of device type 1, which a GPU cannot read; move it to a GPU (device "
        "type 2) first");
  bad = good;
  strides[0] = 4;
  CHECK(refusal_of(bad) ==
        "DLPack: the tensor has stride 4 on axis 0, where 3 would be row-major; make it contiguous");
  strides[0] = 3;
  std::int64_t none[] = {0, 1, 3};
  bad.shape = none;
  strides[0] = 4;
  CHECK(cleave::cuda::view_of_dlpack(bad).elements().count == 0);
  bad.shape = shape;
  strides[0] = 3;
  bad.dtype = {2, 8, 1};
  CHECK(refusal_of(bad) ==
        "DLPack: the tensor has elements of type code 2 with 8 bits and 1 lanes, which no element type has; "
        "convert it");
  bad = good;
  bad.ndim = 9;
  CHECK(refusal_of(bad) == "DLPack: the tensor has 9 axes, but at most 8 are possible; reshape it");
}
