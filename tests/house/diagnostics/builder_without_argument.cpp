// expect: argument\(v, from\): a member is needed
#include <vector>

#include "cleave/split/split.hpp"

struct ir {
  std::vector<int> ops;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<int> const& operands(int) const { return ops; }
};

struct builder {
  std::vector<int> clone(int n, auto const&) { return {n}; }
  void result(int, int) {}
};

void mistake(ir const& g, builder& b) { cleave::emit(cleave::split(g, {}), cleave::stage_id{0}, b); }
