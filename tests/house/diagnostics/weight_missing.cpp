// expect: weight\(n\): a const member is needed
#include <cstddef>
#include <vector>

#include "cleave/partition/slices/balance.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
  std::size_t bytes(int) const { return 4; }
};

auto const mistake = cleave::balance(ir{}, 2);
