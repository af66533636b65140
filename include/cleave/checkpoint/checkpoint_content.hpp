// SPDX-License-Identifier: MIT
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/checkpoint/checkpoint_data.hpp"
#include "cleave/checkpoint/checkpoint_fault.hpp"
#include "cleave/checkpoint/generated/checkpoint_format.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/utf8.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// What is in the envelopes of a checkpoint, to bytes and back, safe against bytes from anybody.
namespace cleave::detail {

/// Of what a checkpoint is. Whoever reads a greater one refuses it.
inline constexpr std::uint32_t checkpoint_version = 1;

inline checkpoint_format::Digest stored_digest(checkpoint_digest const& d) { return {d.low, d.high}; }
inline checkpoint_digest digest_from(checkpoint_format::Digest const& d) { return {d.low(), d.high()}; }

/// Finished content as bytes of its own.
inline std::vector<std::byte> finished_content(flatbuffers::FlatBufferBuilder& builder,
                                               flatbuffers::Offset<checkpoint_format::Part> part,
                                               flatbuffers::Offset<checkpoint_format::Manifest> manifest) {
  FinishContentBuffer(builder, checkpoint_format::CreateContent(builder, checkpoint_version, part, manifest));
  auto const bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

/// How many bytes the names of all tensors take, and what goes with them, at most.
inline std::uint64_t most_content_bytes(checkpoint_index const& from) {
  std::uint64_t total = 256;
  for (auto const& t : from.tensors) {
    total += 160;
    for (auto const& name : t.names) total += 16 + name.size();
  }
  return total;
}

/// The bytes of an index; how many they are does not depend on its digests. Expected O(size).
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

/// The bytes of a manifest. O(size).
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

/// Reads content once it was found sound; what refuses it is thrown.
class checkpoint_content {
 public:
  /// `payload` is aligned as FlatBuffers are, and outlives the reader; `file` is what messages call it.
  /// O(size). \throws checkpoint_error
  checkpoint_content(std::span<std::byte const> payload, std::string const& file)
      : payload_(payload), file_(file), content_(checked()) {}

  /// \throws checkpoint_error
  checkpoint_index index() const {
    auto const* part = content_.part();
    if (!part || content_.manifest()) fail("it is no file of a rank");
    checkpoint_index read{part->step(), rank_id{part->rank()}, {}};
    std::uint64_t text = 0, bytes = 0;
    for (auto const* t : *part->tensors()) {
      read.tensors.push_back(tensor(*t, text));
      auto const more = find_tensor_bytes(read.tensors.back().type, read.tensors.back().shape);
      if (!more || *more > (std::numeric_limits<std::uint64_t>::max)() - bytes)
        fail("a tensor has a shape that no tensor has");
      bytes += *more;
    }
    return read;
  }

  /// \throws checkpoint_error
  checkpoint_manifest manifest() const {
    auto const* from = content_.manifest();
    if (!from || content_.part()) fail("it is no manifest");
    checkpoint_manifest read{{from->step(), {}}, {}};
    std::uint64_t text = 0;
    for (auto const* n : *from->notes())
      read.label.notes.push_back({text_from(*n->key(), text), text_from(*n->value(), text)});
    demand_aligned(*from->parts());
    for (auto const* p : *from->parts())
      read.parts.push_back(
          {from->step(), p->bytes(), p->index_bytes(), digest_from(p->index()), rank_id{p->rank()}});
    return read;
  }

 private:
  [[noreturn]] void fail(std::string const& said) const {
    throw checkpoint_error({checkpoint_fault::kind::structure, file_,
                            said + "; this library writes no such file: do not use it"});
  }

  checkpoint_format::Content const& checked() const {
    auto const* data = reinterpret_cast<std::uint8_t const*>(payload_.data());
    bool const has_size = payload_.size() >= 8 && payload_.size() < std::size_t{1} << 31;
    // No table takes less than 16 bytes; so the same table cannot be named more often than it pays for.
    flatbuffers::Verifier verifier(data, payload_.size(), 8,
                                   static_cast<std::uint32_t>(payload_.size() / 16 + 8));
    if (!has_size || !checkpoint_format::VerifyContentBuffer(verifier))
      fail("it is no FlatBuffers content of a checkpoint");
    auto const& content = *checkpoint_format::GetContent(data);
    if (content.version() == 0) fail("it says no version");
    if (content.version() > checkpoint_version)
      throw checkpoint_error({checkpoint_fault::kind::version, file_,
                              "it is a checkpoint of version " + std::to_string(content.version()) +
                                  ", this library reads version " + std::to_string(checkpoint_version) +
                                  "; read it with the version of the library that wrote it, or a newer one"});
    return content;
  }

  /// FlatBuffers' verifier asks where a list begins, but not whether numbers of 8 bytes may lie there.
  template <class T>
  void demand_aligned(flatbuffers::Vector<T> const& list) const {
    if (list.size() > 0 && reinterpret_cast<std::uintptr_t>(list.Data()) % sizeof(std::uint64_t) != 0)
      fail("a list does not lie where its numbers may");
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
    demand_aligned(*from.shape());
    read.shape.axes = from.shape()->size();
    for (std::uint32_t i = 0; i < read.shape.axes; ++i) read.shape.extents[i] = from.shape()->Get(i);
    read.elements = digest_from(*from.digest());
    return read;
  }

  /// `so_far` counts the bytes of all texts: several in the same bytes would take more memory than the file.
  std::string text_from(flatbuffers::String const& from, std::uint64_t& so_far) const {
    auto const text = from.string_view();
    so_far += text.size();
    if (so_far > payload_.size()) fail("texts share their bytes");
    if (!is_utf8(text)) fail("a text is no UTF-8");
    return std::string(text);
  }

  std::span<std::byte const> payload_;
  std::string file_;
  checkpoint_format::Content const& content_;
};

}  // namespace cleave::detail
