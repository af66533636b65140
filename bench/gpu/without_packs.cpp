// SPDX-License-Identifier: MIT
#include "packs.hpp"

namespace bench {

bool add_in_packs(pack_of, cudaStream_t, cleave::detail::sum_segment const*, cleave::detail::sum_run const&,
                  std::uint32_t) {
  return false;
}

}  // namespace bench
