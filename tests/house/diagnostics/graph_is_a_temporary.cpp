// expect: is gone when emit asks it: give it a name first
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
};

auto const mistake = cleave::split(ir{}, {});
