// expect: framework: fill\(tensor_view, double\) is needed
#include <map>
#include <string>

#include "cleave/engine/stage_engine.hpp"

struct numbers {
  using tensor = double;
  cleave::tensor_view view(double const&) { return {}; }
  double wrap(cleave::tensor_view const&) { return 0; }
  double copy(double x) { return x; }
  void write(double, cleave::tensor_view const&) {}
  void add(double, cleave::tensor_view const&, double) {}
  double call(cleave::operator_call<double> const& c) { return c.tensor(0); }
};

void check(cleave::module_pipe const& pipe) {
  std::map<std::string, double> const weights;
  cleave::stage_engine engine(pipe, numbers(), weights, {cleave::positional_inputs<double>(1.0)});
}
