// SPDX-License-Identifier: MIT
// Runs an ONNX model in stages with OpenCV. Microbatches stream through the stages, and the results equal
// those of the whole model in every bit. The stages run on four threads, or in processes: mpirun -n 4
// onnx_infer mpi

#include <cleave/run.hpp>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <opencv2/core.hpp>
#include <string>
#include <vector>

#if __has_include(<mpi.h>)
#include <cleave/mpi.hpp>
#endif

#include "opencv_stages.hpp"
#include "staged_model.hpp"

namespace {

using cleave::microbatch_id, cleave::rank_id;
constexpr std::uint32_t microbatches = 8;

/// Returns whether the results `result(m)` of all microbatches equal those of the whole model.
template <class Result>
int compare(example::staged_model const& model, example::random_inputs const& given, Result result) {
  auto whole = model.whole();
  std::uint32_t equal = 0;
  for (std::uint32_t m = 0; m < microbatches; ++m)
    equal += example::is_equal(result(microbatch_id{m}), whole(given.matrices(m)).at(0));
  std::cout << equal << " of " << microbatches << " results of " << model.stages()
            << " stages equal the whole's\n";
  return equal == microbatches ? EXIT_SUCCESS : EXIT_FAILURE;
}

int infer_on_threads(std::string const& file) {
  // [threads]
  example::staged_model const model(file, 4);
  std::vector<example::opencv_stages> stages;
  for (std::uint32_t r = 0; r < model.stages(); ++r) stages.push_back(model.stages_of(rank_id{r}));
  cleave::thread_pipeline pipeline(model.plan_for(microbatches), std::move(stages));

  example::random_inputs const given(model, microbatches);
  pipeline.run_step(given.values());
  // [threads]
  return compare(model, given, [&](microbatch_id m) { return *pipeline.result(m, 0); });
}

#if __has_include(<mpi.h>)
int infer_in_processes(std::string const& file, cleave::mpi::environment const& mpi) {
  // [mpi]
  example::staged_model const model(file, mpi.size());
  cleave::mpi::pipeline pipeline(model.plan_for(microbatches), model.stages_of(mpi.rank()));

  example::random_inputs const given(model, microbatches);
  pipeline.run_step(given.values());
  // [mpi]
  if (index(mpi.rank()) + 1 < mpi.size()) return EXIT_SUCCESS;
  return compare(model, given, [&](microbatch_id m) { return *pipeline.result(m, 0); });
}
#endif

}  // namespace

int main(int count, char** words) {
  cv::setNumThreads(1);  // each rank is one thread
  std::vector<std::string> arguments(words + 1, words + count);
  bool const processes = !arguments.empty() && arguments[0] == "mpi";
  if (processes) arguments.erase(arguments.begin());
  std::string const file =
      arguments.empty() ? CLEAVE_SOURCE_DIR "/examples/models/googlenet.onnx" : arguments[0];
#if __has_include(<mpi.h>)
  if (processes) {
    cleave::mpi::environment mpi;
    return mpi.run([&] { return infer_in_processes(file, mpi); });
  }
#endif
  try {
    if (processes) throw cleave::error("this was compiled without MPI; run it without the argument mpi");
    return infer_on_threads(file);
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
    return EXIT_FAILURE;
  }
}
