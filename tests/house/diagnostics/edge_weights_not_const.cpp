// expect: edge_weights\(n\): make it const, a range of numbers, one for each of neighbours\(n\)
#include <vector>

#include "cleave/graph/neighbours.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& neighbours(int) const { return ops; }
  std::vector<int> edge_weights(int) { return ops; }
};

void mistake(ir const& g) { cleave::neighbours_of(g); }
