// expect: weight\(n\): make it const, a number
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
  double weight(int) { return 1; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
