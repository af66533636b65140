// expect: no member named 'neighbours'|g\.neighbours\(n\)
#include <vector>

#include "cleave/graph/neighbours.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& neighbors(int) const { return ops; }
};

void mistake(ir const& g) { cleave::neighbours_of(g); }
