// expect: operands\(n\): a value needs ==, a default, copies and a std::hash
#include <vector>

#include "cleave/split/split.hpp"

struct port {
  int node = 0, result = 0;
  bool operator==(port const&) const = default;
};

struct ir {
  std::vector<int> ops;
  std::vector<port> ports;
  std::vector<int> const& nodes() const { return ops; }
  std::vector<port> const& operands(int) const { return ports; }
  std::vector<port> const& results(int) const { return ports; }
};

void mistake(ir const& g) { cleave::split(g, {}); }
