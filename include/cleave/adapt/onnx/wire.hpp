// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

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

/// How deep messages nest in the bytes of an ONNX model, as far as they can be followed: which fields hold
/// messages that may hold themselves again is known, everything else is stepped over. It tells a model that
/// protobuf refuses for its depth from bytes that are no model. O(size), no recursion.
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

}  // namespace cleave::detail
