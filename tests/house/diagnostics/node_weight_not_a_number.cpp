// expect: weight\(n\): make it const, a number
#include <string>
#include <vector>

#include "cleave/graph/neighbours.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& neighbours(int) const { return ops; }
  std::string weight(int) const { return "heavy"; }
};

void mistake(ir const& g) { cleave::neighbours_of(g); }
