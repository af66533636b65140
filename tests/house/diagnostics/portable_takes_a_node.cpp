// expect: portable\(v\): make it const, a bool, for a v of value_t
#include <vector>

#include "cleave/split/split.hpp"

struct op {};
struct ir {
  std::vector<op const*> ops;
  std::vector<op const*> const& nodes() const { return ops; }
  std::vector<int> operands(op const*) const { return {}; }
  std::vector<int> results(op const*) const { return {}; }
  bool portable(op const*) const { return true; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
