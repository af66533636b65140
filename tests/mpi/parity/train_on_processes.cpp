// SPDX-License-Identifier: MIT
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cleave/mpi/detail/check.hpp"
#include "cleave/mpi/pipeline.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "conformance_runner/pipe_training.hpp"
#include "support/toy_pipeline.hpp"

/// Ranks are processes. Each shares its values, so that all know the whole history.
namespace cleave::conformance {

using namespace detail;

namespace {

using testing::tensor;
using engine = testing::toy_engine<cleave::mpi::device>;

/// Broadcasts the tensor of rank `owner` to all ranks.
void share(tensor& t, rank_id owner) {
  auto const root = static_cast<int>(index(owner));
  std::uint64_t sizes[2] = {t.shape.size(), t.data.size()};
  check_mpi(MPI_Bcast(sizes, 2, MPI_UINT64_T, root, MPI_COMM_WORLD));
  std::vector<std::uint64_t> extents(t.shape.begin(), t.shape.end());
  extents.resize(sizes[0]);
  t.data.resize(sizes[1]);
  check_mpi(MPI_Bcast(extents.data(), static_cast<int>(sizes[0]), MPI_UINT64_T, root, MPI_COMM_WORLD));
  check_mpi(MPI_Bcast(t.data.data(), static_cast<int>(sizes[1]), MPI_DOUBLE, root, MPI_COMM_WORLD));
  t.shape.assign(extents.begin(), extents.end());
}

/// The caller's inputs of each microbatch.
struct given_inputs {
  std::vector<testing::toy_value> owned;
  std::vector<tensor_view> views;
};

given_inputs inputs_of(testing::toy_batches const& batches, module_pipe const& pipe) {
  given_inputs made;
  for (auto const& m : testing::inputs_of(pipe.program.whole(), batches))
    for (auto const& v : m.arguments.leaves())
      made.views.push_back(made.owned.emplace_back(*v.tensor()).memory->view);
  return made;
}

class process_training {
 public:
  process_training(module_pipe const& pipe, schedule const& order, testing::state_values const& state,
                   training const& how)
      : pipe_(pipe),
        how_(how),
        engine_(testing::toy_engine_of(pipe, state, how.batches)),
        wiring_(engine_.wiring()),
        microbatches_(static_cast<std::uint32_t>(how.batches.values.size())),
        inputs_(inputs_of(how.batches, pipe)),
        plan_(engine_.plan(order, options())),
        run_(plan_, testing::make_toy_stages<cleave::mpi::device>(engine_, plan_.order(), own_rank()),
             pipeline()) {}

  history train() {
    history made;
    for (std::size_t step = 0; step < how_.steps; ++step) take_step(step, made);
    for (auto const& [path, own] : made.first_gradients)
      for (auto const& [holder, g] : own) made.first_sums[holder] = g;
    for (std::uint32_t s = 0; s < pipe_.paths.size(); ++s) {
      auto const owner = plan_.rank_of(stage_id{s});
      testing::state_values after;
      if (run_.rank() == owner)
        after = run_.stages().parameters_by_holder(stage_id{s}, wiring_.parameters[s]);
      for (auto const& holder : wiring_.parameters[s]) share(after[holder], owner);
      for (auto const& a : pipe_.program.whole().attributes())
        if (auto const at = after.find(testing::holder_of(a)); at != after.end())
          made.after[pipe_.paths[s]][a.path] = at->second;
    }
    return made;
  }

 private:
  static rank_id own_rank() {
    int rank = 0;
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    return rank_id{static_cast<std::uint32_t>(rank)};
  }
  static program_options options() {
    program_options o;
    o.saved_activations = {{.saved = 24, .saved_for_weights = 40}};
    return o;
  }
  cleave::mpi::pipeline_options pipeline() const {
    cleave::mpi::pipeline_options o;
    o.run.watchdog.limit = std::chrono::seconds(60);
    o.run.ties = engine_.ties();
    o.run.bucket_bytes = 64;
    return o;
  }

  void take_step(std::size_t step, history& made) {
    run_.stages().clear_gradients();
    run_.run_step({.inputs = inputs_.views,
                   .inputs_of_each = inputs_.views.size() / microbatches_,
                   .weights = how_.weights});
    std::vector<tensor> outputs;
    made.losses.emplace_back();
    for (std::uint32_t m = 0; m < microbatches_; ++m) {
      auto const given = results(m);
      outputs.push_back(given[0]);
      made.losses.back().push_back(given[*wiring_.loss].data[0]);
    }
    std::map<std::string, testing::parameter_gradients> gradients;
    for (std::uint32_t s = 0; s < pipe_.paths.size(); ++s) {
      auto const owner = plan_.rank_of(stage_id{s});
      auto& own = gradients[pipe_.paths[s]];
      if (run_.rank() == owner) own = run_.stages().gradients_by_holder(stage_id{s}, wiring_.parameters[s]);
      for (auto const& holder : wiring_.parameters[s]) {
        if (!own[holder]) own[holder].emplace();
        share(*own[holder], owner);
      }
      if (run_.rank() == owner) run_.stages().descend(stage_id{s}, how_.rate);
    }
    if (step == 0) made.first_output = testing::merged(outputs);
    if (step == 0) made.first_gradients = gradients;
  }

  std::vector<tensor> results(std::uint32_t m) {
    std::vector<tensor> list;
    for (auto const& e : wiring_.edges.edges) {
      if (e.to != the_caller) continue;
      if (list.size() <= e.input) list.resize(e.input + 1);
      auto& made = list[e.input];
      if (e.from == the_caller) {
        made = testing::read_elements(inputs_.views[m * inputs_.views.size() / microbatches_ + e.output]);
        continue;
      }
      if (auto const v = run_.result(microbatch_id{m}, e.input)) made = testing::read_elements(*v);
      share(made, plan_.rank_of(e.from));
    }
    return list;
  }

  module_pipe const& pipe_;
  training const& how_;
  testing::toy_stage_engine engine_;
  stage_wiring const& wiring_;
  std::uint32_t microbatches_;
  given_inputs inputs_;
  step_plan plan_;
  cleave::mpi::pipeline<engine> run_;
};

}  // namespace

history train_by_executor(module_pipe const& pipe, schedule const& order, testing::state_values const& state,
                          training const& how) {
  return process_training(pipe, order, state, how).train();
}

}  // namespace cleave::conformance
