// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "support/cases.hpp"

namespace cleave::testing {

inline std::filesystem::path model_folder() {
  return std::filesystem::path(CLEAVE_TEST_DATA) / "models" / "onnx";
}

/// Returns `bert4` for `…/bert4.onnx` or `…/bert4.onnx.gz`.
inline std::string model_name(std::filesystem::path const& file) {
  auto const name = file.filename().string();
  return name.substr(0, name.find(".onnx"));
}

/// Models that tests with sanitizers leave out, unless all cases run: most giants, and large models of a kind
/// that another model has.
inline constexpr std::string_view unsanitized_models[] = {
    "albert",          "bert12",        "bert4",        "bert4_dynamo",      "densenet121",
    "efficientnet_b0", "fan_50k",       "gpt2",         "ladder_100k",       "llama",
    "lstm_30k",        "lstm_unrolled", "mobilenet_v2", "resnet18_fresh_bn", "t5",
    "transformer_400", "vit",           "whisper"};

/// Returns true if tests read all models, false if sanitizers make them slow.
inline bool all_models() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr bool is_slow = true;
#elif defined(__has_feature)
  constexpr bool is_slow = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
  constexpr bool is_slow = false;
#endif
  return !is_slow || all_cases();
}

/// Selects the files of `tests/models/onnx`, sorted. The giants are the zipped models of more than a few
/// thousand nodes.
enum class giants : std::uint8_t { left_out, included };

inline std::vector<std::filesystem::path> model_files(giants big) {
  std::vector<std::filesystem::path> files;
  for (auto const& entry : std::filesystem::directory_iterator(model_folder())) {
    auto const name = entry.path().filename().string();
    if (!all_models() && std::ranges::count(unsanitized_models, model_name(name)) > 0) continue;
    if (name.ends_with(".onnx") || (big == giants::included && name.ends_with(".onnx.gz")))
      files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

/// Returns the files that a slow test reads. Unless all cases run, `giant` is their only giant, if any.
inline std::vector<std::filesystem::path> some_model_files(std::string const& giant) {
  auto files = model_files(giants::included);
  if (!all_cases())
    std::erase_if(files, [&](auto const& file) {
      return file.extension() == ".gz" && file.filename() != giant + ".onnx.gz";
    });
  return files;
}

inline std::filesystem::path model_file(std::string const& name) {
  auto const plain = model_folder() / (name + ".onnx");
  return std::filesystem::exists(plain) ? plain : std::filesystem::path(plain.string() + ".gz");
}

inline nlohmann::json sidecar(std::string const& name) {
  std::ifstream in(model_folder() / (name + ".json"));
  return nlohmann::json::parse(in);
}

inline ::onnx::ModelProto read_model(std::filesystem::path const& file) {
  std::ifstream in(file, std::ios::binary);
  google::protobuf::io::IstreamInputStream plain(&in);
  ::onnx::ModelProto m;
  bool ok = false;
  if (file.extension() == ".gz") {
    google::protobuf::io::GzipInputStream zipped(&plain);
    ok = m.ParseFromZeroCopyStream(&zipped);
  } else {
    ok = m.ParseFromZeroCopyStream(&plain);
  }
  if (!ok) throw std::runtime_error("cannot read " + file.string());
  return m;
}

inline ::onnx::ModelProto model(std::string const& name) { return read_model(model_file(name)); }

/// The random number generator of the sidecars (tests/models/README.md, "Inputs").
class input_generator {
 public:
  explicit input_generator(std::uint64_t seed) : s_(seed) {}
  float next_float() { return static_cast<float>(next() >> 40) * 0x1p-23f - 1.0f; }
  std::int64_t next_int(std::int64_t lo, std::int64_t hi) {
    return lo + static_cast<std::int64_t>((next() >> 33) % static_cast<std::uint64_t>(hi - lo));
  }

 private:
  std::uint64_t next() { return s_ = s_ * 6364136223846793005u + 1442695040888963407u; }
  std::uint64_t s_;
};

/// Returns a sidecar's input of element type float32, row-major.
inline std::vector<float> float_input(nlohmann::json const& spec) {
  std::size_t elements = 1;
  for (auto const& d : spec.at("shape")) elements *= d.get<std::size_t>();
  auto const& fill = spec.at("fill");
  auto const kind = fill.at("kind").get<std::string>();
  std::vector<float> data(elements);
  if (kind == "lcg_float") {
    input_generator g(fill.at("seed").get<std::uint64_t>());
    for (auto& x : data) x = g.next_float();
  } else if (kind == "constant") {
    std::ranges::fill(data, fill.at("value").get<float>());
  } else if (kind == "iota") {
    for (std::size_t i = 0; i < elements; ++i) data[i] = static_cast<float>(i);
  } else {
    data = fill.at("values").get<std::vector<float>>();
  }
  return data;
}

}  // namespace cleave::testing
