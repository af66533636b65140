// SPDX-License-Identifier: MIT
// Fuzzes files of ONNX models: packed ones, and those whose weights are in files of their own. A model is
// read or rejected with an error, and the weights that it refers to are copied as they are or refused.
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/detail/external_data.hpp"
#include "cleave/adapt/onnx/load.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/formats/files/durable_file.hpp"
#include "fuzz/mutate_model.hpp"
#include "fuzz/unless_refused.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::scratch_folder;
using cleave::testing::unless_refused;

namespace {

constexpr std::size_t data_bytes = 5000;

void write_file(std::string const& file, std::string_view bytes) {
  auto* const out = std::fopen(file.c_str(), "wb");
  expects(out != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), out) == bytes.size(), "a file");
  std::fclose(out);
}

/// Returns the byte at a place of the file of weights.
char data_at(std::size_t n) { return static_cast<char>(n * 31 + n / 256); }

/// Returns a folder with a file of weights, `weights.bin`.
scratch_folder const& folder() {
  static scratch_folder const made(scratch_folder::in_memory());
  [[maybe_unused]] static bool const filled = [] {
    std::string bytes;
    for (std::size_t n = 0; n < data_bytes; ++n) bytes += data_at(n);
    write_file(made / "weights.bin", bytes);
    return true;
  }();
  return made;
}

std::string packed(std::string const& bytes) {
  std::string gz;
  google::protobuf::io::StringOutputStream to(&gz);
  google::protobuf::io::GzipOutputStream out(&to);
  void* block = nullptr;
  int size = 0;
  for (std::size_t done = 0; done < bytes.size();) {
    expects(out.Next(&block, &size), "room");
    auto const here = std::min(bytes.size() - done, static_cast<std::size_t>(size));
    bytes.copy(static_cast<char*>(block), here, done);
    out.BackUp(size - static_cast<int>(here));
    done += here;
  }
  out.Close();
  return gz;
}

/// Checks that a packed file is rejected or read, and that packed bytes are read as they were.
void check_packed(std::string const& bytes) {
  auto const file = folder() / "model.onnx.gz";
  constexpr std::size_t most = std::size_t{1} << 20;
  write_file(file, bytes);
  if (auto const read = unless_refused([&] { return cleave::onnx::read_file(file, {.max_bytes = most}); }))
    expects(read->size() <= most, "no more bytes than the limit");
  write_file(file, packed(bytes));
  expects(cleave::onnx::read_file(file, {.max_bytes = most}) == bytes, "the bytes again");
}

/// Copies the weights of a model, and checks that they are the bytes to which it referred.
void check_weights(::onnx::ModelProto model) {
  std::vector<onnx_data_place> before;
  auto const list = [&](std::vector<onnx_data_place>& places) {
    each_onnx_tensor(model, [&](::onnx::TensorProto& t) {
      if (t.data_location() == ::onnx::TensorProto::EXTERNAL) places.push_back(onnx_data_place_of(t));
    });
  };
  list(before);
  if (before.empty() || before.size() > 64) return;
  std::optional<pending_file> to;
  onnx_data_copier copier(folder().path());
  auto const begin = [&]() -> pending_file& { return to.emplace(folder().path(), "stage.weights"); };
  if (!unless_refused([&] { return copier.copy(model, "stage.weights", begin), true; })) return;
  to->keep("stage.weights");
  std::vector<onnx_data_place> after;
  list(after);
  std::ifstream in(folder() / "stage.weights", std::ios::binary);
  std::string const copy{std::istreambuf_iterator<char>(in), {}};
  expects(before.size() == after.size(), "as many weights");
  for (std::size_t i = 0; i < after.size(); ++i) {
    expects(std::filesystem::path(before[i].location).lexically_normal() == "weights.bin", "a known file");
    expects(after[i].location == "stage.weights", "the file of the stage");
    expects(before[i].length == 0 || before[i].length == after[i].length, "the length that was stated");
    expects(after[i].offset <= copy.size() && after[i].length <= copy.size() - after[i].offset, "all bytes");
    for (std::size_t n = 0; n < after[i].length; ++n)
      expects(copy[after[i].offset + n] == data_at(before[i].offset + n), "the bytes of the weights");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size > 20'000) return -1;
  std::string const bytes(reinterpret_cast<char const*>(data), size);
  expects(protobuf_depth(bytes) >= 1, "a depth");
  check_packed(bytes);
  auto const file = folder() / "model.onnx";
  write_file(file, bytes);
  unless_refused([&] { return load_onnx(file).ByteSizeLong(); });
  if (auto model = unless_refused([&] { return cleave::onnx::parse(bytes); }))
    check_weights(*std::move(model));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  return cleave::testing::mutate_model(data, size, most, seed);
}
