// SPDX-License-Identifier: MIT
// Trains the model of 01_run_a_schedule with checkpoints, and resumes from the newest one at its start. After
// a failure, start it again: until mpirun -n 2 example_run_07_restart_after_a_failure_mpi FOLDER 40; do sleep
// 1; done
#include <algorithm>
#include <array>
#include <chrono>
#include <cleave/checkpoint.hpp>
#include <cleave/mpi.hpp>
#include <cleave/run.hpp>
#include <cleave/schedule.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// The engine of a rank: loss = (b * a * x - y)^2; stage 0 has a, and stage 1 has b.
class small_stages {
 public:
  using stream = cleave::mpi::device::stream;
  using views = std::span<cleave::tensor_view const>;

  void forward(stream&, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    double const made = weight_ * (kept_[p.microbatch] = number(in[0]));
    error_[p.microbatch] = in.size() > 1 ? made - number(in[1]) : 0;
    number(out[0]) = in.size() > 1 ? error_[p.microbatch] * error_[p.microbatch] : made;
  }
  void backward(stream&, cleave::stage_pass const& p, views gradients, views in) {
    double const g = p.from_loss ? 2 * error_[p.microbatch] * p.weight : number(gradients[0]);
    gradient_ += g * kept_[p.microbatch];
    if (in[0].data) number(in[0]) = g * weight_;
  }
  std::span<cleave::region const> gradients(cleave::stage_id) { return region_of(gradient_); }
  std::span<cleave::region const> parameters(cleave::stage_id) { return region_of(weight_); }
  void update(stream&, cleave::stage_id, double factor) {
    momentum_ = 0.5 * momentum_ + factor * std::exchange(gradient_, 0);
    weight_ -= 0.02 * momentum_;
  }

  // [state]
  /// All that a step changes: the weight, and the state of the optimiser.
  std::vector<cleave::named_tensor> state(cleave::rank_id rank) {
    auto const name = "weight" + std::to_string(index(rank));
    return {{{name}, {&weight_, cleave::element_type::f64, {1}}},
            {{"momentum." + name}, {&momentum_, cleave::element_type::f64, {1}}}};
  }
  // [state]

 private:
  static double& number(cleave::tensor_view const& v) { return *static_cast<double*>(v.data); }
  std::span<cleave::region const> region_of(double& x) {
    region_ = {&x, 1, cleave::element_type::f64};
    return {&region_, 1};
  }

  double weight_ = 1, gradient_ = 0, momentum_ = 0;
  std::map<cleave::microbatch_id, double> kept_, error_;
  cleave::region region_;
};

cleave::step_plan two_stages() {
  constexpr auto first = cleave::stage_id{0}, second = cleave::stage_id{1};
  cleave::dataflow const edges{.stages = 2,
                               .edges = {{cleave::the_caller, 0, first, 0},
                                         {first, 0, second, 0},
                                         {cleave::the_caller, 1, second, 1},
                                         {second, 0, cleave::the_caller, 0}}};
  cleave::edge_layout const one{.type = cleave::element_type::f64, .shape = {1}};
  return {cleave::one_f_one_b(2, 4), edges, {.edges = {4, one}}};
}

/// The samples of a step depend on its number alone: x and y = 6 x for each of four microbatches.
std::array<double, 8> batch_of(std::uint64_t step) {
  std::array<double, 8> batch{};
  for (std::size_t m = 0; m < 4; ++m) {
    batch[2 * m] = static_cast<double>((3 * step + m) % 7) / 4;
    batch[2 * m + 1] = 6 * batch[2 * m];
  }
  return batch;
}

void train(std::string const& folder, std::uint64_t steps, int digits) {
  std::array<double, 8> batch{};
  std::vector<cleave::tensor_view> inputs;
  for (auto& n : batch) inputs.push_back({&n, cleave::element_type::f64, {1}});
  std::vector<double> const quarter(4, 0.25);
  cleave::checkpoint_options const newest{.kept = 2};

  // [resume]
  cleave::mpi::pipeline<small_stages> run(two_stages(), small_stages(),
                                          {.run = {.watchdog = {.limit = std::chrono::seconds(30)}}});
  auto const soon = [] { return std::chrono::steady_clock::now() + std::chrono::seconds(30); };
  auto const state = run.stages().state(run.rank());
  auto const saved = cleave::resume_from_checkpoint(run.rendezvous(), folder, state, soon());
  auto const first = saved ? saved->step() + 1 : 1;
  if (run.rank() == cleave::rank_id{1}) std::cout << "begins with step " << first << '\n' << std::flush;

  for (auto step = first; step <= steps; ++step) {
    batch = batch_of(step);
    run.run_step({.inputs = inputs, .inputs_of_each = 2, .weights = quarter});
    double loss = 0;
    for (std::uint32_t m = 0; m < 4; ++m)
      if (auto const made = run.result(cleave::microbatch_id{m}, 0))
        loss += quarter[m] * *static_cast<double*>(made->data);
    run.update();
    if (run.rank() == cleave::rank_id{1})
      std::cout << "step " << step << ", loss " << std::setprecision(digits) << loss << '\n' << std::flush;
    if (step % 3 == 0)
      cleave::write_checkpoint(run.rendezvous(), folder, {.step = step, .notes = {}}, state, soon(), newest);
  }
  // [resume]
}

/// Makes a new folder on rank 0 and tells all ranks its name.
std::string new_folder(cleave::mpi::environment const& mpi) {
  std::array<char, 256> name{};
  if (mpi.rank() == cleave::rank_id{0}) {
    auto const made =
        std::filesystem::temp_directory_path() / ("cleave-" + std::to_string(std::random_device()()));
    create_directory(made);
    std::ranges::copy(made.native(), name.begin());
  }
  MPI_Bcast(name.data(), static_cast<int>(name.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
  return name.data();
}

int main(int argc, char** argv) {
  cleave::mpi::environment mpi;
  return mpi.run([&] {
    if (argc == 3) {
      train(argv[1], std::strtoull(argv[2], nullptr, 10), 17);
      return 0;
    }
    auto const folder = new_folder(mpi);
    train(folder, 4, 4);  // a run that ends one step after its checkpoint
    train(folder, 7, 4);  // the next one: step 4 has the same loss again
    MPI_Barrier(MPI_COMM_WORLD);
    if (mpi.rank() == cleave::rank_id{0}) std::filesystem::remove_all(folder);
    return 0;
  });
}

// It prints:
//
//   begins with step 1
//   step 1, loss 33.59
//   step 2, loss 12.35
//   step 3, loss 11
//   step 4, loss 6.019
//   begins with step 4
//   step 4, loss 6.019
//   step 5, loss 0.5511
//   step 6, loss 0.006548
//   step 7, loss 0.05711
