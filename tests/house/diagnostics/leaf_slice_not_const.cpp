// expect: the required expression .*a\.slice\(x, axis, row, row\).* is invalid|is not marked const
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cleave/run/batch/split_batch.hpp"

struct columns {
  std::optional<std::size_t> axes(int) const { return 1; }
  std::int64_t extent(int, std::size_t) const { return 4; }
  int slice(int, std::size_t, std::int64_t, std::int64_t) { return 2; }
};

void mistake(cleave::batch_values<int> const& b) { split_batch(columns(), b, {}, {.microbatches = 2}); }
