// expect: results\(n\): make it const, a range of value_t
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<long> values;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
  std::vector<long> const& results(int) const { return values; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
