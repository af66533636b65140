// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/core/random.hpp>
#include <cleave/inference.hpp>
#include <cleave/onnx.hpp>
#include <cleave/run.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#if __has_include(<mpi.h>)
#include <cleave/mpi.hpp>
#endif

/// Runs a model in stages and as a whole, in any inference engine, and compares the results.
namespace example {

constexpr std::uint32_t microbatches = 8;

/// Random inputs of a model, equal in every process: floats between -1 and 1, and integers 0 and 1.
class random_inputs {
 public:
  explicit random_inputs(cleave::inference_stages const& model) {
    cleave::splitmix random(1);
    for (std::uint32_t m = 0; m < microbatches; ++m)
      for (auto const& name : model.inputs()) {
        auto const layout = model.layout_of(name);
        auto const count = static_cast<std::size_t>(layout.shape.count().value());
        auto& data = memory_.emplace_back(count * sizeof(std::int64_t));
        for (std::size_t i = 0; i < count; ++i)
          write(data.data(), i, layout.type, static_cast<float>(random.next() >> 40) * 0x1p-23f - 1);
        views.push_back({data.data(), layout.type, layout.shape});
      }
  }

  std::vector<cleave::tensor_view> views;

 private:
  static void write(std::byte* to, std::size_t i, cleave::element_type type, float x) {
    std::int64_t const bit = x > 0 ? 1 : 0;
    switch (type) {
      case cleave::element_type::f32:
        std::memcpy(to + i * sizeof x, &x, sizeof x);
        break;
      case cleave::element_type::i64:
        std::memcpy(to + i * sizeof bit, &bit, sizeof bit);
        break;
      case cleave::element_type::i32: {
        auto const short_bit = static_cast<std::int32_t>(bit);
        std::memcpy(to + i * sizeof short_bit, &short_bit, sizeof short_bit);
        break;
      }
      case cleave::element_type::boolean:
      case cleave::element_type::u8:
      case cleave::element_type::i8:
        to[i] = static_cast<std::byte>(bit);
        break;
      default:
        throw cleave::error("this example makes no inputs of that type");
    }
  }

  std::vector<std::vector<std::byte>> memory_;
};

/// Returns by how much two tensors differ, at most, as a share of the largest number.
inline double difference(cleave::tensor_view const& a, cleave::tensor_view const& b) {
  if (a.type != b.type || a.shape != b.shape) return HUGE_VAL;
  if (a.type != cleave::element_type::f32)
    return std::memcmp(a.data, b.data, a.elements().bytes()) == 0 ? 0 : HUGE_VAL;
  auto const *const x = static_cast<float const*>(a.data), *const y = static_cast<float const*>(b.data);
  double most = 0, largest = 1e-30;
  for (std::size_t i = 0; i < a.elements().count; ++i) {
    double const by = std::abs(double{x[i]} - double{y[i]});
    most = std::isnan(by) ? HUGE_VAL : std::max(most, by);
    largest = std::max(largest, std::abs(double{y[i]}));
  }
  return most / largest;
}

/// Compares all results that this process has with those of the model in one stage.
template <class Network>
int compare_with_whole(std::string const& file, auto& run, cleave::inference_stages const& stages,
                       random_inputs const& given, double most) {
  cleave::inference_stages const one(cleave::onnx::parse(cleave::onnx::read_file(file)), 1);
  auto whole = cleave::make_inference<Network>(one, microbatches);
  whole.infer(given.views);
  std::uint32_t compared = 0, equal = 0;
  double worst = 0;
  for (std::uint32_t m = 0; m < microbatches; ++m)
    for (auto const& name : stages.outputs()) {
      auto const made = run.result(cleave::microbatch_id{m}, name);
      if (!made) continue;
      double const by = difference(*made, whole.result(cleave::microbatch_id{m}, name).value());
      worst = std::max(worst, by);
      ++compared;
      equal += by <= most ? 1 : 0;
    }
  std::cout << equal << " of " << compared << " results of " << stages.count()
            << " stages equal the whole's; the largest difference is " << worst << '\n';
  return equal == compared && compared > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/// Runs a model in four stages on threads.
template <class Network>
int infer_on_threads(std::string const& file, double most) {
  // [threads]
  cleave::inference_stages const stages(cleave::onnx::parse(cleave::onnx::read_file(file)), 4);
  auto run = cleave::make_inference<Network>(stages, microbatches);
  random_inputs const given(stages);
  run.infer(given.views);  // then: run.result(microbatch, "name of a result")
  // [threads]
  return compare_with_whole<Network>(file, run, stages, given, most);
}

#if __has_include(<mpi.h>)
/// Runs a model in one stage for each process.
template <class Network>
int infer_in_processes(std::string const& file, cleave::mpi::environment const& mpi, double most) {
  // [processes]
  cleave::inference_stages const stages(cleave::onnx::parse(cleave::onnx::read_file(file)), mpi.size());
  auto run = cleave::make_inference<Network>(stages, microbatches, cleave::mpi::on_processes{});
  random_inputs const given(stages);
  run.infer(given.views);
  // [processes]
  if (index(mpi.rank()) + 1 < mpi.size()) return EXIT_SUCCESS;  // the last one has the results
  return compare_with_whole<Network>(file, run, stages, given, most);
}
#endif

/// Reads the arguments of a program: `mpi` or nothing, then perhaps a file.
template <class Network>
int run_example(int count, char** words, double most) {
  std::vector<std::string> arguments(words + 1, words + count);
  bool const processes = !arguments.empty() && arguments[0] == "mpi";
  if (processes) arguments.erase(arguments.begin());
  std::string const file =
      arguments.empty() ? CLEAVE_SOURCE_DIR "/examples/models/googlenet.onnx" : arguments[0];
#if __has_include(<mpi.h>)
  if (processes) {
    cleave::mpi::environment mpi;
    return mpi.run([&] { return infer_in_processes<Network>(file, mpi, most); });
  }
#endif
  try {
    if (processes) throw cleave::error("this was compiled without MPI; run it without the argument mpi");
    return infer_on_threads<Network>(file, most);
  } catch (std::exception const& e) {
    std::cerr << e.what() << '\n';
    return EXIT_FAILURE;
  }
}

}  // namespace example
