// expect: results\(n\): a const member is needed that returns a range of value_t
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<long> values;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<long> const& operands(int) const { return values; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
