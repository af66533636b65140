// expect: inputs\(\) and outputs\(\): both, const, ranges of value_t
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
  std::vector<int> const& inputs() const { return ops; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
