// expect: nodes\(\): a node needs ==, a default, copies and a std::hash
#include <vector>

#include "cleave/split/split.hpp"

struct op {
  int id;
  bool operator==(op const&) const = default;
};

struct ir {
  std::vector<op> ops;
  std::vector<op> const& nodes() const { return ops; }
  std::vector<op> const& operands(op) const { return ops; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
