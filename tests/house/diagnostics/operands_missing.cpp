// expect: operands\(n\): a const member is needed
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
