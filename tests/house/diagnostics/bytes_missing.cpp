// expect: bytes\(v\): a const member is needed
#include <vector>

#include "cleave/partition/slices/balance.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
  double weight(int) const { return 1; }
};

auto const mistake = cleave::balance(ir{}, 2);
