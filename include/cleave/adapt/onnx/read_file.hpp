// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

#include "cleave/adapt/onnx/fault.hpp"

namespace cleave {

/// The bytes of a model's file; one whose name ends in `.gz` is unpacked.
/// \throws onnx_error of kind `file` if it cannot be read or holds more than `limits` allow, `parse` if it
/// cannot be unpacked.
inline std::string read_onnx_file(std::filesystem::path const& path, onnx_limits const& limits = {}) {
  auto const refuse = [](onnx_fault_kind kind, std::string const& why) { throw onnx_error({kind, why, {}}); };
  using enum onnx_fault_kind;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse(file, "this is a directory; name a file in it");
  std::ifstream in(path, std::ios::binary);
  if (!in) refuse(file, "cannot be opened; check the path and its permissions");

  google::protobuf::io::IstreamInputStream plain(&in);
  google::protobuf::io::GzipInputStream unpacked(&plain);
  bool const zipped = path.extension() == ".gz";
  std::string bytes;
  void const* block = nullptr;
  for (int size = 0; zipped ? unpacked.Next(&block, &size) : plain.Next(&block, &size);) {
    bytes.append(static_cast<char const*>(block), static_cast<std::size_t>(size));
    if (bytes.size() > limits.max_bytes)
      refuse(file, "holds more than the limit of " + std::to_string(limits.max_bytes) + " bytes");
  }
  if (in.bad()) refuse(file, "reading it failed");
  if (zipped && unpacked.ZlibErrorCode() < 0)
    refuse(parse, "is cut short or no gzip file; fetch it again, or take the .gz off its name");
  return bytes;
}
}  // namespace cleave
