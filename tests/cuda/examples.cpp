// SPDX-License-Identifier: MIT
// The CUDA examples on the fake runtime and NCCL: they must print what the comment at their end says.
#include <doctest/doctest.h>

#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#define main example_of_threads
#include "../../examples/frameworks/cuda/threads.cpp"
#undef main
#define main example_of_processes
#include "../../examples/frameworks/cuda/processes.cpp"
#undef main
#define main example_of_replayed
#include "../../examples/frameworks/cuda/replayed.cpp"
#undef main
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/project_files.hpp"

// As declared by nvcc's host code.
namespace example {
void forward_kernel(pass_numbers);
void backward_kernel(pass_numbers);
void update_kernel(double*, double*, double);
void device_update_kernel(double*, double*, cleave::device_update const*);
}  // namespace example

namespace {

using namespace cleave::testing;

void tell(fake_accesses& a, example::pass_numbers const& p) {
  a.reads(p.weight, sizeof(double));
  a.writes(p.kept, 2 * sizeof(double));
  for (auto const* const from : {p.x, p.y, p.arrived})
    if (from) a.reads(from, sizeof(double));
  for (auto* const to : {p.gradient, p.to})
    if (to) a.writes(to, sizeof(double));
}

void bind_example() {
  using example::pass_numbers;
  bind_kernel(
      &example::forward_kernel, [](dim3, dim3, pass_numbers const& p) { example::forward_pass(p); },
      [](fake_accesses& a, dim3, dim3, pass_numbers const& p) { tell(a, p); });
  bind_kernel(
      &example::backward_kernel, [](dim3, dim3, pass_numbers const& p) { example::backward_pass(p); },
      [](fake_accesses& a, dim3, dim3, pass_numbers const& p) { tell(a, p); });
  bind_kernel(
      &example::update_kernel,
      [](dim3, dim3, double* w, double* g, double factor) { example::update_step(w, g, factor); },
      [](fake_accesses& a, dim3, dim3, double* w, double* g, double) {
        a.writes(w, sizeof *w);
        a.writes(g, sizeof *g);
      });
  bind_kernel(
      &example::device_update_kernel,
      [](dim3, dim3, double* w, double* g, cleave::device_update const* u) {
        example::update_step(w, g, *u);
      },
      [](fake_accesses& a, dim3, dim3, double* w, double* g, cleave::device_update const* u) {
        a.reads(u, sizeof *u);
        a.writes(w, sizeof *w);
        a.writes(g, sizeof *g);
      });
}

/// The text that `f` writes to the standard output.
template <class F>
std::string printed_by(F f) {
  std::ostringstream text;
  auto* const before = std::cout.rdbuf(text.rdbuf());
  f();
  std::cout.rdbuf(before);
  return text.str();
}

/// The output that threads.cpp documents.
std::string promised() {
  std::string all;
  bool begun = false;
  for (auto const& line :
       project::lines_of(project::text_of(project::root / "examples/frameworks/cuda/threads.cpp"))) {
    if (begun && line.size() > 5) all += line.substr(5) + '\n';
    begun = begun || line == "// It prints:";
  }
  return all;
}

}  // namespace

TEST_CASE("examples: the CUDA thread example and the NCCL process examples print the documented output") {
  bind_example();
  REQUIRE(promised().starts_with("loss 37.5"));
  {
    fake_cuda fake;
    CHECK(printed_by([] { example_of_threads(); }) == promised());
    // no CUDA call shows that a step waits for its threads before the caller copies a result
    for (auto const& r : fake.reports()) CHECK(r.starts_with("a copy of 8 bytes on the default stream"));
  }
  fake_cuda fake(fake_gpus(2));
  CHECK(printed_by([] { CHECK(on_ranks(2, train) == std::vector<std::string>(2)); }) == promised());
  CHECK(printed_by([] { CHECK(on_ranks(2, train_replayed) == std::vector<std::string>(2)); }) == promised());
  CHECK(fake.reports() == std::vector<std::string>());
}
