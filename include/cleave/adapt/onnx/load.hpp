// SPDX-License-Identifier: MIT
#pragma once
#include <google/protobuf/io/gzip_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/stubs/logging.h>
#include <onnx/onnx_pb.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cleave/adapt/onnx/check.hpp"
#include "cleave/adapt/onnx/fault.hpp"
#include "cleave/core/bytes.hpp"
#include "cleave/formats/files/read_whole_file.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a gzip file's bytes, unpacked, or nothing if they are more than `most`. Bytes beyond the size that
/// the file itself gives are counted before they are kept, so that a file which unpacks to more than `most`
/// takes little memory. \throws onnx::error of kind `parse` if it cannot be unpacked
inline std::optional<std::string> unpack_gzip(std::string_view packed, std::size_t most) {
  std::size_t expected = 0;  // the file ends with its size, of which only the lower 32 bits are kept
  for (std::size_t i = 0; packed.size() > 4 && i < 4; ++i)
    expected |= std::size_t{static_cast<unsigned char>(packed[packed.size() - 4 + i])} << (8 * i);
  if (expected > most) expected = 0;
  for (;;) {
    google::protobuf::io::ArrayInputStream source(packed.data(), static_cast<int>(packed.size()));
    google::protobuf::io::GzipInputStream unpacked(&source);
    std::string bytes;
    std::size_t size = 0;
    void const* block = nullptr;
    for (int more = 0; unpacked.Next(&block, &more);) {
      size += static_cast<std::size_t>(more);
      if (size > most) return std::nullopt;
      if (size > expected)
        bytes = {};
      else
        bytes.append(static_cast<char const*>(block), static_cast<std::size_t>(more));
    }
    if (unpacked.ZlibErrorCode() < 0)
      throw onnx::error({onnx::fault_kind::parse,
                         "is truncated or not a gzip file; fetch it again, or remove .gz from its name",
                         {}});
    if (size == bytes.size()) return bytes;
    expected = size;
  }
}

/// Reads one varint of protobuf's wire format and moves `at` behind it.
inline std::optional<std::uint64_t> read_protobuf_varint(std::string_view bytes, std::size_t& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    auto const b = static_cast<unsigned char>(bytes[at++]);
    value |= std::uint64_t{b & 0x7fu} << shift;
    if (b < 0x80) return value;
  }
  return std::nullopt;
}

/// Returns the nesting depth of messages in the bytes of an ONNX model, up to the first malformed byte.
/// Follows the fields whose messages can contain themselves, and skips all others. Distinguishes a model that
/// protobuf rejects for its depth from bytes that are not a model. O(size), without recursion.
inline std::size_t protobuf_depth(std::string_view model) {
  enum part : std::uint8_t { file, graph, node, attribute, function, training, named, type, wrapper };
  struct nesting {
    part outer;
    unsigned field;
    part inner;
  };
  static constexpr nesting nestings[] = {{file, 7, graph},       {file, 20, training},  {file, 25, function},
                                         {training, 1, graph},   {training, 2, graph},  {function, 7, node},
                                         {graph, 1, node},       {graph, 11, named},    {graph, 12, named},
                                         {graph, 13, named},     {node, 5, attribute},  {attribute, 6, graph},
                                         {attribute, 11, graph}, {attribute, 14, type}, {attribute, 15, type},
                                         {named, 2, type},       {type, 4, wrapper},    {type, 5, wrapper},
                                         {type, 9, wrapper},     {wrapper, 1, type},    {wrapper, 2, type}};
  struct open_message {
    part what;
    std::size_t end;
  };
  std::vector<open_message> open{{file, model.size()}};
  std::size_t deepest = 1, at = 0;
  while (!open.empty()) {
    if (at >= open.back().end) {
      open.pop_back();
      continue;
    }
    auto const tag = read_protobuf_varint(model, at);
    if (!tag) return deepest;
    switch (*tag & 7) {
      case 0:
        if (!read_protobuf_varint(model, at)) return deepest;
        break;
      case 1:
        at += 8;
        break;
      case 5:
        at += 4;
        break;
      case 2: {
        auto const size = read_protobuf_varint(model, at);
        if (!size || *size > open.back().end - (std::min)(at, open.back().end)) return deepest;
        auto const end = at + static_cast<std::size_t>(*size);
        auto const outer = open.back().what;
        bool followed = false;
        for (auto const& n : nestings)
          if (n.outer == outer && n.field == *tag >> 3) {
            open.push_back({n.inner, end});
            followed = true;
          }
        if (!followed) at = end;
        deepest = (std::max)(deepest, open.size());
        break;
      }
      default:
        return deepest;
    }
  }
  return deepest;
}

/// Returns the fault for bytes that protobuf rejects, with a guess of their format and the remedy.
inline onnx::fault unreadable_onnx_fault(std::string_view bytes) {
  using enum onnx::fault_kind;
  if (protobuf_depth(bytes) > 100)
    return {depth, "bodies are nested deeper than protobuf's limit of 100 messages; flatten the model", {}};
  auto const begins = [&](std::string_view text) { return bytes.starts_with(text); };
  if (begins("\x1f\x8b"))
    return {parse, "this is a gzip file; decompress it first (gunzip -k), or add .gz to its name", {}};
  if (begins("\xef\xbb\xbf"))
    return {parse, "the file begins with a byte order mark, probably from a text editor; fetch it again", {}};
  if (begins("<"))
    return {parse, "this is a page of HTML or XML, not a model; check the address it came from", {}};
  if (begins("version https://git-lfs"))
    return {parse, "this is a pointer to a file in Git LFS; fetch the file itself (git lfs pull)", {}};
  if (begins("PK\x03\x04"))
    return {parse, "this is a zip archive (PyTorch's format, perhaps); export the model to ONNX", {}};
  if (begins("{"))
    return {parse, "this is text, JSON perhaps; a model is a binary file, export it as ONNX", {}};
  return {parse, "the bytes are not an ONNX model: truncated, damaged or of another format", {}};
}

/// \throws onnx::error of kind `parse` if no model begins with these bytes
inline void check_onnx_beginning(std::string_view bytes) {
  std::size_t at = 0;
  auto const tag = read_protobuf_varint(bytes, at);
  bool const may_be = !tag || (*tag >> 3 > 0 && (*tag & 7) != 4 && (*tag & 7) < 6);
  if (!may_be) throw onnx::error(unreadable_onnx_fault(bytes));
}

/// The most bytes of a model; protobuf counts in int.
inline constexpr std::size_t most_onnx_bytes = 0x7fffffff;

/// Returns the limits of the file of a model. Nothing raises that of protobuf.
inline whole_file_limits file_limits_of(onnx::limits const& limits) {
  auto const most = (std::min)(limits.max_bytes, most_onnx_bytes);
  return {.most_bytes = most, .raised_by = most < most_onnx_bytes ? limits.raised_by : std::string_view()};
}

/// Returns the bytes of a model in a gzip file. \throws onnx::error of kind `file` if they exceed `limits`,
/// of kind `parse` if they cannot be unpacked
inline std::string unpack_onnx(std::string_view packed, onnx::limits const& limits) {
  auto const refuse = [](std::string const& why) { throw onnx::error({onnx::fault_kind::file, why, {}}); };
  auto const allowed = file_limits_of(limits);
  auto const max_bytes = static_cast<std::size_t>(allowed.most_bytes);
  auto const of_ratio = packed.size() > most_onnx_bytes / (std::max)(limits.max_ratio, std::size_t{1})
                            ? most_onnx_bytes
                            : (std::max)(std::size_t{256} << 20, limits.max_ratio * packed.size());
  auto bytes = unpack_gzip(packed, (std::min)(max_bytes, of_ratio));
  if (!bytes && of_ratio < max_bytes)
    refuse("it unpacks to more than " + format_bytes(of_ratio) +
           ", too much for a file of its size; if you trust it, decompress it first (gunzip -k)" +
           (limits.raised_by.empty() ? "" : ", or give " + std::string(limits.raised_by)));
  if (!bytes)
    refuse("it has more bytes than the limit of " + format_bytes(max_bytes) + " once it is unpacked" +
           (allowed.raised_by.empty() ? "" : "; " + std::string(allowed.raised_by) + " raises it"));
  return std::move(*bytes);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::onnx {

/// Returns the bytes of a model file; a file with suffix `.gz` is decompressed.
/// \throws onnx::error of kind `file` if it cannot be read or exceeds `limits`, of kind `parse` if no model
///   begins with its first bytes or if it cannot be decompressed
inline std::string read_file(std::filesystem::path const& path, onnx::limits const& limits = {}) {
  bool const is_packed = path.extension() == ".gz";
  auto const read = [&] {
    try {
      return detail::read_whole_file(
          path.string(), detail::file_limits_of(limits),
          [&](std::string_view begin) { is_packed ? void() : detail::check_onnx_beginning(begin); });
    } catch (detail::whole_file_error const& e) {
      throw error({fault_kind::file, e.witness, {}});
    }
  };
  return is_packed ? detail::unpack_onnx(read(), limits) : read();
}

/// Parses a model from the bytes of a file, without checking it (see `onnx::check`). Writes nothing to
/// stderr.
/// \throws onnx::error of kind `file`, `parse`, `depth` or `empty`
inline ::onnx::ModelProto parse(std::string_view bytes, onnx::limits const& limits = {}) {
  using enum fault_kind;
  constexpr std::size_t most = 0x7fffffff;  // protobuf counts in int
  if (bytes.size() > limits.max_bytes || bytes.size() > most)
    throw error({file,
                 "the model has " + std::to_string(bytes.size()) + " bytes, more than the limit of " +
                     std::to_string((std::min)(limits.max_bytes, most)) + "; keep weights as external data",
                 {}});
  google::protobuf::LogSilencer const quiet;
  ::onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    throw error(detail::unreadable_onnx_fault(bytes));
  if (!model.has_graph()) throw error({empty, "the model has no graph", {}});
  return model;
}

}  // namespace cleave::onnx

namespace cleave::inline v0_2::detail {

/// Reads and checks a model from a file of at most `limits.max_bytes`. Error messages begin with the path.
/// External data is never opened.
/// \throws onnx::error if the file cannot be read, is not a model, or has a fault by `find_onnx_fault`
inline ::onnx::ModelProto load_onnx(std::filesystem::path const& path, onnx::limits const& limits = {}) {
  try {
    auto model = onnx::parse(onnx::read_file(path, limits), limits);
    onnx::check(model, limits);
    return model;
  } catch (onnx::error const& e) {
    auto fault = e.witness;
    fault.message = printable(path.string()) + ": " + fault.message;
    throw onnx::error(fault);
  }
}

}  // namespace cleave::detail
