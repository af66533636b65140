// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>
#include <xxhash.h>
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/generated/checkpoint_format.hpp"
#include "cleave/core/bytes.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/utf8.hpp"
#include "cleave/formats/bytes/envelope.hpp"
#include "cleave/formats/files/durable_file.hpp"
#include "cleave/run/model/named_tensor.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// Encodes and decodes the contents of checkpoint files. Decoding is safe for bytes from untrusted sources.
namespace cleave::inline v0_2::detail {

/// Version of the checkpoint format. Readers refuse greater versions.
inline constexpr std::uint32_t checkpoint_version = 1;

inline checkpoint_format::Digest stored_digest(checkpoint_digest const& d) { return {d.low, d.high}; }
inline checkpoint_digest digest_from(checkpoint_format::Digest const& d) { return {d.low(), d.high()}; }

/// Returns finished content as a byte vector.
inline std::vector<std::byte> finished_content(flatbuffers::FlatBufferBuilder& builder,
                                               flatbuffers::Offset<checkpoint_format::Part> part,
                                               flatbuffers::Offset<checkpoint_format::Manifest> manifest) {
  FinishContentBuffer(builder, checkpoint_format::CreateContent(builder, checkpoint_version, part, manifest));
  auto const bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

/// Returns an upper bound on the bytes of the content: the names of all tensors and their metadata.
inline std::uint64_t most_content_bytes(checkpoint_index const& from) {
  std::uint64_t total = 256;
  for (auto const& t : from.tensors) {
    total += 160;
    for (auto const& name : t.names) total += 16 + name.size();
  }
  return total;
}

/// Returns the bytes of an index. Their number does not depend on the digests. Expected O(size).
inline std::vector<std::byte> content_of(checkpoint_index const& from) {
  flatbuffers::FlatBufferBuilder to(most_content_bytes(from));
  std::vector<flatbuffers::Offset<checkpoint_format::Tensor>> tensors;
  for (auto const& t : from.tensors) {
    auto const extents = t.shape.list();
    auto const names = to.CreateVectorOfStrings(t.names);
    auto const shape = to.CreateVector(extents.data(), extents.size());
    auto const digest = stored_digest(t.elements);
    tensors.push_back(checkpoint_format::CreateTensor(
        to, names, static_cast<checkpoint_format::ElementType>(t.type), shape, &digest));
  }
  auto const part = checkpoint_format::CreatePartDirect(to, from.step, index(from.rank), &tensors);
  return finished_content(to, part, 0);
}

/// Returns the bytes of a manifest. O(size).
inline std::vector<std::byte> content_of(checkpoint_manifest const& from) {
  flatbuffers::FlatBufferBuilder to;
  std::vector<flatbuffers::Offset<checkpoint_format::Note>> notes;
  for (auto const& [key, value] : from.label.notes) {
    auto const stored_key = to.CreateString(key), stored_value = to.CreateString(value);
    notes.push_back(checkpoint_format::CreateNote(to, stored_key, stored_value));
  }
  std::vector<checkpoint_format::PartFile> parts;
  for (auto const& p : from.parts)
    parts.emplace_back(p.bytes, p.index_bytes, stored_digest(p.index), index(p.rank));
  auto const manifest = checkpoint_format::CreateManifestDirect(to, from.label.step, &notes, &parts);
  return finished_content(to, 0, manifest);
}

/// Decodes content after checking it. Invalid content throws.
class checkpoint_content {
 public:
  /// Checks `payload`, which must have the alignment of FlatBuffers and outlive the reader. `file` is its
  /// name in messages. O(size).
  /// \throws checkpoint_error
  checkpoint_content(std::span<std::byte const> payload, std::string const& file)
      : payload_(payload), file_(file), content_(checked()) {}

  /// Returns the index of a rank's file.
  /// \throws checkpoint_error
  checkpoint_index index() const {
    auto const* part = content_.part();
    if (!part || content_.manifest()) fail("it is not the file of a rank");
    checkpoint_index read{part->step(), rank_id{part->rank()}, {}};
    std::uint64_t text = 0, bytes = 0;
    for (auto const* t : *part->tensors()) {
      read.tensors.push_back(tensor(*t, text));
      auto const more = find_tensor_bytes(read.tensors.back().type, read.tensors.back().shape);
      if (!more || *more > (std::numeric_limits<std::uint64_t>::max)() - bytes)
        fail("a tensor has an invalid shape");
      bytes += *more;
    }
    return read;
  }

  /// Returns the manifest.
  /// \throws checkpoint_error
  checkpoint_manifest manifest() const {
    auto const* from = content_.manifest();
    if (!from || content_.part()) fail("it is not a manifest");
    checkpoint_manifest read{{from->step(), {}}, {}};
    std::uint64_t text = 0;
    for (auto const* n : *from->notes())
      read.label.notes.push_back({text_from(*n->key(), text), text_from(*n->value(), text)});
    require_aligned(*from->parts());
    for (auto const* p : *from->parts())
      read.parts.push_back(
          {from->step(), p->bytes(), p->index_bytes(), digest_from(p->index()), rank_id{p->rank()}});
    return read;
  }

 private:
  [[noreturn]] void fail(std::string const& said) const {
    throw checkpoint_error({checkpoint_fault::kind::structure, file_,
                            said + "; this library never writes such a file: do not use it"});
  }

  checkpoint_format::Content const& checked() const {
    auto const* data = reinterpret_cast<std::uint8_t const*>(payload_.data());
    bool const has_size = payload_.size() >= 8 && payload_.size() < std::size_t{1} << 31;
    // A table takes at least 16 bytes. The limit keeps small content from referring to the same table many
    // times.
    flatbuffers::Verifier verifier(data, payload_.size(), 8,
                                   static_cast<std::uint32_t>(payload_.size() / 16 + 8));
    if (!has_size || !checkpoint_format::VerifyContentBuffer(verifier))
      fail("its content is not valid FlatBuffers data of a checkpoint");
    auto const& content = *checkpoint_format::GetContent(data);
    if (content.version() == 0) fail("it has no version");
    if (content.version() > checkpoint_version)
      throw checkpoint_error({checkpoint_fault::kind::version, file_,
                              "it is a checkpoint of version " + std::to_string(content.version()) +
                                  ", this library reads version " + std::to_string(checkpoint_version) +
                                  "; read it with the version of the library that wrote it, or a newer one"});
    return content;
  }

  /// Checks the alignment of 8-byte numbers in a list, which the FlatBuffers verifier does not check.
  template <class T>
  void require_aligned(flatbuffers::Vector<T> const& list) const {
    if (list.size() > 0 && reinterpret_cast<std::uintptr_t>(list.Data()) % sizeof(std::uint64_t) != 0)
      fail("a list of numbers is not aligned");
  }

  stored_tensor tensor(checkpoint_format::Tensor const& from, std::uint64_t& text) const {
    stored_tensor read;
    for (auto const* name : *from.names()) {
      read.names.push_back(text_from(*name, text));
      if (read.names.back().empty()) fail("a tensor has an empty name");
    }
    if (read.names.empty()) fail("a tensor has no name");
    auto const type = static_cast<std::size_t>(from.type());
    if (type >= element_names.size()) fail("a tensor has elements of type " + std::to_string(type));
    read.type = static_cast<element_type>(type);
    if (from.shape()->size() > most_axes) fail("a tensor has too many axes");
    require_aligned(*from.shape());
    read.shape.axes = from.shape()->size();
    for (std::uint32_t i = 0; i < read.shape.axes; ++i) read.shape.extents[i] = from.shape()->Get(i);
    read.elements = digest_from(*from.digest());
    return read;
  }

  /// Returns a text. `so_far` counts the bytes of all texts; texts that overlap in the file could need more
  /// memory than the file has.
  std::string text_from(flatbuffers::String const& from, std::uint64_t& so_far) const {
    auto const text = from.string_view();
    so_far += text.size();
    if (so_far > payload_.size()) fail("texts overlap");
    if (!is_utf8(text)) fail("a text is not UTF-8");
    return std::string(text);
  }

  std::span<std::byte const> payload_;
  std::string file_;
  checkpoint_format::Content const& content_;
};

/// Returns the xxh3-128 digest.
inline checkpoint_digest digest_of(std::span<std::byte const> bytes) {
  auto const sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.low64, sum.high64};
}

/// Bytes of a tensor that are read, digested and written at a time. They fit in the cache.
inline constexpr std::size_t checkpoint_piece = 1_MiB;

/// Computes the digest of elements that arrive in pieces. The digest of one piece is its own; the digest of
/// several is that of their digests.
class element_digest {
 public:
  /// Adds a piece.
  /// \pre all previous pieces have `checkpoint_piece` bytes
  void add(std::span<std::byte const> piece) {
    expects(!last_, "a piece after whole ones");
    last_ = piece.size() != checkpoint_piece;
    pieces_.push_back(digest_of(piece));
  }
  /// Returns the digest of all pieces.
  checkpoint_digest digest() const {
    if (pieces_.size() == 1) return pieces_.front();
    return digest_of(std::as_bytes(std::span(pieces_)));
  }

 private:
  std::vector<checkpoint_digest> pieces_;
  bool last_ = false;
};

/// Opens a file of a checkpoint.
/// \param said message if the file does not exist
/// \throws checkpoint_error if the file does not exist; file_error
inline stored_file open_checkpoint_file(std::string const& path, std::string const& said) {
  try {
    return stored_file(path);
  } catch (file_error const& e) {
    // A folder or a FIFO of that name is not what a rank wrote.
    if (e.witness.code == 0)
      throw checkpoint_error({checkpoint_fault::kind::altered, path, describe(e.witness)});
    if (e.witness.code != ENOENT) throw;
    throw checkpoint_error({checkpoint_fault::kind::missing_file, path, said});
  }
}

/// Fills `to` with the bytes of `file` from `offset` on.
/// \throws checkpoint_error if the file is too short or the disk fails to read it; file_error
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

/// Returns the envelope of `size` bytes at the start of a file, after checking it. O(size).
/// \throws checkpoint_error, file_error
inline std::vector<std::byte> sealed_content_of(stored_file const& file, std::uint64_t size) {
  using enum checkpoint_fault::kind;
  if (size < envelope_header_bytes || size > file.size())
    throw checkpoint_error(
        {length, file.path(), "it has " + std::to_string(file.size()) + " bytes; it was cut short"});
  if (size > 2_GiB)
    throw checkpoint_error({structure, file.path(), "its content exceeds the limit of 2 GiB"});
  std::vector<std::byte> sealed(size);
  read_exactly(file, 0, sealed);
  auto const fault = find_envelope_fault(sealed, sealed.size());
  if (!fault) return sealed;
  bool const newer = fault->what == envelope_fault::kind::version && fault->claimed > fault->found;
  bool const cut = fault->what == envelope_fault::kind::length;
  throw checkpoint_error({newer ? version : cut ? length : altered, file.path(), describe(*fault)});
}

/// Returns the payload of an envelope.
inline std::span<std::byte const> payload_of(std::span<std::byte const> sealed) {
  return sealed.subspan(envelope_header_bytes);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The open file of a rank, with its index.
struct part_file {
  stored_file file;
  checkpoint_index index;
  std::uint64_t first_element;  ///< byte offset of the first element
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Opens the file of `part` in `folder` and checks everything except the elements. O(index).
/// \throws checkpoint_error, file_error
inline part_file open_part(std::string const& folder, checkpoint_part const& part) {
  using enum checkpoint_fault::kind;
  auto file =
      open_checkpoint_file(folder + "/" + part_name(part),
                           "the manifest names this file, but it does not exist; copy it to the folder");
  auto const refuse = [&](checkpoint_fault::kind what, std::string const& said) {
    throw checkpoint_error({what, file.path(), said});
  };
  if (file.size() != part.bytes)
    refuse(length, "it has " + std::to_string(file.size()) + " bytes, but the manifest expects " +
                       std::to_string(part.bytes) +
                       (file.size() < part.bytes ? "; it was cut short" : "; something was appended"));
  auto const sealed = sealed_content_of(file, part.index_bytes);
  if (digest_of(payload_of(sealed)) != part.index)
    refuse(altered, "its digest differs from the manifest; it is another file, or was altered");
  auto read = checkpoint_content(payload_of(sealed), file.path()).index();
  if (read.step != part.step || read.rank != part.rank)
    refuse(altered, "its content is of step " + std::to_string(read.step) + " and rank " +
                        std::to_string(index(read.rank)) + ", which differs from its name");
  std::uint64_t bytes = part.index_bytes;
  for (auto const& t : read.tensors) bytes += t.bytes();
  if (bytes != part.bytes)
    refuse(structure, "its index and tensors take " + std::to_string(bytes) + " bytes, but the file has " +
                          std::to_string(part.bytes));
  return {std::move(file), std::move(read), part.index_bytes};
}

/// Checks the digest of a tensor whose elements begin at byte `offset`. O(bytes), in pieces.
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

/// Reads a manifest. O(size).
/// \throws checkpoint_error, file_error
inline checkpoint_manifest read_manifest(std::string const& folder, checkpoint_file const& file) {
  auto const opened =
      open_checkpoint_file(folder + "/" + file.name, "it no longer exists; read the folder again");
  auto const sealed = sealed_content_of(opened, opened.size());
  auto read = checkpoint_content(payload_of(sealed), opened.path()).manifest();
  if (read.label.step != file.step)
    throw checkpoint_error(
        {checkpoint_fault::kind::altered, opened.path(),
         "it is of step " + std::to_string(read.label.step) + ", which differs from its name"});
  return read;
}

/// The location of a named tensor: its part and its index there.
struct stored_name {
  std::string_view name;
  std::size_t part, tensor;
};

/// Returns all tensor names, sorted. They refer to `parts`, which must outlive them. O(n log n).
inline std::vector<stored_name> sorted_names(std::vector<part_file> const& parts) {
  std::vector<stored_name> names;
  for (std::size_t p = 0; p < parts.size(); ++p)
    for (std::size_t t = 0; t < parts[p].index.tensors.size(); ++t)
      for (auto const& name : parts[p].index.tensors[t].names) names.push_back({name, p, t});
  std::ranges::sort(names, [](stored_name const& a, stored_name const& b) {
    return a.name != b.name ? a.name < b.name : a.part < b.part;
  });
  return names;
}

/// Opens all files of a manifest and checks that they form one checkpoint. O(indices).
/// \throws checkpoint_error, file_error
inline std::vector<part_file> open_parts(std::string const& folder, checkpoint_manifest const& manifest) {
  using enum checkpoint_fault::kind;
  auto const refuse = [&](checkpoint_fault::kind what, std::string const& said) {
    throw checkpoint_error({what, folder, said});
  };
  auto const step = std::to_string(manifest.label.step);
  if (manifest.parts.empty()) refuse(parts, "step " + step + " has no file of any rank");
  std::vector<std::uint32_t> ranks;
  for (auto const& part : manifest.parts) {
    if (part.step != manifest.label.step)
      refuse(parts, "rank " + std::to_string(index(part.rank)) + "'s file is of step " +
                        std::to_string(part.step) + ", but the checkpoint is of step " + step);
    ranks.push_back(index(part.rank));
  }
  std::ranges::sort(ranks);
  if (auto const twice = std::ranges::adjacent_find(ranks); twice != ranks.end())
    refuse(parts, "step " + step + " has two files of rank " + std::to_string(*twice));

  std::vector<part_file> opened;
  for (auto const& part : manifest.parts) opened.push_back(open_part(folder, part));
  auto const names = sorted_names(opened);
  auto const twice = std::ranges::adjacent_find(names, {}, &stored_name::name);
  if (twice != names.end())
    refuse(named_twice, quoted(twice->name) + " is stored by ranks " +
                            std::to_string(index(opened[twice[0].part].index.rank)) + " and " +
                            std::to_string(index(opened[twice[1].part].index.rank)) +
                            "; a shared tensor must be written by one rank only");
  return opened;
}

/// Returns the names of the files of a checkpoint, including its manifest. Returns nothing if a file is
/// missing or has the wrong length.
/// \throws file_error if the system cannot open or read a file
inline std::optional<std::vector<std::string>> complete_files(std::string const& folder,
                                                              checkpoint_file const& file) {
  try {
    std::vector<std::string> names{file.name};
    for (auto const& part : read_manifest(folder, file).parts) {
      names.push_back(part_name(part));
      if (open_checkpoint_file(folder + "/" + names.back(), {}).size() != part.bytes) return std::nullopt;
    }
    return names;
  } catch (checkpoint_error const&) {
    return std::nullopt;
  }
}

/// Removes the files that the newest `kept` complete checkpoints do not need.
///
/// These are older manifests, parts that no kept manifest names, and unfinished files. Parts and unfinished
/// files of steps after `step` stay, because ranks may be writing them. Until `kept` checkpoints are
/// complete, only unfinished files are removed. Files that cannot be removed stay.
inline void remove_old_checkpoints(std::string const& folder, std::uint64_t step, std::size_t kept) {
  std::vector<std::string> needed;
  std::size_t whole = 0;
  auto const files = checkpoint_files(folder);
  try {
    for (auto const& file : files) {
      if (file.what != checkpoint_file::kind::manifest || whole == kept) break;
      auto const names = complete_files(folder, file);
      if (!names) continue;
      needed.insert(needed.end(), names->begin(), names->end());
      ++whole;
    }
  } catch (file_error const&) {
    return;
  }
  std::ranges::sort(needed);
  for (auto const& file : files) {
    bool const unfinished = file.what == checkpoint_file::kind::unfinished;
    bool const manifest = file.what == checkpoint_file::kind::manifest;
    if (!manifest && file.step > step) continue;
    if (unfinished || (whole == kept && !std::ranges::binary_search(needed, file.name)))
      std::remove((folder + "/" + file.name).c_str());
  }
}

}  // namespace cleave::detail

/// Writes checkpoints atomically: a checkpoint exists completely or not at all. Each rank writes a file.
/// After all files are on the disk, one rank writes the manifest that names them.
namespace cleave::inline v0_2::detail {

/// Writes the elements of a tensor at `offset` and returns their digest, computed while they are in the
/// cache.
inline checkpoint_digest write_elements(pending_file const& to, std::uint64_t offset,
                                        tensor_view const& tensor) {
  auto const elements = tensor.elements();
  std::span const all(static_cast<std::byte const*>(elements.data), elements.bytes());
  element_digest found;
  for (std::size_t at = 0; at < all.size(); at += checkpoint_piece) {
    auto const piece = all.subspan(at, (std::min)(checkpoint_piece, all.size() - at));
    found.add(piece);
    to.write(offset + at, piece);
  }
  return found.digest();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Writes the state of one rank into a file in the existing folder `folder`. A rank without state writes a
/// file without tensors. A tensor that several ranks hold must be written by exactly one of them.
///
/// When the function returns, the file is on the disk. It belongs to no checkpoint until
/// `complete_checkpoint` is called. The elements are not copied, except by the system. O(bytes).
/// \throws named_tensor_error; checkpoint_error if the names exceed the limit of a file; file_error. If it
/// throws, nothing remains of the file
inline checkpoint_part write_checkpoint_part(std::string const& folder, std::uint64_t step, rank_id rank,
                                             std::span<named_tensor const> state) {
  static_assert(std::endian::native == std::endian::little, "files have the bytes as they are in memory");
  detail::require_named_tensors(state);
  checkpoint_index about{step, rank, {}};
  for (auto const& [names, tensor] : state) about.tensors.push_back({names, tensor.type, tensor.shape, {}});
  if (detail::most_content_bytes(about) > 1_GiB)
    throw checkpoint_error({checkpoint_fault::kind::above_limit, folder + "/" + detail::part_stem(step, rank),
                            "the names of its tensors exceed 1 GiB; distribute the state over more ranks"});

  checkpoint_part written{
      step, detail::envelope_header_bytes + detail::content_of(about).size(), 0, {}, rank};
  written.index_bytes = written.bytes;
  pending_file file(folder, detail::part_stem(step, rank));
  for (std::size_t i = 0; i < state.size(); ++i) {
    about.tensors[i].elements = detail::write_elements(file, written.bytes, state[i].tensor);
    written.bytes += about.tensors[i].bytes();
  }
  auto const content = detail::content_of(about);
  expects(detail::envelope_header_bytes + content.size() == written.index_bytes, "room for the index");
  file.write(0, detail::seal_envelope(content));
  written.index = detail::digest_of(content);
  file.keep(detail::part_name(written));
  return written;
}

/// Options of `complete_checkpoint`.
struct checkpoint_options {
  std::size_t kept = 2;  ///< number of checkpoints to keep, including the new one; at least 1
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the reason why `notes` cannot be stored, or nothing.
inline std::optional<std::string> find_note_fault(std::vector<checkpoint_note> const& notes) {
  std::vector<std::string_view> keys;
  for (auto const& [key, value] : notes) {
    if (key.empty()) return "a note has no key";
    if (!is_utf8(key) || !is_utf8(value)) return "the note " + quoted(key) + " is not UTF-8";
    keys.push_back(key);
  }
  std::ranges::sort(keys);
  if (auto const twice = std::ranges::adjacent_find(keys); twice != keys.end())
    return "the key of a note is repeated: " + quoted(*twice);
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2::detail {

/// Returns a serial number that no file name has yet, above that of the newest manifest that can be read.
/// Returns 0 if all greater numbers are taken. Damaged manifests, and files that only have such a name, are
/// skipped.
inline std::uint64_t next_serial(std::string const& folder) {
  auto const files = checkpoint_files(folder);
  std::vector<std::uint64_t> used;
  std::uint64_t next = 1;
  for (auto const& file : files) {
    if (file.what != checkpoint_file::kind::manifest) break;
    used.push_back(file.serial);
    try {
      read_manifest(folder, file);
    } catch (checkpoint_error const& e) {
      if (is_damage(e.witness.what)) continue;
    } catch (file_error const&) {  // it may be whole
    }
    next = file.serial + 1;
    break;
  }
  while (next != 0 && std::ranges::find(used, next) != used.end()) ++next;
  return next;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Completes the checkpoint of a step and removes older checkpoints. Returns its serial number.
///
/// \param parts results of `write_checkpoint_part` on all ranks
/// \pre options.kept >= 1
/// \throws checkpoint_error, file_error
///
/// The files of the parts are first read back and checked, except for their elements. When the function
/// returns, the new checkpoint is complete and the newest. If it throws or the process ends earlier, the
/// previous checkpoint stays the newest.
inline std::uint64_t complete_checkpoint(std::string const& folder, checkpoint_label const& label,
                                         std::span<checkpoint_part const> parts,
                                         checkpoint_options const& options = {}) {
  expects(options.kept >= 1, "the new checkpoint is kept");
  if (auto const fault = detail::find_note_fault(label.notes))
    throw checkpoint_error({checkpoint_fault::kind::note, folder, *fault});
  detail::checkpoint_manifest const manifest{label, {parts.begin(), parts.end()}};
  detail::open_parts(folder, manifest);

  auto const serial = detail::next_serial(folder);
  if (serial == 0)
    throw checkpoint_error({checkpoint_fault::kind::parts, folder,
                            "the serial numbers of this folder are used up; write to another folder"});
  auto const stem = detail::manifest_stem(serial, label.step);
  pending_file file(folder, stem);
  file.write(0, detail::seal_envelope(detail::content_of(manifest)));
  file.keep(stem + std::string(detail::manifest_ending));
  try {
    detail::remove_old_checkpoints(folder, label.step, options.kept);
  } catch (std::bad_alloc const&) {  // the new one is complete; the next one removes what this one leaves
  }
  return serial;
}

/// Writes a checkpoint of a single rank that holds all state. Returns its serial number.
/// \throws named_tensor_error, checkpoint_error, file_error
inline std::uint64_t write_checkpoint(std::string const& folder, checkpoint_label const& label,
                                      std::span<named_tensor const> state,
                                      checkpoint_options const& options = {}) {
  auto const part = write_checkpoint_part(folder, label.step, rank_id{0}, state);
  return complete_checkpoint(folder, label, std::span(&part, 1), options);
}

}  // namespace cleave
