// expect: overwrites\(n\): make it const, a range of value_t, for an n of node_t, in addition to storage\(v\)
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
  std::vector<int> const& overwrites(int) const { return ops; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
