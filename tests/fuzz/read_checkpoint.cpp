// SPDX-License-Identifier: MIT
// Fuzzes the payload of a checkpoint envelope: the bytes must be rejected or survive a round trip.
#include <cstddef>
#include <cstdint>
#include <span>

#include "cleave/checkpoint/checkpoint_data.hpp"
#include "support/check_checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  cleave::testing::taken_for_checkpoint(std::as_bytes(std::span(data, size)));
  cleave::detail::find_checkpoint_file({reinterpret_cast<char const*>(data), size});
  return 0;
}
