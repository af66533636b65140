// SPDX-License-Identifier: MIT
// Fuzzes the byte formats of a stage and a pipe. The bytes must be rejected or survive a round trip. The
// checksum is corrected first, because no mutation would get it right.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/formats/pipe_buffer.hpp"
#include "cleave/formats/stage_buffer.hpp"
#include "support/check_stage_bytes.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const bytes = std::as_bytes(std::span(data, size));
  cleave::find_stage_bytes_fault(bytes, cleave::testing::any_operators());
  bool const sealed = size >= cleave::detail::envelope_header_bytes &&
                      std::memcmp(data, cleave::detail::envelope_magic, 4) == 0;
  auto const payload = sealed ? bytes.subspan(cleave::detail::envelope_header_bytes) : bytes;
  if (!cleave::testing::taken_for_stage(payload)) cleave::testing::taken_for_pipe(payload);
  return 0;
}
