// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint_content.hpp"
#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_fault.hpp"
#include "cleave/checkpoint/checkpoint_names.hpp"
#include "cleave/checkpoint/digest.hpp"
#include "cleave/checkpoint/durable_file.hpp"
#include "cleave/core/bytes.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/formats/bytes/envelope.hpp"

namespace cleave::detail {

/// \throws checkpoint_error where a manifest names it and it is not there, file_error
inline stored_file open_checkpoint_file(std::string const& path, std::string const& said) {
  try {
    return stored_file(path);
  } catch (file_error const& e) {
    if (e.witness.code != ENOENT) throw;
    throw checkpoint_error({checkpoint_fault::kind::missing_file, path, said});
  }
}

/// Fills `to` with the bytes of `file` from `offset` on. \throws checkpoint_error where they are not all
/// there or the disk does not give them back, file_error
inline void read_exactly(stored_file const& file, std::uint64_t offset, std::span<std::byte> to) {
  try {
    if (auto const got = file.read(offset, to); got < to.size())
      throw checkpoint_error({checkpoint_fault::kind::length, file.path(),
                              "it ends at byte " + std::to_string(offset + got) + "; it was cut short"});
  } catch (file_error const& e) {
    if (e.witness.code != EIO) throw;
    throw checkpoint_error({checkpoint_fault::kind::altered, file.path(), describe(e.witness)});
  }
}

/// The envelope of `size` bytes that a file begins with, once it was found sound. O(size).
/// \throws checkpoint_error, file_error
inline std::vector<std::byte> sealed_content_of(stored_file const& file, std::uint64_t size) {
  using enum checkpoint_fault::kind;
  if (size < envelope_header_bytes || size > file.size())
    throw checkpoint_error(
        {length, file.path(), "it has " + std::to_string(file.size()) + " bytes; it was cut short"});
  if (size > 2_GiB)
    throw checkpoint_error({structure, file.path(), "no content of a checkpoint has above 2 GiB"});
  std::vector<std::byte> sealed(size);
  read_exactly(file, 0, sealed);
  auto const fault = find_envelope_fault(sealed, sealed.size());
  if (!fault) return sealed;
  bool const newer = fault->what == envelope_fault::kind::version && fault->claimed > fault->found;
  bool const cut = fault->what == envelope_fault::kind::length;
  throw checkpoint_error({newer ? version : cut ? length : altered, file.path(), describe(*fault)});
}

/// What is in the envelope.
inline std::span<std::byte const> payload_of(std::span<std::byte const> sealed) {
  return sealed.subspan(envelope_header_bytes);
}

}  // namespace cleave::detail

namespace cleave {

/// The file of a rank, and what it has.
struct part_file {
  stored_file file;
  checkpoint_index index;
  std::uint64_t first_element;  ///< the byte
};

}  // namespace cleave

namespace cleave::detail {

/// Opens the file of `part` in `folder` and checks all but the elements. O(index).
/// \throws checkpoint_error, file_error
inline part_file open_part(std::string const& folder, checkpoint_part const& part) {
  using enum checkpoint_fault::kind;
  auto file = open_checkpoint_file(folder + "/" + part_name(part),
                                   "the manifest names it, and it is not there; copy it there too");
  auto const refuse = [&](checkpoint_fault::kind what, std::string const& said) {
    throw checkpoint_error({what, file.path(), said});
  };
  if (file.size() != part.bytes)
    refuse(length, "it has " + std::to_string(file.size()) + " bytes, the manifest says " +
                       std::to_string(part.bytes) +
                       (file.size() < part.bytes ? "; it was cut short" : "; something was appended"));
  auto const sealed = sealed_content_of(file, part.index_bytes);
  if (digest_of(payload_of(sealed)) != part.index)
    refuse(altered, "its digest is not what the manifest says; it is another file, or was altered");
  auto read = checkpoint_content(payload_of(sealed), file.path()).index();
  if (read.step != part.step || read.rank != part.rank)
    refuse(altered, "it is the file of step " + std::to_string(read.step) + " and rank " +
                        std::to_string(index(read.rank)) + ", not of its name");
  std::uint64_t bytes = part.index_bytes;
  for (auto const& t : read.tensors) bytes += t.bytes();
  if (bytes != part.bytes)
    refuse(structure, "its tensors take " + std::to_string(bytes) + " bytes in all, and it has " +
                          std::to_string(part.bytes));
  return {std::move(file), std::move(read), part.index_bytes};
}

/// Checks the elements of a tensor that begin at `offset`. O(bytes), in pieces.
/// \throws checkpoint_error, file_error
inline void check_elements(stored_file const& file, stored_tensor const& tensor, std::uint64_t offset) {
  std::vector<std::byte> piece(std::min<std::uint64_t>(checkpoint_piece, tensor.bytes()));
  element_digest found;
  for (std::uint64_t left = tensor.bytes(), at = offset; left > 0;) {
    auto const here = std::span(piece).first(std::min<std::uint64_t>(piece.size(), left));
    read_exactly(file, at, here);
    found.add(here);
    at += here.size();
    left -= here.size();
  }
  if (found.digest() != tensor.elements)
    throw checkpoint_error(
        {checkpoint_fault::kind::altered, file.path(),
         "the elements of " + quoted(tensor.names.front()) + " are not those that were written"});
}

}  // namespace cleave::detail
