// SPDX-License-Identifier: MIT
// Checks stages against the limits of a runtime that returns one gradient, like DeepSpeed's pipeline engine:
// which arguments it can pass, and which stage runs the hooks of the whole model.
#include <cleave/cleave.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

struct op {
  std::string result;
  std::vector<std::string> reads;
};

struct op_graph {
  std::vector<op> ops;

  auto nodes() const {
    return cleave::counted(ops.size(), [first = ops.data()](std::size_t i) { return first + i; });
  }
  auto const& operands(op const* o) const { return o->reads; }
  std::vector<std::string> results(op const* o) const { return {o->result}; }
};

// [traits]
cleave::argument_traits traits(std::string const& value) {
  bool const is_data = value == "ids" || value == "mask";  // integers have no gradients
  return {.tensor = true, .needs_gradient = !is_data};
}

template <class Stages>
void check(Stages const& stages) {
  for (auto const id : stages.plan().order) {
    auto const inputs = stages[id].inputs;
    std::vector<cleave::argument_traits> arguments;
    for (auto const& value : inputs) arguments.push_back(traits(value));
    if (auto const bad = cleave::find_argument_beyond_first(arguments))
      throw cleave::stage_argument_error(id, *bad, inputs[*bad]);
  }
}
// [traits]

int main() {
  op_graph const g{{{"embedded", {"ids"}},
                    {"attended", {"embedded", "mask"}},
                    {"sum", {"attended", "embedded"}},
                    {"scores", {"sum", "ids"}}}};

  for (std::ptrdiff_t const begin : {2, 3}) {  // first operation of the second stage
    auto const cut = cleave::assign(g, [&](op const* o) { return o - g.ops.data() >= begin; });
    try {
      check(cleave::split(g, cut));
      std::cout << "a cut before '" << g.ops[static_cast<std::size_t>(begin)].result << "' will do\n";
    } catch (cleave::stage_argument_error const& e) {
      std::cout << e.what() << '\n';
    }
  }

  // [hooks]
  using enum cleave::program_hook;
  for (std::uint32_t s = 0; s < 2; ++s) {
    std::cout << "stage " << s << " runs";
    if (runs_hook(before_forward, cleave::stage_id{s}, 2)) std::cout << " before_forward";
    if (runs_hook(after_forward, cleave::stage_id{s}, 2)) std::cout << " after_forward";
    if (runs_hook(after_backward, cleave::stage_id{s}, 2)) std::cout << " after_backward";
    std::cout << '\n';
  }
  // [hooks]
}

// It prints:
//
//   stages: argument #1 of stage 1, 'embedded', is not a tensor or needs a gradient; this runtime allows that for argument #0 only
//   a cut before 'scores' will do
//   stage 0 runs before_forward after_backward
//   stage 1 runs after_forward
